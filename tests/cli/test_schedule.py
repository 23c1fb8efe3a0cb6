"""``workbench schedule`` as a user meets it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Command
from tests.labs import RECIPE, RECIPE_PATH, SUBJECT, LabFolder
from workbench.experiments.scheduling import Schedule, round_stride
from workbench.proxies.recipe import Recipe
from workbench.training.phases import learning_rate

FULL_PATH = f"experiments/{SUBJECT}/full.yaml"
LONG = {
    "steps": 1000,
    "phases": [
        {"name": "prewarm", "lr": "none"},
        {"name": "warmup", "lr": "linear_up", "frozen": ["router"]},
        {"name": "stable", "lr": "constant", "balance_weight": 0.5},
        {"name": "cooldown", "lr": "linear_down", "mixture": {"code": 0.25, "docs": 0.75}},
    ],
    "phase_fractions": {"prewarm": 0.01, "warmup": 0.093, "stable": 0.597, "cooldown": 0.3},
}


@pytest.fixture
def long_lab(filed_lab: LabFolder) -> LabFolder:
    """A lab with a second recipe of 1,000 steps in four phases."""
    recipe = {**RECIPE, "recipe": "long@1", "base": {**RECIPE["base"], **LONG}}
    recipe["scales"] = [{"name": "s1"}]
    (filed_lab.root / "proxies" / "long.yaml").write_text(json.dumps(recipe), "utf-8")
    return filed_lab


def test_schedule_of_a_recipe_tells_each_change(long_lab: LabFolder, workbench: Command) -> None:
    said = workbench("schedule", "proxies/long.yaml", lab=long_lab)
    assert (said.code, said.err) == (0, "")
    assert max(map(len, said.out.splitlines())) <= 80
    lines = [line.split() for line in said.out.splitlines()]
    assert ["1", "prewarm", "0", "0.01", "natural", "all"] in lines
    assert ["11", "warmup", "1.075e-06", "0.01", "natural", "router"] in lines
    assert ["104", "stable", "0.0001", "0.5", "natural", "none"] in lines
    assert "cooldown  9.967e-05  0.01  code 0.25 docs 0.75  none" in said.out
    assert lines[-1][2:4] == ["1,000", "steps;"]
    assert re.search(r"\|warmup|stable +\|cooldown", said.out)


def test_schedule_of_every_step_is_the_functions(long_lab: LabFolder, workbench: Command) -> None:
    said = workbench("schedule", "proxies/long.yaml", "--all", "--json", lab=long_lab)
    values = json.loads(said.out)
    recipe = json.loads((long_lab.root / "proxies" / "long.yaml").read_text("utf-8"))
    config = Recipe.model_validate(recipe).at_scale("s1")
    assert [row["step"] for row in values["rows"]] == list(range(1, 1001))
    wanted = [1, 10, 11, 103, 104, 700, 701, 1000]
    assert [values["rows"][step - 1]["lr"] for step in wanted] == [
        learning_rate(config, step) for step in wanted
    ]
    assert values["rows"][-1]["mixture"] == {"code": 0.25, "docs": 0.75}
    assert (values["peak_lr"], values["tokens_per_step"]) == (0.0001, 32)


def test_schedule_of_some_steps_holds_both_ends_of_every_phase(long_lab: LabFolder) -> None:
    found = long_lab.open().schedule("proxies/long.yaml")
    steps = [row.step for row in found.rows()]
    assert {1, 10, 11, 103, 104, 700, 701, 1000} <= set(steps)
    assert {step for step in steps if step % 50 == 0} == set(range(50, 1001, 50))


@pytest.mark.parametrize(
    ("steps", "stride"), [(1, 1), (24, 1), (25, 2), (160, 10), (1000, 50), (4_720_000, 200_000)]
)
def test_rows_stand_at_round_distances(steps: int, stride: int) -> None:
    assert round_stride(steps) == stride


def test_schedule_is_drawn_with_its_phases(
    long_lab: LabFolder, workbench: Command, tmp_path: Path
) -> None:
    out = tmp_path / "schedule.svg"
    said = workbench("schedule", "proxies/long.yaml", "--svg", str(out), lab=long_lab)
    assert f"drawn in {out}" in said.out.replace("\n", "")
    texts = [element.text for element in ElementTree.parse(out).iter() if element.text]
    assert {"warmup", "stable", "cooldown"} <= set(texts)
    assert "cooldown, 701 to 1,000: λ 0.01; code 0.25, docs 0.75" in texts
    assert "warmup, 11 to 103: λ 0.01; natural; frozen: router" in texts


def test_schedule_that_cannot_be_drawn_is_refused(
    long_lab: LabFolder, workbench: Command, tmp_path: Path
) -> None:
    said = workbench("schedule", RECIPE_PATH, "--svg", str(tmp_path / "no" / "x.svg"), lab=long_lab)
    assert said.code != 0
    assert "cannot be used" in said.err


@pytest.mark.parametrize(
    ("arguments", "what", "steps"),
    [
        ([RECIPE_PATH], "tiny@1 at s2", 8),
        ([RECIPE_PATH, "--scale", "s1"], "tiny@1 at s1", 6),
        ([FULL_PATH], f"{SUBJECT}@1 at full scale", 6),
        (["1"], f"{SUBJECT}, control, at full scale", 6),
        (["1", "--scale", "s2"], "tiny@1 at s2", 8),
    ],
)
def test_schedule_of_each_kind_of_name(
    filed_lab: LabFolder, workbench: Command, arguments: list[str], what: str, steps: int
) -> None:
    full = filed_lab.root / FULL_PATH
    full.write_text(
        re.sub(r"\n  steps: .*", f"\n  steps: {steps}", full.read_text("utf-8")), "utf-8"
    )
    values = json.loads(workbench("schedule", *arguments, "--json", lab=filed_lab).out)
    assert (values["what"], values["steps"]) == (what, steps)


def test_schedule_of_a_registered_experiment_is_not_that_of_its_files(
    registered_lab: LabFolder, workbench: Command
) -> None:
    before = workbench("schedule", "1", "--json", lab=registered_lab).out
    full = registered_lab.root / FULL_PATH
    full.write_text(full.read_text("utf-8") + "  optimizer.weight_decay: 0.2\n", "utf-8")
    (registered_lab.root / RECIPE_PATH).write_text("recipe: broken", "utf-8")
    assert workbench("schedule", "1", "--json", lab=registered_lab).out == before


def test_schedule_of_the_treatment_comes_with_its_promotion(
    promoted_lab: LabFolder, workbench: Command
) -> None:
    control = workbench("schedule", "1", lab=promoted_lab)
    assert "--arm treatment" in control.out
    said = workbench("schedule", "1", "--arm", "treatment", "--json", lab=promoted_lab)
    (promotion,) = promoted_lab.bodies("promotion")
    values = json.loads(said.out)
    assert values["peak_lr"] == float(promotion.configs["treatment"]["optimizer"]["lr"])
    assert values["other_arms"] == ["control"]


@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (["proxies/none.yaml"], 9, "does not exist"),
        ([RECIPE_PATH, "--scale", "s9"], 9, "has no scale 's9' (it has s1, s2)"),
        ([FULL_PATH, "--scale", "s1"], 3, "full-scale file"),
        (["1", "--arm", "treatment"], 9, "no arm 'treatment' yet"),
        (["9"], 9, "does not exist"),
        ([RECIPE_PATH, "--arm", "treatment"], 2, "--arm goes with an experiment"),
    ],
)
def test_schedule_that_there_is_not_is_refused(
    filed_lab: LabFolder, workbench: Command, arguments: list[str], code: int, shown: str
) -> None:
    said = workbench("schedule", *arguments, lab=filed_lab)
    assert said.code == code
    assert shown in " ".join(re.sub(r"[│\s]+", " ", said.err).split())


def test_full_scale_file_of_an_unknown_recipe_is_refused(
    filed_lab: LabFolder, workbench: Command
) -> None:
    full = filed_lab.root / FULL_PATH
    full.write_text(full.read_text("utf-8").replace("tiny@1", "huge@1"), "utf-8")
    said = workbench("schedule", FULL_PATH, lab=filed_lab)
    assert "no file of proxies/ is the recipe huge@1" in said.err


def test_schedule_of_one_step_and_of_no_update_is_plotted(
    filed_lab: LabFolder, workbench: Command
) -> None:
    base = {**RECIPE["base"], "steps": 1, "phases": [{"name": "pre", "lr": "none"}]}
    recipe = {**RECIPE, "recipe": "one@1", "base": {**base, "phase_fractions": {"pre": 1}}}
    recipe["scales"] = [{"name": "s1"}]
    (filed_lab.root / "proxies" / "one.yaml").write_text(json.dumps(recipe), "utf-8")
    said = workbench("schedule", "proxies/one.yaml", lab=filed_lab)
    assert said.code == 0
    assert "1 step of 32 tokens" in said.out


def test_millions_of_steps_are_sampled_and_not_laid_out(long_lab: LabFolder) -> None:
    found = long_lab.open().schedule("proxies/long.yaml")
    config = found.config.model_copy(update={"steps": 10**9})
    assert len(Schedule(what="", config=config).rows()) < 70
    assert len(Schedule(what="", config=config).sampled(68)) == 68


def test_schedule_loads_no_torch() -> None:
    code = "import workbench.experiments.scheduling, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
