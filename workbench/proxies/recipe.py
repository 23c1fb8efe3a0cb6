"""Recipes: a base configuration, the scales of its ladder and the space that a sweep searches.

Imports no torch and no Optuna, so that a proposal can be checked and registered in a blink.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from workbench.canonical import Json
from workbench.data.config import CorpusConfig, Domain
from workbench.moe.config import BALANCE_OFF, ROUTING_OFF
from workbench.training.config import RunConfig

SIMPLEX_KEYS = ("mixture", "phase_fractions")
"""Values replaced whole, never merged: part of one simplex point and part of another is neither."""

WHOLE_KEYS = (*SIMPLEX_KEYS, "document_weights", "availability")
"""Values that a fragment replaces whole."""

LEFT_OUT: dict[str, Json] = {
    "batch.documents": "joined",
    "model.attention.kind": "gqa",
    "model.attention.q_lora_rank": 0,
    "model.attention.kv_lora_rank": 0,
    "model.attention.qk_nope_head_dim": 0,
    "model.attention.qk_rope_head_dim": 0,
    "model.attention.v_head_dim": 0,
    "kernels": "auto",
    "recompute": "none",
    "document_weights": None,
    "availability": None,
    **{f"model.routing.{key}": value for key, value in ROUTING_OFF.items()},
    **{f"balance.{key}": value for key, value in BALANCE_OFF.items()},
    "optimizer.momentum": 0.95,
    "optimizer.clip": "global",
    "optimizer.nonfinite": "stop",
    "optimizer.max_skips": 3,
    "optimizer.qk_clip": None,
    "expert_precision": "run",
}
"""Keys that a written configuration leaves out while they have these values."""

METRICS = "bpb_macro, or bpb_<domain>"


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MixtureSpace(_Strict):
    """The simplex over domains, each share at least ``minimum``; uniform (Dirichlet(1)).

    Where ``maximum`` bounds shares from above it is uniform on what the bounds leave.
    """

    kind: Literal["simplex"]
    domains: tuple[Domain, ...] = Field(min_length=2)
    minimum: float = Field(default=0.0, ge=0, lt=0.5)
    maximum: dict[Domain, Annotated[float, Field(gt=0, le=1)]] = Field(default={}, max_length=10)
    """Largest share of some domains, for example what an availability allows."""

    @model_validator(mode="after")
    def _is_feasible(self) -> "MixtureSpace":
        unknown = sorted(set(self.maximum) - set(self.domains))
        if unknown:
            raise ValueError(f"maximum names {unknown}, which are none of {list(self.domains)}")
        for domain, most in self.maximum.items():
            if most <= self.minimum:
                raise ValueError(
                    f"maximum {most:g} of {domain!r} is not above the minimum {self.minimum:g}"
                )
        total = math.fsum(self.maximum.get(domain, 1.0) for domain in self.domains)
        if total <= 1:
            raise ValueError(
                f"the maxima sum to {total:g}: above 1 some mixture is left to choose, at 1 only "
                "one, below 1 none"
            )
        return self


class LogUniform(_Strict):
    """A positive number, uniform in its logarithm."""

    kind: Literal["log_uniform"]
    low: float = Field(gt=0)
    high: float = Field(gt=0)


class Uniform(_Strict):
    """A number, uniform between two bounds."""

    kind: Literal["uniform"]
    low: float
    high: float


class Choice(_Strict):
    """One of the listed values."""

    kind: Literal["choice"]
    values: tuple[int | float | str, ...] = Field(min_length=2)


class PhaseSpace(_Strict):
    """Phase fractions: some within ranges, the phase named ``rest`` takes what they leave."""

    kind: Literal["fractions"]
    ranges: dict[str, tuple[float, float]] = Field(min_length=1)
    rest: str


Dimension: TypeAlias = Annotated[
    MixtureSpace | LogUniform | Uniform | Choice | PhaseSpace, Field(discriminator="kind")
]


class Scale(_Strict):
    """One rung of the ladder: the base configuration with some keys overridden."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    overrides: dict[str, Json] = {}
    """Dotted keys of `RunConfig`."""


class CorpusFile(_Strict):
    """A file that describes a corpus and no sweep."""

    corpus: CorpusConfig


class Recipe(_Strict):
    """A sweep recipe, ``proxies/*.yaml``. ``base`` holds the control arm's values."""

    recipe: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*@[0-9]+$")
    """``name@version``; the same name and version never mean two contents."""
    corpus: CorpusConfig
    base: RunConfig
    scales: tuple[Scale, ...] = Field(min_length=1)
    """Rising in compute; the sweep runs at the first."""
    space: dict[str, Dimension] = Field(min_length=1)
    """Dotted key of `RunConfig` to what is tried: ``mixture``, ``balance.weight``, …"""

    @model_validator(mode="after")
    def _consistent(self) -> "Recipe":
        for scale in self.scales:
            self.at_scale(scale.name)
        for key in self.space:
            value_at(self.base.model_dump(mode="json"), key)
        return self

    def at_scale(self, name: str, fragment: Mapping[str, Json] | None = None) -> RunConfig:
        """Return the configuration of a rung with a nested fragment of tried values merged in.

        Raises:
            ValueError: no such scale, an unknown key, or a value out of range.
        """
        found = [scale for scale in self.scales if scale.name == name]
        if not found:
            raise ValueError(f"scale {name!r} is not one of {[s.name for s in self.scales]}")
        return with_values(self.base, nested(found[0].overrides), fragment or {})

    def control(self) -> dict[str, Json]:
        """Return the control arm's values of the manipulated keys as a nested fragment."""
        plain = self.base.model_dump(mode="json")
        return nested({key: value_at(plain, key) for key in self.space})


class FullScale(_Strict):
    """``experiments/NNNN-slug/full.yaml``: the recipe's base at full size.

    Corpus and control values come from the recipe; each override needs a scaling rule in the
    proposal. The treatment arm takes the manipulated keys from the promotion.
    """

    full: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*@[0-9]+$")
    extends: str
    """``name@version`` of the recipe."""
    overrides: dict[str, Json]
    """Dotted keys of `RunConfig`."""

    def config(self, recipe: Recipe, fragment: Mapping[str, Json] | None = None) -> RunConfig:
        """Return an arm's full-scale configuration.

        Raises:
            ValueError: an unknown key or a value out of range.
        """
        return with_values(recipe.base, nested(self.overrides), fragment or {})


def nested(dotted: Mapping[str, Json]) -> dict[str, Json]:
    """Return ``{"a": {"b": 1}}`` for ``{"a.b": 1}``.

    Raises:
        ValueError: one key is a part of another.
    """
    result: dict[str, Json] = {}
    for key, value in dotted.items():
        *parents, last = key.split(".")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})
            if not isinstance(place, dict):
                raise ValueError(f"{key!r} lies below a key that has a value of its own")  # noqa: TRY004
        place[last] = value
    return result


def value_at(plain: Mapping[str, Json], key: str) -> Json:
    """Return the value under a dotted key.

    Raises:
        ValueError: the key leads nowhere.
    """
    place: Json = plain
    for part in key.split("."):
        if not isinstance(place, Mapping) or part not in place:
            if key in LEFT_OUT:
                return LEFT_OUT[key]
            raise ValueError(f"{key!r} is not a key of the run configuration")
        place = place[part]
    return place


def dotted(plain: Mapping[str, Json], prefix: str = "") -> dict[str, Json]:
    """Return the leaves of a nested mapping under dotted keys; `WHOLE_KEYS` stay whole."""
    result: dict[str, Json] = {}
    for key, value in plain.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and key not in WHOLE_KEYS:
            result.update(dotted(value, f"{path}."))
        else:
            result[path] = value
    return result


def with_values(base: RunConfig, *fragments: Mapping[str, Json]) -> RunConfig:
    """Return the configuration with nested fragments merged in, the later ones on top.

    Raises:
        ValueError: an unknown key or a value out of range.
    """
    plain = base.model_dump(mode="json")
    for fragment in fragments:
        plain = _merge(plain, fragment)
    return RunConfig.model_validate(plain)


def _merge(base: Mapping[str, Json], over: Mapping[str, Json]) -> dict[str, Json]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        mergeable = isinstance(value, Mapping) and key not in WHOLE_KEYS
        if mergeable and isinstance(below, Mapping):
            merged[key] = _merge(below, value)
        else:
            merged[key] = value
    return merged
