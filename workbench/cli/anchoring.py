"""Commands about proofs and anchors: proof, witness, anchor."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from workbench.cli.reading import AsJson, tell
from workbench.cli.show import print_json, read_text, say
from workbench.errors import InvalidFileError

_NOTHING = (
    "Nothing outside this log vouches for it yet. Next: commit and push registry/,\n"
    "workbench anchor --tsa URL, or have somebody run workbench witness --from registry"
)


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands to the application."""
    for command in (proof, anchor, witness):
        app.command(rich_help_panel="Read and verify")(command)


def proof(
    number: Annotated[str, typer.Argument(help="Experiment number.")] = "",
    kind: Annotated[
        str, typer.Option("--kind", help="Which of its entries: the first of this kind.")
    ] = "registration",
    entry: Annotated[
        int | None, typer.Option("--entry", min=0, help="An entry by its position in the log.")
    ] = None,
    out: Annotated[
        str, typer.Option("--out", help="File to write, - prints; NNNN.tlog-proof if not given.")
    ] = "",
) -> None:
    """Export the proof that an entry is in the published log, in one self-contained file."""
    from workbench.lab import Lab

    if bool(number) == (entry is not None):
        raise InvalidFileError(
            "a proof is of one entry: give an experiment or --entry, not both",
            remedy="workbench proof NNNN",
        )
    lab = Lab.open()
    text = lab.prove(number, kind=kind, entry=entry)
    if out == "-":
        typer.echo(text, nl=False)
        return
    path = Path(out or f"{_proof_name(number, kind, entry)}.tlog-proof")
    path.write_text(text, "utf-8")
    say(f"Wrote {path}")
    say("It is verified anywhere, with the key that the reader has from you, not from it:")
    say(f"  workbench verify --proof {path} \\")
    say(f"    --key {lab.published_vkey}")


def _proof_name(number: str, kind: str, entry: int | None) -> str:
    if entry is not None:
        return f"entry-{entry}"
    name = number.zfill(4) if number.isdigit() else number[:4]
    return name if kind == "registration" else f"{name}-{kind}"


def anchor(
    tsa: Annotated[
        list[str] | None,
        typer.Option("--tsa", help="Address of a time-stamping authority (RFC 3161); repeatable."),
    ] = None,
    query: Annotated[
        Path | None,
        typer.Option("--query", help="Write a request to have the newest head stamped by hand."),
    ] = None,
    response: Annotated[
        Path | None, typer.Option("--response", help="Keep an authority's response to a request.")
    ] = None,
    cosigned: Annotated[
        Path | None, typer.Option("--cosigned", help="Keep a note that a witness cosigned.")
    ] = None,
    witness_key: Annotated[
        str, typer.Option("--witness", help="Verifier key of the witness of --cosigned.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Have the published head vouched for by others, or show who vouches for it."""
    from workbench.lab import Lab

    lab = Lab.open()
    for path, stamp in lab.stamp(tsa) if tsa else ():
        say(f"{path}: {stamp.authority} saw it at {stamp.moment:%Y-%m-%dT%H:%M:%SZ}")
    if query is not None:
        head, request = lab.stamp_query()
        query.write_bytes(request)
        say(f"{query}: request to stamp {head}")
        say("Send it to a time-stamping authority, and keep what it answers:")
        say(f"  curl -H 'Content-Type: application/timestamp-query' --data-binary @{query} \\")
        say("    -o answer.tsr URL")
        say("  workbench anchor --response answer.tsr")
    if response is not None:
        path, stamp = lab.keep_response(_bytes(response))
        say(f"{path}: {stamp.authority} saw it at {stamp.moment:%Y-%m-%dT%H:%M:%SZ}")
    if cosigned is not None:
        if not witness_key:
            raise InvalidFileError(
                "--cosigned needs the key of its witness",
                remedy="workbench anchor --cosigned FILE --witness VKEY",
            )
        say(f"{lab.keep_cosigned(read_text(cosigned), witness_key)}: kept")
    if not any((tsa, query, response, cosigned)):
        found = lab.anchors()
        lines = list(found.lines()) or _NOTHING.splitlines()
        tell(lines, asdict(found) if as_json else None, passed=not found.faults)


def witness(
    published: Annotated[
        str, typer.Option("--from", help="The published log to witness: its folder or web address.")
    ],
    state: Annotated[
        Path, typer.Option("--state", help="Your own folder, where the last head is kept.")
    ],
    key: Annotated[Path, typer.Option("--key", help="Your key file, made for witnessing.")],
    log_key: Annotated[
        str,
        typer.Option("--log-key", help="Verifier key of a log that you see for the first time."),
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", help="File for the cosigned note; printed if not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Cosign somebody's published log if it continues what you saw before; refuse a fork."""
    from workbench.lab import utc_now
    from workbench.registry.personal_keys import load_cosigner
    from workbench.registry.places import place_of
    from workbench.registry.published import PublishedLog
    from workbench.registry.witness import witness as cosign

    cosigner = load_cosigner(key)
    log = PublishedLog(place_of(published))
    done = cosign(log, key=cosigner, state=state, clock=utc_now, log_vkey=log_key)
    before = done.before.size if done.before else 0
    if as_json:
        told = {"origin": done.head.origin, "size": done.head.size, "before": before}
        print_json({**told, "cosigned": done.cosigned, "witness": str(cosigner.verifier)})
        return
    if out is None:
        typer.echo(done.cosigned, nl=False)
        return
    out.write_text(done.cosigned, "utf-8")
    say(f"{out}: {done.head.size} entries of {done.head.origin}, {before} of them seen before")
    say(f"Give it to the log's keeper: workbench anchor --cosigned {out.name} \\")
    say(f"  --witness {cosigner.verifier}")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidFileError(f"{path} cannot be read: {error.strerror}") from error
