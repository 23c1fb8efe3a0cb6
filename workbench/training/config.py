"""One run's configuration, the same for a proxy and at full scale. Imports no torch."""

import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from workbench.data.config import Domain
from workbench.moe.config import BalanceConfig, ModelConfig

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
        normal = {name: round(share / total, 6) for name, share in shares.items()} if total else {}
        raise ValueError(f"{what} sums to {total:.6g}, not 1 (normalised it would be {normal})")
    return shares


_Decay = Annotated[float, Field(ge=0, lt=1)]


class PhaseConfig(BaseModel):
    """A stretch of training with its own learning-rate shape."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    lr: Literal["linear_up", "constant", "linear_down", "cosine_down"]
    final: float = Field(default=0.0, ge=0, le=1)
    """Where a falling shape ends, as a share of the peak."""
    mixture: dict[Domain, float] | None = None
    """Overrides the run's mixture during this phase."""
    frozen: tuple[FreezablePart, ...] = ()
    """Parts without updates during this phase."""
    balance_weight: float | None = Field(default=None, ge=0, le=10)
    """Overrides λ during this phase."""

    @field_validator("mixture")
    @classmethod
    def _on_simplex(cls, value: dict[str, float] | None) -> dict[str, float] | None:
        return None if value is None else check_simplex(value)


class OptimizerConfig(BaseModel):
    """AdamW without weight decay on embeddings, norms and other vectors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Literal["adamw"] = "adamw"
    lr: float = Field(gt=0, le=1)
    """Peak learning rate."""
    betas: tuple[_Decay, _Decay] = (0.9, 0.95)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(ge=0, le=10)
    clip_norm: float = Field(gt=0)
    """Global gradient-norm threshold, applied after the last micro-batch's backward pass."""


class BatchConfig(BaseModel):
    """One optimizer step's tokens: ``sequences`` × ``seq_len``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sequences: int = Field(ge=1)
    seq_len: int = Field(ge=2)
    micro_batches: int = Field(default=1, ge=1)
    """Backward passes a step; must divide ``sequences``."""

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
    evaluation: EvaluationConfig
    checkpoint: CheckpointConfig
    precision: Literal["fp32", "bf16"] = "fp32"

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
        return self

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
