"""Changing a promise: what is shown, what is refused, and what runs and is judged afterwards."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.labs import RECIPE_PATH, SUBJECT, LabFolder
from tests.registry.test_amended import exposure, promotion, run_started, verdict, work
from workbench.errors import ConflictError, InvalidFileError, NotRegisteredError
from workbench.experiments import amendments
from workbench.experiments.amendments import REASON_CLASSES, DraftAmendment
from workbench.experiments.locks import stage_lock
from workbench.experiments.plan import refuse_outdated, registered_plan
from workbench.experiments.registered import registered
from workbench.registry.entries import Amendment, Body, Look, Note, ProxyRun, Registration, Verdict
from workbench.registry.log import Entry
from workbench.reports.audit import audit_claims

PROPOSAL = f"experiments/{SUBJECT}/proposal.md"
FULL = f"experiments/{SUBJECT}/full.yaml"
NEXT_FULL = (FULL, f"{SUBJECT}@1", f"{SUBJECT}@2")
"""A file's name and version mean one content for ever."""
ALPHA = (PROPOSAL, "alpha: 0.05", "alpha: 0.01")


def edit(lab: LabFolder, *edits: tuple[str, str, str]) -> None:
    for path, old, new in edits:
        file = lab.root / path
        text = file.read_text("utf-8")
        assert old in text, old
        file.write_text(text.replace(old, new, 1), "utf-8")


def put(lab: LabFolder, *bodies: Body) -> list[Entry]:
    (registration,) = lab.entries("registration")
    with lab.open().ledger() as ledger:
        return [ledger.append(b, subject=SUBJECT, refs=[registration.leaf]) for b in bodies]


def amend(lab: LabFolder, draft: DraftAmendment | None = None) -> Entry:
    opened = lab.open()
    shown = draft or opened.draft_amendment("1")
    return opened.amend(shown, reason_class="error", reason=" mistyped ")


def paths(draft: DraftAmendment) -> dict[str, tuple[Any, Any]]:
    return {f"{c.document} {c.path}": (c.old, c.new) for c in draft.changes}


def proxy_run() -> ProxyRun:
    return ProxyRun.model_validate(
        {
            "mode": "confirmatory", "candidate": "control", "scale": "s1", "parameters": 1,
            "seed_index": 0, "seed": "1", "params": {}, "state": "completed", "metric": "m",
            "steps": 1, "tokens": 1, "device_seconds": 1.0, "mlflow_run": "m",
        }
    )  # fmt: skip


# What is shown


def test_draft_shows_each_changed_field_with_both_values(registered_lab: LabFolder) -> None:
    edit(
        registered_lab,
        ALPHA,
        (PROPOSAL, "seeds: 3", "seeds: 4"),
        (PROPOSAL, "fixed(3)", "fixed(4)"),
    )
    edit(registered_lab, (PROPOSAL, "# What the answer", "A sentence.\n\n# What the answer"))
    draft = registered_lab.open().draft_amendment("1")
    found = paths(draft)
    old, new = found.pop("proposal text")
    assert "A sentence." in new
    assert "A sentence." not in old
    assert found == {
        "proposal decision.alpha": ("0.05", "0.01"),
        "proposal decision.stopping": ("fixed(3)", "fixed(4)"),
        "proposal design.seeds": (3, 4),
    }
    assert draft.known.timing == "before_any_run"
    assert "stays confirmatory" in draft.effect
    assert registered_lab.entries("amendment") == []


def test_draft_of_an_added_and_a_removed_field_has_one_value(registered_lab: LabFolder) -> None:
    line = 'parent_question: ""\n'
    edit(registered_lab, (PROPOSAL, line, ""))
    (change,) = registered_lab.open().draft_amendment("1").changes
    assert (change.path, change.old, change.new) == ("parent_question", "", None)
    amend(registered_lab)
    edit(registered_lab, (PROPOSAL, "pilots_seen:", "parent_question: An old one\npilots_seen:"))
    (change,) = registered_lab.open().draft_amendment("1").changes
    assert (change.old, change.new) == (None, "An old one")


@pytest.mark.parametrize(
    ("before", "timing", "effect"),
    [
        ([], "before_any_run", "stays confirmatory"),
        ([work()], "outcomes_unseen", "stays confirmatory"),
        ([work(), promotion()], "outcomes_seen", "exploratory and void"),
        ([work(), exposure()], "outcomes_seen", "exploratory and void"),
    ],
)
def test_draft_states_the_consequence_before_anything_is_written(
    registered_lab: LabFolder, before: list[Body], timing: str, effect: str
) -> None:
    put(registered_lab, *before)
    edit(registered_lab, ALPHA)
    draft = registered_lab.open().draft_amendment("1")
    assert draft.known.timing == timing
    assert effect in draft.effect
    entry = amend(registered_lab)
    assert isinstance(entry.body, Amendment)
    assert (entry.body.timing, entry.body.effect) == (timing, draft.effect)
    assert registered_lab.open().verify().passed


# What is recorded and put in force


def test_amend_records_everything_and_refers_to_what_it_changes(
    registered_lab: LabFolder,
) -> None:
    edit(registered_lab, ALPHA)
    first = amend(registered_lab)
    edit(registered_lab, (PROPOSAL, "alpha: 0.01", "alpha: 0.02"))
    second = amend(registered_lab)
    (registration,) = registered_lab.entries("registration")
    assert first.refs == (registration.leaf,)
    assert second.refs == (registration.leaf, first.leaf)
    assert first.signature
    body = second.body
    assert isinstance(body, Amendment)
    assert (body.reason_class, body.reason) == ("error", "mistyped")
    (change,) = body.changes
    assert (change.old, change.new) == ("0.01", "0.02")
    assert body.proposal.text == (registered_lab.root / PROPOSAL).read_text("utf-8")
    assert registered_lab.open().verify().passed


def test_amended_plan_is_what_runs_with_the_seeds_of_the_first_anchor(
    registered_lab: LabFolder,
) -> None:
    before = registered_plan(registered_lab.open().source(), SUBJECT)
    edit(registered_lab, (PROPOSAL, "seeds: 3", "seeds: 4"), (PROPOSAL, "fixed(3)", "fixed(4)"))
    entry = amend(registered_lab)
    plan = registered_plan(registered_lab.open().source(), SUBJECT)
    assert plan.proposal.design.seeds == 4
    assert plan.seeds[:3] == before.seeds
    assert len(set(plan.seeds)) == 4
    assert plan.refs == (before.leaf, entry.leaf)
    assert plan.leaf == before.leaf
    (body,) = registered_lab.bodies("registration")
    assert body.num_seeds == 3


def test_amended_recipe_needs_a_new_version_and_then_runs(registered_lab: LabFolder) -> None:
    edit(registered_lab, (RECIPE_PATH, '"steps": 6', '"steps": 7'))
    with pytest.raises(InvalidFileError, match="tiny@2"):
        registered_lab.open().draft_amendment("1")
    edit(
        registered_lab, (RECIPE_PATH, '"tiny@1"', '"tiny@2"'), (FULL, "tiny@1", "tiny@2"), NEXT_FULL
    )
    entry = amend(registered_lab)
    assert isinstance(entry.body, Amendment)
    assert {f"{c.document} {c.path}" for c in entry.body.changes} == {
        "recipe recipe",
        "recipe base.steps",
        "full extends",
        "full full",
    }
    plan = registered_plan(registered_lab.open().source(), SUBJECT)
    assert plan.recipe.base.steps == 7
    assert plan.recipe_sha256 == entry.body.recipe.sha256
    assert registered_lab.open().verify().passed


def test_amended_corpus_is_built_and_recorded(registered_lab: LabFolder) -> None:
    edit(
        registered_lab,
        (RECIPE_PATH, '"tiny@1"', '"tiny@2"'),
        (RECIPE_PATH, '"name": "tiny@1"', '"name": "tiny@2"'),
        (RECIPE_PATH, '"salt": "tests"', '"salt": "other"'),
        (FULL, "tiny@1", "tiny@2"),
        NEXT_FULL,
    )
    (registration,) = registered_lab.bodies("registration")
    entry = amend(registered_lab)
    assert isinstance(entry.body, Amendment)
    assert entry.body.data.corpus == "tiny@2"
    assert entry.body.data.manifest != registration.data.manifest


@pytest.mark.usefixtures("one_thread")
def test_sweep_runs_the_amended_budget(registered_lab: LabFolder) -> None:
    edit(registered_lab, (PROPOSAL, "budget_trials: 3", "budget_trials: 2"))
    amend(registered_lab)
    report = registered_lab.open().sweep("1")
    assert report.declared == 2
    assert len(registered_lab.bodies("trial")) == 2
    assert registered_lab.bodies("deviation") == []
    assert registered_lab.open().verify().passed


def test_stage_that_started_before_the_amendment_is_refused(registered_lab: LabFolder) -> None:
    opened = registered_lab.open()
    plan = registered_plan(opened.source(), SUBJECT)
    refuse_outdated(opened.source(), plan)
    edit(registered_lab, ALPHA)
    amend(registered_lab)
    with pytest.raises(ConflictError, match="was amended while"):
        refuse_outdated(opened.source(), plan)


# What is refused


def test_nothing_registered_is_nothing_to_amend(filed_lab: LabFolder) -> None:
    with pytest.raises(NotRegisteredError, match="workbench register"):
        filed_lab.open().draft_amendment("1")


@pytest.mark.parametrize("edited", [False, True])
def test_no_changed_field_is_refused(registered_lab: LabFolder, edited: bool) -> None:
    if edited:
        edit(registered_lab, (PROPOSAL, "design:\n", "# a remark\ndesign:\n"))
    with pytest.raises(ConflictError, match="nothing to amend"):
        registered_lab.open().draft_amendment("1")


def test_faulty_files_are_refused_with_their_lines(registered_lab: LabFolder) -> None:
    edit(registered_lab, (PROPOSAL, "alpha: 0.05", "alpha: 7"))
    with pytest.raises(InvalidFileError, match=r"proposal\.md:\d+"):
        registered_lab.open().draft_amendment("1")


def test_after_the_verdict_is_refused(registered_lab: LabFolder) -> None:
    put(registered_lab, verdict())
    edit(registered_lab, ALPHA)
    with pytest.raises(ConflictError, match="has its verdict"):
        registered_lab.open().draft_amendment("1")


@pytest.mark.parametrize(
    ("ran", "edits", "named"),
    [
        ([work()], [(PROPOSAL, "budget_trials: 3", "budget_trials: 5")], "sweep.budget_trials"),
        (
            [work()],
            [
                (RECIPE_PATH, '"steps": 6', '"steps": 7'),
                (RECIPE_PATH, '"tiny@1"', '"tiny@2"'),
                (FULL, "tiny@1", "tiny@2"),
                NEXT_FULL,
            ],
            "recipe base.steps",
        ),
        ([work(), proxy_run()], [(PROPOSAL, "fresh_seeds: 2", "fresh_seeds: 3")], "fresh_seeds"),
        (
            [work(), promotion()],
            [NEXT_FULL, (PROPOSAL, "method: power_law", "method: last_scale")],
            "full full",
        ),
    ],
)
def test_what_has_run_cannot_be_changed(
    registered_lab: LabFolder, ran: list[Body], edits: list[tuple[str, str, str]], named: str
) -> None:
    edit(registered_lab, *edits)
    registered_lab.open().draft_amendment("1")
    entries = put(registered_lab, *ran)
    with pytest.raises(ConflictError, match="already run") as refused:
        registered_lab.open().draft_amendment("1")
    assert named in refused.value.message
    assert f"entry {entries[-1].sequence}" in refused.value.message
    assert "workbench withdraw 0001" in refused.value.remedy


def look(num_seeds: int, number: int = 1) -> Look:
    return Look(
        mode="confirmatory",
        number=number,
        num_seeds=num_seeds,
        state="go_on",
        values={},
        results=[],
    )


def stopped_by(lab: LabFolder, stopping: str, seeds: int) -> None:
    file = lab.root / PROPOSAL
    text = re.sub(r"\n  stopping: .*", f"\n  stopping: {stopping}", file.read_text("utf-8"))
    file.write_text(re.sub(r"\n  seeds: .*", f"\n  seeds: {seeds}", text), "utf-8")


@pytest.mark.parametrize(
    ("stopping", "seeds"),
    [("group(4,8)", 8), ("fixed(5)", 5), ("group(3,6,8)", 8), ("fixed(8)", 8)],
)
def test_stopping_rule_that_would_not_have_looked_where_it_was_looked_is_refused(
    registered_lab: LabFolder, stopping: str, seeds: int
) -> None:
    stopped_by(registered_lab, stopping, seeds)
    assert registered_lab.open().draft_amendment("1").known.timing == "before_any_run"
    put(registered_lab, look(3), look(5, number=2))
    with pytest.raises(ConflictError, match=r"were looked at with 3, 5") as refused:
        registered_lab.open().draft_amendment("1")
    assert f"{stopping} would look at" in refused.value.message
    assert "workbench withdraw 0001" in refused.value.remedy


@pytest.mark.parametrize(("stopping", "seeds"), [("group(3,5)", 5), ("group(3,5,8,12)", 12)])
def test_stopping_rule_that_begins_with_the_looks_taken_may_be_amended(
    registered_lab: LabFolder, stopping: str, seeds: int
) -> None:
    put(registered_lab, look(3), look(5, number=2))
    stopped_by(registered_lab, stopping, seeds)
    assert registered_lab.open().draft_amendment("1").known.timing == "outcomes_seen"


def test_group_that_ends_before_the_seeds_that_ran_is_refused(registered_lab: LabFolder) -> None:
    put(registered_lab, run_started(1, index=2))
    stopped_by(registered_lab, "group(2,3)", 3)
    assert registered_lab.open().draft_amendment("1").changes
    put(registered_lab, run_started(1, index=3))
    stopped_by(registered_lab, "fixed(2)", 2)
    with pytest.raises(ConflictError, match="2 are fewer than have run"):
        registered_lab.open().draft_amendment("1")


def test_amendment_to_a_rule_that_cannot_be_is_refused_by_its_faults(
    registered_lab: LabFolder,
) -> None:
    stopped_by(registered_lab, "group(5,3)", 5)
    with pytest.raises(InvalidFileError) as refused:
        registered_lab.open().draft_amendment("1")
    assert "do not rise" in str(refused.value)


def test_fewer_seeds_than_ran_are_refused_and_as_many_are_not(registered_lab: LabFolder) -> None:
    put(registered_lab, run_started(1, index=1))
    edit(registered_lab, (PROPOSAL, "seeds: 3", "seeds: 2"), (PROPOSAL, "fixed(3)", "fixed(2)"))
    assert registered_lab.open().draft_amendment("1").known.timing == "outcomes_unseen"
    put(registered_lab, run_started(1, index=2))
    with pytest.raises(ConflictError, match="2 are fewer than have run"):
        registered_lab.open().draft_amendment("1")


def test_files_that_changed_since_they_were_shown_are_refused(registered_lab: LabFolder) -> None:
    edit(registered_lab, ALPHA)
    shown = registered_lab.open().draft_amendment("1")
    edit(registered_lab, (PROPOSAL, "alpha: 0.01", "alpha: 0.2"))
    with pytest.raises(ConflictError, match="since the amendment was shown"):
        amend(registered_lab, shown)
    assert registered_lab.entries("amendment") == []


def test_look_between_showing_and_amending_is_refused(registered_lab: LabFolder) -> None:
    edit(registered_lab, ALPHA)
    shown = registered_lab.open().draft_amendment("1")
    put(registered_lab, exposure())
    with pytest.raises(ConflictError, match="since the amendment was shown"):
        amend(registered_lab, shown)


def test_look_in_the_last_moment_is_not_overlooked(
    registered_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timing is that of the very place in the log at which the amendment stands."""
    edit(registered_lab, ALPHA)
    shown = registered_lab.open().draft_amendment("1")
    honest, looks = amendments.draft_amendment, [exposure()]

    def interrupted(*arguments: Any, **named: Any) -> DraftAmendment:
        drawn = honest(*arguments, **named)
        if looks:
            put(registered_lab, looks.pop())
        return drawn

    monkeypatch.setattr(amendments, "draft_amendment", interrupted)
    with pytest.raises(ConflictError, match="since the amendment was shown"):
        amend(registered_lab, shown)
    assert registered_lab.entries("amendment") == []


def test_entry_of_another_experiment_in_the_last_moment_does_not_matter(
    registered_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(registered_lab, ALPHA)
    shown = registered_lab.open().draft_amendment("1")
    honest, others = amendments.draft_amendment, [Note(text="elsewhere")]

    def interrupted(*arguments: Any, **named: Any) -> DraftAmendment:
        drawn = honest(*arguments, **named)
        if others:
            with registered_lab.open().ledger() as ledger:
                ledger.append(others.pop(), subject="lab")
        return drawn

    monkeypatch.setattr(amendments, "draft_amendment", interrupted)
    amend(registered_lab, shown)
    assert len(registered_lab.entries("amendment")) == 1
    assert registered_lab.open().verify().passed


@pytest.mark.parametrize("mode", ["confirmatory", "exploratory"])
def test_experiment_at_work_is_not_amended(registered_lab: LabFolder, mode: Any) -> None:
    edit(registered_lab, ALPHA)
    with (
        registered_lab.open().ledger() as ledger,
        stage_lock(registered_lab.open().layout, ledger, SUBJECT, mode),
        pytest.raises(ConflictError, match="at work"),
    ):
        amend(registered_lab)


def test_reason_is_owed(registered_lab: LabFolder) -> None:
    edit(registered_lab, ALPHA)
    opened = registered_lab.open()
    with pytest.raises(InvalidFileError, match="without a reason"):
        opened.amend(opened.draft_amendment("1"), reason_class="error", reason="  ")


def test_check_says_that_an_edit_can_be_amended(registered_lab: LabFolder) -> None:
    edit(registered_lab, ALPHA)
    (warning,) = registered_lab.open().check("1").warnings
    assert "workbench amend 0001" in warning.remedy
    amend(registered_lab)
    assert registered_lab.open().check("1").warnings == ()


def test_reason_classes_are_those_of_the_record() -> None:
    assert set(REASON_CLASSES) == {
        "clarification",
        "error",
        "infeasible",
        "new_information",
        "external",
    }


# What is judged


@pytest.mark.usefixtures("one_thread")
def test_verdict_on_a_late_amendment_is_exploratory_and_void_with_its_estimate(
    finished_lab: LabFolder,
) -> None:
    edit(finished_lab, ALPHA)
    late = amend(finished_lab)
    entry = finished_lab.open().verdict("1")
    body = entry.body
    assert isinstance(body, Verdict)
    assert (body.mode, body.outcome, body.alpha) == ("exploratory", "void", 0.01)
    (reason,) = body.void_reasons
    assert f"amended (entry {late.sequence})" in reason
    assert body.estimate is not None
    assert body.lower is not None
    assert len(body.scores) == 3
    assert late.leaf in entry.refs
    report = finished_lab.open().verify()
    assert [f.detail for f in report.claims if not f.passed] == []
    assert report.passed
    status = finished_lab.open().status()[0]
    assert (status.stage, status.verdict, status.late_amendments) == ("decided", "void", 1)


FORGED: dict[str, Callable[[Verdict], dict[str, Any]]] = {
    "mode": lambda _: {"mode": "confirmatory"},
    "outcome": lambda _: {"outcome": "supported", "void_reasons": []},
    "reason": lambda _: {"void_reasons": ["bad weather"]},
    "estimate": lambda body: {"estimate": (body.estimate or 0) + 1},
}


@pytest.mark.usefixtures("one_thread")
def test_verdict_that_hides_a_late_amendment_fails_the_audit(finished_lab: LabFolder) -> None:
    edit(finished_lab, ALPHA)
    amend(finished_lab)
    opened = finished_lab.open()
    honest = opened.verdict("1").body
    assert isinstance(honest, Verdict)
    entries = list(opened.source().entries())
    for name, change in FORGED.items():
        forged = honest.model_copy(update=change(honest))
        found = audit_claims(Log(entries, forged))
        assert [f.number for f in found if not f.passed], name


class Log:
    """The log with another verdict in the last one's place."""

    origin = "forged"

    def __init__(self, entries: list[Entry], verdict: Verdict) -> None:
        self._entries = [
            replace(e, body=verdict) if isinstance(e.body, Verdict) else e for e in entries
        ]

    def head(self) -> None:
        return None

    def entries(self, *, kind: str | None = None, subject: str | None = None) -> Any:
        for entry in self._entries:
            if kind in (None, entry.kind) and subject in (None, entry.subject):
                yield entry


def test_registered_reads_what_is_in_force(registered_lab: LabFolder) -> None:
    edit(registered_lab, ALPHA)
    entry = amend(registered_lab)
    found = registered(registered_lab.open().source(), SUBJECT)
    assert found.amendments == (entry,)
    assert isinstance(found.entry.body, Registration)
    assert found.proposal.decision.alpha == 0.01
