"""What the corpus holds: languages, splits, words, licences."""

from collections import defaultdict

from workbench.data.config import SEALED, SPLITS
from workbench.data.manifest import Portion
from workbench.reports.blocks import (
    Block,
    Folded,
    Row,
    Section,
    Table,
    picture,
    say,
    section,
    table,
)
from workbench.reports.dataset.facts import DataFacts
from workbench.reports.dataset.wording import share_of
from workbench.reports.figures.corpus import Bar, composition_bars, share_label
from workbench.reports.quantities import MISSING, count, percent, scaled
from workbench.reports.untrusted import excerpt, visible

_MOST_BARS = 14
_MOST_ROWS = 40
_MOST_FILES = 20


def composition_section(facts: DataFacts) -> Section:
    """Return domains, and domain × language × split as bars and as a table."""
    return section(
        "composition",
        "Composition",
        [
            _domains(facts),
            picture(composition_bars(_bars(facts))),
            *_cells(facts),
        ],
    )


def _domains(facts: DataFacts) -> Table | None:
    sizes, shares = facts.sizes, facts.natural_shares
    rows = [
        Row(
            cells=(
                domain,
                record.content,
                count(record.kept),
                scaled(record.kept_bytes, "B"),
                *(scaled(sizes[split, domain].tokens) for split in SPLITS),
                percent(shares.get(domain)),
                "yes" if record.exhausted else "no",
            )
        )
        for domain, record in sorted(facts.manifest.domains.items())
    ]
    return table(
        "What is kept of each domain. The natural share is of the training split’s bytes; a source "
        "that is exhausted ended before the bytes that were asked for were taken.",
        ["Domain", "Holds", "Documents", "Text", "Training tokens", "Validation", "Sealed test",
         "Natural share", "Exhausted"],
        rows,
        numeric=range(2, 8),
    )  # fmt: skip


def _bars(facts: DataFacts) -> list[Bar]:
    """Return the largest domains and languages, the rest as one row."""
    sizes: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for cell in facts.manifest.composition:
        sizes[cell.domain, cell.language][cell.split != "train"] += cell.bytes
    ranked = sorted(sizes, key=lambda place: (-sum(sizes[place]), place))
    shown = sorted(ranked if len(ranked) <= _MOST_BARS else ranked[: _MOST_BARS - 1])
    rows = [(f"{domain}, {excerpt(name, 20)}", sizes[domain, name]) for domain, name in shown]
    rest = [sizes[place] for place in ranked[len(shown) :]]
    if rest:
        rows.append(
            (f"{count(len(rest))} more", [sum(column) for column in zip(*rest, strict=True)])
        )
    return [
        Bar(label=label, parts=tuple(parts), end=share_label(sum(parts), facts.bytes))
        for label, parts in rows
    ]


def _cells(facts: DataFacts) -> list[Block | None]:
    cells = facts.manifest.composition
    found = table(
        "Domain by language and split.",
        ["Domain", "Language", "Split", "Documents", "Text", "Tokens", "Share of all text"],
        [_cell(cell, facts.bytes) for cell in sorted(cells, key=_place)],
        numeric=range(3, 7),
    )
    if found is None or len(found.rows) <= _MOST_ROWS:
        return [found]
    return [Folded(summary=f"All {count(len(cells))} cells of the composition", block=found)]


def _place(cell: Portion) -> tuple[str, str, int]:
    return cell.domain, cell.language, SPLITS.index(cell.split)


def _cell(cell: Portion, total: int) -> Row:
    sizes = count(cell.documents), scaled(cell.bytes, "B"), scaled(cell.tokens)
    share = share_of(cell.bytes, total)
    split = "sealed test" if cell.split == SEALED else cell.split
    return Row(cells=(cell.domain, visible(cell.language), split, *sizes, share))


def words_section(facts: DataFacts) -> Section:
    """Return how much of the text its most frequent words are, before and after."""
    heads = sorted(facts.manifest.heads.items())
    decays = sorted({decay for _, head in heads for decay in head.weighted}, reverse=True)
    rows = [
        Row(
            cells=(
                domain,
                scaled(head.read.words),
                percent(head.read.share),
                percent(head.kept.share),
                *(percent(head.weighted[d]) if d in head.weighted else MISSING for d in decays),
                count(max(head.read.count_error, head.kept.count_error)),
            )
        )
        for domain, head in heads
    ]
    weighted = [f"Drawn at decay {decay}" for decay in decays]
    return section(
        "words",
        "The most frequent words",
        [
            say(
                "Share of all words that the 1,000 most frequent ones of the domain make up: in "
                "the text as it was read, in the training split, and in what is drawn of that when "
                "documents are weighted by their entropy at a decay. Validation and test are never "
                "weighted. The columns “drawn” are computed for every corpus, to show what a "
                "run’s document_weights would do; a run without them draws as kept."
            ),
            table(
                "Head of the word frequencies. No word was undercounted by more than the error.",
                ["Domain", "Words read", "As read", "Kept for training", *weighted, "Error"],
                rows,
                numeric=range(1, 5 + len(decays)),
            )
            or say("No words were counted."),
        ],
    )


def sources_section(facts: DataFacts) -> Section:
    """Return where the text came from and under which licences."""
    domains = sorted(facts.manifest.domains.items())
    licences = [
        Row(cells=(domain, excerpt(licence, 160), count(n), share_of(n, record.kept)))
        for domain, record in domains
        for licence, n in sorted(record.licences.items(), key=lambda item: (-item[1], item[0]))
    ]
    provenance = [
        Row(cells=(domain, excerpt(origin, 160), count(n), share_of(n, record.kept)))
        for domain, record in domains
        for origin, n in sorted(record.provenance.items(), key=lambda item: (-item[1], item[0]))
    ]
    read = [
        Row(
            cells=(
                domain,
                excerpt(record.source, 120),
                count(record.read),
                scaled(record.read_bytes, "B"),
                count(record.cut),
                scaled(record.cut_bytes, "B"),
            )
        )
        for domain, record in domains
    ]
    return section(
        "sources",
        "Sources, licences and provenance",
        [
            table(
                "What was read. A cut document is longer than the limit; what follows is left out.",
                ["Domain", "Source", "Documents", "Text", "Cut", "Left out by cutting"],
                read,
                numeric=range(2, 6),
            ),
            table(
                "Licences of what is kept, as the sources state them; nobody checked them.",
                ["Domain", "Licence", "Documents", "Share"],
                licences,
                numeric=(2, 3),
            ),
            _folded(
                table(
                    "Who published what is kept, in which version.",
                    ["Domain", "Publisher and version", "Documents", "Share"],
                    provenance,
                    numeric=(2, 3),
                ),
                "Publishers and versions",
            ),
            _folded(_files(facts), "Files that were read"),
        ],
    )


def _files(facts: DataFacts) -> Table | None:
    rows = [
        Row(cells=(domain, excerpt(file.path, 160), file.sha256))
        for domain, record in sorted(facts.manifest.domains.items())
        for file in record.files
    ]
    return table("Local files, by their SHA-256.", ["Domain", "File", "SHA-256"], rows)


def _folded(found: Table | None, summary: str) -> Block | None:
    if found is None or len(found.rows) <= _MOST_FILES:
        return found
    return Folded(summary=f"{summary} ({count(len(found.rows))})", block=found)
