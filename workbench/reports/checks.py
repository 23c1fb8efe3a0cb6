"""Every verdict computed again from the record alone, by a reader who trusts nobody."""

import math
from collections.abc import Iterator, Mapping, Sequence

from workbench.analysis.forecasts import score
from workbench.registry.entries import Forecast, ForecastScore, SeedValue, Verdict
from workbench.registry.hidden import HiddenEntry, essential
from workbench.registry.log import LogSource
from workbench.reports.audit_changes import frozen_faults, mode_faults
from workbench.reports.audit_looks import check_exposure, check_looks, confirmatory_starts
from workbench.reports.audit_noise import floor_faults
from workbench.reports.audit_outcome import check_guardrails, check_outcome
from workbench.reports.claim import Check, Claim, seeds_of
from workbench.reports.differences import differs, mapping_differs
from workbench.reports.facts import Cited, ExperimentFacts, experiment_facts, source_of
from workbench.reports.findings import AuditFinding
from workbench.reports.lineage import RunLineage, run_lineages
from workbench.reports.narrative import listed
from workbench.reports.replay import Apply


def audited(source: LogSource, *, apply: Apply) -> list[AuditFinding]:
    """Return every check of every verdict in the log, in the order of the ledger.

    Args:
        source: The log.
        apply: Asked only for rules other than a single claim by Welch's t at a fixed number.
    """
    subjects = dict.fromkeys(entry.subject for entry in source.entries(kind=Verdict.kind))
    return [
        f for subject in subjects for f in checked(experiment_facts(source, subject), apply=apply)
    ]


def checked(facts: ExperimentFacts, *, apply: Apply) -> list[AuditFinding]:
    """Return the checks of an experiment's verdict; empty while there is none.

    What rests on hidden entries cannot be recomputed: then one finding says so.
    """
    lacking = [*essential(facts.hidden), *([facts.hidden_floor] if facts.hidden_floor else [])]
    if facts.hides(Verdict.kind) or (facts.verdict and lacking):
        return [_unreadable(facts, lacking)]
    if facts.verdict is None:
        return []
    if facts.registration is None or facts.proposal is None:
        return [_unregistered(facts, facts.verdict)]
    claim = Claim(
        facts=facts,
        verdict=facts.verdict,
        registration=facts.registration,
        proposal=facts.proposal,
        apply=apply,
    )
    return [_finding(claim, place, name, check) for place, (name, check) in _numbered()]


def _numbered() -> Iterator[tuple[int, tuple[str, Check]]]:
    checks: dict[str, Check] = {
        "frozen proposal is its text": check_frozen,
        "one verdict, of a confirmatory experiment": check_mode,
        "rule is the registered rule": check_rule,
        "every registered seed is accounted for": check_seeds,
        "runs ran the promoted configuration": check_runs,
        "sealed test was opened once a run, on the record": check_exposure,
        "outcome follows from the values": check_outcome,
        "guardrails are the registered ones": check_guardrails,
        "forecast scores follow from the forecasts": check_scores,
        "looks are those of the registered stopping rule": check_looks,
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


def _unreadable(facts: ExperimentFacts, lacking: Sequence[HiddenEntry]) -> AuditFinding:
    """Return that a verdict was not recomputed; that there is only one shows all the same."""
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
        recomputed=False,
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
    # Whoever explores the same question has runs of the same names: they support nothing, and harm
    # nothing. What the runs of a verdict must be otherwise is check 5.
    registered = {start.value.run for start in confirmatory_starts(facts)}
    used = {seed.run for seed in seeds_of(claim.verdict.value)} - registered
    parts = [(f"look {look.value.number}", look.value.mode) for look in facts.looks]
    parts += [("promotion", facts.promotion.value.mode)] if facts.promotion else []
    parts += [(f"run {s.value.run}", s.value.mode) for s in facts.starts if s.value.run in used]
    yield from (f"{what} is {mode}" for what, mode in parts if mode != "confirmatory")


def check_rule(claim: Claim) -> Iterator[str]:
    """3. Claim, interval, stopping, α, metric, direction, action and noise floor are registered."""
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
    if not claim.is_older:
        pairs["stopping"] = (verdict.stopping, rule.stopping)
    for name, (used, registered) in pairs.items():
        if used != registered:
            yield f"{name} {used!r} was registered as {registered!r}"
    yield from floor_faults(claim)


def check_seeds(claim: Claim) -> Iterator[str]:
    """4. Each arm has one value a seed that was looked at, or what looked is void."""
    for look in claim.facts.looks:
        body = look.value
        if not body.void_reasons:
            yield from _seed_faults(claim, body.values, body.num_seeds, f"look {body.number}: ")
    if claim.verdict.value.outcome != "void":
        yield from _seed_faults(claim, claim.verdict.value.values, claim.num_seeds, "")


def _seed_faults(
    claim: Claim, values: Mapping[str, Sequence[SeedValue]], num_seeds: int, where: str
) -> Iterator[str]:
    wanted = list(range(num_seeds))
    unknown = set(values) - set(claim.registration.value.arms)
    if unknown:
        yield f"{where}arms {sorted(unknown)} were not registered"
    for arm in claim.registration.value.arms:
        found = sorted(seed.seed_index for seed in values.get(arm, []))
        if found != wanted:
            yield f"{where}arm {arm} has seeds {found}, registered were {wanted}"
        empty = [s.seed_index for s in values.get(arm, []) if s.value is None]
        if empty and claim.proposal.divergence.rule == "arm_void":
            yield (
                f"{where}arm {arm} has no value for seeds {empty}, which the rule answers with void"
            )


def check_runs(claim: Claim) -> Iterator[str]:
    """5. Each value's run completed, with that checkpoint, from the promoted configuration.

    A seed without a value is that of a run that diverged.
    """
    if claim.facts.promotion is None:
        yield "no promotion"
        return
    runs = {run.run: run for run in run_lineages(claim.facts)}
    verdict = claim.verdict.value
    told = [(arm, seed) for arm, seeds in verdict.values.items() for seed in seeds]
    for arm, seed in told:
        run = runs.get(seed.run)
        if seed.value is not None:
            yield from _run_faults(claim, arm, seed, run)
        elif verdict.outcome != "void" and (run is None or run.state != "diverged"):
            yield f"{seed.run} has no value, and it did not diverge"


def _run_faults(claim: Claim, arm: str, seed: SeedValue, run: RunLineage | None) -> Iterator[str]:
    if run is None or run.state != "completed" or run.arm != arm:
        yield f"{seed.run} is not a completed run of arm {arm}"
        return
    if run.seed_index != seed.seed_index:
        yield f"{seed.run} is told as seed {seed.seed_index}, it ran on seed {run.seed_index}"
    promotion = claim.facts.promotion
    configs = {attempt.started.value.config_sha256 for attempt in run.attempts}
    if promotion and configs != {promotion.value.config_sha256.get(arm)}:
        yield f"{seed.run} did not run the promoted configuration"
    last = run.attempts[-1].ended
    if last and last.value.checkpoint_sha256 != seed.checkpoint_sha256:
        yield f"{seed.run} was judged on a checkpoint that is not its last"


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
        yield from differs(f"observed {target}", recorded.observed, observed.get(target))
        yield from _score_faults(forecasts[target], recorded)


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
        yield from differs(shown, getattr(recorded, name), getattr(found, name))
    baselines = f"CRPS of {forecast.target}’s baselines"
    yield from mapping_differs(baselines, recorded.crps_baselines, found.crps_baselines)
