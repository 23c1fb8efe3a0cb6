"""A manifest as a build writes it, without building: for pages that are made from it alone."""

from typing import Any

from workbench.canonical import Json
from workbench.data.manifest import Manifest, seal

HOSTILE = '</td></table><script>window.hit = 1</script>\x1b[2J\u202e[a](javascript:x) "><img src=x>'
DOMAINS = ("code", "docs")
SPLITS = ("train", "validation", "test")


def shard(split: str, domain: str, documents: int, size: int) -> dict[str, Json]:
    folder = "sealed" if split == "test" else "shards"
    return {
        "path": f"{folder}/{split}-{domain}.bin",
        "documents": documents,
        "bytes": size,
        "tokens": size // 4,
        "sha256": "ab" * 32,
        "index_path": f"{folder}/{split}-{domain}.index",
        "index_sha256": "cd" * 32,
    }


def removed(documents: int, size: int, reasons: dict[str, int], *, of: str = "") -> dict[str, Json]:
    sample = {"id": f"{of}/a.txt#1", "why": "0.93 of its 5-grams as b", "excerpt": "Once\nupon a"}
    return {
        "documents": documents,
        "bytes": size,
        "reasons": reasons,
        "samples": [sample] if documents else [],
    }


def overlap(**changed: int) -> dict[str, Json]:
    counts = {"documents": 40, "ngrams": 9000, "found": 90, "touched": 6, "contaminated": 2}
    return {**counts, "unmeasured": 3, "samples": [], **changed}


def stages() -> list[dict[str, Any]]:
    nothing = removed(0, 0, {})
    return [
        stage("read", {"max_document_bytes": 8000}, code=removed(2, 0, {"empty": 2}), docs=nothing),
        stage(
            "exact_duplicates",
            {"method": "exact_normalized"},
            code=removed(10, 8000, {"same as code": 7, "same as docs": 3}, of="code"),
            docs=nothing,
        ),
        stage(
            "language",
            {"score": 0.92, "allowed": ["en"]},
            code=nothing,
            docs=removed(5, 2000, {"identified as nl": 3, "score below 0.92": 2}, of="docs"),
        ),
        stage(
            "near_duplicates",
            {"threshold": 0.8, "ngram": 5, "bands": 20, "rows": 8, "seed": 1, "detection": 0.991},
            {"candidates": 31, "confirmed": 12},
            code=removed(8, 10_000, {"near-duplicate of code": 8}, of="code"),
            docs=removed(1, 1000, {"near-duplicate of code": 1}, of="docs"),
        ),
        stage("contamination", {"ngram": 13, "threshold": 0.5}, code=nothing, docs=nothing),
    ]


def stage(
    name: str, settings: dict[str, Json], findings: dict[str, Json] | None = None, **by: Json
) -> dict[str, Any]:
    return {
        "name": name,
        "key": f"sha256:{name}",
        "settings": settings,
        "findings": findings or {},
        "removed": by,
    }


def domain(
    read: int, size: int, kept: int, kept_bytes: int, cut_bytes: int, content: str = "code"
) -> dict[str, Any]:
    return {
        "source": "jsonl:texts",
        "content": content,
        "read": read,
        "read_bytes": size,
        "cut": 4,
        "cut_bytes": cut_bytes,
        "exhausted": True,
        "kept": kept,
        "kept_bytes": kept_bytes,
        "provenance": {"texts": kept},
        "licences": {"MIT": kept - 20, "not stated": 20},
        "files": [{"path": "a.jsonl", "sha256": "ef" * 32}],
    }


def config(**changed: Json) -> dict[str, Any]:
    return {
        "name": "mixed@2",
        "sources": {d: {"source": "jsonl:texts", "max_bytes": 300_000} for d in DOMAINS},
        "language": {"allowed": ["en"]},
        "near_duplicates": {"threshold": 0.8},
        "splits": {"validation": 0.1, "test": 0.1, "salt": "one"},
        "tokenizer": {"vocab_size": 300, "train_bytes": 1000},
        **changed,
    }


def head(read: float, kept: float) -> dict[str, Any]:
    return {
        "read": {"words": 40_000, "share": read, "count_error": 3},
        "kept": {"words": 30_000, "share": kept, "count_error": 0},
        "weighted": {"0.999": kept - 0.02, "0.992": kept - 0.06},
    }


def plain_manifest() -> dict[str, Any]:
    """Return a manifest before it is sealed: 220 documents of code and 106 of prose read."""
    sizes = {("code", s): n for s, n in zip(SPLITS, (160_000, 20_000, 20_000), strict=True)}
    sizes |= {("docs", s): n for s, n in zip(SPLITS, (80_000, 10_000, 7_000), strict=True)}
    documents = {("code", s): n for s, n in zip(SPLITS, (160, 20, 20), strict=True)}
    documents |= {("docs", s): n for s, n in zip(SPLITS, (80, 10, 10), strict=True)}
    languages = {"code": "python", "docs": "en"}
    return {
        "format": "corpus/v2",
        "key": "sha256:key",
        "config": config(),
        "domains": {
            "code": domain(220, 220_000, 200, 200_000, cut_bytes=2000),
            "docs": domain(106, 100_500, 100, 97_000, cut_bytes=500, content="prose"),
        },
        "stages": stages(),
        "composition": [
            {
                "domain": d,
                "language": languages[d],
                "split": s,
                "documents": documents[d, s],
                "bytes": size,
                "tokens": size // 4,
            }
            for (d, s), size in sizes.items()
        ],
        "heads": {"code": head(0.61, 0.6), "docs": head(0.5, 0.49)},
        "contamination": {
            "ngram": 13,
            "threshold": 0.5,
            "one_in": 4,
            "sets": {"validation": overlap(), "test": overlap(contaminated=0)},
        },
        "shards": {
            s: {d: shard(s, d, documents[d, s], sizes[d, s]) for d in DOMAINS} for s in SPLITS
        },
        "vocab_size": 300,
        "token_type": "<u2",
        "tokenizer_sha256": "12" * 32,
        "documents_sha256": "34" * 32,
        "ngrams_sha256": "56" * 32,
        "builder": {"python": "3.11.9"},
    }


def sample_manifest() -> Manifest:
    return seal(plain_manifest())


def hostile_manifest() -> Manifest:
    """Return one whose every free text tries to be obeyed."""
    plain = plain_manifest()
    for found in plain["stages"]:
        for lost in found["removed"].values():
            lost["reasons"] = {f"{HOSTILE}{reason}": n for reason, n in lost["reasons"].items()}
            for sample in lost["samples"]:
                sample.update(id=HOSTILE, why=HOSTILE, excerpt=HOSTILE)
        found["settings"]["path"] = HOSTILE
        found["findings"]["said"] = HOSTILE
    for record in plain["domains"].values():
        record["source"] = f"jsonl:{HOSTILE}"
        record["provenance"] = {HOSTILE: 3}
        record["licences"] = {HOSTILE: 3}
        record["files"] = [{"path": HOSTILE, "sha256": "ef" * 32}]
    for cell in plain["composition"]:
        cell["language"] = HOSTILE
    sample = {"id": HOSTILE, "why": HOSTILE, "excerpt": HOSTILE}
    plain["contamination"]["sets"]["validation"]["samples"] = [sample]
    plain["builder"] = {"python": HOSTILE}
    return seal(plain)
