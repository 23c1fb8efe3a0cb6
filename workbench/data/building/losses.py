"""What stages took from each domain, and the refusals where that is too much."""

import math
from collections.abc import Sequence

from workbench.data.building.table import Table
from workbench.data.manifest import Removed, StageRecord
from workbench.errors import InvalidFileError

MOST_REPEATED = 0.9
"""A source that loses more of its bytes to equal documents of other domains is refused."""

_NUM_EXAMPLES = 3
_REMEDIES = {
    "read": "take another source for {domain!r}, or name fewer documents under exclude",
    "exact_duplicates": "remove the domain {domain!r}, whose text another domain holds, or take "
    "another source",
    "language": "edit language.allowed or lower language.score, or write content: code (or math) "
    "for {domain!r} if it is no prose",
    "near_duplicates": "raise near_duplicates.threshold, or take another source for {domain!r}",
    "quality": "remove {domain!r} from quality.domains, or take a reference that is more like it",
    "contamination": "write contamination.exclude: false, raise contamination.threshold, or take "
    "another source for {domain!r}",
}


def refuse_loss(record: StageRecord, table: Table, limit: float | None) -> None:
    """Refuse a stage's result that takes too much; the table still has what it takes.

    Args:
        record: what the stage takes, with samples that may be shown.
        table: what came into the stage.
        limit: share of a source's bytes that it may lose; None for no limit.

    Raises:
        InvalidFileError: a source loses more; examples are shown.
    """
    for domain, removed in record.removed.items():
        before = table.kept_bytes(domain)
        if limit is None or before == 0 or removed.bytes <= limit * before:
            continue
        share = removed.bytes / before
        raise InvalidFileError(
            f"{record.name} would take {share:.1%} of the bytes of {domain!r}, more than "
            f"max_share_lost {limit}; for example:\n{_examples(removed)}",
            remedy=f"write {record.name}.max_share_lost: {math.ceil(share * 100) / 100} in the "
            "recipe if that is meant, or change the stage's other settings",
        )


def refuse_repeated(domain: str, removed: Removed, repeated: int, sound: int) -> None:
    """Refuse a source that is little but what other domains hold.

    Args:
        domain: of the source.
        removed: its exact duplicates, with samples that may be shown.
        repeated: bytes of those that are equal to a document of another domain.
        sound: bytes of all its documents that could have been kept.

    Raises:
        InvalidFileError: more than `MOST_REPEATED` of the bytes are repeated.
    """
    if repeated <= MOST_REPEATED * sound:
        return
    raise InvalidFileError(
        f"exact_duplicates would take {repeated / sound:.1%} of the bytes of {domain!r} as equal "
        f"to documents of other domains, more than {MOST_REPEATED:.0%}; for example:\n"
        f"{_examples(removed)}",
        remedy=_REMEDIES["exact_duplicates"].format(domain=domain),
    )


def refuse_empty(table: Table, records: Sequence[StageRecord]) -> None:
    """Refuse a corpus with a domain of which the stages so far left nothing.

    Raises:
        InvalidFileError: there is one; which stage took what is said.
    """
    for domain in table.domains:
        if not table.num_kept(domain):
            raise InvalidFileError(
                f"no document of domain {domain!r} is left: {_account(domain, table, records)}",
                remedy=_remedy(domain, records) or f"take another source for {domain!r}",
            )


def empty_split(
    domain: str, split: str, table: Table, records: Sequence[StageRecord]
) -> InvalidFileError:
    """Return the refusal of a corpus with a split that has no document of a domain."""
    return InvalidFileError(
        f"domain {domain!r} has no document in the {split} split, with "
        f"{table.num_kept(domain)} left: {_account(domain, table, records)}",
        remedy=_remedy(domain, records)
        or f"raise max_bytes of {domain!r} or the split's share, lower max_document_bytes, or try "
        "another salt",
    )


def _account(domain: str, table: Table, records: Sequence[StageRecord]) -> str:
    lost = {record.name: record.removed[domain] for record in records}
    read = table.num_kept(domain) + sum(removed.documents for removed in lost.values())
    parts = [
        f"{name} left out {removed.documents} ({_main_reason(removed)})"
        for name, removed in lost.items()
        if removed.documents
    ]
    return ", ".join([f"{read} read", *parts])


def _main_reason(removed: Removed) -> str:
    reason, documents = max(removed.reasons.items(), key=lambda item: (item[1], item[0]))
    return reason if documents == removed.documents else f"{documents} {reason}"


def _remedy(domain: str, records: Sequence[StageRecord]) -> str:
    """Return what mends the stage that took most; nothing where none took half of the domain."""
    lost = {record.name: record.removed[domain].documents for record in records}
    worst = max(lost, key=lambda name: lost[name])
    total = sum(lost.values())
    return _REMEDIES[worst].format(domain=domain) if lost[worst] * 2 > total > 0 else ""


def _examples(removed: Removed) -> str:
    return "\n".join(
        f"  {sample.id}: {sample.why}\n    {sample.excerpt[:100]!r}"
        if sample.id
        else f"  {sample.why}"
        for sample in removed.samples[:_NUM_EXAMPLES]
    )
