"""Commands that keep a log usable: reveal, redact, restore, keys."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from workbench.cli.filing import Number
from workbench.cli.show import confirm, print_json, say
from workbench.errors import InvalidFileError
from workbench.registry.counts import entries_of

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class WhatName(StrEnum):
    """What kind of thing is erased."""

    personal_data = "personal_data"
    secret = "secret"  # noqa: S105  # a kind of content, not a password
    licence = "licence"
    legal_order = "legal_order"
    other = "other"


class RoleName(StrEnum):
    """Which of a log's keys."""

    log = "log"
    author = "author"


class WhyName(StrEnum):
    """Why a key is replaced, in one word."""

    scheduled = "scheduled"
    owner_change = "owner_change"
    compromise = "compromise"


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (reveal, redact, restore):
        app.command(rich_help_panel="Keep")(command)
    keys = typer.Typer(help="Show, make and replace keys.", no_args_is_help=True)
    keys.command()(show)
    keys.command()(new)
    keys.command()(rotate)
    app.add_typer(keys, name="keys", rich_help_panel="Keep")


def reveal(
    number: Number,
    reason: Annotated[str, typer.Option(help="Why now; published.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Reveal without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be published, and stop.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """End an embargo: the next publish holds what was withheld."""
    from workbench.cli.embargoes import reveal_json, reveal_lines
    from workbench.lab import Lab

    lab = Lab.open()
    draft = lab.draft_reveal(number)
    if not as_json:
        for line in reveal_lines(draft):
            say(line)
    found = None
    if not dry_run:
        if not yes:
            remedy = f"workbench reveal {number} --reason … --yes"
            confirm("Reveal it?", remedy=remedy, as_json=as_json)
        found = lab.reveal(number, reason=reason)
    if as_json:
        print_json(reveal_json(draft, found))
    elif found is not None:
        say(f"Revealed {found.entry.subject} (entry {found.entry.sequence})")
        say(f"Next: workbench publish, then workbench chronicle {number}")


def redact(
    entry: Annotated[str, typer.Argument(help="Number that chronicles show after #, or an id.")],
    what: Annotated[
        WhatName, typer.Option(metavar="KIND", help=f"What is erased: {', '.join(WhatName)}.")
    ],
    reason: Annotated[str, typer.Option(help="Why; published, so do not repeat what is erased.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Erase without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would mean, and stop.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Erase the content of one entry for good; its hash, time, kind and author stay."""
    from workbench.lab import Lab

    lab = Lab.open()
    draft = lab.draft_redaction(entry)
    target = draft.target
    if not as_json:
        say(f"Entry {target.sequence}: {target.kind} of {target.subject}, {target.time}")
        say(f"  erased for good  {draft.consequence}")
        say("  not erased")
        for place in draft.out_of_reach:
            say(f"    {place}")
    made = None
    if not dry_run:
        if not yes:
            remedy = f"workbench redact {entry} --what {what.value} --reason … --yes"
            confirm("Erase it?", remedy=remedy, as_json=as_json)
        made = lab.redact(draft, what=what.value, reason=reason)
    if as_json:
        print_json(
            {
                "entry": target.sequence,
                "id": target.id,
                "kind": target.kind,
                "subject": target.subject,
                "consequence": draft.consequence,
                "not_erased": list(draft.out_of_reach),
                "redaction": made.sequence if made else None,
            }
        )
    elif made:
        say(f"Erased, and recorded as entry {made.sequence}.")
        say("Next: workbench publish erases it from registry/, then workbench chronicle")


def restore(
    copy: Annotated[
        Path | None,
        typer.Option("--from", help="Published files or a SQLite store; registry/ if not given."),
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss", help="Record as lost what an embargo withheld from the files."
        ),
    ] = False,
    new_origin: Annotated[
        bool,
        typer.Option(
            "--new-origin", help="Keys or newest entries are lost: begin a log that continues it."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Begin it without asking.")] = False,
) -> None:
    """Make a lost store anew from a copy of the log, or begin a log that continues it."""
    from workbench.lab import Lab

    lab = Lab.open()
    if new_origin:
        if copy is not None:
            raise InvalidFileError(
                "--new-origin continues what is in registry/, and --from names another copy",
                remedy="copy those files into registry/ first, then leave --from out",
            )
        _begin_successor(yes=yes)
        return
    found = lab.restore(copy=copy, accept_loss=accept_loss)
    say(f"Restored {entries_of(found.head.size)} of {lab.settings.origin}")
    say(f"  into {found.place}")
    if found.are_keys_old:
        say(f"The keys remember {entries_of(found.kept.size)} only: they come from a backup. If")
        say("anything was registered or run since and is not in this copy, write nothing,")
        say("remove this store, and use workbench restore --new-origin: one name must")
        say("never stand for two histories.")
    for line in found.lost:
        say(f"  lost, and recorded as such  {line}")
    say("Next: workbench verify, then workbench status")


def _begin_successor(*, yes: bool) -> None:
    from workbench.lab import Lab

    lab = Lab.open()
    say(f"Log {lab.settings.origin} cannot be continued here:")
    say(f"  {lab.why_lost()}")
    say("A new log with new keys will name the old one. What is published of the old")
    say("one moves to registry/predecessors and stays readable. Registered experiments")
    say("without a verdict must be registered anew.")
    if not yes:
        confirm("Begin it?", remedy="workbench restore --new-origin --yes")
    found = lab.begin_successor()
    say(f"Began {found.new}, which continues {found.old} ({entries_of(found.size)})")
    say(f"  old files  {found.kept}")
    for name in found.unfinished:
        say(f"  to be registered anew  {name}")
    say("Next: back up the new keys (workbench keys show), workbench verify, commit")
    say("workbench.toml and registry/, and give your readers the new log's key")


def show(as_json: AsJson = False) -> None:
    """Show the keys that speak for the log, those before them, and which are here."""
    from workbench.lab import Lab

    lab = Lab.open()
    lines = lab.key_lines()
    if as_json:
        print_json([asdict(line) for line in lines])
        return
    say(f"Keys of {lab.settings.origin}, kept in {lab.keys_folder}")
    for line in lines:
        held = "private key here" if line.private else "private key not here"
        ended = "in force" if line.until is None else f"until entry {line.until}"
        say(f"{line.role:<7}{line.key_id}  since entry {line.since}, {ended}, {held}")
        if line.until is None:
            say(f"       {line.vkey}")
    say("Hand the log's key out by another way than the log: readers give it as --key.")


def new(
    name: Annotated[str, typer.Argument(help="What its signatures carry, like lab.example/ann.")],
    witness: Annotated[
        bool, typer.Option("--witness", help="To cosign heads of other people's logs.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="File of the private key; yours if not given.")
    ] = None,
) -> None:
    """Make a key of your own, to approve registrations or to witness logs."""
    from workbench.registry.personal_keys import create_personal_key
    from workbench.settings import default_keys_dir

    folder = default_keys_dir().parent / "people"
    path = out or folder / f"{name.replace('/', '_')}.key"
    key = create_personal_key(path, name, "witness" if witness else "review")
    say(f"Private key  {path}  (mode 0600; back it up, never commit it)")
    say(f"Public key   {key}")
    if witness:
        say(f"Next: workbench witness --from registry --state DIR --key {path}")
    else:
        say("Next: give the public key to the lab, for [reviewers] in workbench.toml")


def rotate(
    role: Annotated[
        RoleName,
        typer.Argument(metavar="ROLE", help="log (signs tree heads) or author (signs entries)."),
    ],
    why: Annotated[WhyName, typer.Option(metavar="WHY", help=f"One of {', '.join(WhyName)}.")],
    reason: Annotated[str, typer.Option(help="Why, in a sentence; published.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Replace it without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would mean, and stop.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Replace a key of the log by an entry that the old and the new key both sign."""
    from workbench.lab import Lab

    lab = Lab.open()
    before = next(k for k in lab.key_lines() if k.role == role.value and k.until is None)
    if not as_json:
        say(f"Replaces the {role.value} key of {lab.settings.origin}, {before.key_id}")
        say("  for good: the old key signs nothing any more, and an entry says why")
        say("  a backup of the keys from before no longer serves; back them up after it")
    if not dry_run and not yes:
        remedy = f"workbench keys rotate {role.value} --why {why.value} --reason … --yes"
        confirm("Replace it?", remedy=remedy, as_json=as_json)
    if dry_run:
        if as_json:
            print_json({"entry": None, **asdict(before)})
        return
    entry = lab.rotate_key(role.value, why=why.value, reason=reason)
    old = lab.retired_path(entry)
    line = next(k for k in lab.key_lines() if k.role == role.value and k.until is None)
    if as_json:
        print_json({"entry": entry.sequence, "old_private": str(old), **asdict(line)})
        return
    say(f"Replaced the {role.value} key: entry {entry.sequence}, signed by both keys")
    say(f"  new  {line.vkey}")
    say(f"  old  {old}  (no longer used; keep it offline or destroy it)")
    say("Next: back up the keys folder, workbench publish, and have the new head anchored")
    if why is WhyName.compromise:
        say("Whoever has the old key can still sign heads for what came BEFORE this entry:")
        say("tell your readers, and see docs/operations.md, A key was stolen")
