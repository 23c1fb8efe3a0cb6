from pathlib import Path

import pytest

from tests.conftest import StepClock
from tests.reports.sample import EXPERIMENT, MemoryLog, exploratory_log, sample_log
from workbench.errors import InvalidFileError, NotFoundError
from workbench.registry.entries import Genesis, Note
from workbench.registry.ledger import Ledger
from workbench.registry.publish import PublishedLog, publish
from workbench.reports.facts import experiment_facts
from workbench.reports.site import Snapshot, write_chronicle, write_chronicles


def both() -> MemoryLog:
    log = sample_log()
    for entry in exploratory_log().found:
        log.append(entry.body, entry.subject)
    return log


def test_chronicles_of_every_subject_and_the_index_are_written(tmp_path: Path) -> None:
    index, written = write_chronicles(both(), tmp_path)
    assert [w.html.relative_to(tmp_path).as_posix() for w in written] == [
        f"{EXPERIMENT}/chronicle.html",
        "recipe-mixture-v1/chronicle.html",
    ]
    assert index == tmp_path / "index.html"
    listing = index.read_text()
    assert f'href="{EXPERIMENT}/chronicle.html"' in listing
    assert "never registered, supports no verdict" in listing
    assert "3\xa0forecasts of 1\xa0experiment scored" in listing
    on_disk = {path for path in tmp_path.rglob("*") if path.is_file()}
    told = {path for w in written for path in (w.html, w.markdown, *w.figures)}
    assert on_disk == {index, *told}


def test_markdown_shows_every_figure_beside_it(tmp_path: Path) -> None:
    written = write_chronicle(sample_log(), EXPERIMENT, tmp_path)
    markdown = written.markdown.read_text()
    assert len(written.figures) == 8
    for figure in written.figures:
        assert figure.parent == written.markdown.parent
        assert f"({figure.name})" in markdown


def test_chronicle_of_one_name_leaves_the_others_alone(tmp_path: Path) -> None:
    write_chronicle(both(), EXPERIMENT, tmp_path)
    assert not (tmp_path / "recipe-mixture-v1").exists()
    assert (tmp_path / "index.html").is_file()


def test_same_ledger_gives_the_same_files(tmp_path: Path) -> None:
    write_chronicles(both(), tmp_path / "first")
    write_chronicles(both(), tmp_path / "second")
    for path in (tmp_path / "first").rglob("*.*"):
        other = tmp_path / "second" / path.relative_to(tmp_path / "first")
        assert path.read_bytes() == other.read_bytes()


def test_chronicle_stays_the_same_while_the_log_grows_elsewhere(tmp_path: Path) -> None:
    log = sample_log()
    first = write_chronicle(log, EXPERIMENT, tmp_path).html.read_bytes()
    log.append(Note(text="elsewhere"), "0002-other")
    assert write_chronicle(log, EXPERIMENT, tmp_path).html.read_bytes() == first
    log.append(Note(text="here"))
    assert write_chronicle(log, EXPERIMENT, tmp_path).html.read_bytes() != first


def test_unknown_name_and_empty_log_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="0009-nothing"):
        write_chronicle(sample_log(), "0009-nothing", tmp_path)
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


def test_store_and_published_log_give_the_same_chronicle(tmp_path: Path, clock: StepClock) -> None:
    lab = {
        "url": f"sqlite:///{tmp_path / 'ledger.db'}",
        "origin": "example.org/lab",
        "keys_dir": tmp_path / "keys",
        "actor": "mixture-team",
        "clock": clock,
    }
    with Ledger.create(**lab, lab_name="Example lab") as ledger:
        for entry in sample_log().found[1:24]:
            ledger.append(entry.body, subject=entry.subject)
        publish(ledger, tmp_path / "registry")
        stored = write_chronicle(ledger, EXPERIMENT, tmp_path / "a").html.read_bytes()
    published = PublishedLog(tmp_path / "registry")
    assert write_chronicle(published, EXPERIMENT, tmp_path / "b").html.read_bytes() == stored
    text = experiment_facts(published, EXPERIMENT).tree_head
    assert published.head().note.startswith(text)
