"""Build a corpus: read, cut, deduplicate, split, train the tokenizer, encode, hash.

Everything happens in a folder of its own that takes its final name when it is complete and on
disk: what is not finished cannot be opened. Text is spooled to that folder, so that memory holds
one batch of documents and the digests of those seen.
"""

import contextlib
import fcntl
import importlib.metadata
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from tokenizers import Tokenizer

from workbench.canonical import Json
from workbench.data.builtin import text_versions
from workbench.data.config import SPLITS, CorpusConfig
from workbench.data.corpus import Corpus, corpus_fingerprint, corpus_folder, read_corpus
from workbench.data.dedup import SeenTexts
from workbench.data.hosted import source_files
from workbench.data.manifest import (
    DOCUMENTS_NAME,
    FORMAT,
    TOKENIZER_NAME,
    DomainStages,
    FileHash,
    Manifest,
    Shard,
    file_sha256,
    seal,
    write_manifest,
)
from workbench.data.sources import read_source
from workbench.data.spool import Kept, read_spool, spool_domain
from workbench.data.tokenizer import encode, train_tokenizer
from workbench.errors import ConflictError, InvalidFileError

Progress: TypeAlias = Callable[[str, float], None]
"""Told the present stage and the share of the whole work done, 0 to 1."""

_BATCH = 256
_SHARD_FOLDERS = {"train": "shards", "validation": "shards", "test": "sealed"}


def build_corpus(config: CorpusConfig, *, root: Path, corpora: Path, progress: Progress) -> Corpus:
    """Return the corpus, built first unless it exists.

    Args:
        config: what to build.
        root: the lab's folder, where relative source paths start.
        corpora: holds one folder a corpus.
        progress: told what is happening.

    Raises:
        ConflictError: a local file changed since the corpus was built under the same version.
        InvalidFileError: a source cannot be read, or a split or vocabulary cannot be filled.
        NotFoundError: a source does not exist.
        IntegrityError: the existing corpus is damaged.
    """
    folder = corpus_folder(config, corpora)
    key = corpus_fingerprint(config)
    corpora.mkdir(parents=True, exist_ok=True)
    with _only_one(corpora / f".{folder.name}.lock", progress):
        if folder.is_dir():
            corpus = read_corpus(folder, key=key)
            _refuse_changed_files(corpus, root)
        else:
            _build_in_place(config, key=key, root=root, folder=folder, progress=progress)
            corpus = read_corpus(folder, key=key)
    progress("ready", 1.0)
    return corpus


@contextlib.contextmanager
def _only_one(lock: Path, progress: Progress) -> Iterator[None]:
    """Hold a lock that the system releases when the process dies, however it dies."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another build of this corpus", 0.0)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _refuse_changed_files(corpus: Corpus, root: Path) -> None:
    for domain, stages in corpus.manifest.stages.items():
        if not stages.files:
            continue
        changed = _file_hashes(stages.source, root)
        if changed and changed != stages.files:
            name, _, version = corpus.name.partition("@")
            raise ConflictError(
                f"the files of {stages.source!r} (domain {domain!r}) changed since corpus "
                f"{corpus.name} was built",
                remedy=f"call the corpus {name}@{int(version) + 1} in the recipe, or restore them",
            )


def _file_hashes(source: str, root: Path) -> tuple[FileHash, ...]:
    if source.partition(":")[0] not in ("text", "jsonl", "parquet"):
        return ()
    files = source_files(source, root=root)
    base = Path(os.path.commonpath([file.parent for file in files]))
    return tuple(
        FileHash(path=file.relative_to(base).as_posix(), sha256=file_sha256(file)) for file in files
    )


def _build_in_place(
    config: CorpusConfig, *, key: str, root: Path, folder: Path, progress: Progress
) -> None:
    prefix = f".building-{folder.name}-"
    for left_over in folder.parent.glob(f"{prefix}*"):  # of a build that was killed
        shutil.rmtree(left_over)
    work = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        _build(config, key=key, root=root, work=work, progress=progress)
        _to_disk(work)
        work.chmod(0o755)
        work.rename(folder)
        _sync(folder.parent)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _build(config: CorpusConfig, *, key: str, root: Path, work: Path, progress: Progress) -> None:
    spools = work / "spool"
    spools.mkdir()
    stages = _read_sources(config, root=root, spools=spools, progress=progress)
    _refuse_empty_splits(config, spools)
    progress("training the tokenizer", 0.5)
    tokenizer = _train(config, spools)
    tokenizer.save(str(work / TOKENIZER_NAME))
    token_type = "<u2" if config.tokenizer.vocab_size <= 2**16 else "<u4"
    shards = _encode_all(tokenizer, token_type, work=work, stages=stages, progress=progress)
    shutil.rmtree(spools)
    progress("hashing", 0.99)
    plain: dict[str, Json] = {
        "format": FORMAT,
        "key": key,
        "config": config.model_dump(mode="json"),
        "stages": {domain: stage.model_dump(mode="json") for domain, stage in stages.items()},
        "shards": shards,
        "vocab_size": tokenizer.get_vocab_size(),
        "token_type": token_type,
        "tokenizer_sha256": file_sha256(work / TOKENIZER_NAME),
        "documents_sha256": file_sha256(work / DOCUMENTS_NAME),
        "builder": _builder(config),
    }
    write_manifest(_checked(seal(plain)), work)


def _checked(manifest: Manifest) -> Manifest:
    kept = sum(stage.kept for stage in manifest.stages.values())
    sharded = sum(s.documents for by_domain in manifest.shards.values() for s in by_domain.values())
    if kept != sharded:
        raise InvalidFileError(f"{kept} documents were kept but {sharded} were encoded")
    return manifest


def _builder(config: CorpusConfig) -> dict[str, str]:
    versions = {"python": platform.python_version(), **text_versions(config)}
    for name in ("tokenizers", "datasets"):
        versions[name] = importlib.metadata.version(name)
    return dict(sorted(versions.items()))


def _read_sources(
    config: CorpusConfig, *, root: Path, spools: Path, progress: Progress
) -> dict[str, DomainStages]:
    seen = SeenTexts()
    stages: dict[str, DomainStages] = {}
    # Alphabetical: which of two equal documents is kept must not hang on the order of the keys.
    for place, domain in enumerate(sorted(config.sources)):
        source = config.sources[domain]
        told = partial(_tell, progress, f"reading {domain}", place, len(config.sources))
        told(0.0)
        documents = read_source(source, root=root, max_document_bytes=config.max_document_bytes)
        stages[domain] = spool_domain(
            documents,
            config,
            domain,
            folder=spools,
            seen=seen,
            files=_file_hashes(source.source, root),
            progress=told,
        )
    return stages


def _tell(progress: Progress, stage: str, place: int, count: int, share: float) -> None:
    """Reading is the first half of the work, an equal part of it a domain."""
    progress(stage, 0.5 * (place + share) / count)


def _refuse_empty_splits(config: CorpusConfig, spools: Path) -> None:
    for domain in sorted(config.sources):
        for split in SPLITS:
            if not (spools / f"{split}-{domain}.jsonl").stat().st_size:
                raise InvalidFileError(
                    f"domain {domain!r} has no document in the {split} split",
                    remedy=f"raise max_bytes of {domain!r} or the split's share, lower "
                    "max_document_bytes, or try another salt",
                )


def _train(config: CorpusConfig, spools: Path) -> Tokenizer:
    budget = max(1, config.tokenizer.train_bytes // len(config.sources))
    return train_tokenizer(
        (text for domain in sorted(config.sources) for text in _first(spools, domain, budget)),
        config.tokenizer.vocab_size,
    )


def _first(spools: Path, domain: str, budget: int) -> Iterator[str]:
    taken = 0
    for kept in read_spool(spools, "train", domain):
        if taken >= budget:
            return
        yield kept.text
        taken += kept.num_bytes


def _encode_all(
    tokenizer: Tokenizer,
    token_type: str,
    *,
    work: Path,
    stages: dict[str, DomainStages],
    progress: Progress,
) -> dict[str, dict[str, Json]]:
    total = max(1, sum(stage.kept_bytes for stage in stages.values()))
    done = 0
    shards: dict[str, dict[str, Json]] = {split: {} for split in SPLITS}
    with (work / DOCUMENTS_NAME).open("w", encoding="utf-8") as index:
        for split in SPLITS:
            (work / _SHARD_FOLDERS[split]).mkdir(exist_ok=True)
            for domain in sorted(stages):
                progress(f"encoding {domain} ({split})", 0.6 + 0.39 * done / total)
                path = work / _SHARD_FOLDERS[split] / f"{split}-{domain}.bin"
                documents = read_spool(work / "spool", split, domain)
                counts = _encode_shard(tokenizer, token_type, documents, path, index)
                done += counts["bytes"]
                shard = Shard(path=path.relative_to(work).as_posix(), **counts)
                shards[split][domain] = shard.model_dump(mode="json")
    return shards


def _encode_shard(
    tokenizer: Tokenizer, token_type: str, documents: Iterator[Kept], path: Path, index: Any
) -> dict[str, Any]:
    totals = {"documents": 0, "bytes": 0, "tokens": 0}
    with path.open("wb") as file:
        while batch := list(islice(documents, _BATCH)):
            for kept, ids in zip(
                batch, encode(tokenizer, [kept.text for kept in batch]), strict=True
            ):
                file.write(np.asarray(ids, dtype=token_type).tobytes())
                index.write(json.dumps({**kept.entry(), "tokens": len(ids)}, sort_keys=True) + "\n")
                totals["documents"] += 1
                totals["bytes"] += kept.num_bytes
                totals["tokens"] += len(ids)
    return {**totals, "sha256": file_sha256(path)}


def _to_disk(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
