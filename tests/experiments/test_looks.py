"""Registered looks: what runs before each, what it sees, and when it ends."""

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.labs import SUBJECT, LabFolder, filed
from workbench.errors import ConflictError, IntegrityError
from workbench.experiments import evidence, looks, sealed_evaluation
from workbench.experiments.promotion import promotion_body
from workbench.experiments.sealed_evaluation import SealedScores
from workbench.registry.amended import course_of
from workbench.registry.entries import Verdict
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry
from workbench.scaffold.demo import with_lines

pytestmark = pytest.mark.usefixtures("one_thread")

GROUP = {"stopping: fixed(3)": "stopping: group(2,3,4)", "seeds: 3": "seeds: 4"}
FAMILY = {
    "multiplicity: none": "multiplicity: holm\n  family:\n"
    "    - {hypothesis: H2, metric: bpb_code, direction: minimize, claim: superior(0.5)}",
}
ANYTIME = {
    "stopping: fixed(3)": "stopping: anytime",
    "seeds: 3": "seeds: 5",
    "interval: welch_t": "interval: paired_t",
    "pairing: none": "pairing: seed_index",
}
OPEN = {"control": (3.0, 3.4, 3.1, 3.3), "treatment": (2.9, 3.3, 3.2, 3.1)}
"""The arms differ by less than the seeds do."""
CLEAR = {"control": (3.0, 3.4, 3.001, 3.0), "treatment": (2.9, 3.3, 1.0, 1.001)}
Scripted = Callable[[Mapping[str, tuple[float, ...]]], None]


def promoted(home: Any, *changes: Mapping[str, str]) -> LabFolder:
    """Return a lab that is ready to run at full scale under a changed proposal."""
    lab = filed(home)
    proposal = lab.root / "experiments" / SUBJECT / "proposal.md"
    text = proposal.read_text("utf-8")
    for change in changes:
        text = with_lines(text, change)
    if FAMILY in changes:
        first = text[text.index("  - id: H1") : text.index("# What differs between") - 1]
        second = first.replace("id: H1", "id: H2")
        # No larger than what the claim about it would refute.
        second = re.sub(r"minimum_effect: .*", "minimum_effect: 0.5", second)
        text = text.replace(first, f"{first}{second}", 1)
    proposal.write_text(text, "utf-8")
    lab.commit("Change the rule")
    opened = lab.open()
    opened.register("1")
    opened.sweep("1")
    opened.promote("1")
    return lab


@pytest.fixture(scope="session")
def group_stage(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> LabFolder:
    return promoted(tmp_path_factory.mktemp("group"), GROUP)


@pytest.fixture
def group_lab(group_stage: LabFolder, use: Callable[[LabFolder], LabFolder]) -> LabFolder:
    return use(group_stage)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Has the sealed split show these values, after it was really opened and read."""

    def say(values: Mapping[str, tuple[float, ...]]) -> None:
        real = sealed_evaluation.sealed_scores

        def scores(*arguments: Any, **named: Any) -> SealedScores:
            found = real(*arguments, **named)
            metrics = {}
            for run, measured in found.metrics.items():
                arm, _, seed = run.partition("/seed-")
                metrics[run] = dict.fromkeys(measured, values[arm][int(seed)])
            return replace(found, metrics=metrics)

        monkeypatch.setattr(looks, "sealed_scores", scores)

    return say


def kinds(lab: LabFolder) -> list[str]:
    wanted = {"run_started", "exposure", "look", "verdict"}
    return [entry.kind for entry in lab.entries() if entry.kind in wanted]


def test_run_looks_where_registered_and_stops_when_it_is_decided(
    group_lab: LabFolder, scripted: Scripted
) -> None:
    scripted(CLEAR)
    report = group_lab.open().run("1")
    assert kinds(group_lab) == [
        *["run_started"] * 4, "exposure", "look",
        *["run_started"] * 2, "exposure", "look",
        *["run_started"] * 2, "exposure", "look",
    ]  # fmt: skip
    shown = [(line.num_seeds, line.outcome, line.state, line.next_seeds) for line in report.looks]
    assert shown[:2] == [(2, "inconclusive", "go_on", 3), (3, "inconclusive", "go_on", 4)]
    assert shown[2][2:] == ("final", None)
    seen = [body.runs for body in group_lab.bodies("exposure")]
    assert seen == [
        ["control/seed-0", "treatment/seed-0", "control/seed-1", "treatment/seed-1"],
        ["control/seed-2", "treatment/seed-2"],
        ["control/seed-3", "treatment/seed-3"],
    ]
    bodies = group_lab.bodies("look")
    assert [body.results[0].alpha for body in bodies] == [pytest.approx(0.05 / 3)] * 3
    assert [v.value for v in bodies[1].values["control"]] == list(CLEAR["control"][:3])
    purposes = [body.purpose for body in group_lab.bodies("exposure")]
    assert purposes[1] == "look 2 of group(2,3,4), 3 seeds an arm"
    assert group_lab.open().verify().passed


def test_run_stops_early_and_the_verdict_reads_nothing_again(
    group_lab: LabFolder, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted({"control": (3.0, 3.001), "treatment": (1.0, 1.001)})
    group_lab.open().run("1")
    (look,) = group_lab.entries("look")
    assert (look.body.state, look.body.next_seeds) == ("stop", None)
    assert look.body.results[0].outcome == "supported"
    assert kinds(group_lab).count("run_started") == 4

    def opened(*arguments: object, **named: object) -> None:
        raise AssertionError("the sealed split was opened again")

    monkeypatch.setattr(looks, "sealed_scores", opened)
    verdict = group_lab.open().verdict("1")
    body = verdict.body
    assert isinstance(body, Verdict)
    assert (body.outcome, body.look, body.num_seeds) == ("supported", 1, 2)
    assert (body.stopping, body.values) == ("group(2,3,4)", look.body.values)
    assert body.results == look.body.results
    assert (body.lower, body.upper) == (look.body.results[0].lower, look.body.results[0].upper)
    assert look.leaf in verdict.refs
    assert {score.target for score in body.scores} == {"control", "treatment", "improvement"}
    # Nothing is left to run, and nothing runs.
    group_lab.open().run("1")
    assert kinds(group_lab).count("run_started") == 4


def test_look_cites_what_it_rests_on(group_lab: LabFolder, scripted: Scripted) -> None:
    scripted(OPEN)
    group_lab.open().run("1")
    entries = {entry.leaf: entry for entry in group_lab.entries()}
    first, second, third = group_lab.entries("look")
    cited = [entries[leaf].kind for leaf in second.refs]
    assert cited == ["registration", "promotion", "exposure", *["run_ended"] * 6, "look"]
    assert first.leaf in second.refs
    assert second.leaf in third.refs
    assert first.signature
    assert course_of(group_lab.open().source(), SUBJECT).known().timing == "outcomes_seen"
    assert third.body.state == "final"
    body = group_lab.open().verdict("1").body
    assert isinstance(body, Verdict)
    assert (body.outcome, body.look, body.num_seeds) == ("inconclusive", 3, 4)


@pytest.mark.parametrize("when", ["before the first model", "before the look's entry"])
def test_look_that_was_interrupted_goes_on_under_its_exposure(
    group_lab: LabFolder, monkeypatch: pytest.MonkeyPatch, scripted: Scripted, when: str
) -> None:
    append = Ledger.append

    def killed(self: Ledger, body: Any, **named: Any) -> Entry:
        if body.kind == "look":
            raise KeyboardInterrupt
        return append(self, body, **named)

    def die(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if when == "before the first model":
            patch.setattr(sealed_evaluation, "load_weights", die)
        else:
            patch.setattr(Ledger, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            group_lab.open().run("1")
    assert kinds(group_lab) == [*["run_started"] * 4, "exposure"]
    scripted({"control": (3.0, 3.001), "treatment": (1.0, 1.001)})
    group_lab.open().run("1")
    assert kinds(group_lab) == [*["run_started"] * 4, "exposure", "look"]


def test_verdict_before_a_look_is_refused_and_incomplete_is_void_unopened(
    group_lab: LabFolder,
) -> None:
    with pytest.raises(ConflictError, match=r"group\(2,3,4\) looks at 2 seeds an arm") as refused:
        group_lab.open().verdict("1")
    assert "workbench run 0001" in refused.value.remedy
    body = group_lab.open().verdict("1", incomplete=True).body
    assert isinstance(body, Verdict)
    assert body.outcome == "void"
    assert body.void_reasons[0] == "the registered look at 2 seeds an arm was never made"
    assert group_lab.bodies("exposure") == []


def test_verdict_between_looks_is_void_and_keeps_what_was_seen(
    group_lab: LabFolder, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(OPEN)
    taken: list[int] = []
    take = looks.LookBook.take

    def once(self: looks.LookBook, num_seeds: int) -> Entry:
        if taken:
            raise KeyboardInterrupt
        taken.append(num_seeds)
        return take(self, num_seeds)

    monkeypatch.setattr(looks.LookBook, "take", once)
    with pytest.raises(KeyboardInterrupt):
        group_lab.open().run("1")
    with pytest.raises(ConflictError, match="looks again at 3 seeds an arm"):
        group_lab.open().verdict("1")
    shutil.rmtree(group_lab.runs("treatment/seed-2") / "checkpoints")
    body = group_lab.open().verdict("1", incomplete=True).body
    assert isinstance(body, Verdict)
    assert (body.outcome, body.look, body.num_seeds) == ("void", 1, 2)
    assert body.void_reasons[:2] == [
        "the registered look at 3 seeds an arm was never made",
        "the final checkpoint of treatment/seed-2 is none that verifies, the ledger has "
        + group_lab.bodies("run_ended")[-1].checkpoint_sha256,
    ]
    assert group_lab.open().verify().passed
    assert body.estimate == pytest.approx(0.1)
    assert len(group_lab.bodies("exposure")) == 1
    # Nothing runs after a verdict.
    started = kinds(group_lab).count("run_started")
    group_lab.open().run("1")
    assert kinds(group_lab).count("run_started") == started


def _killed_in_its_look(lab: LabFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a look of which only the exposure is on record."""

    def die(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sealed_evaluation, "load_weights", die)
        with pytest.raises(KeyboardInterrupt):
            lab.open().run("1")


def test_look_that_can_be_finished_is_not_given_up(
    group_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _killed_in_its_look(group_lab, monkeypatch)
    with pytest.raises(ConflictError, match="it can be made, and is not given up") as refused:
        group_lab.open().verdict("1", incomplete=True)
    assert refused.value.remedy == "workbench run 0001"
    assert group_lab.bodies("verdict") == []


def test_look_that_was_cut_short_and_cannot_be_finished_is_told_and_verifies(
    group_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _killed_in_its_look(group_lab, monkeypatch)
    shutil.rmtree(group_lab.runs("treatment/seed-1") / "checkpoints")
    with pytest.raises(IntegrityError, match="final checkpoint of treatment/seed-1"):
        group_lab.open().run("1")
    verdict = group_lab.open().verdict("1", incomplete=True)
    (exposure,) = group_lab.entries("exposure")
    body = verdict.body
    assert isinstance(body, Verdict)
    assert body.outcome == "void"
    assert "final checkpoint of treatment/seed-1" in body.void_reasons[1]
    assert body.void_reasons[2].startswith(
        f"the sealed test split was opened (entry {exposure.sequence})"
    )
    assert exposure.leaf in verdict.refs
    report = group_lab.open().verify()
    assert report.passed, [finding.detail for finding in report.claims if not finding.passed]


def test_checkpoints_of_runs_that_were_read_are_not_needed_again(
    group_lab: LabFolder, scripted: Scripted
) -> None:
    scripted(OPEN)
    taken: list[Path] = []
    take = looks.LookBook.take

    def lose(self: looks.LookBook, num_seeds: int) -> Entry:
        entry = take(self, num_seeds)
        for arm in ("control", "treatment"):
            taken.append(group_lab.runs(f"{arm}/seed-0") / "checkpoints")
            shutil.rmtree(taken[-1], ignore_errors=True)
        return entry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looks.LookBook, "take", lose)
        report = group_lab.open().run("1")
    assert taken
    assert [line.num_seeds for line in report.looks] == [2, 3, 4]
    body = group_lab.open().verdict("1").body
    assert isinstance(body, Verdict)
    assert body.outcome == "inconclusive"


def test_void_look_ends_it_and_opens_nothing(
    group_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(entry: Entry) -> Any:
        body = promotion_body(entry)
        changed = body.config_sha256 | {"control": "sha256:00"}
        return body.model_copy(update={"config_sha256": changed})

    monkeypatch.setattr(evidence, "promotion_body", other)
    group_lab.open().run("1")
    (look,) = group_lab.bodies("look")
    assert (look.state, look.next_seeds) == ("stop", None)
    assert look.results[0].outcome == "void"
    assert "another configuration than was promoted" in look.void_reasons[0]
    assert [seed.value for seed in look.values["control"]] == [None, None]
    assert group_lab.bodies("exposure") == []
    body = group_lab.open().verdict("1").body
    assert isinstance(body, Verdict)
    assert (body.outcome, body.estimate, body.scores) == ("void", None, [])


def test_value_that_is_not_a_number_voids_the_look(
    group_lab: LabFolder, scripted: Scripted
) -> None:
    scripted({"control": (3.0, 3.1), "treatment": (1.0, float("nan"))})
    group_lab.open().run("1")
    (look,) = group_lab.bodies("look")
    assert (look.state, look.results[0].outcome) == ("stop", "void")
    assert "finite" in look.void_reasons[0]
    body = group_lab.open().verdict("1").body
    assert isinstance(body, Verdict)
    assert body.outcome == "void"


def test_exploring_runs_every_seed_and_looks_at_nothing(group_lab: LabFolder) -> None:
    opened = group_lab.open()
    opened.sweep("1", exploratory=True)
    opened.promote("1", exploratory=True)
    report = opened.run("1", exploratory=True)
    assert len(report.runs) == 8
    assert report.looks == ()
    assert group_lab.bodies("exposure") == []


def test_family_goes_on_until_every_claim_is_decided(
    tmp_path_factory: pytest.TempPathFactory, scripted: Scripted,
    use: Callable[[LabFolder], LabFolder], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    lab = use(promoted(tmp_path_factory.mktemp("family"), GROUP, FAMILY))
    real = sealed_evaluation.sealed_scores

    def scores(*arguments: Any, **named: Any) -> SealedScores:
        found = real(*arguments, **named)
        metrics = {}
        for run, measured in found.metrics.items():
            arm, _, seed = run.partition("/seed-")
            first = {"control": 3.0, "treatment": 1.0}[arm] + 0.001 * int(seed)
            metrics[run] = {**dict.fromkeys(measured, first), "bpb_code": OPEN[arm][int(seed)]}
        return replace(found, metrics=metrics)

    monkeypatch.setattr(looks, "sealed_scores", scores)
    lab.open().run("1")
    bodies = lab.bodies("look")
    assert [body.state for body in bodies] == ["go_on", "go_on", "final"]
    assert [body.results[0].outcome for body in bodies] == ["supported"] * 3
    assert bodies[2].results[0] == bodies[0].results[0], "decided once, at its own share"
    assert bodies[2].results[1].hypothesis == "H2"
    assert bodies[0].results[0].alpha == pytest.approx(0.05 / 3 / 2)
    body = lab.open().verdict("1").body
    assert isinstance(body, Verdict)
    assert body.outcome == "supported"
    assert [result.outcome for result in body.results] == ["supported", "refuted"]


def test_anytime_looks_after_every_seed_from_the_first_that_can_show_anything(
    tmp_path_factory: pytest.TempPathFactory, scripted: Scripted,
    use: Callable[[LabFolder], LabFolder],
) -> None:  # fmt: skip
    lab = use(promoted(tmp_path_factory.mktemp("anytime"), ANYTIME))
    scripted(
        {"control": (3.0, 3.1, 3.2, 3.0, 3.1), "treatment": (1.0, 1.1, 1.21, 1.0, 1.1)},
    )
    lab.open().run("1")
    bodies = lab.bodies("look")
    assert bodies[0].num_seeds == 3
    assert bodies[-1].results[0].outcome == "supported"
    assert [body.num_seeds for body in bodies] == list(range(3, bodies[-1].num_seeds + 1))
