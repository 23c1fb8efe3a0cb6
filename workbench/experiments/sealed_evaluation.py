"""The final models of all runs on the sealed test split, after the exposure is on record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.data.corpus import Corpus
from workbench.data.sealed import open_sealed
from workbench.errors import IntegrityError
from workbench.experiments.attempts import RunHistory
from workbench.experiments.plan import ExperimentPlan
from workbench.experiments.progress import Progress
from workbench.registry.entries import Exposure, Promotion
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry
from workbench.training.attempts import checkpoint_folder
from workbench.training.checkpoints import newest_good
from workbench.training.config import RunConfig
from workbench.training.evaluate import evaluate_tokens, load_weights


@dataclass(frozen=True, kw_only=True)
class FinalState:
    """The checkpoint that a completed run ended with."""

    run: str
    arm: str
    seed_index: int
    path: Path
    sha256: str


@dataclass(frozen=True, kw_only=True)
class SealedScores:
    """What the sealed split showed, and the exposure entry that came before it."""

    exposure: Entry
    metrics: Mapping[str, Mapping[str, float]]
    """By run: ``bpb_macro`` and ``bpb_<domain>``."""


def final_state(history: RunHistory, folder: Path) -> FinalState | None:
    """Return the last checkpoint of a completed run, None of any other.

    Raises:
        IntegrityError: the checkpoint on disk is not the one in the ledger.
    """
    final = history.final
    if final is None or final.ended is None or final.ended.outcome != "completed":
        return None
    checkpoint, _ = newest_good(checkpoint_folder(folder / history.run))
    recorded = final.ended.checkpoint_sha256
    if checkpoint is None or checkpoint.sha256 != recorded:
        found = checkpoint.sha256 if checkpoint else "none that verifies"
        raise IntegrityError(
            f"the final checkpoint of {history.run} is {found}, the ledger has {recorded}",
            remedy="restore the checkpoint from a copy; with --incomplete the verdict is void",
        )
    return FinalState(
        run=history.run,
        arm=final.started.arm,
        seed_index=final.started.seed_index,
        path=checkpoint.path,
        sha256=checkpoint.sha256,
    )


def sealed_scores(
    ledger: Ledger,
    plan: ExperimentPlan,
    promotion: Promotion,
    corpus: Corpus,
    states: Sequence[FinalState],
    progress: Progress,
    *,
    purpose: str,
    by: str,
) -> SealedScores:
    """Log the exposure, then evaluate these final models on the whole sealed test split.

    A look that was interrupted goes on under the exposure that it logged then: the same models give
    the same numbers, so it is the same look.

    Args:
        ledger: Where the exposure is logged.
        plan: The experiment.
        promotion: The configurations of the arms.
        corpus: Its test split is read.
        states: The final models that no earlier look has read.
        progress: Told of each model.
        purpose: Why outcomes are looked at, as the exposure says it.
        by: Who looks.

    Raises:
        IntegrityError: the split or a checkpoint is not what it was.
    """
    logged: list[Entry] = []

    def log_exposure() -> str:
        exposure = Exposure(
            what="sealed_test",
            by=by,
            purpose=purpose,
            runs=[state.run for state in states],
        )
        earlier = ledger.entries(kind="exposure", subject=plan.subject)
        begun = next((entry for entry in earlier if entry.body == exposure), None)
        logged.append(begun or ledger.append(exposure, subject=plan.subject, refs=plan.refs))
        return logged[0].leaf

    tokens = open_sealed(corpus, log_exposure)
    metrics: dict[str, Mapping[str, float]] = {}
    for number, state in enumerate(states):
        progress("sealed test", number, len(states), state.run)
        config = RunConfig.model_validate(promotion.configs[state.arm])
        model = load_weights(config, state.path, state.sha256)
        metrics[state.run] = evaluate_tokens(
            model, tokens, corpus.token_bytes, seq_len=config.batch.seq_len, max_bytes=None
        )
    progress("sealed test", len(states), len(states))
    return SealedScores(exposure=logged[0], metrics=metrics)
