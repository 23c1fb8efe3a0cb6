"""How the scores of the corpus were brought to those of a reference."""

from collections.abc import Iterator, Mapping

from workbench.canonical import Json
from workbench.reports.blocks import (
    Block,
    Heading,
    Row,
    Section,
    lines,
    picture,
    say,
    section,
    table,
)
from workbench.reports.dataset.facts import DataFacts
from workbench.reports.dataset.wording import settings_in_words
from workbench.reports.figures.matching import Bin, matching_bars
from workbench.reports.narrative import Line, clause, line
from workbench.reports.quantities import count, number, percent, significant


def quality_section(facts: DataFacts) -> Section:
    """Return the distributions before and after, and the distance between them."""
    title = "Quality matching"
    stage = facts.stage("quality")
    if stage is None:
        return section("quality", title, [say("No text was matched to a reference.")])
    blocks: list[Block | None] = [
        say(
            "Each domain keeps its share of every kind of text that the reference has: nothing is "
            "cut off at one end, and a bin is thinned where the domain has more of it."
        ),
        lines(line("Settings", clause(f"{settings_in_words(stage.settings)}."))),
    ]
    for domain, found in sorted(stage.findings.items()):
        blocks += _domain(domain, found)
    return section("quality", title, blocks)


def _domain(domain: str, found: Json) -> Iterator[Block | None]:
    if not isinstance(found, Mapping) or not found.get("bins"):
        return
    bins = [Bin(**{key: float(value) for key, value in row.items()}) for row in found["bins"]]
    yield Heading(text=domain)
    yield lines(*_told(found))
    yield picture(matching_bars(domain, bins))
    yield table(
        f"Share of documents by bin, and the probability with which one of it was kept: {domain}.",
        ["Bin", "Reference", "Before", "After", "Kept with probability"],
        [
            Row(
                cells=(
                    str(place),
                    percent(row.reference),
                    percent(row.before),
                    percent(row.after),
                    number(row.acceptance, 2),
                )
            )
            for place, row in enumerate(bins, start=1)
        ],
        numeric=range(5),
    )


def _told(found: Mapping[str, Json]) -> Iterator[Line]:
    distance = (
        f"Total variation from the reference {_share(found, 'distance_before')} before, "
        f"{_share(found, 'distance_after')} after."
    )
    yield line("Distance", clause(distance))
    told_apart = (
        f"AUC {significant(float(found['auc']), 3)} on text that it had not seen: 0.5 is blind, "
        "1 tells every document of the domain from one of the reference."
        if "auc" in found
        else "Not recorded."
    )
    yield line("Classifier", clause(told_apart))
    sizes = (
        f"{count(int(found.get('documents', 0)), 'document')} of the domain, "
        f"{count(int(found.get('reference_documents', 0)))} of the reference."
    )
    yield line("Measured on", clause(sizes))
    unmatched = ", ".join(str(place) for place in found.get("unmatched_bins", ()))
    if unmatched:
        text = f"The reference has text in bins {unmatched} that the domain lacks."
        yield line("Not matched", clause(text))


def _share(found: Mapping[str, Json], key: str) -> str:
    return percent(float(found[key])) if key in found else "not recorded"
