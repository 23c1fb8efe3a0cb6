"""What an experiment runs from."""

import re

import pytest

from tests.labs import RECIPE_PATH, SUBJECT, LabFolder
from workbench.errors import InvalidFileError, NotRegisteredError
from workbench.experiments.plan import draft_plan, registered_plan
from workbench.registry.entries import Anchor
from workbench.registry.seeds import time_locked_seed


def test_registered_plan_seeds_are_the_time_locked_ones(registered_lab: LabFolder) -> None:
    plan = registered_plan(registered_lab.open().source(), SUBJECT)
    (registration,) = registered_lab.entries("registration")
    (anchor,) = registered_lab.entries("anchor")
    assert isinstance(anchor.body, Anchor)
    head = anchor.body.head
    assert plan.seeds == tuple(time_locked_seed(head, registration.leaf, i) for i in range(3))
    assert len(set(plan.seeds)) == 3
    assert (plan.leaf, plan.refs) == (registration.leaf, (registration.leaf,))
    assert plan.mode == "confirmatory"


def test_registered_plan_is_the_frozen_text_whatever_the_files_say(
    registered_lab: LabFolder,
) -> None:
    before = registered_plan(registered_lab.open().source(), SUBJECT)
    for path in (f"experiments/{SUBJECT}/proposal.md", f"experiments/{SUBJECT}/full.yaml"):
        (registered_lab.root / path).write_text("nonsense: [", "utf-8")
    (registered_lab.root / RECIPE_PATH).unlink()
    assert registered_plan(registered_lab.open().source(), SUBJECT) == before


def test_registered_plan_of_an_unregistered_experiment_is_refused_with_both_ways_on(
    filed_lab: LabFolder,
) -> None:
    with pytest.raises(NotRegisteredError, match=SUBJECT) as refused:
        registered_plan(filed_lab.open().source(), SUBJECT)
    assert "workbench register 0001" in refused.value.remedy
    assert "--exploratory" in refused.value.remedy


def test_draft_plan_is_exploratory_and_has_no_registration(filed_lab: LabFolder) -> None:
    lab = filed_lab.open()
    plan = draft_plan(lab.layout, lab.layout.experiment("1"))
    assert (plan.mode, plan.registration, plan.leaf, plan.refs) == ("exploratory", None, "", ())
    assert len(set(plan.seeds)) == 3
    assert all(0 <= seed < 2**64 for seed in plan.seeds)


def test_draft_plan_seeds_are_others_than_the_registered_ones(registered_lab: LabFolder) -> None:
    lab = registered_lab.open()
    drafted = draft_plan(lab.layout, lab.layout.experiment("1"))
    assert not set(drafted.seeds) & set(registered_plan(lab.source(), SUBJECT).seeds)


@pytest.mark.parametrize("name", ["proposal.md", "full.yaml"])
@pytest.mark.parametrize("damage", ["absent", "not UTF-8", "not YAML"])
def test_draft_plan_unusable_file_is_refused_by_name(
    filed_lab: LabFolder, name: str, damage: str
) -> None:
    lab = filed_lab.open()
    folder = lab.layout.experiment("1")
    if damage == "absent":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(b"\xff\xfe" if damage == "not UTF-8" else b"---\na: [\n---\n")
    with pytest.raises(InvalidFileError, match=re.escape(name)):
        draft_plan(lab.layout, folder)
