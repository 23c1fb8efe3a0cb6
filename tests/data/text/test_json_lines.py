import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

from workbench.data.text.json_lines import json_rows
from workbench.errors import InvalidFileError


def rows(path: Path, data: bytes) -> list[dict[str, object]]:
    path.write_bytes(data)
    return list(json_rows(path, name=path.name))


def packed_with_zstd(data: bytes) -> bytes:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def lines(*objects: object) -> bytes:
    return b"".join(json.dumps(o).encode() + b"\n" for o in objects)


OBJECTS = [{"text": f"text {i} é", "extra": i} for i in range(3000)]


def plain(data: bytes) -> bytes:
    return data


@pytest.mark.parametrize("pack", [plain, gzip.compress, packed_with_zstd])
@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "any"])
def test_rows_are_the_objects_however_they_are_packed(
    pack: Callable[[bytes], bytes], ending: str, tmp_path: Path
) -> None:
    data = pack(lines(*OBJECTS))
    assert rows(tmp_path / f"a.{ending}", data) == OBJECTS
    if pack is not plain:  # several packed parts, one after the other
        assert rows(tmp_path / f"b.{ending}", data + data) == OBJECTS + OBJECTS


def test_blank_lines_carriage_returns_and_a_mark_are_no_rows(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf{"text": "a"}\r\n\r\n  \n\n{"text": "b"}'
    assert rows(tmp_path / "a.jsonl", data) == [{"text": "a"}, {"text": "b"}]


def test_column_that_changes_its_type_after_ten_megabytes_does_no_harm(tmp_path: Path) -> None:
    long = "x" * 1000
    objects = [{"text": long, "lic": None} for _ in range(11_000)]
    last: list[dict[str, object]] = [{"text": long, "lic": "MIT"}, {"text": 5, "more": [1]}]
    read = rows(tmp_path / "a.jsonl", lines(*objects, *last))
    assert (len(read), read[-2:]) == (11_002, last)


def test_values_keep_their_own_types(tmp_path: Path) -> None:
    values = [5, "5", ["a"], None, {"a": 1}, True]
    read = rows(tmp_path / "a.jsonl", lines(*({"text": value} for value in values)))
    assert [row["text"] for row in read] == values


def test_number_of_many_digits_is_read(tmp_path: Path) -> None:
    assert len(rows(tmp_path / "a.jsonl", b'{"id": ' + b"9" * 5000 + b', "text": "a"}\n')) == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": ', "a.jsonl:3 is no JSON: Expecting value at character 1"),
        (b'{"text": "a"} {"text": "b"}', "a.jsonl:3 is no JSON: Extra data at character 15"),
        (b'{"text": "\xff"}', "a.jsonl:3 is no JSON: 'utf-8' codec"),
        (b"[1, 2]", "a.jsonl:3 holds a JSON list"),
        (b"5", "a.jsonl:3 holds a JSON number"),
        (b"null", "a.jsonl:3 holds a JSON null"),
        (b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "a.jsonl:3 is nested too deep"),
    ],
)
def test_line_that_is_no_object_is_refused_by_its_number(
    line: bytes, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidFileError) as caught:
        rows(tmp_path / "a.jsonl", b'{"text": "a"}\n\n' + line + b"\n")
    assert caught.value.message.startswith(reason)
    assert caught.value.remedy


@pytest.mark.parametrize("indent", [None, 2])
def test_list_of_objects_is_refused_with_the_command_that_makes_lines(
    indent: int | None, tmp_path: Path
) -> None:
    with pytest.raises(InvalidFileError, match=r"a\.json:1") as caught:
        rows(tmp_path / "a.json", json.dumps([{"text": "a"}], indent=indent).encode())
    assert "jq -c" in caught.value.remedy


@pytest.mark.parametrize("pack", [gzip.compress, packed_with_zstd])
def test_packed_file_that_breaks_off_is_refused_by_name(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    data = pack(lines(*OBJECTS))
    for end in (10, len(data) // 2, len(data) - 6):
        with pytest.raises(InvalidFileError, match=r"a\.gz cannot be read beyond line \d+"):
            rows(tmp_path / "a.gz", data[:end])


def test_damaged_packed_file_is_refused(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(lines(*OBJECTS)))
    middle = len(data) // 2
    data[middle : middle + 20] = bytes(255 - b for b in data[middle : middle + 20])
    with pytest.raises(InvalidFileError, match=r"a\.gz"):
        rows(tmp_path / "a.gz", bytes(data))
