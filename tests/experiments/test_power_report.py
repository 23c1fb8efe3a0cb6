"""``workbench power``: seeds against the detectable effect, by the rule in force."""

from pathlib import Path

import pytest

from tests.experiments.test_checking import edited
from tests.experiments.test_reachability import ALPHA, FAMILY, GROUP, measured_log, noise
from tests.labs import SUBJECT, LabFolder
from tests.reports.sample import registration
from workbench.errors import InvalidFileError, NotFoundError
from workbench.experiments.checking import check
from workbench.experiments.noise import Noise
from workbench.experiments.power_report import PowerReport, power_report
from workbench.experiments.proposing import propose
from workbench.layout import Layout
from workbench.registry.entries import StatedPower


def reported(layout: Layout, folder: Path, *edits: tuple[str, str], **named: object) -> PowerReport:
    for old, new in edits:
        edited(folder / "proposal.md", old, new)
    return power_report(layout, "1", source=None, **named)  # type: ignore[arg-type]


def test_report_agrees_with_the_check(layout: Layout, folder: Path) -> None:
    report = reported(layout, folder, *GROUP, (ALPHA, noise(0.006)))
    (claim,) = report.claims
    rule = check(layout, "1").rule
    assert rule is not None
    by_truth = {scenario.truth: scenario for scenario in claim.scenarios}
    assert [s.true for s in claim.scenarios] == [0.0, 0.01, 0.02]
    assert by_truth["minimum"].chances["supported"] == rule.power
    assert by_truth["nothing"].mean_seeds == rule.mean_seeds_other
    assert list(by_truth["expected"].stopped) == [3, 5, 8]
    assert (claim.seeds_for_power, claim.noise) == (rule.seeds_for_power, rule.noise)
    assert (report.basis, claim.simulated) == ("draft", 20_000)


def test_report_compares_the_rule_with_other_numbers_of_seeds(layout: Layout, folder: Path) -> None:
    (claim,) = reported(layout, folder, *GROUP, (ALPHA, noise(0.008))).claims
    stopping = [plan.stopping for plan in claim.plans]
    assert stopping[:3] == ["group(3,5,8)", f"group(3,5,{claim.seeds_for_power})", "fixed(3)"]
    assert claim.plans[1].power >= 0.8 > claim.plans[0].power
    assert "fixed(8)" in stopping
    detectable = {plan.stopping: plan.detectable for plan in claim.plans}
    assert detectable["fixed(8)"] < detectable["group(3,5,8)"] < detectable["fixed(3)"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("edits", "first", "others"),
    [
        ([], "fixed(3)", {"fixed(4)", "fixed(20)"}),
        ([("interval: welch_t", "interval: perm_exact")], "fixed(3)", {"fixed(4)", "fixed(10)"}),
        (
            [
                ("interval: welch_t", "interval: paired_t"),
                ("pairing: none", "pairing: seed_index"),
                ("stopping: fixed(3)", "stopping: anytime"),
                ("\n  seeds: 3", "\n  seeds: 6"),
            ],
            "anytime",
            {"anytime", "fixed(6)"},
        ),
    ],
)
def test_report_begins_with_the_registered_rule(
    layout: Layout, folder: Path, edits: list[tuple[str, str]], first: str, others: set[str]
) -> None:
    (claim,) = reported(layout, folder, *edits, sd=0.01).claims
    stopping = [plan.stopping for plan in claim.plans]
    assert stopping[0] == first
    assert others <= set(stopping[1:])
    assert claim.noise is not None
    assert (claim.noise.sd, claim.noise.sentence()) == (0.01, "0.01, assumed: --sd")


def test_exact_test_is_not_compared_beyond_what_it_can_enumerate(
    layout: Layout, folder: Path
) -> None:
    edit = ("interval: welch_t", "interval: perm_exact")
    (claim,) = reported(layout, folder, edit, sd=0.01).claims
    assert max(plan.seeds for plan in claim.plans) == 10


def test_report_of_a_draft_needs_the_rules_parts_only(layout: Layout) -> None:
    folder = propose(layout, "A question", owner="lead")
    with pytest.raises(InvalidFileError, match="is not complete") as refused:
        reported(layout, folder, sd=0.01)
    told = [fault.message.split(" ")[0] for fault in refused.value.faults]
    assert told == ["hypotheses[0].minimum_effect", "decision.claim"]
    assert refused.value.remedy.startswith("workbench check 0001")
    answers = [("effect: FILL IN", "effect: 0.01"), ("superior(FILL IN)", "superior(0.01)")]
    (claim,) = reported(layout, folder, *answers, sd=0.01).claims
    # What is expected is not answered yet.
    assert [scenario.truth for scenario in claim.scenarios] == ["nothing", "minimum"]
    (folder / "full.yaml").unlink()
    assert reported(layout, folder, sd=0.01).claims == (claim,)


def test_report_of_an_unsound_rule_tells_its_faults(layout: Layout, folder: Path) -> None:
    with pytest.raises(InvalidFileError) as refused:
        reported(layout, folder, ("stopping: fixed(3)", "stopping: group(5,3)"), sd=0.01)
    (fault,) = refused.value.faults
    assert "do not rise" in fault.message


def test_report_without_known_noise_names_the_commands_that_help(
    layout: Layout, folder: Path
) -> None:
    with pytest.raises(NotFoundError, match="differ in bpb_macro is not known") as refused:
        reported(layout, folder)
    assert "workbench power 0001 --sd 0.01" in refused.value.remedy
    assert "workbench noise 0001" in refused.value.remedy


def test_report_takes_measured_noise_of_the_same_corpus(layout: Layout, folder: Path) -> None:
    report = power_report(layout, "1", source=measured_log())  # type: ignore[arg-type]
    found = report.claims[0].noise
    assert found is not None
    assert found.source == "full-scale seeds of 0001"


def test_report_of_a_family_is_at_each_claims_share(layout: Layout, folder: Path) -> None:
    edit = ("metric: bpb_macro, d", "metric: bpb_code, d")
    report = reported(layout, folder, *FAMILY, edit, (ALPHA, noise(0.003)))
    first, second = report.claims
    assert (first.share, second.share, second.noise) == (0.025, 0.025, None)
    assert (second.scenarios, second.plans, second.simulated) == ((), (), None)
    both = reported(layout, folder, sd=0.003).claims
    assert both[1].noise is not None
    assert both[1].scenarios


def test_report_of_a_recipe_that_is_no_yaml_is_of_the_proposal_alone(
    layout: Layout, folder: Path
) -> None:
    (layout.proxies / "mixture-lambda-phases.yaml").write_text("a: [", "utf-8")
    assert reported(layout, folder, sd=0.01).claims[0].plans


def test_report_of_a_registered_experiment_is_of_what_is_in_force(
    registered_lab: LabFolder,
) -> None:
    file = registered_lab.root / "experiments" / SUBJECT / "proposal.md"
    before = registered_lab.open().power("1", sd=0.01)
    edited(file, "alpha: 0.05", "alpha: 0.01")
    assert registered_lab.open().power("1", sd=0.01) == before
    assert before.basis == "in_force"
    edited(file, file.read_text("utf-8"), "no front matter")
    assert registered_lab.open().power("1", sd=0.01) == before


@pytest.mark.parametrize("origin", ["assumed", "measured"])
def test_report_takes_the_noise_that_was_registered(
    layout: Layout, folder: Path, origin: str
) -> None:
    log = measured_log()
    body = registration(experiment=folder.name)
    stated = StatedPower(
        effect=0.02, noise_sd=0.007, noise_source=f"{origin}: seeds of 0009", chances={}
    )
    log.append(body.model_copy(update={"power": stated}), folder.name)
    report = power_report(layout, "1", source=log)  # type: ignore[arg-type]
    assert report.basis == "in_force"
    assert report.claims[0].noise == Noise(
        sd=0.007,
        origin=origin,
        source="seeds of 0009, as registered",  # type: ignore[arg-type]
    )
