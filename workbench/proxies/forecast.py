"""The full-scale result predicted from a ladder of proxies, as ledger bodies."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.analysis.claims import Direction, improvement, mean, sample_variance
from workbench.analysis.extrapolation import (
    Method,
    Prediction,
    Rung,
    assumptions,
    predict_arm,
    predict_improvement,
)
from workbench.errors import RunFailedError
from workbench.planner.counts import training_flops_per_token
from workbench.proxies.recipe import Recipe
from workbench.proxies.selection import CONTROL
from workbench.registry.entries import Forecast, Interval, Mode, ProxyRun, ScalePoint
from workbench.training.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class ForecastRequest:
    """What is to be predicted, and by which registered method."""

    mode: Mode
    metric: str
    direction: Direction
    method: Method
    candidate: str
    """Name of the promoted candidate."""
    full: RunConfig
    """The full-scale configuration; both arms have its size."""
    num_seeds: int
    """Full-scale runs an arm."""
    expected_improvement: float
    """The proposer's own guess: a baseline."""


def forecasts(
    request: ForecastRequest, recipe: Recipe, runs: Sequence[ProxyRun]
) -> tuple[Forecast, ...]:
    """Return the forecasts of control, treatment and improvement from the ladder's results.

    Raises:
        RunFailedError: too few completed proxies: two scales with repeats are needed an arm.
    """
    compute = _flops(request.full, request.full.steps * request.full.tokens_per_step)
    arms = {
        arm: _points(recipe, [r for r in runs if r.candidate == name and _usable(r)])
        for arm, name in (("control", CONTROL), ("treatment", request.candidate))
    }
    rungs = {
        arm: [Rung(compute=p.compute_flops, values=v) for p, v in points]
        for arm, points in arms.items()
    }
    try:
        single = {
            arm: predict_arm(
                rungs[arm], compute=compute, num_seeds=request.num_seeds, method=request.method
            )
            for arm in rungs
        }
        both = predict_improvement(
            rungs["control"],
            rungs["treatment"],
            direction=request.direction,
            compute=compute,
            num_seeds=request.num_seeds,
            method=request.method,
        )
    except ValueError as error:
        raise RunFailedError(
            f"no forecast can be made from this ladder: {error}",
            remedy="run the promotion again with more fresh seeds or scales (a new registration)",
        ) from error
    points = {arm: [point for point, _ in found] for arm, found in arms.items()}
    points["improvement"] = _differences(points["control"], points["treatment"], request.direction)
    baselines = {
        "control": {"last_scale": single["control"].last_scale},
        "treatment": {
            "no_effect": single["control"].point,
            "last_scale": single["treatment"].last_scale,
        },
        "improvement": {
            "no_effect": 0.0,
            "last_scale": both.last_scale,
            "proposer": request.expected_improvement,
        },
    }
    return tuple(
        _forecast(request, target, prediction, points[target], baselines[target], compute)
        for target, prediction in (*single.items(), ("improvement", both))
    )


def _forecast(
    request: ForecastRequest,
    target: str,
    prediction: Prediction,
    points: list[ScalePoint],
    baselines: dict[str, float],
    compute: float,
) -> Forecast:
    return Forecast(
        mode=request.mode,
        target=target,
        metric=request.metric,
        method=prediction.method,
        point=prediction.point,
        intervals=[
            Interval(level=level, lower=lower, upper=upper)
            for level, (lower, upper) in prediction.intervals.items()
        ],
        spread=prediction.spread,
        scales=points,
        extrapolation_ratio=compute / max(point.compute_flops for point in points),
        baselines=baselines,
        assumptions=assumptions(prediction.method, len(points)),
    )


def _points(recipe: Recipe, runs: Sequence[ProxyRun]) -> list[tuple[ScalePoint, tuple[float, ...]]]:
    found = []
    for scale in recipe.scales:
        here = sorted((r for r in runs if r.scale == scale.name), key=lambda r: r.seed_index)
        values = tuple(run.value for run in here if run.value is not None)
        if values:
            found.append((_point(recipe, here[0], values), values))
    return found


def _point(recipe: Recipe, run: ProxyRun, values: tuple[float, ...]) -> ScalePoint:
    return ScalePoint(
        scale=run.scale,
        parameters=run.parameters,
        tokens=run.tokens,
        compute_flops=_flops(recipe.at_scale(run.scale), run.tokens),
        mean=mean(values),
        sd=math.sqrt(sample_variance(values)) if len(values) > 1 else None,
        n=len(values),
    )


def _differences(
    control: Sequence[ScalePoint], treatment: Sequence[ScalePoint], direction: Direction
) -> list[ScalePoint]:
    """Return the improvement at each scale; its spread is that of one pair of runs."""
    by_scale = {point.scale: point for point in treatment}
    found = []
    for base in control:
        other = by_scale.get(base.scale)
        if other is None:
            continue
        spreads = [point.sd for point in (base, other) if point.sd is not None]
        change = {
            "mean": improvement(base.mean, other.mean, direction),
            "sd": math.hypot(*spreads) if len(spreads) == 2 else None,
            "n": min(base.n, other.n),
        }
        found.append(base.model_copy(update=change))
    return found


def _flops(config: RunConfig, tokens: int) -> float:
    return float(training_flops_per_token(config.model, config.batch.seq_len)) * tokens


def _usable(run: ProxyRun) -> bool:
    return run.state == "completed" and run.value is not None and math.isfinite(run.value)
