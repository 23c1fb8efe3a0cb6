"""Commands for those who read a proposal: reviewers who approve it, and editors that check it."""

from pathlib import Path
from typing import Annotated

import typer

from workbench.cli.show import read_text, say
from workbench.errors import ConflictError


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (approve, schema):
        app.command(rich_help_panel="File and record")(command)


def approve(
    number: Annotated[str, typer.Argument(help="Experiment number or folder name, like 0001.")],
    key: Annotated[
        Path | None, typer.Option(help="Your reviewer's key file: sign what is not approved yet.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="With --key: write the signed approval here, for the lab to record."),
    ] = None,
    note: Annotated[
        Path | None, typer.Option(help="Record an approval that a reviewer wrote with --out.")
    ] = None,
    published: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="DIR|URL",
            help="Published files to read, without a lab; with --text, or --key and --out.",
        ),
    ] = "",
    text: Annotated[
        bool, typer.Option("--text", help="Print the files as they were registered, and stop.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before signing.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: who approved what, who is missing.")
    ] = False,
) -> None:
    """Approve a registration and its amendments; alone, show who approved and who is missing."""
    from workbench.cli import approving
    from workbench.lab import Lab

    approving.refuse_unclear(key, out, note)
    if published:
        _approve_from(published, number, key, out, text=text, yes=yes)
        return
    lab = Lab.open()
    if text:
        approving.print_documents(lab.registered_documents(number))
        return
    given = lab.read_approvals(number, read_text(note)) if note else ()
    if key is not None:
        given = lab.sign_approvals(number, key)
        approving.confirm(given, root=lab.layout.root, yes=yes, quiet=as_json)
    if out is not None and given:
        approving.write_notes(out, given)
        say(f"Wrote {out}. The lab records it: workbench approve {number} --note {out}")
        return
    entries = lab.approve(given) if given else []
    if not as_json:
        approving.print_recorded(given, entries, asked=bool(key or note))
    following = lab.next_command(number)
    approving.print_promises(lab.approvals(number), following, as_json=as_json)


def _approve_from(
    published: str, number: str, key: Path | None, out: Path | None, *, text: bool, yes: bool
) -> None:
    """Read or sign a registration where nothing but the published files is."""
    from workbench.cli import approving
    from workbench.experiments.approvals import registered_documents, subject_in, unapproved_by
    from workbench.registry.personal_keys import load_reviewer_key
    from workbench.registry.places import place_of
    from workbench.registry.published import PublishedLog

    log = PublishedLog(place_of(published))
    experiment = subject_in(log, number)
    if text:
        approving.print_documents(registered_documents(log, experiment))
        return
    if key is None or out is None:
        raise ConflictError(
            "published files are read, not written: what you sign there goes into a file",
            remedy=f"workbench approve {number} --from {published} --key FILE --out FILE",
        )
    given = unapproved_by(log, experiment, load_reviewer_key(key))
    approving.confirm(given, yes=yes)
    if not given:
        say("Nothing to sign: that was approved before.")
        return
    approving.write_notes(out, given)
    say(f"Wrote {out}. The lab records it: workbench approve {number} --note {out.name}")


def schema(
    document: Annotated[
        str, typer.Argument(help="proposal, recipe, full or entry; empty to list them.")
    ] = "",
    kind: Annotated[str, typer.Argument(help="With entry: its kind, like registration.")] = "",
    out: Annotated[Path | None, typer.Option(help="Write the schema into this file.")] = None,
    editor: Annotated[
        bool, typer.Option("--editor", help="Refresh the lab's schemas for editors.")
    ] = False,
) -> None:
    """Print the JSON Schema of a file, so that editors complete and check its YAML."""
    from workbench.experiments import schemas

    if editor:
        _refresh()
        return
    if not document:
        for line in schemas.listed():
            say(line)
        return
    text = schemas.schema_text(schemas.schema_of(document, kind))
    if out is None:
        typer.echo(text, nl=False)
        return
    out.write_text(text, "utf-8", newline="\n")
    say(f"Wrote {out}")


def _refresh() -> None:
    from workbench.lab import Lab

    lab = Lab.open()
    changed = lab.write_schemas()
    for path in changed:
        say(f"Wrote {path.relative_to(lab.layout.root)}")
    if not changed:
        say("The lab's schemas are those of this version.")
