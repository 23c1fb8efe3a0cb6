"""What a corpus was built from, stage by stage, with the hash of every file of it."""

import hashlib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from workbench.canonical import Json, canonical_json, fingerprint, freeze, parse_json
from workbench.data.config import CorpusConfig
from workbench.errors import IntegrityError

FORMAT: Literal["corpus/v1"] = "corpus/v1"
MANIFEST_NAME = "manifest.json"
TOKENIZER_NAME = "tokenizer.json"
DOCUMENTS_NAME = "documents.jsonl"

_Count = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FileHash(_Strict):
    """A file that text was read from."""

    path: str
    """Relative to the source's folder."""
    sha256: str


class DomainStages(_Strict):
    """What happened to one domain's documents, in the order of the stages."""

    source: str
    read: _Count
    """Documents taken from the source until the kept ones reached ``max_bytes``."""
    empty: _Count
    """Left out: no text, or text that has no UTF-8 form."""
    cut: _Count
    """Documents longer than ``max_document_bytes``."""
    cut_bytes: _Count
    """UTF-8 bytes that the cut removed."""
    duplicates: _Count
    """Left out: equal after normalisation to a document kept before, in any domain."""
    duplicate_bytes: _Count
    duplicate_samples: tuple[str, ...]
    """Identities of the first few left out, for inspection."""
    kept: _Count
    kept_bytes: _Count
    exhausted: bool
    """The source ended before ``max_bytes`` were kept."""
    files: tuple[FileHash, ...]
    """Of local sources."""


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


class Manifest(_Strict):
    """The contents of ``manifest.json``."""

    format: Literal["corpus/v1"]
    key: str
    """The corpus's identity before it is built: configuration and versions of built-in text."""
    config: CorpusConfig
    stages: dict[str, DomainStages]
    """By domain."""
    shards: dict[str, dict[str, Shard]]
    """By split and domain."""
    vocab_size: int
    token_type: Literal["<u2", "<u4"]
    tokenizer_sha256: str
    documents_sha256: str
    """Of ``documents.jsonl``: every kept document's identity, split, digest and provenance."""
    builder: dict[str, str]
    """Versions of Python, of the packages read and of the tokenizer library. Not part of the
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
        remedy=f"remove the folder {folder} and run: workbench data RECIPE",
    )


def file_sha256(path: Path) -> str:
    """Return the lower-case hexadecimal SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
