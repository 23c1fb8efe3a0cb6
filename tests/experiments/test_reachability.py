"""Which outcomes a rule can reach, and how likely: refused, doubted or told at ``check``."""

from datetime import date
from pathlib import Path

import pytest

from tests.experiments.test_checking import edited, line_of, shown
from tests.reports.sample import MemoryLog, registration, sample_log
from workbench.experiments.checking import Checked, check
from workbench.experiments.draft import proposal_draft
from workbench.experiments.noise import Noise
from workbench.experiments.planned_rules import planned_rules
from workbench.experiments.reachability import rule_reach
from workbench.layout import Layout
from workbench.registry.located import read_yaml

CORPUS = "builtin-code-docs-math@1"
ALPHA = "  alpha: 0.05"


def noise(sd: float) -> str:
    return f"{ALPHA}\n  noise: {{sd: {sd}, source: a pilot}}"


def measured_log() -> MemoryLog:
    """Return a log whose earlier experiment was on the scaffold's corpus."""
    log = sample_log()
    data = registration().data.model_copy(update={"corpus": CORPUS})
    log.replace_body("registration", data=data)
    return log


def checked(
    layout: Layout, folder: Path, *edits: tuple[str, str], source: object = None
) -> Checked:
    for old, new in edits:
        edited(folder / "proposal.md", old, new)
    return check(layout, "1", source=source)  # type: ignore[arg-type]


def test_rule_says_which_bounds_give_each_outcome_and_how_likely(
    layout: Layout, folder: Path
) -> None:
    found = checked(layout, folder, (ALPHA, noise(0.003)))
    assert found.faults == ()
    rule = found.rule
    assert rule is not None
    told = {outcome.outcome: outcome.given_by for outcome in rule.outcomes}
    assert told == {
        "supported": "L > 0 and U >= 0.01",
        "refuted": "U < 0.01",
        "inconclusive": "otherwise",
        "void": "a seed missing or diverged",
    }
    chances = {o.outcome: o.if_effect for o in rule.outcomes if o.if_effect is not None}
    assert sum(chances.values()) == pytest.approx(1)
    assert rule.power == chances["supported"] > 0.8
    other = {o.outcome: o.if_other for o in rule.outcomes if o.if_other is not None}
    assert other["supported"] < 0.05 < other["refuted"]


def test_rule_without_known_noise_has_no_chances(layout: Layout, folder: Path) -> None:
    rule = checked(layout, folder).rule
    assert rule is not None
    assert (rule.noise, rule.power, rule.seeds_for_power) == (None, None, None)
    assert {outcome.if_effect for outcome in rule.outcomes} == {None}


def test_low_power_is_refused_until_the_proposal_owns_up_to_it(
    layout: Layout, folder: Path
) -> None:
    found = checked(layout, folder, (ALPHA, noise(0.01)))
    (fault,) = found.faults
    assert "a true improvement of 0.01 is shown with a chance of" in fault.message
    assert "0.01, assumed: a pilot" in fault.message
    assert fault.where.endswith(f":{line_of(folder / 'proposal.md', '  underpowered:')}")
    needed = found.rule.seeds_for_power if found.rule else None
    assert f"write seeds: {needed} and fixed({needed})" in fault.remedy
    owned = checked(layout, folder, ("underpowered: false", "underpowered: true"))
    assert owned.faults == owned.warnings == ()


def test_remedy_for_low_power_gives_the_power(layout: Layout, folder: Path) -> None:
    rule = checked(layout, folder, (ALPHA, noise(0.01))).rule
    needed = rule.seeds_for_power if rule else 0
    found = checked(
        layout,
        folder,
        ("seeds: 3", f"seeds: {needed}"),
        ("stopping: fixed(3)", f"stopping: fixed({needed})"),
    )
    assert found.faults == (), shown(found.faults)
    assert found.rule is not None
    assert found.rule.power is not None
    assert found.rule.power >= 0.8


def test_underpowered_without_need_is_doubted(layout: Layout, folder: Path) -> None:
    edits = [(ALPHA, noise(0.001)), ("underpowered: false", "underpowered: true")]
    found = checked(layout, folder, *edits)
    assert found.faults == ()
    assert "the power is 0.96" in shown(found.warnings)


def test_noise_that_the_lab_measured_counts_where_none_is_stated(
    layout: Layout, folder: Path
) -> None:
    found = checked(layout, folder, source=measured_log())
    rule = found.rule
    assert rule is not None
    assert rule.noise is not None
    assert rule.noise.source == "full-scale seeds of 0001"
    assert "is shown with a chance of" in shown(found.faults)


def test_noise_stated_far_below_the_measured_is_doubted(layout: Layout, folder: Path) -> None:
    found = checked(layout, folder, (ALPHA, noise(0.001)), source=measured_log())
    assert found.faults == ()
    assert "less than what this lab measured: 0.0047" in shown(found.warnings)
    assert found.rule is not None
    assert found.rule.noise is not None
    assert found.rule.noise.origin == "assumed"


def test_first_version_has_no_word_for_low_power_and_is_only_warned(
    layout: Layout, folder: Path
) -> None:
    file = folder / "proposal.md"
    text = file.read_text("utf-8").replace("proposal: v2", "proposal: v1")
    new = ("evaluation_set_hash:", "underpowered:")
    lines = [line for line in text.split("\n") if not line.strip().startswith(new)]
    file.write_text("\n".join(lines), "utf-8")
    found = check(layout, "1", source=measured_log())
    assert found.faults == (), shown(found.faults)
    assert "is shown with a chance of" in shown(found.warnings)


UNREACHABLE = [
    ([("superior(0.01)", "equivalent(0.01)"), (ALPHA, noise(0.5))], "  claim:",
     "'supported' cannot be reached, whatever the truth is", "or a larger margin"),
    ([("superior(0.01)", "superior(11)"), ("effect: 0.01", "effect: 11")], "  claim:",
     "a difference that no two models have", "a smaller one"),
    ([("superior(0.01)", "superior_by(11)"), ("effect: 0.01", "effect: 12")], "  claim:",
     "bits per byte lie between 0 and 11", "a smaller one"),
    ([("guardrails: []", "guardrails: [{metric: bpb_code, at_most: 0.0}]")], "  guardrails",
     "supported cannot be reached", "above the control's value"),
    ([("guardrails: []", "guardrails: [{metric: bpb_code, at_most: 11.5}]")], "  guardrails",
     "can never be broken", "less than 11"),
    ([("contingencies: []",
       "contingencies: [{phase: cooldown, when: a, then: b, max_uses: 1}]")], "contingencies:",
     "phase 'cooldown' is not in the recipe", "known here: any, warmup, stable, decay"),
    ([("# embargo:", "embargo: {until: 2030-02-30, reason: x}\n# embargo:")], "embargo: {until",
     "is no day", "2030-12-31"),
]  # fmt: skip


@pytest.mark.parametrize(("edits", "at", "message", "remedy"), UNREACHABLE)
def test_rule_that_cannot_fire_is_refused_with_the_reason(
    layout: Layout,
    folder: Path,
    edits: list[tuple[str, str]],
    at: str,
    message: str,
    remedy: str,
) -> None:
    faults = checked(layout, folder, *edits).faults
    found = [fault for fault in faults if message in fault.message]
    assert len(found) == 1, shown(faults)
    assert found[0].where.endswith(f":{line_of(folder / 'proposal.md', at)}")
    assert remedy in found[0].remedy


def test_embargo_that_is_over_is_refused(layout: Layout, folder: Path) -> None:
    edit = ("# embargo:", "embargo: {until: 2030-01-31, reason: x}\n# embargo:")
    edited(folder / "proposal.md", *edit)
    assert check(layout, "1", today=date(2030, 1, 31)).faults == ()
    (fault,) = check(layout, "1", today=date(2030, 2, 1)).faults
    assert "is over already" in fault.message


@pytest.mark.parametrize(
    ("claim", "effect", "other"),
    [
        ("superior(0.01)", 0.01, 0.0),
        ("superior_by(0.01)", 0.02, 0.0),
        ("non_inferior(0.01)", 0.0, -0.01),
        ("equivalent(0.01)", 0.0, 0.01),
    ],
)
def test_power_is_for_the_truth_that_each_claim_is_about(
    folder: Path, claim: str, effect: float, other: float
) -> None:
    text = (folder / "proposal.md").read_text("utf-8").split("---\n")[1]
    draft = proposal_draft(read_yaml(text.replace("superior(0.01)", claim), "proposal.md"))
    (planned,) = planned_rules(draft, {})
    rule = rule_reach(draft, planned, Noise(sd=0.001, origin="assumed", source="a pilot"))
    assert (rule.effect, rule.other) == (effect, other)
    assert rule.power is not None
    # superior(δ) is refuted by chance with α where the truth is δ itself.
    assert rule.power > 0.94
    by_name = {outcome.outcome: outcome for outcome in rule.outcomes}
    at_other = by_name["supported"].if_other
    assert at_other is not None
    assert at_other <= 0.06


def test_rule_with_guardrails_says_that_they_decide_too(layout: Layout, folder: Path) -> None:
    edit = ("guardrails: []", "guardrails: [{metric: bpb_code, at_most: 3.0}]")
    rule = checked(layout, folder, edit, ("rule: arm_void", "rule: exclude")).rule
    assert rule is not None
    told = {outcome.outcome: outcome.given_by for outcome in rule.outcomes}
    assert told["supported"].endswith("guardrails held")
    assert told["refuted"].endswith("or a guardrail broken")
    assert told["void"] == "under 2 seeds left in an arm"


def test_rule_is_none_while_its_parts_are_not_sound(layout: Layout, folder: Path) -> None:
    assert checked(layout, folder, ("superior(0.01)", "superior(-)")).rule is None


SECOND = """
  - id: H2
    statement: code does not suffer
    direction: treatment_lower
    mechanism: it shares the experts
    would_change_my_mind: a loss of 0.01
    minimum_effect: 0.01

# What differs between"""
MEMBER = "{hypothesis: H2, metric: bpb_macro, direction: minimize, claim: non_inferior(0.01)}"
FAMILY = [
    ("\n# What differs between", SECOND),
    ("multiplicity: none", f"multiplicity: holm\n  family:\n    - {MEMBER}"),
]
GROUP = [("stopping: fixed(3)", "stopping: group(3,5,8)"), ("\n  seeds: 3", "\n  seeds: 8")]


def test_sequential_rule_has_its_simulated_power_and_seeds(layout: Layout, folder: Path) -> None:
    found = checked(layout, folder, *GROUP, (ALPHA, noise(0.005)))
    assert found.faults == (), shown(found.faults)
    rule = found.rule
    assert rule is not None
    assert rule.simulated == 20_000
    assert rule.power == pytest.approx(0.92, abs=0.01)
    assert rule.mean_seeds == pytest.approx(5.3, abs=0.1)
    assert rule.is_sequential
    assert (rule.stopping, rule.seeds, rule.share) == ("group(3,5,8)", 8, 0.05)
    # One look at 5 seeds is Welch's, in closed form, and has less.
    fixed = [("stopping: group(3,5,8)", "stopping: fixed(5)"), ("\n  seeds: 8", "\n  seeds: 5")]
    other = checked(layout, folder, *fixed).rule
    assert other is not None
    assert other.power is not None
    assert (other.simulated, other.mean_seeds) == (None, 5.0)
    assert other.power < rule.power


def test_low_power_of_a_sequential_rule_is_mended_by_its_last_look(
    layout: Layout, folder: Path
) -> None:
    found = checked(layout, folder, *GROUP, (ALPHA, noise(0.008)))
    (fault,) = found.faults
    needed = found.rule.seeds_for_power if found.rule else None
    assert f"write seeds: {needed} and group(3,5,{needed}) for power 0.8" in fault.remedy
    mended = checked(
        layout,
        folder,
        ("group(3,5,8)\n", f"group(3,5,{needed})\n"),
        ("\n  seeds: 8", f"\n  seeds: {needed}"),
    )
    assert mended.faults == (), shown(mended.faults)


def test_low_power_of_an_anytime_rule_is_mended_by_more_seeds(layout: Layout, folder: Path) -> None:
    edits = [
        ("interval: welch_t", "interval: paired_t"),
        ("pairing: none", "pairing: seed_index"),
        ("stopping: fixed(3)", "stopping: anytime"),
        ("\n  seeds: 3", "\n  seeds: 5"),
        (ALPHA, noise(0.008)),
    ]
    found = checked(layout, folder, *edits)
    (fault,) = found.faults
    needed = found.rule.seeds_for_power if found.rule else None
    assert fault.remedy.startswith(f"write seeds: {needed} for power 0.8")
    mended = checked(layout, folder, ("\n  seeds: 5", f"\n  seeds: {needed}"))
    assert mended.faults == (), shown(mended.faults)


def test_claims_of_a_family_have_their_power_at_their_share(layout: Layout, folder: Path) -> None:
    alone = checked(layout, folder, (ALPHA, noise(0.002))).rule
    found = checked(layout, folder, *FAMILY)
    assert found.faults == (), shown(found.faults)
    first, (second,) = found.rule, found.family
    assert first is not None
    assert alone is not None
    assert (first.alpha, first.share, second.share) == (0.05, 0.025, 0.025)
    assert (second.hypothesis, second.effect, second.other) == ("H2", 0.0, -0.01)
    assert first.power is not None
    assert alone.power is not None
    assert first.power < alone.power
    assert second.noise == first.noise  # the same metric


def test_low_power_of_a_further_claim_is_doubted_and_not_refused(
    layout: Layout, folder: Path
) -> None:
    edits = [
        *FAMILY,
        (ALPHA, noise(0.002)),
        ("claim: non_inferior(0.01)", "claim: equivalent(0.005)"),
    ]
    found = checked(layout, folder, *edits)
    assert found.faults == (), shown(found.faults)
    assert "H2: a true improvement of 0 is shown with a chance of" in shown(found.warnings)
    assert "at its share 0.025 of alpha" in shown(found.warnings)


def test_further_claim_of_another_metric_has_no_noise_of_the_primary(
    layout: Layout, folder: Path
) -> None:
    edits = [*FAMILY, (ALPHA, noise(0.002)), ("metric: bpb_macro, d", "metric: bpb_code, d")]
    found = checked(layout, folder, *edits)
    assert found.family[0].noise is None
    assert found.family[0].power is None


def test_largest_spread_of_a_simulated_rule_is_planned_with(layout: Layout, folder: Path) -> None:
    plan = checked(layout, folder, *GROUP).plan
    assert plan is not None
    assert plan.detectable_sd is not None
    assert 0.005 < plan.detectable_sd < 0.008


def test_exact_test_beyond_its_most_seeds_is_told_so(layout: Layout, folder: Path) -> None:
    edits = [("interval: welch_t", "interval: perm_exact"), (ALPHA, noise(0.02))]
    (fault,) = checked(layout, folder, *edits).faults
    assert "no 10 seeds an arm reach power 0.8" in fault.remedy
