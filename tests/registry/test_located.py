"""The strict YAML subset and its lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import Fault, InvalidFileError
from workbench.registry.located import decode, in_file_order, key_name, read_yaml


def test_read_yaml_core_schema_reads_what_yaml_1_2_says() -> None:
    text = """
yes_is_text: yes
date_is_text: 2026-01-01
underscore_is_text: 1_000
octal: 0o17
hexadecimal: 0xff
leading_zero: 007
exponent: 1e-4
point: .5
null_value: ~
empty:
truth: True
quoted: "5"
tagged: !!str 5
block: >-
  a: b
  # c
"""
    assert read_yaml(text, "f.yaml").value == {
        "yes_is_text": "yes",
        "date_is_text": "2026-01-01",
        "underscore_is_text": "1_000",
        "octal": 15,
        "hexadecimal": 255,
        "leading_zero": 7,
        "exponent": 1e-4,
        "point": 0.5,
        "null_value": None,
        "empty": None,
        "truth": True,
        "quoted": "5",
        "tagged": "5",
        "block": "a: b # c",
    }


def test_read_yaml_lines_are_those_of_the_file() -> None:
    document = read_yaml("a: 1\nb:\n  - x: 2\n    y: 3\n  - z\n", "f.yaml", first_line=10)
    assert document.at(("a",)) == "f.yaml:10"
    assert document.at(("b", 0, "y")) == "f.yaml:13"
    assert document.at(("b", 1)) == "f.yaml:14"
    # A path that is not there gets the line of its nearest ancestor.
    assert document.at(("b", 0, "missing", 3)) == "f.yaml:12"
    assert document.get(("b", 7)) is None
    assert document.get(("b", "x")) is None
    assert list(document.texts()) == [(("b", 1), "z")]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "duplicate key 'a' (first on line 1)"),
        ("a:\n  b: 1\n  b: 2\n", 3, "duplicate key 'a.b'"),
        ("a: &x [1]\nb: *x\n", 2, "b uses a YAML alias"),
        ("a: &x [1]\nb:\n  - 2\n  - *x\n", 2, "b[1] uses a YAML alias"),
        ("a: &x {c: 1}\nb:\n  <<: *x\n", 3, "merge key"),
        ("a: !!python/object:os.system x\n", 1, "has the tag"),
        ("a: !!python/object/apply:os.system [x]\n", 1, "has the tag"),
        ("a: !own {b: 1}\n", 1, "has the tag"),
        ("a: .nan\n", 1, "a is .nan"),
        ("a: -.inf\n", 1, "a is -.inf"),
        ("a: 1e999\n", 1, "a is 1e999"),
        ('a: "x\\e[31m"\n', 1, "control character"),
        ("? [a, b]\n: 1\n", 1, "no plain text"),
    ],
)
def test_read_yaml_ambiguous_construct_is_a_fault(text: str, line: int, words: str) -> None:
    (fault,) = read_yaml(text, "f.yaml").faults
    assert fault.where == f"f.yaml:{line}"
    assert words in fault.message
    assert fault.remedy


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1\n", 2),
        ("a: b: c\n", 1),
        ("a: 1\n---\nb: 2\n", 2),
        ("a: 1\n\tb: 2\n", 2),
        ("[" * 400, 1),
    ],
)
def test_read_yaml_no_yaml_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(InvalidFileError) as refused:
        read_yaml(text, "f.yaml")
    (fault,) = refused.value.faults
    assert fault.where == f"f.yaml:{line}"
    assert "is not valid YAML" in fault.message


def test_read_yaml_huge_integer_is_refused_in_a_short_sentence() -> None:
    # Python would raise ValueError on so many digits.
    (fault,) = read_yaml(f"a: {'9' * 5000}", "f.yaml").faults
    assert len(fault.message) < 80


@given(st.text(max_size=200))
def test_read_yaml_any_text_is_read_or_refused(text: str) -> None:
    refused = ()
    try:
        document = read_yaml(text, "f.yaml")
    except InvalidFileError as error:
        document, refused = None, error.faults
    assert document is not None or refused


@pytest.mark.parametrize(
    ("data", "where", "words"),
    [
        (b"a: 1\nb: \xff\n", "f:2", "0xff is not UTF-8"),
        (b"\xef\xbb\xbfa: 1\n", "f:1", "byte-order mark"),
        ("a: 1\nb: e\u0301\n".encode(), "f:2", "normal form C"),
        ("a: 1\nb: c  # \u202eevil\n".encode(), "f:2", "reorders text"),
        ("a: '\u2066x\u2069'\n".encode(), "f:1", "reorders text"),
        (b"x" * 1_000_001, "f", "more than"),
    ],
)
def test_decode_text_that_would_change_is_refused(data: bytes, where: str, words: str) -> None:
    with pytest.raises(InvalidFileError) as refused:
        decode(data, "f")
    (fault,) = refused.value.faults
    assert fault.where == where
    assert words in fault.message


def test_decode_keeps_line_ends_and_accents() -> None:
    assert decode("é\r\nx".encode(), "f") == "é\r\nx"


def test_key_name_writes_list_positions_in_brackets() -> None:
    assert key_name(("design", "scales", 0, "x")) == "design.scales[0].x"
    assert key_name(()) == "the document"


def test_in_file_order_sorts_by_line_and_drops_repeats() -> None:
    faults = [Fault(where=w, message="m") for w in ("b:10", "b:9", "a:3", "b", "b:9")]
    assert [fault.where for fault in in_file_order(faults)] == ["b", "b:9", "b:10", "a:3"]
