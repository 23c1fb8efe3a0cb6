"""Promotion: the top of the sweep against the control on fresh seeds, then the full-scale plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.canonical import Json, fingerprint, freeze
from workbench.data.corpus import Corpus
from workbench.errors import ConflictError, IntegrityError
from workbench.experiments.plan import ExperimentPlan
from workbench.experiments.scaling import key_changes
from workbench.proxies.forecast import ForecastRequest, forecasts
from workbench.proxies.ladder import LadderRun, run_ladder
from workbench.proxies.proxy import TrainFunction
from workbench.proxies.record import recorded_trials
from workbench.proxies.selection import NONE, Selection, SelectionRule, select, sweep_ranking
from workbench.proxies.watch import Allowed, Progress, without_limit
from workbench.registry.entries import (
    Deviation,
    Forecast,
    KeyChange,
    Promotion,
    ProxyRun,
    SweepEnded,
)
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry, LogSource
from workbench.training.config import RunConfig
from workbench.training.tracking import Tracker


@dataclass(frozen=True, kw_only=True)
class Promoter:
    """Everything that promoting one experiment needs."""

    plan: ExperimentPlan
    ledger: Ledger
    tracker: Tracker
    corpus: Corpus
    folder: Path
    """Holds one folder a re-run."""
    train: TrainFunction
    progress: Progress | None
    allowed: Allowed = without_limit

    def promote(self) -> Entry:
        """Run the ladder, apply the selection rule, append promotion and forecasts.

        A promotion that is already in the ledger is returned as it is.

        Raises:
            ConflictError: the sweep is not finished.
            RunFailedError: the ladder is too short for a forecast.
        """
        root = finished_sweep_root(self.ledger, self.plan)
        done = find_promotion(self.ledger, self.plan, root=root)
        if done is None:
            runs, selection = self._select(root)
            done = self._append_promotion(root, selection)
        else:
            runs = tuple(ladder_runs(self.ledger, self.plan, root))
        # Each of these is appended by itself: a call that was cut short between two is completed.
        self._append_deviations(root, done)
        self._append_forecasts(done, runs)
        return done

    def _select(self, root: str) -> tuple[tuple[ProxyRun, ...], Selection]:
        proposal, control = self.plan.proposal, self.plan.recipe.control()
        rule = SelectionRule.of(proposal)
        ranked = sweep_ranking(
            recorded_trials(self.ledger, subject=self.plan.subject, root=root),
            direction=rule.direction,
            tie_break=rule.tie_break,
            control=control,
        )[: rule.top_k]
        if not ranked:
            raise ConflictError(
                f"no trial of the sweep of {self.plan.subject} completed with a finite value, so "
                "there is nothing to promote",
                remedy=f"workbench chronicle {self.plan.subject[:4]}   (shows why each failed)",
            )
        ladder = LadderRun.of(
            proposal,
            self.plan.recipe,
            subject=self.plan.subject,
            mode=self.plan.mode,
            root=root,
            trials=tuple(ranked),
        )
        summary = run_ladder(
            ladder,
            ledger=self.ledger,
            tracker=self.tracker,
            corpus=self.corpus,
            folder=self.folder,
            train=self.train,
            progress=self.progress,
            allowed=self.allowed,
        )
        return summary.runs, select(ranked, summary.runs, rule, control)

    def _append_promotion(self, root: str, selection: Selection) -> Entry:
        configs = self._configs(selection)
        plain = {arm: config.model_dump(mode="json") for arm, config in configs.items()}
        changes = self._changes(configs["control"])
        body = Promotion(
            mode=self.plan.mode,
            chosen=selection.chosen,
            rule=selection.rule,
            candidates=list(selection.candidates),
            changes=changes,
            configs=freeze(plain),
            config_sha256={arm: fingerprint(config) for arm, config in plain.items()},
            reason=selection.reason,
        )
        refs = [root, *_run_leaves(self.ledger, self.plan, root)]
        return self.ledger.append(body, subject=self.plan.subject, refs=refs)

    def _append_deviations(self, root: str, promotion: Entry) -> None:
        """Append what the promotion changes without a rule, unless an earlier call did."""
        entries = self.ledger.entries(kind="deviation", subject=self.plan.subject)
        bodies = [entry.body for entry in entries if promotion.leaf in entry.refs]
        known = [body.what for body in bodies if isinstance(body, Deviation)]
        for change in promotion_body(promotion).changes:
            body = _deviation(change)
            if change.deviation and body.what not in known:
                refs = [root, promotion.leaf]
                self.ledger.append(body, subject=self.plan.subject, refs=refs)

    def _configs(self, selection: Selection) -> dict[str, RunConfig]:
        full, recipe = self.plan.full, self.plan.recipe
        configs = {"control": full.config(recipe, recipe.control())}
        chosen = [c for c in selection.candidates if c.name == selection.chosen]
        if chosen:
            configs["treatment"] = full.config(recipe, chosen[0].params)
        return configs

    def _changes(self, full_control: RunConfig) -> list[KeyChange]:
        recipe = self.plan.recipe
        proxy = recipe.at_scale(recipe.scales[0].name)
        return key_changes(proxy, full_control, self.plan.proposal.promotion.scaling_rules)

    def _append_forecasts(self, promotion: Entry, runs: Sequence[ProxyRun]) -> None:
        body = promotion.body
        if not isinstance(body, Promotion) or body.chosen == NONE:
            return
        made = [body.target for _, body in forecast_entries(self.ledger, self.plan, promotion)]
        proposal = self.plan.proposal
        request = ForecastRequest(
            mode=self.plan.mode,
            metric=proposal.measures.primary.metric,
            direction=proposal.measures.primary.direction,
            method=proposal.promotion.forecast.method,
            candidate=body.chosen,
            full=RunConfig.model_validate(body.configs["control"]),
            num_seeds=proposal.design.seeds,
            expected_improvement=proposal.promotion.forecast.expected_improvement,
        )
        refs = [*promotion.refs[:1], promotion.leaf]
        for forecast in forecasts(request, self.plan.recipe, runs):
            if forecast.target not in made:
                self.ledger.append(forecast, subject=self.plan.subject, refs=refs)


def finished_sweep_root(source: LogSource, plan: ExperimentPlan) -> str:
    """Return the leaf that the finished sweep's entries refer to first.

    Raises:
        ConflictError: no sweep of this experiment is finished in this mode.
    """
    roots = [
        entry.refs[0]
        for entry in source.entries(kind="sweep_ended", subject=plan.subject)
        if isinstance(entry.body, SweepEnded)
        and entry.body.mode == plan.mode
        and entry.body.finished
        and entry.refs
    ]
    if not roots:
        flag = "" if plan.mode == "confirmatory" else " --exploratory"
        raise ConflictError(
            f"the {plan.mode} sweep of {plan.subject} is not finished, so nothing can be promoted",
            remedy=f"workbench sweep {plan.subject[:4]}{flag}",
        )
    return roots[-1]


def find_promotion(
    source: LogSource, plan: ExperimentPlan, *, root: str | None = None
) -> Entry | None:
    """Return the newest promotion of this mode, of one sweep if its root is given."""
    found = [
        entry
        for entry in source.entries(kind="promotion", subject=plan.subject)
        if isinstance(entry.body, Promotion)
        and entry.body.mode == plan.mode
        and (root is None or root in entry.refs)
    ]
    return found[-1] if found else None


def required_promotion(source: LogSource, plan: ExperimentPlan) -> Entry:
    """Return the promotion that full-scale runs follow.

    Raises:
        ConflictError: nothing was promoted yet, or no candidate was good enough.
    """
    entry = find_promotion(source, plan)
    number = plan.subject[:4]
    flag = "" if plan.mode == "confirmatory" else " --exploratory"
    if entry is None:
        raise ConflictError(
            f"{plan.subject} has no {plan.mode} promotion, so there is no full-scale configuration",
            remedy=f"workbench promote {number}{flag}",
        )
    if isinstance(entry.body, Promotion) and entry.body.chosen == NONE:
        raise ConflictError(
            f"the promotion of {plan.subject} chose no candidate: {entry.body.reason}",
            remedy=f"workbench chronicle {number}   (the experiment ends here; that is a result)",
        )
    return entry


def forecast_entries(
    source: LogSource, plan: ExperimentPlan, promotion: Entry
) -> list[tuple[Entry, Forecast]]:
    """Return the forecasts that were made with a promotion."""
    return [
        (entry, entry.body)
        for entry in source.entries(kind="forecast", subject=plan.subject)
        if isinstance(entry.body, Forecast) and promotion.leaf in entry.refs
    ]


def promotion_body(entry: Entry) -> Promotion:
    """Return the entry's body.

    Raises:
        IntegrityError: the entry is of another kind.
    """
    if not isinstance(entry.body, Promotion):
        raise IntegrityError(f"entry {entry.id} is not a promotion")
    return entry.body


def ladder_runs(source: LogSource, plan: ExperimentPlan, root: str) -> list[ProxyRun]:
    """Return the last end of each re-run of the ladder."""
    last: dict[Json, ProxyRun] = {}
    for entry in source.entries(kind="proxy_run", subject=plan.subject):
        body = entry.body
        if isinstance(body, ProxyRun) and root in entry.refs:
            last[body.candidate, body.scale, body.seed_index] = body
    return list(last.values())


def _run_leaves(source: LogSource, plan: ExperimentPlan, root: str) -> list[str]:
    entries = source.entries(kind="proxy_run", subject=plan.subject)
    return [entry.leaf for entry in entries if root in entry.refs]


def _deviation(change: KeyChange) -> Deviation:
    return Deviation(
        category="config",
        at="the promoted configuration",
        what=f"config {change.key}",
        registered=str(change.proxy),
        found=str(change.full),
        effect=f"full scale differs from the proxies by more than was registered: "
        f"{change.explained_by}",
    )
