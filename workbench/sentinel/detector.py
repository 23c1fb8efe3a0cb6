"""A streaming detector of the catalogue's signatures: constant memory, one row at a time.

Each watch looks at one field and keeps at most a short window. A finding is reported once an
episode: again only after the rows were healthy in between. A missing value neither counts for nor
against anything.
"""

import math
from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from workbench.sentinel import signatures
from workbench.sentinel.signatures import Layer, Severity, Signature
from workbench.sentinel.telemetry import TelemetryRow

TREND_ROWS = 50
"""Rows of the loss trend; it is judged once it holds 20."""
_MIN_TREND_ROWS = 20
_ROBUST_SD = 1.4826
"""Standard deviation of a normal sample / its median absolute deviation."""
_SPIKE_DEVIATIONS = 6
_BASELINE_ROWS = 200
_WORTH_SECONDS = 60.0
"""Time lost before slowness is worth a word: small proxies on a busy machine stay quiet."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A signature that the rows show."""

    signature: str
    severity: Severity
    layer: Layer
    began_step: int
    detected_step: int
    symptom: str
    """What was measured, with its numbers."""
    fix: str


class _Watch(Protocol):
    def observe(self, row: TelemetryRow) -> Finding | None: ...


class Detector:
    """Finds the signatures of `workbench.sentinel.signatures` in a stream of rows."""

    def __init__(
        self, *, num_experts: int, divergence_loss: float, patience: int, top_k: int = 1
    ) -> None:
        """Watch a run.

        Args:
            num_experts: E of the model; below 2 the router is not watched.
            divergence_loss: registered limit of the training loss, nats a token.
            patience: rows above the limit that mean divergence.
            top_k: experts a token; with k = E no share is a collapse.
        """
        self._trend = _LossSpike()
        watches: list[_Watch] = [
            _NonFiniteLoss(),
            _NonFiniteGradient(),
            _Divergence(divergence_loss, patience),
            self._trend,
            _BalanceLoss(),
            _GradNorm(),
            _SlowDown(),
            _PeriodicStall(),
        ]
        if num_experts > top_k:
            watches.append(_RouterCollapse(num_experts, top_k))
        self._watches = tuple(watches)

    def observe(self, row: TelemetryRow) -> list[Finding]:
        """Return what this row completes: usually nothing."""
        found = (watch.observe(row) for watch in self._watches)
        return [finding for finding in found if finding is not None]

    def expect_new_level(self) -> None:
        """Forget the loss trend: from the next row the mixture or the objective is another."""
        self._trend.forget()


class _Streak:
    """Consecutive rows for which a condition holds; completes once a streak."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._count = 0
        self.began_step = 0

    def completes(self, holds: bool, step: int) -> bool:
        if not holds:
            self._count = 0
            return False
        if self._count == 0:
            self.began_step = step
        self._count += 1
        return self._count == self._rows


def _finding(signature: Signature, began: int, row: TelemetryRow, symptom: str) -> Finding:
    return Finding(
        signature=signature.name,
        severity=signature.severity,
        layer=signature.layer,
        began_step=began,
        detected_step=row.step,
        symptom=symptom,
        fix=signature.fix,
    )


class _NonFiniteLoss:
    def __init__(self) -> None:
        self._streak = _Streak(signatures.NON_FINITE_LOSS.rows)

    def observe(self, row: TelemetryRow) -> Finding | None:
        if row.loss is None or not self._streak.completes(not math.isfinite(row.loss), row.step):
            return None
        return _finding(signatures.NON_FINITE_LOSS, row.step, row, f"loss is {row.loss}")


class _NonFiniteGradient:
    def __init__(self) -> None:
        self._streak = _Streak(signatures.NON_FINITE_GRADIENT.rows)

    def observe(self, row: TelemetryRow) -> Finding | None:
        if row.grad_norm is None or row.loss is None or not math.isfinite(row.loss):
            return None
        if not self._streak.completes(not math.isfinite(row.grad_norm), row.step):
            return None
        symptom = f"grad_norm is {row.grad_norm} at a loss of {row.loss:.4f}"
        return _finding(signatures.NON_FINITE_GRADIENT, row.step, row, symptom)


class _Divergence:
    def __init__(self, limit: float, patience: int) -> None:
        self._limit = limit
        self._streak = _Streak(patience)
        self._patience = patience

    def observe(self, row: TelemetryRow) -> Finding | None:
        if row.loss is None:
            return None
        # A NaN is not below the limit either: it counts.
        if not self._streak.completes(not row.loss <= self._limit, row.step):
            return None
        symptom = f"loss {row.loss:.4f} above {self._limit:g} for {self._patience} rows"
        return _finding(signatures.DIVERGENCE, self._streak.began_step, row, symptom)


class _LossSpike:
    def __init__(self) -> None:
        self._streak = _Streak(signatures.LOSS_SPIKE.rows)
        self._window: deque[float] = deque(maxlen=TREND_ROWS)

    def forget(self) -> None:
        self._window.clear()

    def observe(self, row: TelemetryRow) -> Finding | None:
        if row.loss is None or not math.isfinite(row.loss):
            return None
        trend, limit = self._trend()
        self._window.append(row.loss)
        if not self._streak.completes(row.loss > limit, row.step):
            return None
        symptom = f"loss {row.loss:.4f} against a trend of {trend:.4f}"
        return _finding(signatures.LOSS_SPIKE, self._streak.began_step, row, symptom)

    def _trend(self) -> tuple[float, float]:
        """Return the median of the window and the loss above which a row is off it."""
        if len(self._window) < _MIN_TREND_ROWS:
            return math.nan, math.inf
        middle = median(self._window)
        deviation = _ROBUST_SD * median(abs(loss - middle) for loss in self._window)
        jump = max(signatures.LOSS_SPIKE.limit * abs(middle), _SPIKE_DEVIATIONS * deviation)
        return middle, middle + jump


class _RouterCollapse:
    def __init__(self, num_experts: int, top_k: int) -> None:
        signature = signatures.ROUTER_COLLAPSE
        balanced = top_k / num_experts
        self._max_share = balanced + signature.limit * (1 - balanced)
        # In experts: exp(entropy) is how many equally used ones have that entropy.
        fewest = max(top_k + 0.5, num_experts / 8)
        self._min_entropy = math.log(fewest) / math.log(num_experts)
        self._streak = _Streak(signature.rows)

    def observe(self, row: TelemetryRow) -> Finding | None:
        share, entropy = row.max_expert_share, row.router_entropy
        if share is None and entropy is None:
            return None
        collapsed = (share is not None and share > self._max_share) or (
            entropy is not None and entropy <= self._min_entropy
        )
        if not self._streak.completes(collapsed, row.step):
            return None
        symptom = f"max_expert_share {_shown(share)}, router_entropy {_shown(entropy)}"
        return _finding(signatures.ROUTER_COLLAPSE, self._streak.began_step, row, symptom)


class _BalanceLoss:
    def __init__(self) -> None:
        self._streak = _Streak(signatures.BALANCE_LOSS_DISCONNECTED.rows)

    def observe(self, row: TelemetryRow) -> Finding | None:
        signature = signatures.BALANCE_LOSS_DISCONNECTED
        if row.aux_loss is None:
            return None
        if not self._streak.completes(row.aux_loss < signature.limit, row.step):
            return None
        symptom = f"aux_loss {row.aux_loss:.4f} below {signature.limit:g}, balance is 1.0"
        return _finding(signature, self._streak.began_step, row, symptom)


class _GradNorm:
    def __init__(self) -> None:
        self._streak = _Streak(signatures.GRAD_NORM_NOT_MEASURED.rows)
        self._measured = False

    def observe(self, row: TelemetryRow) -> Finding | None:
        if row.grad_norm is None or self._measured:
            return None
        # One value other than zero proves that the norm is measured, whatever follows.
        self._measured = row.grad_norm != 0
        if not self._streak.completes(not self._measured, row.step):
            return None
        symptom = "grad_norm is 0 in every row"
        return _finding(signatures.GRAD_NORM_NOT_MEASURED, self._streak.began_step, row, symptom)


class _SlowDown:
    """The baseline takes a row only when it leaves the recent window, and none while slow."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, float]] = deque()
        self._baseline: deque[float] = deque(maxlen=_BASELINE_ROWS)
        self._slow = False

    def observe(self, row: TelemetryRow) -> Finding | None:
        signature = signatures.SILENT_SLOW_DOWN
        if row.step_seconds is None or not math.isfinite(row.step_seconds):
            return None
        self._recent.append((row.step, row.step_seconds))
        if len(self._recent) > signature.rows:
            left = self._recent.popleft()[1]
            if not self._slow:
                self._baseline.append(left)
        if len(self._baseline) < signature.rows:
            return None
        normal = median(self._baseline)
        now = median(seconds for _, seconds in self._recent)
        if self._slow:
            self._slow = now > normal * (1 + signature.limit) / 2
            return None
        return self._judge(row, normal, now)

    def _judge(self, row: TelemetryRow, normal: float, now: float) -> Finding | None:
        limit = normal * signatures.SILENT_SLOW_DOWN.limit
        if now <= limit:
            return None
        slow = [(step, seconds) for step, seconds in self._recent if seconds > limit]
        lost = sum(seconds - normal for _, seconds in slow)
        if lost < _WORTH_SECONDS:
            return None
        self._slow = True
        symptom = f"{now:.3f} s a step against {normal:.3f} s before ({now / normal - 1:+.0%})"
        return _finding(signatures.SILENT_SLOW_DOWN, self._first_of_run(limit), row, symptom)

    def _first_of_run(self, limit: float) -> int:
        """Return the step at which the slow rows up to now began without interruption."""
        began = self._recent[-1][0]
        for step, seconds in reversed(self._recent):
            if seconds <= limit:
                break
            began = step
        return began


class _PeriodicStall:
    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=signatures.SILENT_SLOW_DOWN.rows)
        self._last_stall: int | None = None
        self._interval: int | None = None
        self._began = 0
        self._stalls = 0
        self._lost = 0.0
        self._reported = False

    def observe(self, row: TelemetryRow) -> Finding | None:
        seconds = row.step_seconds
        if seconds is None or not math.isfinite(seconds):
            return None
        self._recent.append(seconds)
        if len(self._recent) < signatures.SILENT_SLOW_DOWN.rows:
            return None
        normal = median(self._recent)
        if seconds <= normal * signatures.PERIODIC_STALL.limit:
            return None
        self._count(row.step, seconds - normal)
        enough = self._stalls >= signatures.PERIODIC_STALL.rows and self._lost >= _WORTH_SECONDS
        if self._reported or not enough:
            return None
        self._reported = True
        symptom = f"every {self._interval} steps {seconds:.3f} s against {normal:.3f} s"
        return _finding(signatures.PERIODIC_STALL, self._began, row, symptom)

    def _count(self, step: int, lost: float) -> None:
        interval = None if self._last_stall is None else step - self._last_stall
        if interval is None or interval != self._interval or interval < 2:
            # Another spacing: this stall and the one before it may start a new series.
            self._began = step if self._last_stall is None else self._last_stall
            self._stalls = 1 if interval is None else 2
            self._lost = 0.0
            self._reported = False
        else:
            self._stalls += 1
        self._lost += lost
        self._interval, self._last_stall = interval, step


def _shown(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3f}"
