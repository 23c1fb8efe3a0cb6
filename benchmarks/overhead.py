"""What a step costs beside its training: recording, and Lightning's loop.

python benchmarks/overhead.py [--json] [--smoke]
"""

import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from lightning.pytorch.loggers import MLFlowLogger
from measure import Goal, at_least, report
from torch import Tensor

from workbench.moe.model import MoEDecoder, initialise
from workbench.proxies.recipe_file import load_recipe
from workbench.sentinel.detector import Detector
from workbench.sentinel.telemetry import TelemetryRow
from workbench.training.config import RunConfig
from workbench.training.fit import quiet_lightning, trainer_of
from workbench.training.module import PretrainModule, RunIdentity
from workbench.training.recorder import FileRecorder, Recorder
from workbench.training.tracking import Tracker

RECIPE = (
    Path(__file__).parents[1] / "workbench/scaffold/templates/proxies/mixture-lambda-phases.yaml"
)
STEP_SECONDS = 0.1
"""Of the step that the recording is compared with."""
SIZE_S = {"d_model": 128, "num_layers": 4, "num_heads": 4, "num_kv_heads": 4, "d_expert": 256}


def row(step: int) -> TelemetryRow:
    """Return a healthy row, a little different at each step."""
    wave = 0.01 * (step % 17)
    return TelemetryRow(
        time=1e9 + step * STEP_SECONDS,
        step=step,
        tokens=4096 * step,
        loss=4.0 + wave,
        lr=1e-3,
        grad_norm=0.5 + wave,
        clip_threshold=1.0,
        router_entropy=0.95,
        max_expert_share=0.3 + wave,
        capacity_utilization=0.8,
        aux_loss=1.0 + wave,
        step_seconds=STEP_SECONDS,
    )


@contextmanager
def recorders(folder: Path) -> Iterator[list[Recorder]]:
    tracker = Tracker(f"sqlite:///{folder / 'mlflow.db'}", folder / "artifacts", "overhead")
    files = FileRecorder(folder / "telemetry.jsonl", folder / "evaluations.jsonl")
    run = tracker.start_run("run", {}, {})
    yield [files, tracker.recorder(run)]


def seconds_a_row(rows: int) -> tuple[float, float]:
    """Return the seconds of our whole recording, and of Lightning's MLflow logger alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with recorders(folder) as ours:
            detector = Detector(num_experts=8, divergence_loss=20.0, patience=5, top_k=2)
            began = time.perf_counter()
            for step in range(1, rows + 1):
                each = row(step)
                detector.observe(each)
                for recorder in ours:
                    recorder.telemetry(each)
            for recorder in ours:
                recorder.close()
            own = (time.perf_counter() - began) / rows
        store = f"sqlite:///{folder / 'mlflow.db'}"
        logger = MLFlowLogger("peer", tracking_uri=store, artifact_location=str(folder / "peer"))
        logger.log_metrics(_floats(row(0)), 0)
        peer_rows = max(20, rows // 20)
        began = time.perf_counter()
        for step in range(1, peer_rows + 1):
            logger.log_metrics(_floats(row(step)), step)
        return own, (time.perf_counter() - began) / peer_rows


def _floats(each: TelemetryRow) -> dict[str, float]:
    names = (
        "time",
        "clip_threshold",
        "loss",
        "lr",
        "grad_norm",
        "router_entropy",
        "max_expert_share",
        "capacity_utilization",
        "aux_loss",
    )
    return {name: float(getattr(each, name)) for name in (*names, "tokens", "step_seconds")}


class Batches(torch.utils.data.Dataset[Mapping[str, Tensor]]):
    """The same random batches for both loops."""

    def __init__(self, config: RunConfig, steps: int) -> None:
        shape = (steps, config.batch.sequences, config.batch.seq_len + 1)
        generator = torch.Generator().manual_seed(1)
        self._tokens = torch.randint(config.model.vocab_size, shape, generator=generator)

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, number: int) -> Mapping[str, Tensor]:
        return {"tokens": self._tokens[number]}


def config_of(steps: int, *, small: bool) -> RunConfig:
    """Return the scaffold's proxy at size S, in bf16."""
    base = load_recipe(RECIPE.read_text("utf-8"), RECIPE.name).at_scale("s1")
    plain = base.model_dump(mode="json")
    plain["precision"], plain["steps"] = "bf16", steps
    if not small:
        plain["model"] |= SIZE_S | {"vocab_size": 4096, "num_experts": 8, "max_seq_len": 512}
        plain["batch"] |= {"sequences": 8, "seq_len": 512}
    return RunConfig.model_validate(plain)


def module_of(config: RunConfig) -> PretrainModule:
    model = MoEDecoder(config.model)
    initialise(model, torch.Generator().manual_seed(1))
    return PretrainModule(model, RunIdentity(config=config, seed=1, corpus=""))


def under_lightning(config: RunConfig, batches: Batches) -> float:
    """Return the seconds of a step of the run's own trainer, the first two steps left out."""
    marks = []

    class Clock(PretrainModule):
        def training_step(self, batch: Mapping[str, Tensor], batch_idx: int) -> None:
            marks.append(time.perf_counter())
            super().training_step(batch, batch_idx)

    module = module_of(config)
    module.__class__ = Clock
    loader = torch.utils.data.DataLoader(batches, batch_size=None)
    with quiet_lightning():
        trainer_of(config, "cpu", callbacks=[]).fit(module, loader)
    return (marks[-1] - marks[2]) / (len(marks) - 3)


def bare(config: RunConfig, batches: Batches) -> float:
    """Return the seconds of a step of the same module and loader in a plain loop."""
    module = module_of(config)
    module.manual_backward = lambda loss: loss.backward()  # type: ignore[method-assign]
    optimizer = module.configure_optimizers()
    marks = []
    module._optimizer = lambda **_: optimizer  # type: ignore[method-assign]
    loader = torch.utils.data.DataLoader(batches, batch_size=None)
    for number, batch in enumerate(loader):
        marks.append(time.perf_counter())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            module.training_step(batch, number)
    return (marks[-1] - marks[2]) / (len(marks) - 3)


def loops(runs: int, *, small: bool) -> tuple[float, float]:
    """Return the seconds of a step of both loops, each first in every other pair."""
    steps = 6 if small else 14
    config = config_of(steps, small=small)
    batches = Batches(config, steps)
    seconds: dict[Callable[[RunConfig, Batches], float], list[float]] = {
        under_lightning: [],
        bare: [],
    }
    for number in range(runs):
        for loop in (under_lightning, bare) if number % 2 else (bare, under_lightning):
            seconds[loop].append(loop(config, batches))
    return statistics.median(seconds[under_lightning]), statistics.median(seconds[bare])


def goals(*, small: bool) -> Sequence[Goal]:
    runs = 1 if small else 7
    recording = [seconds_a_row(200 if small else 2000) for _ in range(runs)]
    own, peer = (statistics.median(column) for column in zip(*recording, strict=True))
    lightning, plain = loops(runs, small=small)
    return [
        Goal(
            goal=f"telemetry, sentinel and MLflow ({own * 1e6:.0f} us a step)",
            value=round(own / STEP_SECONDS, 5),
            target=0.01,
            unit="of a step of 100 ms, smaller is better",
            peer="the step",
            met=own / STEP_SECONDS < 0.01,
            runs=runs,
        ),
        at_least(
            "rows recorded a second",
            1 / own,
            1 / peer,
            target=1.0,
            peer_name=f"Lightning's MLFlowLogger, each row ({peer * 1e6:.0f} us a step)",
            runs=runs,
        ),
        at_least(
            "steps a second under Lightning",
            1 / lightning,
            1 / plain,
            target=0.97,
            peer_name=f"a plain loop over the same work ({plain * 1e3:.0f} ms a step)",
            runs=runs,
        ),
    ]


def main() -> None:
    warnings.filterwarnings("ignore")
    report(goals(small="--smoke" in sys.argv), as_json="--json" in sys.argv)


if __name__ == "__main__":
    main()
