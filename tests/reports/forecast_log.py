"""Logs of many short experiments: ladder, promotion, forecasts, runs and a verdict each."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from tests.reports.sample import PROPOSAL, MemoryLog, code_state, registration
from workbench.analysis.forecasts import score
from workbench.registry.entries import (
    Body,
    Candidate,
    Forecast,
    ForecastScore,
    Genesis,
    Interval,
    Promotion,
    ProxyRun,
    Registration,
    RunStarted,
    ScalePoint,
    SeedValue,
    Verdict,
)
from workbench.registry.log import Entry

Z = {50: 0.6745, 80: 1.2816, 95: 1.96}
SPREADS = {"control": 0.02, "treatment": 0.02, "improvement": 0.01}
SEEDS = 3


@dataclass(frozen=True, kw_only=True)
class Story:
    """One experiment: what was forecast, and the truth."""

    name: str
    control: float = 1.78
    treatment: float = 1.74
    forecast: Mapping[str, float] = ()  # type: ignore[assignment]
    """Points by target; those not named are 0.01 too high."""
    method: str = "power_law"
    ratio: float = 5.0
    candidates: int = 2
    proposal: str = PROPOSAL

    @property
    def points(self) -> dict[str, float]:
        truth = {
            "control": self.control,
            "treatment": self.treatment,
            "improvement": self.control - self.treatment,
        }
        return {target: value + 0.01 for target, value in truth.items()} | dict(self.forecast)


def empty_log() -> MemoryLog:
    log = MemoryLog()
    log.append(Genesis(lab="Lab", record_format="1", log_key="k", author_key="k"), "lab")
    return log


def log_of(stories: Sequence[Story]) -> MemoryLog:
    """Return the log of some finished experiments, one after the other."""
    log = empty_log()
    for story in stories:
        register(log, story)
        promote(log, story)
        forecast(log, story)
        begin(log, story)
        decide(log, story)
    return log


def add(log: MemoryLog, body: Body, story: Story, refs: Sequence[str] = ()) -> Entry:
    log.append(body, story.name)
    log.found[-1] = replace(log.found[-1], refs=tuple(refs))
    return log.found[-1]


def register(log: MemoryLog, story: Story, **changes: Any) -> Entry:
    body = _registered(story.proposal).model_copy(update={"experiment": story.name} | changes)
    return add(log, body, story)


@cache
def _registered(proposal: str) -> Registration:
    return registration(proposal)


def names(story: Story) -> list[str]:
    return ["control", *(f"trial-{n:02d}" for n in range(1, story.candidates))]


def params(story: Story, name: str) -> dict[str, Any]:
    """Return a candidate's values: those of the control are the same in every experiment."""
    return {} if name == "control" else {"candidate": f"{story.name} {name}"}


def promote(log: MemoryLog, story: Story, **changes: Any) -> Entry:
    """Append re-runs, then the promotion of the first candidate, which refers to them.

    Each candidate is 0.01 worse than the one before, at both scales.
    """
    generator = random.Random(story.name)
    runs = []
    for scale, offset in (("tiny", 0.4), ("small", 0.2)):
        for place, name in enumerate(names(story)):
            best = story.treatment if place else story.control
            for seed in range(SEEDS):
                value = best + offset + 0.01 * max(0, place - 1) + generator.gauss(0, 0.001)
                runs.append(add(log, rerun(story, name, scale, seed, value), story))
    body = Promotion(
        mode="confirmatory",
        chosen="trial-01",
        rule="the best",
        candidates=[candidate(story, name) for name in names(story)],
        changes=[],
        configs={},
        config_sha256={"control": "c0" * 32, "treatment": "7e" * 32},
    ).model_copy(update=changes)
    return add(log, body, story, [run.leaf for run in runs])


def rerun(story: Story, name: str, scale: str, seed: int, value: float) -> ProxyRun:
    return ProxyRun(
        mode="confirmatory",
        candidate=name,
        scale=scale,
        parameters=1000,
        seed_index=seed,
        seed=str(seed),
        params=params(story, name),
        state="completed" if math.isfinite(value) else "diverged",
        metric="bpb_macro",
        value=value if math.isfinite(value) else None,
        steps=10,
        tokens=100,
        device_seconds=1.0,
        mlflow_run="a" * 32,
    )


def candidate(story: Story, name: str) -> Candidate:
    return Candidate(name=name, params=params(story, name), rerun_n=SEEDS, feasible=True)


def forecast_body(story: Story, target: str, **changes: Any) -> Forecast:
    point, spread = story.points[target], SPREADS[target]
    rivals = {"last_scale": point + 0.2} | ({} if target == "control" else {"no_effect": 0.0})
    return Forecast(
        mode="confirmatory",
        target=target,
        metric="bpb_macro",
        method=story.method,
        point=point,
        intervals=[
            Interval(level=level, lower=point - z * spread, upper=point + z * spread)
            for level, z in Z.items()
        ],
        spread=spread,
        scales=[
            ScalePoint(scale="small", parameters=1, tokens=1, compute_flops=1.0, mean=2.0, n=3)
        ],
        extrapolation_ratio=story.ratio,
        baselines=rivals,
        assumptions=[],
    ).model_copy(update=changes)


def forecast(log: MemoryLog, story: Story) -> list[Entry]:
    return [add(log, forecast_body(story, target), story) for target in SPREADS]


def begin(log: MemoryLog, story: Story, **changes: Any) -> Entry:
    body = RunStarted(
        mode="confirmatory",
        run="control/seed-0",
        arm="control",
        seed_index=0,
        seed="1",
        attempt=1,
        from_step=0,
        config_sha256="c0" * 32,
        code=code_state(),
        host={},
        mlflow_run="d" * 32,
    )
    return add(log, body.model_copy(update=changes), story)


def seed_values(arm: str, centre: float) -> list[SeedValue]:
    return [
        SeedValue(seed_index=seed, value=centre + 0.001 * (seed - 1), run=f"{arm}/seed-{seed}")
        for seed in range(SEEDS)
    ]


def decide(log: MemoryLog, story: Story, **changes: Any) -> Entry:
    arms = {"control": story.control, "treatment": story.treatment}
    observed = {**arms, "improvement": story.control - story.treatment}
    body = Verdict(
        mode="confirmatory",
        outcome="supported",
        hypothesis="H1",
        claim="superior(0.02)",
        interval="welch_t",
        alpha=0.05,
        metric="bpb_macro",
        direction="minimize",
        values={arm: seed_values(arm, centre) for arm, centre in arms.items()},
        estimate=observed["improvement"],
        action="go on",
        scores=[scored(story, target, value) for target, value in observed.items()],
    )
    return add(log, body.model_copy(update=changes), story)


def scored(story: Story, target: str, observed: float) -> ForecastScore:
    body = forecast_body(story, target)
    found = score(
        point=body.point,
        spread=body.spread,
        intervals={i.level: (i.lower, i.upper) for i in body.intervals},
        baselines=body.baselines,
        observed=observed,
    )
    return ForecastScore(
        target=target,
        observed=observed,
        error=found.error,
        covered=found.covered,
        interval_score_80=found.interval_score_80,
        crps=found.crps,
        crps_baselines=found.crps_baselines,
        grade=found.grade,
    )
