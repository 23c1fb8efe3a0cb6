"""The second story: an embargoed, amended, approved and withdrawn experiment of a log whose keys
were replaced, with a redacted entry and an experiment that is still under embargo."""

from tests.registry.forge import ForgedLog, key
from workbench.registry.entries import (
    Amendment,
    Anchor,
    Approval,
    ApprovalRule,
    ClaimResult,
    CodeState,
    DataState,
    Document,
    Embargo,
    FieldChange,
    Look,
    NoiseFloor,
    Note,
    Redaction,
    Registration,
    Repeat,
    Reveal,
    SeedValue,
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
    "look", "noise_floor",
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


def look() -> Look:
    return Look(
        mode="confirmatory",
        number=1,
        num_seeds=1,
        state="go_on",
        next_seeds=3,
        values={
            "treatment": [
                SeedValue(
                    seed_index=0,
                    value=2.0,
                    run="treatment/seed-0",
                    checkpoint_sha256="e" * 64,
                    metrics={"bpb_code": 1.5},
                )
            ]
        },
        results=[
            ClaimResult(
                hypothesis="H1",
                claim="superior(0.02)",
                metric="bpb_macro",
                direction="minimize",
                outcome="inconclusive",
                estimate=0.25,
                lower=-0.1,
                upper=0.4,
                degrees_of_freedom=3.5,
                interval="welch_t",
                alpha=0.025,
                reason="none",
            )
        ],
        void_reasons=["none"],
    )


def noise_floor() -> NoiseFloor:
    return NoiseFloor(
        recipe="r@1",
        recipe_sha256="a" * 64,
        scale="full",
        experiment=FIRST,
        config_sha256="b" * 64,
        mixture={"code": 0.5, "docs": 0.5},
        corpus="c@1",
        corpus_manifest="d" * 64,
        evaluation_set="validation",
        origin="imported",
        source="runs.csv",
        num_runs=2,
        spreads={"bpb_macro": 0.01},
        device_seconds=9.5,
        repeats=[Repeat(seed="1", state="completed", values={"bpb_macro": 2.0}, mlflow_run="m")],
        code=CodeState(commit="none", dirty=False, workbench="0"),
    )


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
    log.add(noise_floor(), subject="r@1")
    looked = log.add(look(), subject=FIRST, refs=[registered.leaf, changed.leaf])
    log.rotate("author")
    (embargo,) = log.entries(kind="embargo")
    log.add(Reveal(reason="granted"), subject=FIRST, refs=[embargo.leaf])
    private = log.add(Note(text="call Ann at home"), subject=FIRST)
    redaction = Redaction(reason="a telephone number", what="personal_data")
    log.add(redaction, subject=FIRST, refs=[private.leaf])
    log.hide(private.sequence)
    log.rotate("log")
    gone = Withdrawal(reason="no time", timing="outcomes_seen", rests_on=[looked.id])
    log.add(gone, subject=FIRST, refs=[registered.leaf])
    file(log, SECOND)
    log.add(Note(text="the end"), subject="lab")
    return log
