"""A small recipe, real ledger and MLflow stores, and a training function that takes no time."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from workbench.canonical import fingerprint
from workbench.data.serving.stream import Accounting
from workbench.proxies.recipe import Recipe
from workbench.proxies.sweep_plan import SweepRun
from workbench.registry.entries import Note
from workbench.registry.ledger import Ledger
from workbench.registry.proposal import Pruning, Sampler
from workbench.sentinel.telemetry import TelemetryRow
from workbench.training.recorder import FileRecorder, StopRun
from workbench.training.results import DivergenceRule
from workbench.training.run_folder import evaluations_path, last_attempt, telemetry_path
from workbench.training.tracking import Tracker

SUBJECT = "0001-more-code"


def recipe_values() -> dict:
    sources = {
        name: {"source": f"text:{name}.txt", "max_bytes": 1000} for name in ("code", "docs", "math")
    }
    return {
        "recipe": "tiny@1",
        "corpus": {
            "name": "tiny@1",
            "sources": sources,
            "splits": {"validation": 0.1, "test": 0.1, "salt": "s"},
            "tokenizer": {"vocab_size": 300, "train_bytes": 1000},
        },
        "base": {
            "model": {
                "vocab_size": 300, "d_model": 8, "num_layers": 1, "num_heads": 2,
                "num_kv_heads": 2, "num_experts": 4, "top_k": 2, "d_expert": 8, "max_seq_len": 16,
            },
            "balance": {
                "weight": 0.01, "definition": "switch-E*sum(f*P)/k@1", "z_loss_weight": 0.0,
            },
            "batch": {"sequences": 2, "seq_len": 8},
            "optimizer": {"lr": 0.01, "weight_decay": 0.0, "clip_norm": 1.0},
            "steps": 10,
            "phases": [
                {"name": "warmup", "lr": "linear_up"},
                {"name": "stable", "lr": "constant"},
                {"name": "decay", "lr": "linear_down"},
            ],
            "phase_fractions": {"warmup": 0.1, "stable": 0.6, "decay": 0.3},
            "mixture": "natural",
            "evaluation": {"every": 2, "bytes_per_domain": 100},
            "checkpoint": {"every": 10},
        },
        "scales": [
            {"name": "s", "overrides": {}},
            {"name": "m", "overrides": {"model.d_model": 16, "steps": 20}},
        ],
        "space": {
            "mixture": {"kind": "simplex", "domains": ["code", "docs", "math"], "minimum": 0.05},
            "balance.weight": {"kind": "log_uniform", "low": 0.0001, "high": 0.1},
            "phase_fractions": {
                "kind": "fractions", "ranges": {"decay": [0.1, 0.5]}, "rest": "stable",
            },
        },
    }  # fmt: skip


@pytest.fixture
def recipe() -> Recipe:
    return Recipe.model_validate(recipe_values())


class StubCorpus:
    """What a sweep itself asks of a corpus; the stand-in for training asks nothing."""

    def natural_mixture(self) -> dict[str, float]:
        return {"code": 0.5, "docs": 0.3, "math": 0.2}


class StubTraining:
    """Ends at once with a value that follows from the configuration and the seed.

    ``script`` maps the number of the call, from 0, to something to do instead.
    """

    def __init__(self) -> None:
        self.calls: list[dict] = []
        self.script: dict[int, Callable[[], object]] = {}

    def __call__(self, config, corpus, *, seed, folder, recorders, divergence, progress=None):
        call = len(self.calls)
        self.calls.append({"config": config, "seed": seed, "folder": folder})
        folder.mkdir(parents=True, exist_ok=True)
        attempt = last_attempt(folder) + 1
        files = FileRecorder(telemetry_path(folder, attempt), evaluations_path(folder, attempt))
        everybody = [files, *recorders]
        evaluations = []
        outcome, reason, step = "completed", "", 0
        try:
            for step in range(1, config.steps + 1):
                row = TelemetryRow(
                    time=1e9 + step, step=step, tokens=step * config.tokens_per_step, loss=3.0,
                    step_seconds=1.0,
                )  # fmt: skip
                for recorder in everybody:
                    recorder.telemetry(row)
                if progress is not None:
                    progress(step, config.steps, 3.0)
                if step == 5 and call in self.script:
                    scripted = self.script[call]()
                    if isinstance(scripted, str):
                        outcome, reason = scripted, "as scripted"
                        break
                if step % config.evaluation.every == 0:
                    values = {"bpb_macro": bits(config, seed) + 1 / step}
                    evaluations.append((step, values))
                    for recorder in everybody:
                        recorder.evaluation(step, values)
        except StopRun as stop:
            outcome, reason = "pruned", stop.reason
        finally:
            for recorder in everybody:
                recorder.close()
        return StubResult(outcome, reason, step, evaluations, drawn_by(config, step))


class StubResult:
    def __init__(
        self, outcome: str, reason: str, step: int, evaluations: list, mixture: Accounting
    ) -> None:
        self.mixture = mixture
        self.outcome = outcome
        self.reason = reason
        self.last_step = step
        self.device_seconds = float(step)
        self.evaluations = tuple(evaluations)
        self.rejected_checkpoints = ()
        self.warnings = ()
        self.final = evaluations[-1][1] if outcome == "completed" else None


def drawn_by(config, steps: int) -> Accounting:
    """What a stream that keeps its stated shares to the last bit would tell."""
    natural = StubCorpus().natural_mixture()
    shares = natural if config.mixture == "natural" else dict(config.mixture)
    tokens = {d: round(share * steps * config.tokens_per_step) for d, share in shares.items()}
    return Accounting(
        steps=steps,
        tokens=tokens,
        shares=shares if steps else {},
        stated=shares if steps else {},
        epochs={domain: number / 1000 for domain, number in tokens.items()},
    )


def bits(config, seed: int) -> float:
    """Bits per byte of a made-up world: λ has an optimum, code helps, size helps, seeds differ."""
    shares = StubCorpus().natural_mixture() if config.mixture == "natural" else config.mixture
    noise = ((seed >> 20) % 1000) / 1e5
    size = 0.2 * (config.model.d_model == 8)
    return 2.0 + abs(math.log10(config.balance.weight) + 2.5) - 0.5 * shares["code"] + size + noise


@pytest.fixture
def train() -> StubTraining:
    return StubTraining()


@pytest.fixture
def ledger(tmp_path: Path, clock) -> Iterator[Ledger]:
    ledger = Ledger.create(
        url=f"sqlite:///{tmp_path}/ledger.db", origin="lab.example/test",
        keys_dir=tmp_path / "keys", actor="tester", clock=clock, lab_name="test",
    )  # fmt: skip
    yield ledger
    ledger.close()


@pytest.fixture
def registration(ledger: Ledger) -> str:
    """The leaf that stands for a registration: a sweep only refers to it."""
    return ledger.append(Note(text="registered"), subject=SUBJECT).leaf


@pytest.fixture(scope="session")
def mlflow_uri(tmp_path_factory) -> str:
    """One store for all tests: a migration takes seconds, another experiment none."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.fixture
def tracker(tmp_path: Path, mlflow_uri: str) -> Tracker:
    name = "".join(c for c in tmp_path.name if c.isalnum())
    return Tracker(mlflow_uri, tmp_path / "artifacts", name)


@pytest.fixture
def plan(recipe: Recipe, registration: str, tmp_path: Path) -> SweepRun:
    return SweepRun(
        subject=SUBJECT,
        mode="confirmatory",
        registration=registration,
        recipe=recipe,
        recipe_sha256=fingerprint(recipe.model_dump(mode="json")).removeprefix("sha256:"),
        metric="bpb_macro",
        direction="minimize",
        sampler=Sampler(name="random", seed=7),
        budget_trials=5,
        pruning=Pruning(rule="none"),
        failed_trials="count",
        divergence=DivergenceRule(loss_above=20.0, patience=3),
        search_url=f"sqlite:///{tmp_path}/optuna.db",
    )
