"""What reports leave out, what the record cannot show, and how to check it without us."""

from workbench.reports.blocks import (
    Block,
    Entries,
    Folded,
    Heading,
    Row,
    Section,
    Table,
    Verbatim,
    lines,
    say,
    section,
    table,
)
from workbench.reports.corpus_account import account_tables
from workbench.reports.disclosures import Composition, composition, disclosures
from workbench.reports.facts import ExperimentFacts, source_of
from workbench.reports.quantities import (
    clock_time,
    count,
    percent,
    scaled,
    stamp,
)
from workbench.reports.shortcomings import limitations

LONG = 60


def disclosures_section(facts: ExperimentFacts) -> Section:
    """Return the five disclosures and the tables behind the second."""
    blocks: list[Block | None] = [lines(*disclosures(facts))]
    made_of = composition(facts)
    if made_of:
        blocks += [
            Heading(text="Data composition in full"),
            _domains(made_of),
            lines(*made_of.filters),
            *(account_tables(made_of.account, made_of.sources) if made_of.account else ()),
            table(
                "Training mixtures at full scale; shares of tokens. “natural” is each domain’s "
                "share of the corpus.",
                ["Arm", "When", "Shares"],
                [Row(cells=cells, sources=made_of.mixture_sources) for cells in made_of.mixtures],
            ),
            table(
                "Training tokens that each completed run drew; an epoch is once through the "
                "domain’s training text.",
                ["Run", "Domain", "Tokens", "Share", "Stated", "Epochs"],
                [Row(cells=row.value, sources=row.sources) for row in made_of.drawn],
                numeric=range(2, 6),
            ),
            table(
                "Overlap of the evaluation sets with the text that each completed run drew.",
                ["Run", "Windows", "Set", "N-grams found", "Touched", "Contaminated"],
                [Row(cells=row.value, sources=row.sources) for row in made_of.served],
                numeric=(1, 3, 4, 5),
            ),
        ]
    return section("disclosures", "Five disclosures", blocks)


def _domains(made_of: Composition) -> Table | None:
    rows = [
        Row(
            cells=(
                row.domain,
                row.source,
                scaled(row.max_bytes, "B"),
                " / ".join(count(n) for n in row.documents),
                " / ".join(scaled(n) for n in row.tokens),
                percent(row.natural_share),
            ),
            sources=made_of.sources,
        )
        for row in made_of.rows
    ]
    return table(
        "Documents and tokens in train / validation / sealed test, after deduplication.",
        [
            "Domain",
            "Source",
            "At most",
            "Documents",
            "Tokens",
            "Natural share",
        ],
        rows,
        numeric=range(2, 6),
    )


def limitations_section(facts: ExperimentFacts) -> Section:
    """Return the limits that were registered and those that the record has by itself."""
    return section("limitations", "Limitations", [lines(*limitations(facts))])


def record_section(facts: ExperimentFacts) -> Section:
    """Return how to verify, the signed tree head and every entry."""
    total = count(len(facts.entries), "entry", "entries")
    text = (
        f"Generated from the ledger of {facts.origin} alone: {total} about this experiment, the "
        f"last of them number {facts.as_of.sequence} of {stamp(facts.as_of.time)}. The same ledger "
        "gives the same bytes. A number that is followed by #n was read or computed from entry n."
    )
    entries = _entries(facts)
    long = len(facts.entries) > LONG
    blocks: list[Block | None] = [
        say(text),
        Heading(text="To check it without trusting us"),
        Verbatim(
            text="workbench verify --from registry --report chronicle.md   # a copy that you kept\n"
            f"workbench chronicle {facts.experiment} --check   # gives this file, byte for byte"
        ),
    ]
    blocks += [
        say(
            "The tree head up to that entry: origin, number of entries, Merkle root (RFC 6962, "
            "base64). Keep it: a log that has another root at this size has been rewritten."
        ),
        Verbatim(text=facts.tree_head),
    ]
    blocks.append(Heading(text="Entries"))
    summary = f"All {count(len(entries.rows), 'entry', 'entries')}"
    blocks.append(Folded(summary=summary, block=entries) if long else entries)
    return section("record", "Record", blocks)


def _entries(facts: ExperimentFacts) -> Entries:
    """Return the experiment's entries, and the noise floor that it names under another subject."""
    floor = facts.noise_floor.sources if facts.noise_floor else ()
    found = {source.sequence: source for source in (*floor, *map(source_of, facts.entries))}
    rows = [
        Row(
            cells=(
                f"{source.time[:10]} {clock_time(source.time)}",
                source.kind.replace("_", " "),
                source.actor,
            ),
            sources=(source,),
        )
        for _, source in sorted(found.items())
    ]
    return Entries(rows=tuple(rows))
