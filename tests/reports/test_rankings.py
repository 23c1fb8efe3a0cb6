"""Who is compared with whom, and what few candidates may not conclude."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.reports import forecast_log as logs
from tests.reports.forecast_log import SEEDS, Story
from tests.reports.sample import PROPOSAL, MemoryLog
from tests.reports.test_hidden import hide
from workbench.analysis.claims import mean, sample_variance
from workbench.registry.entries import ProxyRun, Registration, Verdict
from workbench.reports.rankings import Ranking, rankings
from workbench.reports.site import all_facts

FULL, BETWEEN = "proxies against full scale", "between proxy scales"
FIRST, SECOND = Story(name="0001-a", candidates=4), Story(name="0002-b", candidates=4)


def told(log: MemoryLog, kind: str) -> list[Ranking]:
    found = rankings(all_facts([log]).values())
    return [ranking for ranking in found if ranking.kind == kind]


def test_one_experiment_has_two_candidates_at_full_scale_and_concludes_nothing() -> None:
    (full,) = told(logs.log_of([FIRST]), FULL)
    assert sorted(full.values) == ["control", "trial-01 of 0001"]
    assert (full.smaller, full.larger) == ("small", "full scale")
    assert full.agreement is not None
    assert full.agreement.m == 2
    assert full.agreement.conclusion == "no conclusion, m<10"


def test_between_proxy_scales_has_every_candidate_and_is_named_so() -> None:
    (between,) = told(logs.log_of([FIRST]), BETWEEN)
    assert len(between.values) == 4
    assert (between.smaller, between.larger) == ("tiny", "small")
    assert between.agreement is not None
    assert between.agreement.found.tau == pytest.approx(1.0)
    assert between.agreement.conclusion == "no conclusion, m<10"


def test_comparable_experiments_are_one_ranking_with_one_control() -> None:
    stories = [
        Story(name=f"{n:04d}-x", treatment=1.70 + 0.004 * n, candidates=3) for n in range(1, 11)
    ]
    log = logs.log_of(stories)
    (full,), (between,) = told(log, FULL), told(log, BETWEEN)
    assert len(full.values) == 11
    assert len(between.values) == 21
    assert full.experiments == tuple(story.name for story in stories)
    assert full.agreement is not None
    assert full.agreement.m == 11
    assert full.agreement.found.tau == pytest.approx(1.0)
    assert full.agreement.conclusion.startswith("agrees")


def test_values_and_standard_error_come_from_the_seeds() -> None:
    log = logs.log_of([FIRST, SECOND])
    (full,) = told(log, FULL)
    runs = [e.body for e in log.found if isinstance(e.body, ProxyRun)]
    control = [r.value for r in runs if (r.candidate, r.scale) == ("control", "small")]
    assert len(control) == 2 * SEEDS
    assert full.values["control"] == pytest.approx((mean(control), FIRST.control))
    verdicts = [e.body for e in log.found if isinstance(e.body, Verdict)]
    controls = [s.value for v in verdicts for s in v.values["control"]]
    treatments = [[s.value for s in v.values["treatment"]] for v in verdicts]
    arms = [controls, *treatments]
    squares = sum(sample_variance(arm) * (len(arm) - 1) for arm in arms)
    pooled = squares / sum(len(arm) - 1 for arm in arms)
    expected = math.sqrt(pooled * (1 / 6 + 1 / 3 + 1 / 3) / 3)
    assert full.standard_error == pytest.approx(expected)


def change(kind: type[Any], **changes: Any) -> Callable[[MemoryLog], None]:
    """Return what changes the last entry of a kind, which is the second experiment's."""

    def apply(log: MemoryLog) -> None:
        place = max(e.sequence for e in log.found if isinstance(e.body, kind))
        entry = log.found[place]
        log.found[place] = replace(entry, body=entry.body.model_copy(update=changes))

    return apply


def registered(log: MemoryLog) -> Registration:
    return next(e.body for e in log.found if isinstance(e.body, Registration))


@pytest.mark.parametrize(
    ("name", "full", "between"),
    [("recipe", 2, 2), ("corpus", 2, 2), ("torch", 2, 2), ("workbench", 2, 2), ("measure", 2, 2),
     ("full", 2, 1), ("control", 2, 1), ("scales", 2, 2)],
)  # fmt: skip
def test_whatever_differs_keeps_experiments_apart(name: str, full: int, between: int) -> None:
    log = logs.log_of([FIRST, SECOND])
    assert (len(told(log, FULL)), len(told(log, BETWEEN))) == (1, 1)
    body = registered(log)
    document = body.recipe.model_copy(update={"sha256": "00" * 32})
    frozen = {key: dict(value) if isinstance(value, dict) else value
              for key, value in dict(body.frozen).items()}  # fmt: skip
    primary = dict(frozen["measures"]["primary"])
    changes: dict[str, dict[str, Any]] = {
        "recipe": {"recipe": document},
        "corpus": {"data": body.data.model_copy(update={"manifest": "sha256:other"})},
        "torch": {"environment": {**body.environment, "torch": "9"}},
        "workbench": {"code": body.code.model_copy(update={"workbench": "9"})},
        "measure": {
            "frozen": frozen
            | {"measures": frozen["measures"] | {"primary": primary | {"direction": "maximize"}}}
        },
        "full": {"full": document},
        "scales": {
            "frozen": frozen | {"design": frozen["design"] | {"scales": ["small", "large"]}}
        },
    }
    log = logs.empty_log()
    for story in (FIRST, SECOND):
        other = story is SECOND
        logs.register(log, story, **(changes.get(name, {}) if other else {}))
        configs = {"control": "99" * 32} if other and name == "control" else {"control": "c0" * 32}
        logs.promote(log, story, config_sha256=configs)
        logs.begin(log, story)
        logs.decide(log, story)
    assert (len(told(log, FULL)), len(told(log, BETWEEN))) == (full, between)


def test_candidate_with_a_lost_seed_is_in_no_order_and_named() -> None:
    log = logs.log_of([FIRST])
    runs = [e for e in log.found if isinstance(e.body, ProxyRun) and e.body.scale == "small"]
    lost = next(e for e in runs if e.body.candidate == "trial-02")
    log.found[lost.sequence] = replace(
        lost, body=lost.body.model_copy(update={"state": "diverged", "value": None})
    )
    hide(log, [next(e.sequence for e in runs if e.body.candidate == "trial-03")])
    (between,) = told(log, BETWEEN)
    assert between.agreement is not None
    assert between.agreement.m == 2
    assert between.agreement.left_out == ("trial-02 of 0001", "trial-03 of 0001")


def test_arm_with_a_diverged_seed_has_no_value_at_full_scale() -> None:
    log = logs.log_of([FIRST])
    seeds = logs.seed_values("treatment", 1.7)
    values = {
        "control": logs.seed_values("control", 1.8),
        "treatment": [seeds[0].model_copy(update={"value": None}), *seeds[1:]],
    }
    change(Verdict, values=values)(log)
    (full,) = told(log, FULL)
    assert full.agreement is None
    assert full.why == "an order takes 2 candidates with finite values, got 1"


def test_seed_that_the_verdict_lacks_is_a_lost_one() -> None:
    log = logs.log_of([FIRST])
    values = {arm: logs.seed_values(arm, 1.8)[:2] for arm in ("control", "treatment")}
    change(Verdict, values=values)(log)
    assert told(log, FULL)[0].agreement is None
    # Unless its rule stopped there.
    change(Verdict, num_seeds=2)(log)
    assert told(log, FULL)[0].agreement is not None


def test_noise_that_is_not_known_gives_no_agreement() -> None:
    log = logs.log_of([FIRST])
    flat = [s.model_copy(update={"value": 1.8}) for s in logs.seed_values("control", 1.8)]
    change(Verdict, values={"control": flat, "treatment": flat})(log)
    (full,) = told(log, FULL)
    assert (full.agreement, full.standard_error) == (None, None)
    assert "its noise is unknown" in full.why


@pytest.mark.parametrize("changes", [{"outcome": "void"}, {"metric": "bpb_code"}])
def test_verdict_that_measured_something_else_ranks_nothing(changes: dict[str, Any]) -> None:
    log = logs.log_of([FIRST])
    change(Verdict, **changes)(log)
    assert told(log, FULL) == []
    assert len(told(log, BETWEEN)) == 1


def test_experiments_before_their_promotion_or_behind_an_embargo_rank_nothing() -> None:
    log = logs.empty_log()
    logs.register(log, FIRST)
    assert told(log, BETWEEN) == []
    logs.promote(log, FIRST, chosen="none")
    assert len(told(log, BETWEEN)) == 1
    assert told(log, FULL) == []
    assert told(hide(log, [1]), BETWEEN) == []


def test_ladder_of_one_scale_ranks_nothing_between_scales() -> None:
    one = PROPOSAL.replace("scales: [tiny, small]", "scales: [small, small]")
    log = logs.log_of([Story(name="0001-a", proposal=one)])
    assert told(log, BETWEEN) == []
    assert len(told(log, FULL)) == 1


def test_only_the_reruns_of_the_promotion_count_and_the_last_of_each_seed() -> None:
    log = logs.empty_log()
    logs.register(log, FIRST)
    # Not referred to by the promotion.
    logs.add(log, logs.rerun(FIRST, "control", "tiny", 0, 99.0), FIRST)
    first = logs.promote(log, FIRST)
    again = logs.add(log, logs.rerun(FIRST, "control", "tiny", 0, 5.0), FIRST)
    log.found[first.sequence] = replace(first, refs=(*first.refs, again.leaf))
    (between,) = told(log, BETWEEN)
    runs = [e.body for e in log.found if isinstance(e.body, ProxyRun)]
    rest = [r.value for r in runs if (r.candidate, r.scale, r.seed_index > 0) ==
            ("control", "tiny", True)]  # fmt: skip
    assert between.values["control"][0] == pytest.approx((5.0 + sum(rest)) / 3)


def test_same_ledger_gives_the_same_ceiling() -> None:
    first, second = (told(logs.log_of([FIRST]), BETWEEN)[0].agreement for _ in range(2))
    assert first == second


def test_names_of_two_logs_that_meet_are_told_apart() -> None:
    older, newer = logs.log_of([FIRST]), logs.log_of([Story(name="0001-b", candidates=4)])
    older.origin = "example.org/older"
    found = [r for r in rankings(all_facts([newer, older]).values()) if r.kind == BETWEEN]
    assert len(found[0].values) == 7
