"""The verdict: who may ask for it, what it reads, and what it says of every kind of evidence."""

import itertools
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.labs import SUBJECT, LabFolder
from workbench.data.sealed import open_sealed
from workbench.errors import ConflictError, IntegrityError, NotRegisteredError
from workbench.experiments import evidence, sealed_evaluation, verdicts
from workbench.experiments.plan import ExperimentPlan, registered_plan
from workbench.experiments.progress import silent
from workbench.experiments.promotion import promotion_body, required_promotion
from workbench.experiments.verdicts import Bench, decide_verdict
from workbench.registry.entries import Verdict
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry
from workbench.registry.proposal import Guardrail, Proposal
from workbench.training.config import RunConfig
from workbench.training.evaluate import evaluate_tokens, load_weights

pytestmark = pytest.mark.usefixtures("one_thread")


def decided(lab: LabFolder, change: Callable[[Proposal], Proposal], **named: Any) -> Verdict:
    """Return the verdict as if another proposal had been registered."""
    opened = lab.open()
    plan = registered_plan(opened.source(), SUBJECT)
    with opened.ledger() as ledger:
        bench = bench_of(lab, replace(plan, proposal=change(plan.proposal)), ledger)
        entry = decide_verdict(bench, incomplete=named.get("incomplete", False))
    assert isinstance(entry.body, Verdict)
    return entry.body


def bench_of(lab: LabFolder, plan: ExperimentPlan, ledger: Ledger) -> Bench:
    return Bench(
        plan=plan,
        promotion=required_promotion(ledger, plan),
        ledger=ledger,
        corpus=lab.corpus(),
        folder=lab.runs(),
        progress=silent,
        begin=lambda: None,
    )


def as_registered(proposal: Proposal) -> Proposal:
    return proposal


def test_verdict_values_are_those_of_the_final_models_on_the_test_split(
    decided_lab: LabFolder,
) -> None:
    (verdict,) = decided_lab.bodies("verdict")
    (promotion,) = decided_lab.bodies("promotion")
    corpus = decided_lab.corpus()
    tokens = open_sealed(corpus, lambda: "00" * 32)
    ends = {body.run: body for body in decided_lab.bodies("run_ended")}
    assert {arm: len(values) for arm, values in verdict.values.items()} == {
        "control": 3,
        "treatment": 3,
    }
    for arm, values in verdict.values.items():
        config = RunConfig.model_validate(promotion.configs[arm])
        for value in values:
            sha256 = ends[value.run].checkpoint_sha256
            assert value.checkpoint_sha256 == sha256
            path = decided_lab.runs(value.run) / "checkpoints" / "step-00000012.ckpt"
            found = evaluate_tokens(
                load_weights(config, path, sha256), tokens, corpus.token_bytes,
                seq_len=16, max_bytes=None,
            )  # fmt: skip
            assert value.value == found["bpb_macro"]
    means = {a: sum(v.value for v in vs) / 3 for a, vs in verdict.values.items()}
    assert verdict.estimate == pytest.approx(means["control"] - means["treatment"])
    assert verdict.outcome == "supported"
    assert verdict.action == promoted_action(decided_lab, "supported")
    assert {score.target for score in verdict.scores} == {"control", "treatment", "improvement"}


def promoted_action(lab: LabFolder, outcome: str) -> str:
    plan = registered_plan(lab.open().source(), SUBJECT)
    return str(getattr(plan.proposal.decision.actions, outcome))


def test_verdict_comes_after_one_exposure_that_comes_after_the_runs(
    decided_lab: LabFolder,
) -> None:
    entries = decided_lab.entries()
    (exposure,) = decided_lab.entries("exposure")
    (verdict,) = decided_lab.entries("verdict")
    last_end = decided_lab.entries("run_ended")[-1]
    assert last_end.sequence < exposure.sequence < verdict.sequence
    assert exposure.leaf in verdict.refs
    assert exposure.body.what == "sealed_test"
    assert len(exposure.body.runs) == 6
    cited = {entry.kind for entry in entries if entry.leaf in verdict.refs}
    assert cited == {"registration", "promotion", "forecast", "exposure", "run_ended"}
    assert verdict.signature


def test_second_verdict_is_refused_without_a_second_look(decided_lab: LabFolder) -> None:
    size = len(decided_lab.entries())
    for incomplete in (False, True):
        with pytest.raises(ConflictError, match="already has its verdict, supported") as refused:
            decided_lab.open().verdict("1", incomplete=incomplete)
        assert refused.value.remedy == "workbench chronicle 0001"
    assert len(decided_lab.entries()) == size


def test_nothing_is_evaluated_unless_the_exposure_is_in_the_ledger(
    finished_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Ledger.append

    def refuse(self: Ledger, body: Any, **named: Any) -> Entry:
        if body.kind == "exposure":
            raise IntegrityError("the store is shorter than its last signed head")
        return append(self, body, **named)

    def evaluated(*arguments: object, **named: object) -> None:
        raise AssertionError("a model was evaluated on the sealed split")

    monkeypatch.setattr(Ledger, "append", refuse)
    monkeypatch.setattr(sealed_evaluation, "evaluate_tokens", evaluated)
    with pytest.raises(IntegrityError, match="shorter"):
        finished_lab.open().verdict("1")
    assert finished_lab.bodies("verdict") == []


@pytest.mark.slow
def test_loop_up_to_the_verdict_never_reads_the_test_split(registered_lab: LabFolder) -> None:
    """Leak test: the test tokens are nonsense of the right size until the verdict asks for them."""
    (sealed,) = registered_lab.root.glob(".workbench/corpora/*/sealed")
    kept = Path(shutil.copytree(sealed, registered_lab.home / "kept"))
    for file in sealed.iterdir():
        file.write_bytes(b"\xff" * file.stat().st_size)  # token 65535: no embedding has it
    lab = registered_lab.open()
    lab.sweep("1")
    lab.promote("1")
    lab.run("1")
    with pytest.raises(IntegrityError, match="is not the file that was built"):
        lab.verdict("1")
    shutil.rmtree(sealed)
    kept.rename(sealed)


def test_verdict_with_a_run_missing_is_refused_and_names_it(
    promoted_lab: LabFolder,
) -> None:
    with pytest.raises(ConflictError, match="6 of 6 runs are not finished") as refused:
        promoted_lab.open().verdict("1")
    assert "treatment/seed-2" in refused.value.message
    assert "workbench run 0001" in refused.value.remedy
    assert promoted_lab.bodies("exposure") == []


def test_incomplete_verdict_is_void_and_opens_nothing(promoted_lab: LabFolder) -> None:
    body = promoted_lab.open().verdict("1", incomplete=True).body
    assert isinstance(body, Verdict)
    assert body.outcome == "void"
    assert "run control/seed-0 is missing" in body.void_reasons
    assert body.action == promoted_action(promoted_lab, "void")
    assert (body.estimate, body.scores) == (None, [])
    assert promoted_lab.bodies("exposure") == []
    assert promoted_lab.open().verify().passed


def test_incomplete_verdict_with_every_run_there_is_the_ordinary_one(
    finished_lab: LabFolder,
) -> None:
    body = finished_lab.open().verdict("1", incomplete=True).body
    assert isinstance(body, Verdict)
    assert body.outcome == "supported"


def test_verdict_before_a_promotion_is_refused(swept_lab: LabFolder) -> None:
    with pytest.raises(ConflictError, match="no confirmatory promotion"):
        swept_lab.open().verdict("1")


def test_verdict_of_an_unregistered_experiment_is_refused(filed_lab: LabFolder) -> None:
    with pytest.raises(NotRegisteredError):
        filed_lab.open().verdict("1")


def test_diverged_run_voids_the_verdict_by_the_registered_rule(
    diverged_stage: LabFolder, use: Callable[[LabFolder], LabFolder]
) -> None:
    lab = use(diverged_stage)
    body = lab.open().verdict("1").body
    assert isinstance(body, Verdict)
    assert body.outcome == "void"
    assert body.void_reasons == ["run treatment/seed-1 diverged, and the rule is arm_void"]
    assert lab.bodies("exposure") == []
    assert lab.open().verify().passed


def test_diverged_run_is_left_out_where_that_was_registered(
    diverged_stage: LabFolder, use: Callable[[LabFolder], LabFolder]
) -> None:
    lab = use(diverged_stage)

    def excluding(proposal: Proposal) -> Proposal:
        rule = proposal.divergence.model_copy(update={"rule": "exclude"})
        return proposal.model_copy(update={"divergence": rule})

    body = decided(lab, excluding)
    assert body.outcome in ("supported", "inconclusive")
    values = {value.run: value.value for value in body.values["treatment"]}
    assert values["treatment/seed-1"] is None, "shown as missing, never as a number"
    numbers = [value for value in values.values() if value is not None]
    assert len(numbers) == 2
    assert body.per_metric["bpb_macro"]["treatment"] == pytest.approx(sum(numbers) / 2)
    (exposure,) = lab.bodies("exposure")
    assert "treatment/seed-1" not in exposure.runs


@pytest.mark.parametrize(("at_most", "outcome"), [(1000.0, "supported"), (0.001, "refuted")])
def test_guardrail_that_did_not_hold_refutes_what_was_supported(
    finished_lab: LabFolder, at_most: float, outcome: str
) -> None:
    def guarded(proposal: Proposal) -> Proposal:
        guardrails = (Guardrail(metric="bpb_code", at_most=at_most),)
        measures = proposal.measures.model_copy(update={"guardrails": guardrails})
        return proposal.model_copy(update={"measures": measures})

    body = decided(finished_lab, guarded)
    (guardrail,) = body.guardrails
    assert guardrail.treatment_mean == pytest.approx(body.per_metric["bpb_code"]["treatment"])
    assert (body.outcome, guardrail.held) == (outcome, outcome == "supported")
    assert body.action == promoted_action(finished_lab, outcome)


def test_value_that_is_not_a_number_never_wins(
    finished_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NaN is not below any bound, is not 0, and is shown."""

    is_control = itertools.cycle([True, False])  # the arms take turns within each seed

    def nan_for_treatment(*arguments: Any, **named: Any) -> dict[str, float]:
        found = evaluate_tokens(*arguments, **named)
        return found if next(is_control) else dict.fromkeys(found, math.nan)

    def guarded(proposal: Proposal) -> Proposal:
        guardrails = (Guardrail(metric="bpb_code", at_most=1000.0),)
        measures = proposal.measures.model_copy(update={"guardrails": guardrails})
        return proposal.model_copy(update={"measures": measures})

    monkeypatch.setattr(sealed_evaluation, "evaluate_tokens", nan_for_treatment)
    body = decided(finished_lab, guarded)
    assert all(math.isnan(value.value or 0) for value in body.values["treatment"])
    assert not any(math.isnan(value.value or 0) for value in body.values["control"])
    assert body.outcome == "void"
    assert not body.guardrails[0].held
    assert body.scores == []


@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_damaged_final_checkpoint_stops_the_verdict_before_the_sealed_split(
    finished_lab: LabFolder, damage: str
) -> None:
    """A2: evidence that is not what the ledger says is never judged."""
    file = finished_lab.runs("treatment/seed-2") / "checkpoints" / "step-00000012.ckpt"
    if damage == "gone":
        file.unlink()
    else:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    with pytest.raises(IntegrityError, match="final checkpoint of treatment/seed-2"):
        finished_lab.open().verdict("1")
    assert finished_lab.bodies("exposure") == []
    body = finished_lab.open().verdict("1", incomplete=True).body
    assert isinstance(body, Verdict)
    assert body.outcome == "void"
    assert "treatment/seed-2" in body.void_reasons[0]
    assert finished_lab.bodies("exposure") == []


def test_run_of_another_configuration_voids_the_verdict(
    finished_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(entry: Entry) -> Any:
        body = promotion_body(entry)
        return body.model_copy(
            update={"config_sha256": body.config_sha256 | {"control": "sha256:00"}}
        )

    monkeypatch.setattr(evidence, "promotion_body", other)
    body = decided(finished_lab, as_registered)
    assert body.outcome == "void"
    assert len(body.void_reasons) == 3
    assert "another configuration than was promoted" in body.void_reasons[0]


@pytest.mark.parametrize("when", ["before the first model", "before the verdict's entry"])
def test_verdict_interrupted_while_it_looked_goes_on_under_the_same_exposure(
    finished_lab: LabFolder, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def die(*arguments: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if when == "before the first model":
            patch.setattr(sealed_evaluation, "evaluate_tokens", die)
        else:
            patch.setattr(verdicts, "_verdict", die)
        with pytest.raises(KeyboardInterrupt):
            finished_lab.open().verdict("1")
    assert (len(finished_lab.bodies("exposure")), finished_lab.bodies("verdict")) == (1, [])
    finished_lab.open().verdict("1")
    assert (len(finished_lab.bodies("exposure")), len(finished_lab.bodies("verdict"))) == (1, 1)
    assert finished_lab.open().verify().passed
