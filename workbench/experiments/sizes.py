"""Sizes that nothing could ever run: refused before they are frozen, and not found out later.

Only what is newly registered is held to them; what was accepted once stays readable.
"""

import math
from collections.abc import Iterator, Mapping

from workbench.canonical import Json
from workbench.errors import Fault
from workbench.experiments.draft import STOPPING, FullDraft, ProposalDraft, RecipeDraft
from workbench.planner.counts import total_parameters
from workbench.proxies.recipe import Recipe
from workbench.proxies.recipe_faults import training_flops
from workbench.registry.located import Located, Path, key_name

MOST_PARAMETERS = 10**15
"""Of one model: hundreds of times the largest that is known to have been trained."""
FASTEST_FLOPS = 1e16
"""FLOP/s of one device: more than the dense peak of any accelerator that is sold."""
_MOST_DIGITS = 9
"""Of a number of seeds."""
_MOST: dict[str, int] = {
    "model.d_model": 10**6,
    "model.num_layers": 10**5,
    "model.num_heads": 10**5,
    "model.num_kv_heads": 10**5,
    "model.num_experts": 10**6,
    "model.top_k": 10**5,
    "model.d_expert": 10**7,
    "model.num_shared_experts": 10**5,
    "model.routing.groups": 10**6,
    "model.routing.top_groups": 10**6,
    "model.routing.refresh_every": 10**9,
    "model.max_seq_len": 10**9,
    "batch.sequences": 10**9,
    "batch.seq_len": 10**9,
    "batch.micro_batches": 10**6,
    "steps": 10**9,
    "evaluation.every": 10**9,
    "evaluation.bytes_per_domain": 10**15,
    "checkpoint.every": 10**9,
    "checkpoint.keep": 10**6,
}
"""Largest whole number by dotted key of the run configuration."""
_MOST_OF_CORPUS = {"max_bytes": 10**15, "max_document_bytes": 10**12, "train_bytes": 10**15}
_MOST_OF_PROPOSAL: dict[Path, float] = {
    ("sweep", "pruning", "startup_trials"): 10**6,
    ("sweep", "pruning", "warmup_evaluations"): 10**9,
    ("divergence", "loss_above"): 10**6,
    ("divergence", "patience"): 10**9,
    ("promotion", "budget_device_hours"): 10**10,
    ("budget_cap_device_hours",): 10**10,
}


def of_proposal(draft: ProposalDraft) -> Iterator[Fault]:
    """Yield each number of a proposal that is larger than anything it can be about."""
    document = draft.document
    for path, most in _MOST_OF_PROPOSAL.items():
        yield from _beyond(document, path, key_name(path), most)
    contingencies = document.get(("contingencies",))
    for i in range(len(contingencies) if isinstance(contingencies, list) else 0):
        path = ("contingencies", i, "max_uses")
        yield from _beyond(document, path, key_name(path), 10**6)
    stopping = document.get(STOPPING)
    if isinstance(stopping, str) and any(
        len(number) > _MOST_DIGITS for number in "".join(_digits(stopping)).split()
    ):
        message = f"stopping {stopping[:60]!r} names more seeds than there can be"
        yield document.fault(STOPPING, message, "write fixed(3) or more, as design.seeds")


def of_recipe(recipe: RecipeDraft) -> Iterator[Fault]:
    """Yield each number of a recipe that is too large to be run, in its base, scales and space."""
    document = recipe.document
    for key, most in _MOST.items():
        yield from _beyond(document, ("base", *key.split(".")), f"base.{key}", most)
    scales = document.get(("scales",))
    for i in range(len(scales) if isinstance(scales, list) else 0):
        yield from _overridden(document, ("scales", i, "overrides"))
    for key in recipe.space:
        values = document.get(("space", key, "values"))
        for i in range(len(values) if isinstance(values, list) and key in _MOST else 0):
            yield from _beyond(document, ("space", key, "values", i), key, _MOST[key])
    corpus: list[Path] = [("corpus", "sources", domain, "max_bytes") for domain in recipe.domains]
    corpus += [("corpus", "max_document_bytes"), ("corpus", "tokenizer", "train_bytes")]
    for path in corpus:
        yield from _beyond(document, path, key_name(path), _MOST_OF_CORPUS[str(path[-1])])


def of_full(full: FullDraft) -> Iterator[Fault]:
    """Yield each number of ``full.yaml`` that is too large to be run."""
    yield from _overridden(full.document, ("overrides",))


def of_compute(draft: ProposalDraft, recipe: Recipe, full: FullDraft) -> Iterator[Fault]:
    """Yield where the registered device time cannot hold what is registered, on any device."""
    config = full.config(recipe.base)
    if config is None:
        return
    parameters = total_parameters(config.model)
    if parameters > MOST_PARAMETERS:
        yield full.document.fault(
            ("overrides",),
            f"the model has {parameters:.3g} parameters, more than {MOST_PARAMETERS:.0e}",
            "make it smaller",
        )
    runs, hours = 2 * (draft.seeds or 0), draft.promotion_hours
    at_full_scale = runs * training_flops(config)
    path: Path = ("promotion", "budget_device_hours")
    yield from _beyond_hours(draft, path, hours, f"{runs} runs at full scale", at_full_scale)
    scales = [name for name in draft.scales or () if name in [s.name for s in recipe.scales]]
    ladder = sum(training_flops(recipe.at_scale(name)) for name in scales)
    ladder *= ((draft.top_k or 0) + 1) * (draft.fresh_seeds or 0)
    yield from _beyond_hours(
        draft,
        ("budget_cap_device_hours",),
        draft.cap_hours,
        "the runs at full scale and the re-runs of the ladder",
        at_full_scale + ladder,
    )


def _beyond_hours(
    draft: ProposalDraft, path: Path, hours: float | None, what: str, flops: int
) -> Iterator[Fault]:
    if hours is None or not math.isfinite(hours) or flops <= hours * 3600 * FASTEST_FLOPS:
        return
    needed = flops / FASTEST_FLOPS / 3600
    yield draft.document.fault(
        path,
        f"{key_name(path)} {hours:g} cannot hold {what}: {flops:.3g} FLOPs take {needed:.3g} "
        f"device-hours at {FASTEST_FLOPS:.0e} FLOP/s, which no device reaches",
        "write what it will really take, or make the runs smaller",
    )


def _overridden(document: Located, path: Path) -> Iterator[Fault]:
    overrides = document.get(path)
    for key in overrides if isinstance(overrides, Mapping) else ():
        if key in _MOST:
            yield from _beyond(document, (*path, key), f"override {key}", _MOST[key])


def _beyond(document: Located, path: Path, name: str, most: float) -> Iterator[Fault]:
    value: Json = document.get(path)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and value > most:
        yield document.fault(
            path, f"{name} {value:,} is more than the {most:,} that can be", "write a smaller one"
        )


def _digits(text: str) -> Iterator[str]:
    """Yield the text's digits, with a space for everything else."""
    return (character if character.isdigit() else " " for character in text)
