"""What differs from the registration is recorded once, and other data is refused."""

import pytest

from tests.labs import RECIPE_PATH, SUBJECT, LabFolder
from workbench.errors import IntegrityError
from workbench.experiments.deviations import record_deviations, refuse_other_data
from workbench.experiments.plan import ExperimentPlan, draft_plan, registered_plan
from workbench.registry.entries import CodeState, Deviation, Registration


@pytest.fixture
def plan(registered_lab: LabFolder) -> ExperimentPlan:
    return registered_plan(registered_lab.open().source(), SUBJECT)


def frozen(plan: ExperimentPlan) -> Registration:
    assert plan.registration is not None
    assert isinstance(plan.registration.body, Registration)
    return plan.registration.body


def record(
    lab: LabFolder,
    plan: ExperimentPlan,
    *,
    code: dict[str, object] | None = None,
    environment: dict[str, str] | None = None,
) -> list[Deviation]:
    opened = lab.open()
    body = frozen(plan)
    with opened.ledger() as ledger:
        return record_deviations(
            ledger,
            plan,
            opened.layout,
            code=CodeState.model_validate(body.code.model_dump() | (code or {})),
            environment=dict(body.environment) | (environment or {}),
        )


def test_record_deviations_of_the_registered_state_finds_none(
    registered_lab: LabFolder, plan: ExperimentPlan
) -> None:
    assert record(registered_lab, plan) == []
    assert registered_lab.bodies("deviation") == []


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"commit": "f" * 40}, "code.commit"),
        ({"dirty": True}, "code.dirty"),
        ({"workbench": "9.9.9"}, "code.workbench"),
    ],
)
def test_record_deviations_other_code_is_recorded_once(
    registered_lab: LabFolder, plan: ExperimentPlan, change: dict[str, object], what: str
) -> None:
    for _ in range(2):
        (found,) = record(registered_lab, plan, code=change)
        assert found.what == what
    (entry,) = registered_lab.entries("deviation")
    assert entry.body == found
    assert entry.refs == plan.refs
    assert entry.subject == SUBJECT


def test_record_deviations_other_package_version_names_both(
    registered_lab: LabFolder, plan: ExperimentPlan
) -> None:
    (found,) = record(registered_lab, plan, environment={"torch": "1.0.0"})
    assert (found.what, found.found) == ("environment.torch", "1.0.0")
    assert found.registered == frozen(plan).environment["torch"]


def test_record_deviations_new_package_was_absent(
    registered_lab: LabFolder, plan: ExperimentPlan
) -> None:
    (found,) = record(registered_lab, plan, environment={"rival": "1.0"})
    assert (found.registered, found.found) == ("absent", "1.0")


def test_record_deviations_second_change_is_another_entry(
    registered_lab: LabFolder, plan: ExperimentPlan
) -> None:
    record(registered_lab, plan, environment={"torch": "1.0.0"})
    record(registered_lab, plan, environment={"torch": "1.1.0"})
    assert [body.found for body in registered_lab.bodies("deviation")] == ["1.0.0", "1.1.0"]


def test_record_deviations_edited_file_says_that_the_edit_does_not_run(
    registered_lab: LabFolder, plan: ExperimentPlan
) -> None:
    recipe = registered_lab.root / RECIPE_PATH
    recipe.write_text(recipe.read_text("utf-8") + "\n# changed\n", "utf-8")
    for _ in range(2):
        (found,) = record(registered_lab, plan)
    assert found.what == f"file {RECIPE_PATH}"
    assert "the edit is not" in found.effect
    assert len(registered_lab.bodies("deviation")) == 1


def test_record_deviations_of_a_draft_is_nothing(registered_lab: LabFolder) -> None:
    lab = registered_lab.open()
    draft = draft_plan(lab.layout, lab.layout.experiment("1"))
    with lab.ledger() as ledger:
        other = CodeState(commit="none", dirty=True, workbench="0")
        assert record_deviations(ledger, draft, lab.layout, code=other, environment={}) == []


def test_refuse_other_data_names_both_manifests(plan: ExperimentPlan) -> None:
    registered = frozen(plan).data
    refuse_other_data(registered, registered)
    other = registered.model_copy(update={"manifest": "sha256:00"})
    with pytest.raises(IntegrityError, match="sha256:00") as refused:
        refuse_other_data(registered, other)
    assert registered.manifest in refused.value.message


@pytest.mark.usefixtures("one_thread")
def test_sweep_under_changed_code_and_an_edited_file_runs_the_registered_text_and_says_so(
    registered_lab: LabFolder, swept_stage: LabFolder
) -> None:
    (registered_lab.root / "new.txt").write_text("x", "utf-8")
    recipe = registered_lab.root / RECIPE_PATH
    recipe.write_text(recipe.read_text("utf-8").replace('"steps": 6', '"steps": 7'), "utf-8")
    registered_lab.commit("Change the recipe behind the registration's back")
    registered_lab.open().sweep("1")
    assert [body.what for body in registered_lab.bodies("deviation")] == [
        "code.commit",
        f"file {RECIPE_PATH}",
    ]
    values, undisturbed = (
        [(trial.params, trial.value, trial.steps) for trial in lab.bodies("trial")]
        for lab in (registered_lab, swept_stage)
    )
    assert values == undisturbed
