"""A small log with an entry of every kind, in the order in which an experiment makes them."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from workbench.registry.entries import (
    BODIES,
    Anchor,
    Body,
    Candidate,
    CodeState,
    CurvePoint,
    DataState,
    Decision,
    Deviation,
    Document,
    DomainUse,
    EvaluationPoint,
    Exposure,
    Forecast,
    ForecastScore,
    GuardrailResult,
    Incident,
    Interval,
    KeyChange,
    Note,
    Promotion,
    ProxyRun,
    Registration,
    RunEnded,
    RunStarted,
    ScalePoint,
    SeedValue,
    SweepEnded,
    SweepStarted,
    Trial,
    Verdict,
)
from workbench.registry.keys import keys_folder
from workbench.registry.ledger import Entry, Ledger
from workbench.registry.publish import publish
from workbench.registry.seeds import time_locked_seed

ORIGIN = "example.com/lab"
SUBJECT = "0001-more-code"
STORY_KINDS = tuple(
    kind
    for kind in BODIES
    if kind
    not in (
        "amendment", "withdrawal", "approval", "embargo", "reveal", "redaction", "key_rotation",
        "look", "noise_floor",
    )
)  # fmt: skip
CODE = CodeState(commit="c" * 40, dirty=False, workbench="0.1.0")


@dataclass(frozen=True, kw_only=True)
class LogFolder:
    """A ledger, its keys and its published files below one folder."""

    root: Path

    @property
    def database(self) -> Path:
        return self.root / "state" / "ledger.db"

    @property
    def published(self) -> Path:
        return self.root / "registry"

    @property
    def keys(self) -> Path:
        return keys_folder(self.root / "keys", ORIGIN)

    def open(self, clock: Callable[[], datetime] | None = None) -> Ledger:
        return Ledger.open(
            url=f"sqlite:///{self.database}",
            origin=ORIGIN,
            keys_dir=self.root / "keys",
            actor="researcher",
            clock=clock or ticking(),
        )

    def create(self) -> Ledger:
        return Ledger.create(
            url=f"sqlite:///{self.database}",
            origin=ORIGIN,
            keys_dir=self.root / "keys",
            actor="researcher",
            clock=ticking(),
            lab_name="test lab",
        )

    def sql(self, *statements: str) -> None:
        """Change the store behind the ledger's back, as an intruder with the file would."""
        connection = sqlite3.connect(self.database)
        try:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type='trigger'")
            for (name,) in names.fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            for statement in statements:
                connection.execute(statement)
            connection.commit()
        finally:
            connection.close()


def ticking() -> Callable[[], datetime]:
    moments: Iterator[datetime] = (
        datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=n) for n in range(10**9)
    )
    return lambda: next(moments)


def registration() -> Registration:
    document = Document(path="experiments/0001-more-code/proposal.md", sha256="a" * 64, text="é\n")
    return Registration(
        experiment=SUBJECT,
        title="More code helps",
        proposal=document,
        recipe=document,
        full=document,
        frozen={"title": "More code helps", "design": {"seeds": 2, "alpha": 0.05}},
        control={"balance": {"weight": 0.01}},
        code=CODE,
        environment={"python": "3.11"},
        data=DataState(
            corpus="builtin@1",
            manifest="sha256:aa",
            documents={"train_code": 3},
            tokens={"train_code": 300},
            duplicates_removed=1,
            natural_mixture={"code": 0.25, "docs": 0.75},
            builder={"python": "3.11"},
        ),
        arms=["control", "treatment"],
        num_seeds=2,
    )


def _sweep(ledger: Ledger, registered: Entry) -> list[Entry]:
    params = {"balance": {"weight": 0.03}}
    bodies: list[Body] = [
        SweepStarted(mode="confirmatory", recipe="mix@1", recipe_sha256="b" * 64, sampler="tpe",
                     sampler_seed="1", budget_trials=1, already_done=0, mlflow_run="m1"),
        Trial(mode="confirmatory", number=0, state="completed", scale="s", params=params, seed="7",
              metric="bpb_macro", value=2.5, last_value=2.5, steps=10, tokens=100,
              device_seconds=1.5, mlflow_run="m2", reason="done",
              drawn={"code": DomainUse(tokens=100, share=1.0, stated=1.0, epochs=0.5)}),
        SweepEnded(mode="confirmatory", declared=1, counts={"completed": 1}, finished=True,
                   reason="budget used"),
        ProxyRun(mode="confirmatory", candidate="trial-00", scale="s", parameters=1000,
                 seed_index=0, seed="8", params=params, state="completed", metric="bpb_macro",
                 value=2.25, steps=10, tokens=100, device_seconds=1.5, mlflow_run="m3",
                 reason="done"),
    ]  # fmt: skip
    return [ledger.append(body, subject=SUBJECT, refs=[registered.leaf]) for body in bodies]


def _promotion(ledger: Ledger, registered: Entry, proxy: Entry) -> list[Entry]:
    promotion = Promotion(
        mode="confirmatory",
        chosen="trial-00",
        rule="best mean",
        candidates=[
            Candidate(name="trial-00", params={}, sweep_value=2.5, rerun_mean=2.25, rerun_sd=0.1,
                      rerun_n=2, improvement=0.25, lower=0.1, upper=0.4, feasible=True,
                      reason="best")
        ],
        changes=[KeyChange(key="steps", proxy=10, full=100, explained_by="scaling rule: steps",
                           deviation=False)],
        configs={"treatment": {"steps": 100}},
        config_sha256={"treatment": "d" * 64},
        reason="rule",
    )  # fmt: skip
    promoted = ledger.append(promotion, subject=SUBJECT, refs=[registered.leaf, proxy.leaf])
    forecast = Forecast(
        mode="confirmatory",
        target="improvement",
        metric="bpb_macro",
        method="power_law",
        point=0.2,
        intervals=[Interval(level=80, lower=0.1, upper=0.3)],
        spread=0.05,
        scales=[ScalePoint(scale="s", parameters=1000, tokens=100, compute_flops=6e5, mean=2.25,
                           sd=0.1, n=2)],
        extrapolation_ratio=10.0,
        baselines={"no_effect": 0.0},
        assumptions=["a power law"],
    )  # fmt: skip
    refs = [registered.leaf, promoted.leaf]
    return [promoted, ledger.append(forecast, subject=SUBJECT, refs=refs)]


def run_started(seed: int, **changes: object) -> RunStarted:
    values: dict[str, object] = {
        "mode": "confirmatory", "run": "treatment/seed-0", "arm": "treatment", "seed_index": 0,
        "seed": str(seed), "attempt": 1, "from_step": 0, "parent_checkpoint": "",
        "config_sha256": "d" * 64, "code": CODE, "host": {"cpu": "any"}, "mlflow_run": "m4",
    }  # fmt: skip
    return RunStarted.model_validate(values | changes)


def _run(ledger: Ledger, registered: Entry, promoted: Entry, seed: int) -> list[Entry]:
    refs = [registered.leaf, promoted.leaf]
    started = ledger.append(run_started(seed), subject=SUBJECT, refs=refs)
    incident = Incident(
        run="treatment/seed-0", attempt=1, severity="warning", category="loss_spike",
        layer="optimizer", began_step=3, detected_step=4, symptom="loss 9", excerpt="raw",
        action="none", lost_steps=0, lost_tokens=0, lost_device_seconds=0.0,
    )  # fmt: skip
    ended = RunEnded(
        mode="confirmatory", run="treatment/seed-0", attempt=1, outcome="completed", last_step=100,
        surviving_step=100, planned_steps=100, tokens=1000, device_seconds=9.5,
        checkpoint_sha256="e" * 64, telemetry_sha256="f" * 64,
        curve=[CurvePoint(step=1, loss=float("nan")), CurvePoint(step=2, loss=3.5)],
        evaluations=[EvaluationPoint(step=100, values={"bpb_macro": 2.0})], reason="done",
    )  # fmt: skip
    return [
        started,
        ledger.append(incident, subject=SUBJECT, refs=[started.leaf]),
        ledger.append(ended, subject=SUBJECT, refs=[started.leaf]),
    ]


def _verdict(ledger: Ledger, rests_on: list[str]) -> None:
    deviation = Deviation(what="threads", registered="2", found="4", effect="none")
    exposure = Exposure(what="sealed_test", by="verdict", purpose="decide", runs=["t/seed-0"])
    exposed = [
        ledger.append(body, subject=SUBJECT, refs=rests_on[:1]) for body in (deviation, exposure)
    ][-1]
    verdict = Verdict(
        mode="confirmatory", outcome="supported", hypothesis="H1", claim="superior(0.02)",
        interval="welch_t", alpha=0.05, metric="bpb_macro", direction="minimize",
        values={"treatment": [SeedValue(seed_index=0, value=2.0, run="treatment/seed-0",
                                        checkpoint_sha256="e" * 64)]},
        estimate=0.25, lower=0.1, upper=0.4, degrees_of_freedom=3.5,
        per_metric={"bpb_code": {"treatment": 1.5}},
        guardrails=[GuardrailResult(metric="bpb_code", at_most=2.0, treatment_mean=1.5, held=True)],
        void_reasons=["none"], action="adopt",
        scores=[ForecastScore(target="improvement", observed=0.25, error=0.05,
                              covered={"p80": True}, interval_score_80=0.2, crps=0.01,
                              crps_baselines={"no_effect": 0.1}, grade="uncalibrated, n<30")],
    )  # fmt: skip
    decided = ledger.append(verdict, subject=SUBJECT, refs=[*rests_on, exposed.leaf])
    decision = Decision(
        question="Adopt?", options=["yes", "no"], chosen="yes", basis="rule", evidence=["verdict"],
        dissent="none", owner="researcher", reversible=True, rollback="previous recipe",
        would_reverse="a failed replication",
    )  # fmt: skip
    ledger.append(decision, subject=SUBJECT, refs=[decided.leaf])
    ledger.append(Note(text="Looks good\nto me"), subject=SUBJECT)


def tell(ledger: Ledger) -> None:
    """Append one entry of every kind."""
    registered = ledger.append(registration(), subject=SUBJECT)
    head = ledger.head()
    anchor = Anchor(method="embedded", head=head.note, tree_size=head.size)
    ledger.append(anchor, subject=SUBJECT, refs=[registered.leaf])
    proxy = _sweep(ledger, registered)[-1]
    promoted, forecast = _promotion(ledger, registered, proxy)
    seed = time_locked_seed(head.note, registered.leaf, 0)
    ended = _run(ledger, registered, promoted, seed)[-1]
    _verdict(ledger, [registered.leaf, promoted.leaf, forecast.leaf, ended.leaf])


@pytest.fixture(scope="session")
def _story(tmp_path_factory: pytest.TempPathFactory) -> LogFolder:
    folder = LogFolder(root=tmp_path_factory.mktemp("story"))
    with folder.create() as ledger:
        tell(ledger)
        publish(ledger, folder.published)
    return folder


@pytest.fixture
def story(_story: LogFolder, tmp_path: Path) -> LogFolder:
    """A copy of the log of every kind, to do with as one likes."""
    shutil.copytree(_story.root, tmp_path / "log")
    return LogFolder(root=tmp_path / "log")


@pytest.fixture
def fresh(tmp_path: Path) -> LogFolder:
    """A folder without a log."""
    return LogFolder(root=tmp_path / "fresh")
