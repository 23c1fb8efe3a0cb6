"""Which heads of a log others vouch for, held against the log and against whom a reader trusts."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from workbench.errors import IntegrityError, WorkbenchError
from workbench.registry import proofs
from workbench.registry.anchors import KeptCosigned, KeptStamp, Read, kept_anchors
from workbench.registry.cosignatures import CosignerKey, cosignatures_by
from workbench.registry.counts import entries_of
from workbench.registry.git_heads import SHORT, head_commits
from workbench.registry.heads import SignedHead, heads_in, parse_head, verify_head
from workbench.registry.log import HashSource, timestamp
from workbench.registry.notes import VerifierKey
from workbench.registry.stamps import StampReader

AnchorKind: TypeAlias = Literal["git", "rfc3161", "witness", "report"]
_WORDS = {"rfc3161": "time stamp by", "witness": "cosigned by", "git": "", "report": "printed in"}
_PLURAL = {
    "rfc3161": "by time stamp",
    "witness": "by witness",
    "git": "in git commits",
    "report": "in kept reports",
}
INSTALL = "pip install 'pretrain-workbench[timestamps]'"


@dataclass(frozen=True, kw_only=True)
class AnchorTrust:
    """Whom a reader believes, and what lies outside the log that it can be held against."""

    witnesses: tuple[str, ...] = ()
    """C2SP verifier keys (type 4) that the reader got from the witnesses."""
    tsa_roots: tuple[bytes, ...] = ()
    """PEM certificates of time-stamping authorities."""
    reports: tuple[tuple[str, str], ...] = ()
    """Name and text of chronicles or notes that the reader kept, in which heads are printed."""
    stamps: StampReader | None = None
    """Reads time stamps; None where the extra is not installed."""
    git_file: Path | None = None
    """The published head in a git work tree; None to leave git out."""


@dataclass(frozen=True, kw_only=True)
class AnchoredHead:
    """A head that something outside the log vouches for, and that fits the log."""

    kind: AnchorKind
    size: int
    """Entries that the head covers."""
    moment: str
    """They existed by then (RFC 3339, UTC); empty where nothing says when."""
    by: str
    """Who says so."""
    trusted: bool
    """Whether the reader named whom to believe and the signature was checked against that."""
    remark: str
    """What it rests on, or why it was not checked."""
    where: str
    """File or commit."""


@dataclass(frozen=True, kw_only=True)
class AnchorFindings:
    """What the anchors of a log say."""

    anchors: tuple[AnchoredHead, ...]
    """By size, then by moment."""
    faults: tuple[str, ...]
    """Where an anchor contradicts the log (rewritten, cut back) or is damaged itself."""
    silent: tuple[str, ...] = ()
    """Witnesses whom the reader named and whose cosignature is not there."""

    def summary(self) -> Iterator[str]:
        """Yield how many anchors of each kind there are, and every fault."""
        kinds = Counter(anchor.kind for anchor in self.anchors)
        if kinds:
            told = ", ".join(f"{number} {_PLURAL[kind]}" for kind, number in kinds.items())
            yield f"anchors   {told}; the newest covers {entries_of(self.anchors[-1].size)}"
        yield from self._remarks()

    def lines(self) -> Iterator[str]:
        """Yield one line an anchor, the faults after them."""
        for anchor in self.anchors:
            when = f" at {shown(anchor.moment)}" if anchor.moment else ""
            yield f"anchor    {entries_of(anchor.size)}: {words(anchor)}{when} ({anchor.remark})"
        yield from self._remarks()

    def _remarks(self) -> Iterator[str]:
        """Yield how git's dates come about, who said nothing, and every fault."""
        if any(anchor.kind == "git" for anchor in self.anchors):
            yield "          a git commit is dated by the machine that made it"
        for name in self.silent:
            yield f"note      no cosignature by {name}: ask them for their last head"
        for fault in self.faults:
            yield f"FAIL      anchor {fault}"


def words(anchor: AnchoredHead) -> str:
    """Return who vouches, as a sentence would name it."""
    return f"{_WORDS[anchor.kind]} {anchor.by}".strip()


def shown(moment: str) -> str:
    """Return a moment without milliseconds where it has none."""
    return moment.replace(".000Z", "Z")


class AnchoredLog(HashSource, Protocol):
    """A log whose entries were verified under its newest head."""

    @property
    def origin(self) -> str:
        """The log's identity."""


def find_anchors(
    log: AnchoredLog,
    *,
    size: int,
    key_at: Callable[[int], VerifierKey],
    read: Read | None,
    trust: AnchorTrust,
) -> AnchorFindings:
    """Return the anchors of a verified log, each held against it.

    Args:
        log: its entries and tree were verified.
        size: entries under its newest head.
        key_at: returns the log key that signs heads over this many entries.
        read: reads a file of the published log; None for a store without published files.
        trust: whom the reader believes.
    """
    search = _Search(log, size, key_at, trust)
    try:
        for kept in kept_anchors(read) if read is not None else ():
            search.take_kept(kept)
    except IntegrityError as error:
        search.faults.append(error.message)
    search.take_git()
    search.take_reports()
    order = sorted(search.found, key=lambda anchor: (anchor.size, anchor.moment, anchor.where))
    return AnchorFindings(
        anchors=tuple(order), faults=tuple(search.faults), silent=tuple(search.silent())
    )


class _Search:
    """Collects anchors that fit the log, and faults."""

    def __init__(
        self,
        log: AnchoredLog,
        size: int,
        key_at: Callable[[int], VerifierKey],
        trust: AnchorTrust,
    ) -> None:
        self._log = log
        self._size = size
        self._key_at = key_at
        self._trust = trust
        self._witnesses = [CosignerKey.parse(vkey) for vkey in trust.witnesses]
        self.found: list[AnchoredHead] = []
        self.faults: list[str] = []

    def take_kept(self, kept: KeptCosigned | KeptStamp) -> None:
        """Take what is kept beside the log."""
        try:
            head = self._signed(kept.note)
            self._check_prefix(head.size, head.root)
            if isinstance(kept, KeptCosigned):
                self.found += self._cosigned(head, kept)
            else:
                self.found.append(self._stamped(head, kept))
        except WorkbenchError as error:
            self.faults.append(f"{kept.path}: {error.message}")

    def silent(self) -> Iterator[str]:
        """Yield the named witnesses of whom no cosignature was found."""
        heard = {anchor.by for anchor in self.found if anchor.kind == "witness" and anchor.trusted}
        return (key.name for key in self._witnesses if key.name not in heard)

    def take_git(self) -> None:
        """Take the heads in the history of the published head, each by its first commit."""
        file = self._trust.git_file
        if file is None:
            return
        seen: set[tuple[int, bytes]] = set()
        for change in head_commits(file):
            try:
                head = self._signed(change.note)
            except IntegrityError:
                continue  # another log's, or no head at all: a history may hold anything
            name = f"git commit {change.commit[:SHORT]}"
            if (head.size, head.root) in seen or not self._holds(name, head.size, head.root):
                continue
            seen.add((head.size, head.root))
            shared = "a remote or a tag has it" if change.is_shared else "no remote or tag has it"
            self.found.append(
                AnchoredHead(
                    kind="git",
                    size=head.size,
                    moment=change.time,
                    by=name,
                    trusted=False,
                    remark=shared,
                    where=change.commit,
                )
            )

    def take_reports(self) -> None:
        """Take the heads that are printed in what the reader kept."""
        for name, text in self._trust.reports:
            heads = [h for h in heads_in(text) if h[0] == self._log.origin]
            if not heads:
                self.faults.append(f"{name}: no tree head of {self._log.origin!r} is printed in it")
            self.found += [
                AnchoredHead(
                    kind="report",
                    size=size,
                    moment="",
                    by=name,
                    trusted=True,
                    remark="you kept it: what it shows, not since when",
                    where=name,
                )
                for _, size, root in heads
                if self._holds(name, size, root)
            ]

    def _cosigned(self, head: SignedHead, kept: KeptCosigned) -> Iterator[AnchoredHead]:
        named = CosignerKey.parse(kept.vkey)
        for key in dict.fromkeys([*self._witnesses, named]):
            trusted = key in self._witnesses
            seen = cosignatures_by(kept.note, key)
            if not seen and key == named:
                raise IntegrityError(f"it carries no cosignature by {key}")
            if seen:
                first = min(seen, key=lambda cosignature: cosignature.moment)
                yield AnchoredHead(
                    kind="witness",
                    size=head.size,
                    moment=timestamp(first.moment),
                    by=key.name,
                    trusted=trusted,
                    remark="by a key that you named"
                    if trusted
                    else f"by the key that lies beside the log: --witness {key} if it is theirs",
                    where=kept.path,
                )

    def _stamped(self, head: SignedHead, kept: KeptStamp) -> AnchoredHead:
        reader, message = self._trust.stamps, kept.note.encode()
        stamp = None
        remark = f"not checked: {INSTALL}"
        if reader is not None:
            stamp = reader.read_stamp(kept.response, message)
            remark = "not checked against a root certificate: give one with --tsa-root PEM"
            if self._trust.tsa_roots:
                remark = "no root certificate that you gave vouches for it"
                with contextlib.suppress(IntegrityError):
                    stamp = reader.verify_stamp(kept.response, message, self._trust.tsa_roots)
                    remark = "checked up to a root certificate that you gave"
        return AnchoredHead(
            kind="rfc3161",
            size=head.size,
            moment=timestamp(stamp.latest) if stamp else "",
            by=stamp.authority if stamp else "a time-stamping authority",
            trusted=stamp is not None and stamp.checked,
            remark=remark,
            where=kept.path,
        )

    def _holds(self, name: str, size: int, root: bytes) -> bool:
        try:
            self._check_prefix(size, root)
        except IntegrityError as error:
            self.faults.append(f"{name}: {error.message}")
            return False
        return True

    def _check_prefix(self, size: int, root: bytes) -> None:
        if size > self._size:
            raise IntegrityError(
                f"its head covers {size} entries, the log has {self._size}: it was cut back"
            )
        if proofs.root(self._log, size) != root:
            raise IntegrityError(f"the first {size} entries are not those of its head")

    def _signed(self, note: str) -> SignedHead:
        return verify_head(note, self._key_at(parse_head(note).size))
