"""What a registration records of a corpus besides its fingerprints."""

import re
from collections.abc import Iterator, Mapping

from workbench.canonical import Json, canonical_json, decimal, fingerprint, freeze
from workbench.data.config import SPLITS
from workbench.data.manifest import Contamination, Heads, Manifest, Overlap, Portion, StageRecord
from workbench.registry.entries import (
    Cell,
    ContaminationAccount,
    DataAccount,
    DomainAccount,
    FilterStage,
    HeadAccount,
    LicenceCount,
    Loss,
    SetOverlap,
    WeightedHead,
)

OTHERS = "others"
NOT_CHECKED = "labels_not_checked"
"""Setting of the language stage: domains of prose whose sources say the language."""
_MOST_LANGUAGES = 12
_MOST_LICENCES = 8
_MOST_CHARACTERS = 120
"""An entry must stay small; what is cut here is whole in the corpus's manifest."""


def account(manifest: Manifest) -> DataAccount:
    """Return the account of a built corpus: a few kilobytes, from its manifest alone."""
    sizes = set(DomainAccount.model_fields)
    return DataAccount(
        domains={
            domain: DomainAccount.model_validate(record.model_dump(include=sizes))
            for domain, record in sorted(manifest.domains.items())
        },
        stages=[_stage(record, manifest) for record in manifest.stages],
        composition=[_cell(portion) for portion in _largest_languages(manifest)],
        licences=[*_licences(manifest)],
        heads={domain: _head(heads) for domain, heads in sorted(manifest.heads.items())},
        contamination=_contamination(manifest.contamination),
    )


def _stage(record: StageRecord, manifest: Manifest) -> FilterStage:
    settings = dict(record.settings)
    said = list(manifest.config.labelled_by_source)
    if record.name == "language" and said:
        settings[NOT_CHECKED] = said
    return FilterStage(
        name=record.name,
        settings={snake_case(name): _short(value) for name, value in sorted(settings.items())},
        removed={
            domain: Loss(documents=lost.documents, bytes=lost.bytes)
            for domain, lost in sorted(record.removed.items())
            if lost.documents
        },
    )


def snake_case(name: str) -> str:
    """Return a name as a key that the ledger can hold."""
    return re.sub(r"[^a-z0-9_]", "_", name.lower())


def _short(value: Json) -> str:
    if isinstance(value, float):
        return decimal(value)
    if value in ([], {}, ""):
        return "none"
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        value = ", ".join(value)
    text = value if isinstance(value, str) else canonical_json(freeze(value)).decode()
    return text if len(text) <= _MOST_CHARACTERS else fingerprint(value)


def _largest_languages(manifest: Manifest) -> Iterator[Portion]:
    """Yield the composition by domain, language and split; small languages of a domain as one."""
    sizes: dict[tuple[str, str], int] = {}
    for cell in manifest.composition:
        place = cell.domain, cell.language
        sizes[place] = sizes.get(place, 0) + cell.bytes
    ranked = sorted(sizes, key=lambda place: (place[0], -sizes[place], place[1]))
    named = {
        place
        for domain in {domain for domain, _ in ranked}
        for place in [place for place in ranked if place[0] == domain][:_MOST_LANGUAGES]
    }
    sums: dict[tuple[str, str, str], tuple[int, int, int]] = {}
    for cell in manifest.composition:
        language = cell.language if (cell.domain, cell.language) in named else OTHERS
        key = cell.domain, language, cell.split
        documents, size, tokens = sums.get(key, (0, 0, 0))
        sums[key] = documents + cell.documents, size + cell.bytes, tokens + cell.tokens
    ordered = sorted(sums.items(), key=lambda item: (*item[0][:2], SPLITS.index(item[0][2])))
    for (domain, language, split), (documents, size, tokens) in ordered:
        yield Portion(
            domain=domain,
            language=language,
            split=split,
            documents=documents,
            bytes=size,
            tokens=tokens,
        )


def _cell(portion: Portion) -> Cell:
    return Cell.model_validate(portion.model_dump())


def _licences(manifest: Manifest) -> Iterator[LicenceCount]:
    for domain, record in sorted(manifest.domains.items()):
        found = most_frequent(record.licences, _MOST_LICENCES)
        for licence, documents in found.items():
            short = licence[:_MOST_CHARACTERS]
            yield LicenceCount(domain=domain, licence=short, documents=documents)


def most_frequent(counts: Mapping[str, int], most: int) -> dict[str, int]:
    """Return the largest counts in falling order, and the sum of the rest as ``others``."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if len(ranked) <= most:
        return dict(ranked)
    found = dict(ranked[: most - 1])
    rest = sum(number for _, number in ranked[most - 1 :])
    return {**found, OTHERS: found.get(OTHERS, 0) + rest}


def _head(heads: Heads) -> HeadAccount:
    return HeadAccount(
        read=heads.read.share,
        kept=heads.kept.share,
        weighted=[
            WeightedHead(decay=decay, share=share)
            for decay, share in sorted(heads.weighted.items(), reverse=True)
        ],
    )


def _contamination(found: Contamination) -> ContaminationAccount:
    return ContaminationAccount(
        ngram=found.ngram,
        threshold=found.threshold,
        one_in=found.one_in,
        sets={name: _overlap(overlap) for name, overlap in sorted(found.sets.items())},
        sets_before={
            name: _overlap(overlap) for name, overlap in sorted(found.sets_before.items())
        },
    )


def _overlap(overlap: Overlap) -> SetOverlap:
    return SetOverlap.model_validate(overlap.model_dump(exclude={"samples"}))
