"""Canonical JSON against the RFC 8785 vectors and an independent implementation."""

import json
import math
import struct
from pathlib import Path

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from workbench.canonical import canonical_json

CASES = ["arrays", "french", "structures", "unicode", "values", "weird"]


@pytest.mark.parametrize("case", CASES)
def test_canonical_json_official_case_gives_the_published_bytes(
    shared_data: Path, case: str
) -> None:
    folder = shared_data / "ledger-vectors" / "rfc8785"
    value = json.loads((folder / "input" / f"{case}.json").read_text("utf-8"))
    got = canonical_json(value)
    assert got == (folder / "output" / f"{case}.json").read_bytes()
    assert got.hex() == "".join((folder / "outhex" / f"{case}.txt").read_text().split())


def test_canonical_json_thousand_doubles_match_ecmascript(shared_data: Path) -> None:
    lines = (shared_data / "ledger-vectors" / "rfc8785" / "es6numbers-1000.txt").read_text()
    pairs = [line.split(",") for line in lines.split()]
    assert len(pairs) == 1000
    for bits, expected in pairs:
        (value,) = struct.unpack(">d", bytes.fromhex(bits.rjust(16, "0").zfill(16)))
        assert canonical_json(value).decode() == expected


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_canonical_json_any_value_equals_the_oracle(value: object) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "\ud800", 2**53, {1, 2}])
def test_canonical_json_value_outside_json_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"no |outside|not a JSON"):
        canonical_json(value)
