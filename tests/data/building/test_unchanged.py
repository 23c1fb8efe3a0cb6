import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.data.texts import corpus_config, sentences, write_jsonl
from workbench.data.building.unchanged import ReadFiles
from workbench.errors import ConflictError


def noted(root: Path) -> ReadFiles:
    for name in ("texts/a", "texts/b", "reference", "quiz"):
        write_jsonl(root / f"{name}.jsonl", sentences("code", 5))
    return ReadFiles(
        corpus_config(
            sources={"code": {"source": "jsonl:texts", "max_bytes": 1000}},
            quality={
                "reference": {"source": "jsonl:reference.jsonl", "max_bytes": 1000},
                "domains": ["code"],
            },
            contamination={
                "evaluation": {"quiz": {"source": "jsonl:quiz.jsonl", "max_bytes": 1000}}
            },
        ),
        root=root,
    )


def touch(path: Path) -> None:
    os.utime(path, (1, 1))


def replace_keeping_size_and_time(path: Path) -> None:
    before = path.stat()
    path.write_bytes(path.read_bytes().swapcase())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def add_beside(path: Path) -> None:
    (path.parent / "new.jsonl").write_text("")


def test_files_that_stay_are_not_refused(tmp_path: Path) -> None:
    noted(tmp_path).refuse_changed()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("texts/b.jsonl", touch),
        ("texts/a.jsonl", replace_keeping_size_and_time),
        ("texts/a.jsonl", add_beside),
        ("texts/a.jsonl", Path.unlink),
        ("reference.jsonl", touch),
        ("quiz.jsonl", replace_keeping_size_and_time),
    ],
)
def test_file_that_changes_is_refused_whatever_reads_it(
    tmp_path: Path, name: str, change: Callable[[Path], None]
) -> None:
    files = noted(tmp_path)
    change(tmp_path / name)
    with pytest.raises(ConflictError, match="changed while it was read") as caught:
        files.refuse_changed()
    assert name.split("/", maxsplit=1)[0].removesuffix(".jsonl") in str(caught.value)
