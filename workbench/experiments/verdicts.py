"""The verdict: values of the sealed test split, judged by the registered rule."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from workbench.analysis.claims import Judgement, judge
from workbench.analysis.forecasts import score
from workbench.data.corpus import Corpus
from workbench.errors import ConflictError, IntegrityError
from workbench.experiments.attempts import RunHistory, histories, run_name
from workbench.experiments.plan import ExperimentPlan
from workbench.experiments.progress import Progress
from workbench.experiments.promotion import forecast_entries, promotion_body
from workbench.experiments.sealed_evaluation import (
    FinalState,
    SealedScores,
    final_state,
    sealed_scores,
)
from workbench.registry.amended import course_of, late_reasons
from workbench.registry.entries import (
    Forecast,
    ForecastScore,
    GuardrailResult,
    Promotion,
    SeedValue,
    Verdict,
)
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry
from workbench.registry.proposal import Proposal

ARMS = ("control", "treatment")
Metrics: TypeAlias = Mapping[str, Mapping[str, float]]
"""Sealed test values: by run, then by metric."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Everything that a verdict is reached from."""

    plan: ExperimentPlan
    promotion: Entry
    ledger: Ledger
    corpus: Corpus
    folder: Path
    """Holds one folder a run."""
    progress: Progress
    begin: Callable[[], object]
    """Records what differs from what is in force, once nothing stands in the way."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The finished runs and what stands in the way of judging them."""

    states: tuple[FinalState, ...]
    histories: Mapping[str, RunHistory]
    void_reasons: tuple[str, ...]
    """Why there is nothing to judge; the sealed split then stays shut."""
    late_amendments: tuple[str, ...]
    """Why the values are judged and the verdict is void and exploratory all the same."""


def decide_verdict(bench: Bench, *, incomplete: bool) -> Entry:
    """Read the sealed test split and append the verdict.

    Args:
        bench: The experiment.
        incomplete: Judge although runs are missing, which makes the verdict void by the rule.

    Raises:
        ConflictError: there is a verdict already, or runs are missing.
        IntegrityError: a checkpoint or the test split is not what it was.
    """
    _refuse_second(bench)
    evidence = _evidence(bench, incomplete=incomplete)
    bench.begin()
    # A verdict that is void anyway does not open the sealed split.
    sealed = None if evidence.void_reasons else _unsealed(bench, evidence)
    metrics = sealed.metrics if sealed else {}
    forecasts = forecast_entries(bench.ledger, bench.plan, bench.promotion)
    verdict = _verdict(bench.plan.proposal, evidence, metrics, [f for _, f in forecasts])
    ends = [h.final.end_entry for h in evidence.histories.values() if h.final]
    refs = [
        *bench.plan.refs,
        bench.promotion.leaf,
        *(entry.leaf for entry, _ in forecasts),
        *([sealed.exposure.leaf] if sealed else []),
        *(entry.leaf for entry in ends if entry),
    ]
    return bench.ledger.append(verdict, subject=bench.plan.subject, refs=refs)


def _unsealed(bench: Bench, evidence: Evidence) -> SealedScores:
    promotion = promotion_body(bench.promotion)
    return sealed_scores(
        bench.ledger, bench.plan, promotion, bench.corpus, evidence.states, bench.progress
    )


def _refuse_second(bench: Bench) -> None:
    earlier = next(bench.ledger.entries(kind="verdict", subject=bench.plan.subject), None)
    if earlier is not None and isinstance(earlier.body, Verdict):
        raise ConflictError(
            f"{bench.plan.subject} already has its verdict, {earlier.body.outcome}, entry "
            f"{earlier.sequence}: the sealed test split is read once",
            remedy=f"workbench chronicle {bench.plan.subject[:4]}",
        )


def _evidence(bench: Bench, *, incomplete: bool) -> Evidence:
    found = histories(bench.ledger, bench.plan.subject, bench.plan.mode)
    seeds = range(bench.plan.proposal.design.seeds)
    wanted = [run_name(arm, index) for index in seeds for arm in ARMS]
    missing = [run for run in wanted if run not in found or found[run].final is None]
    if missing and not incomplete:
        raise ConflictError(
            f"{len(missing)} of {len(wanted)} runs are not finished: {', '.join(missing)}",
            remedy=f"workbench run {bench.plan.subject[:4]}   (or --incomplete: void by the rule)",
        )
    finished = {run: found[run] for run in wanted if run not in missing}
    states, damaged = _final_states(finished, bench.folder, tolerate=incomplete)
    diverged = [run for run, history in finished.items() if _outcome(history) == "diverged"]
    reasons = [f"run {run} is missing" for run in missing]
    reasons += damaged
    reasons += _wrong_configs(finished, promotion_body(bench.promotion))
    if bench.plan.proposal.divergence.rule == "arm_void":
        reasons += [f"run {run} diverged, and the rule is arm_void" for run in diverged]
    return Evidence(
        states=tuple(states),
        histories=finished,
        void_reasons=tuple(reasons),
        late_amendments=tuple(late_reasons(course_of(bench.ledger, bench.plan.subject))),
    )


def _final_states(
    finished: Mapping[str, RunHistory], folder: Path, *, tolerate: bool
) -> tuple[list[FinalState], list[str]]:
    states, damaged = [], []
    for history in finished.values():
        try:
            state = final_state(history, folder)
        except IntegrityError as error:
            if not tolerate:
                raise
            damaged.append(error.message)
            continue
        if state is not None:
            states.append(state)
    return states, damaged


def _wrong_configs(finished: Mapping[str, RunHistory], promotion: Promotion) -> list[str]:
    return [
        f"attempt {attempt.started.attempt} of {run} ran another configuration than was promoted"
        for run, history in finished.items()
        for attempt in history.attempts
        if attempt.started.config_sha256 != promotion.config_sha256.get(attempt.started.arm)
    ]


def _verdict(
    proposal: Proposal, evidence: Evidence, metrics: Metrics, forecasts: Sequence[Forecast]
) -> Verdict:
    metric = proposal.measures.primary.metric
    values = {arm: _seed_values(arm, evidence, metrics, metric) for arm in ARMS}
    judged = judge(
        _numbers(values["control"]),
        _numbers(values["treatment"]),
        direction=proposal.measures.primary.direction,
        claim_kind=proposal.decision.claim_kind,
        margin=proposal.decision.margin,
        alpha=proposal.decision.alpha,
    )
    guardrails = _guardrails(proposal, evidence, metrics)
    # Where the sealed split stayed shut, that there are no values is a consequence, not a reason.
    unjudged = list(evidence.void_reasons) or ([judged.reason] if judged.reason else [])
    reasons = [*unjudged, *evidence.late_amendments]
    outcome = judged.outcome
    if reasons:
        outcome = "void"
    elif outcome == "supported" and not all(g.held for g in guardrails):
        outcome = "refuted"
    return Verdict(
        mode="exploratory" if evidence.late_amendments else "confirmatory",
        outcome=outcome,
        hypothesis=proposal.decision.hypothesis,
        claim=proposal.decision.claim,
        interval=proposal.decision.interval,
        alpha=proposal.decision.alpha,
        metric=metric,
        direction=proposal.measures.primary.direction,
        values=values,
        estimate=judged.estimate,
        lower=judged.lower,
        upper=judged.upper,
        degrees_of_freedom=judged.degrees_of_freedom,
        per_metric=_means(evidence, metrics),
        guardrails=guardrails,
        void_reasons=reasons,
        action=getattr(proposal.decision.actions, outcome),
        scores=[] if unjudged else _scores(values, judged, forecasts),
    )


def _seed_values(arm: str, evidence: Evidence, metrics: Metrics, metric: str) -> list[SeedValue]:
    found = []
    for history in evidence.histories.values():
        final = history.final
        if final is None or final.ended is None or final.started.arm != arm:
            continue
        value = metrics.get(history.run, {}).get(metric)
        found.append(
            SeedValue(
                seed_index=final.started.seed_index,
                value=value,
                run=history.run,
                checkpoint_sha256=final.ended.checkpoint_sha256,
            )
        )
    return sorted(found, key=lambda seed: seed.seed_index)


def _numbers(values: Sequence[SeedValue]) -> list[float]:
    return [seed.value for seed in values if seed.value is not None]


def _means(evidence: Evidence, metrics: Metrics) -> dict[str, dict[str, float]]:
    """Return the mean of every measured metric by arm; none where the sealed split stayed shut."""
    means: dict[str, dict[str, float]] = {}
    for arm in ARMS:
        runs = [s.run for s in evidence.states if s.arm == arm and s.run in metrics]
        for metric in metrics[runs[0]] if runs else ():
            values = [metrics[run][metric] for run in runs]
            means.setdefault(metric, {})[arm] = math.fsum(values) / len(values)
    return means


def _guardrails(proposal: Proposal, evidence: Evidence, metrics: Metrics) -> list[GuardrailResult]:
    means = _means(evidence, metrics)
    results = []
    for guardrail in proposal.measures.guardrails:
        found = means.get(guardrail.metric, {}).get("treatment", math.nan)
        results.append(
            GuardrailResult(
                metric=guardrail.metric,
                at_most=guardrail.at_most,
                treatment_mean=found,
                # A NaN is not below any bound.
                held=found <= guardrail.at_most,
            )
        )
    return results


def _scores(
    values: Mapping[str, Sequence[SeedValue]], judged: Judgement, forecasts: Sequence[Forecast]
) -> list[ForecastScore]:
    arms = {arm: _numbers(values[arm]) for arm in ARMS}
    observed = {arm: math.fsum(numbers) / len(numbers) for arm, numbers in arms.items()}
    if judged.estimate is not None:
        observed["improvement"] = judged.estimate
    scores = []
    for forecast in forecasts:
        if forecast.target not in observed:
            continue
        scored = score(
            point=forecast.point,
            spread=forecast.spread,
            intervals={i.level: (i.lower, i.upper) for i in forecast.intervals},
            baselines=forecast.baselines,
            observed=observed[forecast.target],
        )
        scores.append(
            ForecastScore(
                target=forecast.target,
                observed=observed[forecast.target],
                error=scored.error,
                covered=dict(scored.covered),
                interval_score_80=scored.interval_score_80,
                crps=scored.crps,
                crps_baselines=dict(scored.crps_baselines),
                grade=scored.grade,
            )
        )
    return scores


def _outcome(history: RunHistory) -> str:
    return history.final.ended.outcome if history.final and history.final.ended else ""
