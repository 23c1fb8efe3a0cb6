"""The report on a corpus: a page and a JSON file."""

from dataclasses import dataclass
from pathlib import Path

from workbench.data.manifest import Manifest
from workbench.reports.blocks import Section
from workbench.reports.dataset.composition import (
    composition_section,
    sources_section,
    words_section,
)
from workbench.reports.dataset.facts import DataFacts
from workbench.reports.dataset.overlap import contamination_section
from workbench.reports.dataset.quality import quality_section
from workbench.reports.dataset.record import record_section
from workbench.reports.dataset.removals import (
    duplicates_section,
    rejects_section,
    stages_section,
)
from workbench.reports.dataset.summary import limits_section, summary_section


@dataclass(frozen=True, kw_only=True)
class DataPage:
    """Everything that the page says, in order."""

    corpus: str
    fingerprint: str
    sections: tuple[Section, ...]


def data_page(facts: DataFacts) -> DataPage:
    """Return the page of a corpus."""
    return DataPage(
        corpus=facts.manifest.config.name,
        fingerprint=facts.manifest.fingerprint,
        sections=(
            summary_section(facts),
            composition_section(facts),
            stages_section(facts),
            rejects_section(facts),
            duplicates_section(facts),
            words_section(facts),
            quality_section(facts),
            contamination_section(facts),
            sources_section(facts),
            limits_section(facts),
            record_section(facts),
        ),
    )


def report_folder(manifest: Manifest, reports: Path) -> Path:
    """Return where a corpus's report belongs: ``data/NAME-vN-FINGERPRINT`` in the lab's reports.

    Two corpora of one name keep a report each; eight digits of the fingerprint tell them apart.
    """
    name = manifest.config.name.replace("@", "-v")
    return reports / "data" / f"{name}-{manifest.fingerprint.removeprefix('sha256:')[:8]}"
