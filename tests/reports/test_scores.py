"""What becomes of every forecast, and that none that is none gets into a figure."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.reports import forecast_log as logs
from tests.reports.forecast_log import Story
from tests.reports.sample import PROPOSAL, MemoryLog, exploratory_log
from tests.reports.test_hidden import hide
from workbench.registry.entries import Embargo, Withdrawal
from workbench.reports.scores import ForecastRecord, Scoreboard, lab_scoreboard
from workbench.reports.site import all_facts

NOW = datetime(2026, 4, 1, tzinfo=UTC)
TARGETS = ["improvement", "treatment", "control"]
STORY = Story(name="0001-first")


def scores_of(log: MemoryLog) -> Scoreboard:
    return lab_scoreboard(all_facts([log]).values())


def fates(log: MemoryLog) -> list[tuple[str, str]]:
    return [(r.forecast.value.target, r.fate) for r in scores_of(log).forecasts]


def started(story: Story = STORY) -> MemoryLog:
    """Return a log whose only experiment has its forecasts and nothing after them."""
    log = logs.empty_log()
    logs.register(log, story)
    logs.promote(log, story)
    logs.forecast(log, story)
    return log


def many(num: int) -> list[Story]:
    return [Story(name=f"{place:04d}-x") for place in range(1, num + 1)]


def test_each_target_has_a_board_with_one_forecast_an_experiment() -> None:
    scores = scores_of(logs.log_of(many(4)))
    assert [board.target for board in scores.boards] == TARGETS
    assert [board.standings[0].n for board in scores.boards] == [4, 4, 4]
    assert len(scores.having("scored")) == 12


@pytest.mark.parametrize(("experiments", "graded"), [(29, False), (30, True)])
def test_grade_takes_thirty_experiments_however_many_forecasts_each_has(
    experiments: int, graded: bool
) -> None:
    for board in scores_of(logs.log_of(many(experiments))).boards:
        assert (board.standings[0].grade == "uncalibrated, n<30") != graded


def test_standings_are_by_kind_and_method_and_by_reach() -> None:
    balance = PROPOSAL.replace("kind: data_mixture", "kind: balance")
    stories = [
        Story(name="0001-a"),
        Story(name="0002-b", method="last_scale", ratio=50.0),
        Story(name="0003-c", proposal=balance, ratio=5000.0),
    ]
    (board, *_) = scores_of(logs.log_of(stories)).boards
    assert [row.group for row in board.standings] == [
        "all",
        "family balance, power_law",
        "family data_mixture, last_scale",
        "family data_mixture, power_law",
        "extrapolation up to 10x",
        "extrapolation 10x to 100x",
        "extrapolation beyond 1000x",
    ]
    assert [row.n for row in board.standings[1:]] == [1] * 6


def test_scores_are_those_of_the_forecast_against_the_verdict() -> None:
    story = Story(name="0001-a", control=1.80, treatment=1.75, forecast={"improvement": 0.04})
    (board, *_) = scores_of(logs.log_of([story])).boards
    row = board.standings[0]
    assert row.bias == pytest.approx(0.01)
    assert row.metrics == ("bpb_macro",)
    # One spread off: outside of 50 %, inside of 80 % and 95 %.
    assert [row.coverage[level].hits for level in (50, 80, 95)] == [0, 1, 1]
    assert row.skill["no_effect"] == pytest.approx(1 - row.crps / 0.05)
    assert row.skill["last_scale"] == pytest.approx(1 - row.crps / 0.19)
    assert [source.kind for source in board.sources] == ["forecast", "verdict"]


def without_result(log: MemoryLog) -> None:
    logs.begin(log, STORY)


def withdrawn(log: MemoryLog) -> None:
    logs.add(log, Withdrawal(reason="no budget", timing="outcomes_unseen", rests_on=[]), STORY)


def void(log: MemoryLog) -> None:
    logs.begin(log, STORY)
    reasons = ["run control/seed-1 diverged"]
    logs.decide(log, STORY, outcome="void", void_reasons=reasons, scores=[], estimate=None)


def hidden_verdict(log: MemoryLog) -> None:
    logs.begin(log, STORY)
    hide(log, [logs.decide(log, STORY).sequence])


def of_another_metric(log: MemoryLog) -> None:
    logs.begin(log, STORY)
    logs.decide(log, STORY, metric="bpb_code")


def without_score(log: MemoryLog) -> None:
    logs.begin(log, STORY)
    logs.decide(log, STORY, scores=[])


def not_finite(log: MemoryLog) -> None:
    logs.begin(log, STORY)
    scores = [logs.scored(STORY, t, 1.7).model_copy(update={"observed": math.nan}) for t in TARGETS]
    logs.decide(log, STORY, scores=scores)


def late_amendment(log: MemoryLog) -> None:
    logs.begin(log, STORY)
    logs.decide(log, STORY, outcome="void", void_reasons=["amended late"], mode="exploratory")


@pytest.mark.parametrize(
    ("happens", "fate", "why"),
    [
        (lambda log: None, "open", ""),
        (without_result, "open", ""),
        (withdrawn, "withdrawn", "no budget"),
        (void, "void", "run control/seed-1 diverged"),
        (hidden_verdict, "hidden", "the verdict is hidden"),
        (of_another_metric, "unscorable", "the verdict is about bpb_code, it about bpb_macro"),
        (without_score, "unscorable", "the verdict has no score of it"),
        (not_finite, "unscorable", "is not finite: no score"),
        (late_amendment, "scored", ""),
    ],
)
def test_forecast_has_the_fate_of_its_experiment(
    happens: Callable[[MemoryLog], None], fate: str, why: str
) -> None:
    log = started()
    happens(log)
    scores = scores_of(log)
    assert [record.fate for record in scores.forecasts] == [fate] * 3
    assert all(record.why.endswith(why) and bool(record.why) == bool(why)
               for record in scores.forecasts)  # fmt: skip
    if fate == "unscorable":
        assert scores.boards == ()
    else:
        found = (scores.boards[0].standings[0].n, scores.boards[0].standings[0].num_unscored)
        assert found == ((1, 0) if fate == "scored" else (0, 1))


@pytest.mark.parametrize("mode", ["confirmatory", "exploratory"])
def test_forecast_made_after_a_full_scale_run_began_is_left_out_and_named(mode: str) -> None:
    log = started()
    run = logs.begin(log, STORY, mode=mode)
    later = logs.add(log, logs.forecast_body(STORY, "improvement", point=0.04), STORY)
    logs.decide(log, STORY)
    scores = scores_of(log)
    (late,) = scores.having("late")
    assert late.forecast.leaf == later.leaf
    assert late.why == f"made after a full-scale run began in entry {run.sequence}"
    # The one that was made in time counts, and as it was made.
    assert scores.boards[0].standings[0].n == 1
    assert scores.boards[0].standings[0].bias == pytest.approx(-0.01)


def test_forecast_after_a_hidden_run_is_late_too() -> None:
    log = logs.empty_log()
    logs.register(log, STORY)
    logs.promote(log, STORY)
    run = logs.begin(log, STORY)
    logs.forecast(log, STORY)
    hide(log, [run.sequence])
    assert fates(log) == [(target, "late") for target in ("control", "treatment", "improvement")]
    assert scores_of(log).boards == ()


def test_last_forecast_before_any_run_counts_and_the_earlier_is_named() -> None:
    log = started()
    again = logs.add(log, logs.forecast_body(STORY, "improvement", point=0.05), STORY)
    logs.begin(log, STORY)
    logs.decide(log, STORY)
    scores = scores_of(log)
    (earlier,) = scores.having("superseded")
    assert earlier.why == f"made again in entry {again.sequence}"
    assert scores.boards[0].standings[0].n == 1
    assert scores.boards[0].standings[0].bias == pytest.approx(-0.01)


def test_exploratory_forecast_is_never_scored() -> None:
    log = started()
    logs.add(log, logs.forecast_body(STORY, "improvement", mode="exploratory"), STORY)
    logs.begin(log, STORY)
    logs.decide(log, STORY)
    other = Story(name="recipe:mixture@1")
    for entry in exploratory_log().found:
        log.append(entry.body, entry.subject)
    logs.add(log, logs.forecast_body(other, "improvement"), other)
    scores = scores_of(log)
    assert [r.experiment for r in scores.having("exploratory")] == [STORY.name, other.name]
    assert [board.standings[0].n for board in scores.boards] == [1, 1, 1]


@pytest.mark.parametrize(
    "changes",
    [
        {"extrapolation_ratio": 0.0},
        {"extrapolation_ratio": math.inf},
        {"point": math.nan},
        {"intervals": []},
        {"spread": -1.0},
    ],
)
def test_forecast_that_cannot_be_scored_is_named_and_breaks_nothing(
    changes: dict[str, Any],
) -> None:
    log = logs.empty_log()
    logs.register(log, STORY)
    logs.add(log, logs.forecast_body(STORY, "improvement", **changes), STORY)
    ((target, fate),) = fates(log)
    assert (target, fate) == ("improvement", "unscorable")
    assert scores_of(log).forecasts[0].why


def test_hidden_forecast_is_counted_as_hidden() -> None:
    log = logs.log_of([STORY])
    place = next(e.sequence for e in log.found if e.kind == "forecast")
    hide(log, [place])
    scores = scores_of(log)
    (found,) = scores.hidden
    assert found.source.sequence == place
    assert "redacted by entry" in found.why
    assert [board.target for board in scores.boards] == ["improvement", "treatment"]


def test_embargoed_forecasts_are_hidden_also_from_who_has_the_store() -> None:
    log = logs.empty_log()
    promise = logs.register(log, STORY)
    embargo = Embargo(until="2027-01-01", reason="a paper")
    logs.add(log, embargo, STORY, [promise.leaf])
    logs.promote(log, STORY)
    logs.forecast(log, STORY)
    scores = scores_of(log)
    assert scores.forecasts == ()
    assert len(scores.hidden) == 3
    assert all(hidden.why.startswith("withheld until 2027-01-01") for hidden in scores.hidden)


def test_forecast_of_a_hidden_registration_has_an_unknown_kind() -> None:
    log = logs.log_of([STORY])
    hide(log, [1])
    record: ForecastRecord = scores_of(log).forecasts[0]
    assert record.family == "unknown kind, power_law"


def test_forecasts_of_every_log_count_once_each() -> None:
    older, newer = logs.log_of(many(2)), logs.log_of(many(3))
    older.origin = "example.org/older"
    found = all_facts([newer, older]).values()
    scores = lab_scoreboard(found)
    assert scores.boards[0].standings[0].n == 5
    assert _origins(scores.forecasts) == {newer.origin, older.origin}


def _origins(records: Sequence[ForecastRecord]) -> set[str]:
    return {record.origin for record in records}
