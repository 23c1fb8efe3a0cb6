"""Rules that cannot be registered: each is told at its line, with what to write instead."""

from pathlib import Path
from typing import Any

import pytest

from tests.experiments.test_checking import edited, line_of, shown
from tests.reports.sample import MemoryLog
from workbench.canonical import fingerprint
from workbench.errors import Fault
from workbench.experiments.checking import Checked, check
from workbench.experiments.plan import draft_plan
from workbench.layout import Layout
from workbench.registry.entries import CodeState, NoiseFloor, Note

Edit = tuple[str, str]

WELCH = "interval: welch_t"
FIXED = "stopping: fixed(3)"
SEEDS = "\n  seeds: 3"
NONE = "multiplicity: none"
H2 = """\
  - id: H2
    statement: code does not suffer
    direction: treatment_lower
    mechanism: it shares the experts
    would_change_my_mind: a loss of 0.02
    minimum_effect: 0.02

# What differs between"""
SECOND: Edit = ("\n# What differs between", H2)
PAIRED = [(WELCH, "interval: paired_t"), ("pairing: none", "pairing: seed_index")]


def group(looks: str, seeds: int) -> list[Edit]:
    return [(FIXED, f"stopping: {looks}"), (SEEDS, f"\n  seeds: {seeds}")]


def family(claim: str = "non_inferior(0.02)", metric: str = "bpb_code", **other: str) -> list[Edit]:
    named = {"hypothesis": "H2", "direction": "minimize"} | other
    member = (
        f"{{hypothesis: {named['hypothesis']}, metric: {metric}, "
        f"direction: {named['direction']}, claim: {claim}}}"
    )
    return [SECOND, (NONE, f"multiplicity: holm\n  family:\n    - {member}")]


def checked(layout: Layout, folder: Path, *edits: Edit, source: object = None) -> Checked:
    for old, new in edits:
        edited(folder / "proposal.md", old, new)
    return check(layout, "1", source=source)  # type: ignore[arg-type]


SOUND = [
    group("group(3,5,8)", 8),
    group("group(3, 5, 8)", 8),
    PAIRED,
    [*PAIRED, *group("anytime", 10)],
    [(WELCH, "interval: perm_exact")],
    [(WELCH, "interval: perm_exact"), *group("group(4,5,8)", 8)],
    family(),
    [*family(), (WELCH, "interval: perm_exact"), *group("fixed(4)", 4)],
    [*family("superior(0.02)"), *PAIRED, *group("anytime", 12)],
]


@pytest.mark.parametrize("edits", SOUND)
def test_every_interval_stopping_rule_and_family_can_be_registered(
    layout: Layout, folder: Path, edits: list[Edit]
) -> None:
    found = checked(layout, folder, *edits)
    assert found.faults == (), shown(found.faults)
    assert found.rule is not None
    assert found.plan is not None
    assert found.plan.detectable_sd is not None


UNSOUND = [
    (group("group(3,8,5)", 8), "  stopping:", "group(3,8,5) do not rise", "write group(3,5,8)"),
    (group("group(3,3,8)", 8), "  stopping:", "do not rise", "write group(3,8)"),
    (group("group(1,5)", 5), "  stopping:", "looks at 1 seed, which welch_t cannot", "fixed(5)"),
    (group("group(0,3,5)", 5), "  stopping:", "looks at 0 seeds", "write group(3,5)"),
    (group("group(1)", 3), "  stopping:", "looks at 1 seed,", "fixed(3)"),
    (group("group(5)", 5), "  stopping:", "looks only once", "write fixed(5)"),
    (group("group(3,5,8)", 5), "  stopping:", "does not end at design.seeds 5",
     "write group(3,5), or seeds: 8"),
    (group("group(3,5)", 8), "  stopping:", "does not end at design.seeds 8",
     "write group(3,5,8), or seeds: 5"),
    (group("group(3,5)", 1), "  stopping:", "does not end at design.seeds 1", "write seeds: 5"),
    (group("anytime", 10), "  stopping:", "anytime with welch_t",
     "interval: paired_t and pairing: seed_index"),
    ([*PAIRED, *group("anytime", 2)], "  seeds:", "can show nothing with 2 seeds an arm",
     "write seeds: 3 or more"),
    ([*PAIRED, *group("anytime", 3), *family()], "  seeds:",
     "at alpha 0.025 (its share of 0.05 for 2 claims)", "write seeds: 4 or more"),
    ([*PAIRED, *group("anytime", 1)], "  seeds:", "gives paired_t no interval", "3 or more"),
    ([*PAIRED, *group("anytime", 99), ("alpha: 0.05", "alpha: 1.0e-200")], "  seeds:",
     "can show nothing with 99", "raise alpha"),
    (PAIRED[:1], "  pairing:", "design.pairing is none", "pairing: seed_index under design"),
    (PAIRED[1:], "  pairing:", "welch_t compares no pairs", "write pairing: none"),
    ([(WELCH, "interval: perm_exact"), *group("group(3,5,8)", 8)], "  stopping:",
     "at 3 seeds an arm cannot reach alpha 0.0167 (its share of 0.05 for 3 looks)",
     "write group(4,5,8), or interval: welch_t"),
    ([(WELCH, "interval: perm_exact"), ("alpha: 0.05", "alpha: 0.04")], "  stopping:",
     "its smallest p is 0.05", "write fixed(4) and seeds: 4"),
    ([(WELCH, "interval: perm_exact"), *family()], "  stopping:",
     "alpha 0.025 (its share of 0.05 for 2 claims)", "write fixed(4) and seeds: 4"),
    ([(WELCH, "interval: perm_exact"), ("alpha: 0.05", "alpha: 1.0e-9")], "  stopping:",
     "cannot reach alpha 1e-09", "write interval: welch_t"),
    ([(WELCH, "interval: perm_exact"), *group("fixed(11)", 11)], "  interval:",
     "at 11 seeds an arm has too many splits", "end at 10 seeds"),
    ([(WELCH, "interval: calibrated_t")], "  interval:",
     "mixture, phase_fractions (line", "write interval: welch_t and remove noise_floor"),
    ([("  # noise_floor: ", "  noise_floor: ")], "  noise_floor:",
     "welch_t takes its spread from the arms", "remove noise_floor"),
    ([(NONE, "multiplicity: holm")], "  multiplicity:", "there is no decision.family",
     "multiplicity: none"),
    ([*family(), ("multiplicity: holm", NONE)], "  multiplicity:",
     "2 claims are decided by the same runs", "multiplicity: holm"),
    (family("non_inferior(0.01)", hypothesis="H1"), "    - {hypothesis",
     "H1 is decided twice", "hypothesis: H2"),
    (family(hypothesis="H3"), "    - {hypothesis", "family[0].hypothesis 'H3' is not stated",
     "known here: H1, H2"),
    (family(metric="bpb_law"), "    - {hypothesis", "'bpb_law' is not measured", "bpb_"),
    (family(direction="maximize"), "    - {hypothesis", "calls more bits per byte better",
     "minimize"),
    (family("non_inferior(0.05)"), "    - {hypothesis", "would accept a loss that H2.minimum",
     "write non_inferior(0.02) or less"),
    (family("superior(0.05)"), "    - {hypothesis", "superior(0.05) would refute",
     "write superior(0.02)"),
    (family("equivalent(0)"), "    - {hypothesis", "can never be supported", "below 0.02"),
    ([("\n# What differs between", H2.replace("_lower", "_higher")), family("superior(0.02)")[1]],
     "    direction: treatment_higher", "H2 expects 'treatment_higher'", "treatment_lower"),
    ([("superior(0.01)", "superior(.01)")], "decision:", "decision is no rule: claim", ""),
]  # fmt: skip


@pytest.mark.parametrize(("edits", "at", "message", "remedy"), UNSOUND)
def test_rule_that_cannot_be_is_told_once_at_its_line(
    layout: Layout, folder: Path, edits: list[Edit], at: str, message: str, remedy: str
) -> None:
    faults = checked(layout, folder, *edits).faults
    found = [fault for fault in faults if message in fault.message]
    assert len(found) == len(faults) == 1, shown(faults)
    line = line_of(folder / "proposal.md", f"\n{at}") + 1
    assert found[0].where == f"experiments/{folder.name}/proposal.md:{line}"
    assert remedy in found[0].remedy


@pytest.mark.parametrize("stopping", ["fixed(3,5)", "fixed(999999999999)", "group(3,999999999)"])
def test_stopping_rule_beyond_the_form_or_the_seeds_ends_the_check(
    layout: Layout, folder: Path, stopping: str
) -> None:
    edits = [(WELCH, "interval: perm_exact"), (FIXED, f"stopping: {stopping}")]
    assert checked(layout, folder, *edits).faults


def test_family_is_no_undecided_hypothesis(layout: Layout, folder: Path) -> None:
    found = checked(layout, folder, *family())
    assert found.warnings == (), shown(found.warnings)
    assert "H2 is never decided" in shown(checked(layout, folder, *_without_family()).warnings)


def _without_family() -> list[Edit]:
    return [(family()[1][1], NONE)]


# The noise floor of calibrated_t

ONE_KEY = "[mixture, balance.weight, phase_fractions]"
LEAF = f'noise_floor: "{"0" * 64}"'


@pytest.fixture
def calibrated(layout: Layout, folder: Path) -> Path:
    """An experiment whose arms differ in λ alone, with calibrated_t and a floor to be named."""
    recipe = layout.root / "proxies" / "mixture-lambda-phases.yaml"
    text = recipe.read_text("utf-8")
    start, end = text.index("  mixture:\n    # A point"), text.index("  balance.weight:\n    kind")
    recipe.write_text(text[:start] + text[end : text.index("  phase_fractions:\n    # Ranges")])
    edited(folder / "proposal.md", ONE_KEY, "[balance.weight]")
    edited(folder / "proposal.md", WELCH, "interval: calibrated_t")
    edited(folder / "proposal.md", f"  # {LEAF}", f"  {LEAF}")
    assert shown(check(layout, "1").faults) == ""
    return folder


def floor(layout: Layout, folder: Path, **changes: Any) -> NoiseFloor:
    plan = draft_plan(layout, folder)
    control = plan.full.config(plan.recipe, plan.recipe.control())
    fields: dict[str, Any] = {
        "recipe": plan.recipe.recipe,
        "recipe_sha256": plan.recipe_sha256,
        "scale": "full",
        "experiment": folder.name,
        "config_sha256": fingerprint(control.model_dump(mode="json")),
        "mixture": {"code": 0.4, "docs": 0.3, "math": 0.3},
        "corpus": plan.recipe.corpus.name,
        "evaluation_set": "validation",
        "origin": "run",
        "source": "a test",
        "repeats": [],
        "num_runs": 10,
        "spreads": {"bpb_macro": 0.004, "bpb_code": 0.01},
        "device_seconds": 1.0,
        "code": CodeState(commit="0", dirty=False, workbench="0"),
    }
    return NoiseFloor.model_validate(fields | changes)


def named(folder: Path, leaf: str) -> None:
    edited(folder / "proposal.md", LEAF, f'noise_floor: "{leaf}"')


def test_floor_of_the_control_is_taken_for_the_rule_and_its_power(
    layout: Layout, calibrated: Path
) -> None:
    log = MemoryLog()
    named(calibrated, log.append(floor(layout, calibrated)).leaf)
    found = check(layout, "1", source=log)  # type: ignore[arg-type]
    assert [f for f in found.faults if "noise_floor" in f.message] == [], shown(found.faults)
    assert found.rule is not None
    assert found.rule.noise is not None
    assert (found.rule.noise.sd, found.rule.noise.freedom) == (0.004, 9)
    assert found.rule.noise.source.startswith("noise floor ")
    assert found.rule.simulated == 20_000


FLOORS: list[tuple[dict[str, Any], str]] = [
    ({"num_runs": 9}, "is of 9 runs, and calibrated_t takes at least 10"),
    ({"spreads": {"bpb_code": 0.01}}, "has no spread of bpb_macro, only of bpb_code"),
    ({"spreads": {"bpb_macro": 0.0}}, "has no spread of bpb_macro, only of nothing"),
    ({"corpus": "other@1"}, "is of the corpus other@1, and the recipe's is builtin-code-docs-math"),
    ({"scale": "s2", "experiment": ""}, "is of scale s2 of mixture-lambda-phases@1"),
    ({"config_sha256": "sha256:" + "ab" * 32, "experiment": "0007-other"},
     "is of another configuration (abababababab, full scale of 0007-other)"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), FLOORS)
def test_floor_that_is_not_of_this_control_is_refused_and_a_fitting_one_named(
    layout: Layout, calibrated: Path, changes: dict[str, Any], message: str
) -> None:
    log = MemoryLog()
    named(calibrated, log.append(floor(layout, calibrated, **changes)).leaf)
    (fault,) = floor_faults(layout, log)
    assert message in fault.message
    assert "workbench noise 0001 measures one" in fault.remedy
    fitting = log.append(floor(layout, calibrated))
    (fault,) = floor_faults(layout, log)
    assert fault.remedy == f'write noise_floor: "{fitting.leaf}"'


def floor_faults(layout: Layout, log: MemoryLog) -> list[Fault]:
    faults = check(layout, "1", source=log).faults  # type: ignore[arg-type]
    file = next(layout.experiments.glob("0001-*")) / "proposal.md"
    line = line_of(file, "\n  noise_floor:") + 1
    return [fault for fault in faults if fault.where.endswith(f":{line}")]


def test_floor_that_is_none_or_not_there_is_refused(layout: Layout, calibrated: Path) -> None:
    log = MemoryLog()
    (fault,) = floor_faults(layout, log)
    assert "no entry has it" in fault.message
    note = log.append(Note(text="no floor"))
    named(calibrated, note.leaf)
    (fault,) = floor_faults(layout, log)
    assert f"entry {note.sequence} (note) is none" in fault.message


def test_calibrated_rule_without_a_floor_is_told_how_to_measure_one(
    layout: Layout, calibrated: Path
) -> None:
    edited(calibrated / "proposal.md", f"  {LEAF}\n", "")
    (fault,) = check(layout, "1").faults
    assert "calibrated_t needs a noise floor" in fault.message
    assert "workbench noise 0001 measures one" in fault.remedy
