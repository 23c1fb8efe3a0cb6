"""The Merkle tree and its proofs against public vectors and a plain recursive definition."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.registry.reference import consistency_proof, frontier_of, inclusion_proof
from workbench.errors import IntegrityError
from workbench.registry.merkle import (
    Frontier,
    leaf_hash,
    node_hash,
    tree_root,
    verify_consistency,
    verify_inclusion,
)


def _cases(shared_data: Path, name: str) -> list[dict[str, object]]:
    path = shared_data / "ledger-vectors" / "transparency-dev-merkle" / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def _proof(case: dict[str, object]) -> list[bytes]:
    return [base64.b64decode(text) for text in case["proof"] or []]  # type: ignore[attr-defined]


def _accepts(check: object, *arguments: object) -> bool:
    try:
        check(*arguments)  # type: ignore[operator]
    except IntegrityError:
        return False
    return True


def test_inclusion_all_98_public_cases_accept_and_reject_as_published(shared_data: Path) -> None:
    cases = _cases(shared_data, "inclusion")
    wrong = [
        case["file"]
        for case in cases
        if _accepts(
            verify_inclusion,
            base64.b64decode(case["leafHash"]),  # type: ignore[arg-type]
            case["leafIdx"],
            case["treeSize"],
            _proof(case),
            base64.b64decode(case["root"]),  # type: ignore[arg-type]
        )
        is case["wantErr"]
    ]
    assert (len(cases), wrong) == (98, [])
    assert {case["wantErr"] for case in cases} == {True, False}


def test_consistency_all_98_public_cases_accept_and_reject_as_published(shared_data: Path) -> None:
    cases = _cases(shared_data, "consistency")
    wrong = [
        case["file"]
        for case in cases
        if _accepts(
            verify_consistency,
            case["size1"],
            case["size2"],
            base64.b64decode(case["root1"]),  # type: ignore[arg-type]
            base64.b64decode(case["root2"]),  # type: ignore[arg-type]
            _proof(case),
        )
        is case["wantErr"]
    ]
    assert (len(cases), wrong) == (98, [])
    assert {case["wantErr"] for case in cases} == {True, False}


def test_roots_reference_tree_equals_the_published_ones(shared_data: Path) -> None:
    vectors = json.loads((shared_data / "ledger-vectors" / "rfc6962_roots.json").read_text())
    leaves = [leaf_hash(bytes.fromhex(text)) for text in vectors["leaves_hex"]]
    got = [tree_root(leaves[:size]).hex() for size in range(len(leaves) + 1)]
    assert got == vectors["roots_hex_by_size"]
    hasher = vectors["hasher"]
    assert leaf_hash(b"").hex() == hasher["leaf_of_empty"]
    assert leaf_hash(b"L123456").hex() == hasher["leaf_of_ascii_L123456"]
    assert node_hash(b"N123", b"N456").hex() == hasher["node_of_ascii_N123_N456"]


def _slow_root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962 section 2.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    left, right = _slow_root(leaves[:split]), _slow_root(leaves[split:])
    return hashlib.sha256(b"\x01" + left + right).digest()


LEAVES = [leaf_hash(str(i).encode()) for i in range(70)]


@pytest.mark.parametrize("size", range(70))
def test_tree_every_size_agrees_with_the_recursive_definition_and_its_own_proofs(size: int) -> None:
    leaves = LEAVES[:size]
    root = _slow_root(leaves)
    frontier = frontier_of(leaves)
    assert frontier.root() == root
    assert Frontier.from_bytes(size, frontier.to_bytes()) == frontier
    for index in range(size):
        verify_inclusion(leaves[index], index, size, inclusion_proof(leaves, index), root)
    for old in range(1, size + 1):
        proof = consistency_proof(leaves, old)
        verify_consistency(old, size, _slow_root(leaves[:old]), root, proof)


@given(st.data())
def test_proofs_any_single_change_is_refused(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 40))
    leaves = LEAVES[:size]
    root = tree_root(leaves)
    index = data.draw(st.integers(0, size - 1))
    proof = inclusion_proof(leaves, index)
    at = data.draw(st.integers(0, len(proof) - 1))
    changed = [*proof[:at], leaf_hash(proof[at]), *proof[at + 1 :]]
    for bad in (changed, proof[:-1], [*proof, LEAVES[0]]):
        with pytest.raises(IntegrityError):
            verify_inclusion(leaves[index], index, size, bad, root)
    old = data.draw(st.integers(1, size - 1))
    good = consistency_proof(leaves, old)
    other_old = tree_root([*leaves[: old - 1], leaf_hash(b"other")])
    for bad in (good[:-1], [*good, LEAVES[0]], [leaf_hash(good[0]), *good[1:]]):
        with pytest.raises(IntegrityError):
            verify_consistency(old, size, tree_root(leaves[:old]), root, bad)
    with pytest.raises(IntegrityError):
        verify_consistency(old, size, other_old, root, good)


@pytest.mark.parametrize(("size", "data"), [(1, b""), (3, b"x" * 32), (1, b"x" * 31), (-1, b"")])
def test_frontier_from_bytes_that_fit_no_tree_is_refused(size: int, data: bytes) -> None:
    with pytest.raises(IntegrityError):
        Frontier.from_bytes(size, data)
