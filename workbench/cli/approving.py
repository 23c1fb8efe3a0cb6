"""How a reviewer is shown what they approve, and a reader who approved it."""

import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import typer

from workbench.cli.show import one_line, print_json, print_table, say
from workbench.errors import ConflictError
from workbench.experiments.approvals import Given
from workbench.experiments.precedents import question_of
from workbench.registry.approvals import Promise
from workbench.registry.entries import Amendment, Document, Registration
from workbench.registry.log import Entry

_SHOWN = 16
"""Digits of a hash that a person compares."""


def refuse_unclear(key: Path | None, out: Path | None, note: Path | None) -> None:
    """Refuse options that contradict each other.

    Raises:
        ConflictError: they do.
    """
    if note is not None and (key is not None or out is not None):
        raise ConflictError(
            "--note records what was signed elsewhere, --key signs here",
            remedy="give one of the two",
        )
    if out is not None and key is None:
        raise ConflictError("--out needs --key: there is nothing signed", remedy="add --key FILE")


def print_documents(documents: Sequence[Document]) -> None:
    """Print what was registered, each file under a line with its path and hash."""
    for document in documents:
        say(f"==> {document.path}  SHA-256 {document.sha256}")
        typer.echo(document.text)


def confirm(
    given: Sequence[Given], *, root: Path | None = None, yes: bool, quiet: bool = False
) -> None:
    """Show what is approved and ask.

    Args:
        given: What would be approved.
        root: Of the lab, whose files may no longer be those that were registered.
        yes: Do not ask.
        quiet: Show it on stderr: stdout is for another program.

    Raises:
        ConflictError: the answer is no, or there is no terminal to ask at.
    """
    for approval in given:
        for line in (*_summary(approval), *_differing(approval, root)):
            typer.secho(one_line(line), err=quiet)
    if not given or yes:
        return
    if not sys.stdin.isatty():
        raise ConflictError(
            "nobody is there to confirm this approval", remedy="read the above, then add --yes"
        )
    if not typer.confirm("Sign this as read and approved?"):
        raise ConflictError("not approved, nothing was signed")


def _summary(approval: Given) -> list[str]:
    entry, body = approval.promise, approval.promise.body
    lines = [
        f"As {approval.reviewer}, you approve {name_of(approval)} of {entry.subject}",
        f"  leaf  {entry.leaf}",
    ]
    if isinstance(body, Registration | Amendment):
        asked = question_of(body.frozen)
        cap = body.frozen.get("budget_cap_device_hours", "?")
        lines += [
            f"  asks  {asked.title}",
            f"  rule  {asked.claim} on {asked.metric}",
            f"  size  {asked.seeds} seeds an arm at full scale, at most {cap} device-hours in all",
            f"  text  {body.proposal.path}, SHA-256 {body.proposal.sha256[:_SHOWN]}…",
        ]
    if isinstance(body, Amendment):
        lines += [f"  changes  {c.document} {c.path}: {c.old} -> {c.new}" for c in body.changes]
        lines.append(f"  timing  {body.timing.replace('_', ' ')}; {body.reason}")
    return lines


def _differing(approval: Given, root: Path | None) -> Iterator[str]:
    """Yield which files of the lab are not what would be signed."""
    body = approval.promise.body
    if root is None or not isinstance(body, Registration | Amendment):
        return
    for document in (body.proposal, body.recipe, body.full):
        path = root / document.path
        if not path.is_file() or sha256(path.read_bytes()).hexdigest() != document.sha256:
            yield f"warning  the file here is NOT what you sign: {document.path}"
            yield f"  read that with: workbench approve {approval.promise.subject[:4]} --text"


def name_of(approval: Given) -> str:
    """Return ``the registration (entry 1)``."""
    return f"the {approval.promise.kind} (entry {approval.promise.sequence})"


def write_notes(out: Path, given: Sequence[Given]) -> None:
    """Write the signed notes into a new file.

    Raises:
        ConflictError: there is such a file.
    """
    text = "\n".join(approval.note for approval in given)
    try:
        with out.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConflictError(f"{out} exists already", remedy="name another file") from error


def print_recorded(given: Sequence[Given], entries: Sequence[Entry], *, asked: bool) -> None:
    """Print what was recorded, or that there was nothing to record although it was asked for."""
    for approval, entry in zip(given, entries, strict=True):
        say(f"Recorded entry {entry.sequence}: {approval.reviewer} approves {name_of(approval)}")
    if asked and not given:
        say("Nothing to record: that was approved before.")


def print_promises(promises: Sequence[Promise], following: str, *, as_json: bool) -> None:
    """Print who approved what and who still may.

    Args:
        promises: What was promised.
        following: The command that comes next, empty where nothing does.
        as_json: Print it for another program.
    """
    if as_json:
        print_json([_plain(promise) for promise in promises])
        return
    if not promises:
        say("No approval is required of this experiment.")
        return
    rows = [
        [
            f"{promise.entry.sequence} {promise.entry.kind}",
            f"{len(promise.approved_by)} of {promise.required}",
            ", ".join(promise.approved_by),
            "" if promise.is_approved else ", ".join(promise.missing),
        ]
        for promise in promises
    ]
    print_table(["entry", "approvals", "approved by", "may still approve"], rows)
    if all(promise.is_approved for promise in promises):
        say(f"Approved. Next: {following}" if following else "Approved. Nothing of it is to run.")


def _plain(promise: Promise) -> dict[str, object]:
    return {
        "entry": promise.entry.sequence,
        "kind": promise.entry.kind,
        "leaf": promise.entry.leaf,
        "required": promise.required,
        "approved_by": list(promise.approved_by),
        "missing": list(promise.missing),
        "approved": promise.is_approved,
    }
