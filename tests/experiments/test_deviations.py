"""What differs from the registration is recorded once a place, field by field, or refused."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.labs import RECIPE_PATH, SUBJECT, LabFolder
from workbench.errors import ConflictError, IntegrityError
from workbench.experiments import plan as plans
from workbench.experiments.deviations import (
    MOST_FIELDS,
    Watch,
    code_deviations,
    config_deviations,
    data_deviations,
    host_deviations,
    recipe_deviations,
    record_other_data,
    refuse_other_data,
    seed_deviations,
)
from workbench.experiments.plan import ExperimentPlan, draft_plan, registered_plan
from workbench.registry.entries import CodeState, Deviation, Registration
from workbench.registry.provenance import code_state


@pytest.fixture
def plan(registered_lab: LabFolder) -> ExperimentPlan:
    return registered_plan(registered_lab.open().source(), SUBJECT)


def frozen(plan: ExperimentPlan) -> Registration:
    assert plan.registration is not None
    assert isinstance(plan.registration.body, Registration)
    return plan.registration.body


Record = Callable[..., list[Deviation]]


@pytest.fixture
def record(registered_lab: LabFolder, plan: ExperimentPlan) -> Iterator[Record]:
    """Records what differs when something starts: the registered state but for what is changed."""
    opened, body = registered_lab.open(), frozen(plan)
    with opened.ledger() as ledger:

        def run(at: str = "sweep", **changed: dict[str, object]) -> list[Deviation]:
            code = body.code.model_dump() | changed.get("code", {})
            environment = {**body.environment, **changed.get("environment", {})}
            host = {**body.host, **changed.get("host", {})}
            watch = Watch(
                ledger=ledger,
                plan=plan,
                layout=opened.layout,
                code=CodeState.model_validate(code),
                environment={k: str(v) for k, v in environment.items()},
                host={k: str(v) for k, v in host.items()},
            )
            return watch.begin(at)

        yield run


def test_registered_state_deviates_in_nothing(registered_lab: LabFolder, record: Record) -> None:
    assert record() == []
    assert registered_lab.bodies("deviation") == []


@pytest.mark.parametrize(
    ("part", "change", "what", "category"),
    [
        ("code", {"commit": "f" * 40}, "code.commit", "code"),
        ("code", {"dirty": True}, "code.dirty", "code"),
        ("code", {"workbench": "9.9.9"}, "code.workbench", "code"),
        ("environment", {"torch": "1.0.0"}, "environment.torch", "dependency"),
        ("environment", {"rival": "1.0"}, "environment.rival", "dependency"),
        ("host", {"usable_cpus": "99"}, "host.usable_cpus", "hardware"),
        ("host", {"cpu": "Another"}, "host.cpu", "hardware"),
    ],
)
def test_each_field_that_differs_is_named_once_a_place(
    registered_lab: LabFolder,
    plan: ExperimentPlan,
    record: Record,
    part: str,
    change: dict[str, object],
    what: str,
    category: str,
) -> None:
    for at in ("sweep", "sweep", "run control/seed-0 attempt 1", "run control/seed-0 attempt 2"):
        (found,) = record(at, **{part: change})
        assert (found.what, found.category, found.at) == (what, category, at)
    entries = registered_lab.entries("deviation")
    assert [entry.body.at for entry in entries] == [
        "sweep",
        "run control/seed-0 attempt 1",
        "run control/seed-0 attempt 2",
    ]
    assert all(entry.refs == plan.refs for entry in entries)


def test_second_change_at_the_same_place_is_another_entry(
    registered_lab: LabFolder, record: Record
) -> None:
    record(environment={"torch": "1.0.0"})
    record(environment={"torch": "1.1.0"})
    assert [body.found for body in registered_lab.bodies("deviation")] == ["1.0.0", "1.1.0"]


def test_machine_is_not_compared_where_none_was_registered(plan: ExperimentPlan) -> None:
    body = frozen(plan)
    assert body.host["cpus"]
    old = body.model_copy(update={"host": {}})
    assert list(host_deviations(old, {"cpus": "99"})) == []


def test_commit_that_changes_the_labs_own_folders_only_says_so(
    registered_lab: LabFolder, plan: ExperimentPlan
) -> None:
    (registered_lab.root / "reports" / "a.md").write_text("x", "utf-8")
    registered_lab.commit()
    layout = registered_lab.open().layout
    (harmless,) = code_deviations(frozen(plan), _head(registered_lab), layout.root)
    assert harmless.effect.startswith("none on what runs")
    (registered_lab.root / "model.py").write_text("x", "utf-8")
    registered_lab.commit()
    (grave,) = code_deviations(frozen(plan), _head(registered_lab), layout.root)
    assert grave.effect.endswith("than was registered: model.py")


def test_commit_of_another_repository_counts_as_other_code(
    registered_lab: LabFolder, plan: ExperimentPlan
) -> None:
    other = CodeState(commit="e" * 40, dirty=False, workbench=frozen(plan).code.workbench)
    (found,) = code_deviations(frozen(plan), other, registered_lab.root)
    assert found.effect == "results come from other code than was registered"


def _head(lab: LabFolder) -> CodeState:
    return code_state(lab.root)


def edit(lab: LabFolder, path: str, old: str, new: str) -> None:
    file = lab.root / path
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), "utf-8")


def test_edited_file_names_each_field_and_that_the_edit_does_not_run(
    registered_lab: LabFolder, record: Record
) -> None:
    edit(registered_lab, RECIPE_PATH, '"steps": 6', '"steps": 7')
    proposal = f"experiments/{SUBJECT}/proposal.md"
    edit(registered_lab, proposal, "alpha: 0.05", "alpha: 0.1")
    found = {d.what: (d.registered, d.found) for d in record()}
    assert found == {
        f"file {RECIPE_PATH}: base.steps": ("6", "7"),
        f"file {proposal}: decision.alpha": ("0.05", "0.1"),
    }
    assert all("the edit is not" in d.effect and d.category == "file" for d in record())
    assert len(registered_lab.bodies("deviation")) == 2


@pytest.mark.parametrize("damage", ["gone", "a comment", "no YAML", "not UTF-8"])
def test_file_that_cannot_be_compared_is_named_as_a_whole(
    registered_lab: LabFolder, record: Record, damage: str
) -> None:
    file = registered_lab.root / RECIPE_PATH
    changed = {
        "a comment": file.read_bytes() + b"\n# changed\n",
        "no YAML": b"a: [",
        "not UTF-8": b"\xff\xfe",
    }
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(changed[damage])
    (found,) = record()
    assert found.what == f"file {RECIPE_PATH}"
    assert found.registered.startswith("sha256:")


def test_rewritten_file_does_not_flood_the_log(registered_lab: LabFolder, record: Record) -> None:
    (registered_lab.root / RECIPE_PATH).write_text("recipe: other@1\n", "utf-8")
    found = record()
    assert len(found) == MOST_FIELDS + 1
    assert found[-1].what.endswith("more fields")


def test_draft_deviates_from_nothing(registered_lab: LabFolder) -> None:
    lab = registered_lab.open()
    draft = draft_plan(lab.layout, lab.layout.experiment("1"))
    with lab.ledger() as ledger:
        other = CodeState(commit="none", dirty=True, workbench="0")
        watch = Watch(
            ledger=ledger, plan=draft, layout=lab.layout, code=other, environment={}, host={}
        )
        assert watch.begin("sweep") == []
        assert record_other_data(ledger, draft, plan_data(lab.source()), at="sweep") == []


def plan_data(source: object) -> object:
    return frozen(registered_plan(source, SUBJECT)).data  # type: ignore[arg-type]


def test_other_data_is_named_field_by_field_and_refused(
    registered_lab: LabFolder, plan: ExperimentPlan
) -> None:
    registered = frozen(plan).data
    refuse_other_data(registered, registered)
    assert list(data_deviations(frozen(plan), registered)) == []
    tokens = {**registered.tokens, "train_code": 1}
    other = registered.model_copy(update={"manifest": "sha256:00", "tokens": tokens})
    with pytest.raises(IntegrityError, match="sha256:00") as refused:
        refuse_other_data(registered, other)
    assert registered.manifest in refused.value.message
    with registered_lab.open().ledger() as ledger:
        for _ in range(2):
            record_other_data(ledger, plan, other, at="sweep")
    bodies = registered_lab.bodies("deviation")
    assert [(b.what, b.category, b.at) for b in bodies] == [
        ("data.manifest", "data", "sweep"),
        ("data.tokens.train_code", "data", "sweep"),
    ]


@pytest.mark.parametrize("is_built", [True, False])
def test_sweep_on_changed_texts_records_the_data_and_runs_nothing(
    registered_lab: LabFolder, is_built: bool
) -> None:
    texts = registered_lab.root / "texts" / "code.jsonl"
    texts.write_bytes(texts.read_bytes().replace(b"code 0 ", b"code zero ", 1))
    if not is_built:
        shutil.rmtree(registered_lab.open().layout.corpora)
    with pytest.raises((ConflictError, IntegrityError)):
        registered_lab.open().sweep("1")
    found = registered_lab.bodies("deviation")
    assert {(body.category, body.at) for body in found} == {("data", "sweep")}
    assert ("data.sources" if is_built else "data.manifest") in {body.what for body in found}
    assert registered_lab.bodies("sweep_started") == []


def test_recipe_that_this_version_reads_otherwise_is_refused_with_the_version_to_install(
    registered_lab: LabFolder, plan: ExperimentPlan
) -> None:
    base = plan.recipe.base
    optimizer = base.optimizer.model_copy(update={"lr": 0.5})
    recipe = plan.recipe.model_copy(
        update={"base": base.model_copy(update={"optimizer": optimizer})}
    )
    (found,) = recipe_deviations(frozen(plan), replace(plan, recipe=recipe))
    assert (found.what, found.registered, found.found) == (
        "recipe base optimizer.lr",
        "0.0001",
        "0.5",
    )
    body, lab = frozen(plan), registered_lab.open()
    with lab.ledger() as ledger:
        watch = Watch(
            ledger=ledger,
            plan=replace(plan, recipe=recipe),
            layout=lab.layout,
            code=body.code,
            environment=body.environment,
            host=body.host,
        )
        with pytest.raises(IntegrityError, match=r"optimizer\.lr: 0\.0001 -> 0\.5") as refused:
            watch.begin("sweep")
    assert body.code.workbench in refused.value.remedy
    assert len(registered_lab.bodies("deviation")) == 1


def test_config_is_compared_key_by_key_and_an_added_key_is_no_change(plan: ExperimentPlan) -> None:
    config = plan.full.config(plan.recipe)
    promoted = config.model_dump(mode="json")
    assert list(config_deviations(promoted, config)) == []
    promoted["steps"] = 13
    del promoted["model"]["top_k"]
    found = {
        d.what: (d.registered, d.found, d.effect[:7]) for d in config_deviations(promoted, config)
    }
    assert found == {
        "config model.top_k": ("absent", "1", "not in "),
        "config steps": ("13", str(config.steps), "refused"),
    }


def test_seed_that_is_not_the_time_locked_one_is_named() -> None:
    same = {"registered": 7, "about_to_use": 7}
    assert list(seed_deviations("control/seed-0", **same, earlier=["7"])) == []
    (found,) = seed_deviations("control/seed-0", registered=7, about_to_use=8, earlier=[])
    assert (found.what, found.registered, found.found, found.category) == (
        "seed of control/seed-0",
        "7",
        "8",
        "seeds",
    )
    (found,) = seed_deviations("control/seed-0", **same, earlier=["7", "9", "9"])
    assert found.found == "9"


@pytest.mark.usefixtures("one_thread")
def test_run_with_another_seed_than_the_anchor_gives_is_recorded_and_refused(
    promoted_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forged(source: object, subject: str) -> ExperimentPlan:
        honest = registered_plan(source, subject)  # type: ignore[arg-type]
        return replace(honest, seeds=(1, *honest.seeds[1:]))

    monkeypatch.setattr(plans, "registered_plan", forged)
    with pytest.raises(IntegrityError, match="seed of control/seed-0"):
        promoted_lab.open().run("1")
    (found,) = [d for d in promoted_lab.bodies("deviation") if d.category == "seeds"]
    assert (found.found, found.at) == ("1", "run control/seed-0 attempt 1")
    assert promoted_lab.bodies("run_started") == []


@pytest.mark.usefixtures("one_thread")
def test_sweep_under_changed_code_and_an_edited_file_runs_the_registered_text_and_says_so(
    registered_lab: LabFolder, swept_stage: LabFolder
) -> None:
    (registered_lab.root / "new.txt").write_text("x", "utf-8")
    edit(registered_lab, RECIPE_PATH, '"steps": 6', '"steps": 7')
    registered_lab.commit("Change the recipe behind the registration's back")
    registered_lab.open().sweep("1")
    assert [body.what for body in registered_lab.bodies("deviation")] == [
        "code.commit",
        f"file {RECIPE_PATH}: base.steps",
    ]
    values, undisturbed = (
        [(trial.params, trial.value, trial.steps) for trial in lab.bodies("trial")]
        for lab in (registered_lab, swept_stage)
    )
    assert values == undisturbed
