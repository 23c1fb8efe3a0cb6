"""This repository is a lab: its proposals, recipes and published ledger hold."""

from pathlib import Path

import pytest

from workbench.experiments.checking import check
from workbench.layout import Layout
from workbench.proxies.recipe_file import load_full, load_recipe
from workbench.registry.frontmatter import parse_proposal
from workbench.reports.audit import audit_claims
from workbench.reports.verification import verify_published
from workbench.training.config import RunConfig

LAYOUT = Layout(root=Path(__file__).parents[1])
RECIPES = sorted(LAYOUT.proxies.glob("*.yaml"))
EXPERIMENTS = LAYOUT.experiment_folders()
PUBLISHED = (LAYOUT.registry / "checkpoint").is_file()


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.name)
def test_recipe_loads_and_every_scale_is_a_configuration(file: Path) -> None:
    recipe = load_recipe(file.read_text("utf-8"), file.name)
    for scale in recipe.scales:
        config = recipe.at_scale(scale.name)
        assert RunConfig.model_validate(config.model_dump(mode="json")) == config
    assert recipe.control()


@pytest.mark.parametrize("folder", EXPERIMENTS, ids=lambda folder: folder.name)
def test_experiment_loads_and_checks(folder: Path) -> None:
    proposal = parse_proposal((folder / "proposal.md").read_text("utf-8"), "proposal.md")
    recipe_text = (LAYOUT.root / proposal.sweep.recipe).read_text("utf-8")
    recipe = load_recipe(recipe_text, proposal.sweep.recipe)
    full = load_full((folder / "full.yaml").read_text("utf-8"), "full.yaml")
    assert full.config(recipe).steps > 0
    assert [str(fault) for fault in check(LAYOUT, folder.name).faults] == []


@pytest.mark.skipif(not PUBLISHED, reason="nothing is published yet")
def test_published_ledger_verifies() -> None:
    report = verify_published(LAYOUT.registry, audit=audit_claims)
    assert report.passed, "\n".join(report.lines())


@pytest.mark.parametrize("folder", [LAYOUT.experiments, LAYOUT.proxies, LAYOUT.registry])
def test_folder_names_its_namesake(folder: Path) -> None:
    assert f"workbench.{folder.name}" in (folder / "README.md").read_text("utf-8")


def test_no_private_key_is_in_the_repository() -> None:
    kept = [p for p in LAYOUT.root.rglob("*.key") if not {".venv", ".workbench"} & set(p.parts)]
    assert kept == []
