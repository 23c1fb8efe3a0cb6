"""How the evaluation sets overlap with the training text."""

from workbench.data.config import SEALED
from workbench.data.manifest import Contamination, Overlap
from workbench.reports.blocks import Block, Folded, Row, Section, lines, say, section, table
from workbench.reports.dataset.facts import DataFacts
from workbench.reports.dataset.removals import sample_row
from workbench.reports.dataset.wording import share_of
from workbench.reports.narrative import clause, line
from workbench.reports.quantities import count, percent
from workbench.reports.untrusted import visible

_COLUMNS = (
    *("Set", "When", "Documents", "N-grams", "Found", "Share", "Touched", "Contaminated"),
    "Too short",
)


def contamination_section(facts: DataFacts) -> Section:
    """Return method, threshold, sampling and the overlap found in each set."""
    found = facts.manifest.contamination
    stage = facts.stage("contamination")
    left_out = stage.documents_removed if stage else 0
    before = [_row(name, "before exclusion", o) for name, o in sorted(found.sets_before.items())]
    when = "after exclusion" if before else "as trained on"
    rows = sorted(
        [*before, *(_row(name, when, o) for name, o in sorted(found.sets.items()))],
        key=lambda row: row.cells[0],
    )
    return section(
        "contamination",
        "Contamination",
        [
            lines(
                line("Method", clause(method(found))),
                line("Threshold", clause(threshold(found))),
                line("Sampling", clause(sampling(found))),
                line(
                    "Left out of training",
                    clause(f"{count(left_out, 'document')}. {still_contaminated(facts)}".strip()),
                ),
            ),
            table(
                "Overlap of each evaluation set with all training text. Touched: any n-gram was "
                "found. Too short: fewer words than one n-gram, or none of theirs in the sample, "
                "so not measured.",
                _COLUMNS,
                rows,
                numeric=range(2, 9),
            )
            or say("No evaluation set was measured."),
            *_samples(found),
        ],
    )


def still_contaminated(facts: DataFacts) -> str:
    """Return why documents count as contaminated after exclusion; empty where none do."""
    if not facts.manifest.config.contamination.exclude:
        return ""
    sets = facts.manifest.contamination.sets.values()
    if not any(overlap.contaminated for overlap in sets):
        return ""
    return (
        "Documents still count as contaminated because a training text goes only when it alone "
        "holds the threshold’s share of one’s n-grams, not when several hold it together."
    )


def method(found: Contamination) -> str:
    """Return what is looked for, in a sentence."""
    return (
        f"Every {found.ngram}-gram of words of an evaluation document (letters and digits, NFKC, "
        "lower case) is looked for in the training text."
    )


def threshold(found: Contamination) -> str:
    """Return from when on a document counts as contaminated, in a sentence."""
    return (
        f"A document counts as contaminated when at least {percent(found.threshold)} of its "
        "n-grams are found."
    )


def sampling(found: Contamination) -> str:
    """Return which n-grams were looked for, in a sentence."""
    if found.one_in == 1:
        return "All n-grams were looked for."
    return (
        f"One n-gram in {count(found.one_in)} was looked for, chosen by its hash: the shares are "
        "estimates."
    )


def _row(name: str, when: str, overlap: Overlap) -> Row:
    measured = overlap.documents - overlap.unmeasured
    cells = (
        set_title(name),
        when,
        count(overlap.documents),
        count(overlap.ngrams),
        count(overlap.found),
        share_of(overlap.found, overlap.ngrams),
        f"{count(overlap.touched)} ({share_of(overlap.touched, measured)})",
        f"{count(overlap.contaminated)} ({share_of(overlap.contaminated, measured)})",
        count(overlap.unmeasured),
    )
    return Row(cells=cells, tone="grave" if overlap.contaminated and "before" not in when else "")


def set_title(name: str) -> str:
    """Return an evaluation set's name; the corpus's own test split is sealed."""
    return "sealed test" if name == SEALED else visible(name)


def _samples(found: Contamination) -> list[Block]:
    blocks: list[Block] = []
    for name, overlap in sorted(found.sets.items()):
        rows = [sample_row(sample) for sample in overlap.samples]
        block = table(
            f"Training documents that overlap most with {set_title(name)}.",
            ["Training document", "Overlap", "How it begins"],
            rows,
        )
        if block:
            summary = f"Training documents that overlap most with {set_title(name)}"
            blocks.append(Folded(summary=f"{summary} ({count(len(rows))})", block=block))
    return blocks
