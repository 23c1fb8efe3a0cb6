"""The log that Tessera built for its own tests, read with our reader: every head, every proof."""

from pathlib import Path

import pytest

from workbench.errors import IntegrityError
from workbench.registry import proofs
from workbench.registry.heads import SignedHead, verify_head
from workbench.registry.merkle import leaf_hash, verify_consistency, verify_inclusion
from workbench.registry.notes import VerifierKey
from workbench.registry.published import PublishedLog
from workbench.registry.tiles import Tile, level_tiles, read_bundle

SIZES = range(16)


@pytest.fixture(scope="module")
def testlog(shared_data: Path) -> Path:
    return shared_data / "ledger-vectors" / "tessera-testlog"


@pytest.fixture(scope="module")
def heads(testlog: Path) -> list[SignedHead]:
    key = VerifierKey.parse((testlog / "log.vkey").read_text())
    notes = [(testlog / "log" / f"checkpoint.{size}").read_text("utf-8") for size in SIZES]
    return [verify_head(note, key) for note in notes]


class AtSize:
    """The log as its readers found it when it had this many entries: partial tiles of that size."""

    def __init__(self, folder: Path, size: int) -> None:
        self._tiles = proofs.TileHashes(lambda name: (folder / name).read_bytes(), size)

    def hashes(self, level: int, start: int, stop: int) -> list[bytes]:
        return self._tiles.hashes(level, start, stop)


@pytest.mark.parametrize("size", SIZES)
def test_head_every_size_is_signed_and_its_tiles_and_entries_give_its_root(
    testlog: Path, heads: list[SignedHead], size: int
) -> None:
    head = heads[size]
    assert (head.origin, head.size) == ("example.com/log/testdata", size)
    for source in (AtSize(testlog / "log", size), PublishedLog(testlog / "log")):
        assert proofs.root(source, size) == head.root
    for tile in level_tiles(0, size):
        data = (testlog / "log" / tile.bundle_path).read_bytes()
        leaves = [leaf_hash(entry) for entry in read_bundle(data, tile)]
        assert leaves == AtSize(testlog / "log", size).hashes(0, tile.start, tile.start + size)


@pytest.mark.parametrize("size", SIZES)
def test_inclusion_every_entry_is_proved_from_the_tiles(
    testlog: Path, heads: list[SignedHead], size: int
) -> None:
    log = PublishedLog(testlog / "log")
    bundle = Tile(level=0, index=0, width=15)
    entries = read_bundle((testlog / "log" / bundle.bundle_path).read_bytes(), bundle)
    for index in range(size):
        proof = proofs.inclusion(log, index, size)
        verify_inclusion(leaf_hash(entries[index]), index, size, proof, heads[size].root)
        with pytest.raises(IntegrityError):
            verify_inclusion(leaf_hash(b"other"), index, size, proof, heads[size].root)


@pytest.mark.parametrize("size", SIZES)
def test_consistency_with_every_earlier_head_is_proved_from_the_tiles(
    testlog: Path, heads: list[SignedHead], size: int
) -> None:
    log = PublishedLog(testlog / "log")
    for old in range(1, size + 1):
        proof = proofs.consistency(log, old, size)
        verify_consistency(old, size, heads[old].root, heads[size].root, proof)
        if old < size:
            with pytest.raises(IntegrityError):
                verify_consistency(old, size, heads[size].root, heads[size].root, proof)
