"""Methods that build corpora and tell what is in them."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench.data.config import CorpusConfig
from workbench.data.manifest import Manifest, Sample
from workbench.errors import NotFoundError
from workbench.experiments.installed import require_training_extra
from workbench.experiments.progress import Progress, silent
from workbench.experiments.repeat_plan import RepeatPlan
from workbench.lab.opened import OpenedLab, building
from workbench.reports.dataset.facts import DataFacts, data_facts


@dataclass(frozen=True, kw_only=True)
class DataReport:
    """A built corpus and the report on it."""

    facts: DataFacts
    page: Path
    plain: Path
    """The same as JSON."""
    warning: str = ""
    """That other content was built under the name before; empty where it was not."""

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


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A run that could be, and what was asked of it."""

    what: str
    """``NAME@V at SCALE``, or an experiment's run."""
    steps: int
    """Optimizer steps of the whole run."""
    found: Any
    """`training.mixture_plan.MixturePlan`, or a tuple of `data.serving.served.ServedSample`; the
    core install lacks both modules."""


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
        from workbench.data.namesakes import namesake

        other = namesake(corpus.manifest, self.layout.corpora)
        report = self._report(corpus.manifest, None)
        return replace(report, warning=other.sentence() if other else "")

    def data_report(self, recipe: str, *, out: Path | None = None) -> DataReport:
        """Write the report on a built corpus and return it.

        Args:
            recipe: A recipe or a corpus file.
            out: Folder to write to; by default ``reports/data/NAME-vN-FINGERPRINT`` of the lab.

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

    def data_mixture(self, recipe: str, *, scale: str = "") -> PlannedRun:
        """Return what each phase of a recipe's control takes from each domain.

        Args:
            recipe: A recipe file.
            scale: Of the recipe; empty for its largest.

        Raises:
            NotFoundError: no such file or scale, or its corpus is not built.
        """
        plan = self._scale_plan(recipe, scale)
        from workbench.training.mixture_plan import planned_mixture

        found = planned_mixture(plan.config, self._opened(plan.recipe.corpus))
        return PlannedRun(what=_at_scale(plan), steps=plan.config.steps, found=found)

    def data_at(self, recipe: str, step: int, *, seed: int = 0, scale: str = "") -> PlannedRun:
        """Return the exact samples of a step of a recipe's control, found without training.

        Args:
            recipe: A recipe file.
            step: From 1.
            seed: Of the run.
            scale: Of the recipe; empty for its largest.

        Raises:
            NotFoundError: no such file, scale or step, or its corpus is not built.
        """
        plan = self._scale_plan(recipe, scale)
        from workbench.training.sampling import samples_at

        found = samples_at(plan.config, self._opened(plan.recipe.corpus), seed, step)
        what = f"{_at_scale(plan)}, seed {seed}"
        return PlannedRun(what=what, steps=plan.config.steps, found=found)

    def experiment_data_at(
        self, number: str, step: int, *, arm: str, seed_number: int
    ) -> PlannedRun:
        """Return the exact samples of a step of a registered full-scale run, as `data_at` does.

        Args:
            number: Of the experiment.
            step: From 1.
            arm: One of its arms; its configuration comes from the promotion.
            seed_number: As in the run's name, ``treatment/seed-0`` and so on.

        Raises:
            NotRegisteredError: the experiment is not registered.
            NotFoundError: no such arm, seed or step, nothing was promoted, or its corpus is not
                built.
        """
        from workbench.experiments.plan import registered_plan
        from workbench.experiments.promoted_config import promoted_config

        name = self.layout.experiment(number).name
        plan = registered_plan(self.source(), name)
        config = promoted_config(self.source(), plan, arm)
        if not 0 <= seed_number < len(plan.seeds):
            raise NotFoundError(
                f"experiment {name[:4]} has no seed {seed_number}",
                remedy=f"give a number of 0 to {len(plan.seeds) - 1}, as in the run's name",
            )
        require_training_extra()
        from workbench.training.sampling import samples_at

        corpus = self._opened(plan.recipe.corpus)
        found = samples_at(config, corpus, plan.seeds[seed_number], step)
        what = f"{name[:4]} {arm}/seed-{seed_number} at full scale"
        return PlannedRun(what=what, steps=config.steps, found=found)

    def export_croissant(self, recipe: str, file: Path) -> Path:
        """Write a built corpus's description in Croissant's JSON-LD and return the file.

        Raises:
            NotFoundError: there is no such recipe, or its corpus is not built.
        """
        from workbench.data.croissant import croissant

        described = json.dumps(croissant(self._manifest(recipe)), indent=1)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(described + "\n", "utf-8")
        return file

    def _scale_plan(self, recipe: str, scale: str) -> RepeatPlan:
        from workbench.experiments.repeat_plan import scale_plan

        plan = scale_plan(self.layout, recipe, scale)
        require_training_extra()
        return plan

    def _opened(self, config: CorpusConfig) -> Any:
        from workbench.data.corpus import open_corpus

        return open_corpus(config, self.layout.corpora)

    def _corpus_config(self, recipe: str) -> CorpusConfig:
        from workbench.experiments.repeat_plan import recipe_text
        from workbench.proxies.recipe_file import load_corpus

        return load_corpus(recipe_text(self.layout, recipe), recipe)

    def _manifest(self, recipe: str) -> Manifest:
        config = self._corpus_config(recipe)
        require_training_extra(("tokenizers",))
        found: Manifest = self._opened(config).manifest
        return found

    def _report(self, manifest: Manifest, out: Path | None) -> DataReport:
        from workbench.reports.dataset.page import report_folder
        from workbench.reports.site import write_data_report

        facts = data_facts(manifest)
        page, plain = write_data_report(facts, out or report_folder(manifest, self.layout.reports))
        return DataReport(facts=facts, page=page, plain=plain)


def _at_scale(plan: RepeatPlan) -> str:
    num = len(plan.recipe.scales)
    place = "its only scale"
    if num > 1:
        is_last = plan.scale == plan.recipe.scales[-1].name
        place = f"the largest of {num} scales" if is_last else f"one of {num} scales"
    return f"{plan.what} ({place})"
