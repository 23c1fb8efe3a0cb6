"""Bodies that a reader does not have, each with the entry that says why."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from workbench.registry.embargo import OpenEmbargo, is_withheld, withholding_of
from workbench.registry.entries import Embargo, Hidden, Redaction
from workbench.registry.log import Entry

REMARKS = frozenset({"note", "decision", "deviation", "incident"})
"""Kinds from which nothing is computed."""


@dataclass(frozen=True, kw_only=True)
class HiddenEntry:
    """An entry without its body, and why."""

    entry: Entry
    by: Entry | None
    """The redaction or the embargo; None when nothing accounts for it, which verification says."""

    @property
    def is_redacted(self) -> bool:
        """Whether the body was erased for good."""
        return self.by is not None and isinstance(self.by.body, Redaction)

    @property
    def why(self) -> str:
        """``redacted by entry 7: …`` or ``withheld until 2027-01-31: …``."""
        body = self.by.body if self.by else None
        if self.by is not None and isinstance(body, Redaction):
            what = body.what.replace("_", " ")
            return f"redacted by entry {self.by.sequence} ({what}): {body.reason}"
        if self.by is not None and isinstance(body, Embargo):
            return f"withheld until {body.until} by entry {self.by.sequence}: {body.reason}"
        return "missing, and nothing in the log says why"


def hidden_entries(entries: Iterable[Entry]) -> tuple[HiddenEntry, ...]:
    """Return the entries without a body, in order.

    Args:
        entries: all of one subject, or of a whole log, in order.
    """
    found = tuple(entries)
    by_leaf = {entry.leaf: entry for entry in found}
    redactions = {ref: e for e in found if isinstance(e.body, Redaction) for ref in e.refs}
    standing = withholding_of(found).open
    return tuple(
        HiddenEntry(
            entry=entry, by=redactions.get(entry.leaf) or _embargo(entry, standing, by_leaf)
        )
        for entry in found
        if isinstance(entry.body, Hidden)
    )


def _embargo(
    entry: Entry, standing: Sequence[OpenEmbargo], by_leaf: dict[str, Entry]
) -> Entry | None:
    for embargo in standing:
        if is_withheld({embargo.subject: embargo.sequence}, entry.kind, entry.subject,
                       entry.sequence):  # fmt: skip
            return by_leaf[embargo.leaf]
    return None


def public_entries(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return a whole log's entries as its published files show them.

    What an embargo withholds or a redaction names is hidden also where the store has it, so that
    everybody who reads the log is told the same.
    """
    found = tuple(entries)
    withholding = withholding_of(found)
    redacted = {ref for e in found if isinstance(e.body, Redaction) for ref in e.refs}
    return tuple(
        replace(entry, body=Hidden(), body_bytes=b"", salt=b"")
        if entry.leaf in redacted
        or is_withheld(withholding.subjects, entry.kind, entry.subject, entry.sequence)
        else entry
        for entry in found
    )


def essential(hidden: Iterable[HiddenEntry]) -> tuple[HiddenEntry, ...]:
    """Return those from which a stage or a verdict is computed."""
    return tuple(found for found in hidden if found.entry.kind not in REMARKS)
