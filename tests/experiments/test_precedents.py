"""What was asked before: found, told in a line, and told apart."""

from dataclasses import replace

import pytest

from tests.reports.sample import EXPERIMENT, PROPOSAL, MemoryLog, registration, sample_log
from workbench.experiments.precedents import (
    MOST,
    Precedent,
    Question,
    precedents,
    question_of,
)
from workbench.registry.entries import Amendment, Hidden, Promotion, Registration, Withdrawal

NEW = Question(
    title="Is a searched mixture better with more experts?",
    kind="data_mixture",
    manipulated=("mixture", "model.num_experts"),
    recipe="experts@1",
    width=256,
    scales=("tiny", "small"),
    seeds=5,
    claim="superior(0.01)",
    metric="bpb_macro",
)


def only(log: MemoryLog, question: Question = NEW) -> Precedent:
    (found,) = precedents(log, question)
    return found


def upto(kind: str) -> MemoryLog:
    """Return the sample log as it was before its first entry of a kind."""
    log = sample_log()
    place = next(i for i, entry in enumerate(log.found) if entry.kind == kind)
    return replace(log, found=log.found[:place])


def test_precedent_says_how_it_ended_and_what_is_not_the_same() -> None:
    found = only(sample_log())
    assert found.headline() == "overlaps 0001, supported, 3 seeds"
    assert found.shared == ("mixture",)
    assert found.found.startswith("improvement +0.04")
    assert found.differs == (
        "varies also model.num_experts",
        "does not vary balance.weight, phase_fractions",
        "recipe experts@1, there mixture@1",
        "seeds 5, there 3",
        "claim superior(0.01), there superior(0.02)",
    )


def test_precedent_with_its_full_scale_says_its_width() -> None:
    log = sample_log()
    full = "full: big@1\nextends: mixture@1\noverrides: {model.d_model: 512}\n"
    body = registration()
    log.replace_body("registration", full=body.full.model_copy(update={"text": full}))
    assert only(log).headline() == "overlaps 0001, supported, d512, 3 seeds"
    assert "width d256, there d512" in only(log).differs


@pytest.mark.parametrize(
    ("kind", "state"), [("sweep_started", "registered"), ("promotion", "running")]
)
def test_precedent_without_a_verdict_says_where_it_is(kind: str, state: str) -> None:
    assert only(upto(kind)).state == state


def test_precedent_that_promoted_nothing_or_was_given_up_is_a_dead_end_too() -> None:
    log = upto("run_started")
    promotion = next(e.body for e in log.found if isinstance(e.body, Promotion))
    log.append(promotion.model_copy(update={"chosen": "none", "reason": "all lost to the control"}))
    assert (only(log).state, only(log).found) == ("nothing promoted", "all lost to the control")
    given_up = Withdrawal(reason="no compute", timing="outcomes_unseen", rests_on=[])
    log.append(given_up)
    assert (only(log).state, only(log).found) == ("withdrawn", "no compute")


def test_precedent_void_says_why() -> None:
    log = sample_log()
    log.replace_body("verdict", outcome="void", void_reasons=["seed 2 is missing"])
    assert (only(log).state, only(log).found) == ("void", "seed 2 is missing")


def test_precedent_is_compared_as_it_was_amended() -> None:
    log = upto("sweep_started")
    old = registration(PROPOSAL.replace("superior(0.02)", "superior(0.01)"))
    log.append(
        Amendment(
            experiment=EXPERIMENT, changes=[], reason_class="error", reason="a slip",
            timing="before_any_run", rests_on=[], effect="none", proposal=old.proposal,
            recipe=old.recipe, full=old.full, frozen=old.frozen, control=old.control,
            data=old.data, num_seeds=3,
        )
    )  # fmt: skip
    assert not [part for part in only(log).differs if part.startswith("claim")]


def test_precedent_under_embargo_is_known_by_its_name_only() -> None:
    log = upto("sweep_started")
    place = next(i for i, entry in enumerate(log.found) if entry.kind == "registration")
    log.found[place] = replace(log.found[place], body=Hidden())
    assert precedents(log, NEW) == ()
    found = only(log, Question(title="Mixture and balance"))
    assert (found.state, found.differs, found.title) == ("hidden", (), "mixture and balance")


@pytest.mark.parametrize(
    "question",
    [
        Question(title="Something else", manipulated=("mixture",)),
        Question(title="Something else", recipe="mixture@7"),
        Question(title="Does the searched mixture and λ beat the natural one at last?"),
    ],
)
def test_questions_overlap_by_keys_or_recipe_or_title(question: Question) -> None:
    assert len(precedents(sample_log(), question)) == 1


@pytest.mark.parametrize(
    "question",
    [
        Question(title="Does a longer warm-up help?", manipulated=("phase", "optimizer.lr")),
        Question(title="Does a longer warm-up help?", recipe="warmup@1", kind="data_mixture"),
        Question(title="and the one"),
        Question(title=""),
    ],
)
def test_questions_that_share_little_do_not_overlap(question: Question) -> None:
    assert precedents(sample_log(), question) == ()


def test_precedents_leave_the_experiment_itself_out_and_come_closest_first() -> None:
    log = sample_log()
    body = registration()
    values = {**body.frozen, "design": {**body.frozen["design"], "manipulated": ["mixture", "x"]}}
    for number in range(2, 9):
        subject = f"{number:04d}-again"
        log.append(body.model_copy(update={"experiment": subject, "frozen": values}), subject)
    assert precedents(log, NEW, but=EXPERIMENT)[0].experiment == "0008-again"
    assert len(precedents(log, NEW)) == MOST
    same = question_of(body.frozen, recipe="mixture@1")
    assert precedents(log, same)[0].experiment == EXPERIMENT


def test_precedent_that_repeats_everything_differs_in_nothing() -> None:
    log = sample_log()
    body = next(e.body for e in log.found if isinstance(e.body, Registration))
    assert only(log, question_of(body.frozen, recipe="mixture@1")).differs == ()
