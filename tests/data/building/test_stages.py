from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.data.tables import written_table
from workbench.canonical import Json
from workbench.data.building.stages import (
    Rejected,
    Samples,
    apply_stage,
    excerpt,
    stage_key,
    take_result,
)
from workbench.data.building.table import Table
from workbench.data.manifest import StageName
from workbench.errors import InvalidFileError

TEXTS = {
    "code": [f"code {number} " + "x" * 400 for number in range(50)],
    "docs": [f"docs {number}" for number in range(10)],
}


class Listed:
    """A stage that rejects what it is told."""

    name: StageName = "quality"

    def __init__(self, listed: list[Rejected], limit: float | None = None) -> None:
        self.max_share_lost = limit
        self._listed = listed

    def settings(self) -> dict[str, Json]:
        return {"threshold": 0.5}

    def rejects(
        self, table: Table, *, work: Path, progress: Callable[[float], None]
    ) -> Iterator[Rejected]:
        (work / "scratch.bin").write_bytes(b"0")
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


def test_stage_is_counted_sampled_and_taken_from_its_folder(tmp_path: Path) -> None:
    table = written_table(tmp_path / "table", TEXTS)
    folder = applied(Listed(every_second()), table, tmp_path / "stage")
    assert table.num_kept("code") == 50
    assert not any(path.is_dir() for path in folder.iterdir())
    record = take_result(table, folder)
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
    with pytest.raises(InvalidFileError) as caught:
        applied(Listed(every_second(), limit=0.4), table, tmp_path / "stage")
    told = str(caught.value)
    assert "quality would take 50.0% of the bytes of 'code', more than max_share_lost 0.4" in told
    assert told.count("score below 0.5: score 0.") == 3
    assert "write quality.max_share_lost: 0.5 " in caught.value.remedy
    assert table.num_kept("code") == 50


def test_stage_that_takes_just_what_it_may_passes(tmp_path: Path) -> None:
    table = written_table(tmp_path / "table", TEXTS)
    applied(Listed(every_second(), limit=0.5), table, tmp_path / "stage")


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


def test_samples_are_those_with_the_smallest_hashes() -> None:
    drawn: Samples[int] = Samples("quality")
    for number in range(1000):
        drawn.add(str(number), number)
    first = drawn.drawn()
    assert len(first) == len(set(first)) == 10
    again: Samples[int] = Samples("quality")
    for number in reversed(range(1000)):
        again.add(str(number), number)
    assert again.drawn() == first
    assert max(first) > 500


def test_excerpt_of_text_without_utf8_form_can_be_written() -> None:
    assert excerpt("a\ud800b" * 200).encode() == (b"a?b" * 100)
