"""What is in force, what was known when, and which amendments and withdrawals cannot be right."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from tests.registry.conftest import CODE, SUBJECT, LogFolder, registration
from workbench.errors import ConflictError
from workbench.registry.amended import (
    EFFECTS,
    ChangeWatch,
    course_of,
    effective,
    late_reasons,
)
from workbench.registry.entries import (
    Amendment,
    Anchor,
    Body,
    Document,
    Exposure,
    FieldChange,
    Hidden,
    Promotion,
    Registration,
    RunEnded,
    RunStarted,
    SweepStarted,
    Timing,
    Verdict,
    Withdrawal,
)
from workbench.registry.ledger import Entry, Ledger
from workbench.registry.seeds import time_locked_seed
from workbench.registry.verify import verify_log


def _faults_of(entries: Iterable[Entry]) -> list[str]:
    watch = ChangeWatch()
    return [fault for entry in entries for fault in watch.faults(entry)]


@pytest.fixture
def ledger(fresh: LogFolder) -> Iterator[Ledger]:
    with fresh.create() as made:
        yield made


@pytest.fixture
def registered(ledger: Ledger) -> Entry:
    entry = ledger.append(registration(), subject=SUBJECT)
    head = ledger.head()
    ledger.append(
        Anchor(method="embedded", head=head.note, tree_size=head.size),
        subject=SUBJECT,
        refs=[entry.leaf],
    )
    return entry


def amendment(timing: Timing, rests_on: list[Entry], **changes: object) -> Amendment:
    before = registration()
    document = Document(path=before.proposal.path, sha256="b" * 64, text="changed\n")
    values: dict[str, object] = {
        "experiment": SUBJECT,
        "changes": [FieldChange(document="proposal", path="design.alpha", old="0.05", new="0.01")],
        "reason_class": "error",
        "reason": "alpha was mistyped",
        "timing": timing,
        "rests_on": [entry.id for entry in rests_on],
        "effect": EFFECTS[timing],
        "proposal": document,
        "recipe": before.recipe,
        "full": before.full,
        "frozen": {"title": "Even more code", "design": {"seeds": 3, "alpha": "0.01"}},
        "control": before.control,
        "data": before.data,
        "num_seeds": 3,
    }
    return Amendment.model_validate(values | changes)


def work(mode: str = "confirmatory") -> SweepStarted:
    return SweepStarted.model_validate(
        {
            "mode": mode, "recipe": "mix@1", "recipe_sha256": "b" * 64, "sampler": "tpe",
            "sampler_seed": "1", "budget_trials": 1, "already_done": 0, "mlflow_run": "m1",
        }
    )  # fmt: skip


def promotion(mode: str = "confirmatory") -> Promotion:
    return Promotion.model_validate(
        {
            "mode": mode, "chosen": "trial-00", "rule": "best", "candidates": [], "changes": [],
            "configs": {}, "config_sha256": {},
        }
    )  # fmt: skip


def verdict() -> Verdict:
    return Verdict.model_validate(
        {
            "mode": "confirmatory", "outcome": "void", "hypothesis": "H1", "claim": "superior(0)",
            "interval": "welch_t", "alpha": 0.05, "metric": "bpb_macro", "direction": "minimize",
            "values": {}, "action": "none",
        }
    )  # fmt: skip


def run_started(seed: int, index: int = 0) -> RunStarted:
    return RunStarted.model_validate(
        {
            "mode": "confirmatory", "run": f"treatment/seed-{index}", "arm": "treatment",
            "seed_index": index, "seed": str(seed), "attempt": 1, "from_step": 0,
            "config_sha256": "d" * 64, "code": CODE, "host": {}, "mlflow_run": "m",
        }
    )  # fmt: skip


def run_ended(index: int = 0) -> RunEnded:
    return RunEnded.model_validate(
        {
            "mode": "confirmatory", "run": f"treatment/seed-{index}", "attempt": 1,
            "outcome": "completed", "last_step": 1, "surviving_step": 1, "planned_steps": 1,
            "tokens": 1, "device_seconds": 1.0,
        }
    )  # fmt: skip


def exposure() -> Exposure:
    return Exposure(what="validation_outcomes", by="lead", purpose="curiosity", runs=[])


def put(ledger: Ledger, registered: Entry, *bodies: Body) -> list[Entry]:
    return [ledger.append(body, subject=SUBJECT, refs=[registered.leaf]) for body in bodies]


# What is in force


def test_effective_without_amendment_is_the_registration(ledger: Ledger, registered: Entry) -> None:
    assert effective(ledger, SUBJECT) == registered
    assert effective(ledger, "0002-other") is None


def test_effective_carries_the_newest_amendment_under_the_registrations_leaf(
    ledger: Ledger, registered: Entry
) -> None:
    first = amendment("before_any_run", [registered])
    second = amendment("before_any_run", [registered], num_seeds=4, frozen={"design": {"seeds": 4}})
    (one,) = put(ledger, registered, first)
    ledger.append(second, subject=SUBJECT, refs=[registered.leaf, one.leaf])
    found = effective(ledger, SUBJECT)
    assert found is not None
    assert isinstance(found.body, Registration)
    assert (found.leaf, found.sequence) == (registered.leaf, registered.sequence)
    assert found.body.num_seeds == 4
    assert found.body.proposal.text == "changed\n"
    assert found.body.code == CODE
    assert (_faults_of(ledger.entries())) == []


def test_effective_title_is_the_amended_one(ledger: Ledger, registered: Entry) -> None:
    put(ledger, registered, amendment("before_any_run", [registered]))
    found = effective(ledger, SUBJECT)
    assert found is not None
    assert isinstance(found.body, Registration)
    assert found.body.title == "Even more code"


def test_effective_of_a_hidden_amendment_is_hidden(ledger: Ledger, registered: Entry) -> None:
    """What is in force is then not known: the older text would be a wrong answer."""
    (entry,) = put(ledger, registered, amendment("before_any_run", [registered]))

    class Blind:
        origin = ledger.origin

        def head(self) -> None:
            return None

        def entries(self, *, kind: str | None = None, subject: str | None = None) -> object:
            for found in ledger.entries(kind=kind, subject=subject):
                yield replace(found, body=Hidden()) if found.leaf == entry.leaf else found

    found = effective(Blind(), SUBJECT)  # type: ignore[arg-type]
    assert found is not None
    assert isinstance(found.body, Hidden)
    assert (_faults_of(Blind().entries())) == []  # type: ignore[arg-type]


# What was known


@pytest.mark.parametrize(
    ("before", "timing", "rests_on"),
    [
        ([], "before_any_run", "registration"),
        ([work("exploratory")], "before_any_run", "registration"),
        ([work()], "outcomes_unseen", "sweep_started"),
        ([work(), promotion()], "outcomes_seen", "promotion"),
        ([promotion("exploratory")], "outcomes_seen", "promotion"),
        ([exposure()], "outcomes_seen", "exposure"),
        ([work(), exposure()], "outcomes_seen", "exposure"),
    ],
)
def test_timing_is_read_from_the_log(
    ledger: Ledger, registered: Entry, before: list[Body], timing: Timing, rests_on: str
) -> None:
    put(ledger, registered, *before)
    known = course_of(ledger, SUBJECT).known()
    assert known.timing == timing
    assert [entry.kind for entry in known.rests_on] == [rests_on]
    put(ledger, registered, amendment(timing, list(known.rests_on)))
    assert (_faults_of(ledger.entries())) == []


def test_exploring_before_the_registration_is_foreknowledge_and_no_outcome(
    ledger: Ledger,
) -> None:
    ledger.append(promotion("exploratory"), subject=SUBJECT)
    ledger.append(registration(), subject=SUBJECT)
    assert course_of(ledger, SUBJECT).known().timing == "before_any_run"


def test_each_look_is_named(ledger: Ledger, registered: Entry) -> None:
    looks = put(ledger, registered, promotion(), exposure())
    assert list(course_of(ledger, SUBJECT).known().rests_on) == looks


def test_late_reasons_name_field_entry_and_look(ledger: Ledger, registered: Entry) -> None:
    put(ledger, registered, amendment("before_any_run", [registered]))
    assert late_reasons(course_of(ledger, SUBJECT)) == []
    (look,) = put(ledger, registered, promotion())
    (late,) = put(ledger, registered, amendment("outcomes_seen", [look]))
    (reason,) = late_reasons(course_of(ledger, SUBJECT))
    assert reason == (
        f"proposal design.alpha was amended (entry {late.sequence}) after outcomes were seen "
        f"(promotion, entry {look.sequence})"
    )


def test_late_reason_of_many_fields_counts_the_rest(ledger: Ledger, registered: Entry) -> None:
    (look,) = put(ledger, registered, promotion())
    changes = [FieldChange(document="full", path=f"a{i}", new=i) for i in range(5)]
    put(ledger, registered, amendment("outcomes_seen", [look], changes=changes))
    (reason,) = late_reasons(course_of(ledger, SUBJECT))
    assert reason.startswith("full a0, full a1, full a2 and 2 more were amended")


# What cannot be right


def faults(ledger: Ledger) -> list[str]:
    return [fault.partition(": ")[2] for fault in _faults_of(ledger.entries())]


def test_amendment_that_backdates_its_timing_is_a_fault(ledger: Ledger, registered: Entry) -> None:
    (look,) = put(ledger, registered, promotion())
    put(ledger, registered, amendment("before_any_run", [registered]))
    assert faults(ledger) == [
        f"it says before_any_run, the log shows outcomes_seen (promotion, entry {look.sequence})"
    ]


def test_amendment_that_hides_a_look_is_a_fault(ledger: Ledger, registered: Entry) -> None:
    first, _ = put(ledger, registered, promotion(), exposure())
    put(ledger, registered, amendment("outcomes_seen", [first]))
    (fault,) = faults(ledger)
    assert fault.startswith("it rests its timing on")


@pytest.mark.parametrize("kind", ["amendment", "withdrawal"])
def test_change_without_its_registration_is_a_fault(ledger: Ledger, kind: str) -> None:
    body: Body = Withdrawal(reason="r", timing="before_any_run", rests_on=[])
    if kind == "amendment":
        body = amendment("before_any_run", [])
    ledger.append(body, subject=SUBJECT)
    assert f"{SUBJECT} is not registered before it" in faults(ledger)


def test_amendment_must_refer_to_the_registration_and_each_earlier_one(
    ledger: Ledger, registered: Entry
) -> None:
    (first,) = put(ledger, registered, amendment("before_any_run", [registered]))
    ledger.append(amendment("before_any_run", [registered]), subject=SUBJECT, refs=[first.leaf])
    put(ledger, registered, amendment("before_any_run", [registered]))
    found = faults(ledger)
    assert f"it does not refer to the registration before it, entry {registered.sequence}" in found
    assert f"it does not refer to the amendment before it, entry {first.sequence}" in found


@pytest.mark.parametrize("kind", ["amendment", "withdrawal"])
def test_change_after_the_verdict_is_a_fault(ledger: Ledger, registered: Entry, kind: str) -> None:
    (judged,) = put(ledger, registered, verdict())
    body: Body = Withdrawal(reason="r", timing="outcomes_seen", rests_on=[judged.id])
    if kind == "amendment":
        body = amendment("outcomes_seen", [judged])
    put(ledger, registered, body)
    assert faults(ledger) == [f"{SUBJECT} has its verdict before it (entry {judged.sequence})"]


@pytest.mark.parametrize("kind", ["amendment", "withdrawal"])
def test_change_after_a_withdrawal_is_a_fault(ledger: Ledger, registered: Entry, kind: str) -> None:
    given_up = Withdrawal(reason="r", timing="before_any_run", rests_on=[registered.id])
    (first,) = put(ledger, registered, given_up)
    body: Body = given_up if kind == "withdrawal" else amendment("before_any_run", [registered])
    put(ledger, registered, body)
    assert faults(ledger) == [f"{SUBJECT} was withdrawn before it (entry {first.sequence})"]


def test_confirmatory_work_after_a_withdrawal_is_a_fault_and_exploring_is_not(
    ledger: Ledger, registered: Entry
) -> None:
    given_up = Withdrawal(reason="r", timing="before_any_run", rests_on=[registered.id])
    put(ledger, registered, given_up, work("exploratory"))
    assert faults(ledger) == []
    put(ledger, registered, work())
    (fault,) = faults(ledger)
    assert fault.startswith("it claims to be confirmatory")


def test_run_that_began_before_the_withdrawal_may_end(ledger: Ledger, registered: Entry) -> None:
    (started,) = put(ledger, registered, run_started(1))
    put(
        ledger,
        registered,
        Withdrawal(reason="r", timing="outcomes_unseen", rests_on=[started.id]),
    )
    ledger.append(run_ended(), subject=SUBJECT, refs=[started.leaf])
    assert faults(ledger) == []
    ledger.append(run_ended(), subject=SUBJECT, refs=[started.leaf])
    assert len(faults(ledger)) == 1


def test_amendment_to_fewer_seeds_than_ran_is_a_fault(ledger: Ledger, registered: Entry) -> None:
    (started,) = put(ledger, registered, run_started(1, index=1))
    few = amendment("outcomes_unseen", [started], num_seeds=1, frozen={"design": {"seeds": 1}})
    put(ledger, registered, few)
    assert faults(ledger) == ["it leaves 1 seed an arm, seed 1 had run before"]


def test_amendment_whose_seeds_are_not_its_proposals_is_a_fault(
    ledger: Ledger, registered: Entry
) -> None:
    put(ledger, registered, amendment("before_any_run", [registered], num_seeds=9, changes=[]))
    assert faults(ledger) == ["it says 9 seeds, its proposal 3", "it names no change"]


def test_other_experiments_are_followed_apart(ledger: Ledger, registered: Entry) -> None:
    ledger.append(promotion("exploratory"), subject="0002-other")
    put(ledger, registered, amendment("before_any_run", [registered]))
    assert faults(ledger) == []


# Verification


def test_verify_finds_a_backdated_amendment(ledger: Ledger, registered: Entry) -> None:
    put(ledger, registered, exposure(), amendment("before_any_run", [registered]))
    report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
    assert report.first_failure is not None
    assert report.first_failure.name == "order of conduct"
    assert "the log shows outcomes_seen" in report.first_failure.detail


def test_verify_takes_the_seeds_that_an_amendment_added(ledger: Ledger, registered: Entry) -> None:
    (anchor,) = ledger.entries(kind="anchor")
    assert isinstance(anchor.body, Anchor)
    seed = time_locked_seed(anchor.body.head, registered.leaf, 2)
    put(ledger, registered, amendment("before_any_run", [registered]), run_started(seed, index=2))
    report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
    assert report.first_failure is None


def test_verify_refuses_a_seed_beyond_those_in_force(ledger: Ledger, registered: Entry) -> None:
    (anchor,) = ledger.entries(kind="anchor")
    assert isinstance(anchor.body, Anchor)
    seed = time_locked_seed(anchor.body.head, registered.leaf, 2)
    put(ledger, registered, run_started(seed, index=2))
    report = verify_log(ledger, vkey=ledger.vkey, kept_head=None)
    assert report.first_failure is not None
    assert "was not registered" in report.first_failure.detail


def test_watch_tells_the_seeds_in_force_at_each_point(ledger: Ledger, registered: Entry) -> None:
    put(ledger, registered, amendment("before_any_run", [registered]))
    watch, told = ChangeWatch(), []
    for entry in ledger.entries():
        list(watch.faults(entry))
        told.append(watch.num_seeds(registered))
    assert told == [2, 2, 2, 3]


def test_append_at_another_size_is_refused_and_writes_nothing(
    ledger: Ledger, registered: Entry
) -> None:
    size = ledger.head().size
    with pytest.raises(ConflictError, match="grew"):
        ledger.append(exposure(), subject=SUBJECT, at_size=size - 1)
    assert ledger.head().size == size
    ledger.append(exposure(), subject=SUBJECT, at_size=size)
    assert ledger.head().size == size + 1
