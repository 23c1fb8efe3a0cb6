"""The catalogue of failure signatures: what a log shows, why it may be so, what to do.

Data only; `workbench.sentinel.detector` finds them. ``limit`` and ``rows`` are the numbers that
the detector uses, so that the text of a condition and what is tested cannot differ.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["note", "warning", "critical"]
Layer: TypeAlias = Literal["objective", "architecture", "optimizer", "operations"]
"""Where the cheapest sufficient response acts."""


@dataclass(frozen=True, kw_only=True)
class Signature:
    """One phenomenon with its condition in the telemetry and its candidate causes."""

    name: str
    phenomenon: str
    condition: str
    """What must hold in the rows; ``{limit:g}`` and ``{rows}`` stand for the numbers below."""
    limit: float
    """Threshold of the condition; its unit is in the condition's text."""
    rows: int
    """Consecutive rows (for windows: rows of the window) before it is reported."""
    causes: tuple[str, ...]
    """Candidates, the likeliest first; a signature does not prove one."""
    fix: str
    layer: Layer
    severity: Severity
    evidence: str
    """Where the condition was seen, or the argument for it."""

    @property
    def rule(self) -> str:
        """The condition with its numbers."""
        return self.condition.format(limit=self.limit, rows=self.rows)


NON_FINITE_LOSS = Signature(
    name="non_finite_loss",
    phenomenon="the loss is NaN or infinite",
    condition="loss is not finite; a missing loss is not meant",
    limit=0,
    rows=1,
    causes=("overflow in low precision", "learning rate too high", "damaged batch or weights"),
    fix="resume from the last good checkpoint with a lower peak learning rate or fp32 softmax",
    layer="optimizer",
    severity="critical",
    evidence="by definition",
)
NON_FINITE_GRADIENT = Signature(
    name="non_finite_gradient",
    phenomenon="the gradient norm is NaN or infinite while the loss is finite",
    condition="grad_norm is not finite and the loss is; a missing norm is not meant",
    limit=0,
    rows=1,
    causes=("overflow in the backward pass", "damaged batch", "logits that grow"),
    fix="a skipped update costs one batch; where they recur, lower the peak learning rate",
    layer="optimizer",
    severity="warning",
    evidence="by definition; such a step is skipped or ends the run, it is never taken",
)
DIVERGENCE = Signature(
    name="divergence",
    phenomenon="the loss stays above the registered limit",
    condition="loss above the registered limit for the registered number of rows",
    limit=0,
    rows=1,
    causes=("learning rate too high", "warm-up too short", "initialisation too large"),
    fix="end the run as diverged by the registered rule; lower the learning rate in a new run",
    layer="optimizer",
    severity="critical",
    evidence="the limit and the patience are the registration's own",
)
LOSS_SPIKE = Signature(
    name="loss_spike",
    phenomenon="the loss jumps above its trend and stays there for more than one row",
    condition=(
        "loss above the median of the last 50 rows by more than {limit:g} of it and by more than "
        "6 robust standard deviations, {rows} rows running; one row alone is a hard batch"
    ),
    limit=0.1,
    rows=2,
    causes=(
        "attention or router logits that grow",
        "learning rate too high for the stage",
        "a run of damaged or repetitive documents",
    ),
    fix="wait for the return to trend; else resume before the spike, skip the batches, clip lower",
    layer="optimizer",
    severity="warning",
    evidence="mixtral-8x7b 4050-4055; BLOOM 31219-31222; no single-row jump of two GPT-2 logs",
)
ROUTER_COLLAPSE = Signature(
    name="router_collapse",
    phenomenon="one expert takes nearly every token, or hardly more than k experts are in use",
    condition=(
        "max_expert_share above k/E + {limit:g}·(1 - k/E), or exp(entropy) of the marginal at most "
        "the larger of k + 1/2 and E/8, {rows} rows running"
    ),
    limit=0.9,
    rows=20,
    causes=(
        "balance weight too small",
        "balance loss disconnected from the graph",
        "balance loss with the wrong sign",
        "router gradient explosion",
    ),
    fix="compare aux_loss with its value at balance (1.0), then raise the balance weight",
    layer="objective",
    severity="critical",
    evidence="E·Σf·P equals E when one expert takes everything; not yet measured on real runs",
)
BALANCE_LOSS_DISCONNECTED = Signature(
    name="balance_loss_disconnected",
    phenomenon="the balance loss is below what softmax routing can reach",
    condition="aux_loss below {limit:g} (balance is 1.0), {rows} rows running",
    limit=0.5,
    rows=10,
    causes=(
        "the loss is computed from other tensors than the router's",
        "another definition: f divided by k twice, or the weight λ already applied",
        "padding or an empty mask in its mean",
    ),
    fix="log the loss without λ and check that the router's gradient changes with λ",
    layer="objective",
    severity="warning",
    evidence="top-1 routing cannot fall below 1 - (E-1)/(4E) > 0.75; a property test searches it",
)
GRAD_NORM_NOT_MEASURED = Signature(
    name="grad_norm_not_measured",
    phenomenon="the gradient norm is exactly zero in every row",
    condition="grad_norm is 0 in the first {rows} rows that have one",
    limit=0,
    rows=8,
    causes=("the norm is not computed by this optimizer or precision plug-in",),
    fix="log the norm before clipping; until then read it as missing, never as zero",
    layer="operations",
    severity="note",
    evidence="BigScience 13B prints 0.000 throughout while the loss moves",
)
SILENT_SLOW_DOWN = Signature(
    name="silent_slow_down",
    phenomenon="steps take longer than before, with no other sign",
    condition=(
        "median step_seconds of the last {rows} rows above {limit:g} × the median of the 200 rows "
        "before them, at least 60 s lost"
    ),
    limit=1.2,
    rows=20,
    causes=("a slow or throttled device", "a busy network or file system", "a data loader behind"),
    fix="compare devices one by one; exclude the slow one and resume elsewhere",
    layer="operations",
    severity="warning",
    evidence="deepseek-v3 proxy 29950-30645: 12.0 s to 17.0 s a step, 140 rows",
)
PERIODIC_STALL = Signature(
    name="periodic_stall",
    phenomenon="every n-th step takes much longer, the others are as fast as ever",
    condition=(
        "step_seconds above {limit:g} × the recent median at {rows} equally spaced steps, at least "
        "60 s lost"
    ),
    limit=2.0,
    rows=4,
    causes=(
        "work that the optimizer does every n steps",
        "checkpoints or evaluation inside the step",
        "a background task with I/O",
    ),
    fix="expected for preconditioned optimizers; else move the work out of the step",
    layer="operations",
    severity="note",
    evidence="SOAP on GPT-2: every 10th step 1,327 ms against 255 ms",
)

CATALOGUE = (
    NON_FINITE_LOSS,
    NON_FINITE_GRADIENT,
    DIVERGENCE,
    LOSS_SPIKE,
    ROUTER_COLLAPSE,
    BALANCE_LOSS_DISCONNECTED,
    GRAD_NORM_NOT_MEASURED,
    SILENT_SLOW_DOWN,
    PERIODIC_STALL,
)
