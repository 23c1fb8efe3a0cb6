"""The second story: an embargoed, amended, approved and withdrawn experiment of a log whose keys
were replaced, with a redacted entry and an experiment that is still under embargo."""

from tests.registry.forge import ForgedLog, key
from workbench.registry.entries import (
    Amendment,
    Anchor,
    Approval,
    ApprovalRule,
    CodeState,
    DataState,
    Document,
    Embargo,
    FieldChange,
    Note,
    Redaction,
    Registration,
    Reveal,
    Withdrawal,
)
from workbench.registry.log import Entry
from workbench.registry.notes import sign_note

FIRST, SECOND = "0001-more-code", "0002-less-code"
REVIEWER = key("reviewer")
DOCUMENT = Document(path="experiments/0001-more-code/proposal.md", sha256="a" * 64, text="é\n")
DATA = DataState(
    corpus="builtin@1",
    manifest="sha256:aa",
    documents={"train_code": 3},
    tokens={"train_code": 300},
    duplicates_removed=1,
    natural_mixture={"code": 0.25, "docs": 0.75},
)
CHANGE_KINDS = (
    "amendment", "withdrawal", "approval", "embargo", "reveal", "redaction", "key_rotation",
)  # fmt: skip


def registration(subject: str) -> Registration:
    return Registration(
        experiment=subject,
        title="More code helps",
        proposal=DOCUMENT,
        recipe=DOCUMENT,
        full=DOCUMENT,
        frozen={"title": "More code helps", "design": {"seeds": 2}},
        control={"balance": {"weight": 0.01}},
        code=CodeState(commit="c" * 40, dirty=False, workbench="0.1.0"),
        environment={"python": "3.11"},
        data=DATA,
        arms=["control", "treatment"],
        num_seeds=2,
        host={"cpu": "any"},
        approvals=ApprovalRule(required=1, reviewers={"ann": str(REVIEWER.verifier)}),
    )


def amendment(subject: str, rests_on: list[str]) -> Amendment:
    return Amendment(
        experiment=subject,
        changes=[FieldChange(document="proposal", path="design.seeds", old=2, new=3)],
        reason_class="error",
        reason="two seeds are too few",
        timing="before_any_run",
        rests_on=rests_on,
        effect="none",
        proposal=DOCUMENT,
        recipe=DOCUMENT,
        full=DOCUMENT,
        frozen={"title": "More code helps", "design": {"seeds": 3}},
        control={"balance": {"weight": 0.01}},
        data=DATA,
        num_seeds=3,
    )


def approval(log: ForgedLog, leaf: str) -> Approval:
    text = f"workbench approval v1\n{log.origin}\n{leaf}\n"
    return Approval(reviewer="ann", note=sign_note(text, REVIEWER))


def file(log: ForgedLog, subject: str) -> Entry:
    """Append an embargo, the registration under it and the anchor of that."""
    log.add(Embargo(until="2026-06-30", reason="a patent"), subject=subject)
    registered = log.add(registration(subject), subject=subject)
    head = log.head()
    anchor = Anchor(method="embedded", head=head.note, tree_size=head.size)
    log.add(anchor, subject=subject, refs=[registered.leaf])
    return registered


def tell_changes() -> ForgedLog:
    """Return the log of the second story, its redacted body erased, the others all there."""
    log = ForgedLog()
    registered = file(log, FIRST)
    log.add(approval(log, registered.leaf), subject=FIRST, refs=[registered.leaf])
    changed = log.add(amendment(FIRST, [registered.id]), subject=FIRST, refs=[registered.leaf])
    log.add(approval(log, changed.leaf), subject=FIRST, refs=[changed.leaf])
    log.rotate("author")
    (embargo,) = log.entries(kind="embargo")
    log.add(Reveal(reason="granted"), subject=FIRST, refs=[embargo.leaf])
    private = log.add(Note(text="call Ann at home"), subject=FIRST)
    redaction = Redaction(reason="a telephone number", what="personal_data")
    log.add(redaction, subject=FIRST, refs=[private.leaf])
    log.hide(private.sequence)
    log.rotate("log")
    gone = Withdrawal(reason="no time", timing="before_any_run", rests_on=[registered.id])
    log.add(gone, subject=FIRST, refs=[registered.leaf])
    file(log, SECOND)
    log.add(Note(text="the end"), subject="lab")
    return log
