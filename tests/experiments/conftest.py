"""A lab with one answered proposal, in files and git as a researcher would have it."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.labs import SUBJECT, LabFolder
from workbench.experiments.health import ExperimentHealth
from workbench.experiments.proposing import propose
from workbench.layout import Layout
from workbench.registry.entries import DataState
from workbench.registry.ledger import Ledger
from workbench.scaffold.demo import with_lines
from workbench.scaffold.lab import write_lab

ORIGIN = "example.org/lab"
ANSWERS = {
    "foreknowledge: FILL IN": "foreknowledge: none",
    "minimum_effect: FILL IN": "minimum_effect: 0.01",
    "superior(FILL IN)": "superior(0.01)",
    "expected_improvement: FILL IN": "expected_improvement: 0.02",
}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    root = tmp_path / "lab"
    write_lab(root, name="lab", origin=ORIGIN)
    return Layout(root=root)


@pytest.fixture
def answer() -> Callable[[Path], None]:
    """Fills in every answer that a fresh proposal owes."""

    def fill(folder: Path) -> None:
        file = folder / "proposal.md"
        text = file.read_text("utf-8")
        for old, new in ANSWERS.items():
            text = text.replace(old, new)
        keys = iter(range(1000))
        text = re.sub(r">-\n( *)FILL IN", lambda m: f">-\n{m[1]}Answer {next(keys)}.", text)
        file.write_text(text, "utf-8")

    return fill


@pytest.fixture
def folder(layout: Layout, answer: Callable[[Path], None]) -> Path:
    """An experiment that can be registered."""
    made = propose(layout, "Does a tuned mixture help?", owner="lead")
    answer(made)
    return made


@pytest.fixture
def git(layout: Layout) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        identity = ["-c", "user.name=lab", "-c", "user.email=lab@example.org"]
        command = ["git", *identity, "-C", str(layout.root), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return run


@pytest.fixture
def committed(folder: Path, git: Callable[..., str]) -> Path:
    """The experiment, committed."""
    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "Begin the lab")
    return folder


@pytest.fixture
def ledger(layout: Layout, tmp_path: Path, clock: Callable[[], datetime]) -> Iterator[Ledger]:
    with Ledger.create(
        url=f"sqlite:///{layout.state / 'ledger.db'}",
        origin=ORIGIN,
        keys_dir=tmp_path / "keys",
        actor="lead",
        clock=clock,
        lab_name="lab",
    ) as made:
        yield made


@pytest.fixture
def corpus() -> DataState:
    counts = {
        f"{split}_{domain}": 10_000
        for split in ("train", "validation", "test")
        for domain in ("code", "docs", "math")
    }
    return DataState(
        corpus="builtin-code-docs-math@1",
        manifest="sha256:00",
        documents=counts,
        tokens=counts,
        duplicates_removed=1,
        natural_mixture={"code": 0.4, "docs": 0.3, "math": 0.3},
    )


def diverging(run: str) -> Callable[..., Any]:
    """Return `fit`, except that one run is held to a rule that any loss breaks."""
    # Torch and Lightning: only where a test trains.
    from workbench.training.fit import fit
    from workbench.training.results import DivergenceRule

    def train(*arguments: Any, **named: Any) -> Any:
        if named["folder"].as_posix().endswith(run):
            named["divergence"] = DivergenceRule(loss_above=0.001, patience=2)
        return fit(*arguments, **named)

    return train


@pytest.fixture(scope="session")
def diverged_stage(
    promoted_stage: LabFolder, one_thread: None, tmp_path_factory: pytest.TempPathFactory
) -> LabFolder:
    """One treatment run diverged, the others completed."""
    from workbench.experiments import campaign

    lab = promoted_stage.copy(tmp_path_factory.mktemp("diverged"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaign, "fit", diverging("treatment/seed-1"))
        lab.open().run("1")
    return lab


OWNED_UP = {
    "none": "what is explored in this lab",
    'foreknowledge: "related_results"': 'foreknowledge: "these_outcomes"',
}


def rewrite(lab: LabFolder, lines: dict[str, str]) -> None:
    file = lab.root / "experiments" / SUBJECT / "proposal.md"
    file.write_text(with_lines(file.read_text("utf-8"), lines), "utf-8")
    lab.commit()


@pytest.fixture(scope="session")
def explored_stage(
    filed_stage: LabFolder, one_thread: None, tmp_path_factory: pytest.TempPathFactory
) -> LabFolder:
    """An unregistered proposal that says that it is explored, up to full scale."""
    lab = filed_stage.copy(tmp_path_factory.mktemp("explored"))
    rewrite(lab, OWNED_UP)
    for step in ("sweep", "promote", "run"):
        getattr(lab.open(), step)("1", exploratory=True)
    return lab


@pytest.fixture
def explored_lab(explored_stage: LabFolder, use: Callable[[LabFolder], LabFolder]) -> LabFolder:
    return use(explored_stage)


@dataclass(frozen=True)
class Interrupted:
    """A lab whose third run was stopped in the middle, at its fifth of twelve steps."""

    during: ExperimentHealth
    """As another program saw it while the run was at work."""
    dead: LabFolder
    """The files as a SIGKILL would have left them."""
    killed: LabFolder
    """The lab after Ctrl-C."""


@pytest.fixture(scope="session")
def interrupted_stage(
    promoted_stage: LabFolder, one_thread: None, tmp_path_factory: pytest.TempPathFactory
) -> Interrupted:
    lab = promoted_stage.copy(tmp_path_factory.mktemp("stopped"))
    dead = tmp_path_factory.mktemp("dead")
    seen: list[ExperimentHealth] = []

    def stop(
        task: str, done: float, total: float, detail: str = "", *, ended: bool = False
    ) -> None:
        if (task, done) == ("control/seed-1", 5):
            seen.append(lab.open().health("1"))
            lab.copy(dead)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        lab.open().run("1", progress=stop)
    return Interrupted(during=seen[0], dead=LabFolder(dead), killed=lab)
