"""What a model trained with Gumbel noise loses or gains by how it mixes experts without it."""

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.data.windows import Windows
from workbench.errors import ConflictError
from workbench.moe.model import MoEDecoder
from workbench.training.evaluate import evaluate


@dataclass(frozen=True, kw_only=True)
class InferenceGap:
    """Bits per byte of the same text under both inferences, ``bpb_macro`` and ``bpb_<domain>``."""

    hard: Mapping[str, float]
    """The k best experts alike."""
    soft: Mapping[str, float]
    """All experts by their probability, at E/k times the expert products."""

    @property
    def gap(self) -> float:
        """Hard minus soft ``bpb_macro``: positive where soft inference is better."""
        return self.hard["bpb_macro"] - self.soft["bpb_macro"]


def inference_gap(model: MoEDecoder, windows: Mapping[str, Windows]) -> InferenceGap:
    """Return what validation text costs under hard and under soft inference.

    The model is left as it was.

    Raises:
        ConflictError: its routing has only one kind of inference.
    """
    kind = model.config.routing.kind
    if kind != "gumbel":
        raise ConflictError(
            f"routing of kind {kind} has one inference only: there is no gap to measure",
            remedy="train with model.routing.kind: gumbel",
        )
    routers = model.routers()
    before = [router.inference for router in routers]
    values: dict[str, dict[str, float]] = {}
    try:
        for inference in ("hard", "soft"):
            for router in routers:
                router.inference = inference
            values[inference] = evaluate(model, windows)
    finally:
        for router, own in zip(routers, before, strict=True):
            router.inference = own
    return InferenceGap(hard=values["hard"], soft=values["soft"])


GAP_METRIC = "inference_gap"
"""Of an evaluation of a model with Gumbel routing: `InferenceGap.gap`, bits per byte."""


def validation_values(model: MoEDecoder, windows: Mapping[str, Windows]) -> dict[str, float]:
    """Return the metrics of validation text under the run's own inference.

    With Gumbel routing that text is gone through under both, and their gap is a metric.
    """
    if model.config.routing.kind != "gumbel":
        return evaluate(model, windows)
    found = inference_gap(model, windows)
    own = found.hard if model.config.routing.inference == "hard" else found.soft
    return {**own, GAP_METRIC: found.gap}
