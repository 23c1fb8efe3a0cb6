"""Selection: what a sweep's ranking may hold, and when a candidate may be promoted."""

import math

import pytest

from workbench.proxies.selection import SelectionRule, candidate_name, select, sweep_ranking
from workbench.registry.entries import ProxyRun, Trial

CONTROL = {"balance": {"weight": 0.01}}
RULE = SelectionRule(
    direction="minimize",
    claim_kind="superior",
    margin=0.01,
    alpha=0.05,
    tie_break="earlier_trial",
    top_k=2,
    fresh_seeds=3,
    scale="m",
)


def trial(number: int, value: float | None, *, state: str = "completed", **changes) -> Trial:
    values = {
        "mode": "confirmatory", "number": number, "state": state, "scale": "s",
        "params": {"balance": {"weight": 0.001 * (number + 1)}}, "seed": "1",
        "metric": "bpb_macro", "value": value, "steps": 10, "tokens": 160,
        "device_seconds": 1.0, "mlflow_run": "",
    }  # fmt: skip
    return Trial(**(values | changes))


def runs(candidate: str, *values: float | None, scale: str = "m", **changes) -> list[ProxyRun]:
    return [
        ProxyRun(**({
            "mode": "confirmatory", "candidate": candidate, "scale": scale, "parameters": 1,
            "seed_index": index, "seed": "1", "params": {}, "metric": "bpb_macro",
            "state": "completed" if value is not None else "diverged", "value": value,
            "steps": 10, "tokens": 160, "device_seconds": 1.0, "mlflow_run": "",
        } | changes))
        for index, value in enumerate(values)
    ]  # fmt: skip


def ranking(trials: list[Trial], **changes: str) -> list[int]:
    rules = {"direction": "minimize", "tie_break": "earlier_trial"} | changes
    return [t.number for t in sweep_ranking(trials, control=CONTROL, **rules)]


def test_ranking_holds_only_completed_finite_trials() -> None:
    """A NaN never wins and never counts as 0."""
    trials = [
        trial(0, 2.0),
        trial(1, math.nan),
        trial(2, -math.inf),
        trial(3, None, state="diverged", last_value=0.1),
        trial(4, None, state="pruned", last_value=0.5),
        trial(5, None, state="failed"),
        trial(6, None, state="lost"),
        trial(7, 1.0),
    ]
    assert ranking(trials) == [7, 0]
    assert ranking(trials, direction="maximize") == [0, 7]


def test_ranking_leaves_out_the_control_and_repeated_points() -> None:
    same = {"balance": {"weight": 0.5}}
    trials = [
        trial(0, 1.0, params=CONTROL),
        trial(1, 1.5, params={"balance": {"weight": "0.01"}}),  # as the ledger gives it back
        trial(2, 3.0, params=same),
        trial(3, 2.0, params=same),
    ]
    assert ranking(trials) == [3]


def test_ranking_ties_follow_the_registered_rule() -> None:
    trials = [trial(1, 1.0, tokens=200), trial(2, 1.0, tokens=100), trial(3, 1.0, tokens=100)]
    assert ranking(trials) == [1, 2, 3]
    assert ranking(trials, tie_break="fewer_tokens") == [2, 3, 1]


def test_select_promotes_the_best_rerun_mean_not_the_best_of_the_sweep() -> None:
    ranked = [trial(4, 1.0), trial(9, 1.1)]
    reruns = [
        *runs("control", 2.00, 2.01, 2.02),
        *runs("trial-04", 1.95, 1.96, 1.97),
        *runs("trial-09", 1.90, 1.91, 1.92),
        *runs("trial-04", 0.10, 0.10, 0.10, scale="s"),
    ]
    found = select(ranked, reruns, RULE, CONTROL)
    assert found.chosen == "trial-09"
    assert [c.name for c in found.candidates] == ["control", "trial-04", "trial-09"]
    best = found.candidates[2]
    assert best.improvement == pytest.approx(0.1)
    assert best.lower < 0.1 < best.upper
    assert best.sweep_value == 1.1
    assert (best.rerun_mean, best.rerun_n) == (pytest.approx(1.91), 3)
    assert best.rerun_sd == pytest.approx(0.01)
    assert found.candidates[0].feasible is False
    assert "trial-09 has the best re-run mean of 2 feasible" in found.reason


def test_select_larger_is_better_where_registered() -> None:
    rule = SelectionRule(**{**RULE.__dict__, "direction": "maximize"})
    reruns = [*runs("control", 0.5, 0.51, 0.52), *runs("trial-04", 0.6, 0.61, 0.62)]
    assert select([trial(4, 0.6)], reruns, rule, CONTROL).chosen == "trial-04"
    reversed_ = [*runs("trial-04", 0.5, 0.51, 0.52), *runs("control", 0.6, 0.61, 0.62)]
    assert select([trial(4, 0.6)], reversed_, rule, CONTROL).chosen == "none"


@pytest.mark.parametrize(
    ("control", "treatment", "reason"),
    [
        ((2.0, 2.0, 2.1), (2.1, 2.2, 2.2), "not better than the control's"),
        ((2.0, 2.1, 2.2), (2.0, 2.1, 2.2), "not better than the control's"),
        ((2.000, 2.001, 2.002), (1.998, 1.999, 2.000), "already refute superior(0.01)"),
        ((2.0, 2.1, 2.2), (1.0, 1.1, None), "2 of 3 re-runs completed (diverged)"),
        ((2.0, 2.1, 2.2), (1.0, 1.1, math.nan), "2 of 3 re-runs completed"),
        ((2.0, 2.1, None), (1.0, 1.1, 1.2), "2 of the control's 3 re-runs completed"),
        ((), (1.0, 1.1, 1.2), "0 of the control's 3 re-runs completed"),
    ],
)
def test_select_infeasible_candidate_is_never_promoted(
    control: tuple, treatment: tuple, reason: str
) -> None:
    reruns = [*runs("control", *control), *runs("trial-04", *treatment)]
    found = select([trial(4, 0.5)], reruns, RULE, CONTROL)
    assert found.chosen == "none"
    assert reason in found.candidates[1].reason
    assert "no candidate is feasible: trial-04" in found.reason


def test_select_identical_reruns_without_variation_are_judged_by_their_means() -> None:
    reruns = [*runs("control", 2.0, 2.0, 2.0), *runs("trial-04", 1.9, 1.9, 1.9)]
    found = select([trial(4, 0.5)], reruns, RULE, CONTROL)
    assert found.chosen == "trial-04"
    assert found.candidates[1].lower is None


def test_select_non_inferiority_does_not_ask_for_a_better_mean() -> None:
    rule = SelectionRule(**{**RULE.__dict__, "claim_kind": "non_inferior", "margin": 0.05})
    reruns = [*runs("control", 2.00, 2.01, 2.02), *runs("trial-04", 2.02, 2.03, 2.04)]
    assert select([trial(4, 0.5)], reruns, rule, CONTROL).chosen == "trial-04"
    worse = [*runs("control", 2.00, 2.01, 2.02), *runs("trial-04", 2.12, 2.13, 2.14)]
    assert select([trial(4, 0.5)], worse, rule, CONTROL).chosen == "none"
    assert "better re-run mean" not in rule.sentence()


def test_select_equal_means_follow_the_tie_break() -> None:
    same = (1.90, 1.91, 1.92)
    reruns = [*runs("control", 2.0, 2.01, 2.02), *runs("trial-09", *same), *runs("trial-04", *same)]
    ranked = [trial(9, 0.5, tokens=100), trial(4, 0.6, tokens=200)]
    assert select(ranked, reruns, RULE, CONTROL).chosen == "trial-04"
    fewer = SelectionRule(**{**RULE.__dict__, "tie_break": "fewer_tokens"})
    assert select(ranked, reruns, fewer, CONTROL).chosen == "trial-09"


def test_select_of_nothing_is_none() -> None:
    found = select([], runs("control", 2.0, 2.1, 2.2), RULE, CONTROL)
    assert found.chosen == "none"
    assert "nothing was re-run" in found.reason


def test_rule_sentence_says_everything_that_decides() -> None:
    text = RULE.sentence()
    for part in ("best 2 completed", "scale m", "3 fresh seeds", "superior(0.01)", "alpha 0.05",
                 "earlier trial", "better re-run mean than the control"):  # fmt: skip
        assert part in text


def test_candidate_name_sorts_and_grows() -> None:
    assert [candidate_name(n) for n in (3, 42, 123)] == ["trial-03", "trial-42", "trial-123"]
