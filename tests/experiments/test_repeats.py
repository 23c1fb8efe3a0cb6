"""Noise floors from repeats: only the training is a stand-in."""

import dataclasses
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.proxies.conftest import StubCorpus, StubTraining, recipe_values
from tests.proxies.test_sweep import raising
from workbench.errors import ConflictError, InvalidFileError
from workbench.experiments.floors import noise_floors
from workbench.experiments.locks import repeats_lock
from workbench.experiments.progress import silent
from workbench.experiments.repeat_plan import RepeatPlan, repeat_cost
from workbench.experiments.repeated import imported_floor, noise_floor
from workbench.experiments.repeats import Repeats
from workbench.proxies.recipe import Recipe
from workbench.proxies.seeds import repeat_seed, rerun_seed, trial_seed
from workbench.registry.entries import CodeState, DataState, NoiseFloor
from workbench.registry.ledger import Ledger
from workbench.training.tracking import Tracker

CODE = CodeState(commit="c" * 40, dirty=False, workbench="0.1.0")
SUBJECT = "recipe:tiny@1"


class Corpus(StubCorpus):
    domains = ("code", "docs", "math")

    def __init__(self, manifest: str = "sha256:aa") -> None:
        self.manifest = manifest

    def state(self) -> DataState:
        return DataState(
            corpus="tiny@1",
            manifest=self.manifest,
            documents={},
            tokens={},
            duplicates_removed=0,
            natural_mixture=self.natural_mixture(),
        )


class Training(StubTraining):
    """Measures a domain beside the mean."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        result = super().__call__(*arguments, **named)
        if result.final is not None:
            result.final = {**result.final, "bpb_code": result.final["bpb_macro"] * 2}
        return result


@pytest.fixture(scope="session")
def mlflow_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.fixture
def tracker(tmp_path: Path, mlflow_uri: str) -> Tracker:
    name = "".join(c for c in tmp_path.name if c.isalnum())
    return Tracker(mlflow_uri, tmp_path / "artifacts", name)


@pytest.fixture
def train() -> Training:
    return Training()


@pytest.fixture
def plan() -> RepeatPlan:
    recipe = Recipe.model_validate(recipe_values())
    return RepeatPlan(
        subject=SUBJECT,
        recipe=recipe,
        recipe_sha256="a" * 64,
        scale="s",
        experiment="",
        config=recipe.at_scale("s"),
        loss_above=20.0,
        patience=3,
    )


@pytest.fixture
def repeats(
    plan: RepeatPlan, ledger: Ledger, tracker: Tracker, train: Training, tmp_path: Path
) -> Repeats:
    return Repeats(
        plan=plan,
        ledger=ledger,
        tracker=tracker,
        corpus=Corpus(),  # type: ignore[arg-type]
        runs=tmp_path / "runs",
        code=CODE,
        train=train,
        progress=silent,
    )


def measured(repeats: Repeats, num_runs: int) -> NoiseFloor:
    body = repeats.measure(num_runs)[0].body
    assert isinstance(body, NoiseFloor)
    return body


def test_repeats_differ_in_nothing_but_a_derived_seed(
    repeats: Repeats, plan: RepeatPlan, train: Training, ledger: Ledger
) -> None:
    entry, is_new = repeats.measure(4)
    body = entry.body
    assert isinstance(body, NoiseFloor)
    assert (entry.subject, entry.kind, is_new) == (SUBJECT, "noise_floor", True)
    assert {repr(call["config"]) for call in train.calls} == {repr(plan.config)}
    seeds = [call["seed"] for call in train.calls]
    assert [run.seed for run in body.repeats] == [str(seed) for seed in seeds]
    assert seeds == [repeat_seed(plan.config_sha256, "sha256:aa", i) for i in range(4)]
    assert len(set(seeds)) == 4
    others = {trial_seed(s, i) for s in range(3) for i in range(50)}
    others |= {rerun_seed(plan.config_sha256, "s", i) for i in range(50)}
    assert others.isdisjoint(seeds)
    values = [run.values["bpb_macro"] for run in body.repeats]
    assert body.spreads == {
        "bpb_macro": pytest.approx(statistics.stdev(values), rel=1e-9),
        "bpb_code": pytest.approx(statistics.stdev(values) * 2, rel=1e-9),
    }
    assert (body.num_runs, body.scale, body.evaluation_set) == (4, "s", "validation")
    assert body.mixture == {"code": 0.5, "docs": 0.3, "math": 0.2}
    assert body.device_seconds == 40.0
    assert body.source == "workbench noise; diverged: loss above 20 for 3 steps"
    assert list(ledger.entries(kind="exposure")) == []


def test_repeats_that_ended_are_not_run_again(
    repeats: Repeats, train: Training, ledger: Ledger
) -> None:
    first = repeats.measure(2)
    assert repeats.measure(2) == (first[0], False)
    assert len(train.calls) == 2
    longer = measured(repeats, 3)
    assert len(train.calls) == 3
    assert isinstance(first[0].body, NoiseFloor)
    assert longer.repeats[:2] == first[0].body.repeats
    # Fewer than there are: none is left out.
    assert measured(repeats, 2).num_runs == 3
    assert len(list(ledger.entries(kind="noise_floor"))) == 2


def test_repeats_interrupted_continue_under_the_same_mlflow_run(
    repeats: Repeats, tracker: Tracker, train: Training, ledger: Ledger
) -> None:
    train.script[1] = raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        repeats.measure(3)
    (killed,) = tracker.find_runs({"workbench.kind": "noise_repeat"}, status="KILLED")
    assert list(ledger.entries(kind="noise_floor")) == []
    body = measured(repeats, 3)
    assert len(train.calls) == 4
    assert body.repeats[1].mlflow_run == killed.run_id
    # The time of what was lost is told.
    assert body.repeats[1].device_seconds > body.repeats[0].device_seconds
    runs = tracker.find_runs({"workbench.kind": "noise_repeat"})
    assert [run.status for run in runs] == ["FINISHED"] * 3
    assert {run.tags["workbench.scale"] for run in runs} == {"s"}


def test_repeat_that_diverged_is_recorded_and_no_value(
    repeats: Repeats, tracker: Tracker, train: Training, ledger: Ledger
) -> None:
    train.script[2] = lambda: "diverged"
    entry, _ = repeats.measure(11)
    body = entry.body
    assert isinstance(body, NoiseFloor)
    assert [run.state for run in body.repeats].count("completed") == body.num_runs == 10
    gone = body.repeats[2]
    assert (gone.state, gone.values, gone.reason) == ("diverged", {}, "as scripted")
    assert noise_floors(ledger, entry.leaf)["bpb_macro"].num_runs == 10
    (failed,) = tracker.find_runs({"workbench.kind": "noise_repeat"}, status="FAILED")
    assert failed.run_id == gone.mlflow_run
    repeats.measure(11)
    assert len(train.calls) == 11


def test_too_few_that_completed_are_a_record_and_no_floor(
    repeats: Repeats, train: Training, ledger: Ledger
) -> None:
    train.script[0] = lambda: "diverged"
    entry, _ = repeats.measure(10)
    with pytest.raises(ConflictError, match="is of 9 runs"):
        noise_floors(ledger, entry.leaf)


def test_repeat_that_failed_is_recorded_and_tried_again_by_the_next_call(
    repeats: Repeats, train: Training, ledger: Ledger
) -> None:
    train.script[0] = raising(RuntimeError("boom"))
    first = measured(repeats, 2)
    assert [run.state for run in first.repeats] == ["failed", "completed"]
    assert first.spreads == {}
    assert "boom" in first.repeats[0].reason
    second = measured(repeats, 2)
    assert (second.num_runs, len(train.calls)) == (2, 3)
    assert second.repeats[0].seed == first.repeats[0].seed
    assert len(list(ledger.entries(kind="noise_floor"))) == 2


def test_repeats_of_one_configuration_by_two_processes_are_refused(
    repeats: Repeats, train: Training
) -> None:
    with (
        repeats_lock(repeats.folder, "another"),
        pytest.raises(ConflictError, match="at work on the repeats of tiny@1 at s"),
    ):
        repeats.measure(2)
    assert train.calls == []


@pytest.mark.parametrize(
    "change",
    [
        lambda r: {"corpus": Corpus("sha256:bb")},
        lambda r: {"plan": dataclasses.replace(r.plan, config=r.plan.recipe.at_scale("m"))},
        lambda r: {"plan": dataclasses.replace(r.plan, loss_above=9.0)},
    ],
)
def test_repeats_of_another_configuration_are_others(
    repeats: Repeats, train: Training, change: Callable[[Repeats], dict[str, Any]]
) -> None:
    measured(repeats, 2)
    other = dataclasses.replace(repeats, **change(repeats))
    assert other.ended() == {}
    assert measured(other, 2).num_runs == 2
    assert len(train.calls) == 4


def test_mixture_of_a_floor_is_averaged_over_the_steps(plan: RepeatPlan) -> None:
    plain = plan.config.model_dump(mode="json")
    plain["phases"][2]["mixture"] = {"code": 1.0}
    config = type(plan.config).model_validate(plain)
    other = dataclasses.replace(plan, config=config)
    body = noise_floor(
        other,
        Corpus(),
        [],
        origin="run",
        source="x",
        code=CODE,  # type: ignore[arg-type]
    )
    # Seven steps of ten at the natural mixture, three of code alone.
    assert body.mixture == pytest.approx({"code": 0.65, "docs": 0.21, "math": 0.14})
    assert math.fsum(body.mixture.values()) == pytest.approx(1)


def test_cost_is_of_what_is_left_at_the_pace_of_this_lab(
    repeats: Repeats, plan: RepeatPlan, ledger: Ledger
) -> None:
    unknown = repeat_cost(ledger, plan, planned=10, done=0, seconds_done=0.0)
    assert (unknown.tokens, unknown.seconds) == (10 * 160, None)
    begun = repeat_cost(ledger, plan, planned=10, done=4, seconds_done=20.0)
    assert (begun.tokens, begun.seconds) == (6 * 160, 30.0)
    repeats.measure(2)
    known = repeat_cost(ledger, plan, planned=3, done=0, seconds_done=0.0)
    assert known.seconds == pytest.approx(30.0)


IMPORTED = "seed,bpb_macro,bpb_code\n1,2.01,1.5\n2,2.03,1.4\nc,2.02,1.7\n"


@pytest.fixture
def imported(plan: RepeatPlan, ledger: Ledger, tmp_path: Path) -> Callable[..., Any]:
    def read(text: str, metric: str = "") -> Any:
        file = tmp_path / "runs.csv"
        file.write_text(text, "utf-8")
        return imported_floor(
            plan,
            Corpus(),
            file,
            ledger=ledger,
            metric=metric,
            code=CODE,  # type: ignore[arg-type]
        )

    return read


def test_imported_repeats_name_their_file_and_its_hash(imported: Callable[..., Any]) -> None:
    entry = imported(IMPORTED)
    body = entry.body
    assert (body.origin, body.num_runs, body.device_seconds) == ("imported", 3, 0.0)
    assert body.source.startswith("runs.csv sha256:")
    assert len(body.source) == len("runs.csv sha256:") + 64
    assert body.spreads["bpb_macro"] == pytest.approx(0.01)
    assert [run.seed for run in body.repeats] == ["1", "2", "c"]
    with pytest.raises(ConflictError, match=f"are on record: entry {entry.sequence}"):
        imported(IMPORTED)


def test_imported_repeat_without_a_value_diverged(imported: Callable[..., Any]) -> None:
    body = imported("seed,value\n1,2.0\n2,2.1\n3,\n4,nan\n", metric="bpb_macro").body
    states = [(run.state, run.reason) for run in body.repeats]
    assert states[2:] == [("diverged", "no value"), ("diverged", "bpb_macro is nan")]
    assert (body.num_runs, set(body.spreads)) == (2, {"bpb_macro"})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("seed\n1\n", "needs one column seed and one a metric"),
        ("run,bpb_macro\n1,2\n", "needs one column seed"),
        ("seed,loss\n1,2\n", "no metrics of this recipe: loss"),
        ("seed,value\n1,2\n", "--metric bpb_macro"),
        ("seed,bpb_macro,bpb_macro\n1,2,2\n", "a metric in two columns"),
        ("seed,bpb_macro\n1,2\n1,3\n", "runs.csv:3: a second repeat of seed 1"),
        ("seed,bpb_macro\n,2\n", "runs.csv:2: a repeat without a seed"),
        ("seed,bpb_macro\n1,two\n", "value 'two' is not a number"),
        ("seed,bpb_macro,bpb_code\n1,2,\n", "only some of its values"),
        ("seed,bpb_macro\n1\n", "1 cells under 2 columns"),
        ("", "needs one column seed"),
    ],
)
def test_imported_table_that_cannot_be_read_is_refused(
    imported: Callable[..., Any], ledger: Ledger, text: str, complaint: str
) -> None:
    with pytest.raises(InvalidFileError) as refused:
        imported(text)
    assert complaint in str(refused.value)
    assert list(ledger.entries(kind="noise_floor")) == []
