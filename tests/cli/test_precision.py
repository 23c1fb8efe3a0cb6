"""``workbench audit-precision`` as a user meets it."""

import json

from tests.cli.conftest import Command
from tests.labs import RECIPE_PATH, LabFolder


def test_audit_tells_the_updates_lost_by_part(filed_lab: LabFolder, workbench: Command) -> None:
    said = workbench("audit-precision", RECIPE_PATH, "--scale", "s1", "--steps", "2", lab=filed_lab)
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[0].startswith("Steps 1 to 2, learning rate ")
    assert lines[0].endswith("products in fp32.")
    assert lines[1].split() == [
        "part", "weights", "updates", "lost", "in", "bf16", "their", "length", "in", "fp32",
    ]  # fmt: skip
    parts = [line.split()[0] for line in lines[2:8]]
    assert parts == ["all", "attention", "embeddings", "experts", "norm", "router"]


def test_audit_as_json_has_the_same_parts(filed_lab: LabFolder, workbench: Command) -> None:
    said = workbench(
        "audit-precision", RECIPE_PATH, "--scale", "s1", "--steps", "1", "--json", lab=filed_lab
    )
    told = json.loads(said.out)
    assert (told["steps"], told["precision"]) == (1, "fp32")
    assert told["parts"][0]["part"] == "all"
    assert all(0 <= part["lost_bf16"] <= 1 for part in told["parts"])


def test_scale_of_an_experiment_is_a_usage_error(filed_lab: LabFolder, workbench: Command) -> None:
    assert workbench("audit-precision", "0001", "--scale", "s1", lab=filed_lab).code == 2


def test_unknown_recipe_is_refused(filed_lab: LabFolder, workbench: Command) -> None:
    said = workbench("audit-precision", "proxies/none.yaml", lab=filed_lab)
    assert said.code not in (0, 1, 2)
    assert "proxies/none.yaml" in said.err
