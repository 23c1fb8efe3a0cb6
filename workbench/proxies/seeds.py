"""Seeds of proxies and repeats: derived, so nobody picks them and a replay has the same ones."""

import hashlib


def trial_seed(sampler_seed: int, draw: int) -> int:
    """Return the training seed of a sweep's point number ``draw``; a retry keeps it."""
    return _derived(f"trial/v1|{sampler_seed}|{draw}")


def rerun_seed(root: str, scale: str, index: int) -> int:
    """Return the fresh seed ``index`` of a scale: the same for the control and every candidate.

    It derives from the registration's leaf (exploring: from that of the sweep's first start), so
    nobody knew it before; under another prefix than the trials', so no trial ever had it.
    """
    return _derived(f"rerun/v1|{root}|{scale}|{index}")


def repeat_seed(config_sha256: str, corpus_manifest: str, index: int) -> int:
    """Return the training seed of repeat ``index`` of a configuration on a corpus.

    Nobody picks it and a longer series has those of a shorter one; under a prefix of its own, so no
    trial, re-run or registered run ever has it.
    """
    return _derived(f"repeat/v1|{config_sha256}|{corpus_manifest}|{index}")


def sampler_seed_of(sampler_seed: int, draw: int, coordinate: str = "") -> int:
    """Return the 32-bit seed of the sampler that proposes a point, or one coordinate of it."""
    return _derived(f"sampler/v1|{sampler_seed}|{draw}|{coordinate}") & 0xFFFFFFFF


def _derived(text: str) -> int:
    # 63 bits: generators that take signed or unsigned 64-bit seeds agree on them.
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
