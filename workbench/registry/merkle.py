"""The Merkle tree of RFC 6962 and its proofs. Bytes in, bytes out; knows nothing of entries.

Verification follows RFC 9162, sections 2.1.3.2 and 2.1.4.2. Every hash is 32 bytes of SHA-256.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workbench.errors import IntegrityError

HASH_SIZE = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    """Return SHA-256(0x00 ‖ data) (RFC 6962, section 2.1)."""
    return hashlib.sha256(b"\x00" + data).digest()


def leaf_hashes(entries: Iterable[bytes]) -> list[bytes]:
    """Return `leaf_hash` of each."""
    sha256 = hashlib.sha256
    return [sha256(b"\x00" + data).digest() for data in entries]


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return SHA-256(0x01 ‖ left ‖ right) (RFC 6962, section 2.1)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """What is needed of a tree to append to it: the roots of its perfect subtrees, O(log n)."""

    size: int = 0
    peaks: tuple[bytes, ...] = ()
    """Largest subtree first, one for each bit set in ``size``."""

    def __post_init__(self) -> None:
        if self.size < 0 or len(self.peaks) != self.size.bit_count():
            raise IntegrityError(f"{len(self.peaks)} subtree roots do not make {self.size} leaves")
        if any(len(peak) != HASH_SIZE for peak in self.peaks):
            raise IntegrityError("a subtree root is not 32 bytes")

    def appended(self, leaf: bytes) -> "Frontier":
        """Return the frontier with one more leaf hash."""
        peaks = [*self.peaks, leaf]
        remaining = self.size
        while remaining & 1:
            right = peaks.pop()
            peaks.append(node_hash(peaks.pop(), right))
            remaining >>= 1
        return Frontier(size=self.size + 1, peaks=tuple(peaks))

    def root(self) -> bytes:
        """Return the root of the tree; of no leaves it is SHA-256 of nothing."""
        if not self.peaks:
            return EMPTY_ROOT
        *rest, root = self.peaks
        for peak in reversed(rest):
            root = node_hash(peak, root)
        return root

    def to_bytes(self) -> bytes:
        """Return the subtree roots, one after the other."""
        return b"".join(self.peaks)

    @classmethod
    def from_bytes(cls, size: int, data: bytes) -> "Frontier":
        """Return the frontier that `to_bytes` wrote.

        Raises:
            IntegrityError: the bytes are not the subtree roots of a tree of that size.
        """
        peaks = tuple(data[i : i + HASH_SIZE] for i in range(0, len(data), HASH_SIZE))
        return cls(size=size, peaks=peaks)


def tree_root(leaves: Iterable[bytes]) -> bytes:
    """Return the root of the tree over these leaf hashes."""
    sha256, level = hashlib.sha256, list(leaves)
    while len(level) > 1:
        # A last hash without a sibling rises as it is: the tree of RFC 6962, level by level.
        pairs = zip(level[::2], level[1::2], strict=False)
        paired = [sha256(b"\x01" + left + right).digest() for left, right in pairs]
        level = [*paired, *level[len(paired) * 2 :]]
    return level[0] if level else EMPTY_ROOT


def complete_root(hashes: list[bytes]) -> bytes:
    """Return the root over 2^k hashes; quicker than `tree_root`, which takes any number."""
    while len(hashes) > 1:
        hashes = list(map(node_hash, hashes[::2], hashes[1::2]))
    return hashes[0]


def largest_power_below(size: int) -> int:
    """Return the largest power of two below the size."""
    return 1 << ((size - 1).bit_length() - 1)


def verify_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> None:
    """Check that the leaf hash is at this index of the tree (RFC 9162, section 2.1.3.2).

    Raises:
        IntegrityError: it is not, or the proof is malformed.
    """
    _check_hashes([leaf, root, *proof])
    if not 0 <= index < size:
        raise IntegrityError(f"leaf {index} is not in a tree of {size}")
    at, last, found = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            raise IntegrityError("the inclusion proof is longer than the tree is high")
        if at & 1 or at == last:
            found = node_hash(sibling, found)
            at, last = _climb(at, last)
        else:
            found = node_hash(found, sibling)
        at, last = at >> 1, last >> 1
    if last != 0 or found != root:
        raise IntegrityError(f"leaf {index} is not under this root of {size} leaves")


def verify_consistency(
    old_size: int, new_size: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]
) -> None:
    """Check that the old tree is a prefix of the new one (RFC 9162, section 2.1.4.2).

    Raises:
        IntegrityError: it is not, the old tree is empty, or the proof is malformed.
    """
    if old_size == new_size:
        # Nothing is hashed here: equal roots are equal trees, save that the empty root is fixed.
        if proof or old_root != new_root or (old_size == 0 and old_root != EMPTY_ROOT):
            raise IntegrityError(
                f"two trees of {old_size} leaves differ, or their proof has hashes"
            )
        return
    _check_hashes([old_root, new_root, *proof])
    if not 0 < old_size < new_size or not proof:
        raise IntegrityError(f"{old_size} leaves cannot be shown to be a prefix of {new_size}")
    power_of_two = old_size & (old_size - 1) == 0
    path = [old_root, *proof] if power_of_two else list(proof)
    roots = _walk(path, old_size, new_size)
    if roots != (old_root, new_root):
        raise IntegrityError(f"the tree of {old_size} leaves is not a prefix of that of {new_size}")


def _walk(path: list[bytes], old_size: int, new_size: int) -> tuple[bytes, bytes]:
    """Return the old and the new root that the path leads to."""
    at, last = old_size - 1, new_size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            raise IntegrityError("the consistency proof is longer than the tree is high")
        if at & 1 or at == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            at, last = _climb(at, last)
        else:
            new = node_hash(new, sibling)
        at, last = at >> 1, last >> 1
    if last != 0:
        raise IntegrityError("the consistency proof is shorter than the tree is high")
    return old, new


def _climb(at: int, last: int) -> tuple[int, int]:
    """Skip the levels at which the node is a left child without a sibling."""
    while not at & 1 and at != 0:
        at, last = at >> 1, last >> 1
    return at, last


def _check_hashes(hashes: Sequence[bytes]) -> None:
    for value in hashes:
        if len(value) != HASH_SIZE:
            raise IntegrityError(f"a hash of {len(value)} bytes is not SHA-256")
