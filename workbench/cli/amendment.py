"""How an amendment and a withdrawal are told in a terminal, at 80 columns, and as JSON."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from workbench.experiments.amendments import DraftAmendment
from workbench.experiments.stated_power import stated_power
from workbench.experiments.withdrawals import DraftWithdrawal
from workbench.proxies.document_changes import prose_diff, shown
from workbench.registry.entries import FieldChange, Registration, StatedPower, Timing
from workbench.registry.log import Entry

WIDTH = 80
KNOWN: dict[Timing, str] = {
    "before_any_run": "before anything ran under the registration",
    "outcomes_unseen": "work has begun; nothing was promoted, opened or judged yet",
    "outcomes_seen": "outcomes have been seen",
}
"""Timings in words."""
OUTCOMES = ("supported", "refuted", "inconclusive")


def amendment_lines(draft: DraftAmendment) -> Iterator[str]:
    """Yield the exact diff, what was known, and what it means for the verdict."""
    many = "" if len(draft.changes) == 1 else "s"
    yield f"Amendment of {draft.experiment}: {len(draft.changes)} field{many} changed"
    for change in draft.changes:
        yield from _change_lines(change)
    for warning in draft.warnings:
        yield f"warning  {warning}"
    yield from _labelled("Known", KNOWN[draft.known.timing])
    for entry in draft.known.rests_on[:3]:
        yield from _labelled("", f"{entry.kind.replace('_', ' ')}, entry {entry.sequence}")
    if draft.num_values and draft.known.timing == "outcomes_unseen":
        many = "value" if draft.num_values == 1 else "values"
        seen = f"{draft.num_values} {many} of the sweep, as a pilot's; the chronicle will say so"
        yield from _labelled("Seen", seen)
    yield from _labelled("Effect", draft.effect)
    yield from _labelled("Rule", _expected(draft))
    if draft.known.timing == "outcomes_seen":
        number = draft.experiment[:4]
        way_out = (
            "to keep the verdict confirmatory, put the files back and say it in a note: "
            f'workbench note -e {number} "…"'
        )
        yield from _labelled("", way_out)


def _expected(draft: DraftAmendment) -> str:
    """Return what the amended rule is expected to say, beside what the one in force is."""
    now = stated_power(draft.checked)
    before = draft.registration.body
    was = before.power if isinstance(before, Registration) else None
    if now is None:
        return "chances unknown, since the noise between seeds is (decision.noise gives it)"
    changed = f"; before: {_chances(was)}" if was else ""
    return f"{_chances(now)}, seeds vary by {now.noise_sd:.2g}{changed}"


def _chances(power: StatedPower) -> str:
    # Stored bodies have their keys in the order of the alphabet.
    outcomes = [outcome for outcome in OUTCOMES if outcome in power.chances]
    told = ", ".join(f"{outcome} {power.chances[outcome]:.0%}" for outcome in outcomes)
    return f"if the improvement is truly {power.effect:+g}: {told}"


def _change_lines(change: FieldChange) -> Iterator[str]:
    yield f"  {change.document}  {change.path}"
    diff = prose_diff(change)
    if diff:
        yield from (f"      {line}" for line in diff.splitlines())
        return
    yield from _value("was", shown(change.old))
    yield from _value("now", shown(change.new))


def _value(label: str, text: str) -> Sequence[str]:
    indent = " " * 11
    return textwrap.wrap(
        text or '""', WIDTH, initial_indent=f"      {label}  ", subsequent_indent=indent
    )


def _labelled(label: str, text: str) -> Sequence[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"{label:<8}", subsequent_indent=" " * 8,
        break_on_hyphens=False,
    )  # fmt: skip


def amendment_json(draft: DraftAmendment, entry: Entry | None = None) -> dict[str, Any]:
    """Return the same for another program; with the entry once it is recorded."""
    found: dict[str, Any] = {
        "experiment": draft.experiment,
        "changes": [change.model_dump() for change in draft.changes],
        "timing": draft.known.timing,
        "rests_on": [_entry_json(entry) for entry in draft.known.rests_on],
        "sweep_values_seen": draft.num_values,
        "effect": draft.effect,
        "power": _power_json(stated_power(draft.checked)),
        "warnings": [str(warning) for warning in draft.warnings],
    }
    if entry is not None:
        found["entry"] = _entry_json(entry)
    return found


def withdrawal_lines(draft: DraftWithdrawal) -> Iterator[str]:
    """Yield what a withdrawal would mean; there is none that takes it back."""
    yield f"Withdrawal of {draft.experiment}"
    yield from _labelled("Reason", draft.reason)
    yield from _labelled("Known", KNOWN[draft.known.timing])
    yield from _labelled(
        "Effect",
        "nothing confirmatory of it runs any more; what was promised and what ran stays in the "
        "log, the chronicle and the index, marked withdrawn; a withdrawal is never taken back",
    )


def withdrawal_json(draft: DraftWithdrawal, entry: Entry | None = None) -> dict[str, Any]:
    """Return the same for another program; with the entry once it is recorded."""
    found: dict[str, Any] = {
        "experiment": draft.experiment,
        "reason": draft.reason,
        "timing": draft.known.timing,
        "rests_on": [entry.id for entry in draft.known.rests_on],
    }
    if entry is not None:
        found |= {"entry": _entry_json(entry), **entry.body.to_json()}
    return found


def _power_json(power: StatedPower | None) -> dict[str, Any] | None:
    return power.model_dump() if power else None


def _entry_json(entry: Entry) -> dict[str, Any]:
    return {"sequence": entry.sequence, "kind": entry.kind, "id": entry.id, "leaf": entry.leaf}
