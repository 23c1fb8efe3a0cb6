"""How a built corpus is printed."""

from collections.abc import Sequence
from typing import Any

from workbench.cli.show import one_line, print_table, say, say_wrapped
from workbench.reports.dataset.facts import DataFacts
from workbench.reports.dataset.summary import summary
from workbench.reports.dataset.wording import not_checked, settings_in_words, share_of, title
from workbench.reports.quantities import MISSING, count, percent, scaled, significant


def print_corpus(facts: DataFacts) -> None:
    """Print a corpus in five lines, stage by stage and by split."""
    say(f"{facts.manifest.config.name}  {facts.manifest.fingerprint}")
    for found in summary(facts):
        say_wrapped(f"  {found.label.lower():<14}  {one_line(found.text)}")
    _print_stages(facts)
    _print_composition(facts)


def _print_stages(facts: DataFacts) -> None:
    rows = []
    for stage in facts.stages:
        reasons: dict[str, int] = {}
        for domain in stage.domains:
            for reason, number in domain.reasons.items():
                reasons[reason] = reasons.get(reason, 0) + number
        why = max(reasons, key=lambda reason: (reasons[reason], reason), default="")
        rows.append(
            [
                title(stage.name),
                count(stage.documents_in),
                count(stage.documents_removed),
                scaled(stage.bytes_in, "B"),
                share_of(stage.bytes_removed, stage.bytes_in - stage.bytes_cut),
                one_line(why),
            ]
        )
    say()
    print_table(["stage", "documents in", "left out", "text in", "left out", "mostly"], rows)
    for stage in facts.stages:
        if stage.settings:
            say_wrapped(f"  {stage.name:<16} {one_line(settings_in_words(stage.settings))}")
        if stage.name == "language":
            for name, told in not_checked(facts).items():
                say_wrapped(f"  {'':<16} {name}: {one_line(told)}")


def _print_composition(facts: DataFacts) -> None:
    shares = facts.natural_shares
    rows = [
        [
            split,
            domain,
            count(sizes.documents),
            scaled(sizes.tokens),
            percent(shares[domain]) if split == "train" else "",
        ]
        for (split, domain), sizes in facts.sizes.items()
    ]
    say()
    print_table(["split", "domain", "documents", "tokens", "natural share"], rows)


def print_mixture(rows: Sequence[Any], total: Sequence[Any]) -> None:
    """Print what each phase takes, and the whole run.

    The rows are `workbench.training.mixture_plan.PlannedShare`.
    """
    headings = ["phase", "steps", "domain", "stated", "realised", "tokens", "epochs", "cap", "then"]
    print_table(
        headings,
        [
            [
                row.phase or "whole run",
                _steps(row),
                row.domain,
                percent(row.stated),
                percent(row.realised),
                scaled(row.tokens),
                significant(row.epochs, 3),
                "none" if row.max_epochs is None else significant(row.max_epochs, 3),
                row.at_limit,
            ]
            for row in (*rows, *total)
        ],
    )


def _steps(row: Any) -> str:
    empty = row.last_step < row.first_step
    return MISSING if empty else f"{row.first_step}-{row.last_step}"


def print_samples(samples: Sequence[Any]) -> None:
    """Print a step's `data.serving.served.ServedSample`, with the documents that each touches."""
    for sample in samples:
        say(
            f"{sample.row:>4}  {sample.domain}  epoch {sample.epoch}, window {sample.window}, "
            f"tokens {sample.first_token}-{sample.last_token}"
        )
        for place, number in enumerate(sample.documents):
            name = f"  {one_line(sample.ids[place])}" if sample.ids else ""
            say(f"      document {number}{name}")
