"""The logbook: every entry of an experiment in one dated sentence, long series drawn together."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from workbench.registry.entries import (
    Amendment,
    Anchor,
    Approval,
    Body,
    Decision,
    Deviation,
    Embargo,
    Exposure,
    Forecast,
    Incident,
    KeyRotation,
    Look,
    NoiseFloor,
    Note,
    Promotion,
    ProxyRun,
    Redaction,
    Registration,
    Reveal,
    RunEnded,
    RunStarted,
    SweepEnded,
    SweepStarted,
    Trial,
    Verdict,
    Withdrawal,
)
from workbench.registry.log import Entry
from workbench.reports.accounting import TRIAL_STATES
from workbench.reports.facts import ExperimentFacts, Source, source_of
from workbench.reports.narrative import listed, sentence
from workbench.reports.quantities import (
    count,
    decimals_for,
    duration,
    number,
    signed,
    significant,
    with_unit,
)

SERIES = ("trial", "proxy_run")
"""Kinds that come in long runs; neighbours share a row."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One row of the timeline."""

    time: str
    """Of its last entry."""
    kind: str
    actor: str
    text: str
    sources: tuple[Source, ...]
    exploratory: bool
    grave: bool
    """An incident, deviation, failure, void look or void verdict: marked in the margin."""

    @property
    def date(self) -> str:
        """``YYYY-MM-DD``."""
        return self.time[:10]


def timeline(facts: ExperimentFacts) -> tuple[Event, ...]:
    """Return the rows in the order of the ledger."""
    return tuple(_events(facts.entries, {h.entry.leaf: h.why for h in facts.hidden}))


def _events(entries: Sequence[Entry], hidden: Mapping[str, str]) -> Iterator[Event]:
    def series(entry: Entry) -> tuple[object, ...]:
        if entry.leaf in hidden:
            return (hidden[entry.leaf], entry.kind, entry.actor)
        if entry.kind not in SERIES:
            return (entry.sequence,)
        return (entry.kind, _mode(entry.body), entry.actor)

    for _, group in groupby(entries, key=series):
        found = list(group)
        yield _event(found, hidden.get(found[0].leaf, ""))


def _event(entries: Sequence[Entry], hidden: str) -> Event:
    last = entries[-1]
    if hidden:
        kind = last.kind.replace("_", " ")
        what = count(len(entries), f"{kind} entry", f"{kind} entries")
        text = sentence(f"{what}, {hidden}")
    else:
        text = describe(last.body) if len(entries) == 1 else describe_series(entries)
    return Event(
        time=last.time,
        kind=last.kind,
        actor=last.actor,
        text=text,
        sources=tuple(source_of(entry) for entry in entries),
        exploratory=_mode(last.body) == "exploratory",
        grave=any(_grave(entry.body) for entry in entries),
    )


def _mode(body: Body) -> str:
    return str(getattr(body, "mode", ""))


def _grave(body: Body) -> bool:
    if isinstance(body, RunEnded):
        return body.outcome != "completed"
    if isinstance(body, Verdict):
        return body.outcome == "void"
    if isinstance(body, Look):
        return bool(body.void_reasons)
    if isinstance(body, Incident):
        return body.severity != "note"
    if isinstance(body, Amendment):
        return body.timing == "outcomes_seen"
    return isinstance(body, Deviation | Withdrawal)


def describe_series(entries: Sequence[Entry]) -> str:
    """Return one sentence for neighbouring trials or proxy runs."""
    bodies = [entry.body for entry in entries if isinstance(entry.body, Trial | ProxyRun)]
    states: Counter[str] = Counter(body.state for body in bodies)
    told = listed([f"{states[state]} {state}" for state in TRIAL_STATES if states[state]])
    spent = duration(sum(body.device_seconds for body in bodies))
    trials = [body.number for body in bodies if isinstance(body, Trial)]
    what = (
        f"Trials {min(trials)}–{max(trials)}"
        if trials
        else count(len(bodies), "proxy run") + " of the ladder"
    )
    return f"{what}: {told}; {spent} of device time."


def describe(body: Body) -> str:
    """Return one entry as a sentence."""
    writer = _WRITERS.get(type(body))
    return writer(body) if writer else sentence(f"a {body.kind} entry")


def _registration(body: Registration) -> str:
    state = "clean work tree" if not body.code.dirty else "work tree with uncommitted changes"
    return (
        f"Registered: “{body.title}”, {count(len(body.arms), 'arm')} × "
        f"{count(body.num_seeds, 'seed')}, code {body.code.commit[:12]} ({state})."
    )


def _anchor(body: Anchor) -> str:
    return f"Tree head of size {body.tree_size} anchored ({body.method}); the seeds derive from it."


def _amendment(body: Amendment) -> str:
    paths = listed([f"{change.document} {change.path}" for change in body.changes])
    known = body.timing.replace("_", " ")
    return sentence(f"amended {paths} ({known}): {body.reason}")


def _withdrawal(body: Withdrawal) -> str:
    return sentence(f"withdrawn ({body.timing.replace('_', ' ')}): {body.reason}")


def _approval(body: Approval) -> str:
    return f"Approved by the reviewer {body.reviewer}."


def _sweep_started(body: SweepStarted) -> str:
    begun = f"continued after {count(body.already_done, 'trial')}" if body.already_done else "began"
    return (
        f"Sweep of {body.recipe} {begun}: budget {count(body.budget_trials, 'trial')}, "
        f"sampler {body.sampler} with seed {body.sampler_seed}."
    )


def _trial(body: Trial) -> str:
    value = _value(body.value, body.metric)
    return sentence(f"trial {body.number} {body.state}{value}{_because(body.reason)}")


def _sweep_ended(body: SweepEnded) -> str:
    told = listed([f"{body.counts[s]} {s}" for s in TRIAL_STATES if body.counts.get(s)])
    verb = "Sweep complete" if body.finished else "Sweep stopped"
    return sentence(
        f"{verb}: {told or 'no trial'} of {body.declared} declared{_because(body.reason)}"
    )


def _proxy_run(body: ProxyRun) -> str:
    value = _value(body.value, body.metric)
    return sentence(
        f"{body.candidate} at scale {body.scale}, seed {body.seed_index}: "
        f"{body.state}{value}{_because(body.reason)}"
    )


def _promotion(body: Promotion) -> str:
    if body.chosen == "none":
        return sentence(f"no candidate was promoted{_because(body.reason)}")
    deviations = sum(change.deviation for change in body.changes)
    return (
        f"Promoted {body.chosen} out of {count(len(body.candidates), 'candidate')}; "
        f"{count(len(body.changes), 'key')} differ from the proxy, "
        f"{count(deviations, 'deviation')} among them."
    )


def _forecast(body: Forecast) -> str:
    found = next((i for i in body.intervals if i.level == 80), None)
    ends = [found.lower, found.upper] if found else []
    places = decimals_for([body.point, *ends])
    write = signed if body.target == "improvement" else number
    inside = f", 80\u202f% interval {write(ends[0], places)} to {write(ends[1], places)}"
    point = with_unit(write(body.point, places), body.metric)
    return f"Forecast of {body.target}: {point}{inside if ends else ''} ({body.method})."


def _run_started(body: RunStarted) -> str:
    begun = f"resumed from step {body.from_step}" if body.from_step else "started"
    return f"{body.run} {begun}, attempt {body.attempt}, seed {body.seed}."


def _run_ended(body: RunEnded) -> str:
    lost = body.last_step - body.surviving_step
    tail = f", {count(lost, 'step')} to be redone" if lost > 0 else ""
    return sentence(
        f"{body.run} {body.outcome} at step {body.last_step} of {body.planned_steps}, "
        f"attempt {body.attempt}, {duration(body.device_seconds)}{tail}{_because(body.reason)}"
    )


def _decision(body: Decision) -> str:
    how = "by rule" if body.basis == "rule" else "by judgement"
    return f"{body.owner} decided {how}: {sentence(body.question)} {sentence(body.chosen)}"


def _note(body: Note) -> str:
    return sentence(body.text)


def _deviation(body: Deviation) -> str:
    return sentence(f"{body.what}: registered {body.registered}, found {body.found}")


def _incident(body: Incident) -> str:
    what = sentence(
        f"{body.category.replace('_', ' ')} in {body.run}, attempt {body.attempt}, "
        f"step {body.detected_step}: {body.symptom}"
    )
    return f"{what} {sentence(body.action)}"


def _exposure(body: Exposure) -> str:
    what = "the sealed test split" if body.what == "sealed_test" else "validation outcomes"
    return sentence(f"{what} opened by {body.by}: {body.purpose}")


def _look(body: Look) -> str:
    first = body.results[0] if body.results else None
    what = f"look {body.number} at {count(body.num_seeds, 'seed')} an arm"
    then = f"on to {body.next_seeds} seeds" if body.next_seeds is not None else body.state
    then = {"final": "it was the last", "stop": "the rule stops"}.get(then, then)
    if first is None or first.estimate is None:
        return sentence(f"{what} judged nothing: {'; '.join(body.void_reasons) or then}")
    places = decimals_for([first.estimate, first.lower, first.upper])
    others = [f"{r.hypothesis} {r.outcome}" for r in body.results[1:]]
    also = f"; {listed(others)}" if others else ""
    return sentence(
        f"{what}: improvement {with_unit(signed(first.estimate, places), first.metric)} "
        f"[{signed(first.lower, places)}, {signed(first.upper, places)}], {first.outcome}{also}; "
        f"{then}"
    )


def _noise_floor(body: NoiseFloor) -> str:
    told = [f"{metric} {significant(sd, 3)}" for metric, sd in body.spreads.items()]
    of = f"{body.recipe} at scale {body.scale}"
    origin = "imported from " if body.origin == "imported" else "measured by "
    return sentence(
        f"noise floor of {of}: {count(body.num_runs, 'repeat')}, spread {listed(told)} "
        f"({origin}{body.source})"
    )


def _verdict(body: Verdict) -> str:
    if body.estimate is None:
        return sentence(f"verdict {body.outcome}: {'; '.join(body.void_reasons)}")
    places = decimals_for([body.estimate, body.lower, body.upper])
    return (
        f"Verdict: {body.outcome} under {body.claim}, improvement "
        f"{with_unit(signed(body.estimate, places), body.metric)} "
        f"[{signed(body.lower, places)}, {signed(body.upper, places)}]."
    )


def _embargo(body: Embargo) -> str:
    return sentence(f"embargo until {body.until}: what follows is withheld ({body.reason})")


def _reveal(body: Reveal) -> str:
    return sentence(f"the embargo ended: what it withheld is published{_because(body.reason)}")


def _redaction(body: Redaction) -> str:
    what = body.what.replace("_", " ")
    return sentence(f"an entry’s content was erased for good ({what}): {body.reason}")


def _key_rotation(body: KeyRotation) -> str:
    return sentence(f"the {body.role} key was replaced ({body.why.replace('_', ' ')})")


def _value(value: float | None, metric: str) -> str:
    return "" if value is None else f" with {metric} {with_unit(number(value), metric)}"


def _because(reason: str) -> str:
    return f" ({reason.rstrip('.')})" if reason else ""


_Writer = Callable[..., str]
_WRITERS: dict[type[Body], _Writer] = {
    Registration: _registration,
    Anchor: _anchor,
    Approval: _approval,
    Amendment: _amendment,
    Withdrawal: _withdrawal,
    SweepStarted: _sweep_started,
    Trial: _trial,
    SweepEnded: _sweep_ended,
    ProxyRun: _proxy_run,
    Promotion: _promotion,
    Forecast: _forecast,
    RunStarted: _run_started,
    RunEnded: _run_ended,
    Decision: _decision,
    Note: _note,
    Deviation: _deviation,
    Incident: _incident,
    Exposure: _exposure,
    Look: _look,
    NoiseFloor: _noise_floor,
    Verdict: _verdict,
    Embargo: _embargo,
    Reveal: _reveal,
    Redaction: _redaction,
    KeyRotation: _key_rotation,
}
