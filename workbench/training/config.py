"""One run's configuration, the same for a proxy and at full scale. Imports no torch."""

import math
from collections.abc import Callable, Iterable
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from workbench.data.config import Domain
from workbench.moe.config import BalanceConfig, ModelConfig, RecomputePolicy

SUM_TOLERANCE = 1e-6
FreezablePart = Literal["router", "embeddings", "all"]


def check_simplex(shares: dict[str, float], what: str = "mixture") -> dict[str, float]:
    """Return the shares if they are a point of the simplex.

    Raises:
        ValueError: a negative or non-finite share, or a sum off 1 by more than 1e-6.
    """
    bad = {name: share for name, share in shares.items() if not 0 <= share <= 1}
    if bad:
        raise ValueError(f"{what} shares must lie in [0, 1], got {bad}")
    total = math.fsum(shares.values())
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(f"{what} sums to {total:.6g}, not 1{_normalised(shares, total)}")
    return shares


def _normalised(shares: dict[str, float], total: float) -> str:
    """Return the factor that puts the sum right and the shares after it, which are accepted."""
    if not total:
        return ""
    normal = {name: round(share / total, 6) for name, share in shares.items()}
    largest = max(normal, key=normal.__getitem__)
    # What rounding took or gave, so that the written line sums to 1.
    normal[largest] = round(normal[largest] + 1 - math.fsum(normal.values()), 6)
    told = ", ".join(f"{name}: {share:.6g}" for name, share in normal.items())
    return f": multiply by {1 / total:.5f}, which gives {{{told}}}"


_Decay = Annotated[float, Field(ge=0, lt=1)]


def _is_none(value: object) -> bool:
    # Left out of a written configuration: one from before the field existed keeps its fingerprint.
    return value is None


class PhaseConfig(BaseModel):
    """A stretch of training with its own learning-rate shape."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    lr: Literal[
        "none", "linear_up", "constant", "linear_down", "cosine_down", "one_minus_sqrt_down"
    ]
    """``none``: a pre-warm, which measures and updates nothing; only before all other phases."""
    final: float = Field(default=0.0, ge=0, le=1)
    """Where a falling shape ends, as a share of the peak."""
    jump: float | None = Field(default=None, ge=0, le=1, exclude_if=_is_none)
    """Share of the peak to which the learning rate jumps at the phase's beginning. Without it a
    phase starts where the one before ended: nothing else makes a schedule jump."""
    mixture: dict[Domain, float] | None = None
    """Overrides the run's mixture during this phase."""
    frozen: tuple[FreezablePart, ...] = ()
    """Parts without updates during this phase."""
    balance_weight: float | None = Field(default=None, ge=0, le=10)
    """Overrides λ during this phase."""
    bias_rate: float | None = Field(
        default=None, ge=0, le=1, exclude_if=lambda bias_rate: bias_rate is None
    )
    """Overrides γ, the step of the experts' biases, during this phase; 0 holds them still."""

    @field_validator("mixture")
    @classmethod
    def _on_simplex(cls, value: dict[str, float] | None) -> dict[str, float] | None:
        return None if value is None else check_simplex(value)


def _unless(default: object) -> Callable[[object], bool]:
    # Left out of a written configuration: one from before the field existed keeps its fingerprint.
    return lambda value: bool(value == default)


class OptimizerConfig(BaseModel):
    """AdamW or Muon, without weight decay on embeddings, norms and other vectors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Literal["adamw", "muon"] = "adamw"
    """``muon`` moves the matrices of attention and experts; the rest is AdamW's in both."""
    lr: float = Field(gt=0, le=1)
    """Peak learning rate."""
    betas: tuple[_Decay, _Decay] = (0.9, 0.95)
    eps: float = Field(default=1e-8, gt=0)
    momentum: _Decay = Field(default=0.95, exclude_if=_unless(0.95))
    """Of Muon."""
    weight_decay: float = Field(ge=0, le=10)
    clip_norm: float = Field(gt=0)
    """Gradient-norm threshold, applied after the last micro-batch's backward pass."""
    clip: Literal["global", "router_local", "adaptive"] = Field(
        default="global", exclude_if=_unless("global")
    )
    """What is clipped by which norm, see `workbench.training.clipping`."""
    nonfinite: Literal["stop", "skip"] = Field(default="stop", exclude_if=_unless("stop"))
    """What a gradient norm that is not finite does: ends the run, or leaves out the update."""
    max_skips: int = Field(default=3, ge=1, exclude_if=_unless(3))
    """Most updates left out in a row; the next one ends the run."""
    qk_clip: float | None = Field(default=None, gt=0, exclude_if=_unless(None))
    """τ of QK-Clip: a head whose largest attention logit of the step exceeds it is scaled down.
    None watches no logits."""


class BatchConfig(BaseModel):
    """One optimizer step's tokens: ``sequences`` × ``seq_len``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sequences: int = Field(ge=1)
    seq_len: int = Field(ge=2)
    micro_batches: int = Field(default=1, ge=1)
    """Backward passes a step; must divide ``sequences``."""
    documents: Literal["joined", "masked"] = Field(
        default="joined", exclude_if=lambda documents: documents == "joined"
    )
    """``masked``: attention does not cross from one document into another, and the first token
    of a document, which nothing before it foretells, is not a target."""

    @model_validator(mode="after")
    def _divides(self) -> "BatchConfig":
        if self.sequences % self.micro_batches:
            raise ValueError(
                f"micro_batches {self.micro_batches} does not divide sequences {self.sequences}"
            )
        return self


class EvaluationConfig(BaseModel):
    """When and on how much validation text the metric of record is measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every: int = Field(ge=1)
    """Steps; the last step is always evaluated."""
    bytes_per_domain: int = Field(ge=1)
    """UTF-8 bytes of validation text a domain, at most what the split holds."""


class CheckpointConfig(BaseModel):
    """How often state is saved and how many generations are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every: int = Field(ge=1)
    keep: int = Field(default=2, ge=1)


class DocumentWeightsConfig(BaseModel):
    """How much rarer documents of frequent words come up in training; never in validation.

    A document's relative weight is decay ** (100 · (1 - rank)), with the rank of its entropy
    among the training documents of its domain, 0 to 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    first: float = Field(ge=0.9, le=1)
    """Decay at the first step; linear in the step from there."""
    last: float = Field(ge=0.9, le=1)
    """Decay at the last step."""


class AvailabilityConfig(BaseModel):
    """How often a domain's training text may be gone through, and what happens at the end of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_epochs: Annotated[float, Field(gt=0)] | dict[Domain, Annotated[float, Field(gt=0)]]
    """Epochs of every domain, or of those named."""
    exhausted: Literal["refuse", "repeat", "drop"]
    """``refuse``: a run that needs more does not start. ``repeat``: the text goes on into further
    epochs. ``drop``: the domain's share goes to the others in proportion from there on."""

    def caps(self, domains: Iterable[str]) -> dict[str, float]:
        """Return the most epochs of each domain that has a limit."""
        if isinstance(self.max_epochs, dict):
            return {d: self.max_epochs[d] for d in domains if d in self.max_epochs}
        return dict.fromkeys(domains, self.max_epochs)


class RunConfig(BaseModel):
    """Everything that decides a run's result besides its corpus and its seed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: ModelConfig
    balance: BalanceConfig
    batch: BatchConfig
    optimizer: OptimizerConfig
    steps: int = Field(ge=1)
    phases: tuple[PhaseConfig, ...] = Field(min_length=1)
    """In the order in which they happen."""
    phase_fractions: dict[str, float]
    """Share of the steps of each phase, by name: a point of the simplex."""
    mixture: dict[Domain, float] | Literal["natural"]
    """Share of each domain in the training tokens; ``natural`` is their share in the corpus."""
    document_weights: DocumentWeightsConfig | None = Field(default=None, exclude_if=_is_none)
    """None draws all documents of a domain alike."""
    availability: AvailabilityConfig | None = Field(default=None, exclude_if=_is_none)
    """None lets every domain repeat as often as its share asks."""
    evaluation: EvaluationConfig
    checkpoint: CheckpointConfig
    precision: Literal["fp32", "bf16"] = "fp32"
    """Of the forward and backward products. Weights, their gradients, the optimizer's state,
    routing and the loss are fp32 in both, and so is every evaluation."""
    expert_precision: Literal["run", "fp8_block"] = Field(default="run", exclude_if=_unless("run"))
    """``fp8_block``: the products of experts, routed and shared, see `workbench.moe.block_scaled`.
    Attention, router, norms, embeddings and head stay in ``precision``. Training only."""
    kernels: Literal["auto", "portable"] = Field(default="auto", exclude_if=_unless("auto"))
    """``auto``: compiled kernels for bf16 on a CPU where a C++ compiler exists; ``portable``:
    torch's own operations everywhere. Their results differ in the last bits."""
    recompute: RecomputePolicy = Field(
        default="none", exclude_if=lambda policy: bool(policy == "none")
    )
    """What the backward pass computes again to save memory; it changes no result."""

    @field_validator("mixture")
    @classmethod
    def _on_simplex(cls, value: dict[str, float] | str) -> dict[str, float] | str:
        return value if isinstance(value, str) else check_simplex(value)

    @field_validator("phase_fractions")
    @classmethod
    def _fractions_on_simplex(cls, value: dict[str, float]) -> dict[str, float]:
        return check_simplex(value, "phase_fractions")

    @model_validator(mode="after")
    def _consistent(self) -> "RunConfig":
        names = [phase.name for phase in self.phases]
        if sorted(names) != sorted(self.phase_fractions):
            raise ValueError(
                f"phases {names} and phase_fractions {list(self.phase_fractions)} differ"
            )
        if self.batch.seq_len > self.model.max_seq_len:
            raise ValueError(
                f"seq_len {self.batch.seq_len} exceeds max_seq_len {self.model.max_seq_len}"
            )
        rates = [self.balance.bias_rate, *(phase.bias_rate or 0.0 for phase in self.phases)]
        if any(rates) and not self.model.routing.bias:
            raise ValueError(
                f"bias_rate {max(rates):g} moves biases that the router does not have -> write "
                "model.routing.bias: true"
            )
        begun = [phase for phase in self.phases if phase.lr != "none"]
        if self.phases[len(self.phases) - len(begun) :] != tuple(begun):
            late = next(p.name for p in reversed(self.phases) if p.lr == "none")
            raise ValueError(f"phase {late!r} has lr none but comes after a phase that updates")
        self._check_last_step()
        return self

    @model_validator(mode="after")
    def _qk_clip_can_act(self) -> "RunConfig":
        if self.optimizer.qk_clip is not None and self.model.qk_norm:
            raise ValueError(
                f"optimizer.qk_clip {self.optimizer.qk_clip:g} cannot act with model.qk_norm, "
                "which takes the scale of every head's queries and keys away -> set model.qk_norm: "
                "false, or leave optimizer.qk_clip out"
            )
        return self

    def _check_last_step(self) -> None:
        """Refuse shares that fit the simplex's tolerance and still miss the last step."""
        covered = math.fsum(self.phase_fractions.values()) * self.steps
        if abs(covered - self.steps) >= 0.5:
            raise ValueError(
                f"phase_fractions cover {round(covered)} steps, but the run has {self.steps} -> "
                f"write each share as its steps divided by {self.steps}"
            )

    def phase_ends(self) -> list[tuple[PhaseConfig, int]]:
        """Return each phase with the step count at its end; the last ends at ``steps``.

        A phase whose share rounds to no step is kept with an empty stretch.
        """
        ends: list[tuple[PhaseConfig, int]] = []
        reached = 0.0
        for phase in self.phases:
            reached += self.phase_fractions[phase.name]
            ends.append((phase, min(self.steps, round(reached * self.steps))))
        ends[-1] = (ends[-1][0], self.steps)
        return ends

    @property
    def tokens_per_step(self) -> int:
        """Training tokens of one optimizer step."""
        return self.batch.sequences * self.batch.seq_len
