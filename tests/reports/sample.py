"""A log in memory that holds one eventful experiment from proposal to verdict."""

import hashlib
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from ruamel.yaml import YAML

from workbench.analysis.claims import judge
from workbench.analysis.forecasts import score
from workbench.canonical import canonical_json, freeze, sha256_hex
from workbench.proxies.recipe import Recipe
from workbench.registry.entries import (
    Anchor,
    Body,
    Candidate,
    CodeState,
    CurvePoint,
    DataState,
    Decision,
    Deviation,
    Document,
    EvaluationPoint,
    Exposure,
    Forecast,
    ForecastScore,
    Genesis,
    Incident,
    Interval,
    KeyChange,
    Note,
    Promotion,
    ProxyRun,
    Registration,
    RunEnded,
    RunStarted,
    ScalePoint,
    SeedValue,
    SweepEnded,
    SweepStarted,
    Trial,
    Verdict,
)
from workbench.registry.heads import SignedHead
from workbench.registry.log import Entry
from workbench.registry.proposal import Proposal

EXPERIMENT = "0001-mixture-and-balance"
NOTE = "example.org/lab\n99\nAAAA\n\n— example.org/lab c2lnbmF0dXJl\n"
DOMAINS = ("code", "docs", "math")
STEPS = 600

PROPOSAL = """\
---
proposal: v1
title: Does a searched mixture and λ beat the natural one?
owner: mixture team
kind: data_mixture
parent_question: Which data decisions survive a change of scale?
pilots_seen: two throw-away runs of ten steps to size the budget
foreknowledge: related_results
hypotheses:
  - id: H1
    statement: A mixture, λ and phase plan chosen on proxies lower bits per byte at full scale
    direction: treatment_lower
    mechanism: the natural mixture spends tokens on near-duplicate documentation
    would_change_my_mind: an upper bound of the improvement below 0.02 bits/byte
    minimum_effect: 0.02
design:
  manipulated: [mixture, balance.weight, phase_fractions]
  held_fixed:
    - model shape, optimizer and tokens at each scale
    - corpus, tokenizer and evaluation text
  control_arm: natural mixture, λ 0.01, phases 10/70/20
  scales: [tiny, small]
  seeds: 3
measures:
  primary: {metric: bpb_macro, evaluation_set: sealed_test, step_rule: final, direction: minimize}
  secondary: [bpb_code, bpb_docs, bpb_math]
sweep:
  recipe: proxies/mixture.yaml
  sampler: {name: tpe, seed: 17}
  budget_trials: 16
  pruning: {rule: median}
  failed_trials: count
  tie_break: earlier_trial
  rerun: {top_k: 3, fresh_seeds: 3}
decision:
  hypothesis: H1
  claim: superior(0.02)
  interval: welch_t
  stopping: fixed(3)
  alpha: 0.05
  multiplicity: none
  actions:
    supported: Use the promoted mixture for the next corpus
    refuted: Keep the natural mixture and close the question
    inconclusive: Register a repeat with eight seeds
    void: Repair the cause and register again
divergence: {loss_above: 12.0, patience: 20, rule: arm_void}
contingencies:
  - {when: a run diverges, then: the verdict is void, max_uses: 1}
promotion:
  scaling_rules:
    - {key: steps, rule: registered, why: five times the tokens of the largest proxy}
    - {key: optimizer.lr, rule: power, of: model.d_model, exponent: -0.5, why: wider model}
  budget_device_hours: 1.5
  forecast: {method: power_law, expected_improvement: 0.03}
budget_cap_device_hours: 3.0
proxy_infidelities:
  - Proxies see each math document up to four times, full scale up to eleven times
  - Routing is noisier at width 64 than at width 128
threats_to_validity:
  - Three domains from one Python installation are not web text
  - One tokenizer, trained in equal parts, may favour the treatment's mixture
---

# Background

Mixtures are usually chosen at a small scale and then *assumed* to hold. We test the assumption
on text that anybody has installed.

## What is new here

1. The search includes **λ** and the phase plan.
2. The forecast is registered and scored.

> A proxy is a promise; the ladder is how we find out what it is worth.
"""

RECIPE = """\
recipe: mixture@1
corpus:
  name: builtin-three@1
  sources:
    code: {source: "builtin:code", max_bytes: 6000000}
    docs: {source: "builtin:docs", max_bytes: 6000000}
    math: {source: "builtin:math", max_bytes: 4000000}
  splits: {validation: 0.05, test: 0.05, salt: "2026"}
  tokenizer: {vocab_size: 2048, train_bytes: 3000000}
base:
  model: {vocab_size: 2048, d_model: 64, num_layers: 2, num_heads: 4, num_kv_heads: 2,
          num_experts: 8, top_k: 2, d_expert: 64, max_seq_len: 128}
  balance: {weight: 0.01, definition: "switch-E*sum(f*P)/k@1", z_loss_weight: 0.001}
  batch: {sequences: 16, seq_len: 128}
  optimizer: {lr: 0.003, weight_decay: 0.1, clip_norm: 1.0}
  steps: 120
  phases:
    - {name: warmup, lr: linear_up}
    - {name: stable, lr: constant}
    - {name: decay, lr: linear_down, final: 0.1}
  phase_fractions: {warmup: 0.1, stable: 0.7, decay: 0.2}
  mixture: natural
  evaluation: {every: 40, bytes_per_domain: 65536}
  checkpoint: {every: 40}
scales:
  - {name: tiny}
  - {name: small, overrides: {model.d_model: 96, steps: 200}}
space:
  mixture: {kind: simplex, domains: [code, docs, math], minimum: 0.05}
  balance.weight: {kind: log_uniform, low: 0.0001, high: 0.1}
  phase_fractions: {kind: fractions, ranges: {warmup: [0.02, 0.2], decay: [0.1, 0.5]}, rest: stable}
"""


@dataclass(kw_only=True)
class MemoryLog:
    """A `LogSource` over a list; its leaf hashes are stand-ins."""

    origin: str = "example.org/lab"
    found: list[Entry] = field(default_factory=list)
    time: datetime = datetime(2026, 3, 2, 8, tzinfo=UTC)

    def append(
        self,
        body: Body,
        subject: str = EXPERIMENT,
        *,
        actor: str = "mixture-team",
        after: float = 4.0,
    ) -> Entry:
        self.time += timedelta(seconds=after)
        sequence = len(self.found)
        stored = canonical_json(body.to_json())
        digest = hashlib.sha256(b"%d" % sequence + stored).hexdigest()
        entry = Entry(
            sequence=sequence,
            leaf=digest,
            id=f"01959f00-0000-7000-8000-{digest[:12]}",
            kind=body.kind,
            subject=subject,
            time=self.time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            actor=actor,
            refs=(),
            body=type(body).model_validate(body.to_json()),
            envelope=b"{}",
            body_bytes=stored,
            salt=bytes(16),
            signature="",
        )
        self.found.append(entry)
        return entry

    def entries(self, *, kind: str | None = None, subject: str | None = None) -> Iterator[Entry]:
        for entry in self.found:
            if kind in (None, entry.kind) and subject in (None, entry.subject):
                yield entry

    def head(self) -> SignedHead | None:
        return SignedHead(origin=self.origin, size=len(self.found), root=bytes(32), note=NOTE)

    def replace_body(self, kind: str, **changes: Any) -> None:
        """Change the first entry of a kind in place, as no real log would allow."""
        place = next(i for i, entry in enumerate(self.found) if entry.kind == kind)
        entry = self.found[place]
        self.found[place] = replace(entry, body=entry.body.model_copy(update=changes))


def code_state() -> CodeState:
    return CodeState(commit="4f1d7c0a9b3e55d2", dirty=False, workbench="0.1.0")


def parsed(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def front(text: str) -> Any:
    return parsed(text.split("---\n")[1])


def registration(proposal: str = PROPOSAL, experiment: str = EXPERIMENT) -> Registration:
    typed = Proposal.model_validate(front(proposal))
    recipe = Recipe.model_validate(parsed(RECIPE))
    return Registration(
        experiment=experiment,
        title=typed.title,
        proposal=_document(f"experiments/{experiment}/proposal.md", proposal),
        recipe=_document("proxies/mixture.yaml", RECIPE),
        full=_document(f"experiments/{experiment}/full.yaml", "full: mixture-full@1\n"),
        frozen=freeze(typed.model_dump(mode="json")),
        control=recipe.control(),
        code=code_state(),
        environment={"python": "3.11.2", "torch": "2.13.0", "lightning": "2.6.6"},
        data=DataState(
            corpus="builtin-three@1",
            manifest="sha256:" + "5e" * 32,
            documents={f"{s}_{d}": n for s, n in _splits(1200) for d in DOMAINS},
            tokens={f"{s}_{d}": n for s, n in _splits(1_310_000) for d in DOMAINS},
            duplicates_removed=418,
            natural_mixture={"code": 0.41, "docs": 0.37, "math": 0.22},
        ),
        arms=["control", "treatment"],
        num_seeds=typed.design.seeds,
    )


def _splits(n: int) -> list[tuple[str, int]]:
    return [("train", n), ("validation", n // 20), ("test", n // 20)]


def _document(path: str, text: str) -> Document:
    return Document(path=path, sha256=sha256_hex(text.encode()), text=text)


def sample_log(
    *,
    treatment: Sequence[float] = (1.7312, 1.7281, 1.7349),
    control: Sequence[float] = (1.7791, 1.7724, 1.7836),
    proposal: str = PROPOSAL,
) -> MemoryLog:
    """Return the log of an experiment with a pruned, a failed and a diverged trial, a killed run,
    an incident, a deviation, decisions, a verdict and its score."""
    log = new_log()
    forecasts = promoted(log, proposal)
    _runs(log)
    _verdict(log, control, treatment, forecasts)
    return log


def new_log() -> MemoryLog:
    """Return a log with nothing but its first entry."""
    log = MemoryLog()
    log.append(
        Genesis(
            lab="Example lab",
            record_format="1",
            log_key="example.org/lab+00000000+AA==",
            author_key="example.org/lab/author+00000000+AA==",
        ),
        "lab",
    )
    return log


def promoted(log: MemoryLog, proposal: str) -> dict[str, Forecast]:
    """Register the proposal and lead it to its promotion; return the forecasts."""
    log.append(registration(proposal))
    log.append(Anchor(method="embedded", head=NOTE, tree_size=len(log.found)))
    _sweep(log, "confirmatory")
    _ladder(log)
    _promotion(log)
    return _forecasts(log)


def exploratory_log(subject: str = "recipe:mixture@1") -> MemoryLog:
    """Return a log with an exploratory sweep alone."""
    log = MemoryLog()
    _sweep(log, "exploratory", subject=subject)
    return log


def params_of(generator: random.Random) -> dict[str, Any]:
    cuts = [-math.log(1 - generator.random()) for _ in DOMAINS]
    shares = {d: 0.05 + 0.85 * c / sum(cuts) for d, c in zip(DOMAINS, cuts, strict=True)}
    warmup, decay = generator.uniform(0.02, 0.2), generator.uniform(0.1, 0.5)
    return {
        "mixture": shares,
        "balance": {"weight": 10 ** generator.uniform(-4, -1)},
        "phase_fractions": {"warmup": warmup, "stable": 1 - warmup - decay, "decay": decay},
    }


def _quality(params: Mapping[str, Any], generator: random.Random) -> float:
    if params["mixture"] == "natural":
        return 2.2412
    share, weight = params["mixture"]["math"], params["balance"]["weight"]
    bend = 0.5 * (share - 0.36) ** 2 + 0.012 * (math.log10(weight) + 2.2) ** 2
    return 2.196 + bend + generator.gauss(0, 0.006)


def _sweep(log: MemoryLog, mode: Any, subject: str = EXPERIMENT) -> None:
    generator = random.Random(5)
    control = Recipe.model_validate(parsed(RECIPE)).control()
    log.append(
        SweepStarted(
            mode=mode,
            recipe="mixture@1",
            recipe_sha256=sha256_hex(RECIPE.encode()),
            sampler="tpe",
            sampler_seed="17",
            budget_trials=16,
            already_done=0,
            mlflow_run="a" * 32,
        ),
        subject,
        after=40,
    )
    states: dict[int, Any] = {5: "pruned", 8: "diverged", 11: "pruned", 13: "failed"}
    reasons = {8: "loss became non-finite at step 61", 13: "out of disk space while saving"}
    for number in range(16):
        params = params_of(generator) if number else control
        state = states.get(number, "completed")
        value = _quality(params, generator)
        log.append(
            Trial(
                mode=mode,
                number=number,
                state=state,
                scale="tiny",
                params=freeze(params),
                seed=str(1000 + number),
                metric="bpb_macro",
                value=value if state == "completed" else None,
                last_value=math.nan if state == "diverged" else value + 0.3,
                steps=120 if state == "completed" else 61,
                tokens=245_760 if state == "completed" else 124_928,
                device_seconds=6.4 if state == "completed" else 3.1,
                mlflow_run="b" * 32,
                reason=reasons.get(number, ""),
            ),
            subject,
            after=7,
        )
    counts = {"completed": 12, "pruned": 2, "failed": 1, "diverged": 1}
    log.append(SweepEnded(mode=mode, declared=16, counts=counts, finished=True), subject)


def _trial_params(log: MemoryLog, number: int) -> dict[str, Any]:
    bodies = [entry.body for entry in log.found if isinstance(entry.body, Trial)]
    return next(body.params for body in bodies if body.number == number)


def best_trials(log: MemoryLog) -> list[Trial]:
    """Return the completed trials but the control's, best first."""
    bodies = [entry.body for entry in log.found if isinstance(entry.body, Trial)]
    valued = [body for body in bodies if body.value is not None and body.number]
    return sorted(valued, key=lambda body: body.value or math.inf)


def _ladder(log: MemoryLog) -> None:
    generator = random.Random(11)
    first, second, *_ = [f"trial-{body.number:02d}" for body in best_trials(log)]
    means = {"control": (2.2421, 1.9812), first: (2.2080, 1.9401), second: (2.2107, 1.951)}
    for scale, place, parameters in (("tiny", 0, 412_000), ("small", 1, 905_000)):
        for candidate, found in means.items():
            for seed in range(3):
                log.append(
                    ProxyRun(
                        mode="confirmatory",
                        candidate=candidate,
                        scale=scale,
                        parameters=parameters,
                        seed_index=seed,
                        seed=str(5000 + seed),
                        params={},
                        state="completed",
                        metric="bpb_macro",
                        value=found[place] + generator.gauss(0, 0.004),
                        steps=120 + 80 * place,
                        tokens=245_760 + 163_840 * place,
                        device_seconds=6.6 + 9.4 * place,
                        mlflow_run="c" * 32,
                    ),
                    after=9,
                )


def _candidates(log: MemoryLog) -> list[Candidate]:
    found = best_trials(log)
    shown = {
        "control": (2.2421, None, None, None, True, ""),
        found[0].number: (2.2080, 0.0341, 0.0255, 0.0427, True, ""),
        found[1].number: (2.2107, 0.0314, 0.0221, 0.0407, True, ""),
        found[2].number: (None, None, None, None, False, "one of its re-runs diverged"),
    }
    bodies = [entry.body for entry in log.found if isinstance(entry.body, Trial)]
    by_number = {body.number: body for body in bodies}
    return [
        Candidate(
            name=name if isinstance(name, str) else f"trial-{name:02d}",
            params=by_number[0 if isinstance(name, str) else name].params,
            sweep_value=by_number[0 if isinstance(name, str) else name].value,
            rerun_mean=mean,
            rerun_sd=0.004 if mean else None,
            rerun_n=3 if mean else 0,
            improvement=improvement,
            lower=lower,
            upper=upper,
            feasible=feasible,
            reason=reason,
        )
        for name, (mean, improvement, lower, upper, feasible, reason) in shown.items()
    ]


def _promotion(log: MemoryLog) -> None:
    control = Recipe.model_validate(parsed(RECIPE)).control()
    best = best_trials(log)[0]
    changes = [
        ("steps", 120, STEPS, "scaling rule: registered", False),
        ("optimizer.lr", "0.003", "0.0021213", "scaling rule: power of model.d_model", False),
        ("evaluation.every", 40, 100, "deviation: not named in the proposal", True),
    ]
    names = ("key", "proxy", "full", "explained_by", "deviation")
    log.append(
        Promotion(
            mode="confirmatory",
            chosen=f"trial-{best.number:02d}",
            rule="best re-run mean among feasible candidates whose improvement is not refuted",
            candidates=_candidates(log),
            changes=[KeyChange(**dict(zip(names, row, strict=True))) for row in changes],
            configs={
                "control": freeze({**control, "steps": STEPS}),
                "treatment": freeze({**best.params, "steps": STEPS}),
            },
            config_sha256={"control": "c0" * 32, "treatment": "7e" * 32},
        ),
        after=30,
    )
    log.append(
        Deviation(
            what="evaluation.every",
            registered="40 (recipe), no scaling rule",
            found="100",
            effect="Fewer points on the validation curve; the primary measure is unaffected.",
        )
    )


def _forecast(target: str, point: float, spread: float, means: Sequence[float]) -> Forecast:
    return Forecast(
        mode="confirmatory",
        target=target,
        metric="bpb_macro",
        method="power_law",
        point=point,
        intervals=[
            Interval(level=level, lower=point - z * spread, upper=point + z * spread)
            for level, z in ((50, 0.6745), (80, 1.2816), (95, 1.96))
        ],
        spread=spread,
        scales=[
            ScalePoint(
                scale=scale,
                parameters=n,
                tokens=t,
                compute_flops=6.0 * n * t,
                mean=mean,
                sd=0.004,
                n=3,
            )
            for scale, n, t, mean in (
                ("tiny", 412_000, 245_760, means[0]),
                ("small", 905_000, 409_600, means[1]),
            )
        ],
        extrapolation_ratio=5.6,
        baselines={"no_effect": 0.0, "last_scale": means[1]}
        if target == "improvement"
        else {"last_scale": means[1]},
        assumptions=["two scales determine the power law exactly; its error is not estimable"],
    )


def _forecasts(log: MemoryLog) -> dict[str, Forecast]:
    found = {
        "treatment": _forecast("treatment", 1.7420, 0.021, (2.2080, 1.9401)),
        "control": _forecast("control", 1.7801, 0.021, (2.2421, 1.9812)),
        "improvement": _forecast("improvement", 0.0381, 0.0115, (0.0341, 0.0411)),
    }
    for body in found.values():
        log.append(body)
    return found


def _curve(seed: int, gain: float, first: int, last: int) -> list[CurvePoint]:
    generator = random.Random(seed)
    noise = {step: generator.gauss(0, 0.025) for step in range(0, STEPS + 1, 4)}
    steps = [step for step in range(4, STEPS + 1, 4) if first < step <= last]
    return [
        CurvePoint(
            step=step,
            loss=2.9
            + 4.7 * math.exp(-step / 38)
            + 9 / (step + 14)
            - gain * step / STEPS
            + noise[step],
        )
        for step in steps
    ]


def _evaluations(seed: int, gain: float, first: int, last: int) -> list[EvaluationPoint]:
    generator = random.Random(seed)
    return [
        EvaluationPoint(
            step=step,
            values={
                "bpb_macro": 1.78
                + 1.1 * math.exp(-step / 110)
                - gain * 0.3 * step / STEPS
                + generator.gauss(0, 0.004)
            },
        )
        for step in range(100, STEPS + 1, 100)
        if first < step <= last
    ]


def _runs(log: MemoryLog) -> None:
    for seed in range(3):
        for arm, gain in (("control", 0.0), ("treatment", 0.16)):
            run = f"{arm}/seed-{seed}"
            if run == "treatment/seed-1":
                run_attempt(log, run, gain, 1, 0, 412, 400, "lost", "process disappeared (kill -9)")
                _incident(log, run)
                run_attempt(log, run, gain, 2, 400, STEPS, STEPS, "completed", "")
                _decisions(log)
            else:
                run_attempt(log, run, gain, 1, 0, STEPS, STEPS, "completed", "")


def _incident(log: MemoryLog, run: str) -> None:
    log.append(
        Incident(
            run=run,
            attempt=1,
            severity="warning",
            category="process_lost",
            layer="operations",
            began_step=412,
            detected_step=412,
            symptom="No process holds the run's lock and no end was recorded",
            excerpt="attempt 1: last telemetry row step=412 loss=3.014212",
            action="Newest checkpoint rejected by its checksum; resumed from step 400.",
            lost_steps=12,
            lost_tokens=12 * 2048,
            lost_device_seconds=1.9,
        )
    )


def _decisions(log: MemoryLog) -> None:
    log.append(
        Decision(
            question="Continue after the lost process, or start the seed again?",
            options=["continue from step 400", "restart the seed from step 0"],
            chosen="Continue from step 400.",
            basis="rule",
            evidence=["the checkpoint's checksum matches the record"],
            owner="supervisor",
            reversible=True,
            rollback="checkpoint of step 400",
            would_reverse="a resumed curve that differs from an uninterrupted one",
        )
    )
    log.append(
        Decision(
            question="Should validation run more often on the remaining seeds?",
            options=["every 100 steps", "every 40 steps as in the recipe"],
            chosen="Keep every 100 steps so that all runs are alike.",
            basis="judgement",
            evidence=["deviation above"],
            dissent="one of us would rather have matched the recipe",
            owner="mixture-team",
            reversible=False,
            would_reverse="a need to compare validation curves across scales",
        )
    )
    log.append(Note(text="The machine was shared with another job between 08:20 and 08:31."))


def run_attempt(
    log: MemoryLog,
    run: str,
    gain: float,
    attempt: int,
    first: int,
    last: int,
    kept: int,
    outcome: Any,
    reason: str,
) -> None:
    arm, seed = run.split("/seed-")
    noise = int(seed) * 2 + (arm == "treatment")
    log.append(
        RunStarted(
            mode="confirmatory",
            run=run,
            arm=arm,
            seed_index=int(seed),
            seed=str(11_400_714_819_323_198_485 + int(seed)),
            attempt=attempt,
            from_step=first,
            parent_checkpoint="9d" * 32 if first else "",
            config_sha256={"control": "c0" * 32, "treatment": "7e" * 32}[arm],
            code=code_state(),
            host={"device": "cpu", "threads": "2", "torch": "2.13.0"},
            mlflow_run="d" * 32,
        ),
        after=5,
    )
    log.append(
        RunEnded(
            mode="confirmatory",
            run=run,
            attempt=attempt,
            outcome=outcome,
            last_step=last,
            surviving_step=kept,
            planned_steps=STEPS,
            tokens=(last - first) * 2048,
            device_seconds=(last - first) * 0.158,
            checkpoint_sha256="ab" * 32,
            telemetry_sha256="cd" * 32,
            curve=_curve(noise, gain, first, last),
            evaluations=_evaluations(noise, gain, first, last),
            reason=reason,
        ),
        after=(last - first) * 0.16,
    )


def _verdict(
    log: MemoryLog,
    control: Sequence[float],
    treatment: Sequence[float],
    forecasts: Mapping[str, Forecast],
) -> None:
    runs = [f"{arm}/seed-{i}" for arm in ("control", "treatment") for i in range(3)]
    log.append(
        Exposure(what="sealed_test", by="workbench verdict", purpose="the verdict", runs=runs)
    )
    log.append(verdict_body(control, treatment, forecasts))


def verdict_body(
    control: Sequence[float], treatment: Sequence[float], forecasts: Mapping[str, Forecast]
) -> Verdict:
    found = judge(
        control,
        treatment,
        direction="minimize",
        claim_kind="superior",
        margin=0.02,
        alpha=0.05,
    )
    actions = front(PROPOSAL)["decision"]["actions"]
    means = {"control": math.fsum(control) / 3, "treatment": math.fsum(treatment) / 3}
    observed = {**means, "improvement": found.estimate or 0.0}
    return Verdict(
        mode="confirmatory",
        outcome=found.outcome,
        hypothesis="H1",
        claim="superior(0.02)",
        interval="welch_t",
        alpha=0.05,
        metric="bpb_macro",
        direction="minimize",
        values={
            arm: [
                SeedValue(seed_index=i, value=v, run=f"{arm}/seed-{i}", checkpoint_sha256="ab" * 32)
                for i, v in enumerate(values)
            ]
            for arm, values in (("control", control), ("treatment", treatment))
        },
        estimate=found.estimate,
        lower=found.lower,
        upper=found.upper,
        degrees_of_freedom=found.degrees_of_freedom,
        per_metric={
            "bpb_code": {"control": 1.512, "treatment": 1.498},
            "bpb_docs": {"control": 2.104, "treatment": 2.1117},
            "bpb_math": {"control": 1.719, "treatment": 1.5845},
        },
        void_reasons=[] if found.outcome != "void" else [found.reason],
        action=actions[found.outcome],
        scores=[scored(body, observed[target]) for target, body in forecasts.items()],
    )


def scored(body: Forecast, observed: float) -> ForecastScore:
    found = score(
        point=body.point,
        spread=body.spread,
        intervals={i.level: (i.lower, i.upper) for i in body.intervals},
        baselines=body.baselines,
        observed=observed,
    )
    return ForecastScore(
        target=body.target,
        observed=found.observed,
        error=found.error,
        covered=found.covered,
        interval_score_80=found.interval_score_80,
        crps=found.crps,
        crps_baselines=found.crps_baselines,
        grade=found.grade,
    )
