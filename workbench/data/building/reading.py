"""The first two stages of a build in one pass: documents read and cleaned, equal ones left out.

One pass, since ``max_bytes`` counts what is left after both.
"""

import contextlib
import difflib
import json
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

from workbench.canonical import Json
from workbench.data.building.losses import refuse_repeated
from workbench.data.building.samples import (
    Drawn,
    IsSealed,
    Samples,
    excerpt,
    shown_record,
    stored_record,
)
from workbench.data.building.stages import stage_key
from workbench.data.building.table import Row, Table, TableWriter
from workbench.data.config import CorpusConfig, SourceConfig
from workbench.data.manifest import Removed, Sample, StageRecord
from workbench.data.text.cleaning import EXCLUDED, Cleaned, Cleaning, cleaned_documents
from workbench.data.text.dedup import Place, SeenTexts, content_digest
from workbench.data.text.files import source_files
from workbench.data.text.sources import is_local, source_identity
from workbench.data.workers import Workers
from workbench.errors import InvalidFileError

_READ = "read.json"
_BATCH = 256
_MOST_NAMES = 20_000


@dataclass(frozen=True, kw_only=True)
class DomainRead:
    """How much was taken from one domain's source."""

    read: int
    read_bytes: int
    cut: int
    cut_bytes: int
    exhausted: bool


class Reading:
    """What decides the first two stages of a corpus, and how they are done."""

    def __init__(self, config: CorpusConfig, *, root: Path, workers: Workers) -> None:
        """Hash the files of local sources.

        Raises:
            NotFoundError: a source does not exist.
            InvalidFileError: a path outside the lab.
        """
        self._config = config
        self._root = root
        self._workers = workers
        self.domains = tuple(sorted(config.sources))
        """Alphabetical: which of two equal documents is kept must not hang on the keys' order."""
        self._cleaning = Cleaning(
            max_document_bytes=config.max_document_bytes, excluded=frozenset(config.exclude)
        )
        self._read_settings: dict[str, Json] = {
            "sources": {
                domain: source_identity(config.sources[domain], root=root)
                for domain in self.domains
            },
            "max_document_bytes": config.max_document_bytes,
            "exclude": sorted(config.exclude),
        }
        self._exact_settings: dict[str, Json] = {
            "method": config.deduplicate,
            "unicode": unicodedata.unidata_version,
        }
        self._read_key = stage_key("", "read", self._read_settings)
        self.key = stage_key(self._read_key, "exact_duplicates", self._exact_settings)
        """Of the two stages together."""

    def write(self, folder: Path, progress: Callable[[str, float], None]) -> None:
        """Read every source into a table in the folder.

        Raises:
            InvalidFileError: a source cannot be read, or an exclusion names no document.
            NotFoundError: a source does not exist.
            StoreUnavailableError: the hub cannot be reached.
        """
        seen = SeenTexts()
        takers = {
            domain: _Taker(place, self.domains, self._config.sources[domain], seen)
            for place, domain in enumerate(self.domains)
        }
        for domain, taker in takers.items():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                self._read(taker, domain, folder, Path(scratch), progress)
        table = Table(folder, self.domains)
        self._refuse_unknown(set().union(*(taker.excluded for taker in takers.values())), table)
        _write_result(folder, takers, self._records(takers, table))

    def _read(
        self,
        taker: "_Taker",
        domain: str,
        folder: Path,
        scratch: Path,
        progress: Callable[[str, float], None],
    ) -> None:
        source, place = self._config.sources[domain], self.domains.index(domain)
        expected = self._expected_bytes(source)
        documents = cleaned_documents(
            source, self._cleaning, root=self._root, scratch=scratch, workers=self._workers
        )
        with TableWriter(folder, domain) as writer, contextlib.closing(documents):
            for batch in _batches(documents):
                taker.take(batch, writer)
                share = min(1.0, taker.kept_bytes / expected)
                progress(f"reading {domain}", (place + share) / len(self.domains))
                if not taker.exhausted:
                    return

    def _expected_bytes(self, source: SourceConfig) -> int:
        if not is_local(source.source):
            return source.max_bytes
        files = source_files(source.source, root=self._root)
        return max(1, min(source.max_bytes, sum(file.stat().st_size for file in files)))

    def _refuse_unknown(self, excluded: set[str], table: Table) -> None:
        unknown = sorted(set(self._config.exclude) - excluded)
        if unknown:
            near = _nearest(unknown[0], table)
            raise InvalidFileError(
                f"exclude names {unknown[0]!r}, which is no document that was read"
                + (f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""),
                remedy=f"write one of {', '.join(near)}, or remove it from exclude"
                if near
                else "remove it from exclude",
            )

    def _records(self, takers: dict[str, "_Taker"], table: Table) -> list[dict[str, Json]]:
        """The two records as they are stored."""
        return [
            stored_record(
                StageRecord(
                    name="read",
                    key=self._read_key,
                    settings=self._read_settings,
                    removed={domain: of.faulty.removed() for domain, of in takers.items()},
                ),
                {domain: of.faulty.drawn(table) for domain, of in takers.items()},
            ),
            stored_record(
                StageRecord(
                    name="exact_duplicates",
                    key=self.key,
                    settings=self._exact_settings,
                    removed={domain: of.repeated.removed() for domain, of in takers.items()},
                ),
                {domain: of.repeated.drawn(table) for domain, of in takers.items()},
            ),
        ]


def take_read(
    folder: Path, *, is_sealed: IsSealed
) -> tuple[dict[str, DomainRead], list[StageRecord]]:
    """Return the account and the two records that `Reading.write` left.

    Args:
        folder: where it wrote.
        is_sealed: which texts are hidden from the samples.

    Raises:
        InvalidFileError: a source is little but what other domains hold.
    """
    stored = json.loads((folder / _READ).read_text("utf-8"))
    accounts = {domain: DomainRead(**account) for domain, account in stored["domains"].items()}
    records = [shown_record(record, is_sealed) for record in stored["records"]]
    for domain, (repeated, sound) in stored["repeated"].items():
        refuse_repeated(domain, records[1].removed[domain], repeated, sound)
    return accounts, records


def _write_result(
    folder: Path, takers: dict[str, "_Taker"], records: list[dict[str, Json]]
) -> None:
    stored = {
        "domains": {domain: asdict(taker.account()) for domain, taker in takers.items()},
        "records": records,
        "repeated": {
            domain: [taker.repeated_bytes, taker.sound_bytes] for domain, taker in takers.items()
        },
    }
    (folder / _READ).write_text(json.dumps(stored), "utf-8")


def _batches(documents: Iterable[Cleaned]) -> Iterator[list[Cleaned]]:
    iterator = iter(documents)
    while batch := list(islice(iterator, _BATCH)):
        yield batch


def _nearest(name: str, table: Table) -> list[str]:
    found: list[str] = []
    for domain in table.domains:
        names = [row.id for row in islice(table.rows(domain), _MOST_NAMES)]
        found += difflib.get_close_matches(name, names, n=3)
    return difflib.get_close_matches(name, found, n=3)


@dataclass(frozen=True, kw_only=True)
class _Left:
    """A document that was not taken."""

    id: str
    excerpt: str
    digest: str
    reason: str
    place: Place | None


@dataclass
class _LeftOut:
    """What one of the two stages leaves out of one domain."""

    stage: str
    domains: tuple[str, ...]
    num_bytes: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._samples: Samples[_Left] = Samples(self.stage)

    def add(self, document: Cleaned, reason: str, place: Place | None) -> None:
        self.reasons[reason] += 1
        self.num_bytes += document.num_bytes
        left = _Left(
            id=document.id,
            excerpt=excerpt(document.text),
            # One that is left out by hand may have an equal that is kept, and sealed.
            digest=document.digest or content_digest(document.text),
            reason=reason,
            place=place,
        )
        self._samples.add(document.id, left)

    def removed(self) -> Removed:
        return Removed(
            documents=self.reasons.total(),
            bytes=self.num_bytes,
            reasons=dict(sorted(self.reasons.items())),
        )

    def drawn(self, table: Table) -> list[Drawn]:
        found = []
        for left in self._samples.drawn():
            why, twin = left.reason, ""
            if left.place is not None:
                first = table.row(self.domains[left.place.domain], left.place.number)
                why, twin = f"same text as {first.id}", first.digest
            sample = Sample(id=left.id, why=why, excerpt=left.excerpt)
            found.append(Drawn(sample=sample, reason=left.reason, digest=left.digest, twin=twin))
        return found


class _Taker:
    """Takes one domain's documents until its ``max_bytes`` are reached."""

    def __init__(
        self, place: int, domains: tuple[str, ...], source: SourceConfig, seen: SeenTexts
    ) -> None:
        self._place = place
        self._domains = domains
        self._max_bytes = source.max_bytes
        self._seen = seen
        self._read = self._read_bytes = self._cut = self._cut_bytes = 0
        self.faulty = _LeftOut("read", domains)
        self.repeated = _LeftOut("exact_duplicates", domains)
        self.kept_bytes = 0
        self.sound_bytes = 0
        """Of documents without a fault."""
        self.repeated_bytes = 0
        """Of those, equal to a document of another domain."""
        self.exhausted = True
        self.excluded = set[str]()

    def account(self) -> DomainRead:
        return DomainRead(
            read=self._read,
            read_bytes=self._read_bytes,
            cut=self._cut,
            cut_bytes=self._cut_bytes,
            exhausted=self.exhausted,
        )

    def take(self, batch: list[Cleaned], writer: TableWriter) -> None:
        sound = [document.digest for document in batch if not document.fault]
        places = dict(zip(sound, self._seen.first(sound), strict=True))
        for document in batch:
            self._count(document)
            if document.fault:
                self._leave_faulty(document)
                continue
            self.sound_bytes += document.num_bytes
            place = places[document.digest]
            if place is not None:
                self._leave_repeated(document, place)
                continue
            places[document.digest] = self._keep(document, writer)
            if self.kept_bytes >= self._max_bytes:
                self.exhausted = False
                return

    def _count(self, document: Cleaned) -> None:
        self._read += 1
        self._read_bytes += document.whole_bytes
        if document.num_bytes < document.whole_bytes:
            self._cut += 1
            self._cut_bytes += document.whole_bytes - document.num_bytes

    def _leave_faulty(self, document: Cleaned) -> None:
        self.faulty.add(document, document.fault, None)
        if document.fault == EXCLUDED:
            self.excluded.add(document.id)

    def _leave_repeated(self, document: Cleaned, place: Place) -> None:
        if place.domain != self._place:
            self.repeated_bytes += document.num_bytes
        self.repeated.add(document, f"same as {self._domains[place.domain]}", place)

    def _keep(self, document: Cleaned, writer: TableWriter) -> Place:
        place = Place(domain=self._place, number=writer.num_rows)
        writer.write(
            Row(
                domain=self._domains[self._place],
                number=place.number,
                id=document.id,
                text=document.text,
                digest=document.digest,
                num_bytes=document.num_bytes,
                provenance=document.provenance,
                licence=document.licence,
                language=document.language,
            )
        )
        self._seen.add(document.digest, place)
        self.kept_bytes += document.num_bytes
        return place
