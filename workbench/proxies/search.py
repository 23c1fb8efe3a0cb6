"""The search over a recipe's space: Optuna, with its state in a database. The only optuna module.

A point depends on the sampler's seed, the number of points drawn before it and, where the sampler
learns, on their results; never on how often the process was restarted.
"""

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import optuna
import torch
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from workbench.analysis.claims import Direction
from workbench.canonical import Json
from workbench.errors import StoreUnavailableError
from workbench.proxies.seeds import sampler_seed_of
from workbench.proxies.space import Coordinate
from workbench.registry.proposal import Pruning, Sampler

State: TypeAlias = Literal["waiting", "running", "completed", "pruned", "failed"]

TPE_STARTUP = 10
"""Completed or pruned trials before TPE's model proposes; random points until then."""
_STATES: dict[TrialState, State] = {
    TrialState.WAITING: "waiting",
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "completed",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}
_ENDS: dict[State, TrialState] = {state: end for end, state in _STATES.items()}
_DRAW, _RETRY_OF = "draw", "retry_of"


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A trial as the search's database holds it."""

    number: int
    state: State
    draw: int
    """Which of the sampler's points it is; a retry has the draw of what it retries."""
    retry_of: int | None
    coordinates: dict[str, Coordinate]
    notes: dict[str, Json]


class Asked:
    """A trial under way: gives coordinates and takes intermediate values."""

    def __init__(self, trial: optuna.Trial, tried: Tried) -> None:
        self._trial = trial
        self.tried = tried

    @property
    def number(self) -> int:
        """The trial's number in the search, from 0."""
        return self.tried.number

    def between(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """Return the proposed number between the bounds."""
        return float(self._trial.suggest_float(name, low, high, log=log))

    def one_of(self, name: str, count: int) -> int:
        """Return the proposed position of one of ``count`` choices."""
        position: int = self._trial.suggest_categorical(name, list(range(count)))
        return position

    def should_prune(self, evaluation: int, value: float) -> bool:
        """Record the value of evaluation number ``evaluation`` (from 0); say whether to stop."""
        self._trial.report(value, evaluation)
        return bool(self._trial.should_prune())


class Search:
    """One sweep's trials in Optuna's database.

    Every call reads the database anew, so that what a killed process left is seen as it is.
    """

    def __init__(self, study: Study, storage: optuna.storages.RDBStorage) -> None:
        self._study = study
        self._storage = storage

    @classmethod
    def open(
        cls,
        *,
        url: str,
        name: str,
        direction: Direction,
        sampler: Sampler,
        pruning: Pruning,
        coordinate_names: Sequence[str],
    ) -> "Search":
        """Open the study of that name, or create it.

        Raises:
            StoreUnavailableError: the database cannot be opened or has another schema.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            _prepare_sqlite(url)
            storage = optuna.storages.RDBStorage(url)
            study = optuna.create_study(
                study_name=name,
                storage=storage,
                direction=direction,
                load_if_exists=True,
                sampler=_NumberedSampler(sampler, tuple(coordinate_names)),
                pruner=_pruner(pruning),
            )
        except Exception as error:  # every driver has its own ways to say no
            raise StoreUnavailableError(
                f"the search store {url} cannot be used: {error}",
                remedy="check the path in workbench.toml (optuna_url), then repeat the command",
            ) from error
        return cls(study, storage)

    def close(self) -> None:
        """Let go of the database."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def tried(self) -> list[Tried]:
        """Return every trial in order, whatever its state."""
        return _tried(self._study.get_trials(deepcopy=False))

    def ask(self) -> Asked:
        """Return the next trial: a queued one if there is any, otherwise a new point."""
        trial = self._study.ask()
        return Asked(trial, self.tried()[trial.number])

    def queue(
        self,
        coordinates: Mapping[str, Coordinate],
        notes: Mapping[str, Json],
        *,
        retry_of: Tried | None = None,
    ) -> None:
        """Put a trial in line with these coordinates; those not given are the sampler's."""
        attributes = dict(notes)
        if retry_of is not None:
            attributes |= {_RETRY_OF: retry_of.number, _DRAW: retry_of.draw}
        self._study.enqueue_trial(dict(coordinates), user_attrs=attributes)

    def note(self, number: int, key: str, value: Json) -> None:
        """Keep a JSON value with a trial that has not ended."""
        self._storage.set_trial_user_attr(self._trial_id(number), key, value)

    def end(self, number: int, state: Literal["completed", "pruned", "failed"],
            value: float | None = None) -> None:  # fmt: skip
        """Give a trial its final state; only a completed one has a value."""
        values = None if value is None else [value]
        self._storage.set_trial_state_values(self._trial_id(number), _ENDS[state], values)

    def remember(self, key: str, value: Json) -> None:
        """Keep a JSON value with the whole search."""
        self._study.set_user_attr(key, value)

    def remembered(self, key: str) -> Json:
        """Return what `remember` kept, or none."""
        return self._study.user_attrs.get(key)

    def _trial_id(self, number: int) -> int:
        return int(
            self._storage.get_trial_id_from_study_id_trial_number(self._study._study_id, number)
        )


def _prepare_sqlite(url: str) -> None:
    prefix = "sqlite:///"
    if not url.startswith(prefix):
        return
    file = Path(url.removeprefix(prefix))
    file.parent.mkdir(parents=True, exist_ok=True)
    # Readers do not wait for the writer, and a commit takes one flush instead of several.
    with contextlib.closing(sqlite3.connect(file, timeout=20)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")


def sampler_description(sampler: Sampler) -> str:
    """Return what proposes the points, with the version that decides them."""
    detail = {
        "random": "independent",
        "tpe": f"multivariate, {TPE_STARTUP} random first",
        "qmc": "scrambled Sobol",
    }[sampler.name]
    return f"{sampler.name} ({detail}; optuna {optuna.__version__})"


class _NumberedSampler(BaseSampler):
    """A fresh sampler for each draw, so that points do not depend on the process's life."""

    def __init__(self, sampler: Sampler, names: tuple[str, ...]) -> None:
        self._sampler = sampler
        self._names = names
        self._draw = (-1, -1)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        if self._sampler.name != "tpe":
            return {}
        found: dict[str, BaseDistribution] = self._tpe(0).infer_relative_search_space(study, trial)
        return found

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space:
            return {}
        seed = sampler_seed_of(self._sampler.seed, self._draw_of(study, trial))
        found: dict[str, Any] = self._tpe(seed).sample_relative(study, trial, search_space)
        return found

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: Any
    ) -> Any:
        draw = self._draw_of(study, trial)
        if self._sampler.name == "qmc":
            unit = _sobol(self._sampler.seed, draw, len(self._names), self._names.index(param_name))
            return _spread(unit, param_distribution)
        seed = sampler_seed_of(self._sampler.seed, draw, param_name)
        # numpy's legacy seeding takes 32 bits
        return RandomSampler(seed=seed).sample_independent(
            study, trial, param_name, param_distribution
        )

    def _draw_of(self, study: Study, trial: FrozenTrial) -> int:
        # Once a trial, not once a coordinate: it takes a look at every trial before.
        if self._draw[0] != trial.number:
            draw = _tried(study.get_trials(deepcopy=False))[trial.number].draw
            self._draw = (trial.number, draw)
        return self._draw[1]

    def _tpe(self, seed: int) -> TPESampler:
        return TPESampler(
            seed=seed, multivariate=True, n_startup_trials=TPE_STARTUP, constant_liar=False
        )


def _tried(trials: Sequence[FrozenTrial]) -> list[Tried]:
    found: list[Tried] = []
    fresh = 0
    for trial in sorted(trials, key=lambda t: t.number):
        retry_of = trial.user_attrs.get(_RETRY_OF)
        draw = fresh if retry_of is None else trial.user_attrs[_DRAW]
        fresh += retry_of is None
        notes = {k: v for k, v in trial.user_attrs.items() if k not in (_DRAW, _RETRY_OF)}
        found.append(
            Tried(
                number=trial.number,
                state=_STATES[trial.state],
                draw=draw,
                retry_of=retry_of,
                coordinates=dict(trial.params),
                notes=notes,
            )
        )
    return found


def _pruner(pruning: Pruning) -> BasePruner:
    if pruning.rule == "none":
        return NopPruner()
    return MedianPruner(
        n_startup_trials=pruning.startup_trials, n_warmup_steps=pruning.warmup_evaluations
    )


def _sobol(seed: int, draw: int, dimensions: int, dimension: int) -> float:
    engine = torch.quasirandom.SobolEngine(dimensions, scramble=True, seed=seed)
    engine.fast_forward(draw)
    return float(engine.draw(1, dtype=torch.float64)[0, dimension])


def _spread(unit: float, distribution: BaseDistribution) -> Any:
    """Return the value at the share ``unit`` of a distribution."""
    if isinstance(distribution, CategoricalDistribution):
        count = len(distribution.choices)
        return distribution.choices[min(int(unit * count), count - 1)]
    if not isinstance(distribution, FloatDistribution):
        raise TypeError(f"{type(distribution).__name__} is not a kind of dimension")
    low, high = distribution.low, distribution.high
    if distribution.log:
        return float(low * (high / low) ** unit)
    return low + unit * (high - low)
