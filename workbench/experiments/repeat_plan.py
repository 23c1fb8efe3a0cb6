"""Which configuration is repeated on other seeds, and what that will take. Imports no torch."""

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from workbench.canonical import fingerprint, sha256_hex
from workbench.errors import InvalidFileError, NotFoundError
from workbench.experiments.plan import draft_plan
from workbench.experiments.registered import registered
from workbench.layout import Layout
from workbench.planner.counts import total_parameters
from workbench.proxies.recipe import Recipe
from workbench.proxies.recipe_file import load_recipe, refuse_corpus_alone
from workbench.registry.amended import course_of
from workbench.registry.entries import DataState, NoiseFloor, ProxyRun
from workbench.registry.log import LogSource
from workbench.training.config import RunConfig

FULL = "full"
"""The scale of an experiment's full.yaml."""


@dataclass(frozen=True, kw_only=True)
class RepeatPlan:
    """A control configuration, to be trained on many seeds."""

    subject: str
    """Of the log's entry: ``NNNN-slug``, or ``recipe:NAME@V``."""
    recipe: Recipe
    recipe_sha256: str
    scale: str
    """Of the recipe, or ``full``."""
    experiment: str
    """``NNNN-slug`` whose full scale it is, or empty."""
    config: RunConfig
    loss_above: float
    """Training loss in nats a token above which a repeat counts as diverged."""
    patience: int
    """Steps in a row above it."""
    refs: tuple[str, ...] = ()
    """Registration and amendments that say what runs."""
    data: DataState | None = None
    """The registered corpus, or None where any of the recipe's will do."""

    @property
    def config_sha256(self) -> str:
        """Of the configuration, as a promotion gives it."""
        return fingerprint(self.config.model_dump(mode="json"))

    @property
    def what(self) -> str:
        """``NAME@V at SCALE``, or the experiment at full scale."""
        if self.experiment:
            return f"the control of {self.experiment[:4]} at full scale"
        return f"{self.recipe.recipe} at {self.scale}"


@dataclass(frozen=True, kw_only=True)
class RepeatCost:
    """What is left to run."""

    what: str
    planned: int
    done: int
    tokens: int
    """Training tokens of what is left."""
    seconds: float | None
    """Estimated of what is left, on one device; None where nothing like it ever ran here."""


def recipe_text(layout: Layout, name: str) -> str:
    """Return the text of a recipe file of the lab, or of an absolute path.

    Raises:
        NotFoundError: there is no such file.
        InvalidFileError: it cannot be read.
    """
    path = layout.root / name
    try:
        return path.read_text("utf-8")
    except (FileNotFoundError, IsADirectoryError) as error:
        found = sorted(layout.proxies.glob("*.yaml"))
        known = ", ".join(f"proxies/{file.name}" for file in found)
        raise NotFoundError(f"recipe {name} does not exist (known: {known or 'none'})") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFileError(f"{name} cannot be read: {error}") from error


def scale_plan(layout: Layout, name: str, scale: str) -> RepeatPlan:
    """Return the plan of a recipe's control, as a ladder runs it, at one of its scales.

    Args:
        layout: The lab.
        name: The recipe's file.
        scale: One of its scales; empty for the largest.

    Raises:
        NotFoundError: there is no such file or scale.
        InvalidFileError: the recipe has faults, or holds nothing but a corpus.
    """
    text = recipe_text(layout, name)
    refuse_corpus_alone(text, name)
    recipe = load_recipe(text, name)
    scales = [rung.name for rung in recipe.scales]
    wanted = scale or scales[-1]
    if wanted not in scales:
        raise NotFoundError(f"{name} has no scale {wanted!r} (it has {', '.join(scales)})")
    return RepeatPlan(
        subject=f"recipe:{recipe.recipe}",
        recipe=recipe,
        recipe_sha256=sha256_hex(text.encode()),
        scale=wanted,
        experiment="",
        config=recipe.at_scale(wanted, recipe.control()),
        # What a new proposal of the recipe would say.
        loss_above=math.ceil(math.log(recipe.base.model.vocab_size)) + 4,
        patience=5,
    )


def full_plan(source: LogSource, layout: Layout, number: str) -> RepeatPlan:
    """Return the plan of an experiment's control arm at full scale.

    Registered, it is what is in force; otherwise the draft files as they are now.

    Raises:
        NotFoundError: there is no such experiment.
        InvalidFileError: a draft file is missing or malformed.
        ConflictError: the experiment was withdrawn, or is hidden from this reader.
    """
    folder = layout.experiment(number)
    refs: tuple[str, ...] = ()
    data: DataState | None = None
    if course_of(source, folder.name).in_force() is None:
        draft = draft_plan(layout, folder)
        recipe, full, proposal = draft.recipe, draft.full, draft.proposal
        sha256 = draft.recipe_sha256
    else:
        found = registered(source, folder.name)
        recipe, full, sha256 = found.recipe, found.full, found.body.recipe.sha256
        proposal, data = found.proposal, found.body.data
        refs = (found.entry.leaf, *(entry.leaf for entry in found.amendments))
    return RepeatPlan(
        subject=folder.name,
        recipe=recipe,
        recipe_sha256=sha256,
        scale=FULL,
        experiment=folder.name,
        config=full.config(recipe, recipe.control()),
        loss_above=proposal.divergence.loss_above,
        patience=proposal.divergence.patience,
        refs=refs,
        data=data,
    )


def repeat_cost(
    source: LogSource, plan: RepeatPlan, *, planned: int, done: int, seconds_done: float
) -> RepeatCost:
    """Return what is left of ``planned`` repeats of which ``done`` are finished.

    Args:
        source: The log, whose earlier runs say how fast this lab trains.
        plan: What is repeated.
        planned: Repeats in all.
        done: Repeats that are finished.
        seconds_done: What these took, all together.
    """
    left = max(0, planned - done)
    tokens = plan.config.steps * plan.config.tokens_per_step
    each = seconds_done / done if done else _seconds_a_run(source, plan, tokens)
    return RepeatCost(
        what=plan.what,
        planned=planned,
        done=done,
        tokens=left * tokens,
        seconds=None if each is None else left * each,
    )


def _seconds_a_run(source: LogSource, plan: RepeatPlan, tokens: int) -> float | None:
    """Return the time of a run by those of the nearest size, in parameters × tokens."""
    size = total_parameters(plan.config.model) * tokens
    times: dict[int, list[float]] = defaultdict(list)
    for entry in source.entries(kind=NoiseFloor.kind):
        body = entry.body
        if isinstance(body, NoiseFloor) and body.config_sha256 == plan.config_sha256:
            times[size] += [run.device_seconds for run in body.repeats if run.device_seconds > 0]
    for entry in source.entries(kind=ProxyRun.kind):
        run = entry.body
        if isinstance(run, ProxyRun) and run.state == "completed" and run.device_seconds > 0:
            times[run.parameters * run.tokens].append(run.device_seconds)
    known = [other for other, found in times.items() if other and found]
    if not known:
        return None
    nearest = min(known, key=lambda other: abs(math.log(other / size)))
    return median(times[nearest]) * size / nearest
