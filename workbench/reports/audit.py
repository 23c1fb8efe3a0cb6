"""Every verdict computed again from the record alone, by a reader who trusts nobody."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from workbench.analysis.claims import Judgement, judge
from workbench.analysis.forecasts import score
from workbench.registry.entries import (
    Exposure,
    Forecast,
    ForecastScore,
    Registration,
    RunStarted,
    Verdict,
)
from workbench.registry.hidden import essential
from workbench.registry.log import LogSource
from workbench.registry.proposal import Proposal
from workbench.reports.audit_changes import frozen_faults, mode_faults
from workbench.reports.facts import (
    Cited,
    ExperimentFacts,
    Source,
    experiment_facts,
    merged_sources,
    source_of,
)
from workbench.reports.lineage import run_lineages
from workbench.reports.narrative import listed

CONTROL, TREATMENT = "control", "treatment"
_TOLERANCE = 1e-9
"""Relative; another machine's mathematical library may differ in the last bits."""


@dataclass(frozen=True, kw_only=True)
class AuditFinding:
    """One check of one claim, passed or not."""

    number: int
    """Of the check, as record-format.md numbers them."""
    check: str
    subject: str
    passed: bool
    detail: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A verdict with what it must follow from."""

    facts: ExperimentFacts
    verdict: Cited[Verdict]
    registration: Cited[Registration]
    proposal: Proposal


Check: TypeAlias = Callable[[Claim], Iterator[str]]
"""Yields what is wrong; nothing when the claim holds."""


def audit_claims(source: LogSource) -> list[AuditFinding]:
    """Return every check of every verdict in the log, in the order of the ledger."""
    subjects = dict.fromkeys(entry.subject for entry in source.entries(kind=Verdict.kind))
    return [f for subject in subjects for f in audit_experiment(experiment_facts(source, subject))]


def audit_experiment(facts: ExperimentFacts) -> list[AuditFinding]:
    """Return the checks of an experiment's verdict; empty while there is none.

    What rests on hidden entries cannot be recomputed: then one finding says so.
    """
    if facts.hides(Verdict.kind) or (facts.verdict and essential(facts.hidden)):
        return [_unreadable(facts)]
    if facts.verdict is None:
        return []
    if facts.registration is None or facts.proposal is None:
        return [_unregistered(facts, facts.verdict)]
    claim = Claim(
        facts=facts,
        verdict=facts.verdict,
        registration=facts.registration,
        proposal=facts.proposal,
    )
    return [_finding(claim, place, name, check) for place, (name, check) in _numbered()]


def _numbered() -> Iterator[tuple[int, tuple[str, Check]]]:
    checks: dict[str, Check] = {
        "frozen proposal is its text": check_frozen,
        "one verdict, of a confirmatory experiment": check_mode,
        "rule is the registered rule": check_rule,
        "every registered seed is accounted for": check_seeds,
        "runs ran the promoted configuration": check_runs,
        "sealed test was opened once, on the record": check_exposure,
        "outcome follows from the values": check_outcome,
        "guardrails are the registered ones": check_guardrails,
        "forecast scores follow from the forecasts": check_scores,
    }
    return iter(enumerate(checks.items(), start=1))


def _finding(claim: Claim, number: int, name: str, check: Check) -> AuditFinding:
    wrong = list(check(claim))
    return AuditFinding(
        number=number,
        check=name,
        subject=claim.facts.experiment,
        passed=not wrong,
        detail="; ".join(wrong),
        sources=claim.verdict.sources,
    )


def _unreadable(facts: ExperimentFacts) -> AuditFinding:
    """Return that a verdict was not recomputed; that there is only one shows all the same."""
    lacking = essential(facts.hidden)
    verdicts = [entry for entry in facts.entries if entry.kind == Verdict.kind]
    several = f"{len(verdicts)} verdicts of one registration; " if len(verdicts) > 1 else ""
    numbers = listed([f"#{found.entry.sequence}" for found in lacking[:3]])
    more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    return AuditFinding(
        number=2,
        check="one verdict, of a confirmatory experiment",
        subject=facts.experiment,
        passed=not several,
        detail=f"{several}NOT RECOMPUTED: it rests on {numbers}{more}, {lacking[0].why}",
        sources=tuple(source_of(entry) for entry in verdicts),
    )


def _unregistered(facts: ExperimentFacts, verdict: Cited[Verdict]) -> AuditFinding:
    confirmatory = verdict.value.mode == "confirmatory"
    return AuditFinding(
        number=2,
        check="one verdict, of a confirmatory experiment",
        subject=facts.experiment,
        passed=not confirmatory,
        detail="a confirmatory verdict without a registration" if confirmatory else "",
        sources=verdict.sources,
    )


def check_frozen(claim: Claim) -> Iterator[str]:
    """1. The front matter that people read says what the typed copy says; amendments, too."""
    yield from frozen_faults(claim.facts)


def check_mode(claim: Claim) -> Iterator[str]:
    """2. Exploratory work never supports a confirmatory verdict, and there is only one.

    What was amended after outcomes were seen makes it exploratory and void. When that was is read
    from the log, whatever amendment and verdict say of themselves.
    """
    facts = claim.facts
    verdicts = [entry for entry in facts.entries if entry.kind == Verdict.kind]
    if len(verdicts) > 1:
        yield f"{len(verdicts)} verdicts of one registration"
    yield from mode_faults(facts, claim.verdict.value)
    if claim.verdict.value.mode == "exploratory" and not facts.course.late():
        return
    used = {seed.run for seeds in claim.verdict.value.values.values() for seed in seeds}
    parts = [("promotion", facts.promotion.value.mode)] if facts.promotion else []
    parts += [(f"run {s.value.run}", s.value.mode) for s in facts.starts if s.value.run in used]
    yield from (f"{what} is {mode}" for what, mode in parts if mode != "confirmatory")


def check_rule(claim: Claim) -> Iterator[str]:
    """3. Claim, interval, α, metric, direction and action are the registered ones."""
    verdict, proposal = claim.verdict.value, claim.proposal
    rule, primary = proposal.decision, proposal.measures.primary
    pairs = {
        "hypothesis": (verdict.hypothesis, rule.hypothesis),
        "claim": (verdict.claim, rule.claim),
        "interval": (verdict.interval, rule.interval),
        "alpha": (verdict.alpha, rule.alpha),
        "metric": (verdict.metric, primary.metric),
        "direction": (verdict.direction, primary.direction),
        "action": (verdict.action, getattr(rule.actions, verdict.outcome)),
    }
    for name, (used, registered) in pairs.items():
        if used != registered:
            yield f"{name} {used!r} was registered as {registered!r}"


def check_seeds(claim: Claim) -> Iterator[str]:
    """4. Each arm has one value a registered seed, or the verdict is void."""
    registration, verdict = claim.registration.value, claim.verdict.value
    if verdict.outcome == "void":
        return
    wanted = list(range(registration.num_seeds))
    for arm in registration.arms:
        found = sorted(seed.seed_index for seed in verdict.values.get(arm, []))
        if found != wanted:
            yield f"arm {arm} has seeds {found}, registered were {wanted}"
        empty = [s.seed_index for s in verdict.values.get(arm, []) if s.value is None]
        if empty and claim.proposal.divergence.rule == "arm_void":
            yield f"arm {arm} has no value for seeds {empty}, which the rule answers with void"


def check_runs(claim: Claim) -> Iterator[str]:
    """5. Each value's run completed, with that checkpoint, from the promoted configuration."""
    promotion = claim.facts.promotion
    if promotion is None:
        yield "no promotion"
        return
    runs = {run.run: run for run in run_lineages(claim.facts)}
    for arm, seeds in claim.verdict.value.values.items():
        for seed in (s for s in seeds if s.value is not None):
            run = runs.get(seed.run)
            if run is None or run.state != "completed" or run.arm != arm:
                yield f"{seed.run} is not a completed run of arm {arm}"
                continue
            configs = {attempt.started.value.config_sha256 for attempt in run.attempts}
            if configs != {promotion.value.config_sha256.get(arm)}:
                yield f"{seed.run} did not run the promoted configuration"
            last = run.attempts[-1].ended
            if last and last.value.checkpoint_sha256 != seed.checkpoint_sha256:
                yield f"{seed.run} was judged on a checkpoint that is not its last"


def check_exposure(claim: Claim) -> Iterator[str]:
    """6. The sealed split was read once, before the verdict and after the last run."""
    opened = [e for e in claim.facts.exposures if e.value.what == "sealed_test"]
    if not opened:
        if claim.verdict.value.outcome != "void":
            yield "no exposure of the sealed test split is recorded"
        return
    if len(opened) > 1:
        yield f"the sealed test split was opened {len(opened)} times"
    yield from _order_faults(claim, opened[0])


def _order_faults(claim: Claim, opened: Cited[Exposure]) -> Iterator[str]:
    place = opened.sources[0].sequence
    if place > claim.verdict.sources[0].sequence:
        yield "the sealed test split was opened after the verdict"
    starts = confirmatory_starts(claim.facts)
    late = [s for s in merged_sources(starts) if s.sequence > place]
    if late:
        yield f"{len(late)} run attempts started after the sealed test split was opened"


def check_outcome(claim: Claim) -> Iterator[str]:
    """7. The registered rule, applied to the recorded values, gives the recorded verdict."""
    verdict = claim.verdict.value
    if verdict.void_reasons and verdict.outcome != "void":
        yield f"{verdict.outcome} although void: {'; '.join(verdict.void_reasons)}"
    late = claim.facts.course.late()
    if verdict.outcome == "void" and verdict.void_reasons and not late:
        return
    found = recomputed(verdict, claim.proposal)
    outcome = "void" if late else found.outcome
    if outcome == "supported" and not all(rail.held for rail in verdict.guardrails):
        outcome = "refuted"
    if outcome != verdict.outcome:
        yield f"recorded {verdict.outcome}, recomputed {outcome}"
    for name in ("estimate", "lower", "upper", "degrees_of_freedom"):
        yield from _differs(name, getattr(verdict, name), getattr(found, name))


def recomputed(verdict: Verdict, proposal: Proposal) -> Judgement:
    """Return what the registered rule says of the verdict's values.

    Absent values are left out; `check_seeds` says whether that was allowed.
    """
    rule = proposal.decision
    arms = {
        arm: [seed.value for seed in verdict.values.get(arm, []) if seed.value is not None]
        for arm in (CONTROL, TREATMENT)
    }
    return judge(
        arms[CONTROL],
        arms[TREATMENT],
        direction=proposal.measures.primary.direction,
        claim_kind=rule.claim_kind,
        margin=rule.margin,
        alpha=rule.alpha,
    )


def check_guardrails(claim: Claim) -> Iterator[str]:
    """8. Every registered bound was looked at, and held or not as its mean says."""
    verdict = claim.verdict.value
    registered = [(rail.metric, rail.at_most) for rail in claim.proposal.measures.guardrails]
    if [(rail.metric, rail.at_most) for rail in verdict.guardrails] != registered:
        yield "the guardrails are not the registered ones"
    for rail in verdict.guardrails:
        if rail.held != (rail.treatment_mean <= rail.at_most):
            yield f"guardrail {rail.metric}: {rail.treatment_mean!r} against {rail.at_most!r}"
        means = verdict.per_metric.get(rail.metric, {})
        if means:
            yield from _differs(
                f"guardrail {rail.metric}", rail.treatment_mean, means.get(TREATMENT)
            )


def check_scores(claim: Claim) -> Iterator[str]:
    """9. Each recorded score follows from its forecast and from what was observed."""
    verdict = claim.verdict.value
    forecasts = {forecast.value.target: forecast.value for forecast in claim.facts.forecasts}
    scored = {item.target: item for item in verdict.scores}
    if verdict.outcome != "void":
        yield from (f"the forecast of {t} was never scored" for t in forecasts if t not in scored)
    late = forecasts_after_runs(claim.facts)
    yield from (f"the forecast of {t} was made after a full-scale run began" for t in late)
    observed = _observed(verdict)
    for target, recorded in scored.items():
        if target not in forecasts:
            yield f"a score of {target} without a forecast"
            continue
        yield from _differs(f"observed {target}", recorded.observed, observed.get(target))
        yield from _score_faults(forecasts[target], recorded)


def confirmatory_starts(facts: ExperimentFacts) -> list[Cited[RunStarted]]:
    """Return the attempts that belong to the registered runs; exploring is free at any time."""
    return [start for start in facts.starts if start.value.mode == "confirmatory"]


def forecasts_after_runs(facts: ExperimentFacts) -> list[str]:
    """Return the targets whose forecast came after the first full-scale run began."""
    starts = confirmatory_starts(facts)
    first = min((start.sources[0].sequence for start in starts), default=None)
    return [
        forecast.value.target
        for forecast in facts.forecasts
        if first is not None and forecast.sources[0].sequence > first
    ]


def _observed(verdict: Verdict) -> dict[str, float | None]:
    means: dict[str, float | None] = {"improvement": verdict.estimate}
    for arm, seeds in verdict.values.items():
        values = [seed.value for seed in seeds if seed.value is not None]
        means[arm] = math.fsum(values) / len(values) if values else None
    return means


def _score_faults(forecast: Forecast, recorded: ForecastScore) -> Iterator[str]:
    try:
        found = score(
            point=forecast.point,
            spread=forecast.spread,
            intervals={i.level: (i.lower, i.upper) for i in forecast.intervals},
            baselines=forecast.baselines,
            observed=recorded.observed,
        )
    except ValueError as error:
        yield f"the score of {forecast.target} cannot be recomputed: {error}"
        return
    if found.covered != recorded.covered:
        yield f"coverage of {forecast.target}: recorded {recorded.covered}, found {found.covered}"
    for name in ("error", "interval_score_80", "crps"):
        shown = f"{name} of {forecast.target}"
        yield from _differs(shown, getattr(recorded, name), getattr(found, name))
    yield from _mapping_differs(forecast.target, recorded.crps_baselines, found.crps_baselines)


def _mapping_differs(
    target: str, recorded: Mapping[str, float], found: Mapping[str, float]
) -> Iterator[str]:
    if set(recorded) != set(found):
        yield f"baselines of {target}: recorded {sorted(recorded)}, forecast {sorted(found)}"
    for name in sorted(set(recorded) & set(found)):
        yield from _differs(f"CRPS of {target} baseline {name}", recorded[name], found[name])


def _differs(name: str, recorded: float | None, found: float | None) -> Iterator[str]:
    if recorded is None and found is None:
        return
    if recorded is None or found is None or not _close(recorded, found):
        yield f"{name}: recorded {recorded!r}, recomputed {found!r}"


def _close(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=_TOLERANCE, abs_tol=1e-12)
