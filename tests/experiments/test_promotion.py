"""From the sweep's best to the full-scale plan."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.labs import SUBJECT, LabFolder
from workbench.errors import ConflictError, IntegrityError
from workbench.experiments import campaign, promotion
from workbench.experiments.plan import ExperimentPlan, registered_plan
from workbench.experiments.promoted_config import write_promoted
from workbench.experiments.promotion import Promoter, promotion_body
from workbench.layout import Layout
from workbench.proxies.recipe import nested, with_values
from workbench.registry.entries import Promotion
from workbench.training.config import RunConfig
from workbench.training.fit import fit

pytestmark = pytest.mark.usefixtures("one_thread")


def the_promotion(lab: LabFolder) -> Promotion:
    (body,) = lab.bodies("promotion")
    return body


def test_promote_refers_to_registration_and_every_rerun(promoted_lab: LabFolder) -> None:
    (entry,) = promoted_lab.entries("promotion")
    reruns = [e.leaf for e in promoted_lab.entries("proxy_run")]
    (registration,) = promoted_lab.entries("registration")
    assert list(entry.refs) == [registration.leaf, *reruns]
    assert len(reruns) == 2 * 2 * 2  # control and candidate, scales, fresh seeds
    assert entry.signature


def test_promote_configures_both_arms_alike_but_for_what_is_manipulated(
    promoted_lab: LabFolder,
) -> None:
    body = the_promotion(promoted_lab)
    plan = registered_plan(promoted_lab.open().source(), SUBJECT)
    configs = {arm: RunConfig.model_validate(config) for arm, config in body.configs.items()}
    chosen = next(c for c in body.candidates if c.name == body.chosen)
    assert configs["control"] == plan.full.config(plan.recipe, plan.recipe.control())
    assert configs["treatment"] == plan.full.config(plan.recipe, chosen.params)
    assert {change.key for change in body.changes} == {"model.d_model", "model.num_layers", "steps"}
    assert not any(change.deviation for change in body.changes)
    assert promoted_lab.bodies("deviation") == []


def test_promote_forecasts_each_target_from_two_scales(promoted_lab: LabFolder) -> None:
    forecasts = promoted_lab.bodies("forecast")
    assert {forecast.target for forecast in forecasts} == {"treatment", "control", "improvement"}
    for forecast in forecasts:
        assert [interval.level for interval in forecast.intervals] == [50, 80, 95]
        assert len(forecast.scales) == 2
        assert forecast.extrapolation_ratio > 1


def test_promote_again_returns_the_same_entry_and_appends_nothing(promoted_lab: LabFolder) -> None:
    (before,) = promoted_lab.entries("promotion")
    size = len(promoted_lab.entries())
    assert promoted_lab.open().promote("1").leaf == before.leaf
    assert len(promoted_lab.entries()) == size


def test_promote_interrupted_before_its_forecasts_makes_them_without_training_again(
    swept_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(promotion, "forecasts", die)
        with pytest.raises(KeyboardInterrupt):
            swept_lab.open().promote("1")
    assert (len(swept_lab.bodies("promotion")), swept_lab.bodies("forecast")) == (1, [])
    swept_lab.open().promote("1")
    assert (len(swept_lab.bodies("promotion")), len(swept_lab.bodies("forecast"))) == (1, 3)
    assert len(swept_lab.bodies("proxy_run")) == 8


@pytest.mark.parametrize("stage", ["registered", "sweeping"])
def test_promote_before_the_sweep_is_finished_is_refused(
    registered_lab: LabFolder, stage: str
) -> None:
    class Enough(Exception):
        pass

    def stop(
        task: str, done: float, total: float, detail: str = "", *, ended: bool = False
    ) -> None:
        if task == "trials" and done == 1:
            raise Enough

    if stage == "sweeping":
        with pytest.raises(Enough):
            registered_lab.open().sweep("1", progress=stop)
    with pytest.raises(ConflictError, match="is not finished") as refused:
        registered_lab.open().promote("1")
    assert refused.value.remedy == "workbench sweep 0001"
    assert registered_lab.bodies("promotion") == []


def hobbled(config: RunConfig, *arguments: Any, **named: Any) -> Any:
    """Train, but take away what made a candidate better than the control."""
    if config.optimizer.lr > 0.001:
        config = with_values(config, nested({"optimizer.lr": 1e-6}))
    return fit(config, *arguments, **named)


@pytest.fixture
def hopeless_lab(swept_lab: LabFolder, monkeypatch: pytest.MonkeyPatch) -> LabFolder:
    """The candidate's re-runs are worse than the control's."""
    monkeypatch.setattr(campaign, "fit", hobbled)
    swept_lab.open().promote("1")
    return swept_lab


def test_promotion_of_none_is_a_result_after_which_nothing_runs(hopeless_lab: LabFolder) -> None:
    body = the_promotion(hopeless_lab)
    assert body.chosen == "none"
    assert set(body.configs) == {"control"}
    assert hopeless_lab.bodies("forecast") == []
    for command in (lambda: hopeless_lab.open().run("1"), lambda: hopeless_lab.open().verdict("1")):
        with pytest.raises(ConflictError, match="chose no candidate") as refused:
            command()
        assert refused.value.remedy.startswith("workbench chronicle 0001")
    (status,) = hopeless_lab.open().status()
    assert (status.stage, status.detail) == ("promoted", "no candidate was good enough")
    assert status.next_command == "workbench chronicle 0001"
    html, _ = hopeless_lab.open().chronicle("1")
    assert "no candidate is feasible" in html.read_text("utf-8")
    assert hopeless_lab.open().verify().passed


def test_promote_full_scale_key_without_a_rule_is_recorded_as_a_deviation(
    promoted_lab: LabFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`check` refuses this before a registration; the promotion does not rely on that."""
    lab = promoted_lab.open()
    plan = registered_plan(lab.source(), SUBJECT)
    rules = plan.proposal.promotion.model_copy(update={"scaling_rules": ()})
    unruled = replace(plan, proposal=plan.proposal.model_copy(update={"promotion": rules}))
    monkeypatch.setattr(promotion, "find_promotion", lambda *a, **k: None)
    with lab.ledger() as ledger:
        promoter_of(unruled, ledger, promoted_lab).promote()
    deviations = promoted_lab.bodies("deviation")
    assert {deviation.what for deviation in deviations} == {
        "config model.d_model", "config model.num_layers", "config steps",
    }  # fmt: skip
    assert all("no scaling rule" in deviation.effect for deviation in deviations)


def promoter_of(plan: ExperimentPlan, ledger: Any, lab: LabFolder) -> Promoter:
    return Promoter(
        plan=plan,
        ledger=ledger,
        tracker=lab.tracker(),
        corpus=lab.corpus(),
        folder=lab.runs().with_name("ladder"),
        train=fit,
        progress=None,
    )


def test_promotion_body_of_another_entry_is_refused(promoted_lab: LabFolder) -> None:
    (entry,) = promoted_lab.entries("registration")
    with pytest.raises(IntegrityError, match="is not a promotion"):
        promotion_body(entry)


@pytest.mark.parametrize("title", ["plain", "breaks\nout: of the comment"])
def test_write_promoted_is_yaml_of_what_the_ledger_says(
    promoted_lab: LabFolder, tmp_path: Path, title: str
) -> None:
    (entry,) = promoted_lab.entries("promotion")
    body = promotion_body(entry)
    changes = [body.changes[0].model_copy(update={"explained_by": title}), *body.changes[1:]]
    told = replace(entry, body=body.model_copy(update={"changes": changes}))
    path = write_promoted(Layout(root=tmp_path / "elsewhere"), told)
    assert path == tmp_path / "elsewhere" / "reports" / SUBJECT / "full-scale.yaml"
    read = YAML(typ="safe").load(path.read_text("utf-8"))
    assert (read["promotion"], read["mode"], set(read)) == (
        entry.id,
        "confirmatory",
        {"promotion", "mode", "arms"},
    )
    for arm, config in read["arms"].items():
        assert RunConfig.model_validate(config) == RunConfig.model_validate(body.configs[arm])
