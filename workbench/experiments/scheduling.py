"""Which configuration's schedule is asked for, and the steps worth showing. Imports no torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.errors import InvalidFileError, NotFoundError
from workbench.experiments.plan import ExperimentPlan, draft_plan, registered_plan
from workbench.experiments.repeat_plan import recipe_text
from workbench.layout import Layout
from workbench.proxies.recipe import Recipe
from workbench.proxies.recipe_file import load_full, load_recipe
from workbench.registry.amended import course_of
from workbench.registry.entries import Promotion
from workbench.registry.located import read_yaml
from workbench.registry.log import LogSource
from workbench.training.config import RunConfig
from workbench.training.phases import ScheduleRow, schedule_rows, stretches

CONTROL = "control"
ROWS = 24
"""About how many evenly spaced steps are shown besides the changes."""


@dataclass(frozen=True, kw_only=True)
class PhaseSpan:
    """A phase with the steps that it covers."""

    name: str
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """One configuration and what its schedule is called."""

    what: str
    """``NAME@V at SCALE``, or the arm of an experiment at full scale."""
    config: RunConfig
    other_arms: tuple[str, ...] = ()
    """Arms of the same experiment that have another schedule."""

    def rows(self, *, every: bool = False) -> tuple[ScheduleRow, ...]:
        """Return all steps, or the first and last of each phase and every k-th between them."""
        steps = self.config.steps
        if every:
            return schedule_rows(self.config)
        ends = {step for span in self.phases() for step in (span.first, span.last)}
        stride = round_stride(steps)
        return schedule_rows(self.config, sorted(ends | set(range(stride, steps + 1, stride))))

    def sampled(self, num_points: int) -> tuple[ScheduleRow, ...]:
        """Return at most so many steps at even distances, from the first to the last."""
        last = self.config.steps - 1
        places = range(num_points)
        steps = {1 + round(last * place / max(1, num_points - 1)) for place in places}
        return schedule_rows(self.config, sorted(steps))

    def phases(self) -> tuple[PhaseSpan, ...]:
        """Return the phases that cover a step."""
        return tuple(
            PhaseSpan(name=laid.phase.name, first=laid.begin + 1, last=laid.end)
            for laid in stretches(self.config)
            if laid.end > laid.begin
        )


def round_stride(steps: int) -> int:
    """Return 1, 2 or 5 times a power of ten that divides the steps into about `ROWS` rows."""
    rough = steps / ROWS
    if rough <= 1:
        return 1
    power: int = 10 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough)


def file_schedule(layout: Layout, name: str, scale: str) -> Schedule:
    """Return the schedule of a recipe's control at one of its scales, or of a ``full.yaml``.

    Args:
        layout: The lab.
        name: The file; within the lab, or an absolute path.
        scale: Of a recipe; empty for its largest.

    Raises:
        NotFoundError: there is no such file or scale, or no recipe that a ``full.yaml`` extends.
        InvalidFileError: a file has faults.
    """
    text = recipe_text(layout, name)
    plain = read_yaml(text, name).get(())
    if not isinstance(plain, Mapping) or "full" not in plain:
        return scale_schedule(load_recipe(text, name), scale)
    if scale:
        raise InvalidFileError(
            f"{name} is a full-scale file, which has no scale {scale!r}",
            remedy=f"workbench schedule {name}",
        )
    full = load_full(text, name)
    recipe = _extended(layout, full.extends)
    return Schedule(what=f"{full.full} at full scale", config=full.config(recipe, recipe.control()))


def scale_schedule(recipe: Recipe, scale: str) -> Schedule:
    """Return the schedule of a recipe's control at a scale; empty for the largest.

    Raises:
        NotFoundError: there is no such scale.
    """
    scales = [rung.name for rung in recipe.scales]
    wanted = scale or scales[-1]
    if wanted not in scales:
        raise NotFoundError(
            f"{recipe.recipe} has no scale {wanted!r} (it has {', '.join(scales)})",
            remedy=f"--scale {scales[-1]}",
        )
    config = recipe.at_scale(wanted, recipe.control())
    return Schedule(what=f"{recipe.recipe} at {wanted}", config=config)


def experiment_schedule(
    source: LogSource, layout: Layout, number: str, *, scale: str, arm: str
) -> Schedule:
    """Return the schedule of an experiment: what is in force, or its draft files.

    Args:
        source: The log.
        layout: The lab.
        number: Of the experiment.
        scale: Of its recipe; empty for the full scale.
        arm: ``control``, or an arm of its promotion.

    Raises:
        NotFoundError: there is no such experiment or scale, or the arm was not promoted yet.
        InvalidFileError: a draft file is missing or malformed.
        NotRegisteredError: it waits for approvals.
        ConflictError: the experiment was withdrawn, or is hidden from this reader.
    """
    folder = layout.experiment(number)
    if course_of(source, folder.name).in_force() is None:
        plan = draft_plan(layout, folder)
    else:
        plan = registered_plan(source, folder.name)
    if scale:
        return scale_schedule(plan.recipe, scale)
    arms = _arms(source, plan)
    if arm not in arms:
        known = ", ".join(arms)
        raise NotFoundError(
            f"{folder.name} has no arm {arm!r} yet (known: {known})",
            remedy=f"workbench promote {folder.name[:4]}",
        )
    shown = _deciding(arms[arm])
    others = [name for name, config in arms.items() if _deciding(config) != shown]
    return Schedule(
        what=f"{folder.name}, {arm}, at full scale", config=arms[arm], other_arms=tuple(others)
    )


def _arms(source: LogSource, plan: ExperimentPlan) -> dict[str, RunConfig]:
    arms = {CONTROL: plan.full.config(plan.recipe, plan.recipe.control())}
    for entry in source.entries(kind=Promotion.kind, subject=plan.subject):
        body = entry.body
        # The newest holds. `experiments.promotion` finds it too, but loads torch.
        if isinstance(body, Promotion) and body.mode == plan.mode:
            arms |= {arm: RunConfig.model_validate(one) for arm, one in body.configs.items()}
    return arms


def _deciding(config: RunConfig) -> tuple[object, ...]:
    """Return all that a schedule depends on."""
    return stretches(config), config.optimizer.lr, config.balance.weight, config.mixture


def _extended(layout: Layout, wanted: str) -> Recipe:
    """Return the recipe of the lab that has this name and version."""
    for path in sorted(layout.proxies.glob("*.yaml")):
        name = f"{layout.proxies.name}/{path.name}"
        text = recipe_text(layout, name)
        plain = read_yaml(text, name).get(())
        if isinstance(plain, Mapping) and plain.get("recipe") == wanted:
            return load_recipe(text, name)
    raise NotFoundError(
        f"no file of proxies/ is the recipe {wanted}",
        remedy="name in extends: a recipe that is there",
    )
