"""Time-locked seeds."""

import hashlib
import hmac

from workbench.registry.seeds import time_locked_seed


def test_seed_follows_the_written_formula() -> None:
    key = hashlib.sha256(b"note\n").digest()
    mac = hmac.new(key, b"seed/v1|" + b"ab" * 32 + b"|3", hashlib.sha256).digest()
    assert time_locked_seed("note\n", "ab" * 32, 3) == int.from_bytes(mac[:8], "big")


def test_seed_known_value_stays() -> None:
    assert time_locked_seed("note\n", "ab" * 32, 0) == GOLDEN


def test_seeds_differ_by_head_registration_and_index() -> None:
    seeds = {
        time_locked_seed(note, leaf, index)
        for note in ("a", "b")
        for leaf in ("00", "01")
        for index in range(50)
    }
    assert len(seeds) == 200
    assert all(0 <= seed < 2**64 for seed in seeds)


GOLDEN = 10541569966761801962
