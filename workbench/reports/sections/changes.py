"""What was changed of a registration after it was made, and whether it was given up."""

from collections.abc import Sequence

from workbench.proxies.document_changes import prose_diff, shown
from workbench.registry.amended import AmendmentInForce, Known
from workbench.registry.entries import Amendment, FieldChange, Trial, Withdrawal
from workbench.reports.blocks import Block, Card, Row, Section, say, section, table
from workbench.reports.facts import Cited, ExperimentFacts, Source, merged_sources, source_of
from workbench.reports.narrative import Clause, clause, line, sentence
from workbench.reports.quantities import count

KNOWN = {
    "before_any_run": "before anything ran",
    "outcomes_unseen": "after work had begun, before anything was promoted, opened or judged",
    "outcomes_seen": "after outcomes were seen",
}
"""What was known when something changed, in words."""


def changes_section(facts: ExperimentFacts) -> Section | None:
    """Return every amendment with its diff, timing and effect, and the withdrawal; None without."""
    course = facts.course
    if not course.amendments and facts.withdrawal is None:
        return None
    blocks: list[Block | None] = []
    if course.amendments:
        text = (
            f"Amended {count(len(course.amendments), 'time')}. The other sections show what is in "
            "force; what was promised before stands here, field by field."
        )
        blocks.append(say(text))
    for place, amendment in enumerate(course.amendments, start=1):
        blocks += _amendment(place, amendment, _values_before(facts, amendment))
    if facts.withdrawal is not None:
        blocks.append(_withdrawal(facts.withdrawal, facts.course.known_at_withdrawal))
    return section("changes", "Amendments and withdrawal", blocks)


def _values_before(facts: ExperimentFacts, amendment: AmendmentInForce) -> list[Cited[Trial]]:
    """Return the trials of the sweep whose value was known before; selection, not outcome."""
    trials = facts.sweep.trials if facts.sweep else ()
    valued = [trial for trial in trials if trial.value.value is not None]
    return [t for t in valued if t.sources[0].sequence < amendment.entry.sequence]


def _amendment(
    place: int, found: AmendmentInForce, seen: Sequence[Cited[Trial]]
) -> list[Block | None]:
    source, body = (source_of(found.entry),), found.entry.body
    if not isinstance(body, Amendment):
        text = f"Amendment {place} is hidden from this reader: it was withheld or redacted."
        return [say(text, source)]
    card = Card(
        title=f"Amendment {place}: {count(len(body.changes), 'field')} changed",
        label=body.reason_class.replace("_", " "),
        lines=(
            line("Reason", clause(sentence(body.reason))),
            line("Known then", known_clause(found.known), *_seen(seen)),
            line("Effect", clause(sentence(body.effect))),
        ),
        excerpt="\n".join(filter(None, map(prose_diff, body.changes))),
        time=found.entry.time,
        actor=found.entry.actor,
        sources=source,
        grave=found.is_late,
    )
    return [card, _diff(place, body.changes, source)]


def _seen(trials: Sequence[Cited[Trial]]) -> list[Clause]:
    if not trials:
        return []
    text = f"The sweep had shown {count(len(trials), 'value')}, which choose candidates."
    return [clause(text, merged_sources(trials))]


def known_clause(known: Known) -> Clause:
    """Return what was known of outcomes, citing the entries that say so."""
    return clause(sentence(KNOWN[known.timing]), [source_of(entry) for entry in known.rests_on])


def _diff(place: int, changes: list[FieldChange], sources: tuple[Source, ...]) -> Block | None:
    rows = [
        Row(
            cells=(change.document, change.path, shown(change.old), shown(change.new)),
            sources=sources,
        )
        for change in changes
        if not prose_diff(change)
    ]
    return table(f"Amendment {place}.", ["Document", "Field", "Before", "Now"], rows)


def _withdrawal(found: Cited[Withdrawal], known: Known | None) -> Card:
    told = [line("Reason", clause(sentence(found.value.reason)))]
    if known is not None:
        told.append(line("Known then", known_clause(known)))
    told.append(line("Effect", clause("Nothing confirmatory ran afterwards; nothing was judged.")))
    return Card(
        title="Withdrawn",
        label="withdrawal",
        lines=tuple(told),
        excerpt="",
        time=found.time,
        actor=found.sources[0].actor,
        sources=found.sources,
        grave=True,
    )
