"""Commands that read: status, chronicle, verify, publish."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from workbench.cli.show import (
    one_line,
    print_json,
    read_text,
    say,
    say_labelled,
    say_wrapped,
    seconds,
)
from workbench.errors import IntegrityError, InvalidFileError, NotFoundError
from workbench.registry.counts import entries_of

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for another program.")]


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (status, chronicle, verify, publish):
        app.command(rich_help_panel="Read and verify")(command)


def status(as_json: AsJson = False) -> None:
    """Show where every experiment stands and what to do next."""
    from workbench.lab import Lab

    statuses = Lab.open().status()
    if as_json:
        print_json([asdict(line) for line in statuses])
        return
    if not statuses:
        say('No experiments yet. Next: workbench propose "what you want to find out"')
        return
    for line in statuses:
        say(line.experiment, bold=True)
        spent = f"{seconds(line.device_seconds)} spent" if line.device_seconds else ""
        say_labelled(line.stage, "; ".join(filter(None, (line.detail, spent))))
        if line.next_command:
            say_labelled("next", line.next_command)
    wasted = sum(line.wasted_device_seconds for line in statuses)
    if wasted:
        say(f"{seconds(wasted)} of it gave no usable value.")


def chronicle(
    number: Annotated[str, typer.Argument(help="Experiment number; all of them if empty.")] = "",
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a file would change.")
    ] = False,
    published: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="DIR|URL",
            help="Published files to tell of, with --out; no lab needed.",
        ),
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="With --from: folder to write to.")
    ] = None,
) -> None:
    """Write the logbook of an experiment, or of all, as HTML and Markdown."""
    if bool(published) != (out is not None) or (published and check):
        raise typer.BadParameter("--from DIR|URL and --out DIR go together, without --check")
    if out is not None:
        paths = _chronicle_published(published, number, out)
    else:
        from workbench.lab import Lab

        paths = Lab.open().chronicle(number, check=check)
    for path in paths:
        say(str(path))


def _chronicle_published(text: str, number: str, out: Path) -> list[Path]:
    """Write the chronicles of published files that verify.

    Raises:
        IntegrityError: they do not.
        NotFoundError: they say nothing of this experiment.
    """
    from workbench.registry.places import place_of
    from workbench.registry.published import PublishedLog
    from workbench.registry.successor import forerunners
    from workbench.reports.site import Snapshot, write_chronicle, write_chronicles

    report, _ = _published_report(text, "", None, None)
    if not report.passed:
        raise IntegrityError(
            f"{text} does not verify: no chronicle is written of it",
            remedy=f"workbench verify --from {text}",
        )
    place = place_of(text)
    log = Snapshot(PublishedLog(place))
    before = [found.log for found in forerunners(PublishedLog(place), place) if found.is_here]
    if not number:
        index, every = write_chronicles(log, out, before=before)
        return [index, *(path for one in every for path in (one.html, one.markdown))]
    wanted = f"{number:0>4}"
    known = [name for name in log.subjects if wanted in (name, name[:4])]
    if not known:
        raise NotFoundError(
            f"{text} says nothing of experiment {number}",
            remedy=f"workbench chronicle --from {text} --out {out}   (all of them)",
        )
    written = write_chronicle(log, known[0], out, before=before)
    return [written.html, written.markdown]


def verify(
    published: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="DIR|URL",
            help="Published files to verify, in a folder or on the web; needs no lab or keys.",
        ),
    ] = None,
    head: Annotated[
        Path | None, typer.Option("--head", help="A signed tree head that you kept from before.")
    ] = None,
    key: Annotated[
        str, typer.Option("--key", help="The log's verifier key from a place you trust.")
    ] = "",
    proof: Annotated[
        Path | None, typer.Option("--proof", help="Verify this proof file alone; needs --key.")
    ] = None,
    witness: Annotated[
        list[str] | None,
        typer.Option("--witness", help="Verifier key of a witness whom you trust; repeatable."),
    ] = None,
    tsa_root: Annotated[
        list[Path] | None,
        typer.Option("--tsa-root", help="Root certificate (PEM) for time stamps; repeatable."),
    ] = None,
    kept_report: Annotated[
        list[Path] | None,
        typer.Option("--report", help="A chronicle that you kept: its printed head must hold."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verify the whole ledger offline and recompute every verdict from it."""
    kept = read_text(head) if head else None
    if published == "":
        raise InvalidFileError(
            "--from names no place: nothing was verified", remedy="workbench verify --from DIR|URL"
        )
    if published and not (proof or witness or tsa_root or kept_report):
        _verify_published(published, key, kept, None, as_json=as_json)
        return
    from workbench.lab.anchoring import trust_in, verify_proof

    trust = trust_in(witnesses=witness or (), roots=tsa_root or (), reports=kept_report or ())
    if proof is not None:
        shown = verify_proof(read_text(proof), key, trust)
        tell(shown.lines(), shown.values() if as_json else None, passed=shown.passed)
    elif published:
        _verify_published(published, key, kept, trust, as_json=as_json)
    else:
        lab = _lab_to_verify()
        report = lab.verify(kept_head=kept, vkey=key, trust=trust)
        before = lab.verify_forerunners() if report.passed else ()
        _tell_verification(report, before, as_json=as_json)


def _lab_to_verify() -> Any:
    """Return the lab around this folder.

    Raises:
        NotFoundError: there is none; says how published files are verified without one.
    """
    from workbench.lab import Lab

    try:
        return Lab.open()
    except NotFoundError as error:
        here = Path("checkpoint").is_file()
        raise NotFoundError(
            error.message,
            remedy="workbench verify --from ." if here else "workbench verify --from DIR|URL",
        ) from error


def _verify_published(text: str, key: str, kept: str | None, trust: Any, *, as_json: bool) -> None:
    """Verify published files alone, and say what was found."""
    report, before = _published_report(text, key, kept, trust)
    _tell_verification(report, before, as_json=as_json)


def _published_report(
    text: str, key: str, kept: str | None, trust: Any
) -> tuple[Any, Sequence[Any]]:
    """Verify published files alone.

    The lab does not start, nor the analysis where a verdict is by Welch's t at a fixed number.
    """
    from workbench.cli.stamps import stamps_when_met
    from workbench.registry.anchored import AnchorTrust
    from workbench.registry.log import LogSource
    from workbench.registry.places import place_of
    from workbench.registry.published import PublishedLog
    from workbench.reports.findings import AuditFinding
    from workbench.reports.forerunners import verify_forerunners
    from workbench.reports.verification import Verification, verify_lab, verify_published

    def audit(log: LogSource) -> list[AuditFinding]:
        from workbench.reports.checks import audited

        return audited(log, apply=apply)

    def apply(proposal: Any, floor: Any) -> Any:
        from workbench.reports.applied import applied

        return applied(proposal, floor)

    def verified(log: PublishedLog, vkey: str, named: str) -> Verification:
        return verify_lab(log, vkey=vkey, kept_head=named, audit=audit)

    place = place_of(text)
    now, trust = datetime.now(UTC), trust or AnchorTrust(stamps=stamps_when_met())
    report = verify_published(
        place, audit=audit, vkey=key or None, kept_head=kept, now=now, trust=trust
    )
    before = (
        verify_forerunners(PublishedLog(place), place, verify=verified) if report.passed else ()
    )
    return report, before


def _tell_verification(report: Any, before: Sequence[Any], *, as_json: bool) -> None:
    """Print the verification of a log and, after it, of those that it continues."""
    tell(
        (*report.lines(), *(line for found in before for line in found.lines())),
        {**asdict(report), "forerunners": [asdict(found) for found in before]} if as_json else None,
        passed=report.passed and all(found.passed for found in before),
    )


def tell(lines: Iterable[str], values: Any, *, passed: bool) -> None:
    """Print a report, as JSON where its values are given, and end with 6 unless it passed."""
    if values is not None:
        print_json(values)
    else:
        for line in lines:
            say_wrapped(one_line(line))
    if not passed:
        raise typer.Exit(6)


def publish() -> None:
    """Write the ledger into registry/ as static files that anybody can verify."""
    from workbench.lab import Lab

    lab = Lab.open()
    summary = lab.publish()
    new = f"{summary.new_entries} of them new"
    say(f"{entries_of(summary.head.size)} in {lab.layout.registry}, {new}")
