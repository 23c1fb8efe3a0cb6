"""A registered corpus in words and rows, from the account that its registration carries."""

from collections.abc import Iterator, Sequence

from workbench.data.account import NOT_CHECKED
from workbench.registry.entries import (
    ContaminationAccount,
    DataAccount,
    DataState,
    FilterStage,
    ServedOverlap,
    SetOverlap,
)
from workbench.reports.blocks import Row, Table, table
from workbench.reports.dataset.overlap import set_title
from workbench.reports.dataset.wording import WHAT_IT_DOES, settings_in_words, share_of, title
from workbench.reports.facts import Source
from workbench.reports.narrative import Clause, Line, clause, line, listed
from workbench.reports.quantities import count, percent, scaled
from workbench.reports.untrusted import visible


def stage_lines(account: DataAccount, sources: Sequence[Source]) -> Iterator[Line]:
    """Yield each filter of the corpus with its thresholds and what it left out."""
    for stage in account.stages:
        rest = {key: value for key, value in stage.settings.items() if key != NOT_CHECKED}
        settings = settings_in_words(rest)
        told = f"{WHAT_IT_DOES.get(stage.name, '')} {_unchecked(stage)}{_lost(stage)}"
        if settings:
            told = f"{told} Settings: {settings}."
        yield line(title(stage.name), clause(told.strip(), sources))
    missing = [
        words
        for name, words in (
            ("language", "language"),
            ("near_duplicates", "near-duplicate"),
            ("quality", "quality"),
        )
        if name not in {stage.name for stage in account.stages}
    ]
    none = [*missing, "toxicity"]
    yield line("Not applied", clause(f"No {listed(none, 'or')} filter.", sources))


def cut_in_words(account: DataAccount) -> str:
    """Return how much the limit on a document's length cut off, in a sentence."""
    domains = account.domains.values()
    documents = sum(domain.cut for domain in domains)
    size = sum(domain.cut_bytes for domain in domains)
    return f"{count(documents, 'document')} cut, {scaled(size, 'B')} of text."


def _unchecked(stage: FilterStage) -> str:
    said = stage.settings.get(NOT_CHECKED, "")
    if not said:
        return ""
    return f"Of {visible(said)} the labels are as the source says and were not checked. "


def _lost(stage: FilterStage) -> str:
    documents = sum(lost.documents for lost in stage.removed.values())
    size = sum(lost.bytes for lost in stage.removed.values())
    if not documents:
        return "Nothing was left out."
    by_domain = [
        f"{domain} {count(lost.documents)}" for domain, lost in sorted(stage.removed.items())
    ]
    return f"{count(documents, 'document')} left out, {scaled(size, 'B')} ({listed(by_domain)})."


def contamination_clauses(data: DataState, sources: Sequence[Source]) -> list[Clause]:
    """Return how contamination was checked, at which threshold and with what overlap."""
    if data.account is None:
        return [clause(_exact_only(data), sources)]
    account = data.account
    found = account.contamination
    near = next((s for s in account.stages if s.name == "near_duplicates"), None)
    text = (
        "Exact duplicates after Unicode normalisation (NFKC), lower case and white-space folding "
        f"were removed before the split, {count(data.duplicates_removed, 'document')}; "
        f"{_near(near)}. Shared passages: {_passages(found)}"
    )
    sets = [clause(_overlap(name, o), sources) for name, o in sorted(found.sets.items())]
    if found.sets_before:
        before = [_overlap(name, o) for name, o in sorted(found.sets_before.items())]
        sets.append(clause(f"Before documents were left out for it: {' '.join(before)}", sources))
    return [clause(text, sources), *sets]


def _exact_only(data: DataState) -> str:
    return (
        "Method: exact duplicates after Unicode normalisation (NFKC), lower case and white-space "
        f"folding, removed before the split; threshold: identity; {count(data.duplicates_removed)} "
        "documents removed, so that no normalised document is in two splits. Near-duplicates and "
        "shared passages across the splits were not measured."
    )


def _near(stage: FilterStage | None) -> str:
    if stage is None:
        return "near-duplicates were not looked for"
    documents = sum(lost.documents for lost in stage.removed.values())
    threshold = stage.settings.get("threshold", "the stated threshold")
    return (
        f"near-duplicates at a similarity of {threshold} or more too, {count(documents)} documents"
    )


def _passages(found: ContaminationAccount) -> str:
    sampled = "" if found.one_in == 1 else f" (one in {count(found.one_in)}, chosen by its hash)"
    return (
        f"{found.ngram}-grams of words{sampled} of each evaluation set were looked for in all "
        f"training text; a document with at least {percent(found.threshold)} of its n-grams found "
        "counts as contaminated."
    )


def _overlap(name: str, found: SetOverlap) -> str:
    measured = found.documents - found.unmeasured
    return (
        f"{set_title(name).capitalize()}: {share_of(found.found, found.ngrams)} of "
        f"{count(found.ngrams, 'n-gram')} found, {count(found.touched)} of "
        f"{count(measured, 'document')} touched, {count(found.contaminated)} contaminated, "
        f"{count(found.unmeasured)} too short to measure."
    )


def served_in_words(found: Sequence[ServedOverlap]) -> str:
    """Return the overlap of the evaluation sets with what runs drew, in a sentence."""
    sets = []
    for name in sorted({name for served in found for name in served.sets}):
        overlaps = [served.sets[name] for served in found if name in served.sets]
        most = max((o.found / o.ngrams for o in overlaps if o.ngrams), default=0.0)
        contaminated = max(overlap.contaminated for overlap in overlaps)
        sets.append(
            f"{set_title(name)} at most {percent(most)} of n-grams, "
            f"{count(contaminated, 'document')} contaminated"
        )
    partly = any(served.measured_windows < served.windows for served in found)
    bound = " (a sample of it, so a lower bound)" if partly else ""
    return f"Of the text that {count(len(found), 'completed run')} drew{bound}: {'; '.join(sets)}."


def served_rows(found: ServedOverlap) -> Iterator[tuple[str, ...]]:
    """Yield windows looked through, set, share of n-grams, documents touched and contaminated."""
    looked = count(found.measured_windows)
    if found.measured_windows < found.windows:
        looked = f"{looked} of {count(found.windows)}"
    for name, overlap in sorted(found.sets.items()):
        yield (
            looked,
            set_title(name),
            share_of(overlap.found, overlap.ngrams),
            count(overlap.touched),
            count(overlap.contaminated),
        )


def account_tables(account: DataAccount, sources: tuple[Source, ...]) -> Iterator[Table | None]:
    """Yield the composition, the removals, the licences and the frequent words as tables."""
    yield table(
        "Composition by domain, language and split, as kept.",
        ["Domain", "Language", "Split", "Documents", "Text", "Tokens"],
        [
            Row(
                cells=(
                    cell.domain,
                    visible(cell.language),
                    set_title(cell.split),
                    count(cell.documents),
                    scaled(cell.bytes, "B"),
                    scaled(cell.tokens),
                ),
                sources=sources,
            )
            for cell in account.composition
        ],
        numeric=(3, 4, 5),
    )
    yield table(
        "What each stage left out.",
        ["Stage", "Domain", "Documents", "Text"],
        [
            Row(
                cells=(title(stage.name), domain, count(lost.documents), scaled(lost.bytes, "B")),
                sources=sources,
            )
            for stage in account.stages
            for domain, lost in sorted(stage.removed.items())
        ],
        numeric=(2, 3),
    )
    yield table(
        "Documents by licence, as the sources state it.",
        ["Domain", "Licence", "Documents"],
        [
            Row(cells=(row.domain, visible(row.licence), count(row.documents)), sources=sources)
            for row in account.licences
        ],
        numeric=(2,),
    )
    yield _heads(account, sources)


def _heads(account: DataAccount, sources: tuple[Source, ...]) -> Table | None:
    return table(
        "Share of the 1,000 most frequent words in each domain’s text; drawn: when documents are "
        "weighted by their entropy at that decay.",
        ["Domain", "As read", "Kept for training", "Drawn"],
        [
            Row(
                cells=(
                    domain,
                    percent(head.read),
                    percent(head.kept),
                    ", ".join(f"{percent(w.share)} at {visible(w.decay)}" for w in head.weighted),
                ),
                sources=sources,
            )
            for domain, head in sorted(account.heads.items())
        ],
        numeric=(1, 2),
    )
