import os
from pathlib import Path

import pytest

from workbench.data.text.files import file_groups, source_files
from workbench.errors import InvalidFileError, NotFoundError


def put(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_endings_count_in_any_case(tmp_path: Path) -> None:
    names = ["A.JSONL", "b.Json", "c.jsonl.GZ", "d.jsonl.zst"]
    for name in [*names, "e.txt", "jsonl"]:
        put(tmp_path / "f" / name)
    assert [f.name for f in source_files("jsonl:f", root=tmp_path)] == names


def test_empty_file_among_full_ones_is_taken(tmp_path: Path) -> None:
    put(tmp_path / "f" / "a.txt", "")
    put(tmp_path / "f" / "b.txt")
    assert len(source_files("text:f", root=tmp_path)) == 2


@pytest.mark.parametrize("kind", ["text", "jsonl", "parquet"])
def test_empty_file_alone_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    put(tmp_path / "a.any", "")
    with pytest.raises(InvalidFileError, match=r"a\.any has no byte") as caught:
        source_files(f"{kind}:a.any", root=tmp_path)
    assert caught.value.remedy


def test_link_to_nothing_is_refused_by_name(tmp_path: Path) -> None:
    put(tmp_path / "f" / "a.jsonl")
    (tmp_path / "f" / "b.jsonl").symlink_to("nowhere")
    with pytest.raises(InvalidFileError, match=r"b\.jsonl is a link to nothing"):
        source_files("jsonl:f", root=tmp_path)


def test_link_to_nothing_of_another_kind_does_not_matter(tmp_path: Path) -> None:
    put(tmp_path / "f" / "a.jsonl")
    (tmp_path / "f" / "b.txt").symlink_to("nowhere")
    assert len(source_files("jsonl:f", root=tmp_path)) == 1


def test_pipe_is_refused_by_name(tmp_path: Path) -> None:
    put(tmp_path / "f" / "a.jsonl")
    os.mkfifo(tmp_path / "f" / "b.jsonl")
    with pytest.raises(InvalidFileError, match=r"b\.jsonl is no regular file"):
        source_files("jsonl:f", root=tmp_path)


def test_link_to_a_file_is_read(tmp_path: Path) -> None:
    target = put(tmp_path / "elsewhere" / "a.jsonl")
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "b.jsonl").symlink_to(target)
    assert [f.name for f in source_files("jsonl:f", root=tmp_path)] == ["b.jsonl"]


def test_link_to_a_folder_elsewhere_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere" / "a.jsonl")
    put(tmp_path / "f" / "a.jsonl")
    (tmp_path / "f" / "more").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidFileError, match=r"more is a link to a folder"):
        source_files("jsonl:f", root=tmp_path)


def test_link_to_a_folder_of_the_source_gives_its_files_once(tmp_path: Path) -> None:
    put(tmp_path / "f" / "g" / "a.jsonl")
    (tmp_path / "f" / "loop").symlink_to(".")
    (tmp_path / "f" / "again").symlink_to("g")
    assert len(source_files("jsonl:f", root=tmp_path)) == 1


def test_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "f" / "a.jsonl")
    put(Path(os.fsdecode(os.fsencode(tmp_path) + b"/f/\xff.jsonl")))
    with pytest.raises(InvalidFileError, match=r"\\xff\.jsonl is not UTF-8") as caught:
        source_files("jsonl:f", root=tmp_path)
    str(caught.value).encode("utf-8")


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "/tmp/a\0b"])
def test_what_is_no_path_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises((InvalidFileError, NotFoundError)) as caught:
        source_files(f"jsonl:{name}", root=tmp_path)
    assert caught.value.remedy
    assert len(str(caught.value)) < 400


def test_small_files_are_one_group_with_their_names(tmp_path: Path) -> None:
    for name in ("b[1]", "a::b"):
        put(tmp_path / "f" / f"{name}.jsonl")
    (group,) = file_groups("jsonl:f", root=tmp_path)
    assert group.names == ("f/a::b.jsonl", "f/b[1].jsonl")
