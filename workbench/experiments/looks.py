"""Looks at the sealed test split as they were registered, and what the rule says of going on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.analysis import looks as numbers
from workbench.analysis.claims import Judgement
from workbench.analysis.looks import Measured
from workbench.analysis.registered import ByArm, Decision, JointLook
from workbench.errors import ConflictError, IntegrityError
from workbench.experiments import planned_rules
from workbench.experiments.evidence import ARMS, Bench, Evidence, gathered
from workbench.experiments.floors import noise_floors
from workbench.experiments.plan import ExperimentPlan
from workbench.experiments.promotion import promotion_body
from workbench.experiments.sealed_evaluation import sealed_scores
from workbench.experiments.summaries import LookLine
from workbench.registry.entries import ClaimResult, Exposure, Look, SeedValue, Verdict
from workbench.registry.exposures import untold_reason
from workbench.registry.log import Entry, LogSource
from workbench.registry.proposal import RegisteredClaim

Values = Mapping[str, Sequence[SeedValue]]
"""By arm, in the order of the seeds."""


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What one look saw and what the rule says of it."""

    body: Look
    exposure: Entry | None
    """The entry before it; None where the sealed split stayed shut, or no new run was read."""
    evidence: Evidence


@dataclass(frozen=True, kw_only=True)
class LookBook:
    """The looks of one experiment: those that were made, and the one that is due."""

    bench: Bench
    decision: Decision

    @classmethod
    def of(cls, bench: Bench) -> "LookBook":
        """Return the looks of the decision that is in force.

        Raises:
            IntegrityError: what was registered is no rule that this version can apply.
        """
        return cls(bench=bench, decision=decision_of(bench.plan, bench.ledger))

    @property
    def is_sequential(self) -> bool:
        """Whether outcomes may be looked at before the last seed has run."""
        return len(self.decision.looks()) > 1

    def past(self) -> list[Entry]:
        """Return the looks that were made, oldest first."""
        subject = self.bench.plan.subject
        return list(self.bench.ledger.entries(kind=Look.kind, subject=subject))

    def due(self) -> int | None:
        """Return the seeds an arm of the next look; None where none follows."""
        subject = self.bench.plan.subject
        if next(self.bench.ledger.entries(kind=Verdict.kind, subject=subject), None) is not None:
            return None
        last = next((body_of(entry) for entry in reversed(self.past())), None)
        if last is None:
            return self.decision.looks()[0]
        if last.state != "go_on":
            return None
        return next((n for n in self.decision.looks() if n > last.num_seeds), None)

    def take(self, num_seeds: int) -> Entry:
        """Look, and append what was seen and whether to go on.

        Raises:
            ConflictError: runs are missing.
            IntegrityError: a checkpoint or the test split is not what it was.
        """
        plan, past = self.bench.plan, self.past()
        place = self.decision.looks().index(num_seeds) + 1
        purpose = f"look {place} of {plan.proposal.decision.stopping}, {num_seeds} seeds an arm"
        looked = self.looked(num_seeds, purpose=purpose, by="workbench run")
        refs = [
            *plan.refs,
            self.bench.promotion.leaf,
            *([looked.exposure.leaf] if looked.exposure else []),
            *looked.evidence.ends(),
            *(entry.leaf for entry in past[-1:]),
        ]
        return self.bench.ledger.append(looked.body, subject=plan.subject, refs=refs)

    def looked(self, num_seeds: int, *, purpose: str, by: str, incomplete: bool = False) -> Looked:
        """Look at each arm's first seeds, after the exposure is on record.

        Runs that an earlier look has read are not read again: their values are in its entry. What
        is void anyway does not open the sealed split.

        Raises:
            ConflictError: runs are missing.
            IntegrityError: a checkpoint or the test split is not what it was.
        """
        bench, past = self.bench, self.past()
        seen = _seen(past)
        evidence = gathered(bench, num_seeds, incomplete=incomplete, read=seen)
        untold = self._untold(seen) if evidence.void_reasons else []
        bench.begin()
        new = evidence.states
        exposure = untold[0] if untold else None
        metrics: dict[str, Mapping[str, float]] = {run: seen[run].metrics for run in seen}
        if new and not evidence.void_reasons:
            promotion = promotion_body(bench.promotion)
            sealed = sealed_scores(
                bench.ledger, bench.plan, promotion, bench.corpus, new, bench.progress,
                purpose=purpose, by=by,
            )  # fmt: skip
            exposure = sealed.exposure
            metrics |= sealed.metrics
        values = {arm: self._values(arm, evidence, metrics) for arm in ARMS}
        reasons = [*evidence.void_reasons, *(untold_reason(entry.sequence) for entry in untold)]
        body = self._body(num_seeds, values, reasons, past)
        return Looked(body=body, exposure=exposure, evidence=evidence)

    def unmade(self, due: int) -> Looked:
        """Return what the looks show that were made, void since the next was not.

        The sealed split is not opened for it. Where a look was cut short after it had opened the
        split, the verdict says so.

        Raises:
            ConflictError: everything for the next look is there, so that it can be made.
        """
        past = self.past()
        seen = _seen(past)
        evidence = gathered(self.bench, due, incomplete=True, read=seen)
        if not evidence.void_reasons:
            raise ConflictError(
                f"nothing is missing for the look of {self.bench.plan.subject} at {due} seeds an "
                "arm: it can be made, and is not given up",
                remedy=f"workbench run {self.bench.plan.subject[:4]}",
            )
        untold = self._untold(seen)
        self.bench.begin()
        reasons = [
            f"the registered look at {due} seeds an arm was never made",
            *evidence.void_reasons,
            *(untold_reason(entry.sequence) for entry in untold),
        ]
        if past:
            body = body_of(past[-1]).model_copy(update={"void_reasons": reasons})
        else:
            values = {arm: self._values(arm, evidence, {}) for arm in ARMS}
            body = self._body(due, values, reasons, past)
        return Looked(body=body, exposure=untold[0] if untold else None, evidence=evidence)

    def made(self) -> Looked:
        """Return the last look that was made, as a verdict takes it: nothing is read again.

        Raises:
            IndexError: none was made.
        """
        past = self.past()
        body = body_of(past[-1])
        evidence = gathered(self.bench, body.num_seeds, incomplete=True, read=_seen(past))
        self.bench.begin()
        return Looked(body=body, exposure=None, evidence=evidence)

    def _untold(self, seen: Mapping[str, SeedValue]) -> list[Entry]:
        """Return the openings of the sealed split of which no look tells: it was cut short."""
        found = self.bench.ledger.entries(kind=Exposure.kind, subject=self.bench.plan.subject)
        return [
            entry
            for entry in found
            if isinstance(entry.body, Exposure)
            and entry.body.what == "sealed_test"
            and not set(entry.body.runs) <= seen.keys()
        ]

    def _values(
        self, arm: str, evidence: Evidence, metrics: Mapping[str, Mapping[str, float]]
    ) -> list[SeedValue]:
        metric = self.bench.plan.proposal.measures.primary.metric
        found = []
        for history in evidence.histories.values():
            final = history.final
            if final is None or final.ended is None or final.started.arm != arm:
                continue
            measured = {} if evidence.void_reasons else metrics.get(history.run, {})
            found.append(
                SeedValue(
                    seed_index=final.started.seed_index,
                    value=measured.get(metric),
                    run=history.run,
                    checkpoint_sha256=final.ended.checkpoint_sha256,
                    metrics=dict(measured),
                )
            )
        return sorted(found, key=lambda value: value.seed_index)

    def _body(
        self, num_seeds: int, values: Values, void_reasons: Sequence[str], past: Sequence[Entry]
    ) -> Look:
        plan, looks = self.bench.plan, self.decision.looks()
        claims = plan.proposal.claims()
        arms = {arm: list(seeds) for arm, seeds in values.items()}
        if void_reasons:
            return Look(
                mode=plan.mode,
                number=looks.index(num_seeds) + 1,
                num_seeds=num_seeds,
                state="final" if num_seeds == looks[-1] else "stop",
                values=arms,
                results=[self._void(claim, "; ".join(void_reasons)) for claim in claims],
                void_reasons=list(void_reasons),
            )
        before = _joint(past[-1]) if past else None
        measured = {claim.metric: measured_of(values, claim.metric) for claim in claims}
        found = self.decision.look_at(measured, num_seeds, before=before)
        judged = [found.by_hypothesis[claim.hypothesis].judgement for claim in claims]
        return Look(
            mode=plan.mode,
            number=found.number,
            num_seeds=num_seeds,
            state=found.state,
            next_seeds=found.next_seeds,
            values=arms,
            results=[
                self._result(claim, judgement)
                for claim, judgement in zip(claims, judged, strict=True)
            ],
            void_reasons=[judged[0].reason] if judged[0].outcome == "void" else [],
        )

    def _void(self, claim: RegisteredClaim, reason: str) -> ClaimResult:
        return ClaimResult(
            hypothesis=claim.hypothesis,
            claim=claim.claim,
            metric=claim.metric,
            direction=claim.direction,
            outcome="void",
            interval=self.bench.plan.proposal.decision.interval,
            alpha=self.bench.plan.proposal.decision.alpha,
            reason=reason,
        )

    def _result(self, claim: RegisteredClaim, judgement: Judgement) -> ClaimResult:
        alpha = judgement.alpha
        return self._void(claim, judgement.reason).model_copy(
            update={
                "outcome": judgement.outcome,
                "estimate": judgement.estimate,
                "lower": judgement.lower,
                "upper": judgement.upper,
                "degrees_of_freedom": judgement.degrees_of_freedom,
                "interval": judgement.interval,
                "alpha": self.bench.plan.proposal.decision.alpha if alpha is None else alpha,
            }
        )


def decision_of(plan: ExperimentPlan, source: LogSource) -> Decision:
    """Return the registered rules, ready to be applied.

    Raises:
        IntegrityError: they are no rules that this version can apply.
        WorkbenchError: the noise floor that they name is not in the log, or says too little.
    """
    leaf = plan.proposal.decision.noise_floor
    floors = noise_floors(source, leaf) if leaf else {}
    try:
        return planned_rules.decision_of(plan.proposal, floors)
    except ValueError as error:
        raise IntegrityError(
            f"the rule of {plan.subject} cannot be applied: {error}",
            remedy=f"workbench amend {plan.subject[:4]}, if nothing has run yet",
        ) from error


def body_of(entry: Entry) -> Look:
    """Return what a look saw.

    Raises:
        IntegrityError: this reader cannot see it.
    """
    if not isinstance(entry.body, Look):
        raise IntegrityError(f"look {entry.id} cannot be read: it is hidden")
    return entry.body


def look_line(entry: Entry) -> LookLine:
    """Return what a look said, for who ran it."""
    body = body_of(entry)
    first = body.results[0]
    return LookLine(
        number=body.number,
        num_seeds=body.num_seeds,
        outcome=first.outcome,
        estimate=first.estimate,
        lower=first.lower,
        upper=first.upper,
        state=body.state,
        next_seeds=body.next_seeds,
    )


def measured_of(values: Values, metric: str) -> ByArm:
    """Return the values of one measure in the words of the rule; None where a run diverged."""
    return {
        arm: [
            Measured(
                seed_index=seed.seed_index,
                value=None if seed.value is None else seed.metrics[metric],
            )
            for seed in seeds
        ]
        for arm, seeds in values.items()
    }


def _seen(past: Sequence[Entry]) -> dict[str, SeedValue]:
    """Return what earlier looks read, by run."""
    return {
        seed.run: seed
        for entry in past
        for seeds in body_of(entry).values.values()
        for seed in seeds
        if seed.value is not None
    }


def _joint(entry: Entry) -> JointLook:
    """Return a recorded look as the rule needs it to keep what it decided."""
    body = body_of(entry)
    return JointLook(
        number=body.number,
        num_seeds=body.num_seeds,
        state=body.state,
        next_seeds=body.next_seeds,
        by_hypothesis={
            result.hypothesis: numbers.Look(
                number=body.number,
                num_seeds=body.num_seeds,
                state=body.state,
                next_seeds=body.next_seeds,
                judgement=Judgement(
                    outcome=result.outcome,
                    estimate=result.estimate,
                    lower=result.lower,
                    upper=result.upper,
                    degrees_of_freedom=result.degrees_of_freedom,
                    n_control=len(body.values["control"]),
                    n_treatment=len(body.values["treatment"]),
                    reason=result.reason,
                    interval=result.interval,
                    alpha=result.alpha,
                ),
            )
            for result in body.results
        },
    )
