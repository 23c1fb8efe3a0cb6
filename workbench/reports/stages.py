"""Where each experiment stands, read from the ledger alone."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from workbench.registry.amended import Course
from workbench.registry.approvals import Promise, promises
from workbench.registry.embargo import Withholding
from workbench.registry.entries import (
    Amendment,
    Approval,
    Body,
    Deviation,
    Hidden,
    Incident,
    Look,
    Promotion,
    ProxyRun,
    Registration,
    RunEnded,
    RunStarted,
    SweepEnded,
    SweepStarted,
    Trial,
    Verdict,
    Withdrawal,
)
from workbench.registry.hidden import REMARKS
from workbench.registry.log import Entry, LogSource


@dataclass(frozen=True, kw_only=True)
class ExperimentStatus:
    """One line of `workbench status`."""

    experiment: str
    title: str
    stage: str
    """``filed``, ``registered``, ``sweeping``, ``swept``, ``promoted``, ``running``, ``run``,
    ``decided`` or ``withdrawn``; ``hidden`` where this reader lacks the content that would say so;
    exploratory work does not move it."""
    detail: str
    next_command: str
    device_seconds: float
    wasted_device_seconds: float
    """Spent on trials and attempts that gave no usable value."""
    exploratory_entries: int
    incidents: int
    deviations: int
    deviations_by_category: dict[str, int]
    """Distinct ones: the same deviation is recorded at each start; ``other`` without category."""
    amendments: int
    late_amendments: int
    """Made after outcomes were seen: the verdict is exploratory and void."""
    verdict: str
    embargo: str = ""
    """Day by whose end it is promised to be revealed; empty without an embargo."""
    overdue: bool = False
    """Whether that day is over."""
    awaits_approval: bool = False
    """Nothing confirmatory runs until reviewers approved it."""
    hidden_entries: int = 0
    """Whose content this reader does not have."""


@dataclass
class _Tally:
    withholding: Withholding = field(default_factory=Withholding)
    hidden: list[str] = field(default_factory=list)
    """Kinds of the entries without a body."""
    course: Course = field(default_factory=Course)
    approvals: list[Entry] = field(default_factory=list)
    """What was promised, and who approved it."""
    registration: Registration | None = None
    budget: int = 0
    trials: dict[str, int] = field(default_factory=dict)
    finished_sweep: bool = False
    promotion: Promotion | None = None
    ended: dict[str, str] = field(default_factory=dict)
    begun_at: dict[tuple[str, int], int] = field(default_factory=dict)
    """Step at which an attempt began, by run and attempt."""
    look: Look | None = None
    """The newest."""
    verdict: str = ""
    seconds: float = 0.0
    wasted: float = 0.0
    exploratory: int = 0
    incidents: int = 0
    deviations: int = 0
    deviated: dict[str, set[tuple[str, str, str]]] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        """Count one entry."""
        body = entry.body
        self.withholding.follow(entry)
        if isinstance(body, Hidden):
            self.hidden.append(entry.kind)
        self.course.follow(entry)
        if entry.kind in (Registration.kind, Amendment.kind, Approval.kind):
            self.approvals.append(entry)
        self._cost(body)
        # The verdict on what was amended late is marked exploratory, and is the verdict.
        if getattr(body, "mode", "") == "exploratory" and not isinstance(body, Verdict):
            self.exploratory += 1
        elif isinstance(body, Incident):
            self.incidents += 1
        elif isinstance(body, Deviation):
            self.deviations += 1
            same = self.deviated.setdefault(body.category or "other", set())
            same.add((body.what, body.registered, body.found))
        else:
            self._advance(body)

    def _advance(self, body: Body) -> None:
        match body:
            case Registration() | Amendment():
                self._promise()
            case SweepStarted(budget_trials=budget):
                self.budget = budget
            case Trial(state=state):
                self.trials[state] = self.trials.get(state, 0) + 1
            case SweepEnded(finished=finished):
                self.finished_sweep = self.finished_sweep or finished
            case Promotion():
                self.promotion = body
            case RunStarted(run=run):
                self.ended[run] = "running"
            case RunEnded(run=run, outcome=outcome):
                self.ended[run] = outcome
            case Look():
                self.look = body
            case Verdict(outcome=outcome):
                self.verdict = outcome
            case _:
                pass

    def _promise(self) -> None:
        in_force = self.course.in_force()
        if in_force is not None and isinstance(in_force.body, Registration):
            self.registration = in_force.body

    def _cost(self, body: Body) -> None:
        if isinstance(body, Trial | ProxyRun):
            useful = body.state in ("completed", "pruned")
        elif isinstance(body, RunEnded):
            self.seconds += body.device_seconds
            self.wasted += body.device_seconds * self._discarded_share(body)
            return
        elif isinstance(body, RunStarted):
            self.begun_at[body.run, body.attempt] = body.from_step
            return
        else:
            return
        self.seconds += body.device_seconds
        self.wasted += 0.0 if useful else body.device_seconds

    def _discarded_share(self, ended: RunEnded) -> float:
        if ended.outcome == "diverged":
            return 1.0
        steps = ended.last_step - self.begun_at.get((ended.run, ended.attempt), 0)
        return (ended.last_step - ended.surviving_step) / steps if steps > 0 else 0.0


def experiment_statuses(
    source: LogSource, filed: Iterable[str], now: datetime
) -> list[ExperimentStatus]:
    """Return the status of every filed or recorded experiment, in the order of their numbers.

    Args:
        source: The log.
        filed: Names of the folders in ``experiments/``.
        now: Decides which embargoes are overdue.
    """
    tallies: dict[str, _Tally] = {name: _Tally() for name in filed}
    for entry in source.entries():
        if entry.subject[:4].isdigit():
            tallies.setdefault(entry.subject, _Tally()).add(entry)
    return [_status(name, tallies[name], now) for name in sorted(tallies)]


def _status(name: str, tally: _Tally, now: datetime) -> ExperimentStatus:
    stage, detail, command = _stage(tally)
    embargo = next(iter(tally.withholding.open), None)
    overdue = embargo is not None and embargo.is_expired(now)
    if embargo is not None:
        which = "EMBARGO OVERDUE since" if overdue else "embargo until"
        detail = f"{detail}; {which} {embargo.until}"
        command = "reveal" if overdue else command
    waiting = _waiting(tally, stage)
    if waiting is not None:
        count = f"{len(waiting.approved_by)} of {waiting.required}"
        detail, command = f"{detail}; {count} approvals of the {waiting.entry.kind}", "approve"
    amendments, late = len(tally.course.amendments), len(tally.course.late())
    if amendments:
        when = "late: void" if late else "in time"
        detail = f"{detail}; amended {amendments}\u00d7 ({when})"
    return ExperimentStatus(
        experiment=name,
        title=tally.registration.title if tally.registration else "",
        stage=stage,
        detail=detail,
        next_command=command and f"workbench {command} {name[:4]}",
        device_seconds=tally.seconds,
        wasted_device_seconds=tally.wasted,
        exploratory_entries=tally.exploratory,
        incidents=tally.incidents,
        deviations=tally.deviations,
        deviations_by_category={name: len(same) for name, same in sorted(tally.deviated.items())},
        amendments=amendments,
        late_amendments=late,
        verdict=tally.verdict,
        embargo=embargo.until if embargo else "",
        overdue=overdue,
        hidden_entries=len(tally.hidden),
        awaits_approval=waiting is not None,
    )


def _waiting(tally: _Tally, stage: str) -> Promise | None:
    """Return the first promise without enough approvals, while that still holds anything up."""
    if stage in ("decided", "withdrawn", "hidden"):
        return None
    return next((p for p in promises(tally.approvals) if not p.is_approved), None)


def _stage(tally: _Tally) -> tuple[str, str, str]:
    registration = tally.registration
    if any(kind not in REMARKS for kind in tally.hidden):
        return "hidden", f"{len(tally.hidden)} entries without their content", "chronicle"
    if registration is None:
        return "filed", "not registered", "check"
    if tally.course.withdrawal is not None:
        return "withdrawn", _why_withdrawn(tally.course), "chronicle"
    if tally.verdict:
        return "decided", tally.verdict, "chronicle"
    if tally.promotion is not None:
        return _running_stage(tally, registration, tally.promotion)
    if tally.finished_sweep:
        return "swept", _trial_counts(tally), "promote"
    if tally.budget:
        return "sweeping", f"{_trial_counts(tally)} of {tally.budget}", "sweep"
    return "registered", f"{registration.num_seeds} seeds an arm", "sweep"


def _why_withdrawn(course: Course) -> str:
    body = course.withdrawal.body if course.withdrawal else None
    seen = course.known_at_withdrawal
    when = " after outcomes were seen" if seen and seen.timing == "outcomes_seen" else ""
    reason = body.reason if isinstance(body, Withdrawal) else "reason hidden"
    return f"{reason}{when and f' ({when.strip()})'}"


def _running_stage(
    tally: _Tally, registration: Registration, promotion: Promotion
) -> tuple[str, str, str]:
    if promotion.chosen == "none":
        return "promoted", "no candidate was good enough", "chronicle"
    done = sum(outcome in ("completed", "diverged") for outcome in tally.ended.values())
    if tally.look is not None:
        return _looking_stage(tally.look, len(registration.arms), done)
    looks = _registered_looks(registration)
    planned = len(registration.arms) * (looks[0] if looks else registration.num_seeds)
    if tally.ended and (len(looks) > 1 or (not looks and done < planned)):
        detail = f"{done} of {planned} runs of look 1" if looks else f"{done} runs of {planned}"
        return "running", f"{detail}{'' if looks else ' at most'}", "run"
    if done == planned:
        return "run", f"{done} of {planned} runs", "verdict"
    if tally.ended:
        return "running", f"{done} of {planned} runs", "run"
    return "promoted", f"chose {promotion.chosen}", "run"


def _looking_stage(look: Look, num_arms: int, done: int) -> tuple[str, str, str]:
    """Return where an experiment stands that has been looked at."""
    seen = f"look {look.number} at {look.num_seeds} seeds"
    if look.next_seeds is None:
        return "run", f"{done} runs, {seen} was the last", "verdict"
    planned = num_arms * look.next_seeds
    return "running", f"{done} of {planned} runs, {seen} went on to {look.next_seeds}", "run"


def _registered_looks(registration: Registration) -> tuple[int, ...]:
    """Return the seeds an arm at each look; empty where the rule may look after any."""
    frozen = registration.frozen
    decision = frozen.get("decision") if isinstance(frozen, dict) else None
    stopping = decision.get("stopping") if isinstance(decision, dict) else None
    if not isinstance(stopping, str):
        return (registration.num_seeds,)
    return tuple(int(seeds) for seeds in re.findall(r"\d+", stopping))


def _trial_counts(tally: _Tally) -> str:
    counts = [f"{count} {state}" for state, count in sorted(tally.trials.items())]
    return ", ".join(counts) or "no trials yet"
