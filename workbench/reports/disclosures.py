"""The five things that reports on large models leave out, and every chronicle states."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.data.config import SPLITS
from workbench.proxies.recipe import Recipe
from workbench.registry.entries import DataAccount, DataState, RunEnded, ServedOverlap
from workbench.reports.accounting import bill, sweep_accounting
from workbench.reports.corpus_account import (
    contamination_clauses,
    cut_in_words,
    served_in_words,
    served_rows,
    stage_lines,
)
from workbench.reports.documents import registered_recipe
from workbench.reports.drawn import drawn_in_words
from workbench.reports.facts import Cited, ExperimentFacts, Source, merged_sources
from workbench.reports.lineage import run_lineages
from workbench.reports.narrative import Clause, Line, clause, line, listed
from workbench.reports.quantities import (
    count,
    device_time,
    percent,
    plain,
    scaled,
    significant,
)
from workbench.reports.status import uncounted_clauses


@dataclass(frozen=True, kw_only=True)
class DomainRow:
    """One domain of the corpus."""

    domain: str
    source: str
    max_bytes: int
    documents: tuple[int | None, ...]
    """By split, in the order train, validation, test."""
    tokens: tuple[int | None, ...]
    natural_share: float | None
    """Of the training split's bytes."""


@dataclass(frozen=True, kw_only=True)
class Composition:
    """What the models were trained on, with every threshold."""

    rows: tuple[DomainRow, ...]
    filters: tuple[Line, ...]
    account: DataAccount | None
    """None in registrations older than it."""
    mixtures: tuple[tuple[str, str, str], ...]
    """Arm, stretch of training, shares."""
    mixture_sources: tuple[Source, ...]
    drawn: tuple[Cited[tuple[str, str, str, str, str, str]], ...]
    """What completed runs drew: run, domain, tokens, share, stated share, epochs."""
    served: tuple[Cited[tuple[str, ...]], ...]
    """Overlap of evaluation sets with what completed runs drew: run, windows, set, overlap."""
    sources: tuple[Source, ...]


def disclosures(facts: ExperimentFacts) -> tuple[Line, ...]:
    """Return the five disclosures as sentences; the tables that they point to stand beside them."""
    return (
        line("Failed work", *_failed(facts)),
        line("Data composition", *_data(facts)),
        line("The whole search", *_search(facts)),
        line("Who operated it", *_operators(facts)),
        line("Contamination", *_contamination(facts)),
    )


def _failed(facts: ExperimentFacts) -> list[Clause]:
    return [*_wasted(facts), *uncounted_clauses(facts)]


def _wasted(facts: ExperimentFacts) -> list[Clause]:
    wasted = [cost for cost in bill(facts).costs if cost.fate == "wasted"]
    if not wasted and facts.uncounted:
        return []
    if not wasted:
        return [clause("No trial, proxy run or full-scale attempt failed, diverged or was lost.")]
    clauses = []
    for cost in wasted:
        what = {"sweep": "trial", "exploratory sweep": "exploratory trial"}.get(
            cost.stage, "proxy run" if cost.stage == "ladder" else "full-scale attempt"
        )
        how = "with discarded steps" if cost.outcome == "discarded" else cost.outcome
        spent = device_time(cost.device_seconds)
        clauses.append(clause(f"{count(cost.items, what)} {how}, {spent}.", cost.sources))
    return clauses


def _data(facts: ExperimentFacts) -> list[Clause]:
    if facts.registration is None:
        return [clause("Not recorded: nothing was registered."), *_drawn_clauses(facts)]
    data = facts.registration.value.data
    total = sum(n for key, n in data.tokens.items() if key.startswith("train"))
    text = (
        f"Corpus {data.corpus}, manifest {data.manifest[:19]}…, "
        f"{count(len(data.natural_mixture), 'domain')}, {scaled(total, 'training tokens')}; "
        "sources, splits, filters and thresholds are in the table below."
    )
    return [clause(text, facts.registration.sources)]


def _drawn_clauses(facts: ExperimentFacts) -> Iterator[Clause]:
    """Yield what exploratory runs drew; of the trials the search itself tells."""
    by_arm: dict[str, list[Cited[RunEnded]]] = {}
    for run in run_lineages(facts):
        ended = run.attempts[-1].ended
        if ended is not None and ended.value.drawn:
            by_arm.setdefault(run.arm, []).append(ended)
    for arm, ends in by_arm.items():
        told = drawn_in_words(end.value.drawn for end in ends)
        yield clause(f"Runs of {arm} drew {told}.", merged_sources(ends))


def _search(facts: ExperimentFacts) -> list[Clause]:
    if facts.sweep is None:
        return [clause("No registered sweep has run.")]
    told = sweep_accounting(facts.sweep)
    declared = told.declared.value if told.declared else told.ran
    text = (
        f"{count(declared, 'trial')} declared, {told.ran} ran, all of them listed under "
        "Sweep accounting; the values not searched are fixed by the recipe."
    )
    clauses = [clause(text, merged_sources(facts.sweep.trials))]
    if facts.exploratory:
        other = count(len(facts.exploratory.trials), "exploratory trial")
        clauses.append(clause(f"Besides, {other} ran.", merged_sources(facts.exploratory.trials)))
    return clauses


def _operators(facts: ExperimentFacts) -> list[Clause]:
    actors = Counter(entry.actor for entry in facts.entries)
    who = listed(
        [f"{actor} ({count(n, 'entry', 'entries')})" for actor, n in sorted(actors.items())]
    )
    clauses = [clause(f"Recorded by {who}.")]
    if facts.registration:
        tools = facts.registration.value.environment
        named = ", ".join(f"{name} {version}" for name, version in sorted(tools.items()))
        code = facts.registration.value.code
        tools_text = f"Tools: workbench {code.workbench}, {named}." if named else ""
        clauses.append(clause(tools_text, facts.registration.sources))
    judged = [d for d in facts.decisions if d.value.basis == "judgement"]
    restarts = sum(len(run.attempts) - 1 for run in run_lineages(facts))
    counts = [
        count(len(judged), "decision by judgement", "decisions by judgement"),
        count(len(facts.notes), "note"),
        count(restarts, "restart"),
    ]
    clauses.append(
        clause(f"Interventions: {listed(counts)}.", merged_sources([*judged, *facts.notes]))
    )
    return clauses


def _contamination(facts: ExperimentFacts) -> list[Clause]:
    if facts.registration is None:
        return [clause("Not recorded: nothing was registered.")]
    data = facts.registration.value.data
    return [*contamination_clauses(data, facts.registration.sources), *_served(facts)]


def _served(facts: ExperimentFacts) -> Iterator[Clause]:
    """Yield the overlap with what completed runs drew; none in runs older than it."""
    found = _measured(facts)
    if found:
        told = served_in_words([cited.value for _, cited in found])
        yield clause(told, merged_sources([cited for _, cited in found]))


def _measured(facts: ExperimentFacts) -> list[tuple[str, Cited[ServedOverlap]]]:
    ended = [(run.run, run.attempts[-1].ended) for run in run_lineages(facts)]
    return [
        (run, Cited(value=end.value.served, sources=end.sources))
        for run, end in ended
        if end is not None and end.value.served is not None
    ]


def composition(facts: ExperimentFacts) -> Composition | None:
    """Return the tables behind the second disclosure; none without a registration.

    Raises:
        InvalidFileError: the frozen recipe is not one that this version reads.
    """
    if facts.registration is None:
        return None
    recipe = registered_recipe(facts.registration.value.recipe)
    mixtures = _mixtures(facts)
    sources = facts.registration.sources
    return Composition(
        rows=tuple(_rows(recipe, facts.registration.value.data)),
        filters=tuple(_filters(recipe, facts.registration.value.data, sources)),
        account=facts.registration.value.data.account,
        mixtures=tuple(mixtures.value),
        mixture_sources=mixtures.sources,
        drawn=tuple(_drawn(facts)),
        served=tuple(
            Cited(value=(run, *row), sources=cited.sources)
            for run, cited in _measured(facts)
            for row in served_rows(cited.value)
        ),
        sources=sources,
    )


def _drawn(facts: ExperimentFacts) -> Iterator[Cited[tuple[str, str, str, str, str, str]]]:
    for run in run_lineages(facts):
        ended = run.attempts[-1].ended
        if ended is None:
            continue
        for domain, use in ended.value.drawn.items():
            shares = percent(use.share), percent(use.stated)
            row = (run.run, domain, count(use.tokens), *shares, significant(use.epochs))
            yield Cited(value=row, sources=ended.sources)


def _rows(recipe: Recipe, data: DataState) -> list[DomainRow]:
    return [
        DomainRow(
            domain=domain,
            source=config.source,
            max_bytes=config.max_bytes,
            documents=tuple(data.documents.get(f"{split}_{domain}") for split in SPLITS),
            tokens=tuple(data.tokens.get(f"{split}_{domain}") for split in SPLITS),
            natural_share=data.natural_mixture.get(domain),
        )
        for domain, config in recipe.corpus.sources.items()
    ]


def _filters(recipe: Recipe, data: DataState, sources: Sequence[Source]) -> list[Line]:
    corpus = recipe.corpus
    splits, tokenizer = corpus.splits, corpus.tokenizer
    held = (
        f"{percent(splits.validation)} validation and {percent(splits.test)} sealed test, by a "
        f"hash of the normalised text with salt “{splits.salt}”."
    )
    length = f"Cut at a line end after {scaled(corpus.max_document_bytes, 'B')}."
    if data.account is not None:
        length = f"{length} {cut_in_words(data.account)}"
    trained = (
        f"Byte-level BPE, {count(tokenizer.vocab_size)} entries, trained on "
        f"{scaled(tokenizer.train_bytes, 'B')} in equal parts from each domain."
    )
    common = [
        line("Document length", clause(length, sources)),
        line("Splits", clause(held, sources)),
        line("Tokenizer", clause(trained, sources)),
    ]
    if data.account is not None:
        return [*common, *stage_lines(data.account, sources)]
    return [
        line("Deduplication", clause("Exact after normalisation, first kept.", sources)),
        *common,
        line("Other filters", clause("None: no language, quality or toxicity filter was applied.")),
    ]


def _mixtures(facts: ExperimentFacts) -> Cited[list[tuple[str, str, str]]]:
    found: list[tuple[str, str, str]] = []
    if facts.promotion is None:
        sources = facts.registration.sources if facts.registration else ()
        return Cited(value=found, sources=sources)
    for arm, config in facts.promotion.value.configs.items():
        found.append((arm, "all phases", plain(config.get("mixture", "natural"))))
        found += [
            (arm, f"phase {phase['name']}", plain(phase["mixture"]))
            for phase in config.get("phases", [])
            if phase.get("mixture")
        ]
    return Cited(value=found, sources=facts.promotion.sources)
