"""What did not work, and what the record cannot show."""

from workbench.canonical import freeze
from workbench.registry.entries import Candidate
from workbench.reports.accounting import bill
from workbench.reports.facts import Cited, ExperimentFacts, merged_sources
from workbench.reports.lineage import run_lineages
from workbench.reports.narrative import Clause, Line, clause, line, listed, sentence
from workbench.reports.quantities import count, decimals_for, number, signed, with_unit
from workbench.reports.status import effect_sentence, sample_sizes


def negative_results(facts: ExperimentFacts) -> tuple[Line, ...]:
    """Return what was tried and did not help, failed, or turned out otherwise than predicted."""
    found = [
        *_refuted(facts),
        *_worse_than_control(facts),
        *_not_promoted(facts),
        *_optimism(facts),
        *_diverged(facts),
        *_forecast_misses(facts),
        *_worse_secondaries(facts),
    ]
    return tuple(found)


def _refuted(facts: ExperimentFacts) -> list[Line]:
    if facts.verdict is None or facts.verdict.value.outcome == "supported":
        return []
    verdict = facts.verdict.value
    if verdict.estimate is None or verdict.outcome == "void":
        return []
    return [
        line(
            f"Hypothesis {verdict.hypothesis} {verdict.outcome}",
            clause(effect_sentence(verdict), facts.verdict.sources),
        )
    ]


def control_trial_value(facts: ExperimentFacts) -> Cited[float] | None:
    """Return the sweep's value of the control point: its first trial with the control's values."""
    if facts.sweep is None or facts.registration is None:
        return None
    control = freeze(facts.registration.value.control)
    for trial in facts.sweep.trials:
        if freeze(trial.value.params) == control and trial.value.value is not None:
            return Cited(value=trial.value.value, sources=trial.sources)
    return None


def _worse_than_control(facts: ExperimentFacts) -> list[Line]:
    control = control_trial_value(facts)
    if control is None or facts.sweep is None or facts.proposal is None:
        return []
    sign = 1 if facts.proposal.measures.primary.direction == "minimize" else -1
    others = [
        trial
        for trial in facts.sweep.trials
        if trial.value.value is not None and trial.leaf != control.leaf
    ]
    worse = [t for t in others if t.value.value and sign * (t.value.value - control.value) > 0]
    metric = facts.proposal.measures.primary.metric
    text = (
        f"{len(worse)} of {count(len(others), 'completed trial')} did worse than the control’s "
        f"{with_unit(number(control.value), metric)} in the sweep."
    )
    return [line("Trials below the control", clause(text, merged_sources([control, *worse])))]


def _not_promoted(facts: ExperimentFacts) -> list[Line]:
    if facts.promotion is None:
        return []
    body = facts.promotion.value
    rejected = [c for c in body.candidates if c.name not in (body.chosen, "control")]
    clauses = [_rejected(candidate) for candidate in rejected]
    if body.chosen == "none":
        clauses.append(sentence(body.reason or "no candidate may be promoted"))
    if not clauses:
        return []
    text = " ".join(clauses)
    return [line("Candidates not promoted", clause(text, facts.promotion.sources))]


def _rejected(candidate: Candidate) -> str:
    if candidate.reason:
        return sentence(f"{candidate.name}: {candidate.reason}")
    places = decimals_for([candidate.improvement, candidate.lower, candidate.upper])
    effect = signed(candidate.improvement, places)
    return sentence(f"{candidate.name}: improvement {effect} over the control on re-run")


def _optimism(facts: ExperimentFacts) -> list[Line]:
    """Return the winner's curse in figures: best of sweep against its mean on fresh seeds."""
    if facts.promotion is None or facts.proposal is None:
        return []
    body = facts.promotion.value
    chosen = next((c for c in body.candidates if c.name == body.chosen), None)
    if chosen is None or chosen.sweep_value is None or chosen.rerun_mean is None:
        return []
    sign = 1 if facts.proposal.measures.primary.direction == "minimize" else -1
    bias = sign * (chosen.rerun_mean - chosen.sweep_value)
    if bias <= 0:
        return []
    places = decimals_for([chosen.sweep_value, chosen.rerun_mean, bias], least=4, most=5)
    metric = facts.proposal.measures.primary.metric
    text = (
        f"{chosen.name} scored {number(chosen.sweep_value, places)} in the sweep and "
        f"{number(chosen.rerun_mean, places)} on average over {chosen.rerun_n} fresh seeds: "
        f"being selected flattered it by {with_unit(number(bias, places), metric)}."
    )
    return [line("Best-of-sweep optimism", clause(text, facts.promotion.sources))]


def _diverged(facts: ExperimentFacts) -> list[Line]:
    clauses: list[Clause] = []
    for trial in facts.sweep.trials if facts.sweep else ():
        if trial.value.state in ("failed", "diverged", "lost"):
            why = trial.value.reason or "no reason recorded"
            text = f"trial {trial.value.number} {trial.value.state}: {why}"
            clauses.append(clause(sentence(text), trial.sources))
    for proxy in facts.proxy_runs:
        if proxy.value.state in ("failed", "diverged", "lost"):
            name = f"{proxy.value.candidate} at {proxy.value.scale}, seed {proxy.value.seed_index}"
            why = proxy.value.reason or "no reason recorded"
            clauses.append(clause(sentence(f"{name} {proxy.value.state}: {why}"), proxy.sources))
    clauses += [
        clause(sentence(f"{run.run} {run.state}"), run.sources)
        for run in run_lineages(facts)
        if run.state in ("failed", "diverged", "lost", "killed")
    ]
    return [line("Failed and diverged", *clauses)] if clauses else []


def _forecast_misses(facts: ExperimentFacts) -> list[Line]:
    if facts.verdict is None:
        return []
    lines = []
    for score in facts.verdict.value.scores:
        missed = [f"{key[1:]}\u202f%" for key, inside in score.covered.items() if not inside]
        rivals = [name for name, crps in score.crps_baselines.items() if crps < score.crps]
        if not missed and not rivals:
            continue
        places = decimals_for([score.error])
        parts = [f"observed minus forecast {signed(score.error, places)}"]
        if missed:
            parts.append(f"outside the {listed(missed)} interval{'s' if len(missed) > 1 else ''}")
        if rivals:
            names = listed([rival.replace("_", " ") for rival in rivals])
            parts.append(f"the baseline {names} scored better (CRPS)")
        text = sentence("; ".join(parts))
        lines.append(line(f"Forecast of {score.target}", clause(text, facts.verdict.sources)))
    return lines


def _worse_secondaries(facts: ExperimentFacts) -> list[Line]:
    if facts.verdict is None:
        return []
    sign = 1 if facts.verdict.value.direction == "minimize" else -1
    worse = []
    for metric, means in facts.verdict.value.per_metric.items():
        if metric == facts.verdict.value.metric or not {"control", "treatment"} <= set(means):
            continue
        change = sign * (means["control"] - means["treatment"])
        if change < 0:
            worse.append(f"{metric} {with_unit(signed(change, decimals_for([change])), metric)}")
    if not worse:
        return []
    text = f"Improvement of the treatment was negative on {listed(worse)} (means, no test)."
    return [line("Secondary metrics", clause(text, facts.verdict.sources))]


def limitations(facts: ExperimentFacts) -> tuple[Line, ...]:
    """Return what the proposers named and what follows from the record itself."""
    return (*_registered_limits(facts), *_computed_limits(facts))


def _registered_limits(facts: ExperimentFacts) -> list[Line]:
    if facts.promise_hidden:
        text = "What the proposers named cannot be read: it was registered, and is hidden."
        return [line("As registered", clause(text))]
    if facts.registration is None or facts.proposal is None:
        return [line("Exploratory", clause("Nothing was registered, so nothing can be concluded."))]
    sources, proposal = facts.registration.sources, facts.proposal
    known = proposal.foreknowledge.replace("_", " ")
    found = [
        line("Known beforehand", clause(sentence(f"{known}; {proposal.pilots_seen}"), sources))
    ]
    found += [
        line("Proxy infidelity", clause(sentence(text), sources))
        for text in proposal.proxy_infidelities
    ]
    found += [
        line("Threat to validity", clause(sentence(text), sources))
        for text in proposal.threats_to_validity
    ]
    return found


def _computed_limits(facts: ExperimentFacts) -> list[Line]:
    found = []
    if facts.registration and facts.registration.value.code.dirty:
        text = "The registered code had uncommitted changes, so the commit does not identify it."
        found.append(line("Code", clause(text, facts.registration.sources)))
    if facts.verdict:
        sizes = listed([f"{n} {arm}" for arm, n in sample_sizes(facts.verdict.value).items()])
        text = (
            f"The interval rests on {sizes} runs of one corpus and one model size; it covers seed "
            "noise, not other corpora, sizes or code."
        )
        found.append(line("Sample", clause(text, facts.verdict.sources)))
    if facts.deviations:
        text = f"{count(len(facts.deviations), 'deviation')} from the registration, listed above."
        found.append(line("Deviations", clause(text, merged_sources(facts.deviations))))
    if bill(facts).by_fate("wasted") and any(r.attempts[1:] for r in run_lineages(facts)):
        text = "The cost of discarded steps is the attempt’s cost in proportion to its steps."
        found.append(line("Cost of restarts", clause(text)))
    if facts.anchors and all(a.value.method == "embedded" for a in facts.anchors):
        text = (
            "The only anchor is inside the log: it orders the seeds after the registration, and "
            "does not prove to a stranger at which time either was written."
        )
        found.append(line("Time", clause(text, merged_sources(facts.anchors))))
    return found
