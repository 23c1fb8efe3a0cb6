"""A corpus as Croissant 1.0, the JSON-LD vocabulary of MLCommons for data sets.

Everything is taken from the manifest. What the manifest does not know, such as who wrote a source's
text or when it was published, is left out.
"""

import json
from collections.abc import Iterator
from typing import Literal

from workbench.canonical import Json
from workbench.data.config import SEALED, SplitConfig
from workbench.data.manifest import (
    DOCUMENTS_NAME,
    NGRAMS_NAME,
    TOKENIZER_NAME,
    DomainRecord,
    Manifest,
    Overlap,
    Shard,
    StageRecord,
)

CROISSANT = "http://mlcommons.org/croissant/1.0"
RESPONSIBLE_AI = "http://mlcommons.org/croissant/RAI/1.0"

_INDEX_ROW_BYTES = 16
_WIDTHS: dict[Literal["<u2", "<u4"], int] = {"<u2": 2, "<u4": 4}
_CROISSANT_TERMS = (
    *("citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty"),
    *("fileSet", "format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField"),
    *("path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate"),
    *("separator", "source", "subField", "transform"),
)
_DOCUMENT_FIELDS = {
    "id": ("sc:Text", "The source's own name for the document."),
    "domain": ("sc:Text", "Part of the corpus that it belongs to."),
    "split": ("sc:Text", "train, validation or test; the test split is sealed."),
    "digest": ("sc:Text", "SHA-256 of the text, normalised (NFKC, lower case, white space)."),
    "num_bytes": ("sc:Integer", "UTF-8 bytes of the text."),
    "provenance": ("sc:Text", "Who published it and in which version, as far as is known."),
    "licence": ("sc:Text", "What the source says; empty where it says nothing."),
    "language": ("sc:Text", "ISO 639 code, programming language, or unknown."),
    "tokens": ("sc:Integer", "Tokens, the end-of-text token included."),
}
_NO_LICENCE = "not stated"
_SEALED = (
    "Sealed: read only by the verdict of a registered experiment, which logs the exposure first. "
)


def croissant(manifest: Manifest) -> dict[str, Json]:
    """Return a corpus's description in Croissant 1.0 with its responsible-AI extension.

    Paths are relative to the corpus folder: a file of this content opens its records there. Sizes
    are given where the manifest tells them. Equal manifests give equal descriptions.
    """
    name, _, version = manifest.config.name.partition("@")
    described: dict[str, Json] = {
        "@context": _context(),
        "@type": "sc:Dataset",
        "conformsTo": [CROISSANT, RESPONSIBLE_AI],
        "name": name,
        "version": f"{version}.0.0",
        "description": _description(manifest),
        "identifier": manifest.fingerprint,
        "license": _licences(*manifest.domains.values()),
        "inLanguage": _languages(manifest),
        "isBasedOn": [_source(d, record) for d, record in sorted(manifest.domains.items())],
        "distribution": list(_files(manifest)),
        "recordSet": [_documents()],
        **_responsible_ai(manifest),
    }
    return {key: value for key, value in described.items() if value not in ([], "")}


def _context() -> dict[str, Json]:
    return {
        "@language": "en",
        "@vocab": "https://schema.org/",
        "sc": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/",
        "rai": "http://mlcommons.org/croissant/RAI/",
        "dct": "http://purl.org/dc/terms/",
        "conformsTo": "dct:conformsTo",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "examples": {"@id": "cr:examples", "@type": "@json"},
        **{term: f"cr:{term}" for term in _CROISSANT_TERMS},
    }


def _description(manifest: Manifest) -> str:
    shards = [(split, s) for split, by in manifest.shards.items() for s in by.values()]
    parts = [
        f"{sum(s.documents for of, s in shards if of == split):,} documents and "
        f"{sum(s.tokens for of, s in shards if of == split):,} tokens for {purpose}"
        for split, purpose in (
            ("train", "training"),
            ("validation", "validation"),
            ("test", "the sealed test split"),
        )
    ]
    return (
        f"Text for pretraining language models in {len(manifest.domains)} domains "
        f"({', '.join(sorted(manifest.domains))}): {'; '.join(parts)}. Every file is hashed; "
        f"documents are listed with their provenance in {DOCUMENTS_NAME}."
    )


def _licences(*records: DomainRecord) -> list[str]:
    return sorted({name for record in records for name in record.licences} - {_NO_LICENCE})


def _languages(manifest: Manifest) -> list[str]:
    """Return the languages of prose; a programming language is no language of the content."""
    return sorted(
        {
            portion.language
            for portion in manifest.composition
            if manifest.domains[portion.domain].content == "prose" and portion.language != "unknown"
        }
    )


def _source(domain: str, record: DomainRecord) -> dict[str, Json]:
    published = "; ".join(f"{name} ({n:,})" for name, n in sorted(record.provenance.items()))
    return {
        "@type": "sc:CreativeWork",
        "name": record.source,
        "description": (
            f"Domain {domain} ({record.content}): {record.kept:,} documents, "
            f"{record.kept_bytes:,} bytes kept of {record.read:,} documents, "
            f"{record.read_bytes:,} bytes read. Published by (documents): {published}."
        ),
        "license": _licences(record),
    }


def _files(manifest: Manifest) -> Iterator[dict[str, Json]]:
    yield _file(
        DOCUMENTS_NAME,
        sha256=manifest.documents_sha256,
        encoding="application/jsonlines",
        description="Every kept document: identity, split, digest, provenance, licence, tokens.",
    )
    yield _file(
        TOKENIZER_NAME,
        sha256=manifest.tokenizer_sha256,
        encoding="application/json",
        description=f"Byte-level BPE of {manifest.vocab_size:,} tokens.",
    )
    yield _file(
        NGRAMS_NAME,
        sha256=manifest.ngrams_sha256,
        encoding="application/x-npz",
        description=(
            f"Hashes of the {manifest.contamination.ngram}-grams of words of the evaluation sets: "
            "contamination is measured with them. They hold no text."
        ),
    )
    for split, shards in manifest.shards.items():
        for domain, shard in sorted(shards.items()):
            yield from _shard_files(split, domain, shard, manifest)


def _shard_files(
    split: str, domain: str, shard: Shard, manifest: Manifest
) -> Iterator[dict[str, Json]]:
    sealed = _SEALED if split == SEALED else ""
    width = _WIDTHS[manifest.token_type]
    yield _file(
        shard.path,
        sha256=shard.sha256,
        encoding="application/octet-stream",
        size=shard.tokens * width,
        description=(
            f"{sealed}Tokens of domain {domain}, {split} split: {shard.tokens:,} little-endian "
            f"unsigned integers of {width} bytes, {shard.documents:,} documents, each followed by "
            "end-of-text."
        ),
    )
    yield _file(
        shard.index_path,
        sha256=shard.index_sha256,
        encoding="application/octet-stream",
        size=shard.documents * _INDEX_ROW_BYTES,
        description=(
            f"{sealed}One row a document of domain {domain}, {split} split, {_INDEX_ROW_BYTES} "
            "bytes each: first token (8-byte unsigned integer), entropy in bits a word and the "
            "rank of that entropy (4-byte floats), all little-endian."
        ),
    )


def _file(
    path: str, *, sha256: str, encoding: str, description: str, size: int | None = None
) -> dict[str, Json]:
    told = {} if size is None else {"contentSize": f"{size} B"}
    return {
        "@type": "cr:FileObject",
        "@id": path,
        "name": path,
        "description": description,
        "contentUrl": path,
        "encodingFormat": encoding,
        "sha256": sha256,
        **told,
    }


def _documents() -> dict[str, Json]:
    return {
        "@type": "cr:RecordSet",
        "@id": "documents",
        "name": "documents",
        "description": "One record a kept document, without its text.",
        "key": {"@id": "documents/digest"},
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"documents/{name}",
                "name": name,
                "description": description,
                "dataType": kind,
                "source": {"fileObject": {"@id": DOCUMENTS_NAME}, "extract": {"column": name}},
            }
            for name, (kind, description) in _DOCUMENT_FIELDS.items()
        ],
    }


def _responsible_ai(manifest: Manifest) -> dict[str, Json]:
    return {
        "rai:dataCollection": (
            "Read from existing sources in their own order; nothing was collected for this corpus: "
            + "; ".join(f"{d} from {r.source}" for d, r in sorted(manifest.domains.items()))
            + "."
        ),
        "rai:dataPreprocessingProtocol": [
            *(_stage(record) for record in manifest.stages),
            _splits(manifest.config.splits),
            f"tokenizer: byte-level BPE of {manifest.vocab_size:,} tokens of the training split.",
        ],
        "rai:dataUseCases": ["Pretraining of language models and validation during it."],
        "rai:dataLimitations": list(_limitations(manifest)),
        "rai:personalSensitiveInformation": [
            "Not examined: no stage looks for or removes personal data."
        ],
    }


def _splits(splits: SplitConfig) -> str:
    return (
        "splits: by a hash of the normalised text, after deduplication; validation "
        f"{splits.validation}, test {splits.test}, salt {splits.salt!r}."
    )


def _stage(record: StageRecord) -> str:
    removed = "; ".join(
        f"{domain}: {r.documents:,} documents, {r.bytes:,} bytes"
        for domain, r in sorted(record.removed.items())
        if r.documents
    )
    settings = json.dumps(record.settings, sort_keys=True, ensure_ascii=False)
    return f"{record.name}: removed {removed or 'nothing'}. Settings: {settings}"


def _limitations(manifest: Manifest) -> Iterator[str]:
    found = manifest.contamination
    method = (
        f"of its {found.ngram}-grams of words, one in {found.one_in} looked for"
        if found.one_in > 1
        else f"of its {found.ngram}-grams of words"
    )
    for name, overlap in sorted(found.sets.items()):
        yield f"Contamination of {name}: {_overlap(overlap, found.threshold, method)}"
    unstated = sum(r.licences.get(_NO_LICENCE, 0) for r in manifest.domains.values())
    if unstated:
        yield f"The licence of {unstated:,} documents is not stated."
    yield (
        "Contamination is told by shared words alone: translations and paraphrases of evaluation "
        "documents are not found."
    )


def _overlap(overlap: Overlap, threshold: float, method: str) -> str:
    return (
        f"{overlap.contaminated:,} of {overlap.documents:,} documents have at least "
        f"{threshold:g} {method} in the training split, {overlap.touched:,} have any, "
        f"{overlap.unmeasured:,} could not be measured; {overlap.found:,} of {overlap.ngrams:,} "
        "n-grams were found."
    )
