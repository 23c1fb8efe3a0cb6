"""What each stage left out, why, and a few of the documents for reading."""

from collections.abc import Mapping

from workbench.data.account import most_frequent
from workbench.data.manifest import Sample
from workbench.reports.blocks import (
    Block,
    Folded,
    Heading,
    Row,
    Section,
    Table,
    lines,
    picture,
    say,
    section,
    table,
)
from workbench.reports.dataset.facts import DataFacts, StageFacts
from workbench.reports.dataset.wording import (
    WHAT_IT_DOES,
    not_checked,
    settings_in_words,
    share_of,
    title,
)
from workbench.reports.figures.corpus import Bar, share_label, stage_bars
from workbench.reports.narrative import Line, clause, line
from workbench.reports.quantities import MISSING, count, scaled
from workbench.reports.untrusted import excerpt, visible

EXCERPT = 300
_TOLD_ELSEWHERE = ("language", "quality", "contamination")
"""Stages whose measurements are a table or a section of their own."""
_MOST_LANGUAGES = 8


def stages_section(facts: DataFacts) -> Section:
    """Return the waterfall: what came in, what was left out, by which threshold."""
    blocks: list[Block | None] = [
        say(
            "In this order. Each stage reads what the one before it kept; its key is a fingerprint "
            "of its settings and of the key before it, so that a change invalidates all that "
            "follows."
        ),
        picture(stage_bars([_bar(stage) for stage in facts.stages])),
        _waterfall(facts),
    ]
    for stage in facts.stages:
        blocks += _stage(stage, facts)
    return section("stages", "Stage by stage", blocks)


def _bar(stage: StageFacts) -> Bar:
    cut, lost = stage.bytes_cut, stage.bytes_removed
    kept = stage.bytes_in - lost - cut
    end = f"−{share_label(lost, kept + lost)}" if lost else "nothing left out"
    return Bar(label=title(stage.name), parts=(kept, lost, cut), end=end)


def _waterfall(facts: DataFacts) -> Table | None:
    rows: list[Row] = []
    for stage in facts.stages:
        rows.append(
            Row(
                cells=_sizes(
                    title(stage.name),
                    "all",
                    (stage.documents_in, stage.documents_removed),
                    (stage.bytes_in, stage.bytes_cut, stage.bytes_removed),
                ),
                tone="strong",
            )
        )
        rows += [
            Row(
                cells=_sizes(
                    title(stage.name),
                    domain.domain,
                    (domain.documents_in, domain.documents_removed),
                    (domain.bytes_in, domain.bytes_cut, domain.bytes_removed),
                )
            )
            for domain in stage.domains
        ]
    return table(
        "Documents and bytes into each stage and left out by it. Cut: what came after the limit on "
        "a document’s length; shares of text are of what was not cut.",
        [
            *("Stage", "Domain", "Documents in", "Left out", "Share"),
            *("Text in", "Cut", "Left out", "Share"),
        ],
        rows,
        numeric=range(2, 9),
    )


def _sizes(
    stage: str, domain: str, documents: tuple[int, int], size: tuple[int, int, int]
) -> tuple[str, ...]:
    return (
        stage,
        domain,
        count(documents[0]),
        count(documents[1]),
        share_of(documents[1], documents[0]),
        scaled(size[0], "B"),
        scaled(size[1], "B") if size[1] else MISSING,
        scaled(size[2], "B"),
        share_of(size[2], size[0] - size[1]),
    )


def _stage(stage: StageFacts, facts: DataFacts) -> list[Block | None]:
    reasons = [
        Row(
            cells=(
                domain.domain,
                excerpt(reason, 160),
                count(number),
                share_of(number, domain.documents_in),
            )
        )
        for domain in stage.domains
        for reason, number in domain.reasons.items()
    ]
    return [
        Heading(text=title(stage.name)),
        say(WHAT_IT_DOES[stage.name]) if stage.name in WHAT_IT_DOES else None,
        lines(*_told(stage, facts)),
        _identified(stage) if stage.name == "language" else None,
        table(
            f"{title(stage.name)}: documents left out, by reason.",
            ["Domain", "Reason", "Documents", "Share of what came in"],
            reasons,
            numeric=(2, 3),
        )
        or say("Nothing was left out.", quiet=True),
    ]


def _identified(stage: StageFacts) -> Table | None:
    """Return what was identified, and what other thresholds would leave out."""
    found = [(domain, told) for domain, told in stage.findings.items() if isinstance(told, Mapping)]
    scores = sorted({score for _, told in found for score in told.get("below", {})})
    rows = []
    for domain, told in found:
        languages = most_frequent(told.get("documents", {}), _MOST_LANGUAGES)
        total = sum(languages.values())
        names = ", ".join(f"{visible(name)} {count(n)}" for name, n in languages.items())
        below = [share_of(told.get("below", {}).get(score, 0), total) for score in scores]
        rows.append(Row(cells=(domain, names, *below)))
    return table(
        "Prose by its likeliest language, and the share of documents that a least score would "
        "leave out.",
        ["Domain", "Documents by language", *(f"Below {visible(score)}" for score in scores)],
        rows,
        numeric=range(2, 2 + len(scores)),
    )


def _told(stage: StageFacts, facts: DataFacts) -> list[Line]:
    found = []
    if stage.name == "language":
        found += [line(domain, clause(told)) for domain, told in not_checked(facts).items()]
    if stage.settings:
        found.append(line("Settings", clause(f"{settings_in_words(stage.settings)}.")))
    if stage.findings and stage.name not in _TOLD_ELSEWHERE:
        found.append(line("Measured", clause(f"{settings_in_words(stage.findings)}.")))
    return [*found, line("Key", clause("", code=stage.key))]


def sample_row(sample: Sample) -> Row:
    """Return identity, evidence and beginning of a sampled document."""
    name = excerpt(sample.id, 120) or "not shown"
    return Row(cells=(name, excerpt(sample.why, 200), excerpt(sample.excerpt, EXCERPT)))


def rejects_section(facts: DataFacts) -> Section:
    """Return the sampled rejects of each stage and domain, folded."""
    blocks: list[Block] = [
        say(
            "Some of what each stage left out, drawn by a hash of the documents’ identities. Read "
            "them: a threshold is right when these are what should go. The text is somebody else’s "
            "and is shown, never obeyed; signs that a screen would not show are spelt out."
        )
    ]
    for stage in facts.stages:
        for domain in stage.domains:
            shown = [sample_row(sample) for sample in domain.samples]
            found = table(
                f"{title(stage.name)}, {domain.domain}.",
                ["Document", "Why it was left out", "How it begins"],
                shown,
            )
            if found:
                of = f"{count(len(shown))} of {count(domain.documents_removed)}"
                summary = f"{title(stage.name)}, {domain.domain}: {of}"
                blocks.append(Folded(summary=summary, block=found))
    if len(blocks) == 1:
        blocks.append(say("Nothing was left out, so there is nothing to read.", quiet=True))
    return section("rejects", "Rejects for reading", blocks)


def duplicates_section(facts: DataFacts) -> Section:
    """Return duplicates within and across domains, exact and near."""
    ran_near = facts.stage("near_duplicates") is not None
    rows = [
        Row(cells=(kind, row.domain, kept, _where(row.domain, kept), count(number)))
        for row in facts.duplicates
        for kind, found in (("exact", row.exact), ("near", row.near))
        for kept, number in found.items()
    ]
    told = "" if ran_near else " Near-duplicates were not looked for."
    return section(
        "duplicates",
        "Duplicates by source",
        [
            table(
                f"Documents that were left out because one like them was kept.{told}",
                ["Kind", "Left out of", "Like one of", "Where", "Documents"],
                rows,
                numeric=(4,),
            )
            or say(f"No duplicate was found.{told}")
        ],
    )


def _where(domain: str, kept: str) -> str:
    return "within the domain" if domain == kept else "across domains"
