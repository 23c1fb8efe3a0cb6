"""Where an experiment stands, in five lines."""

from workbench.registry.entries import Forecast, ForecastScore, Look, NoiseFloor, Verdict
from workbench.reports.accounting import Bill, bill, sweep_accounting
from workbench.reports.facts import (
    Cited,
    ExperimentFacts,
    merged_sources,
    of_kind,
    source_of,
)
from workbench.reports.lineage import RunLineage, run_lineages
from workbench.reports.narrative import Clause, Line, clause, line, listed, sentence
from workbench.reports.quantities import (
    count,
    decimals_for,
    device_time,
    number,
    percent,
    signed,
    with_unit,
)
from workbench.reports.wording import bound_error, level


def state_of(facts: ExperimentFacts) -> str:
    """Return how far an experiment has come, in one word.

    ``exploratory``, ``registered``, ``sweeping``, ``swept``, ``stopped``, ``promoted``,
    ``running``, ``ran``, ``withdrawn``, or the verdict's outcome; ``embargoed``, ``overdue`` or
    ``hidden`` where this reader has not what it would take to say so.
    """
    if facts.promise_hidden and facts.embargo is not None:
        return "overdue" if facts.embargo_expired else "embargoed"
    if facts.promise_hidden or (facts.verdict is None and facts.hides(Verdict.kind)):
        return "hidden"
    if not facts.confirmatory:
        return "exploratory"
    if facts.withdrawal:
        return "withdrawn"
    if facts.verdict:
        return facts.verdict.value.outcome
    if facts.promotion and facts.promotion.value.chosen == "none":
        return "stopped"
    if run_lineages(facts):
        return "ran" if _all_ran(facts) else "running"
    if facts.promotion:
        return "promoted"
    if facts.sweep:
        return "swept" if sweep_accounting(facts.sweep).finished else "sweeping"
    return "registered"


def _all_ran(facts: ExperimentFacts) -> bool:
    """Return whether every run has ended that the rule asks for, and it wants no more looks."""
    if facts.looks:
        return facts.looks[-1].value.state != "go_on"
    return len(completed_runs(facts)) == planned_runs(facts)


def planned_runs(facts: ExperimentFacts) -> int:
    """Return the number of full-scale runs up to the next look; all of them before any look."""
    if facts.registration is None:
        return 0
    look = facts.looks[-1].value if facts.looks else None
    seeds = facts.registration.value.num_seeds if look is None else _seeds_after(look)
    return len(facts.registration.value.arms) * seeds


def _seeds_after(look: Look) -> int:
    return look.num_seeds if look.next_seeds is None else look.next_seeds


def next_look(look: Look) -> str:
    """Return what a look said of going on, in words."""
    what = f"look {look.number} at {count(look.num_seeds, 'seed')} an arm"
    if look.next_seeds is not None:
        return f"{what} went on to {look.next_seeds}"
    return f"{what} was the last"


def completed_runs(facts: ExperimentFacts) -> tuple[RunLineage, ...]:
    """Return the confirmatory runs that are over for good: completed or diverged."""
    return tuple(r for r in run_lineages(facts) if r.state in ("completed", "diverged"))


def status_lines(facts: ExperimentFacts) -> tuple[Line, ...]:
    """Return the five lines: question, state, result, forecast, cost."""
    return (
        _question(facts),
        line("State", *_state(facts)),
        *result_lines(facts),
    )


def result_lines(facts: ExperimentFacts) -> tuple[Line, ...]:
    """Return what came of it: result, forecast, cost."""
    return (
        line("Result", *_result(facts)),
        line("Forecast", *_forecast(facts)),
        _cost(facts, bill(facts)),
    )


def _question(facts: ExperimentFacts) -> Line:
    if facts.registration is None or facts.proposal is None:
        text = "None was registered: what follows explored, and can never support a verdict."
        return line("Question", clause(text))
    wanted = facts.proposal.decision.hypothesis
    statement = next(h.statement for h in facts.proposal.hypotheses if h.id == wanted)
    return line("Question", clause(sentence(statement), facts.registration.sources))


def _hidden_verdict(facts: ExperimentFacts) -> list[Clause]:
    found = next(found for found in facts.hidden if found.entry.kind == Verdict.kind)
    text = f"A verdict was recorded; its content is hidden: {found.why}"
    return [clause(sentence(text), (source_of(found.entry),))]


def _state(facts: ExperimentFacts) -> list[Clause]:
    state = state_of(facts)
    if state == "hidden" and facts.hides(Verdict.kind):
        return _hidden_verdict(facts)
    if facts.withdrawal and facts.confirmatory:
        text = sentence(f"withdrawn: {facts.withdrawal.value.reason}")
        return [clause(text, facts.withdrawal.sources), *_amended(facts)]
    if facts.verdict and facts.confirmatory:
        text = f"Decided: {state}. {sentence(facts.verdict.value.action)}"
        return [clause(text, facts.verdict.sources), *_amended(facts)]
    if state == "stopped" and facts.promotion:
        text = "Stopped before full scale: no candidate may be promoted by the registered rule."
        return [clause(text, facts.promotion.sources), *_amended(facts)]
    return [_progress(facts, state), *_amended(facts)]


def _amended(facts: ExperimentFacts) -> list[Clause]:
    """Return what was tried before the promise, and that it was changed; nothing if neither."""
    if not facts.course.amendments:
        return _explored(facts)
    late = len(facts.course.late())
    when = f"{late} of them after outcomes were seen: exploratory" if late else "in time"
    text = f"Amended {count(len(facts.course.amendments), 'time')}, {when}."
    sources = [source_of(amendment.entry) for amendment in facts.course.amendments]
    return [*_explored(facts), clause(text, sources)]


def _explored(facts: ExperimentFacts) -> list[Clause]:
    """Return that the same was explored before it was registered; nothing if it was not."""
    promise = facts.course.registration
    before = [
        entry
        for entry in facts.entries
        if promise is not None
        and entry.sequence < promise.sequence
        and getattr(entry.body, "mode", "") == "exploratory"
    ]
    if not before:
        return []
    text = f"Explored before it was registered: {count(len(before), 'entry', 'entries')}."
    return [clause(text, [source_of(before[0]), source_of(before[-1])])]


def _progress(facts: ExperimentFacts, state: str) -> Clause:
    if state in ("running", "ran"):
        done = completed_runs(facts)
        tail = "; the verdict is still to be computed." if state == "ran" else "."
        at_most = "at most " if _may_stop_early(facts) else ""
        planned = count(planned_runs(facts), "full-scale run")
        looked = f"; {next_look(facts.looks[-1].value)}" if facts.looks else ""
        text = f"{len(done)} of {at_most}{planned} ended{looked}{tail}"
        return clause(text, merged_sources([*facts.ends, *facts.looks]))
    if state == "promoted" and facts.promotion:
        text = f"{facts.promotion.value.chosen} was promoted; no full-scale run has started."
        return clause(text, facts.promotion.sources)
    sweep = facts.sweep or facts.exploratory
    if sweep:
        told = sweep_accounting(sweep)
        declared = told.declared.value if told.declared else told.ran
        kind = "exploratory trial" if sweep.mode == "exploratory" else "trial"
        text = f"{told.ran} of {count(declared, kind)} ended"
        return clause(f"{text}; nothing promoted.", merged_sources(sweep.trials or sweep.starts))
    if facts.registration is None:
        floors = of_kind(facts.entries, NoiseFloor)
        text = f"{count(len(floors), 'noise floor')} measured; " if floors else ""
        return clause(sentence(f"{text}nothing was tried"), merged_sources(floors))
    return clause("Registered; nothing has run.", facts.registration.sources)


def _may_stop_early(facts: ExperimentFacts) -> bool:
    """Return whether fewer runs than these may do, since no look has been taken yet."""
    rule = facts.proposal.decision if facts.proposal else None
    return rule is not None and len(rule.looks) != 1 and not facts.looks


def _result(facts: ExperimentFacts) -> list[Clause]:
    if not facts.confirmatory:
        return [clause("None: exploratory.")]
    if facts.verdict is None and facts.hides(Verdict.kind):
        return _hidden_verdict(facts)
    if facts.verdict is None:
        return [clause("None yet.")]
    verdict = facts.verdict.value
    if verdict.outcome == "void" or verdict.estimate is None:
        reasons = "; ".join(verdict.void_reasons) or "no estimate could be computed"
        return [clause(sentence(f"void: {reasons}"), facts.verdict.sources)]
    return [clause(effect_sentence(verdict), facts.verdict.sources)]


def effect_sentence(verdict: Verdict) -> str:
    """Return estimate, bounds, n and rule of a verdict that has an estimate."""
    bounds = (verdict.estimate, verdict.lower, verdict.upper)
    places = decimals_for(bounds)
    sizes = " + ".join(str(n) for n in sample_sizes(verdict).values())
    effect = with_unit(signed(verdict.estimate, places), verdict.metric)
    many = not verdict.stopping.startswith("fixed") and verdict.stopping
    look = f" at look {verdict.look}" if many else ""
    return (
        f"Improvement of {verdict.metric} {effect}, one-sided {level(bound_error(verdict))} bounds "
        f"{signed(verdict.lower, places)} to {signed(verdict.upper, places)}, "
        f"n\u00a0=\u00a0{sizes} runs{look}; rule {verdict.claim}."
    )


def sample_sizes(verdict: Verdict) -> dict[str, int]:
    """Return the number of values of each arm that entered the rule."""
    return {
        arm: sum(1 for seed in seeds if seed.value is not None)
        for arm, seeds in verdict.values.items()
    }


def _forecast(facts: ExperimentFacts) -> list[Clause]:
    found = [f for f in facts.forecasts if f.value.target == "improvement"] or [*facts.forecasts]
    if not found:
        return [clause("None recorded.")]
    told = [_predicted(found[-1])]
    score = score_of(facts, found[-1].value.target)
    return [*told, scored_clause(score)] if score else [*told, clause("Not scored yet.")]


def _predicted(forecast: Cited[Forecast]) -> Clause:
    body = forecast.value
    interval = next((i for i in body.intervals if i.level == 80), None)
    bounds = [body.point] + ([interval.lower, interval.upper] if interval else [])
    places = decimals_for(bounds)
    inside = (
        f" (80{chr(0x202F)}% interval {signed(interval.lower, places)} to "
        f"{signed(interval.upper, places)})"
        if interval and body.target == "improvement"
        else ""
    )
    shown = signed(body.point, places) if body.target == "improvement" else number(body.point)
    text = f"{body.target} {with_unit(shown, body.metric)} predicted{inside}"
    return clause(sentence(text), forecast.sources)


def score_of(facts: ExperimentFacts, target: str) -> Cited[ForecastScore] | None:
    """Return how the forecast of a target did, once there is a verdict."""
    if facts.verdict is None:
        return None
    for score in facts.verdict.value.scores:
        if score.target == target:
            return Cited(value=score, sources=facts.verdict.sources)
    return None


def scored_clause(score: Cited[ForecastScore]) -> Clause:
    """Return whether the intervals covered what was observed, and the grade."""
    body = score.value
    places = decimals_for([body.observed, body.error])
    covered = [f"{key[1:]}{chr(0x202F)}%" for key, inside in body.covered.items() if inside]
    inside = f"inside the {listed(covered)} intervals" if covered else "outside every interval"
    inside = inside.replace("intervals", "interval") if len(covered) == 1 else inside
    text = f"Observed {signed(body.observed, places)}: {inside} ({body.grade})."
    return clause(text, score.sources)


def _cost(facts: ExperimentFacts, total: Bill) -> Line:
    hidden = uncounted_clauses(facts)
    if not total.costs:
        return line("Cost", *(hidden or [clause("Nothing has run.")]))
    attempts = sum(len(run.attempts) - 1 for run in run_lineages(facts))
    text = (
        f"{device_time(total.device_seconds)} in all, "
        f"{percent(total.share('wasted'))} of it in failed, diverged, lost or discarded work"
    )
    events = [
        count(attempts, "restart"),
        count(len(facts.incidents), "incident"),
        count(len(facts.deviations), "deviation"),
    ]
    log = merged_sources([*facts.incidents, *facts.deviations])
    return line(
        "Cost", clause(f"{text};", total.sources), clause(f"{listed(events)}.", log), *hidden
    )


def uncounted_clauses(facts: ExperimentFacts) -> list[Clause]:
    """Return that hidden trials and runs are in no figure; nothing when there are none."""
    if not facts.uncounted:
        return []
    what = count(len(facts.uncounted), "trial or run", "trials or runs")
    text = f"Not counted: {what} whose entry is hidden, failed or not."
    return [clause(text, facts.uncounted)]
