"""Methods that prove entries, and keep what others say about the log."""

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from workbench.errors import (
    IntegrityError,
    InvalidFileError,
    MissingDependencyError,
    NotFoundError,
)
from workbench.lab.opened import OpenedLab
from workbench.registry.anchored import INSTALL, AnchorFindings, AnchorTrust
from workbench.registry.anchors import (
    keep_cosigned,
    keep_head,
    keep_stamp,
    most_cosigned,
    refuse_foreign,
    stampable_heads,
)
from workbench.registry.cosignatures import CosignerKey
from workbench.registry.entries import BODIES
from workbench.registry.heads import SignedHead
from workbench.registry.proving import ProofReport, check_proof, prove
from workbench.registry.published import PublishedLog
from workbench.registry.stamps import Stamp, StampReader


class TimestampsExtra:
    """Reads time stamps; the library is loaded when there is one to read."""

    def read_stamp(self, response: bytes, message: bytes) -> Stamp:
        """Return what a response says, its signature not checked."""
        from workbench.registry import timestamps

        return timestamps.read_stamp(response, message)

    def verify_stamp(self, response: bytes, message: bytes, roots: Sequence[bytes]) -> Stamp:
        """Return what a response says, its signature checked up to one of the roots."""
        from workbench.registry import timestamps

        return timestamps.verify_stamp(response, message, roots)


def stamp_reader() -> StampReader | None:
    """Return what reads time stamps, None where the extra is not installed."""
    found = importlib.util.find_spec("rfc3161_client")
    return TimestampsExtra() if found is not None else None


def require_timestamps_extra() -> None:
    """Do nothing where the extra ``timestamps`` is installed.

    Raises:
        MissingDependencyError: it is not.
    """
    if stamp_reader() is None:
        raise MissingDependencyError("RFC 3161 time stamps need an extra", remedy=INSTALL)


def trust_in(
    *, witnesses: Sequence[str] = (), roots: Sequence[Path] = (), reports: Sequence[Path] = ()
) -> AnchorTrust:
    """Return whom a reader believes.

    Args:
        witnesses: C2SP verifier keys (type 4).
        roots: PEM files with certificates of time-stamping authorities.
        reports: Files in which heads of the log are printed, kept by the reader.

    Raises:
        InvalidFileError: a file cannot be read.
    """
    return AnchorTrust(
        witnesses=tuple(witnesses),
        tsa_roots=tuple(_content(path) for path in roots),
        reports=tuple((str(path), _content(path).decode("utf-8", "replace")) for path in reports),
        stamps=stamp_reader(),
    )


def verify_proof(text: str, key: str, trust: AnchorTrust) -> ProofReport:
    """Verify a proof file by itself.

    Raises:
        InvalidFileError: no key was given: a proof by a key that it brings along proves nothing.
    """
    if not key:
        raise InvalidFileError(
            "a proof is verified with a key that you have from elsewhere",
            remedy="workbench verify --proof FILE --key VKEY",
        )
    return check_proof(text, vkey=key, witnesses=trust.witnesses)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidFileError(f"{path} cannot be read: {error.strerror}") from error


class Anchoring(OpenedLab):
    """Proofs and anchors of the published log."""

    def prove(self, number: str, *, kind: str = "registration", entry: int | None = None) -> str:
        """Return the proof (C2SP tlog-proof) of one entry of the published log.

        Args:
            number: the experiment.
            kind: which of its entries: the first of this kind.
            entry: position of an entry in the log, instead of experiment and kind.

        Raises:
            NotFoundError: nothing is published, or no such entry is.
            InvalidFileError: there is no such kind.
        """
        log = self._published()
        sequence = entry if entry is not None else self._first(log, number, kind)
        return prove(log, sequence, most_cosigned(log.read, log.head(), sequence)).to_text()

    @property
    def published_vkey(self) -> str:
        """The verifier key that lies beside the published log.

        Raises:
            NotFoundError: nothing is published.
        """
        return self._published().vkey

    def stamp(self, urls: Sequence[str]) -> list[tuple[str, Stamp]]:
        """Have the newest published head stamped by each authority; return file and stamp.

        Raises:
            MissingDependencyError: the extra ``timestamps`` is not installed.
            StoreUnavailableError: an authority gave no stamp; those before it are kept.
        """
        require_timestamps_extra()
        from workbench.registry.timestamps import ask

        head = self._published().head()
        return [self._keep(head, ask(url, head.note.encode())) for url in urls]

    def stamp_query(self) -> tuple[Path, bytes]:
        """Return the file of the newest published head and a request to stamp it, for later."""
        require_timestamps_extra()
        from workbench.registry.timestamps import query

        head = self._published().head()
        return keep_head(self.layout.registry, head), query(head.note.encode())

    def keep_response(self, response: bytes) -> tuple[str, Stamp]:
        """Keep an authority's response over a head for which a request was made.

        Raises:
            IntegrityError: it is no time stamp of such a head.
        """
        require_timestamps_extra()
        heads = [self._published().head(), *stampable_heads(self.layout.registry)]
        refusal = IntegrityError("no head was published")
        for head in heads:
            try:
                return self._keep(head, response)
            except IntegrityError as error:
                refusal = error
        raise IntegrityError(
            f"{refusal.message}, not over one of {len(heads)} published heads",
            remedy="workbench anchor --query FILE, have that stamped, then --response",
        )

    def keep_cosigned(self, note: str, witness: str) -> Path:
        """Keep a cosigned note that a witness made of a published head.

        Raises:
            IntegrityError: the witness did not cosign it, or it is no head of this log.
        """
        log = self._published()
        return keep_cosigned(self.layout.registry, log, note, CosignerKey.parse(witness))

    def anchors(self, trust: AnchorTrust | None = None) -> AnchorFindings:
        """Return what others say about the published log; the log itself is not verified here."""
        from workbench.reports.outside import anchors_of

        log = self._published()
        size = log.head().size
        trust = replace(trust or trust_in(), git_file=self.layout.registry / "checkpoint")
        return anchors_of(log, size=size, read=log.read, trust=trust)

    def _keep(self, head: SignedHead, response: bytes) -> tuple[str, Stamp]:
        from workbench.registry.timestamps import read_stamp

        stamp = read_stamp(response, head.note.encode())
        refuse_foreign(self._published(), head)
        return str(keep_stamp(self.layout.registry, head, response)), stamp

    def _published(self) -> PublishedLog:
        log = PublishedLog(self.layout.registry)
        log.head()
        return log

    def _first(self, log: PublishedLog, number: str, kind: str) -> int:
        if kind not in BODIES:
            raise InvalidFileError(
                f"{kind!r} is no kind of entry", remedy=f"one of {', '.join(sorted(BODIES))}"
            )
        subject = self.layout.experiment(number).name
        for entry in log.entries(kind=kind, subject=subject):
            return entry.sequence
        raise NotFoundError(
            f"{subject} has no {kind} in the published ledger",
            remedy="workbench status; what was recorded since the last publication needs "
            "workbench publish",
        )
