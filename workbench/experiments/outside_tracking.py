"""Others' MLflow runs as the rows that a rule judges: their arms, seeds, and what is left out."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.errors import InvalidFileError
from workbench.experiments.outside_runs import NOISE, Row
from workbench.training.tracked_elsewhere import ElsewhereExperiment, ElsewhereRun

_MOST_NAMES = 5


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """How runs are told apart."""

    metric: str
    arm_key: str
    """Tag, or else parameter, whose value is a run's arm."""
    control: str
    treatment: str
    """Values of the tag; empty for the arm's own name, and then no other value may occur."""
    seed_param: str
    """Parameter or tag that names the seed; empty for the order in which an arm's runs started."""

    @property
    def arms(self) -> dict[str, str]:
        """Arm by the tag's value."""
        return {
            self.control or "control": "control",
            self.treatment or "treatment": "treatment",
            NOISE: NOISE,
        }


@dataclass(frozen=True, kw_only=True)
class UsedRun:
    """One run behind a row."""

    run_id: str
    name: str
    arm: str
    seed: str
    status: str
    value: float | None


@dataclass(frozen=True, kw_only=True)
class TrackedRows:
    """What is judged, and what a reader must know of the rest."""

    rows: tuple[Row, ...]
    runs: tuple[UsedRun, ...]
    """One a row, in the rows' order."""
    remarks: tuple[str, ...]
    """Runs that have no value or were left out, a sentence each."""


def tracked_rows(found: ElsewhereExperiment, by: Assignment) -> TrackedRows:
    """Return the rows of an experiment's runs, in the order in which they started.

    A run that finished with the metric gives its last value, also a NaN, which voids. One that
    failed, was killed, still runs or lacks the metric keeps its place with its seed missing: no
    later seed takes it. Of several runs of one arm and seed the one that finished counts.

    Raises:
        InvalidFileError: arms or seeds are ambiguous, or no run has the metric; names what there
            is.
    """
    if len(by.arms) < 3:
        raise InvalidFileError(
            f"control and treatment must be two values, and {NOISE!r} neither: "
            f"{by.control!r}, {by.treatment!r}"
        )
    by_arm, remarks = _by_arm(found.runs, by)
    if found.num_deleted:
        remarks.append(f"{found.num_deleted} runs were deleted in MLflow and were not looked at.")
    _refuse_unknown_metric([run for runs in by_arm.values() for run in runs], by.metric)
    chosen: list[tuple[str, str, ElsewhereRun]] = []
    for arm, runs in by_arm.items():
        for seed, same in _by_seed(runs, arm, by.seed_param).items():
            chosen.append((arm, seed, _one(same, arm, seed, remarks)))
    chosen.sort(key=lambda item: (item[2].started_ms, item[2].run_id))
    remarks += _without_value([run for _, _, run in chosen], by.metric)
    values = [_value(run, by.metric) for _, _, run in chosen]
    return TrackedRows(
        rows=tuple(
            Row(arm=arm, seed=seed, value=value, ended=value is not None)
            for (arm, seed, _), value in zip(chosen, values, strict=True)
        ),
        runs=tuple(
            UsedRun(
                run_id=run.run_id, name=run.name, arm=arm, seed=seed, status=run.status, value=value
            )
            for (arm, seed, run), value in zip(chosen, values, strict=True)
        ),
        remarks=tuple(remarks),
    )


def _by_arm(
    runs: Iterable[ElsewhereRun], by: Assignment
) -> tuple[dict[str, list[ElsewhereRun]], list[str]]:
    labelled: dict[str, list[ElsewhereRun]] = defaultdict(list)
    bare: list[ElsewhereRun] = []
    for run in runs:
        value = _label(run, by.arm_key)
        labelled[value].append(run) if value else bare.append(run)
    found = ", ".join(f"{value!r} ({len(those)} runs)" for value, those in labelled.items())
    lacking = [value for value in list(by.arms)[:2] if value not in labelled]
    if lacking:
        raise InvalidFileError(
            f"no run's tag or parameter {by.arm_key!r} is {' or '.join(map(repr, lacking))}: it is "
            f"{found or 'on no run'}",
            remedy="name it with --arm-tag, and its two values with --control and --treatment",
        )
    other = [value for value in labelled if value not in by.arms]
    if other and not (by.control and by.treatment):
        raise InvalidFileError(
            f"{by.arm_key!r} has more values than two arms: {found}",
            remedy="say which two are compared: --control VALUE --treatment VALUE",
        )
    remarks = [
        f"{_named(labelled[value])} of {by.arm_key} {value!r} left out: neither of the two arms."
        for value in other
    ]
    if bare:
        remarks.append(f"{_named(bare)} left out: no tag or parameter {by.arm_key!r}.")
    return {by.arms[v]: runs for v, runs in labelled.items() if v in by.arms}, remarks


def _label(run: ElsewhereRun, key: str) -> str:
    tag, param = run.tags.get(key, ""), run.params.get(key, "")
    if tag and param and tag != param:
        raise InvalidFileError(
            f"run {run.name} ({run.run_id}) has {key!r} twice: tag {tag!r}, parameter {param!r}",
            remedy="name another tag or parameter that says it once",
        )
    return tag or param


def _by_seed(
    runs: Sequence[ElsewhereRun], arm: str, seed_param: str
) -> Mapping[str, list[ElsewhereRun]]:
    if not seed_param:
        return {f"#{number}": [run] for number, run in enumerate(runs, start=1)}
    seeds: dict[str, list[ElsewhereRun]] = defaultdict(list)
    for run in runs:
        seeds[_label(run, seed_param)].append(run)
    if "" in seeds:
        raise InvalidFileError(
            f"{_named(seeds[''])} of {arm} without a parameter or tag {seed_param!r}",
            remedy="name another with --seed-param, or leave it out for the order of their start",
        )
    return seeds


def _one(same: Sequence[ElsewhereRun], arm: str, seed: str, remarks: list[str]) -> ElsewhereRun:
    """Return the run of an arm and seed that counts."""
    if len(same) == 1:
        return same[0]
    finished = [run for run in same if run.status == "FINISHED"]
    if len(finished) > 1:
        ids = ", ".join(run.run_id for run in finished)
        raise InvalidFileError(
            f"{len(finished)} finished runs of {arm} seed {seed}: {ids}",
            remedy="delete in MLflow those that do not count, or name another --seed-param",
        )
    counts = finished[0] if finished else same[-1]
    rest = [run for run in same if run is not counts]
    told = ", ".join(f"{run.name} {run.status}" for run in rest[:_MOST_NAMES])
    remarks.append(f"{arm} seed {seed} was begun {len(same)} times; left out: {told}.")
    return counts


def _refuse_unknown_metric(runs: Sequence[ElsewhereRun], metric: str) -> None:
    known = Counter(key for run in runs for key in run.metrics)
    if metric in known:
        return
    common = ", ".join(key for key, _ in known.most_common(10))
    raise InvalidFileError(
        f"no run logged the metric {metric!r} (they logged {common or 'none'})",
        remedy="name one of these with --metric",
    )


def _value(run: ElsewhereRun, metric: str) -> float | None:
    return run.metrics.get(metric) if run.status == "FINISHED" else None


def _without_value(runs: Sequence[ElsewhereRun], metric: str) -> list[str]:
    remarks = []
    unfinished: dict[str, list[ElsewhereRun]] = defaultdict(list)
    for run in runs:
        if run.status != "FINISHED":
            unfinished[run.status].append(run)
    for status, those in unfinished.items():
        remarks.append(f"{_named(those)} {status}: their seeds are missing.")
    finished = [run for run in runs if run.status == "FINISHED"]
    lacking = [run for run in finished if metric not in run.metrics]
    if lacking:
        remarks.append(f"{_named(lacking)} finished without {metric}: their seeds are missing.")
    wild = [run for run in finished if not math.isfinite(run.metrics.get(metric, 0.0))]
    if wild:
        remarks.append(f"{_named(wild)} logged a last {metric} that is not finite, which voids.")
    return remarks


def _named(runs: Sequence[ElsewhereRun]) -> str:
    names = ", ".join(run.name for run in runs[:_MOST_NAMES])
    more = f" and {len(runs) - _MOST_NAMES} more" if len(runs) > _MOST_NAMES else ""
    return f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} ({names}{more})"
