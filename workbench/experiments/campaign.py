"""An experiment at work: its plan, corpus, ledger and tracker together, one method a stage."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workbench.canonical import freeze
from workbench.data.corpus import Corpus
from workbench.experiments.budget import allowance, require_budget
from workbench.experiments.deviations import Watch
from workbench.experiments.evidence import Bench
from workbench.experiments.locks import stage_lock
from workbench.experiments.looks import LookBook
from workbench.experiments.plan import ExperimentPlan, refuse_outdated
from workbench.experiments.progress import Progress
from workbench.experiments.promotion import Promoter, required_promotion
from workbench.experiments.published_outcomes import publish_validation
from workbench.experiments.runs import Runner
from workbench.experiments.summaries import RunsReport, SweepReport
from workbench.experiments.verdicts import decide_verdict
from workbench.layout import Layout
from workbench.proxies.selection import candidate_name, sweep_ranking
from workbench.proxies.sweep import run_sweep
from workbench.proxies.sweep_plan import SweepRun, SweepSummary
from workbench.proxies.watch import Allowed, ProxyProgress, without_limit
from workbench.registry.entries import CodeState
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry
from workbench.training.fit import fit
from workbench.training.tracking import Tracker


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """One experiment with everything that running it needs."""

    layout: Layout
    plan: ExperimentPlan
    ledger: Ledger
    tracker: Tracker
    corpus: Corpus
    search_url: str
    """SQLAlchemy URL of the sweep's database."""
    code: CodeState
    environment: Mapping[str, str]
    host: Mapping[str, str]
    progress: Progress

    def sweep(self) -> SweepReport:
        """Run what is left of the sweep."""
        with self._alone():
            self._begin("sweep")
            plan = SweepRun.of(
                self.plan.proposal,
                self.plan.recipe,
                subject=self.plan.subject,
                mode=self.plan.mode,
                registration=self.plan.leaf,
                recipe_sha256=self.plan.recipe_sha256,
                search_url=self.search_url,
            )
            summary = run_sweep(
                plan,
                ledger=self.ledger,
                tracker=self.tracker,
                corpus=self.corpus,
                folder=self._folder("sweep"),
                train=fit,
                progress=self._proxy_progress("trials"),
                allowed=self._allowance(),
            )
            return self._sweep_report(summary)

    def promote(self) -> Entry:
        """Run the ladder, choose by the registered rule and forecast; return the promotion."""
        with self._alone():
            self._begin("promotion")
            promoter = Promoter(
                plan=self.plan,
                ledger=self.ledger,
                tracker=self.tracker,
                corpus=self.corpus,
                folder=self._folder("ladder"),
                train=fit,
                progress=self._proxy_progress("re-runs"),
                allowed=self._allowance(),
            )
            return promoter.promote()

    def run(self) -> RunsReport:
        """Run what is left of both arms at full scale."""
        with self._alone():
            bench = self._bench("look")
            exploring = self.plan.mode == "exploratory"
            runner = Runner(
                plan=self.plan,
                promotion=bench.promotion,
                ledger=self.ledger,
                tracker=self.tracker,
                corpus=self.corpus,
                folder=self._folder("full"),
                watch=self._watch(),
                train=fit,
                progress=self.progress,
                looks=None if exploring else LookBook.of(bench),
            )
            return runner.run_all()

    def verdict(self, *, incomplete: bool) -> Entry:
        """Read the sealed test split once and append the verdict."""
        with self._alone():
            return decide_verdict(self._bench("verdict"), incomplete=incomplete)

    def _bench(self, at: str) -> Bench:
        return Bench(
            plan=self.plan,
            promotion=required_promotion(self.ledger, self.plan),
            ledger=self.ledger,
            corpus=self.corpus,
            folder=self._folder("full"),
            progress=self.progress,
            begin=lambda: self._watch().record(at),
        )

    def publish_outcomes(self) -> None:
        """Give MLflow, once there is a verdict, the validation metrics held back from it."""
        publish_validation(self.ledger, self.layout, self.tracker, self.plan.subject)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep a second process from the same experiment, and run what is in force."""
        with stage_lock(self.layout, self.ledger, self.plan.subject, self.plan.mode):
            refuse_outdated(self.ledger, self.plan)
            yield

    def _begin(self, stage: str) -> None:
        """Refuse what the budget forbids; record what differs from what is in force."""
        self._require_budget()
        self._watch().begin(stage)

    def _require_budget(self) -> None:
        if self.plan.mode == "confirmatory":
            cap = self.plan.proposal.budget_cap_device_hours
            require_budget(self.ledger, self.plan.subject, cap_device_hours=cap)

    def _allowance(self) -> Allowed:
        if self.plan.mode == "exploratory":
            return without_limit
        cap = self.plan.proposal.budget_cap_device_hours
        return allowance(self.ledger, self.plan.subject, cap_device_hours=cap)

    def _watch(self) -> Watch:
        return Watch(
            ledger=self.ledger,
            plan=self.plan,
            layout=self.layout,
            code=self.code,
            environment=self.environment,
            host=self.host,
        )

    def _folder(self, stage: str) -> Path:
        return self.layout.runs / self.plan.subject / self.plan.mode / stage

    def _proxy_progress(self, what: str) -> Callable[[ProxyProgress], None]:
        def show(state: ProxyProgress) -> None:
            best = "" if state.best is None else f", best {state.best:.4f}"
            ended = state.loss is None
            self.progress(what, state.done, state.total, f"{state.name}{best}", ended=ended)
            self.progress("steps", state.step, state.steps, "")

        return show

    def _sweep_report(self, summary: SweepSummary) -> SweepReport:
        proposal = self.plan.proposal
        ranked = sweep_ranking(
            summary.trials,
            direction=proposal.measures.primary.direction,
            tie_break=proposal.sweep.tie_break,
            control=self.plan.recipe.control(),
        )
        # Trial 0, or the repeat of it that an interruption made necessary.
        own = freeze(self.plan.recipe.control())
        control = [t.value for t in summary.trials if freeze(t.params) == own]
        return SweepReport(
            metric=proposal.measures.primary.metric,
            declared=summary.declared,
            counts=summary.counts,
            num_again=sum(summary.counts.values()) - summary.done,
            control_value=next((value for value in control if value is not None), None),
            best_trial=candidate_name(ranked[0].number) if ranked else "",
            best_value=ranked[0].value if ranked else None,
            drawn=tuple(t.drawn for t in summary.trials if t.state == "completed" and t.drawn),
            recovered=summary.recovered,
        )
