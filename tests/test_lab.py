"""The Python API: what a script may do with a lab besides what the commands do."""

import json
import threading
from pathlib import Path

import pytest

from tests.conftest import StepClock
from tests.labs import KEYS, RECIPE_PATH, SUBJECT, LabFolder
from workbench.data.account import account
from workbench.errors import (
    ConflictError,
    IntegrityError,
    InvalidFileError,
    MissingDependencyError,
    NotFoundError,
    NotRegisteredError,
)
from workbench.lab import Lab, utc_now
from workbench.registry.ledger import Ledger
from workbench.registry.publish import PublishedLog


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(KEYS, str(tmp_path / "keys"))
    return tmp_path / "keys"


def test_init_writes_genesis_with_the_keys_outside_the_lab(keys: Path, tmp_path: Path) -> None:
    lab = Lab.init(tmp_path / "my lab", name="Ünsere")
    (genesis,) = lab.source().entries()
    assert (genesis.kind, genesis.body.lab) == ("genesis", "Ünsere")  # type: ignore[attr-defined]
    assert lab.settings.origin.startswith("workbench.lab/unsere-")
    assert lab.keys_folder.is_relative_to(keys)
    assert not list(lab.layout.root.rglob("*.key"))
    assert (lab.layout.root / ".git").is_dir()


def test_init_labs_of_one_name_are_two_logs(keys: Path, tmp_path: Path) -> None:
    origins = {Lab.init(tmp_path / str(i), name="lab").settings.origin for i in range(2)}
    assert len(origins) == 2


def test_init_inside_a_repository_makes_no_other(filed_lab: LabFolder) -> None:
    lab = Lab.init(filed_lab.root / "inner")
    assert not (lab.layout.root / ".git").exists()


def test_init_twice_is_refused(filed_lab: LabFolder) -> None:
    with pytest.raises(ConflictError, match="already a lab"):
        Lab.init(filed_lab.root)


def test_init_name_without_a_letter_leaves_nothing(keys: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError):
        Lab.init(tmp_path / "lab", name="???")
    assert not (tmp_path / "lab").exists()
    assert not keys.exists()


def test_open_finds_the_lab_from_within(filed_lab: LabFolder) -> None:
    inside = filed_lab.root / "experiments" / SUBJECT
    assert Lab.open(inside).layout.root == filed_lab.root.resolve()


def test_clock_is_the_one_that_was_passed(keys: Path, tmp_path: Path) -> None:
    lab = Lab.init(tmp_path / "lab", clock=StepClock())
    times = [lab.note("x").time for _ in range(2)]
    assert all(time.startswith("2026-01-01T00:0") for time in times)
    assert times[0] < times[1]
    assert utc_now().tzinfo is not None


def test_source_is_the_store_and_without_it_what_was_published(decided_lab: LabFolder) -> None:
    lab = decided_lab.open()
    from_store = [entry.leaf for entry in lab.source().entries()]
    assert isinstance(lab.source(), Ledger)
    for file in lab.layout.state.glob("ledger.db*"):
        file.unlink()
    assert isinstance(lab.source(), PublishedLog)
    assert [entry.leaf for entry in lab.source().entries()] == from_store


def test_source_of_a_lab_with_neither_is_refused(filed_lab: LabFolder) -> None:
    lab = filed_lab.open()
    for file in lab.layout.state.glob("ledger.db*"):
        file.unlink()
    with pytest.raises(NotFoundError, match="neither a store"):
        lab.source()


def test_check_after_a_registration_warns_of_changed_files(registered_lab: LabFolder) -> None:
    lab = registered_lab.open()
    assert lab.check("1").warnings == ()
    recipe = registered_lab.root / RECIPE_PATH
    recipe.write_text(recipe.read_text("utf-8") + "\n", "utf-8")
    (warning,) = lab.check("1").warnings
    assert "differs from what was registered" in warning.message


def test_register_interrupted_before_its_anchor_goes_on(
    filed_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 between the two entries: nothing runs until the same command has been repeated."""
    lab = filed_lab.open()
    append = Ledger.append

    def die_before_the_anchor(self: Ledger, body: object, **named: object) -> object:
        if getattr(body, "kind", "") == "anchor":
            raise KeyboardInterrupt
        return append(self, body, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "append", die_before_the_anchor)
        with pytest.raises(KeyboardInterrupt):
            lab.register("1")
    with pytest.raises(NotRegisteredError, match="interrupted before its anchor"):
        lab.sweep("1")
    receipt = lab.register("1")
    assert receipt.resumed
    assert [entry.kind for entry in filed_lab.entries()] == ["genesis", "registration", "anchor"]
    with pytest.raises(ConflictError):
        lab.register("1")


@pytest.mark.parametrize("registered", [False, True])
def test_register_refuses_what_it_would_refuse_anyhow_before_it_builds_the_corpus(
    filed_lab: LabFolder, registered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = filed_lab.open()
    if registered:
        lab.register("1")
    else:
        (filed_lab.root / "new.txt").write_text("not committed", "utf-8")
    monkeypatch.setattr(lab, "_data", lambda *_: pytest.fail("the corpus was built"))
    with pytest.raises(ConflictError, match="was registered at" if registered else "uncommitted"):
        lab.register("1")


def test_build_data_gives_the_registered_corpus_and_its_report(registered_lab: LabFolder) -> None:
    said: list[str] = []
    built = registered_lab.open().build_data(
        RECIPE_PATH, progress=lambda task, done, total, detail="", **_: said.append(task)
    )
    (registered,) = registered_lab.bodies("registration")
    assert built.manifest.fingerprint == registered.data.manifest
    assert account(built.manifest) == registered.data.account
    folder = f"tiny-v1-{built.manifest.fingerprint.removeprefix('sha256:')[:8]}"
    assert built.page == registered_lab.root / "reports" / "data" / folder / "data.html"
    assert json.loads(built.plain.read_text("utf-8"))["fingerprint"] == registered.data.manifest
    assert set(said) == {"corpus"}


def test_running_on_other_data_than_was_registered_is_refused(registered_lab: LabFolder) -> None:
    texts = registered_lab.root / "texts" / "code.jsonl"
    texts.write_text(texts.read_text("utf-8") + '{"text": "one more"}\n', "utf-8")
    lab = registered_lab.open()
    with pytest.raises(ConflictError, match="changed since corpus"):
        lab.sweep("1")
    (corpus,) = lab.layout.corpora.glob("tiny*")
    for file in sorted(corpus.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    corpus.rmdir()
    with pytest.raises(IntegrityError, match="registered was"):
        lab.sweep("1")
    assert registered_lab.bodies("trial") == []


def test_verify_takes_the_published_head_as_the_one_that_was_kept(decided_lab: LabFolder) -> None:
    assert not decided_lab.open().verify().log.warnings
    (decided_lab.root / "registry" / "checkpoint").unlink()
    warnings = decided_lab.open().verify().log.warnings
    assert any("no kept head" in warning for warning in warnings)


def test_chronicle_check_of_all_when_nothing_is_written_yet(finished_lab: LabFolder) -> None:
    with pytest.raises(IntegrityError, match=r"chronicle\.html") as refused:
        finished_lab.open().chronicle(check=True)
    assert refused.value.remedy == "workbench chronicle"
    assert not (finished_lab.root / "reports" / SUBJECT / "chronicle.html").exists()


def test_forecasts_are_those_of_the_promotion(promoted_lab: LabFolder) -> None:
    (promotion,) = promoted_lab.entries("promotion")
    assert promoted_lab.open().forecasts(promotion) == promoted_lab.bodies("forecast")
    (other,) = promoted_lab.entries("sweep_ended")
    assert promoted_lab.open().forecasts(other) == []


def test_notes_from_many_threads_are_all_kept(filed_lab: LabFolder) -> None:
    """B4: each opens the ledger for itself."""
    lab = filed_lab.open()
    threads = [threading.Thread(target=lab.note, args=(f"note {i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(body.text for body in filed_lab.bodies("note")) == [f"note {i}" for i in range(8)]
    assert lab.verify().passed


def test_init_without_git_leaves_nothing(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependencyError, match="git is not installed"):
        Lab.init(tmp_path / "lab")
    assert not (tmp_path / "lab").exists()
    assert not keys.exists()


def test_init_killed_before_its_ledger_is_completed(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(self: Lab) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Lab, "_create_ledger", die)
        with pytest.raises(KeyboardInterrupt):
            Lab.init(tmp_path / "lab", name="cut short")
    lab = Lab.init(tmp_path / "lab")
    assert lab.settings.name == "cut short"
    assert lab.verify().passed
    with pytest.raises(ConflictError, match="already a lab"):
        Lab.init(tmp_path / "lab")


@pytest.mark.parametrize("command", ["sweep", "promote", "run", "verdict"])
def test_corpus_changed_behind_its_manifest_is_refused_before_anything_runs(
    finished_lab: LabFolder, command: str
) -> None:
    shard = next(finished_lab.root.glob(".workbench/corpora/*/shards/train-code.bin"))
    data = bytearray(shard.read_bytes())
    data[10] ^= 1
    shard.write_bytes(data)
    size = len(finished_lab.entries())
    with pytest.raises(IntegrityError, match=r"train-code.bin is not the file that was built"):
        getattr(finished_lab.open(), command)("1")
    assert len(finished_lab.entries()) == size


@pytest.mark.parametrize("name", ["why?", "per%41cent"])
def test_init_where_no_url_can_name_the_store_leaves_nothing(
    keys: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(InvalidFileError, match="no store URL can hold"):
        Lab.init(tmp_path / name / "lab", name="lab")
    assert list(tmp_path.iterdir()) == []


def test_lab_at_a_strange_path_works_and_stays_inside_it(keys: Path, tmp_path: Path) -> None:
    lab = Lab.init(tmp_path / "läb ö # &x", name="lab")
    lab.note("here")
    assert lab.verify().passed
    assert {path.name for path in tmp_path.iterdir()} == {"keys", "läb ö # &x"}
