"""Build a corpus: read, filter in stages, split, train the tokenizer, encode, hash.

The result of every stage is kept by a key over everything that decides it, so that a changed
filter repeats only what comes behind it. The corpus itself is made in a folder of its own that
takes its final name when it is complete and on disk: what is not finished cannot be opened.
"""

import importlib.metadata
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from workbench.canonical import Json
from workbench.data.building.cache import StageCache, new_folder, only_one, remove_abandoned
from workbench.data.building.encoding import (
    Encoded,
    Split,
    encode_corpus,
    largest,
    split_rows,
    token_type,
    trained_tokenizer,
)
from workbench.data.building.losses import refuse_empty
from workbench.data.building.measures import read_measures, write_measures
from workbench.data.building.reading import DomainRead, Reading, take_read
from workbench.data.building.stages import apply_stage, stage_key, take_result
from workbench.data.building.table import Table
from workbench.data.building.unchanged import ReadFiles
from workbench.data.config import CorpusConfig, all_sources
from workbench.data.corpus import (
    Corpus,
    corpus_fingerprint,
    corpus_folder,
    deciding_libraries,
    read_corpus,
)
from workbench.data.filters.contamination import contamination_of
from workbench.data.manifest import (
    DOCUMENTS_NAME,
    FORMAT,
    NGRAMS_NAME,
    TOKENIZER_NAME,
    DomainRecord,
    Manifest,
    StageRecord,
    file_sha256,
    seal,
    write_manifest,
)
from workbench.data.planned import (
    PlannedStage,
    planned_stages,
)
from workbench.data.splits import is_sealed
from workbench.data.text.builtin import text_versions
from workbench.data.text.sources import file_hashes, is_local
from workbench.data.workers import Workers
from workbench.errors import ConflictError, InvalidFileError

Progress: TypeAlias = Callable[[str, float], None]
"""Told the present stage and the share of the whole work done, 0 to 1."""

_STAGES = ".stages"
# Shares of a whole build's time, measured on built-in text with every stage on.
_READ_ENDS = 0.3
_STAGES_END = 0.7
_TOKENIZER_BEGINS = 0.75
_ENCODING_BEGINS = 0.8
_ENCODING_ENDS = 0.99


def build_corpus(
    config: CorpusConfig, *, root: Path, corpora: Path, progress: Progress, workers: int = 1
) -> Corpus:
    """Return the corpus, built first unless it exists.

    Args:
        config: what to build.
        root: the lab's folder, where relative source paths start.
        corpora: holds one folder a corpus.
        progress: told what is happening.
        workers: processes that read and filter; the result does not depend on it.

    Raises:
        ConflictError: a local file changed since the corpus was built under the same version, or
            while it was built.
        InvalidFileError: a source cannot be read, a split or vocabulary cannot be filled, or a
            stage would take more of a source than it may.
        NotFoundError: a source does not exist.
        IntegrityError: the existing corpus is damaged.
        RunFailedError: a worker process died.
        StoreUnavailableError: the disk is full, or the hub cannot be reached.
    """
    folder = corpus_folder(config, corpora)
    key = corpus_fingerprint(config)
    corpora.mkdir(parents=True, exist_ok=True)
    remove_abandoned(corpora)
    waiting = partial(progress, "waiting for another build of this corpus", 0.0)
    with only_one(folder, waiting):
        if folder.is_dir():
            corpus = read_corpus(folder, key=key)
            _refuse_changed_files(corpus, root)
        else:
            with Workers(workers) as crew, new_folder(folder) as work:
                told = _Rising(progress)
                busy = partial(told, "waiting for a stage that another build makes", 0.0)
                with StageCache(corpora / _STAGES, busy) as cache:
                    building = _Building(config, root=root, workers=crew, cache=cache)
                    write_manifest(building.write(work, key, told), work)
            corpus = read_corpus(folder, key=key)
    progress("ready", 1.0)
    return corpus


def _refuse_changed_files(corpus: Corpus, root: Path) -> None:
    built = _built_files(corpus.manifest)
    for source in {s.source for s in all_sources(corpus.manifest.config) if is_local(s.source)}:
        if [file.model_dump() for file in file_hashes(source, root=root)] not in built[source]:
            name, _, version = corpus.name.partition("@")
            raise ConflictError(
                f"the files of {source!r} changed since corpus {corpus.name} was built",
                remedy=f"call the corpus {name}@{int(version) + 1} in the recipe, or restore them",
            )


def _built_files(manifest: Manifest) -> dict[str, list[Json]]:
    """The files of each local source, as every stage that read them recorded them."""
    found: dict[str, list[Json]] = {}
    for stage in manifest.stages:
        read = [*stage.settings.get("sources", {}).values()]
        for identity in [*read, *stage.settings.get("references", {}).values()]:
            found.setdefault(identity["source"], []).append(identity["files"])
    return found


class _Rising:
    """Progress that never goes back, whatever a stage says."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._most = 0.0

    def __call__(self, stage: str, share: float) -> None:
        self._most = max(self._most, min(1.0, share))
        self._progress(stage, self._most)

    def part(self, begin: float, end: float) -> Progress:
        """Return progress whose 0 to 1 is this part of the whole."""
        return lambda stage, share: self(stage, begin + (end - begin) * share)


@dataclass(frozen=True, kw_only=True)
class _Filtered:
    """What is left after every stage, and the account of it."""

    table: Table
    accounts: dict[str, DomainRead]
    records: list[StageRecord]
    result: Path
    """Folder of the last stage's."""

    @property
    def key(self) -> str:
        """Of the last stage: everything that decides which rows are left."""
        return self.records[-1].key


class _Building:
    """One build of a corpus."""

    def __init__(
        self,
        config: CorpusConfig,
        *,
        root: Path,
        workers: Workers,
        cache: StageCache,
    ) -> None:
        self._config = config
        self._root = root
        self._workers = workers
        self._cache = cache
        self._files = ReadFiles(config, root=root)
        self._is_sealed = partial(is_sealed, config=config.splits)

    def write(self, work: Path, key: str, progress: _Rising) -> Manifest:
        """Fill the corpus's folder with everything but the manifest, which is returned."""
        filtered = self._filtered(progress)
        table = filtered.table
        splits = split_rows(table, self._config, filtered.records)
        measured = self._measured(filtered, splits["train"], progress)
        shutil.copyfile(filtered.result / NGRAMS_NAME, work / NGRAMS_NAME)
        measures = read_measures(measured, table.domains)
        progress("training the tokenizer", _TOKENIZER_BEGINS)
        tokenizer = trained_tokenizer(table, splits["train"], self._config)
        tokenizer.save(str(work / TOKENIZER_NAME))
        told = progress.part(_ENCODING_BEGINS, _ENCODING_ENDS)
        encoded = encode_corpus(tokenizer, table, splits, measures, work=work, progress=told)
        progress("hashing", _ENCODING_ENDS)
        vocab_size = tokenizer.get_vocab_size()
        plain: dict[str, Json] = {
            "format": FORMAT,
            "key": key,
            "config": self._config.model_dump(mode="json"),
            "domains": self._domains(filtered, encoded),
            "stages": [record.model_dump(mode="json") for record in filtered.records],
            "composition": [cell.model_dump(mode="json") for cell in encoded.composition()],
            "heads": {
                domain: head.model_dump(mode="json") for domain, head in measures.heads.items()
            },
            "contamination": contamination_of(filtered.records[-1]).model_dump(mode="json"),
            "shards": {
                split: {domain: shard.model_dump(mode="json") for domain, shard in by.items()}
                for split, by in encoded.shards.items()
            },
            "vocab_size": vocab_size,
            "token_type": token_type(vocab_size),
            "tokenizer_sha256": file_sha256(work / TOKENIZER_NAME),
            "documents_sha256": file_sha256(work / DOCUMENTS_NAME),
            "ngrams_sha256": file_sha256(work / NGRAMS_NAME),
            "builder": self._builder(),
        }
        self._files.refuse_changed()
        self._cache.forget_old()
        return _checked(seal(plain))

    def _result(self, name: str, key: str, make: Callable[[Path], None]) -> Path:
        """The folder of a stage's result, which is not kept when a file changed meanwhile."""

        def make_unchanged(folder: Path) -> None:
            make(folder)
            self._files.refuse_changed()

        return self._cache.result(name, key, make_unchanged)

    def _filtered(self, progress: _Rising) -> _Filtered:
        reading = Reading(self._config, root=self._root, workers=self._workers)
        told = progress.part(0.0, _READ_ENDS)
        read = self._result("read", reading.key, partial(reading.write, progress=told))
        accounts, records = take_read(read, is_sealed=self._is_sealed)
        table = Table(read, reading.domains)
        refuse_empty(table, records)
        planned = planned_stages(self._config, root=self._root, workers=self._workers)
        width = (_STAGES_END - _READ_ENDS) / len(planned)
        for place, part in enumerate(planned):
            begin = _READ_ENDS + place * width
            told = progress.part(begin, begin + width)
            record, read = self._stage(part, table, records[-1].key, told)
            records.append(record)
            refuse_empty(table, records)
        return _Filtered(table=table, accounts=accounts, records=records, result=read)

    def _measured(self, filtered: _Filtered, train: Split, progress: _Rising) -> Path:
        told = partial(progress.part(_STAGES_END, _TOKENIZER_BEGINS), "measuring words")

        def make(folder: Path) -> None:
            told(0.0)
            write_measures(filtered.table, train, folder, told)

        settings = {"splits": self._config.splits.model_dump(mode="json"), "version": 1}
        return self._result("measures", stage_key(filtered.key, "measures", settings), make)

    def _stage(
        self, planned: PlannedStage, table: Table, previous: str, progress: Progress
    ) -> tuple[StageRecord, Path]:
        stage = planned.stage
        settings = planned.settings(self._root)
        key = stage_key(previous, stage.name, settings)
        told = partial(progress, stage.name.replace("_", " "))
        make = partial(apply_stage, stage, table, key=key, settings=settings, progress=told)
        folder = self._result(stage.name, key, make)
        limit = stage.max_share_lost
        record = take_result(table, folder, max_share_lost=limit, is_sealed=self._is_sealed)
        return record, folder

    def _domains(self, filtered: _Filtered, encoded: Encoded) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for domain, account in filtered.accounts.items():
            source = self._config.sources[domain]
            found[domain] = DomainRecord(
                source=source.source,
                content=source.holds,
                read=account.read,
                read_bytes=account.read_bytes,
                cut=account.cut,
                cut_bytes=account.cut_bytes,
                exhausted=account.exhausted,
                kept=filtered.table.num_kept(domain),
                kept_bytes=filtered.table.kept_bytes(domain),
                provenance=largest(encoded.provenance[domain]),
                licences=largest(encoded.licences[domain]),
                files=tuple(
                    filtered.records[0].settings["sources"][domain]["files"],
                ),
            ).model_dump(mode="json")
        return found

    def _builder(self) -> dict[str, str]:
        versions = {"python": platform.python_version(), **text_versions(self._config)}
        versions |= deciding_libraries(self._config)
        versions["datasets"] = importlib.metadata.version("datasets")
        return dict(sorted(versions.items()))


def _checked(manifest: Manifest) -> Manifest:
    kept = sum(domain.kept for domain in manifest.domains.values())
    sharded = sum(s.documents for by_domain in manifest.shards.values() for s in by_domain.values())
    if kept != sharded:
        raise InvalidFileError(f"{kept} documents were kept but {sharded} were encoded")
    return manifest
