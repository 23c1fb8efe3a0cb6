"""Which point of a sweep goes to full scale: re-run on fresh seeds, compared with the control.

The best value of a sweep is the luckiest of many and so too good; nothing here selects by it. It
only decides which points are run again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from workbench.analysis.claims import ClaimKind, Direction, judge, mean, sample_variance
from workbench.canonical import Json, freeze
from workbench.registry.entries import Candidate, ProxyRun, Trial
from workbench.registry.proposal import Proposal

CONTROL = "control"
NONE = "none"
TieBreak: TypeAlias = Literal["earlier_trial", "fewer_tokens"]


@dataclass(frozen=True, kw_only=True)
class SelectionRule:
    """The registered rule of a promotion."""

    direction: Direction
    claim_kind: ClaimKind
    margin: float
    """The δ of the claim, in the metric's unit."""
    alpha: float
    tie_break: TieBreak
    top_k: int
    fresh_seeds: int
    scale: str
    """The rung at which candidates are compared: the largest of the ladder."""

    @classmethod
    def of(cls, proposal: Proposal) -> "SelectionRule":
        """Return the rule that a proposal registers."""
        claim: ClaimKind = proposal.decision.claim_kind
        return cls(
            direction=proposal.measures.primary.direction,
            claim_kind=claim,
            margin=proposal.decision.margin,
            alpha=proposal.decision.alpha,
            tie_break=proposal.sweep.tie_break,
            top_k=proposal.sweep.rerun.top_k,
            fresh_seeds=proposal.sweep.rerun.fresh_seeds,
            scale=proposal.design.scales[-1],
        )

    def sentence(self) -> str:
        """Return the rule in words, as a promotion records it."""
        must_win = self.claim_kind in ("superior", "superior_by")
        better = "has a better re-run mean than the control, and " if must_win else ""
        ties = {"earlier_trial": "the earlier trial", "fewer_tokens": "the fewer tokens"}
        return (
            f"The best {self.top_k} completed trials of the sweep and the control are re-run at "
            f"scale {self.scale} on the same {self.fresh_seeds} fresh seeds. A candidate is "
            f"feasible when every re-run completed with a finite value, it {better}its "
            f"improvement does not already refute {self.claim_kind}({self.margin:g}) by Welch's t "
            f"at alpha {self.alpha:g}. The feasible candidate with the best re-run mean is "
            f"promoted; equal means: {ties[self.tie_break]}; none feasible: none."
        )


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What the rule chose, with every option it looked at."""

    chosen: str
    """A candidate's name, or ``none``."""
    rule: str
    candidates: tuple[Candidate, ...]
    """The control first, then in the sweep's order."""
    reason: str


def candidate_name(trial_number: int) -> str:
    """Return the name under which a trial is re-run."""
    return f"trial-{trial_number:02d}"


def sweep_ranking(
    trials: Sequence[Trial],
    *,
    direction: Direction,
    tie_break: TieBreak,
    control: Mapping[str, Json],
) -> list[Trial]:
    """Return the completed trials with a finite value, best first.

    A NaN or failed trial is never among them; neither is the control's own point, nor a point
    that was already listed.
    """
    finished = [t for t in trials if t.state == "completed" and _finite(t.value)]
    sign = 1.0 if direction == "minimize" else -1.0

    def rank(trial: Trial) -> tuple[float, int, int]:
        tokens = trial.tokens if tie_break == "fewer_tokens" else 0
        return sign * _known(trial.value), tokens, trial.number

    seen = [freeze(control)]
    ranked: list[Trial] = []
    for trial in sorted(finished, key=rank):
        point = freeze(trial.params)
        if point not in seen:
            seen.append(point)
            ranked.append(trial)
    return ranked


def select(
    ranked: Sequence[Trial],
    runs: Sequence[ProxyRun],
    rule: SelectionRule,
    control: Mapping[str, Json],
) -> Selection:
    """Return what the rule chooses from the re-runs of the sweep's best trials.

    Args:
        ranked: The trials that were re-run, in the order of `sweep_ranking`.
        runs: The ladder's results; only those at the rule's scale count here.
        rule: The registered rule.
        control: The control arm's values as a nested fragment.
    """
    at_scale = [run for run in runs if run.scale == rule.scale]
    control_runs = [run for run in at_scale if run.candidate == CONTROL]
    options = [
        _candidate(trial, _of(at_scale, candidate_name(trial.number)), control_runs, rule)
        for trial in ranked
    ]
    sign = 1.0 if rule.direction == "minimize" else -1.0
    order = sorted(
        (option for option in options if option.feasible),
        key=lambda option: (sign * _known(option.rerun_mean), _tie(option, ranked, rule)),
    )
    chosen = order[0].name if order else NONE
    return Selection(
        chosen=chosen,
        rule=rule.sentence(),
        candidates=(_control(control, control_runs), *options),
        reason=_reason(order, options),
    )


def _candidate(
    trial: Trial, runs: Sequence[ProxyRun], control_runs: Sequence[ProxyRun], rule: SelectionRule
) -> Candidate:
    values, control_values = _values(runs), _values(control_runs)
    judged = judge(
        control_values,
        values,
        direction=rule.direction,
        claim_kind=rule.claim_kind,
        margin=rule.margin,
        alpha=rule.alpha,
    )
    reason = _incomplete("", runs, rule) or _incomplete("the control's ", control_runs, rule)
    must_win = rule.claim_kind in ("superior", "superior_by")
    if not reason and must_win and not _known(judged.estimate) > 0:
        reason = "its re-run mean is not better than the control's"
    if not reason and judged.outcome == "refuted":
        reason = f"its re-runs already refute {rule.claim_kind}({rule.margin:g})"
    return Candidate(
        name=candidate_name(trial.number),
        params=trial.params,
        sweep_value=trial.value,
        improvement=judged.estimate,
        lower=judged.lower,
        upper=judged.upper,
        feasible=not reason,
        reason=reason,
        **_summary(values),
    )


def _control(params: Mapping[str, Json], runs: Sequence[ProxyRun]) -> Candidate:
    return Candidate(
        name=CONTROL,
        params=dict(params),
        feasible=False,
        reason="the control: what every candidate is compared with",
        **_summary(_values(runs)),
    )


def _summary(values: Sequence[float]) -> dict[str, Json]:
    deviation = math.sqrt(sample_variance(values)) if len(values) > 1 else None
    return {
        "rerun_mean": mean(values) if values else None,
        "rerun_sd": deviation,
        "rerun_n": len(values),
    }


def _incomplete(whose: str, runs: Sequence[ProxyRun], rule: SelectionRule) -> str:
    finished = len(_values(runs))
    if finished >= rule.fresh_seeds:
        return ""
    ends = sorted(run.state for run in runs if run.state != "completed")
    detail = f" ({', '.join(ends)})" if ends else ""
    return f"{finished} of {whose}{rule.fresh_seeds} re-runs completed{detail}"


def _reason(order: Sequence[Candidate], options: Sequence[Candidate]) -> str:
    if order:
        best = order[0]
        return (
            f"{best.name} has the best re-run mean of {len(order)} feasible among "
            f"{len(options)} candidates"
        )
    if not options:
        return "no trial of the sweep completed with a finite value, so nothing was re-run"
    return "no candidate is feasible: " + "; ".join(f"{o.name}: {o.reason}" for o in options)


def _tie(option: Candidate, ranked: Sequence[Trial], rule: SelectionRule) -> tuple[int, int]:
    trial = next(t for t in ranked if candidate_name(t.number) == option.name)
    return (trial.tokens if rule.tie_break == "fewer_tokens" else 0, trial.number)


def _of(runs: Sequence[ProxyRun], candidate: str) -> list[ProxyRun]:
    return [run for run in runs if run.candidate == candidate]


def _values(runs: Sequence[ProxyRun]) -> list[float]:
    """Return one finite value a seed of the completed runs, in the order of the seeds."""
    found = {r.seed_index: _known(r.value) for r in runs if r.state == "completed"}
    return [found[i] for i in sorted(found) if math.isfinite(found[i])]


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _known(value: float | None) -> float:
    return math.nan if value is None else value
