"""Decisions, deviations and incidents, each with who, why, what was lost and what reverses it."""

from collections.abc import Sequence

from workbench.registry.entries import Decision, Deviation, Incident
from workbench.reports.blocks import (
    Block,
    Card,
    Heading,
    Row,
    Section,
    Table,
    say,
    section,
    table,
)
from workbench.reports.facts import Cited, ExperimentFacts, merged_sources
from workbench.reports.narrative import Line, clause, line, listed, sentence
from workbench.reports.quantities import MISSING, count, duration, scaled

CATEGORIES = {
    "seeds": "Seeds",
    "data": "Data",
    "config": "Configuration",
    "code": "Code",
    "dependency": "Dependencies",
    "hardware": "Hardware",
    "file": "Edited files",
}
"""What can deviate, the gravest for the inference first."""
LAYERS = ("objective", "architecture", "optimizer", "operations")


def decisions_section(facts: ExperimentFacts) -> Section:
    """Return every decision, by rule or by judgement."""
    if not facts.decisions:
        return section("decisions", "Decisions", [say("None was recorded.")])
    return section("decisions", "Decisions", [_decision(found) for found in facts.decisions])


def _decision(found: Cited[Decision]) -> Card:
    body = found.value
    told = [
        ("Chosen", body.chosen),
        ("Considered", "; ".join(body.options)),
        ("Evidence", "; ".join(body.evidence)),
        ("Dissent", body.dissent or "none recorded"),
        ("Would reverse it", body.would_reverse),
        ("Reversible", _reversible(body)),
    ]
    return Card(
        title=sentence(body.question),
        label=f"by {body.basis}, {body.owner}",
        lines=tuple(line(label, clause(sentence(text))) for label, text in told if text),
        excerpt="",
        time=found.time,
        actor=found.sources[0].actor,
        sources=found.sources,
    )


def _reversible(body: Decision) -> str:
    if not body.reversible:
        return "no"
    return f"yes, back to {body.rollback}" if body.rollback else "yes"


def deviations_section(facts: ExperimentFacts) -> Section:
    """Return what differs from the registration, by what it is that differs."""
    if not facts.deviations:
        text = "None was detected." if facts.confirmatory else "Nothing was registered."
        return section("deviations", "Deviations", [say(text)])
    blocks: list[Block | None] = [_deviation(d) for d in facts.deviations if not d.value.category]
    for category, title in CATEGORIES.items():
        found = [d for d in facts.deviations if d.value.category == category]
        if found:
            blocks.append(Heading(text=title))
            blocks += [_repeated(same) for same in _same(found)]
    return section("deviations", "Deviations", blocks)


def _same(found: Sequence[Cited[Deviation]]) -> list[list[Cited[Deviation]]]:
    """Return the deviations grouped by what differs and how; each start records it anew."""
    groups: dict[tuple[str, ...], list[Cited[Deviation]]] = {}
    for deviation in found:
        body = deviation.value
        groups.setdefault((body.what, body.registered, body.found), []).append(deviation)
    return list(groups.values())


def _repeated(same: Sequence[Cited[Deviation]]) -> Card:
    places = listed([deviation.value.at for deviation in same if deviation.value.at])
    return _deviation(Cited(value=same[0].value, sources=merged_sources(same)), places=places)


def _deviation(found: Cited[Deviation], *, places: str = "") -> Card:
    body = found.value
    told = [
        ("Registered", body.registered),
        ("Found", body.found),
        ("At the start of", places),
        ("Consequence", body.effect),
    ]
    return Card(
        title=body.what,
        label="deviation",
        lines=tuple(line(label, clause(sentence(text))) for label, text in told if text),
        excerpt="",
        time=found.sources[0].time,
        actor=found.sources[0].actor,
        sources=found.sources,
        grave=True,
    )


def incidents_section(facts: ExperimentFacts) -> Section:
    """Return what went wrong, at which layer it was answered and what that cost."""
    if not facts.incidents:
        return section("incidents", "Incidents", [say("None was recorded.")])
    cards: list[Block | None] = [
        _incident(place, found) for place, found in enumerate(facts.incidents, start=1)
    ]
    return section("incidents", "Incidents", [_layers(facts), *cards])


def _layers(facts: ExperimentFacts) -> Table | None:
    rows = []
    for layer in LAYERS:
        found = [incident for incident in facts.incidents if incident.value.layer == layer]
        rows.append(
            Row(
                cells=(
                    layer,
                    count(len(found)),
                    count(sum(i.value.lost_steps for i in found)) if found else MISSING,
                    scaled(sum(i.value.lost_tokens for i in found)) if found else MISSING,
                    duration(sum(i.value.lost_device_seconds for i in found)) if found else MISSING,
                ),
                sources=merged_sources(found),
                tone="" if found else "muted",
            )
        )
    return table(
        "Incidents by the layer of the response, from the cheapest to the dearest to change later.",
        ["Layer", "Incidents", "Steps lost", "Tokens lost", "Device time lost"],
        rows,
        numeric=(1, 2, 3, 4),
    )


def _incident(place: int, found: Cited[Incident]) -> Card:
    body = found.value
    began = f"step {body.began_step}, detected at step {body.detected_step}"
    lost = (
        f"{count(body.lost_steps, 'step')}, {scaled(body.lost_tokens, 'tokens')}, "
        f"{duration(body.lost_device_seconds)} of device time"
    )
    told: list[Line] = [
        line("Symptom", clause(sentence(body.symptom))),
        line("Began", clause(sentence(f"{began} of attempt {body.attempt}"))),
        line("Action", clause(sentence(body.action))),
        line("Lost", clause(sentence(lost))),
        line("Answered in", clause(sentence(f"the {body.layer} layer"))),
    ]
    return Card(
        title=f"{place}. {body.category.replace('_', ' ').capitalize()} in {body.run}",
        label=body.severity,
        lines=tuple(told),
        excerpt=body.excerpt,
        time=found.time,
        actor=found.sources[0].actor,
        sources=found.sources,
        grave=body.severity != "note",
    )
