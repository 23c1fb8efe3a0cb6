"""Commands that file and record: init, propose, check, power, register, note, decide."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from workbench.cli.show import live_progress, print_json, say

Number = Annotated[str, typer.Argument(help="Experiment number or folder name, like 0001.")]


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (init, propose, check, power, register, note, decide):
        app.command(rich_help_panel="File and record")(command)


def init(
    folder: Annotated[Path, typer.Argument(help="Folder of the new lab; made if absent.")],
    name: Annotated[str, typer.Option(help="What chronicles call the lab.")] = "",
) -> None:
    """Make a lab: four folders, workbench.toml, a ledger, and keys outside of it."""
    from workbench.lab import Lab

    lab = Lab.init(folder, name=name)
    say(f"Made the lab {lab.settings.name!r} in {folder}")
    say(f"  keys    {lab.keys_folder}  (mode 0600; back them up, never commit them)")
    say(f"  origin  {lab.settings.origin}")
    say(f'Next: cd {folder} && workbench propose "what you want to find out"')


def propose(
    title: Annotated[str, typer.Argument(help="The question in a few words.")],
    owner: Annotated[str, typer.Option(help="Who answers for it; the lab's actor if empty.")] = "",
    recipe: Annotated[
        str, typer.Option(help="Sweep recipe to start from; the newest of proxies/ if empty.")
    ] = "",
    slug: Annotated[
        str,
        typer.Option(
            help="Name of the folder after its number, public under an embargo, too; "
            "the title's first words if empty."
        ),
    ] = "",
) -> None:
    """File a proposal to fill in: experiments/NNNN-slug/proposal.md and full.yaml."""
    from workbench.cli.checking import print_overlaps
    from workbench.lab import Lab

    lab = Lab.open()
    folder = lab.propose(title, owner=owner, recipe=recipe or None, called=slug)
    number = folder.name[:4]
    say(f"Filed experiments/{folder.name}/proposal.md")
    print_overlaps(lab.check(number).overlaps)
    say(f"Next: fill it in, then workbench check {number}")


def check(
    number: Number,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for another program.")
    ] = False,
) -> None:
    """Check a proposal, its recipe and its full-scale file; print every fault with its line.

    Also what was asked before, which values give each outcome, and how likely each is.
    """
    from workbench.cli.checking import print_checked
    from workbench.cli.embargoes import print_planned_embargo
    from workbench.lab import Lab

    lab = Lab.open()
    checked = lab.check(number)
    print_checked(checked, as_json=as_json)
    if not as_json:
        print_planned_embargo(checked)
        for line in lab.lines_after_check(number):
            say(line)


def power(
    number: Number,
    sd: Annotated[
        float | None,
        typer.Option(help="Spread between seeds to compute with, instead of what is known."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for another program.")
    ] = False,
) -> None:
    """Show what a rule can detect with more or fewer seeds, and how likely each verdict is."""
    if sd is not None and not (math.isfinite(sd) and sd > 0):
        raise typer.BadParameter(f"--sd {sd:g} is no standard deviation: give a number above 0")
    from workbench.cli.planning import print_power
    from workbench.lab import Lab

    report = Lab.open().power(number, sd=sd)
    if as_json:
        print_json(asdict(report))
    else:
        print_power(report)


def register(
    number: Number,
    embargo_until: Annotated[
        str, typer.Option(help="Publish hashes only; you reveal it by the end of this day (UTC).")
    ] = "",
    embargo_reason: Annotated[
        str, typer.Option(help="Why it cannot be public yet; itself published at once.")
    ] = "",
) -> None:
    """Freeze a proposal in the ledger before anything runs, and derive its seeds."""
    from workbench.lab import Lab

    if embargo_until:
        from workbench.cli.embargoes import print_public

        print_public()
    with live_progress() as progress:
        receipt = Lab.open().register(
            number,
            embargo_until=embargo_until,
            embargo_reason=embargo_reason,
            progress=progress,
        )
    say(f"Registered {receipt.experiment}")
    say(f"  entry      {receipt.registration.sequence}  {receipt.registration.id}")
    say(f"  leaf       {receipt.registration.leaf}")
    say(f"  tree head  {receipt.head.size} entries, root {receipt.head.root.hex()[:16]}…")
    say(f"  seeds      {', '.join(map(str, receipt.seeds))}")
    if receipt.embargo:
        from workbench.cli.embargoes import print_embargo

        print_embargo(receipt.experiment, receipt.embargo)
    rule = getattr(receipt.registration.body, "approvals", None)
    if rule:
        say(f"  approvals  {rule.required} needed, of {', '.join(rule.reviewers)}")
        say(f"Next: a reviewer runs workbench approve {number} --key FILE")
        return
    say(f"Next: workbench sweep {number}")


def note(
    text: Annotated[str, typer.Argument(help="The remark.")],
    experiment: Annotated[str, typer.Option("--experiment", "-e", help="Its number.")] = "",
) -> None:
    """Write a remark into the logbook."""
    from workbench.lab import Lab

    entry = Lab.open().note(text, experiment=experiment)
    say(f"Noted as entry {entry.sequence} ({entry.subject})")


def decide(
    number: Number,
    question: Annotated[str, typer.Option(help="What was to be decided.")],
    option: Annotated[list[str], typer.Option(help="An option considered; repeat it.")],
    chosen: Annotated[str, typer.Option(help="One of the options.")],
    would_reverse: Annotated[str, typer.Option(help="What would make you change it.")],
    because: Annotated[list[str], typer.Option(help="Evidence: an entry id or a sentence.")],
    owner: Annotated[str, typer.Option(help="Who decided; the lab's actor if empty.")] = "",
    dissent: Annotated[str, typer.Option(help="Who disagreed, and why.")] = "",
    rollback: Annotated[str, typer.Option(help="How to go back; empty = irreversible.")] = "",
) -> None:
    """Record a decision with its options, evidence, dissent and way back."""
    from workbench.lab import Lab

    entry = Lab.open().decide(
        number,
        question=question,
        options=option,
        chosen=chosen,
        evidence=because,
        owner=owner,
        dissent=dissent,
        rollback=rollback,
        would_reverse=would_reverse,
    )
    say(f"Decided: {chosen}  (entry {entry.sequence})")
