"""What others have said about heads of a log, kept beside its published files.

``registry/anchors/<size>-<root>/`` holds the head as it was published (``head``), each witness's
cosigned note with the key that it gave (``<id>.cosigned``, ``<id>.vkey``), and the responses of
time-stamping authorities over the bytes of ``head`` (``<hash>.tsr``). ``registry/anchors/index``
lists them, so that they can be read from any web server.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import IntegrityError, NotFoundError
from workbench.registry import proofs
from workbench.registry.cosignatures import CosignerKey, cosignatures_by
from workbench.registry.files import alone_in, write_atomic
from workbench.registry.heads import SignedHead, head_name, parse_head
from workbench.registry.log import HashSource

FOLDER = "anchors"
INDEX = f"{FOLDER}/index"
HEAD = "head"
COSIGNED, VKEY, STAMP = ".cosigned", ".vkey", ".tsr"
_LISTED = re.compile(
    r"anchors/[0-9]{1,19}-[0-9a-f]{8}/(head|[0-9a-f]{8}\.(cosigned|vkey)|[0-9a-f]{16}\.tsr)\Z"
)
MOST_LISTED = 100_000

Read = Callable[[str], bytes]
"""Returns a file of the published log by its path; raises IntegrityError where it cannot."""


@dataclass(frozen=True, kw_only=True)
class KeptCosigned:
    """A head with a witness's cosignature, as it was handed in; unverified."""

    path: str
    note: str
    vkey: str
    """The key that the witness named when it was handed in: trust it only if you know it."""


@dataclass(frozen=True, kw_only=True)
class KeptStamp:
    """A time-stamping authority's response over a head; unverified."""

    path: str
    note: str
    """The head that was stamped."""
    response: bytes
    """DER, RFC 3161."""


def keep_head(registry: Path, head: SignedHead) -> Path:
    """Write a head into the folder of its anchors, to be stamped, and return its path."""
    with _index(registry) as add:
        return add(f"{FOLDER}/{head_name(head)}/{HEAD}", head.note.encode())


def keep_cosigned(registry: Path, log: HashSource, note: str, witness: CosignerKey) -> Path:
    """Keep a head that a witness cosigned, beside the log that it is about.

    Args:
        registry: the published log's folder.
        log: the published log.
        note: the cosigned note that `workbench witness` made.
        witness: the key that the note must carry a cosignature of.

    Raises:
        IntegrityError: the witness did not cosign it, or it is no head of this log: then the log
            was forked, or the note is another log's.
    """
    if not cosignatures_by(note, witness):
        raise IntegrityError(f"the note carries no cosignature by {witness}")
    head = parse_head(note)
    refuse_foreign(log, head)
    stem = f"{FOLDER}/{head_name(head)}/{witness.key_id.hex()}"
    with _index(registry) as add:
        before = registry / f"{stem}{COSIGNED}"
        if before.is_file():
            note = _joined(before.read_text("utf-8"), note)
        add(f"{stem}{VKEY}", f"{witness}\n".encode())
        return add(f"{stem}{COSIGNED}", note.encode())


def keep_stamp(registry: Path, head: SignedHead, response: bytes) -> Path:
    """Keep an authority's response over a head, which the caller has checked; return its path."""
    folder = f"{FOLDER}/{head_name(head)}"
    with _index(registry) as add:
        add(f"{folder}/{HEAD}", head.note.encode())
        name = hashlib.sha256(response).hexdigest()[:16]
        return add(f"{folder}/{name}{STAMP}", response)


def stampable_heads(registry: Path) -> list[SignedHead]:
    """Return the heads that a response may be about: those kept to be stamped, the newest first."""
    heads = [parse_head(path.read_text("utf-8")) for path in (registry / FOLDER).glob(f"*/{HEAD}")]
    return sorted(heads, key=lambda head: -head.size)


def kept_anchors(read: Read) -> Iterator[KeptCosigned | KeptStamp]:
    """Yield what is kept beside a published log, in the order of its index.

    Raises:
        IntegrityError: a file that the index lists cannot be read, or the index is malformed.
    """
    names = _listed(read)
    for name in names:
        stem = name.rpartition(".")[0]
        if name.endswith(COSIGNED):
            vkey = _text(read, f"{stem}{VKEY}").strip()
            yield KeptCosigned(path=name, note=_text(read, name), vkey=vkey)
        elif name.endswith(STAMP):
            head = f"{name.rpartition('/')[0]}/{HEAD}"
            yield KeptStamp(path=name, note=_text(read, head), response=read(name))


def most_cosigned(read: Read, published: SignedHead, sequence: int) -> str:
    """Return the head over an entry that most witnesses cosigned, the newest of equals, verbatim.

    Nothing is verified here: who uses the head verifies it.

    Args:
        read: reads a file of the published log.
        published: the log's newest head.
        sequence: position of the entry that the head must cover.
    """
    notes = {head_name(published): published.note}
    for kept in kept_anchors(read):
        head = parse_head(kept.note)
        if isinstance(kept, KeptCosigned) and head.size > sequence:
            name = head_name(head)
            notes[name] = _joined(notes[name], kept.note) if name in notes else kept.note
    return max(notes.values(), key=lambda note: (note.count("\n— "), parse_head(note).size))


def refuse_foreign(log: HashSource, head: SignedHead) -> None:
    """Refuse a head that is not of a prefix of the published log.

    Raises:
        IntegrityError: it is not: the log was rewritten, cut back, or is another one.
    """
    if proofs.root(log, head.size) != head.root:
        raise IntegrityError(
            f"the first {head.size} entries of this log are not those of the head of "
            f"{head.origin!r}",
            remedy="workbench verify",
        )


def _joined(before: str, after: str) -> str:
    """Return a note with the signature lines that only another note of the same head has."""
    lines = before.split("\n")
    added = [line for line in after.rpartition("\n\n")[2].split("\n") if line not in lines]
    return "\n".join([*lines[:-1], *added, ""])


def _listed(read: Read) -> list[str]:
    try:
        names = _text(read, INDEX).split()
    except IntegrityError:
        return []  # nobody has said anything about this log
    wrong = next((name for name in names if not _LISTED.match(name)), "")
    if wrong or len(names) > MOST_LISTED:
        raise IntegrityError(f"{INDEX} lists {wrong[:80] or len(names)!r}, which is no anchor")
    return names


def _text(read: Read, name: str) -> str:
    return read(name).decode("utf-8", "replace")


@contextmanager
def _index(registry: Path) -> Iterator[Callable[[str, bytes], Path]]:
    """Let files be added and write the index after them; one writer at a time."""
    if not registry.is_dir():
        raise NotFoundError(f"{registry} holds no published log", remedy="workbench publish")
    folder = registry / FOLDER
    folder.mkdir(exist_ok=True)

    def add(name: str, data: bytes) -> Path:
        path = registry / name
        path.parent.mkdir(exist_ok=True)
        if not path.is_file() or path.read_bytes() != data:
            write_atomic(path, data)
        return path

    with alone_in(folder):
        yield add
        names = sorted(path.relative_to(registry).as_posix() for path in folder.glob("*/*"))
        listed = sorted((name for name in names if _LISTED.match(name)), key=_by_size)
        write_atomic(registry / INDEX, "".join(f"{name}\n" for name in listed).encode())


def _by_size(name: str) -> tuple[int, str]:
    return int(name.removeprefix(f"{FOLDER}/").partition("-")[0]), name
