"""Logs of experiments that look before the last seed, decide a family or use a noise floor.

What is appended is what an honest lab would append; tests then forge a part of it.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.reports.sample import (
    EXPERIMENT,
    PROPOSAL,
    MemoryLog,
    code_state,
    front,
    new_log,
    promoted,
    run_attempt,
    scored,
)
from workbench.analysis.looks import Measured
from workbench.analysis.registered import Decision, JointLook
from workbench.analysis.rules import NoiseFloor as Floor
from workbench.registry import entries
from workbench.registry.entries import (
    Body,
    ClaimResult,
    Exposure,
    Forecast,
    GuardrailResult,
    NoiseFloor,
    Repeat,
    SeedValue,
    Verdict,
)
from workbench.registry.log import Entry
from workbench.registry.proposal import Proposal

ARMS = ("control", "treatment")
METRICS = {"bpb_macro": 1.78, "bpb_code": 1.51, "bpb_docs": 2.10, "bpb_math": 1.72}
STEPS = 600
FAMILY = """
  multiplicity: holm
  family:
    - {hypothesis: H2, metric: bpb_code, direction: minimize, claim: non_inferior(0.01)}
    - {hypothesis: H3, metric: bpb_docs, direction: minimize, claim: equivalent(0.03)}"""


def proposal_text(
    *,
    stopping: str = "group(3,5,8)",
    seeds: int = 8,
    interval: str = "welch_t",
    claim: str = "superior(0.02)",
    divergence: str = "arm_void",
    family: bool = False,
    guardrail: float | None = None,
    floor: str = "",
) -> str:
    """Return a proposal of the newest version with this rule."""
    text = PROPOSAL.replace("proposal: v1", "proposal: v2")
    text = text.replace("{when: a run", "{phase: any, when: a run")
    text = text.replace("seeds: 3\n", f"seeds: {seeds}\n")
    text = text.replace("claim: superior(0.02)", f"claim: {claim}")
    text = text.replace("interval: welch_t", f"interval: {interval}")
    text = text.replace("stopping: fixed(3)", f"stopping: {stopping}")
    text = text.replace("rule: arm_void", f"rule: {divergence}")
    if interval == "paired_t":
        text = text.replace("scales: [tiny, small]", "scales: [tiny, small]\n  pairing: seed_index")
    if family:
        text = text.replace("\n  multiplicity: none", FAMILY)
    if guardrail is not None:
        rail = f"  guardrails:\n    - {{metric: bpb_math, at_most: {guardrail}}}\n  secondary:"
        text = text.replace("  secondary:", rail)
    if floor:
        text = text.replace("manipulated: [mixture, balance.weight, phase_fractions]",
                            "manipulated: [balance.weight]")  # fmt: skip
        text = text.replace("  actions:\n", f"  noise_floor: '{floor}'\n  actions:\n")
    return text


def noise_floor(num_runs: int = 10, spread: float = 0.004) -> NoiseFloor:
    """Return repeats of one configuration with their spreads."""
    generator = random.Random(3)
    values = [
        {metric: mean + generator.gauss(0, spread) for metric, mean in METRICS.items()}
        for _ in range(num_runs)
    ]
    repeats = [
        Repeat(seed=str(700 + i), state="completed", values=found, mlflow_run="e" * 32)
        for i, found in enumerate(values)
    ]
    repeats.append(Repeat(seed="799", state="diverged"))
    return NoiseFloor(
        recipe="mixture@1",
        recipe_sha256="aa" * 32,
        scale="full",
        experiment=EXPERIMENT,
        config_sha256="c0" * 32,
        mixture={"code": 0.41, "docs": 0.37, "math": 0.22},
        corpus="builtin-three@1",
        evaluation_set="validation",
        origin="run",
        source="workbench noise mixture",
        repeats=repeats,
        num_runs=num_runs,
        spreads={m: Floor.of([found[m] for found in values]).sd for m in METRICS},
        device_seconds=950.0,
        code=code_state(),
    )


@dataclass(kw_only=True)
class Story:
    """An experiment on its way from promotion to verdict, and how its values fall."""

    proposal: Proposal
    log: MemoryLog
    forecasts: Mapping[str, Forecast]
    floor: Entry | None = None
    effect: float = 0.03
    """Improvement of every metric by the treatment."""
    spread: float = 0.02
    diverged: frozenset[str] = frozenset()
    looks: list[JointLook] = field(default_factory=list)
    last: entries.Look | None = None
    results: list[ClaimResult] = field(default_factory=list)

    @property
    def decision(self) -> Decision:
        floor = self.floor.body if self.floor else None
        spreads = floor.spreads if isinstance(floor, NoiseFloor) else {}
        num_runs = floor.num_runs if isinstance(floor, NoiseFloor) else 0
        return Decision.of(
            self.proposal.decision,
            self.proposal.claims(),
            seeds=self.proposal.design.seeds,
            divergence=self.proposal.divergence.rule,
            data_arms=self.proposal.arms_differ_in_data,
            noise_floors={m: Floor(sd=sd, num_runs=num_runs) for m, sd in spreads.items()},
        )

    def seeds(self, arm: str, count: int, *, shut: bool = False) -> list[SeedValue]:
        """Return the first seeds' values of an arm; the same at every look."""
        return [self._seed(arm, index, shut) for index in range(count)]

    def _seed(self, arm: str, index: int, shut: bool) -> SeedValue:
        run = f"{arm}/seed-{index}"
        generator = random.Random(f"{run} 0")
        gain = self.effect if arm == "treatment" else 0.0
        found = {m: mean - gain + generator.gauss(0, self.spread) for m, mean in METRICS.items()}
        known = not shut and run not in self.diverged
        return SeedValue(
            seed_index=index,
            value=found["bpb_macro"] if known else None,
            run=run,
            checkpoint_sha256="ab" * 32,
            metrics=found if known else {},
        )

    def run(self, first: int, count: int) -> None:
        """Train both arms on the seeds from ``first`` up to ``count``."""
        for index in range(first, count):
            for arm in ARMS:
                run = f"{arm}/seed-{index}"
                outcome = "diverged" if run in self.diverged else "completed"
                run_attempt(self.log, run, 0.1, 1, 0, STEPS, STEPS, outcome, "")

    def judge(self, values: Mapping[str, Sequence[SeedValue]], count: int) -> JointLook:
        """Apply the registered rule and keep its results."""
        primary = self.proposal.measures.primary.metric
        measured = {
            claim.metric: {
                arm: [
                    Measured(
                        seed_index=seed.seed_index,
                        value=seed.metrics.get(claim.metric, seed.value)
                        if claim.metric != primary
                        else seed.value,
                    )
                    for seed in seeds
                ]
                for arm, seeds in values.items()
            }
            for claim in self.proposal.claims()
        }
        before = self.looks[-1] if self.looks else None
        found = self.decision.look_at(measured, count, before=before)
        self.looks.append(found)
        self.results = [self._result(found, claim) for claim in self.proposal.claims()]
        return found

    def _result(self, found: JointLook, claim: Any) -> ClaimResult:
        judged = found.by_hypothesis[claim.hypothesis].judgement
        return ClaimResult(
            hypothesis=claim.hypothesis,
            claim=claim.claim,
            metric=claim.metric,
            direction=claim.direction,
            outcome=judged.outcome,
            estimate=judged.estimate,
            lower=judged.lower,
            upper=judged.upper,
            degrees_of_freedom=judged.degrees_of_freedom,
            interval=judged.interval,
            alpha=judged.alpha or 0.0,
            reason=judged.reason,
        )

    def void(self, claim: Any, reason: str) -> ClaimResult:
        return ClaimResult(
            hypothesis=claim.hypothesis,
            claim=claim.claim,
            metric=claim.metric,
            direction=claim.direction,
            outcome="void",
            interval=self.proposal.decision.interval,
            alpha=self.proposal.decision.alpha,
            reason=reason,
        )

    def expose(self, first: int, count: int, purpose: str) -> None:
        """Open the sealed split for the completed runs of these seeds."""
        runs = [f"{arm}/seed-{i}" for arm in ARMS for i in range(first, count)]
        opened = [run for run in runs if run not in self.diverged]
        what = "sealed_test"
        by = "workbench run"
        self.log.append(Exposure(what=what, by=by, purpose=purpose, runs=opened))

    def look(self, count: int, *, void: Sequence[str] = ()) -> JointLook:
        """Train up to this look and take it."""
        first = self.looks[-1].num_seeds if self.looks else 0
        self.run(first, count)
        if not void:
            self.expose(first, count, f"look {len(self.looks) + 1} of the registered rule")
        values = {arm: self.seeds(arm, count, shut=bool(void)) for arm in ARMS}
        found = self.judge(values, count)
        if void:
            self.results = [self.void(claim, "; ".join(void)) for claim in self.proposal.claims()]
        self.last = entries.Look(
            mode="confirmatory",
            number=found.number,
            num_seeds=count,
            state=found.state,
            next_seeds=found.next_seeds,
            values=values,
            results=self.results,
            void_reasons=list(void),
        )
        self.log.append(self.last)
        return found

    def verdict(
        self, values: Mapping[str, Sequence[SeedValue]] | None = None, **changes: Any
    ) -> Verdict:
        """Append the verdict: of the last look, or of all seeds where the rule looks once."""
        count = self.looks[-1].num_seeds if self.looks else self.proposal.design.seeds
        if values is None:
            values = self.last.values if self.last else self._single(count)
        first, rule = self.results[0], self.proposal.decision
        means = _means(values)
        rails = [
            GuardrailResult(
                metric=rail.metric,
                at_most=rail.at_most,
                treatment_mean=means[rail.metric]["treatment"],
                held=means[rail.metric]["treatment"] <= rail.at_most,
            )
            for rail in self.proposal.measures.guardrails
        ]
        outcome = first.outcome
        if outcome == "supported" and not all(rail.held for rail in rails):
            outcome = "refuted"
        reasons = self.last.void_reasons if self.last else []
        body = Verdict(
            mode="confirmatory",
            outcome=outcome,
            hypothesis=rule.hypothesis,
            claim=rule.claim,
            interval=rule.interval,
            alpha=rule.alpha,
            metric=self.proposal.measures.primary.metric,
            direction=self.proposal.measures.primary.direction,
            values=values,
            estimate=first.estimate,
            lower=first.lower,
            upper=first.upper,
            degrees_of_freedom=first.degrees_of_freedom,
            per_metric=means,
            guardrails=rails,
            void_reasons=reasons or ([first.reason] if first.reason else []),
            action=getattr(rule.actions, outcome),
            scores=[] if outcome == "void" else self._scores(means, first.estimate or 0.0),
            stopping=rule.stopping,
            look=self.looks[-1].number,
            num_seeds=count,
            results=self.results,
            noise_floor=rule.noise_floor,
        ).model_copy(update=changes)
        self.log.append(body)
        return body

    def _single(self, count: int) -> dict[str, list[SeedValue]]:
        self.run(0, count)
        self.expose(0, count, "verdict on H1 by the registered rule")
        values = {arm: self.seeds(arm, count) for arm in ARMS}
        self.judge(values, count)
        return values

    def _scores(self, means: Mapping[str, Mapping[str, float]], estimate: float) -> list[Any]:
        observed = {**means.get("bpb_macro", {}), "improvement": estimate}
        return [scored(body, observed[target]) for target, body in self.forecasts.items()]

    def decided(self) -> MemoryLog:
        """Look until the rule stops, give the verdict and return the log."""
        if not self.proposal.decision.stopping.startswith("fixed"):
            for count in self.decision.looks():
                if self.look(count).next_seeds is None:
                    break
        self.verdict()
        return self.log


def _means(values: Mapping[str, Sequence[SeedValue]]) -> dict[str, dict[str, float]]:
    means: dict[str, dict[str, float]] = {}
    for arm, seeds in values.items():
        told = [seed.metrics for seed in seeds if seed.value is not None]
        for metric in METRICS if told else ():
            means.setdefault(metric, {})[arm] = sum(m[metric] for m in told) / len(told)
    return means


def story(*, floor: NoiseFloor | None = None, **options: Any) -> Story:
    """Return an experiment that was promoted under a rule.

    Args:
        floor: Recorded before the registration, which names it.
        options: Of `Story` (effect, spread, diverged) and of `proposal_text`.
    """
    own = {name: options.pop(name) for name in ("effect", "spread", "diverged") if name in options}
    log = new_log()
    recorded = log.append(floor, "recipe:mixture@1") if floor else None
    text = proposal_text(**options, floor=recorded.leaf if recorded else "")
    forecasts = promoted(log, text)
    typed = Proposal.model_validate(front(text))
    return Story(proposal=typed, log=log, forecasts=forecasts, floor=recorded, **own)


def forged(log: MemoryLog, kind: str, change: Callable[[Any], Body], place: int = 0) -> None:
    """Replace the body of the entry of a kind at a place among its kind, as no real log would."""
    places = [i for i, entry in enumerate(log.found) if entry.kind == kind]
    at = places[place]
    entry = log.found[at]
    log.found[at] = replace(entry, body=change(entry.body))


def moved(log: MemoryLog, found: Entry, sequence: int) -> None:
    """Put an entry at another place and number all of them again."""
    log.found.remove(found)
    log.found.insert(sequence, found)
    log.found[:] = [replace(entry, sequence=i) for i, entry in enumerate(log.found)]
