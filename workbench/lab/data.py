"""Methods that build corpora and tell what is in them."""

from dataclasses import dataclass
from pathlib import Path

from workbench.data.config import CorpusConfig
from workbench.data.manifest import Manifest, Sample
from workbench.errors import NotFoundError
from workbench.experiments.installed import require_training_extra
from workbench.experiments.progress import Progress, silent
from workbench.lab.opened import OpenedLab, building
from workbench.reports.dataset.facts import DataFacts, data_facts


@dataclass(frozen=True, kw_only=True)
class DataReport:
    """A built corpus and the report on it."""

    facts: DataFacts
    page: Path
    plain: Path
    """The same as JSON."""

    @property
    def manifest(self) -> Manifest:
        """What the corpus was built from."""
        return self.facts.manifest


@dataclass(frozen=True, kw_only=True)
class Rejects:
    """Some of what a stage left out of one domain."""

    domain: str
    documents: int
    """All that it left out."""
    samples: tuple[Sample, ...]


class Preparing(OpenedLab):
    """From raw text to a corpus that can be audited."""

    def build_data(
        self, recipe: str, *, workers: int = 1, progress: Progress = silent
    ) -> DataReport:
        """Build the corpus of a recipe, or of a corpus file, unless it is built, and report on it.

        Args:
            recipe: The file.
            workers: Processes; the result is the same for any number of them.
            progress: Told how far it has come.

        Raises:
            NotFoundError: there is no such file.
            InvalidFileError: the recipe has faults.
            ConflictError: a source changed, or a stage left out more than it may.
        """
        config = self._corpus_config(recipe)
        require_training_extra()
        from workbench.data.build import build_corpus

        corpus = build_corpus(
            config,
            root=self.layout.root,
            corpora=self.layout.corpora,
            progress=building(progress),
            workers=workers,
        )
        return self._report(corpus.manifest, None)

    def data_report(self, recipe: str, *, out: Path | None = None) -> DataReport:
        """Write the report on a built corpus and return it.

        Args:
            recipe: A recipe or a corpus file.
            out: Folder to write to; by default ``reports/data/NAME-vN`` of the lab.

        Raises:
            NotFoundError: there is no such file, or its corpus is not built.
        """
        return self._report(self._manifest(recipe), out)

    def data_facts(self, recipe: str) -> DataFacts:
        """Return what a report states, without writing one."""
        return data_facts(self._manifest(recipe))

    def data_rejects(self, recipe: str, stage: str, *, domain: str = "") -> list[Rejects]:
        """Return the sampled rejects of a stage, by domain.

        Raises:
            NotFoundError: no such stage ran, or there is no such domain.
        """
        facts = self.data_facts(recipe)
        found = facts.stage(stage.replace("-", "_"))
        if found is None:
            ran = ", ".join(stage.name for stage in facts.stages)
            raise NotFoundError(f"no stage {stage!r} ran for {recipe} (those that did: {ran})")
        known = [row.domain for row in found.domains]
        if domain and domain not in known:
            raise NotFoundError(f"{recipe} has no domain {domain!r} (it has {', '.join(known)})")
        return [
            Rejects(domain=row.domain, documents=row.documents_removed, samples=row.samples)
            for row in found.domains
            if domain in ("", row.domain)
        ]

    def _corpus_config(self, recipe: str) -> CorpusConfig:
        from workbench.experiments.repeat_plan import recipe_text
        from workbench.proxies.recipe_file import load_corpus

        return load_corpus(recipe_text(self.layout, recipe), recipe)

    def _manifest(self, recipe: str) -> Manifest:
        config = self._corpus_config(recipe)
        require_training_extra(("tokenizers",))
        from workbench.data.corpus import open_corpus

        return open_corpus(config, self.layout.corpora).manifest

    def _report(self, manifest: Manifest, out: Path | None) -> DataReport:
        from workbench.reports.dataset.page import report_folder
        from workbench.reports.site import write_data_report

        facts = data_facts(manifest)
        page, plain = write_data_report(facts, out or report_folder(manifest, self.layout.reports))
        return DataReport(facts=facts, page=page, plain=plain)
