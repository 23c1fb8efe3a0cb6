"""The finished runs that a look or a verdict rests on, and what stands in the way of judging."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.data.corpus import Corpus
from workbench.errors import ConflictError, IntegrityError
from workbench.experiments.attempts import RunHistory, histories, run_name
from workbench.experiments.plan import ExperimentPlan
from workbench.experiments.progress import Progress
from workbench.experiments.promotion import promotion_body
from workbench.experiments.sealed_evaluation import FinalState, final_state
from workbench.registry.entries import Promotion
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry

ARMS = ("control", "treatment")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Everything that outcomes are judged from."""

    plan: ExperimentPlan
    promotion: Entry
    ledger: Ledger
    corpus: Corpus
    folder: Path
    """Holds one folder a run."""
    progress: Progress
    begin: Callable[[], object]
    """Records what differs from what is in force, once nothing stands in the way."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The finished runs of the first seeds and what stands in the way of judging them."""

    states: tuple[FinalState, ...]
    """Of the runs that no earlier look has read."""
    histories: Mapping[str, RunHistory]
    void_reasons: tuple[str, ...]
    """Why there is nothing to judge; the sealed split then stays shut."""

    def ends(self) -> list[str]:
        """Return the leaves of the entries that ended these runs."""
        ends = [history.final.end_entry for history in self.histories.values() if history.final]
        return [entry.leaf for entry in ends if entry]


def gathered(
    bench: Bench, num_seeds: int, *, incomplete: bool, read: Collection[str] = ()
) -> Evidence:
    """Return the runs of each arm's first ``num_seeds`` seeds.

    Args:
        bench: The experiment.
        num_seeds: Seeds an arm.
        incomplete: Missing and damaged runs are a reason for void instead of a refusal.
        read: Runs whose values an earlier look recorded; their checkpoints are not needed again.

    Raises:
        ConflictError: runs are missing.
        IntegrityError: a checkpoint is not what it was.
    """
    found = histories(bench.ledger, bench.plan.subject, bench.plan.mode)
    wanted = [run_name(arm, index) for index in range(num_seeds) for arm in ARMS]
    missing = [run for run in wanted if run not in found or found[run].final is None]
    if missing and not incomplete:
        raise ConflictError(
            f"{len(missing)} of {len(wanted)} runs are not finished: {', '.join(missing)}",
            remedy=f"workbench run {bench.plan.subject[:4]}   (or --incomplete: void by the rule)",
        )
    finished = {run: found[run] for run in wanted if run not in missing}
    unread = {run: history for run, history in finished.items() if run not in read}
    states, damaged = _final_states(unread, bench.folder, tolerate=incomplete)
    diverged = [run for run, history in finished.items() if _outcome(history) == "diverged"]
    reasons = [f"run {run} is missing" for run in missing]
    reasons += damaged
    reasons += _wrong_configs(finished, promotion_body(bench.promotion))
    if bench.plan.proposal.divergence.rule == "arm_void":
        reasons += [f"run {run} diverged, and the rule is arm_void" for run in diverged]
    return Evidence(states=tuple(states), histories=finished, void_reasons=tuple(reasons))


def _final_states(
    finished: Mapping[str, RunHistory], folder: Path, *, tolerate: bool
) -> tuple[list[FinalState], list[str]]:
    states, damaged = [], []
    for history in finished.values():
        try:
            state = final_state(history, folder)
        except IntegrityError as error:
            if not tolerate:
                raise
            damaged.append(error.message)
            continue
        if state is not None:
            states.append(state)
    return states, damaged


def _wrong_configs(finished: Mapping[str, RunHistory], promotion: Promotion) -> Sequence[str]:
    return [
        f"attempt {attempt.started.attempt} of {run} ran another configuration than was promoted"
        for run, history in finished.items()
        for attempt in history.attempts
        if attempt.started.config_sha256 != promotion.config_sha256.get(attempt.started.arm)
    ]


def _outcome(history: RunHistory) -> str:
    return history.final.ended.outcome if history.final and history.final.ended else ""
