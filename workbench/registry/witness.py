"""What another person does for a log: keep its last head, and cosign only what continues it.

A witness keeps a folder of its own. For each log it holds the verifier key that was trusted when
the log was first seen, the last head that was cosigned, and the evidence of what was refused.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from workbench.errors import IntegrityError, NotRegisteredError, WorkbenchError
from workbench.layout import safe_name
from workbench.registry import proofs
from workbench.registry.cosignatures import Cosigner
from workbench.registry.files import alone_in, write_atomic
from workbench.registry.heads import SignedHead, head_name, parse_head, verify_head
from workbench.registry.log import HashSource, LogSource
from workbench.registry.merkle import verify_consistency
from workbench.registry.notes import VerifierKey
from workbench.registry.rotation import chain_of

LAST_HEAD = "last-head"
LOG_KEY = "log.vkey"
EARLIER_KEYS = "earlier.vkeys"
"""Keys of the log that were replaced, a line each: a head by one of them is the log's own, too."""
EVIDENCE = "evidence"


class WitnessedLog(LogSource, HashSource, Protocol):
    """A published log, as a witness reads it."""

    def head(self) -> SignedHead:
        """Return the published head, its signature unchecked."""


@dataclass(frozen=True, kw_only=True)
class Witnessed:
    """What a witness did with a head."""

    head: SignedHead
    before: SignedHead | None
    """The last head of this log that was cosigned before; None when this is the first."""
    cosigned: str
    """The head's note with the log's signature and this witness's, to be given to the log."""


def witness(
    log: WitnessedLog,
    *,
    key: Cosigner,
    state: Path,
    clock: Callable[[], datetime],
    log_vkey: str = "",
) -> Witnessed:
    """Cosign the head of a log if it continues the last one that this witness cosigned.

    The new head is kept durably before the cosignature is returned.

    Args:
        log: the published log.
        key: the witness's key.
        state: the witness's own folder; made if it is not there.
        clock: returns the present moment with its time zone.
        log_vkey: verifier key of the log; needed for a log that was never witnessed before. Get it
            from the log's keeper by another way than the log. Rotations that the log records, each
            signed by the key before, are followed.

    Raises:
        NotRegisteredError: the log is unknown here and no key was given.
        IntegrityError: the head is not signed by the log's key, was rolled back, or is of another
            history. Then both heads lie in the state's ``evidence`` folder and nothing is cosigned.
        InvalidFileError: the log's origin cannot be the name of a folder.
    """
    offered = log.head()
    folder = state / safe_name(offered.origin.replace("/", "_"))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Of two at once, the second compares with what the first has kept: no head is ever taken back.
    with alone_in(folder):
        trusted = _log_key(folder, offered.origin, log_vkey)
        before = _last_head(folder, offered.origin)
        try:
            trusted, head = _signed(log, offered, trusted)
        except IntegrityError:
            _refuse_old_key(offered, before, folder)
            raise
        _check_continues(log, head, before, folder)
        line = key.cosign(head.note, clock())
        _keep_earlier_keys(log, folder, trusted, is_first=before is None)
        write_atomic(folder / LOG_KEY, f"{trusted}\n".encode())
        write_atomic(folder / LAST_HEAD, head.note.encode())
    return Witnessed(head=head, before=before, cosigned=head.note + line)


def _log_key(folder: Path, origin: str, given: str) -> VerifierKey:
    path = folder / LOG_KEY
    text = given or (path.read_text("utf-8") if path.is_file() else "")
    if not text:
        raise NotRegisteredError(
            f"the log {origin!r} was never witnessed here: its key is not known",
            remedy="ask the log's keeper for the verifier key and give it with --log-key",
        )
    key = VerifierKey.parse(text)
    if key.name != origin:
        raise IntegrityError(f"the key is of log {key.name!r}, the head of {origin!r}")
    return key


def _signed(
    log: LogSource, offered: SignedHead, key: VerifierKey
) -> tuple[VerifierKey, SignedHead]:
    """Return the head with the key that signed it: the known one, or one that it was rotated to."""
    try:
        return key, verify_head(offered.note, key)
    except IntegrityError as error:
        refusal = error
    try:
        chain = chain_of(log)
        newest = chain.log_at(offered.size)
        if chain.knows(str(key)):
            return newest, verify_head(offered.note, newest)
    except IntegrityError as error:
        refusal = error
    raise IntegrityError(
        f"the head of {offered.origin!r} over {offered.size} entries is not the log's: "
        f"{refusal.message}",
        remedy="ask the log's keeper; a new key that no rotation leads to is given with --log-key",
    )


def _keep_earlier_keys(
    log: LogSource, folder: Path, trusted: VerifierKey, *, is_first: bool
) -> None:
    """Remember the keys before this one, when the log is first seen and when its key changed."""
    path = folder / LOG_KEY
    if not is_first and path.is_file() and path.read_text("utf-8").strip() == str(trusted):
        return
    found = _earlier_keys(folder)
    with contextlib.suppress(IntegrityError):
        found += [str(key) for _, key in chain_of(log).history("log")]
    if path.is_file():
        found.append(path.read_text("utf-8").strip())
    lines = [f"{vkey}\n" for vkey in dict.fromkeys(found) if vkey != str(trusted)]
    write_atomic(folder / EARLIER_KEYS, "".join(lines).encode())


def _earlier_keys(folder: Path) -> list[str]:
    path = folder / EARLIER_KEYS
    return path.read_text("utf-8").split() if path.is_file() else []


def _refuse_old_key(offered: SignedHead, before: SignedHead | None, folder: Path) -> None:
    """Refuse a head by a key that was replaced before the last head was cosigned, and keep both.

    Raises:
        IntegrityError: it is one, or covers less than was cosigned and no known key signed it.
    """
    if before is None:
        return
    fewer = f"it had {before.size} entries, now {offered.size}"
    if any(_is_signed(offered.note, vkey) for vkey in _earlier_keys(folder)):
        rolled_back = f"{offered.origin!r} was rolled back: {fewer}, under a key replaced since"
        forked = (
            f"{offered.origin!r} was forked: a key that was replaced signed {offered.size} "
            f"entries, after {before.size} were cosigned here"
        )
        told = rolled_back if offered.size < before.size else forked
        raise _with_evidence(folder, before, offered, told)
    if offered.size < before.size:
        raise IntegrityError(
            f"{offered.origin!r} is shown with fewer entries than were cosigned here ({fewer}), "
            "and no key that is known here signed its head: it was rolled back, or is another's",
            remedy="do not take a key from it; ask the log's keeper by another way than the log",
        )


def _is_signed(note: str, vkey: str) -> bool:
    try:
        verify_head(note, VerifierKey.parse(vkey))
    except IntegrityError:
        return False
    return True


def _last_head(folder: Path, origin: str) -> SignedHead | None:
    path = folder / LAST_HEAD
    if not path.is_file():
        return None
    # This witness verified it when it was kept; the log may have rotated its key since.
    head = parse_head(path.read_bytes().decode("utf-8", "replace"))
    if head.origin != origin:
        raise IntegrityError(f"{path} is a head of {head.origin!r}, not of {origin!r}")
    return head


def _check_continues(
    log: HashSource, head: SignedHead, before: SignedHead | None, folder: Path
) -> None:
    if head.size == 0:
        raise IntegrityError(f"the head of {head.origin!r} covers no entry")
    if proofs.root(log, head.size) != head.root:
        # The tiles are not what was signed: damage, or a publication under way. No fork is shown.
        raise IntegrityError(
            f"the tiles of {head.origin!r} do not give the root of its head over {head.size}",
            remedy="fetch the log again; if it stays so, ask its keeper to publish anew",
        )
    if before is None:
        return
    try:
        _check_consistent(log, before, head)
    except WorkbenchError as error:
        raise _with_evidence(folder, before, head, error.message) from error


def _check_consistent(log: HashSource, before: SignedHead, head: SignedHead) -> None:
    if head.size < before.size:
        raise IntegrityError(
            f"{head.origin!r} was rolled back: it had {before.size} entries, now {head.size}"
        )
    try:
        path = proofs.consistency(log, before.size, head.size) if before.size < head.size else []
        verify_consistency(before.size, head.size, before.root, head.root, path)
    except IntegrityError as error:
        raise IntegrityError(
            f"{head.origin!r} was forked: its {head.size} entries do not begin with the "
            f"{before.size} that were cosigned here"
        ) from error


def _with_evidence(folder: Path, before: SignedHead, head: SignedHead, told: str) -> IntegrityError:
    """Keep both heads and return the refusal that names them."""
    evidence = folder / EVIDENCE / f"{head_name(before)}-against-{head_name(head)}"
    evidence.mkdir(parents=True, exist_ok=True)
    for name, kept in (("cosigned", before), ("offered", head)):
        write_atomic(evidence / name, kept.note.encode())
    return IntegrityError(
        f"{told}. Not cosigned; both signed heads are in {evidence}",
        remedy="show them to everybody who relies on this log",
    )
