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
