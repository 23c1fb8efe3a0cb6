"""The verdict: values of the sealed test split, judged by the registered rule."""

import math
from collections.abc import Sequence
from typing import Literal

from workbench.analysis.forecasts import score
from workbench.errors import ConflictError
from workbench.experiments.evidence import ARMS, Bench
from workbench.experiments.looks import LookBook, Looked, Values
from workbench.experiments.promotion import forecast_entries
from workbench.registry.amended import course_of, late_reasons
from workbench.registry.entries import (
    Forecast,
    ForecastScore,
    GuardrailResult,
    Look,
    SeedValue,
    Verdict,
)
from workbench.registry.log import Entry
from workbench.registry.proposal import Proposal


def decide_verdict(bench: Bench, *, incomplete: bool) -> Entry:
    """Append what the last registered look says; where there is only one, make it.

    Args:
        bench: The experiment.
        incomplete: Judge although runs or looks are missing, which makes the verdict void.

    Raises:
        ConflictError: there is a verdict already, or runs or looks are missing.
        IntegrityError: a checkpoint or the test split is not what it was.
    """
    _refuse_second(bench)
    book = LookBook.of(bench)
    past = book.past()
    looked = _last(book, past, incomplete=incomplete)
    forecasts = forecast_entries(bench.ledger, bench.plan, bench.promotion)
    late = late_reasons(course_of(bench.ledger, bench.plan.subject))
    verdict = _verdict(bench.plan.proposal, looked.body, late, [f for _, f in forecasts])
    refs = [
        *bench.plan.refs,
        bench.promotion.leaf,
        *(entry.leaf for entry, _ in forecasts),
        *([looked.exposure.leaf] if looked.exposure else []),
        *looked.evidence.ends(),
        *(entry.leaf for entry in past),
    ]
    return bench.ledger.append(verdict, subject=bench.plan.subject, refs=refs)


def _refuse_second(bench: Bench) -> None:
    earlier = next(bench.ledger.entries(kind="verdict", subject=bench.plan.subject), None)
    if earlier is not None and isinstance(earlier.body, Verdict):
        raise ConflictError(
            f"{bench.plan.subject} already has its verdict, {earlier.body.outcome}, entry "
            f"{earlier.sequence}: the sealed test split is read once",
            remedy=f"workbench chronicle {bench.plan.subject[:4]}",
        )


def _last(book: LookBook, past: Sequence[Entry], *, incomplete: bool) -> Looked:
    """Return the look that decides: the one recorded last, or the only one, made now."""
    bench, due = book.bench, book.due()
    if not book.is_sequential and due is not None:
        hypothesis = bench.plan.proposal.decision.hypothesis
        return book.looked(
            due,
            purpose=f"verdict on {hypothesis} by the registered rule",
            by="workbench verdict",
            incomplete=incomplete,
        )
    if due is not None and not incomplete:
        stopping, again = bench.plan.proposal.decision.stopping, "again " if past else ""
        raise ConflictError(
            f"{bench.plan.subject} is not decided yet: {stopping} looks {again}at {due} seeds an "
            "arm, and run makes the runs and the look",
            remedy=f"workbench run {bench.plan.subject[:4]}   (or --incomplete: void by the rule)",
        )
    return book.made() if due is None else book.unmade(due)


def _verdict(
    proposal: Proposal, look: Look, late: Sequence[str], forecasts: Sequence[Forecast]
) -> Verdict:
    primary, decision, first = proposal.measures.primary, proposal.decision, look.results[0]
    guardrails = _guardrails(proposal, look.values)
    outcome: Literal["supported", "refuted", "inconclusive", "void"] = first.outcome
    if look.void_reasons or late:
        outcome = "void"
    elif outcome == "supported" and not all(g.held for g in guardrails):
        outcome = "refuted"
    return Verdict(
        mode="exploratory" if late else "confirmatory",
        outcome=outcome,
        hypothesis=decision.hypothesis,
        claim=decision.claim,
        interval=decision.interval,
        alpha=decision.alpha,
        metric=primary.metric,
        direction=primary.direction,
        values=look.values,
        estimate=first.estimate,
        lower=first.lower,
        upper=first.upper,
        degrees_of_freedom=first.degrees_of_freedom,
        per_metric=_means(look.values),
        guardrails=guardrails,
        void_reasons=[*look.void_reasons, *late],
        action=getattr(decision.actions, outcome),
        scores=[] if look.void_reasons else _scores(look.values, first.estimate, forecasts),
        stopping=decision.stopping,
        look=look.number,
        num_seeds=look.num_seeds,
        results=look.results,
        noise_floor=decision.noise_floor,
    )


def _numbers(values: Sequence[SeedValue]) -> list[float]:
    return [seed.value for seed in values if seed.value is not None]


def _means(values: Values) -> dict[str, dict[str, float]]:
    """Return the mean of every measured metric by arm; none where the sealed split stayed shut."""
    means: dict[str, dict[str, float]] = {}
    for arm in ARMS:
        measured = [seed.metrics for seed in values[arm] if seed.metrics]
        for metric in measured[0] if measured else ():
            numbers = [metrics[metric] for metrics in measured]
            means.setdefault(metric, {})[arm] = math.fsum(numbers) / len(numbers)
    return means


def _guardrails(proposal: Proposal, values: Values) -> list[GuardrailResult]:
    means = _means(values)
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
    values: Values, improvement: float | None, forecasts: Sequence[Forecast]
) -> list[ForecastScore]:
    arms = {arm: _numbers(values[arm]) for arm in ARMS}
    observed = {arm: math.fsum(numbers) / len(numbers) for arm, numbers in arms.items()}
    if improvement is not None:
        observed["improvement"] = improvement
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
