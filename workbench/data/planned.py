"""The stages between reading and splitting that a configuration asks for, in their order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from workbench.canonical import Json
from workbench.data.building.stages import Stage
from workbench.data.building.table import Row
from workbench.data.config import CorpusConfig, ReferenceConfig
from workbench.data.filters.contamination import ContaminationStage, ReadReference
from workbench.data.filters.language import LanguageStage
from workbench.data.filters.near_duplicates import NearDuplicateStage
from workbench.data.filters.quality import QualityStage
from workbench.data.splits import Split, split_of
from workbench.data.text.cleaning import reference_texts
from workbench.data.text.sources import source_identity
from workbench.data.workers import Workers


@dataclass(frozen=True, kw_only=True)
class PlannedStage:
    """A stage and the texts that it compares the corpus with."""

    stage: Stage
    references: dict[str, ReferenceConfig]

    def settings(self, root: Path) -> dict[str, Json]:
        """Return everything that decides its result besides the stages before.

        Raises:
            NotFoundError: a reference does not exist.
            InvalidFileError: its path leaves the lab.
        """
        identities = {
            name: source_identity(reference, root=root)
            for name, reference in sorted(self.references.items())
        }
        return {**self.stage.settings(), **({"references": identities} if identities else {})}


def planned_stages(
    config: CorpusConfig, *, root: Path, workers: Workers
) -> tuple[PlannedStage, ...]:
    """Return the stages in their order; the last is the contamination's.

    Raises:
        InvalidFileError: settings of a stage that contradict each other.
    """
    contents = {domain: source.holds for domain, source in config.sources.items()}
    language = LanguageStage(config.language, holds=contents, workers=workers)
    planned = [PlannedStage(stage=language, references={})]
    if config.near_duplicates is not None:
        near = NearDuplicateStage(config.near_duplicates, workers=workers)
        planned.append(PlannedStage(stage=near, references={}))
    if config.quality is not None:
        quality = QualityStage(config.quality, read_reference=_texts(config, root))
        references = {"reference": config.quality.reference}
        planned.append(PlannedStage(stage=quality, references=references))
    contamination = ContaminationStage(
        config.contamination,
        split_of_row=partial(split_of_row, config),
        read_reference=named_texts(config, root),
        identity={"splits": config.splits.model_dump(mode="json")},
        workers=workers,
    )
    evaluated = dict(config.contamination.evaluation)
    return (*planned, PlannedStage(stage=contamination, references=evaluated))


def split_of_row(config: CorpusConfig, row: Row) -> Split:
    """Return the split that a row belongs to."""
    return split_of(row.digest, config.splits)


def named_texts(config: CorpusConfig, root: Path) -> ReadReference:
    """Return what yields name and text of a reference's documents, cut as the corpus's own."""
    return partial(reference_texts, root=root, max_document_bytes=config.max_document_bytes)


def _texts(config: CorpusConfig, root: Path) -> Callable[[ReferenceConfig], Iterator[str]]:
    named = named_texts(config, root)
    return lambda reference: (text for _, text in named(reference))
