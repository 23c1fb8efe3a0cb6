"""``workbench check``: every fault at once, at its line, with what to write instead."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.errors import Fault, InvalidFileError, NotFoundError
from workbench.experiments.checking import Checked, check
from workbench.experiments.filing import register
from workbench.experiments.proposing import propose
from workbench.layout import Layout
from workbench.proxies.recipe import LEFT_OUT, dotted
from workbench.proxies.recipe_faults import config_keys
from workbench.registry.entries import DataState
from workbench.registry.ledger import Ledger

RECIPE = "proxies/mixture-lambda-phases.yaml"


def edited(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert old in text, old
    file.write_text(text.replace(old, new, 1), "utf-8")


def line_of(file: Path, fragment: str) -> int:
    text = file.read_text("utf-8")
    return text[: text.index(fragment)].count("\n") + 1


def shown(faults: tuple[Fault, ...]) -> str:
    return "\n".join(map(str, faults))


def test_check_answered_proposal_is_sound_and_says_what_will_run(
    layout: Layout, folder: Path
) -> None:
    checked = check(layout, "1")
    assert checked.faults == ()
    assert checked.warnings == ()
    assert checked.proposal is not None
    assert set(checked.documents) == {"proposal", "recipe", "full"}
    plan = checked.plan
    assert plan is not None
    assert (plan.trials, plan.proxy_runs, plan.full_runs) == (16, 4 * 2 * 2, 6)
    recipe, full = checked.recipe, checked.full
    assert recipe is not None
    assert full is not None
    base = recipe.base
    assert plan.trial_tokens == 16 * base.steps * base.batch.sequences * base.batch.seq_len
    assert plan.full_tokens == 6 * full.overrides["steps"] * base.tokens_per_step
    # The refutation goes first: the chance of a bound above 0 alone would allow 0.0037.
    assert plan.detectable_sd == pytest.approx(0.00355, abs=0.00003)
    checked.require()


def test_check_fresh_proposal_lists_only_what_is_owed(layout: Layout) -> None:
    propose(layout, "A question", owner="lead")
    checked = check(layout, "0001")
    assert len(checked.faults) == 14
    assert all("still to be filled in" in fault.message for fault in checked.faults)
    assert checked.plan is None
    with pytest.raises(InvalidFileError, match="0001-a-question has 14 faults") as refused:
        checked.require()
    assert len(refused.value.faults) == 14


PROPOSAL_FAULTS = [
    ("claim: superior(0.01)", "claim: superior(0.02)", "  claim:", "superior(0.02) would refute",
     "superior(0.01)"),
    ("claim: superior(0.01)", "claim: superior(-)", "  claim:", "no margin that is", "0.01"),
    ("claim: superior(0.01)", "claim: superior(-0.01)", "  claim:", "at least 0", "superior(0.01)"),
    ("claim: superior(0.01)", "claim: superior(1e999)", "  claim:", "no margin", "superior(0.01)"),
    ("claim: superior(0.01)", "claim: equivalent(0)", "  claim:", "can never be supported", "0.01"),
    ("claim: superior(0.01)", "claim: equivalent(0.02)", "  claim:", "difference equal", "0.01"),
    ("claim: superior(0.01)", "claim: non_inferior(0.02)", "  claim:", "accept a loss", "0.01"),
    ("claim: superior(0.01)", "claim: better(0.01)", "  claim:", "not have the form", "superior"),
    ("stopping: fixed(3)", "stopping: fixed(5)", "  stopping:", "fixed(5) is not design.seeds 3",
     "fixed(3), or seeds: 5"),
    ("stopping: fixed(3)", "stopping: fixed(1)", "  stopping:", "no outcome but void", "fixed(3)"),
    ("seeds: 3", "seeds: 4", "  stopping:", "fixed(3) is not design.seeds", "fixed(4)"),
    ("direction: treatment_lower", "direction: treatment_higher", "    direction: treatment_h",
     "H1 expects 'treatment_higher'", "treatment_lower"),
    ("direction: minimize", "direction: maximize", "    direction: maximize",
     "calls more bits per byte better", "minimize"),
    ("hypothesis: H1", "hypothesis: H2", "  hypothesis: H2", "'H2' is not stated", "H1"),
    ("top_k: 3", "top_k: 17", "    top_k", "top_k 17 is more than budget_trials 16", "at most 16"),
    ("top_k: 3", "top_k: 0", "    top_k", "must be at least 1", ""),
    ("fresh_seeds: 2", "fresh_seeds: 1", "    fresh_seeds", "must be at least 2", ""),
    ("cap_device_hours: 4.0", "cap_device_hours: 1.0", "budget_cap", "nothing for the sweep", "1"),
    ("manipulated: [mixture, ", "manipulated: [", "  manipulated", "also varies mixture",
     "[mixture, balance.weight, phase_fractions]"),
    ("[mixture, balance.weight", "[mixture, balance.wait", "  manipulated", "'balance.wait' is",
     "'balance.weight'"),
    ("[mixture, balance", "[mixture, mixture, balance", "  manipulated", "listed twice", "remove"),
    ("scales: [s1, s2]", "scales: [s2, s1]", "  scales", "do not rise", "[s1, s2]"),
    ("scales: [s1, s2]", "scales: [s1, s3]", "  scales", "scale 's3' is not in the recipe", "s2"),
    ("scales: [s1, s2]", "scales: [s1, s1]", "  scales", "listed twice", "remove"),
    ("metric: bpb_macro", "metric: loss", "    metric: loss", "metric 'loss' is not", "bpb_macro"),
    ("[bpb_code, bpb_docs", "[bpb_law, bpb_docs", "  secondary", "'bpb_law' is not", "bpb_"),
    ("[bpb_code, bpb_docs", "[bpb_docs, bpb_docs", "  secondary", "listed twice", "remove"),
    ("guardrails: []", "guardrails: [{metric: bpb_law, at_most: 3.0}]", "  guardrails",
     "'bpb_law' is not", "bpb_"),
    ("loss_above: 12.0", "loss_above: 7", "  loss_above", "every run would count", "12"),
    ("- key: steps", "- key: stepz", "    - key: stepz", "for no key of the run", "steps"),
    ("- key: steps", "- key: batch.seq_len", "    - key: batch", "explains nothing", "remove"),
    ("- key: optimizer.lr", "- key: steps", "    - key: steps\n      rule: p", "given twice", ""),
    ("of: model.d_model", "of: model.width", "      of:", "no number of the run", "model."),
    ("of: model.d_model", "of: mixture", "      of:", "no number of the run", ""),
    ("  forecast:\n", "  forcast:\n", "promotion:", "promotion.forecast is missing", "predicted"),
    ("exponent: -0.5", "exponent: 1e9", "      rule: power", "power cannot give", "registered"),
    ("exponent: -0.5", "exponent: .inf", "      exponent", "is .inf", "finite"),
    (RECIPE, "proxies/other.yaml", "  recipe:", "does not exist", RECIPE),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "at", "message", "remedy"), PROPOSAL_FAULTS)
def test_check_contradiction_in_the_proposal_is_told_at_its_line(
    layout: Layout, folder: Path, old: str, new: str, at: str, message: str, remedy: str
) -> None:
    file = folder / "proposal.md"
    edited(file, old, new)
    faults = check(layout, "1").faults
    found = [fault for fault in faults if message in fault.message]
    assert len(found) == 1, shown(faults)
    assert found[0].where == f"experiments/{folder.name}/proposal.md:{line_of(file, at)}"
    assert remedy in found[0].remedy


FULL_FAULTS = [
    ("lr: 0.00212", "lr: 0.00214", "  optimizer.lr", "0.00214 is not what", "0.002121"),
    ("phases@1", "phases@2", "extends", "extends 'mixture-lambda-phases@2'", "phases@1"),
    ("  steps: 240", "  steps: 240\n  model.top_k: 4", "  model.top_k", "no scaling rule",
     "{key: model.top_k, rule: registered"),
    ("  steps: 240", "  steps: 240\n  batch.documents: masked", "  batch.documents",
     "'masked' (base 'joined') has no scaling rule", "{key: batch.documents, rule: registered"),
    ("  steps: 240", "  stepz: 300", "  stepz", "is not a key of the run", "'steps'"),
    ("  steps: 240", "  steps: 0", "  steps", "must be at least 1, not 0", ""),
    ("  steps: 240", "  steps: 240\n  mixture: natural", "  mixture", "the recipe's space", ""),
    ("model.d_model: 128", "model.d_model: 129", "  model.d_model", "d_model 129 must be", ""),
    ("lr: 0.00212", "lr: 0.003", "overrides", "explains nothing", ""),
    ("lr: 0.00212", "lr: 0.001", "  optimizer.lr", "0.001 is not what", "0.002121"),
    ("  steps: 240", "  steps: 240\n  steps: 400", "  steps: 400", "duplicate key", "keep one"),
    ("  steps: 240", "  steps: 240\n  model.vocab_size: 512", "  model.v", "tokenizer's", "2048"),
    ("overrides:", "override:", "override:", "unknown key 'override'", "'overrides'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "at", "message", "remedy"), FULL_FAULTS)
def test_check_contradiction_in_full_scale_is_told_at_its_line(
    layout: Layout, folder: Path, old: str, new: str, at: str, message: str, remedy: str
) -> None:
    file = folder / "full.yaml"
    edited(file, old, new)
    faults = check(layout, "1").faults
    found = [fault for fault in faults if message in fault.message]
    assert len(found) == 1, shown(faults)
    if message != "explains nothing":  # that fault is the proposal's
        assert found[0].where == f"experiments/{folder.name}/full.yaml:{line_of(file, at)}"
    assert remedy in found[0].remedy


def test_check_faults_of_all_files_are_told_together_in_order(layout: Layout, folder: Path) -> None:
    edited(folder / "proposal.md", "scales: [s1, s2]", "scales: [s2, s1]")
    edited(folder / "proposal.md", "name: tpe", "name: grid")
    edited(folder / "full.yaml", "  steps: 240", "  stepz: 300")
    edited(layout.root / RECIPE, "minimum: 0.05", "minimum: 0.4")
    text = shown(check(layout, "1").faults)
    for words in ("do not rise", "not 'grid'", "'stepz'", "leaves nothing to vary"):
        assert words in text


def test_check_fault_in_the_base_does_not_hide_those_that_build_on_it(
    layout: Layout, folder: Path
) -> None:
    edited(layout.root / RECIPE, "num_heads: 2", "num_heads: 3")
    edited(layout.root / RECIPE, "      steps: 160", "      stepz: 160")
    edited(layout.root / RECIPE, "  balance.weight:", "  balance.wait:")
    edited(folder / "full.yaml", "  steps: 240", "  stepz: 300")
    edited(folder / "proposal.md", "underpowered: ", "noise: {sd: 1, source: x}\n  underpowered: ")
    checked = check(layout, "1")
    text = shown(checked.faults)
    for words in (
        "num_heads 3 times an even number\n    -> write d_model: 66, or",
        "override 'stepz'",
        "space key 'balance.wait'",
        "full.yaml:",
        "is shown with a chance of 4% only",
    ):
        assert words in text, text
    assert text.count("override 'stepz' is not a key") == 2


def test_config_keys_are_those_that_a_base_has(layout: Layout, folder: Path) -> None:
    recipe = check(layout, "1").recipe
    assert recipe is not None
    written = set(dotted(recipe.base.model_dump(mode="json")))
    assert set(config_keys()) == written | set(LEFT_OUT)
    assert not written & set(LEFT_OUT)


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([("minimum_effect: 0.01", "minimum_effect: 0.02")], "is not refuted by an effect between"),
        ([("superior(0.01)", "superior_by(0.005)")], "improvement smaller than H1.minimum_effect"),
        ([("improvement: 0.02", "improvement: 0.001")], "less than the 0.01 that you call"),
        (
            [("superior(0.01)", "superior_by(0.01)"), ("improvement: 0.02", "improvement: 0.01")],
            "support is unlikely",
        ),
        ([("foreknowledge: none", "foreknowledge: these_outcomes")], "outcomes are known already"),
        (
            [
                ("foreknowledge: none", "foreknowledge: pilot_outcomes"),
                ("pilots_seen: >-\n  Answer 0.", "pilots_seen: None."),
            ],
            "pilots_seen says 'None.'",
        ),
        (
            [("seeds: 3", "seeds: 2"), ("fixed(3)", "fixed(2)")],
            "seeds 2: an arm's spread is estimated from 2 runs",
        ),
        ([("alpha: 0.05", "alpha: 0.25")], "a claim that is just false is supported 1 time in 4"),
        ([("budget_trials: 16", "budget_trials: 3")], "3 trials search 3 dimensions"),
        ([("startup_trials: 4", "startup_trials: 16")], "startup_trials 16 of 16"),
        ([("warmup_evaluations: 1", "warmup_evaluations: 2")], "evaluated 3 times"),
    ],
)
def test_check_doubtful_choice_is_a_warning_not_a_fault(
    layout: Layout, folder: Path, edits: list[tuple[str, str]], message: str
) -> None:
    for old, new in edits:
        edited(folder / "proposal.md", old, new)
    checked = check(layout, "1")
    assert message in shown(checked.warnings)
    assert checked.faults == ()


def test_check_undecided_hypothesis_is_a_warning(layout: Layout, folder: Path) -> None:
    text = (folder / "proposal.md").read_text("utf-8")
    first = text[text.index("  # H1, H2") : text.index("\n# What differs between")]
    edited(folder / "proposal.md", first, f"{first}{first.replace('id: H1', 'id: H2')}")
    checked = check(layout, "1")
    assert checked.faults == ()
    assert "H2 is never decided" in shown(checked.warnings)
    edited(folder / "proposal.md", "id: H2", "id: H1")
    assert "'H1' is stated twice" in shown(check(layout, "1").faults)


def test_check_same_action_on_both_outcomes_decides_nothing(layout: Layout, folder: Path) -> None:
    text = (folder / "proposal.md").read_text("utf-8")
    lines = text.splitlines()
    supported = lines[lines.index("    supported: >-") + 1]
    refuted = lines[lines.index("    refuted: >-") + 1]
    edited(folder / "proposal.md", refuted, supported)
    (fault,) = check(layout, "1").faults
    assert "nothing is decided" in fault.message


def test_check_small_full_scale_is_a_warning(layout: Layout, folder: Path) -> None:
    edited(folder / "full.yaml", "  steps: 240", "  steps: 10")
    checked = check(layout, "1")
    assert "the compute of the largest proxy scale" in shown(checked.warnings)
    assert checked.faults == ()


def test_check_placeholder_does_not_hide_a_contradiction(layout: Layout) -> None:
    folder = propose(layout, "A question", owner="lead")
    edited(folder / "proposal.md", "stopping: fixed(3)", "stopping: fixed(5)")
    edited(folder / "proposal.md", "scales: [s1, s2]", "scales: [s2, s1]")
    checked: Checked = check(layout, "1")
    assert len(checked.faults) == 16


@pytest.mark.parametrize("name", ["proposal.md", "full.yaml"])
def test_check_missing_or_unreadable_file_is_a_fault(
    layout: Layout, folder: Path, name: str
) -> None:
    (folder / name).unlink()
    (fault,) = check(layout, "1").faults
    assert fault.where == f"experiments/{folder.name}/{name}"
    assert f"git checkout -- experiments/{folder.name}/{name}" in fault.remedy
    (folder / name).write_bytes(b"\xff")
    (fault,) = check(layout, "1").faults
    assert "is not UTF-8" in fault.message
    (folder / name).unlink()
    (folder / name).mkdir()
    (fault,) = check(layout, "1").faults
    assert "cannot be read" in fault.message


@pytest.mark.parametrize(
    "recipe", ["../secret.yaml", "proxies/../x.yaml", "/etc/passwd", "proxies/"]
)
def test_check_recipe_outside_the_folder_is_never_read(
    layout: Layout, folder: Path, recipe: str
) -> None:
    (layout.root / "x.yaml").write_text("recipe: x@1\n", "utf-8")
    edited(folder / "proposal.md", RECIPE, recipe)
    checked = check(layout, "1")
    assert "recipe" not in checked.documents
    (fault,) = checked.faults
    assert "sweep.recipe does not have the form" in fault.message


def test_check_unknown_experiment_is_not_found(layout: Layout) -> None:
    with pytest.raises(NotFoundError):
        check(layout, "7")


def test_check_changed_content_under_a_registered_name_is_refused(
    layout: Layout,
    committed: Path,
    answer: Callable[[Path], None],
    ledger: Ledger,
    corpus: DataState,
) -> None:
    register(layout, "1", ledger=ledger, corpus=corpus)
    second = propose(layout, "Another question", owner="lead")
    answer(second)
    recipe = layout.root / RECIPE
    edited(recipe, "# A sweep recipe", "# A recipe")
    edited(recipe, "lr: 0.003\n", "lr: 0.0030\n")
    assert check(layout, "2", source=ledger).faults == ()  # the same content in other letters
    edited(recipe, 'salt: "one"', 'salt: "two"')
    faults = check(layout, "2", source=ledger).faults
    assert [fault.remedy for fault in faults] == [
        "give it a new version: 'mixture-lambda-phases@2'",
        "give it a new version: 'builtin-code-docs-math@2'",
    ]
    assert all(f"by {committed.name}" in fault.message for fault in faults)
    edited(recipe, "phases@1", "phases@2")
    edited(recipe, "math@1", "math@2")
    edited(second / "full.yaml", "phases@1", "phases@2")
    assert check(layout, "2", source=ledger).faults == ()
    shutil.copy(committed / "full.yaml", second / "full.yaml")
    edited(second / "full.yaml", "phases@1", "phases@2")
    (fault,) = check(layout, "2", source=ledger).faults
    assert f"'{committed.name}@1' was registered with other content" in fault.message


def test_check_registered_experiment_with_changed_files_warns(
    layout: Layout, committed: Path, ledger: Ledger, corpus: DataState
) -> None:
    register(layout, "1", ledger=ledger, corpus=corpus)
    assert check(layout, "1", source=ledger).warnings == ()
    edited(committed / "proposal.md", "# Background", "# Background, later")
    (warning,) = check(layout, "1", source=ledger).warnings
    assert "differs from what was registered" in warning.message


ODD_VALUES = (
    "", "~", "[]", "{}", "true", "-1", "0", "1e308", "x", '""', "[[]]", "{a: 1}", "[1, x]", ".nan",
    "99999999999999999999999", "'", "a: b", "!x 1", "*a", "superior(1e)", "fixed(999999999999)",
)  # fmt: skip


@pytest.mark.slow
def test_check_damaged_files_are_always_told_and_never_crash(layout: Layout, folder: Path) -> None:
    files = [folder / "proposal.md", folder / "full.yaml", layout.root / RECIPE]
    texts = [file.read_text("utf-8").split("\n") for file in files]
    generator = random.Random(20260101)
    told = 0
    for _ in range(150):
        for file, lines in zip(files, texts, strict=True):
            damaged = list(lines)
            for _ in range(generator.choice((0, 1, 3))):
                at = generator.randrange(len(damaged))
                key, colon, _ = damaged[at].partition(":")
                odd = f"{key}: {generator.choice(ODD_VALUES)}" if colon else damaged[at] * 2
                damaged[at : at + 1] = generator.choice(([], [odd], [odd], [damaged[at]] * 2))
            file.write_text("\n".join(damaged), "utf-8")
        faults = check(layout, "1").faults
        told += bool(faults)
        assert all(fault.message.strip() for fault in faults)
    assert told > 75


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("proposal", "\n  seeds: 3", "\n  seeds: true", "design.seeds must be a whole number"),
        ("proposal", "\n  seeds: 3", '\n  seeds: "3"', "design.seeds must be a whole number"),
        ("recipe", "betas: [0.9, 0.95]", "betas: [0.9, 1.0]", "betas[1] must be below 1, not 1"),
    ],
)
def test_check_value_that_would_fail_or_slip_by_later_is_a_fault(
    layout: Layout, folder: Path, name: str, old: str, new: str, message: str
) -> None:
    file = folder / "proposal.md" if name == "proposal" else layout.root / RECIPE
    edited(file, old, new)
    assert message in shown(check(layout, "1").faults)
