"""Leakage: only a registered look reaches the sealed split, and nothing of it comes out.

Statically, by the names that every module uses; dynamically, by an audit hook that sees every file
that Python opens, whichever way.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.labs import RECIPE_PATH, SUBJECT, LabFolder
from workbench.data.sealed import open_sealed
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry

PACKAGE = Path(__file__).parents[1] / "workbench"
FILES = sorted(PACKAGE.rglob("*.py"))
DOOR, VISITOR = "data/sealed.py", "experiments/sealed_evaluation.py"
FACTS = "reports/dataset/facts.py"
"""Names files, sizes and hashes as the manifest has them, and opens none."""
ASKERS = {"experiments/looks.py"}
"""The registered looks: of the run, and the verdict's own."""


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def name_of(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


def names_of(file: Path) -> set[str]:
    """Return every name that a module imports, reads or spells as a string."""
    found: set[str] = set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.name for alias in node.names}
            found.add(getattr(node, "module", "") or "")
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


def users(*names: str) -> set[str]:
    return {name_of(file) for file in FILES if set(names) & names_of(file)}


def test_sealed_split_has_one_door_and_one_visitor() -> None:
    assert users("open_sealed", "workbench.data.sealed") == {VISITOR}
    assert DOOR in {name_of(file) for file in FILES}
    assert users("sealed_scores") - {VISITOR} == ASKERS


def test_only_the_door_names_the_shards_of_the_test_split() -> None:
    subscripts = {
        name_of(file)
        for file in FILES
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and node.slice.value == "test"
    }
    assert subscripts == {DOOR}
    assert users("shards") <= {
        DOOR,
        "data/corpus.py",
        "data/build.py",
        "data/croissant.py",
        "data/building/encoding.py",
        "data/manifest.py",
        "data/serving/served_overlap.py",
        FACTS,
    }


def test_shards_are_mapped_by_the_corpus_and_the_door_only() -> None:
    """Who reads token files at all, by whatever path."""
    readers = users("map_shard", "memmap", "fromfile")
    # The last two map tables of a build: what there is before the splits are made.
    assert readers <= {
        "data/corpus.py",
        DOOR,
        "data/building/table.py",
        "data/filters/shared_keys.py",
    }
    spelt = {
        name_of(file)
        for file in FILES
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Constant) and node.value in ("sealed", "test")
    }
    assert {name.partition("/")[0] for name in spelt} <= {"data"}


def test_nothing_but_tests_hashes_the_whole_corpus() -> None:
    """`Corpus.verify` reads the sealed files: no command may call it."""
    callers = {
        name_of(file)
        for file in FILES
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "verify"
        and "corpus" in ast.unparse(node.func.value).lower()
    }
    assert callers == set()


class Witness:
    """Sees, in order, which sealed files are opened and which entries are appended."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.watching = False
        sys.addaudithook(self._hear)  # for the life of the process

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.watching or event != "open":
            return
        path = arguments[0]
        if isinstance(path, str) and "/corpora/" in path and "/sealed/" in path:
            self.seen.append(("opened", path))

    @contextmanager
    def watch(self) -> Iterator[list[tuple[str, str]]]:
        self.seen, self.watching = [], True
        try:
            yield self.seen
        finally:
            self.watching = False


@pytest.fixture(scope="session")
def audit() -> Witness:
    return Witness()


@pytest.fixture
def witness(audit: Witness, monkeypatch: pytest.MonkeyPatch) -> Witness:
    append = Ledger.append

    def appending(self: Ledger, body: Any, **named: Any) -> Entry:
        entry = append(self, body, **named)
        audit.seen.append(("appended", f"{body.kind} {getattr(body, 'what', '')}".strip()))
        return entry

    monkeypatch.setattr(Ledger, "append", appending)
    return audit


def opened(seen: list[tuple[str, str]]) -> list[str]:
    return [what for how, what in seen if how == "opened"]


def read_everything(lab: LabFolder) -> None:
    """Every command that looks, and those that write without judging."""
    at = lab.open()
    at.build_data(RECIPE_PATH)
    at.status()
    at.health("1")
    at.check("1")
    at.note("a remark", experiment="1")
    at.publish()
    at.chronicle()
    at.chronicle(check=True)
    at.verify()


def test_witness_sees_every_way_to_open_a_sealed_file(
    witness: Witness, decided_stage: LabFolder
) -> None:
    """The test of the tests below: they would fail if anything opened it."""
    path = next(decided_stage.root.glob(".workbench/corpora/*/sealed/*"))
    corpus = decided_stage.corpus()
    ways: list[Callable[[], object]] = [
        path.read_bytes,
        lambda: path.open("rb").close(),
        lambda: np.memmap(path, dtype=np.uint8, mode="r"),
        lambda: np.fromfile(path, dtype=np.uint8),
        corpus.verify,
        lambda: open_sealed(corpus, lambda: "0f" * 32),
    ]
    for way in ways:
        with witness.watch() as seen:
            way()
        assert opened(seen), way
    with witness.watch() as seen:
        corpus.verify_open()
    assert opened(seen) == []


@pytest.mark.usefixtures("one_thread")
def test_views_of_finished_runs_touch_no_sealed_file_and_the_verdict_logs_first(
    finished_lab: LabFolder, witness: Witness
) -> None:
    with witness.watch() as seen:
        lab = finished_lab.open()
        for stage in (lab.sweep, lab.promote, lab.run):
            stage("1")
        read_everything(finished_lab)
        lab.outcomes("1", why="curiosity")
    assert ("appended", "exposure validation_outcomes") in seen
    assert opened(seen) == []
    with witness.watch() as seen:
        finished_lab.open().verdict("1")
    first = next(place for place, (how, _) in enumerate(seen) if how == "opened")
    logged = seen.index(("appended", "exposure sealed_test"))
    judged = seen.index(("appended", "verdict"))
    assert logged < first < judged
    assert max(place for place, (how, _) in enumerate(seen) if how == "opened") < judged


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_whole_loop_touches_no_sealed_file_before_the_verdict(
    registered_lab: LabFolder, witness: Witness
) -> None:
    with witness.watch() as seen:
        lab = registered_lab.open()
        for stage in (lab.sweep, lab.promote, lab.run):
            stage("1")
            read_everything(registered_lab)
    assert opened(seen) == []
    with witness.watch() as seen:
        registered_lab.open().verdict("1")
    assert opened(seen)


@pytest.mark.usefixtures("one_thread")
def test_nothing_of_the_sealed_text_leaves_the_corpus(decided_lab: LabFolder) -> None:
    """Not its tokens, not its text: not into MLflow, telemetry, checkpoints, log or chronicle."""
    corpus = decided_lab.corpus()
    needles = [word.encode() for word in _sealed_words(corpus)] + _sealed_tokens(corpus)
    assert len(needles) > 20
    looked_at = []
    for path in decided_lab.home.rglob("*"):
        place = path.relative_to(decided_lab.home).as_posix()
        if path.is_file() and not (
            "/corpora/" in place or place.startswith(("lab/texts", "lab/.git"))
        ):
            content = path.read_bytes()
            looked_at.append(place)
            assert not [needle for needle in needles if needle in content], place
    for part in (
        "mlflow.db",
        "telemetry-attempt-0001.jsonl",
        "chronicle.html",
        "ledger.db",
        ".ckpt",
    ):
        assert any(place.endswith(part) for place in looked_at), part


def _sealed_words(corpus: Any) -> list[str]:
    """Return the opening words of each sealed document: its number makes them its own."""
    tokens = open_sealed(corpus, lambda: "0f" * 32)
    texts = [corpus.decode(part) for part in tokens.values()]
    found = []
    for text in texts:
        words = text.split()
        starts = [i for i, word in enumerate(words[:-6]) if word.isdigit()]
        found += [" ".join(words[i : i + 6]) for i in starts]
    return found


def _sealed_tokens(corpus: Any) -> list[bytes]:
    tokens = open_sealed(corpus, lambda: "0f" * 32)
    return [np.asarray(part[i : i + 16]).tobytes() for part in tokens.values() for i in (0, 40)]


def test_sealed_values_stay_out_of_mlflow(decided_lab: LabFolder) -> None:
    """After the verdict MLflow gets the validation values; the sealed ones are the ledger's."""
    (verdict,) = decided_lab.bodies("verdict")
    sealed = {seed.value for values in verdict.values.values() for seed in values}
    sealed |= {value for by_arm in verdict.per_metric.values() for value in by_arm.values()}
    tracker = decided_lab.tracker()
    found = set()
    for started in decided_lab.bodies("run_started"):
        for metric in ("bpb_macro", "bpb_code", "bpb_docs"):
            found |= {value for _, value in tracker.series(started.mlflow_run, metric)}
    assert len(found) > 20
    assert not found & sealed


def test_telemetry_of_the_runs_holds_only_its_twelve_fields(decided_lab: LabFolder) -> None:
    text = next(decided_lab.runs().rglob("telemetry-*.jsonl")).read_text("utf-8")
    assert "bpb" not in text
    assert SUBJECT not in text
