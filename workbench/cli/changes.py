"""Commands that change a promise in the open: amend, withdraw."""

from enum import StrEnum
from typing import Annotated

import typer

from workbench.cli.filing import Number
from workbench.cli.show import confirm, live_progress, print_json, say
from workbench.errors import InvalidFileError


class ReasonName(StrEnum):
    """Why a promise is changed, in one word."""

    clarification = "clarification"
    error = "error"
    infeasible = "infeasible"
    new_information = "new_information"
    external = "external"


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (amend, withdraw):
        app.command(rich_help_panel="File and record")(command)


def amend(
    number: Number,
    reason_class: Annotated[
        ReasonName | None,
        typer.Option(metavar="CLASS", help=f"Required to amend: {', '.join(ReasonName)}."),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, in a sentence; required to amend.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Amend without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change and what it means; stop.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON; with --dry-run or --yes.")
    ] = False,
) -> None:
    """Change what was registered by the files as they are now, after showing what that means."""
    from workbench.cli.amendment import amendment_json, amendment_lines
    from workbench.lab import Lab

    lab = Lab.open()
    draft = lab.draft_amendment(number)
    if as_json and dry_run:
        print_json(amendment_json(draft))
        return
    if not as_json:
        for line in amendment_lines(draft):
            say(line)
    if dry_run:
        return
    chosen = _required(number, reason_class, reason)
    if not yes:
        remedy = "look at the diff above, then repeat the command with --yes"
        confirm("Amend?", remedy=remedy, as_json=as_json)
    with live_progress() as progress:
        entry = lab.amend(draft, reason_class=chosen.value, reason=reason, progress=progress)
    if as_json:
        print_json(amendment_json(draft, entry))
        return
    say(f"Amended {draft.experiment}: entry {entry.sequence}  {entry.id}")
    say(f"Next: workbench status; what was registered stays in the log (chronicle {number})")


def withdraw(
    number: Number,
    reason: Annotated[str, typer.Option(help="Why, in a sentence.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Withdraw without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would mean, and stop.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON; with --dry-run or --yes.")
    ] = False,
) -> None:
    """Give a registered experiment up: nothing of it runs any more, all of it stays readable."""
    from workbench.cli.amendment import withdrawal_json, withdrawal_lines
    from workbench.lab import Lab

    lab = Lab.open()
    draft = lab.draft_withdrawal(number, reason=reason)
    if not as_json:
        for line in withdrawal_lines(draft):
            say(line)
    entry = None
    if not dry_run:
        if not yes:
            remedy = f"workbench withdraw {number} --reason … --yes"
            confirm("Withdraw it?", remedy=remedy, as_json=as_json)
        entry = lab.withdraw(number, reason=reason)
    if as_json:
        print_json(withdrawal_json(draft, entry))
    elif entry is not None:
        say(f"Withdrew {entry.subject}: entry {entry.sequence}  {entry.id}")
        say(f"Next: workbench chronicle {entry.subject[:4]}")


def _required(number: str, reason_class: ReasonName | None, reason: str) -> ReasonName:
    missing = [
        name
        for name, given in (("--reason-class", reason_class), ("--reason", reason.strip()))
        if not given
    ]
    if missing or reason_class is None:
        raise InvalidFileError(
            f"an amendment says why: {' and '.join(missing)} missing",
            remedy=f'workbench amend {number} --reason-class error --reason "why", or another of '
            f"the classes {', '.join(ReasonName)}",
        )
    return reason_class
