"""Approvals as the log keeps them: who may give one, what counts, and what verification finds."""

from collections.abc import Iterator

import pytest

from tests.registry.conftest import ORIGIN, SUBJECT, LogFolder, registration
from workbench.errors import InvalidFileError
from workbench.registry.approvals import (
    ApprovalCheck,
    approval_note,
    approval_notes,
    approval_rule,
    approval_text,
    promises,
    reviewer_of,
)
from workbench.registry.entries import Amendment, Approval, ApprovalRule, SweepStarted
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry
from workbench.registry.notes import SigningKey, sign_note
from workbench.registry.verify import verify_log

FIRST, SECOND, OTHER = (
    SigningKey(name=f"reviews.example.com/{i}", seed=bytes([i]) * 32) for i in (1, 2, 3)
)
REVIEWERS = {"first": str(FIRST.verifier), "second": str(SECOND.verifier)}
SWEEP = SweepStarted(
    mode="confirmatory", recipe="mix@1", recipe_sha256="b" * 64, sampler="tpe", sampler_seed="1",
    budget_trials=1, already_done=0, mlflow_run="m1",
)  # fmt: skip


class Story:
    """A log that is told an entry at a time."""

    def __init__(self, ledger: Ledger, rule: ApprovalRule | None) -> None:
        self.ledger = ledger
        body = registration().model_copy(update={"approvals": rule})
        self.registered = ledger.append(body, subject=SUBJECT)

    def approve(
        self, key: SigningKey, reviewer: str, *, of: Entry | None = None, note: str = ""
    ) -> Entry:
        promise = of or self.registered
        body = Approval(reviewer=reviewer, note=note or approval_note(key, ORIGIN, promise.leaf))
        return self.ledger.append(body, subject=SUBJECT, refs=[promise.leaf])

    def amend(self) -> Entry:
        old = registration()
        body = Amendment(
            experiment=SUBJECT, changes=[], reason_class="error", reason="a slip",
            timing="before_any_run", rests_on=[], effect="none", proposal=old.proposal,
            recipe=old.recipe, full=old.full, frozen=old.frozen, control=old.control,
            data=old.data, num_seeds=2,
        )  # fmt: skip
        return self.ledger.append(body, subject=SUBJECT, refs=[self.registered.leaf])

    def sweep(self, mode: str = "confirmatory") -> Entry:
        body = SWEEP.model_copy(update={"mode": mode})
        return self.ledger.append(body, subject=SUBJECT, refs=[self.registered.leaf])

    def entries(self) -> list[Entry]:
        return list(self.ledger.entries(subject=SUBJECT))

    def faults(self) -> list[str]:
        check = ApprovalCheck()
        return [fault for entry in self.ledger.entries() for fault in check.follow(entry)]


@pytest.fixture
def ledger(fresh: LogFolder) -> Iterator[Ledger]:
    with fresh.create() as made:
        yield made


@pytest.fixture
def story(ledger: Ledger) -> Story:
    return Story(ledger, approval_rule(2, REVIEWERS))


def test_approvals_of_enough_reviewers_hold(story: Story) -> None:
    story.approve(FIRST, "first")
    (promise,) = promises(story.entries())
    assert (promise.approved_by, promise.missing) == (("first",), ("second",))
    assert not promise.is_approved
    story.approve(SECOND, "second")
    (promise,) = promises(story.entries())
    assert promise.is_approved
    story.sweep()
    assert story.faults() == []


def test_approvals_by_one_reviewer_twice_are_one(story: Story) -> None:
    story.approve(FIRST, "first")
    story.approve(FIRST, "first")
    (promise,) = promises(story.entries())
    assert promise.approved_by == ("first",)
    story.sweep()
    (fault,) = story.faults()
    assert "1 of 2 approvals" in fault


def test_confirmatory_entry_before_its_approvals_is_a_fault_once(story: Story) -> None:
    begun = story.sweep()
    story.sweep()
    story.approve(FIRST, "first")
    story.approve(SECOND, "second")
    (fault,) = story.faults()
    assert fault.startswith(f"entry {begun.sequence} (sweep_started")
    assert "0 of 2 approvals" in fault


def test_exploratory_entry_needs_no_approval(story: Story) -> None:
    story.sweep("exploratory")
    assert story.faults() == []


def test_amendment_has_to_be_approved_like_its_registration(story: Story) -> None:
    for key, name in ((FIRST, "first"), (SECOND, "second")):
        story.approve(key, name)
    amended = story.amend()
    before, after = promises(story.entries())
    assert (before.is_approved, after.is_approved) == (True, False)
    story.approve(FIRST, "first", of=amended)
    story.sweep()
    (fault,) = story.faults()
    assert "1 of 2 approvals of leaf " + amended.leaf[:16] in fault


def test_approval_by_nobody_of_the_rule_does_not_count(story: Story) -> None:
    story.approve(OTHER, "first")
    story.approve(SECOND, "first")
    story.approve(OTHER, "third")
    (promise,) = promises(story.entries())
    assert promise.approved_by == ()
    first, swapped, third = story.faults()
    assert "no reviewer of this registration" in first
    assert "signed by 'second', not 'first'" in swapped
    assert "'third' is no reviewer" in third


@pytest.mark.parametrize("wrong", ["origin", "leaf", "text"])
def test_approval_of_something_else_does_not_count(story: Story, wrong: str) -> None:
    leaf = story.registered.leaf
    note = {
        "origin": approval_note(FIRST, "example.com/other", leaf),
        "leaf": approval_note(FIRST, ORIGIN, "0" * 64),
        "text": sign_note(f"workbench entry v1\n{ORIGIN}\n{leaf}\n", FIRST),
    }[wrong]
    story.approve(FIRST, "first", note=note)
    (promise,) = promises(story.entries())
    assert promise.approved_by == ()
    assert len(story.faults()) == 1


def test_approval_that_refers_to_no_promise_is_a_fault(story: Story) -> None:
    begun = story.sweep("exploratory")
    story.approve(FIRST, "first", of=begun)
    (fault,) = story.faults()
    assert "refers to no registration or amendment" in fault


def test_registration_without_a_rule_needs_none(ledger: Ledger) -> None:
    story = Story(ledger, None)
    assert promises(story.entries()) == ()
    story.sweep()
    story.approve(FIRST, "first")
    assert story.faults() == []


def test_registration_with_a_rule_that_cannot_hold_is_a_fault(ledger: Ledger) -> None:
    story = Story(ledger, ApprovalRule(required=3, reviewers=REVIEWERS))
    assert "cannot hold" in story.faults()[0]


def test_registration_with_a_rule_of_none_is_a_fault(ledger: Ledger) -> None:
    story = Story(ledger, ApprovalRule(required=0, reviewers=REVIEWERS))
    (fault,) = story.faults()
    assert "requires none" in fault


def test_rule_is_read_from_settings_or_absent() -> None:
    assert approval_rule(0, {}) is None
    assert approval_rule(0, REVIEWERS) is None
    assert approval_rule(1, REVIEWERS) == ApprovalRule(required=1, reviewers=REVIEWERS)


@pytest.mark.parametrize(
    ("required", "reviewers", "words"),
    [
        (1, {}, "but 0 reviewers are named"),
        (3, REVIEWERS, "but 2 reviewers are named"),
        (1, {"First": REVIEWERS["first"]}, "'First' .* is not a short name"),
        (1, {"first": "no key"}, "'first' .* has no usable verifier key"),
        (1, {**REVIEWERS, "third": REVIEWERS["first"]}, "first, third .* have the same key"),
        (-1, REVIEWERS, "approvals_required -1"),
    ],
)
def test_rule_that_nobody_can_satisfy_is_refused(
    required: int, reviewers: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidFileError, match=words) as refused:
        approval_rule(required, reviewers)
    assert refused.value.remedy


def test_notes_of_a_file_are_told_apart_and_keep_their_bytes() -> None:
    leaves = ["a" * 64, "b" * 64]
    notes = [approval_note(FIRST, ORIGIN, leaf) for leaf in leaves]
    assert approval_notes("\n".join(notes)) == list(zip(notes, leaves, strict=True))
    assert approval_notes(notes[0]) == [(notes[0], leaves[0])]
    rule = ApprovalRule(required=1, reviewers=REVIEWERS)
    assert reviewer_of(notes[1], rule, ORIGIN, leaves[1]) == "first"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello\n",
        "hello\n" + approval_note(FIRST, ORIGIN, "a" * 64),
        approval_text(ORIGIN, "a" * 64),
        sign_note("workbench approval v1\nonly\n", FIRST),
        sign_note(f"workbench approval v1\n{ORIGIN}\nAAAA\n", FIRST),
    ],
)
def test_file_that_holds_no_approval_is_refused(text: str) -> None:
    with pytest.raises(InvalidFileError):
        approval_notes(text)


def test_verification_finds_what_ran_without_its_approvals(story: Story) -> None:
    story.approve(FIRST, "first")
    assert verify_log(story.ledger, vkey=story.ledger.vkey, kept_head=None).passed
    story.sweep()
    report = verify_log(story.ledger, vkey=story.ledger.vkey, kept_head=None)
    first = next(check for check in report.checks if not check.passed)
    assert first.name == "order of conduct"
    assert "1 of 2 approvals" in str(first)
