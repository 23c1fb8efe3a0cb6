from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.data.tables import written_table
from workbench.canonical import Json
from workbench.data.building.stages import (
    Rejected,
    apply_stage,
    stage_key,
    take_result,
)
from workbench.data.building.table import Table
from workbench.data.manifest import StageName, StageRecord
from workbench.errors import InvalidFileError

TEXTS = {
    "code": [f"code {number} " + "x" * 400 for number in range(50)],
    "docs": [f"docs {number}" for number in range(10)],
}


class Listed:
    """A stage that rejects what it is told."""

    name: StageName = "quality"

    max_share_lost: float | None = None
    keeps = ("found.bin",)

    def __init__(self, listed: list[Rejected]) -> None:
        self._listed = listed

    def settings(self) -> dict[str, Json]:
        return {"threshold": 0.5}

    def rejects(
        self, table: Table, *, work: Path, progress: Callable[[float], None]
    ) -> Iterator[Rejected]:
        (work / "scratch.bin").write_bytes(b"0")
        (work / "found.bin").write_bytes(b"1")
        table.label("docs", 1, "en")
        yield from self._listed
        assert table.num_kept("code") == 50  # nothing is left out before the end

    def findings(self) -> dict[str, Json]:
        return {"area": 0.75}


def every_second(reason: str = "score below 0.5") -> list[Rejected]:
    return [
        Rejected(domain="code", number=number, reason=reason, why=f"score 0.{number:02}")
        for number in range(0, 50, 2)
    ]


def applied(stage: Listed, table: Table, folder: Path) -> Path:
    folder.mkdir()
    settings = stage.settings()
    apply_stage(
        stage, table, folder, key="sha256:k", settings=settings, progress=lambda share: None
    )
    return folder


def taken(table: Table, folder: Path, limit: float | None = None) -> StageRecord:
    return take_result(table, folder, max_share_lost=limit, is_sealed=lambda digest: False)


def test_stage_is_counted_sampled_and_taken_from_its_folder(tmp_path: Path) -> None:
    table = written_table(tmp_path / "table", TEXTS)
    folder = applied(Listed(every_second()), table, tmp_path / "stage")
    assert table.num_kept("code") == 50
    assert not any(path.is_dir() for path in folder.iterdir())
    assert not (folder / "scratch.bin").exists()
    assert (folder / "found.bin").read_bytes() == b"1"
    record = taken(table, folder)
    assert [row.number for row in table.rows("code")] == list(range(1, 50, 2))
    assert table.language("docs", 1) == "en"
    assert (record.name, record.key) == ("quality", "sha256:k")
    assert record.settings == {"threshold": "0.5"}
    assert record.findings == {"area": "0.75"}
    removed = record.removed["code"]
    assert removed.documents == 25
    assert removed.bytes == sum(len(TEXTS["code"][number]) for number in range(0, 50, 2))
    assert removed.reasons == {"score below 0.5": 25}
    assert record.removed["docs"].documents == 0
    assert len(removed.samples) == 10
    for sample in removed.samples:
        number = int(sample.id.partition("#")[2])
        assert sample.why == f"score below 0.5: score 0.{number:02}"
        assert sample.excerpt == TEXTS["code"][number][:300]


def test_stage_samples_do_not_hang_on_the_order_of_the_rejects(tmp_path: Path) -> None:
    table = written_table(tmp_path / "table", TEXTS)
    folders = [
        applied(Listed(order), table, tmp_path / f"stage{number}")
        for number, order in enumerate([every_second(), every_second()[::-1]])
    ]
    records = [(folder / "record.json").read_text() for folder in folders]
    assert records[0] == records[1]
    numbers = [sample.partition("#")[2].partition('"')[0] for sample in records[0].split('"id":')]
    assert numbers[1:] != sorted(numbers[1:])


def test_stage_that_takes_more_than_it_may_stops_with_examples(tmp_path: Path) -> None:
    table = written_table(tmp_path / "table", TEXTS)
    folder = applied(Listed(every_second()), table, tmp_path / "stage")
    with pytest.raises(InvalidFileError) as caught:
        taken(table, folder, limit=0.4)
    told = str(caught.value)
    assert "quality would take 50.0% of the bytes of 'code', more than max_share_lost 0.4" in told
    assert told.count("score below 0.5: score 0.") == 3
    assert "write quality.max_share_lost: 0.5 " in caught.value.remedy
    assert table.num_kept("code") == 50


def test_stage_that_takes_just_what_it_may_passes(tmp_path: Path) -> None:
    table = written_table(tmp_path / "table", TEXTS)
    folder = applied(Listed(every_second()), table, tmp_path / "stage")
    taken(table, folder, limit=0.5)
    assert table.num_kept("code") == 25


def test_stage_that_rejects_a_row_twice_is_a_fault_of_the_stage(tmp_path: Path) -> None:
    table = written_table(tmp_path / "table", TEXTS)
    with pytest.raises(ValueError, match="twice"):
        applied(Listed([*every_second(), every_second()[3]]), table, tmp_path / "stage")


def test_stage_key_depends_on_what_came_before_name_and_settings() -> None:
    keys = {
        stage_key(previous, name, {"threshold": threshold})
        for previous in ("sha256:a", "sha256:b")
        for name in ("language", "quality")
        for threshold in (0.5, 0.6)
    }
    assert len(keys) == 8


def test_stage_shows_neither_name_nor_text_of_what_is_sealed(tmp_path: Path) -> None:
    table = written_table(tmp_path / "table", TEXTS)
    rows = [table.row("code", number) for number in range(50)]
    listed = [
        Rejected(domain="code", number=0, reason="like code", why="as t#10", twin=rows[10].digest),
        Rejected(domain="code", number=1, reason="like code", why="as t#11", twin=rows[11].digest),
        Rejected(domain="code", number=2, reason="score below 0.5", why="score 0.2"),
        Rejected(domain="code", number=3, reason="overlaps test", why="as t#13", sealed=True),
    ]
    folder = applied(Listed(listed), table, tmp_path / "stage")
    sealed = {rows[10].digest, rows[2].digest}
    record = take_result(table, folder, max_share_lost=None, is_sealed=sealed.__contains__)
    removed = record.removed["code"]
    assert removed.documents == 4
    by_why = {sample.why: (sample.id, sample.excerpt) for sample in removed.samples}
    assert by_why == {
        "like code: same as a document of the sealed test split": ("", ""),
        "like code: as t#11": ("texts#1", TEXTS["code"][1][:300]),
        "score below 0.5: its text belongs to the sealed test split": ("", ""),
        "overlaps test: same as a document of the sealed test split": ("", ""),
    }


def test_refusal_of_a_loss_shows_nothing_that_is_sealed(tmp_path: Path) -> None:
    table = written_table(tmp_path / "table", TEXTS)
    folder = applied(Listed(every_second()), table, tmp_path / "stage")
    with pytest.raises(InvalidFileError) as caught:
        take_result(table, folder, max_share_lost=0.1, is_sealed=lambda digest: True)
    assert "texts#" not in str(caught.value)
    assert "xxx" not in str(caught.value)
    assert str(caught.value).count("sealed test split") == 3
