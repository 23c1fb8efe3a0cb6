"""A manifest as plain values: what a report on a corpus states, as a page and as JSON."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from workbench.canonical import Json, canonical_json, freeze, parse_json
from workbench.data.config import SPLITS
from workbench.data.manifest import DomainRecord, Manifest, Removed, Sample, StageRecord

FORMAT = "data-report/v1"
EXACT, NEAR = "exact_duplicates", "near_duplicates"
_WITHIN = {EXACT: "same as ", NEAR: "near-duplicate of "}
"""How a reason for leaving a duplicate out begins; the domain of what was kept follows."""


@dataclass(frozen=True, kw_only=True)
class DomainStage:
    """What came into a stage from one domain, and what it left out."""

    domain: str
    documents_in: int
    bytes_in: int
    documents_removed: int
    bytes_removed: int
    bytes_cut: int
    """By the limit on a document's length; only where the source is read."""
    reasons: dict[str, int]
    samples: tuple[Sample, ...]


@dataclass(frozen=True, kw_only=True)
class StageFacts:
    """One stage of the waterfall."""

    name: str
    key: str
    settings: dict[str, Json]
    findings: dict[str, Json]
    domains: tuple[DomainStage, ...]

    @property
    def documents_in(self) -> int:
        """Of all domains."""
        return sum(domain.documents_in for domain in self.domains)

    @property
    def bytes_in(self) -> int:
        """Of all domains."""
        return sum(domain.bytes_in for domain in self.domains)

    @property
    def documents_removed(self) -> int:
        """Of all domains."""
        return sum(domain.documents_removed for domain in self.domains)

    @property
    def bytes_removed(self) -> int:
        """Of all domains."""
        return sum(domain.bytes_removed for domain in self.domains)

    @property
    def bytes_cut(self) -> int:
        """Of all domains."""
        return sum(domain.bytes_cut for domain in self.domains)


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Documents of one domain that repeat one that was kept."""

    domain: str
    exact: dict[str, int]
    """By the domain of the document that was kept."""
    near: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much one domain's split is."""

    documents: int
    bytes: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """Everything that a report states."""

    manifest: Manifest
    stages: tuple[StageFacts, ...]
    duplicates: tuple[Duplicates, ...]

    @property
    def documents(self) -> int:
        """Documents kept."""
        return sum(domain.kept for domain in self.manifest.domains.values())

    @property
    def bytes(self) -> int:
        """UTF-8 bytes kept."""
        return sum(domain.kept_bytes for domain in self.manifest.domains.values())

    @property
    def sizes(self) -> dict[tuple[str, str], Sizes]:
        """Documents, bytes and tokens by split and domain, the splits in their usual order."""
        return {
            (split, domain): Sizes(documents=held.documents, bytes=held.bytes, tokens=held.tokens)
            for split in SPLITS
            for domain, held in sorted(self.manifest.shards.get(split, {}).items())
        }

    @property
    def files(self) -> dict[str, str]:
        """SHA-256 of every file of the corpus, by its path in the corpus's folder."""
        manifest = self.manifest
        held = [
            found for split in SPLITS for _, found in sorted(manifest.shards.get(split, {}).items())
        ]
        return {
            "tokenizer.json": manifest.tokenizer_sha256,
            "documents.jsonl": manifest.documents_sha256,
            "ngrams.npz": manifest.ngrams_sha256,
            **{found.path: found.sha256 for found in held},
            **{found.index_path: found.index_sha256 for found in held},
        }

    @property
    def training_tokens(self) -> int:
        """Tokens of the training split."""
        return sum(size.tokens for (split, _), size in self.sizes.items() if split == "train")

    @property
    def natural_shares(self) -> dict[str, float]:
        """Each domain's share of the training split's bytes."""
        sizes = {name: size.bytes for (split, name), size in self.sizes.items() if split == "train"}
        total = sum(sizes.values())
        return {name: size / total for name, size in sizes.items() if total}

    def stage(self, name: str) -> StageFacts | None:
        """Return a stage by its name; None where it did not run."""
        return next((stage for stage in self.stages if stage.name == name), None)


def data_facts(manifest: Manifest) -> DataFacts:
    """Return the facts of a corpus."""
    return DataFacts(
        manifest=manifest,
        stages=tuple(_waterfall(manifest)),
        duplicates=tuple(_duplicates(manifest)),
    )


def data_json(facts: DataFacts) -> str:
    """Return the facts as strict JSON: keys sorted, ASCII, the same bytes for the same manifest."""
    manifest = facts.manifest.model_dump(mode="json")
    plain = {
        "format": FORMAT,
        "corpus": facts.manifest.config.name,
        "totals": {
            "documents": facts.documents,
            "bytes": facts.bytes,
            "training_tokens": facts.training_tokens,
        },
        "natural_shares": facts.natural_shares,
        "waterfall": [_stage_json(stage) for stage in facts.stages],
        "duplicates": [asdict(row) for row in facts.duplicates],
        **{key: value for key, value in manifest.items() if key not in ("format", "stages")},
    }
    return json.dumps(_plain(plain), allow_nan=False, indent=1, sort_keys=True) + "\n"


def _stage_json(stage: StageFacts) -> dict[str, Json]:
    domains = [
        {**asdict(domain), "samples": [sample.model_dump() for sample in domain.samples]}
        for domain in stage.domains
    ]
    return {
        "name": stage.name,
        "key": stage.key,
        "settings": stage.settings,
        "findings": stage.findings,
        "documents_in": stage.documents_in,
        "bytes_in": stage.bytes_in,
        "documents_removed": stage.documents_removed,
        "bytes_removed": stage.bytes_removed,
        "bytes_cut": stage.bytes_cut,
        "domains": domains,
    }


def _plain(value: Json) -> Json:
    """Return the value without what JSON has no form for: a non-finite number is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _waterfall(manifest: Manifest) -> Iterator[StageFacts]:
    present = {
        name: (record.read, record.read_bytes) for name, record in sorted(manifest.domains.items())
    }
    for place, stage in enumerate(manifest.stages):
        domains = tuple(
            _domain_stage(
                name,
                present[name],
                stage.removed.get(name, Removed()),
                cut=manifest.domains[name].cut_bytes if place == 0 else 0,
            )
            for name in present
        )
        yield _stage_facts(stage, domains)
        present = {
            found.domain: (
                found.documents_in - found.documents_removed,
                found.bytes_in - found.bytes_removed - found.bytes_cut,
            )
            for found in domains
        }


def _stage_facts(stage: StageRecord, domains: tuple[DomainStage, ...]) -> StageFacts:
    # As the manifest writes them, with numbers that are not whole as decimal strings: a manifest
    # that was read back gives the same report as the one that was just built.
    return StageFacts(
        name=stage.name,
        key=stage.key,
        settings=_ordered(stage.settings),
        findings=_ordered(stage.findings),
        domains=domains,
    )


def _ordered(values: Mapping[str, Json]) -> dict[str, Json]:
    found: dict[str, Json] = parse_json(canonical_json(freeze(values)))
    return found


def _domain_stage(
    name: str, present: tuple[int, int], removed: Removed, *, cut: int
) -> DomainStage:
    documents, size = present
    return DomainStage(
        domain=name,
        documents_in=documents,
        bytes_in=size,
        documents_removed=removed.documents,
        bytes_removed=removed.bytes,
        bytes_cut=cut,
        reasons=dict(sorted(removed.reasons.items(), key=lambda item: (-item[1], item[0]))),
        samples=removed.samples,
    )


def _duplicates(manifest: Manifest) -> Iterator[Duplicates]:
    removed = {str(stage.name): stage.removed for stage in manifest.stages}
    for domain in sorted(manifest.domains):
        found = {
            name: _by_origin(removed.get(name, {}).get(domain, Removed()).reasons, beginning)
            for name, beginning in _WITHIN.items()
        }
        yield Duplicates(domain=domain, exact=found[EXACT], near=found[NEAR])


def _by_origin(reasons: Mapping[str, int], beginning: str) -> dict[str, int]:
    return {
        reason.removeprefix(beginning): number
        for reason, number in sorted(reasons.items())
        if reason.startswith(beginning)
    }


def stated_licences(record: DomainRecord) -> int:
    """Return how many kept documents of a domain have a licence that somebody states."""
    return sum(n for licence, n in record.licences.items() if licence != "not stated")
