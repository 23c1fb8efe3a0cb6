"""Tokens that the stream serves, against the training rate of the smallest proxy in the same run.

python benchmarks/loader.py [--json] [--smoke]
"""

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from measure import Goal, arguments, at_least, report
from numpy.typing import NDArray

from workbench.data.serving.stream import TokenStream
from workbench.moe.model import MoEDecoder, initialise
from workbench.proxies.recipe_file import load_recipe
from workbench.training.config import RunConfig
from workbench.training.loader import StepLoader
from workbench.training.module import PretrainModule, RunIdentity
from workbench.training.sampling import decay_schedule

RECIPE = (
    Path(__file__).parents[1] / "workbench/scaffold/templates/proxies/mixture-lambda-phases.yaml"
)
LENGTHS = {"code": 900_000, "docs": 180_000, "math": 180_000}
SHARES = {"code": 0.7, "docs": 0.2, "math": 0.1}
ROW = np.dtype([("start", "<u8"), ("entropy", "<f4"), ("rank", "<f4")])
OPTIONS: dict[str, dict[str, object]] = {
    "joined": {},
    "masked": {"batch": {"documents": "masked"}},
    "weighted": {"document_weights": {"first": 0.999, "last": 0.992}},
}


class MappedSource:
    """Random tokens of about 400 a document in files, mapped as a corpus maps them."""

    fingerprint = "sha256:benchmark"

    def __init__(self, folder: Path, vocab_size: int) -> None:
        self.domains = tuple(sorted(LENGTHS))
        self._folder = folder
        self._rows: dict[str, NDArray[np.void]] = {}
        random = np.random.default_rng(1)
        for domain, length in LENGTHS.items():
            tokens = random.integers(1, vocab_size, size=length, dtype=np.uint16)
            tokens[random.random(length) < 1 / 400] = 0
            tokens[-1] = 0
            tokens.tofile(folder / domain)
            starts = np.append(0, np.flatnonzero(tokens == 0)[:-1] + 1)
            self._rows[domain] = np.zeros(len(starts), dtype=ROW)
            self._rows[domain]["start"] = starts
            self._rows[domain]["rank"] = random.permutation(len(starts)) / len(starts)

    def tokens(self, split: str, domain: str) -> NDArray[np.uint16]:
        del split
        return np.memmap(self._folder / domain, dtype=np.uint16, mode="r")

    def documents(self, split: str, domain: str) -> NDArray[np.void]:
        del split
        return self._rows[domain]


@dataclass(frozen=True)
class Rates:
    """Seconds a step: of the stream by option, of training with batches at hand and with ours."""

    served: dict[str, float]
    training: float
    waited: float


def with_options(base: RunConfig, options: dict[str, object]) -> RunConfig:
    plain = base.model_dump(mode="json")
    for key, value in options.items():
        old = plain.get(key)
        plain[key] = (
            {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
        )
    return RunConfig.model_validate(plain)


def stream_of(config: RunConfig, source: MappedSource) -> TokenStream:
    return TokenStream(
        source, batch=config.batch, seed=1, mixtures=[(0, SHARES)], weights=decay_schedule(config)
    )


def serve(config: RunConfig, source: MappedSource, steps: int) -> float:
    stream = stream_of(config, source)
    stream.next_step()
    began = time.perf_counter()
    for _ in range(steps):
        stream.next_step()
    return (time.perf_counter() - began) / steps


def train(config: RunConfig, source: MappedSource, steps: int) -> tuple[float, float]:
    """Return seconds a step, and those of them in which training waited for its batch."""
    model = MoEDecoder(config.model)
    initialise(model, torch.Generator().manual_seed(1))
    module = PretrainModule(model, RunIdentity(config=config, seed=1, corpus=""))
    module.manual_backward = lambda loss: loss.backward()  # type: ignore[method-assign]
    optimizer = module.configure_optimizers()
    loader = StepLoader(stream_of(config, source), steps + 2)
    batches = iter(loader)
    waited = began = 0.0
    for step in range(steps + 2):
        if step == 2:  # after the first allocations
            waited, began = 0.0, time.perf_counter()
        asked = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - asked
        optimizer.zero_grad(set_to_none=True)
        module._accumulate(batch, config.balance.weight, backward=True)
        module.clipper.clip(module.model)
        optimizer.step()
    spent = time.perf_counter() - began
    loader.close()
    return spent / steps, waited / steps


def measured(base: RunConfig, source: MappedSource, *, steps: int, runs: int) -> Rates:
    """Return the medians of runs in turn."""
    configs = {name: with_options(base, options) for name, options in OPTIONS.items()}
    served: dict[str, list[float]] = {name: [] for name in configs}
    trained = []
    for _ in range(runs):
        for name, config in configs.items():
            served[name].append(serve(config, source, 20 * steps))
        trained.append(train(base, source, steps))
    return Rates(
        served={name: statistics.median(values) for name, values in served.items()},
        training=statistics.median(spent for spent, _ in trained),
        waited=statistics.median(waited for _, waited in trained),
    )


def main() -> None:
    runs, as_json = arguments()
    # Matrices this small train fastest on one thread, which is the hardest peer.
    torch.set_num_threads(1)
    base = load_recipe(RECIPE.read_text("utf-8"), RECIPE.name).at_scale("s1")
    steps = 5 if "--smoke" in sys.argv else 20
    with tempfile.TemporaryDirectory() as folder:
        source = MappedSource(Path(folder), base.model.vocab_size)
        rates = measured(base, source, steps=steps, runs=runs)
    peer = f"training of the smallest proxy, {base.tokens_per_step / rates.training:.0f} tokens/s"
    goals = [
        at_least(
            f"tokens served a second, documents {name} "
            f"({base.tokens_per_step / seconds / 1e6:.1f} million)",
            rates.training,
            seconds,
            target=10,
            peer_name=peer,
            runs=runs,
        )
        for name, seconds in rates.served.items()
    ]
    share = rates.waited / rates.training
    goals.append(
        Goal(
            goal="share of a training step spent waiting for its batch",
            value=round(share, 5),
            target=0.02,
            unit="of the step, smaller is better",
            peer="the step",
            met=share < 0.02,
            runs=runs,
        )
    )
    report(goals, as_json=as_json)


if __name__ == "__main__":
    main()
