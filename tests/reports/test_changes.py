"""What the reports say of amendments, withdrawals and deviations by category."""

from datetime import UTC, datetime

import pytest

from tests.reports.amending import AMENDED, amendment_of
from tests.reports.sample import (
    EXPERIMENT,
    PROPOSAL,
    MemoryLog,
    registration,
    sample_log,
)
from workbench.analysis.claims import judge
from workbench.registry.amended import course_of
from workbench.registry.entries import (
    Body,
    Deviation,
    Promotion,
    Verdict,
    Withdrawal,
)
from workbench.registry.log import Entry
from workbench.reports.audit import audit_claims
from workbench.reports.blocks import Card, Heading, Section, Table
from workbench.reports.chronicle import chronicle
from workbench.reports.facts import ExperimentFacts, experiment_facts
from workbench.reports.index import index_of
from workbench.reports.render import chronicle_html, chronicle_markdown, index_html
from workbench.reports.stages import experiment_statuses
from workbench.reports.status import state_of, status_lines

NOW = datetime(2026, 4, 1, tzinfo=UTC)


def cut(log: MemoryLog, before: type[Body]) -> list[Entry]:
    """Cut the log before the first entry of a kind and return what was cut off."""
    place = next(i for i, e in enumerate(log.found) if isinstance(e.body, before))
    rest = log.found[place:]
    del log.found[place:]
    return rest


def replay(log: MemoryLog, entries: list[Entry]) -> None:
    for entry in entries:
        log.append(entry.body, entry.subject)


def amended_log(before: type[Body]) -> MemoryLog:
    """Return the sample log with an amendment put in before the first entry of a kind."""
    log = sample_log(proposal=AMENDED)
    log.replace_body("registration", **dict(registration(PROPOSAL)))
    rest = cut(log, before)
    log.append(amendment_of(log))
    replay(log, rest)
    judge_again(log)
    return log


def judge_again(log: MemoryLog) -> None:
    """Put what the amended alpha gives into the verdict, which the sample judges at 0.05."""
    body = next(e.body for e in log.found if isinstance(e.body, Verdict))
    values = {arm: [s.value for s in seeds if s.value] for arm, seeds in body.values.items()}
    found = judge(
        values["control"],
        values["treatment"],
        direction="minimize",
        claim_kind="superior",
        margin=0.02,
        alpha=0.01,
    )
    log.replace_body(
        "verdict", alpha=0.01, outcome=found.outcome, lower=found.lower, upper=found.upper
    )


@pytest.fixture
def early() -> MemoryLog:
    """Amended before the sweep."""
    log = sample_log(proposal=AMENDED)
    log.replace_body("registration", **dict(registration(PROPOSAL)))
    rest = log.found[3:]
    del log.found[3:]
    log.append(amendment_of(log))
    replay(log, rest)
    judge_again(log)
    return log


@pytest.fixture
def late() -> MemoryLog:
    """Amended after the promotion; the verdict owns up to it."""
    log = amended_log(Verdict)
    (reason,) = [
        f"proposal decision.alpha, proposal text were amended (entry {a.entry.sequence}) after "
        f"outcomes were seen (promotion, entry {a.known.rests_on[0].sequence})"
        for a in course_of(log, EXPERIMENT).late()
    ]
    action = "Repair the cause and register again"
    log.replace_body(
        "verdict", mode="exploratory", outcome="void", void_reasons=[reason], action=action
    )
    return log


@pytest.fixture
def withdrawn() -> MemoryLog:
    """Given up after the promotion."""
    log = sample_log()
    cut(log, Verdict)
    known = course_of(log, EXPERIMENT).known()
    log.append(
        Withdrawal(
            reason="the corpus is not ours to use",
            timing=known.timing,
            rests_on=[entry.id for entry in known.rests_on],
        )
    )
    return log


def facts_of(log: MemoryLog) -> ExperimentFacts:
    return experiment_facts(log, EXPERIMENT)


def section_of(log: MemoryLog, anchor: str) -> Section | None:
    return next((s for s in chronicle(facts_of(log)).sections if s.anchor == anchor), None)


def failed(log: MemoryLog) -> dict[int, str]:
    return {f.number: f.detail for f in audit_claims(log) if not f.passed}


# Facts and audit


def test_facts_are_those_in_force_and_cite_both_entries(early: MemoryLog) -> None:
    facts = facts_of(early)
    assert facts.proposal is not None
    assert facts.proposal.decision.alpha == 0.01
    assert facts.registration is not None
    assert [s.kind for s in facts.registration.sources] == ["registration", "amendment"]
    assert facts.original is not None
    assert "alpha: 0.05" in facts.original.value.proposal.text


def test_audit_judges_by_the_rule_in_force(early: MemoryLog) -> None:
    assert failed(early) == {}
    early.replace_body("verdict", alpha=0.05)
    assert "alpha" in failed(early)[3]


def test_audit_of_an_honest_void_verdict_passes(late: MemoryLog) -> None:
    assert failed(late) == {}


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({"mode": "confirmatory"}, 2),
        ({"outcome": "supported", "void_reasons": []}, 2),
        ({"void_reasons": ["bad weather"]}, 2),
        ({"estimate": 0.5}, 7),
        ({"lower": 0.5}, 7),
    ],
)
def test_audit_fails_a_verdict_that_claims_otherwise(
    late: MemoryLog, change: dict[str, object], number: int
) -> None:
    late.replace_body("verdict", **change)
    assert number in failed(late)


def test_audit_fails_an_exploratory_verdict_without_a_late_amendment(early: MemoryLog) -> None:
    early.replace_body("verdict", mode="exploratory")
    assert "nothing was amended after" in failed(early)[2]


def test_audit_recomputes_timing_whatever_the_amendment_says(late: MemoryLog) -> None:
    late.replace_body("amendment", timing="before_any_run", rests_on=[])
    assert failed(late) == {}
    late.replace_body("verdict", mode="confirmatory", outcome="supported", void_reasons=[])
    assert "after outcomes were seen" in failed(late)[2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"changes": []}, "are not those of its documents"),
        ({"control": {}}, "control arm"),
        ({"frozen": registration(PROPOSAL).frozen}, "frozen values differ"),
        ({"proposal": registration(AMENDED + "more\n").proposal}, "not those of its documents"),
        (
            {"full": registration().full.model_copy(update={"text": "full: other@1\n"})},
            "does not give its hash",
        ),
    ],
)
def test_audit_fails_an_amendment_that_misstates_itself(
    early: MemoryLog, change: dict[str, object], said: str
) -> None:
    early.replace_body("amendment", **change)
    assert said in failed(early)[1]


def test_audit_fails_a_verdict_of_what_was_withdrawn(withdrawn: MemoryLog) -> None:
    (judged,) = [e for e in sample_log().found if isinstance(e.body, Verdict)]
    withdrawn.append(judged.body)
    assert "withdrawn" in failed(withdrawn)[2]


# Status and index


def test_state_and_stage_of_a_withdrawn_experiment(withdrawn: MemoryLog) -> None:
    facts = facts_of(withdrawn)
    assert state_of(facts) == "withdrawn"
    state = next(line for line in status_lines(facts) if line.label == "State")
    assert state.text.startswith("Withdrawn: the corpus is not ours to use.")
    (status,) = experiment_statuses(withdrawn, [], NOW)
    assert (status.stage, status.next_command) == ("withdrawn", "workbench chronicle 0001")
    assert status.detail == "the corpus is not ours to use (after outcomes were seen)"


def test_status_counts_amendments_and_late_ones(early: MemoryLog, late: MemoryLog) -> None:
    (first,), (second,) = experiment_statuses(early, [], NOW), experiment_statuses(late, [], NOW)
    assert (first.amendments, first.late_amendments) == (1, 0)
    assert (second.amendments, second.late_amendments) == (1, 1)
    assert (second.stage, second.verdict) == ("decided", "void")
    assert "amended 1× (late: void)" in second.detail


def test_status_of_an_amended_number_of_seeds_plans_as_many_runs() -> None:
    log = MemoryLog(found=sample_log().found[:3])
    more = PROPOSAL.replace("seeds: 3", "seeds: 5", 1).replace("fixed(3)", "fixed(5)")
    log.append(amendment_of(log, more))
    (status,) = experiment_statuses(log, [], NOW)
    assert status.detail.startswith("5 seeds an arm")


def test_index_says_amended_and_withdrawn(late: MemoryLog, withdrawn: MemoryLog) -> None:
    (row,) = index_of({EXPERIMENT: facts_of(late)}).rows
    assert (row.state, row.amended) == ("void", "amended 1\u00a0time, after outcomes were seen")
    assert "after outcomes were seen" in index_html(index_of({EXPERIMENT: facts_of(late)}))
    (row,) = index_of({EXPERIMENT: facts_of(withdrawn)}).rows
    assert (row.state, row.amended) == ("withdrawn", "")
    index = index_html(index_of({EXPERIMENT: facts_of(withdrawn)}))
    assert "improvement" not in index
    assert " of device time" in index
    unspent = MemoryLog(found=withdrawn.found[:2])
    assert " of device time" not in index_html(index_of({EXPERIMENT: facts_of(unspent)}))


# Chronicle


def test_chronicle_without_changes_has_no_section_for_them() -> None:
    assert section_of(sample_log(), "changes") is None


def test_chronicle_shows_the_exact_diff_timing_and_effect(late: MemoryLog) -> None:
    found = section_of(late, "changes")
    assert found is not None
    (card,) = [block for block in found.blocks if isinstance(block, Card)]
    told = {line.label: line.text for line in card.lines}
    assert told["Known then"].startswith("After outcomes were seen")
    assert "exploratory and void" in told["Effect"]
    assert card.grave
    assert "-Mixtures are usually chosen" in card.excerpt
    assert "+Mixtures are nearly always chosen" in card.excerpt
    (diff,) = [block for block in found.blocks if isinstance(block, Table)]
    assert [row.cells for row in diff.rows] == [("proposal", "decision.alpha", "0.05", "0.01")]


def test_chronicle_of_a_late_amendment_marks_the_verdict(late: MemoryLog) -> None:
    text = chronicle_markdown(chronicle(facts_of(late)))
    assert "Exploratory verdict, which supports nothing" in text
    assert "were amended (entry" in text
    assert "Amended 1\u00a0time, 1 of them after outcomes were seen" in text


def test_chronicle_shows_the_withdrawal_and_keeps_everything(withdrawn: MemoryLog) -> None:
    found = section_of(withdrawn, "changes")
    assert found is not None
    (card,) = [block for block in found.blocks if isinstance(block, Card)]
    told = {line.label: line.text for line in card.lines}
    assert told["Reason"] == "The corpus is not ours to use."
    assert told["Known then"].startswith("After outcomes were seen")
    text = chronicle_markdown(chronicle(facts_of(withdrawn)))
    assert "**Withdrawn**" in text
    assert "A mixture, λ and phase plan chosen on proxies" in text


def test_chronicle_of_a_hostile_amendment_carries_no_markup() -> None:
    log = MemoryLog(found=sample_log().found[:3])
    hostile = "<script>alert(1)</script>"
    body = amendment_of(log, PROPOSAL.replace("# Background", f"# {hostile}"))
    log.append(body.model_copy(update={"reason": hostile}))
    html = chronicle_html(chronicle(facts_of(log)))
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") >= 2


def deviation(category: str, what: str, at: str) -> Deviation:
    return Deviation.model_validate(
        {
            "category": category, "what": what, "registered": "1", "found": "2", "effect": "e",
            "at": at,
        }
    )  # fmt: skip


def test_deviations_stand_by_category_and_repeated_ones_together() -> None:
    log = sample_log()
    for at in ("sweep", "run control/seed-0 attempt 1"):
        log.append(deviation("dependency", "environment.torch", at))
    log.append(deviation("data", "data.manifest", "sweep"))
    found = section_of(log, "deviations")
    assert found is not None
    headings = [block.text for block in found.blocks if isinstance(block, Heading)]
    assert headings == ["Data", "Dependencies"]
    cards = [block for block in found.blocks if isinstance(block, Card)]
    assert [card.title for card in cards] == [
        "evaluation.every",
        "data.manifest",
        "environment.torch",
    ]
    (status,) = experiment_statuses(log, [], NOW)
    assert status.deviations_by_category == {"data": 1, "dependency": 1, "other": 1}
    (row,) = index_of({EXPERIMENT: facts_of(log)}).rows
    assert row.deviated == "deviated in data and dependency"
    assert row.deviated in index_html(index_of({EXPERIMENT: facts_of(log)}))
    places = {line.label: line.text for line in cards[-1].lines}["At the start of"]
    assert places == "Sweep and run control/seed-0 attempt 1."
    assert len(cards[-1].sources) == 2


def test_promotion_stays_the_confirmatory_one(late: MemoryLog) -> None:
    facts = facts_of(late)
    assert facts.promotion is not None
    assert isinstance(facts.promotion.value, Promotion)
    assert facts.verdict is not None
