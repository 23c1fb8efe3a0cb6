"""What a chronicle says of entries whose content is withheld or was erased."""

from collections.abc import Sequence
from itertools import groupby

from workbench.registry.hidden import HiddenEntry
from workbench.reports.blocks import Block, Row, Section, lines, say, section, table
from workbench.reports.facts import ExperimentFacts, Source, source_of
from workbench.reports.narrative import Line, clause, line, sentence
from workbench.reports.quantities import count
from workbench.reports.status import result_lines


def hidden_section(facts: ExperimentFacts) -> Section | None:
    """Return every entry without its content and why; nothing when all are here."""
    if not facts.hidden:
        return None
    total = count(len(facts.hidden), "entry", "entries")
    text = (
        f"The content of {total} is not in this log’s public copy. Time, kind, author and the hash "
        f"of the content are: nothing was removed from the count. {_later(facts.hidden)}"
    )
    blocks: list[Block | None] = [
        say(text),
        table(
            "Hidden entries; neighbours of one kind share a row.",
            ["Kind", "Entries", "Why"],
            _rows(facts.hidden),
            numeric=(1,),
        ),
    ]
    return section("hidden", "Hidden entries", blocks)


def _later(hidden: Sequence[HiddenEntry]) -> str:
    """Return what can still become of the content."""
    gone = "was erased with the random bytes that the hash needs: nobody can show it any more."
    if all(found.is_redacted for found in hidden):
        return f"It {gone}"
    held = "What is revealed later must give the same hash"
    if any(found.is_redacted for found in hidden):
        return f"{held}; what was redacted {gone}"
    return f"{held}."


def _rows(hidden: Sequence[HiddenEntry]) -> list[Row]:
    rows = []
    for (kind, why), group in groupby(hidden, key=lambda found: (found.entry.kind, found.why)):
        sources = tuple(source_of(found.entry) for found in group)
        cells = (kind.replace("_", " "), count(len(sources)), sentence(why))
        rows.append(Row(cells=cells, sources=sources))
    return rows


def promise_section(facts: ExperimentFacts) -> Section:
    """Return what can be said of an experiment whose registered promise is hidden."""
    promise = facts.course.registration
    sources = (source_of(promise),) if promise else ()
    told = [line("State", *(clause(text, sources) for text in state_texts(facts)))]
    if promise is not None:
        erased = any(
            found.is_redacted and found.entry.leaf == promise.leaf for found in facts.hidden
        )
        text = "What was registered is bound by this hash, and can be shown to be it:"
        if erased:
            text = (
                "What was registered had this hash; it was erased with the random bytes that the "
                "hash needs, and can no longer be shown to be it:"
            )
        told.append(line("Commitment", clause(text, sources, code=promise.leaf)))
    if shows_work(facts):
        text = (
            "What was done under it and what it led to stands below as recorded. Without what was "
            "registered nobody can recompute it."
        )
        told += [line("Below", clause(text)), *result_lines(facts)]
    told.append(_recorded(facts))
    return section("status", "Status", [lines(*told)])


def shows_work(facts: ExperimentFacts) -> bool:
    """Return whether this reader has anything that was done under a promise."""
    done = (facts.sweep, facts.proxy_runs, facts.promotion, facts.starts, facts.ends, facts.verdict)
    return facts.embargo is None and any(done)


def state_texts(facts: ExperimentFacts) -> list[str]:
    """Return where an experiment stands whose promise is hidden, a sentence or three."""
    return [*_why(facts), *_withdrawn(facts)]


def _withdrawn(facts: ExperimentFacts) -> list[str]:
    if facts.withdrawal is None:
        return []
    return [sentence(f"withdrawn: {facts.withdrawal.value.reason}")]


def _why(facts: ExperimentFacts) -> list[str]:
    if facts.embargo is not None:
        text = sentence(f"embargoed until {facts.embargo.until}: {facts.embargo.reason}")
        late = "That day is over, and it was not revealed." if facts.embargo_expired else ""
        return [text, late] if late else [text]
    why = next((found.why for found in facts.hidden if found.entry.kind == "registration"), "")
    why = why or next((found.why for found in facts.hidden), "missing")
    return [sentence(f"what was registered cannot be read: {why}")]


def _recorded(facts: ExperimentFacts) -> Line:
    sources: tuple[Source, ...] = tuple(source_of(found.entry) for found in facts.hidden)
    total = count(len(facts.entries), "entry", "entries")
    text = f"{total} about it so far, {count(len(facts.hidden))} of them without their content."
    return line("Recorded", clause(text, sources))
