from pathlib import Path

import pytest

from tests.reports.sample import EXPERIMENT, MemoryLog, exploratory_log, sample_log
from workbench.errors import IntegrityError, InvalidFileError, NotFoundError
from workbench.registry.entries import Genesis, Note
from workbench.reports.chronicles import Snapshot, write_chronicles


def both() -> MemoryLog:
    log = sample_log()
    for entry in exploratory_log().found:
        log.append(entry.body, entry.subject)
    return log


def test_chronicles_of_every_subject_and_the_index_are_written(tmp_path: Path) -> None:
    paths = write_chronicles(both(), tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [
        f"{EXPERIMENT}/chronicle.html",
        f"{EXPERIMENT}/chronicle.md",
        "recipe-mixture-v1/chronicle.html",
        "recipe-mixture-v1/chronicle.md",
        "index.html",
    ]
    markdown = paths[1].read_text()
    for picture in (tmp_path / EXPERIMENT).glob("*.svg"):
        assert f"({picture.name})" in markdown
    index = paths[-1].read_text()
    assert f'href="{EXPERIMENT}/chronicle.html"' in index
    assert "never registered, supports no verdict" in index


def test_nothing_else_is_left_behind(tmp_path: Path) -> None:
    write_chronicles(sample_log(), tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".part")]


def test_chronicle_of_one_name_leaves_the_others_alone(tmp_path: Path) -> None:
    write_chronicles(both(), tmp_path, [EXPERIMENT])
    assert not (tmp_path / "recipe-mixture-v1").exists()
    assert (tmp_path / "index.html").is_file()


def test_check_passes_on_what_was_just_written_and_writes_nothing(tmp_path: Path) -> None:
    write_chronicles(both(), tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    write_chronicles(both(), tmp_path, check=True)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize("damage", ["edit", "remove"])
def test_check_names_the_file_that_differs(tmp_path: Path, damage: str) -> None:
    write_chronicles(sample_log(), tmp_path)
    victim = tmp_path / EXPERIMENT / "chronicle.html"
    if damage == "edit":
        victim.write_text(victim.read_text().replace("supported", "refuted"))
    else:
        victim.unlink()
    with pytest.raises(IntegrityError, match=r"chronicle\.html"):
        write_chronicles(sample_log(), tmp_path, check=True)


def test_check_of_one_chronicle_holds_while_the_log_grows(tmp_path: Path) -> None:
    log = sample_log()
    write_chronicles(log, tmp_path)
    log.append(Note(text="elsewhere"), "0002-other")
    write_chronicles(log, tmp_path, [EXPERIMENT], check=True)
    log.append(Note(text="here"))
    with pytest.raises(IntegrityError):
        write_chronicles(log, tmp_path, [EXPERIMENT], check=True)


def test_unknown_name_and_empty_log_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="0009-nothing"):
        write_chronicles(sample_log(), tmp_path, ["0009-nothing"])
    log = MemoryLog()
    log.append(Genesis(lab="x", record_format="1", log_key="k", author_key="k"), "lab")
    with pytest.raises(NotFoundError, match="no experiment"):
        write_chronicles(log, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("subject", ["../escape", "a/../../x", "..", "x#/../..", "%2e%2e/x"])
def test_subject_that_would_leave_the_folder_is_refused(tmp_path: Path, subject: str) -> None:
    """B8: nothing is written outside the root."""
    reports = tmp_path / "reports"
    log = sample_log()
    log.append(Note(text="x"), subject)
    with pytest.raises(InvalidFileError):
        write_chronicles(log, reports)
    assert not reports.exists()


def test_snapshot_gives_what_the_log_gives() -> None:
    log = both()
    snapshot = Snapshot(log)
    for kind in (None, "trial"):
        for subject in (None, EXPERIMENT, "absent"):
            found = list(snapshot.entries(kind=kind, subject=subject))
            assert found == list(log.entries(kind=kind, subject=subject))
    assert snapshot.subjects == (EXPERIMENT, "recipe:mixture@1")
    assert snapshot.head() == log.head()
