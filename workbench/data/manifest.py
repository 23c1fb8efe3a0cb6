"""What a corpus was built from, stage by stage, with the hash of every file of it."""

import hashlib
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from workbench.canonical import Json, canonical_json, fingerprint, freeze, parse_json
from workbench.data.config import Content, CorpusConfig
from workbench.errors import IntegrityError

FORMAT: Literal["corpus/v2"] = "corpus/v2"
MANIFEST_NAME = "manifest.json"
TOKENIZER_NAME = "tokenizer.json"
DOCUMENTS_NAME = "documents.jsonl"
NGRAMS_NAME = "ngrams.npz"
StageName: TypeAlias = Literal[
    "read", "exact_duplicates", "language", "near_duplicates", "quality", "contamination"
]

_Count = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileHash(_Strict):
    """A file that text was read from."""

    path: str
    """Relative to the source's folder."""
    sha256: str


class Sample(_Strict):
    """A document that a stage left out, for reading."""

    id: str
    """Empty, as is ``excerpt``, where text of the sealed split would be given away."""
    why: str
    """What decided: a score, or which document it repeats and how closely."""
    excerpt: str
    """The beginning of the text."""


class Removed(_Strict):
    """What a stage left out of one domain."""

    documents: _Count = 0
    bytes: _Count = 0
    """UTF-8 bytes of those documents."""
    reasons: dict[str, _Count] = {}
    """Documents by reason: ``empty``, ``same as docs``, ``identified as nl``, …"""
    samples: tuple[Sample, ...] = ()
    """A few, drawn by a hash of their identity: not the first ones."""


class StageRecord(_Strict):
    """One stage of a build."""

    name: StageName
    key: str
    """Fingerprint of everything that decides its result, the key of the stage before included."""
    settings: dict[str, Json]
    """Thresholds, seeds, models and what follows from them, such as bands and rows."""
    removed: dict[str, Removed]
    """By domain."""
    findings: dict[str, Json] = {}
    """What it measured besides: distances before and after, pairs compared, …"""


class DomainRecord(_Strict):
    """Where one domain's text came from and how much of it there is."""

    source: str
    content: Content
    read: _Count
    """Documents taken from the source."""
    read_bytes: _Count
    """Their UTF-8 bytes, before anything was cut or left out."""
    cut: _Count
    """Documents longer than ``max_document_bytes``."""
    cut_bytes: _Count
    """UTF-8 bytes that the cut removed."""
    exhausted: bool
    """The source ended before ``max_bytes`` were taken."""
    kept: _Count
    kept_bytes: _Count
    provenance: dict[str, _Count]
    """Kept documents by who published them, in which version; the 50 largest, the rest as
    ``others``."""
    licences: dict[str, _Count]
    """Kept documents by licence; ``not stated`` where nobody says."""
    files: tuple[FileHash, ...]
    """Of local sources."""


class Portion(_Strict):
    """A cell of the composition: what is kept of one domain in one language and split."""

    domain: str
    language: str
    """ISO 639 code, programming language, or ``unknown``."""
    split: str
    documents: _Count
    bytes: _Count
    tokens: _Count


class WordHead(_Strict):
    """How much of the text its most frequent words are."""

    words: _Count
    """Words counted."""
    share: float
    """Of the 1,000 most frequent words."""
    count_error: _Count
    """No word was undercounted by more than this."""


class Heads(_Strict):
    """The head of the word frequencies of one domain."""

    read: WordHead
    """Of the text as it was read, equal documents once."""
    kept: WordHead
    """Of the training split."""
    weighted: dict[str, float]
    """Share of the head in the training split when documents are drawn by entropy, by decay:
    ``0.999`` and ``0.992``."""


class Overlap(_Strict):
    """How much of one evaluation set stands in the training split."""

    documents: _Count
    ngrams: _Count
    """Distinct n-grams looked for, after sampling."""
    found: _Count
    """Of them, in the training split."""
    touched: _Count
    """Documents with at least one n-gram found; a lower bound where n-grams were sampled."""
    contaminated: _Count
    """Documents with at least the threshold's share of n-grams found."""
    unmeasured: _Count
    """Documents too short for one n-gram, or with none of theirs in the sample."""
    samples: tuple[Sample, ...] = ()
    """Training documents that overlap most, with their own text: never an evaluation document's.
    Those that repeat the sealed split are neither named nor shown."""


class Contamination(_Strict):
    """Overlap of the evaluation sets with everything that could be served in training."""

    ngram: int
    threshold: float
    one_in: int
    """One n-gram in so many was looked for, chosen by its hash; 1 is all of them."""
    sets: dict[str, Overlap]
    """``validation``, ``test`` and the named ones: what is left after exclusion."""
    sets_before: dict[str, Overlap] = {}
    """Before documents were left out; empty where none were."""


class Shard(_Strict):
    """The tokens of one domain's split: little-endian unsigned integers, documents in order."""

    path: str
    """Relative to the corpus folder."""
    documents: _Count
    bytes: _Count
    """UTF-8 bytes of the text."""
    tokens: _Count
    """Including one end-of-text token a document."""
    sha256: str
    index_path: str
    """One row a document, see `corpus.DOCUMENT_ROW`: first token, entropy, entropy's rank."""
    index_sha256: str


class Manifest(_Strict):
    """The contents of ``manifest.json``."""

    format: Literal["corpus/v2"]
    key: str
    """The corpus's identity before it is built: configuration and versions of what decides."""
    config: CorpusConfig
    domains: dict[str, DomainRecord]
    stages: tuple[StageRecord, ...]
    """In the order in which they happened."""
    composition: tuple[Portion, ...]
    heads: dict[str, Heads]
    """By domain."""
    contamination: Contamination
    shards: dict[str, dict[str, Shard]]
    """By split and domain."""
    vocab_size: int
    token_type: Literal["<u2", "<u4"]
    tokenizer_sha256: str
    documents_sha256: str
    """Of ``documents.jsonl``: every kept document's identity, split, digest and provenance."""
    ngrams_sha256: str
    """Of ``ngrams.npz``: hashes of what contamination looks for, so that it can be measured on
    the tokens of a run without the text of the sealed split."""
    builder: dict[str, str]
    """Versions of Python, of the packages read and of the libraries that decided. Not part of the
    fingerprint: equal contents are the same corpus, whoever built them."""
    fingerprint: str
    """Over everything above but the builder."""


def seal(manifest: dict[str, Json]) -> Manifest:
    """Return the manifest with its fingerprint."""
    return Manifest.model_validate({**manifest, "fingerprint": _fingerprint(manifest)})


def _fingerprint(plain: dict[str, Json]) -> str:
    # Through the model's own JSON form, so that defaults are spelled out on both sides.
    full = Manifest.model_validate({**plain, "fingerprint": ""}).model_dump(mode="json")
    return fingerprint({k: v for k, v in full.items() if k not in ("fingerprint", "builder")})


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Write ``manifest.json``; the last file of a build."""
    text = canonical_json(freeze(manifest.model_dump(mode="json")))
    (folder / MANIFEST_NAME).write_bytes(text)


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a corpus folder.

    Raises:
        IntegrityError: missing, malformed, or not the one that was written.
    """
    path = folder / MANIFEST_NAME
    try:
        plain = parse_json(path.read_bytes())
        manifest = Manifest.model_validate(plain)
        sealed = _fingerprint(plain)
    except (OSError, ValueError) as error:
        raise damaged(folder, f"{MANIFEST_NAME} cannot be read ({error})") from error
    if sealed != manifest.fingerprint:
        raise damaged(folder, f"{MANIFEST_NAME} does not match its fingerprint")
    return manifest


def damaged(folder: Path, what: str) -> IntegrityError:
    """Return the refusal of a corpus whose files are not what was built."""
    return IntegrityError(
        f"corpus {folder.name}: {what}",
        remedy=f"remove the folder {folder} and run: workbench data build RECIPE",
    )


def file_sha256(path: Path) -> str:
    """Return the lower-case hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
