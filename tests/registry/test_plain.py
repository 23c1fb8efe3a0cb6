"""What the quick way accepts, the careful way accepts too, and reads alike."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.registry.stories import tell_changes
from workbench.canonical import canonical_json, freeze, parse_json, profile_faults
from workbench.errors import IntegrityError
from workbench.registry.log import read_envelope, read_outline
from workbench.registry.plain import plain_envelopes, plain_value, plain_values

CHANGES = tell_changes()
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def _careful(data: bytes) -> object:
    value = parse_json(data)
    assert not profile_faults(value)
    assert canonical_json(value) == data
    return value


@given(VALUES)
def test_plain_value_is_one_that_the_careful_way_accepts(value: object) -> None:
    spellings = [json.dumps(value), json.dumps(value, ensure_ascii=False, separators=(",", ":"))]
    for text in spellings:
        data = text.encode("utf-8", "surrogatepass")
        found = plain_value(data)
        if found is not None:
            assert found == _careful(data)


def test_plain_values_are_found_where_they_are_canonical() -> None:
    value = freeze({"b": [1, True, {"c": "é\n\x1f"}], "a": "x", "d_1": -(2**53 - 1)})
    data = canonical_json(value)
    assert plain_value(data) == value


@pytest.mark.parametrize(
    "text",
    ['{"b":1,"a":2}', '{"a":1,"a":1}', '{"a": 1}', '{"a":1.5}', '{"a":null}', '{"A":1}', '{"":1}',
     '{"a":9007199254740992}', '{"a":"\\u0061"}', '{"a":"e\u0301"}', "null", "NaN", "{", "",
     '{"a":1},{"b":2}', "1,2", '{"a":-0}', '{"a":"\\/"}'],
)  # fmt: skip
def test_value_that_is_not_plain_is_left_to_the_careful_way(text: str) -> None:
    assert plain_value(text.encode()) is None


def test_values_that_are_plain_only_together_are_not_plain() -> None:
    assert plain_values([b'{"a":[1', b"2]}"]) is None
    assert plain_values([b"1,2", b""]) is None
    assert plain_values([b'"a","b"']) is None


def test_envelope_changed_anywhere_is_read_alike_by_both_ways() -> None:
    data = CHANGES.stored[5].envelope
    for at in range(len(data)):
        flipped = bytes([data[at] ^ 1])
        for new in (b"", flipped, b"A", b"\n" + data[at : at + 1]):
            changed = data[:at] + new + data[at + 1 :]
            (row,) = plain_envelopes([changed]) or (None,)
            try:
                careful = read_envelope(changed)
            except IntegrityError:
                assert row is None
                with pytest.raises(IntegrityError):
                    read_outline(changed)
                continue
            outline = read_outline(changed)
            assert list(outline.refs) == careful.refs
            for name in ("actor", "body_hash", "id", "kind", "log", "subject", "time"):
                assert getattr(outline, name) == getattr(careful, name)


def test_envelopes_with_a_line_break_are_not_mistaken_for_two() -> None:
    first, second = (stored.envelope for stored in CHANGES.stored[:2])
    assert plain_envelopes([first, second]) is not None
    assert plain_envelopes([first + b"\n" + second]) is None
    assert plain_envelopes([first + b"\n", second]) is None
    assert plain_envelopes([]) is None or plain_envelopes([]) == []
