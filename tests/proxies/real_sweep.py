"""A whole sweep and ladder of real training in one process, for tests that kill it.

Run as ``python real_sweep.py FOLDER TRIAL:STEP``: the process kills itself with SIGKILL when that
proxy reaches that step; ``-`` for never. Prints the summary as JSON.
"""

import inspect
import json
import os
import pathlib
import signal
import statistics
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

from tests.proxies.conftest import SUBJECT, recipe_values
from workbench.canonical import fingerprint
from workbench.data.build import build_corpus
from workbench.proxies.ladder import LadderRun, run_ladder
from workbench.proxies.recipe import Recipe
from workbench.proxies.selection import sweep_ranking
from workbench.proxies.sweep import run_sweep
from workbench.proxies.sweep_plan import SweepRun
from workbench.proxies.watch import Progress, ProxyProgress
from workbench.registry.entries import Note
from workbench.registry.ledger import Ledger
from workbench.registry.proposal import Pruning, Sampler
from workbench.training.fit import fit
from workbench.training.results import DivergenceRule
from workbench.training.tracking import Tracker

TEXTS = {"code": [pathlib, textwrap, statistics], "docs": [inspect, json], "math": [statistics]}


def write_texts(folder: Path) -> None:
    for domain, modules in TEXTS.items():
        # one document a paragraph, numbered so that none is a duplicate across the domains
        parts = [p for module in modules for p in inspect.getsource(module).split("\n\n")]
        lines = [json.dumps({"text": f"{domain} {i}\n{p}"}) for i, p in enumerate(parts)]
        (folder / f"{domain}.jsonl").write_text("\n".join(lines[:400]), "utf-8")


def real_recipe() -> Recipe:
    values = recipe_values()
    for name, source in values["corpus"]["sources"].items():
        source.update({"source": f"jsonl:{name}.jsonl", "max_bytes": 100_000})
    values["corpus"]["tokenizer"] = {"vocab_size": 300, "train_bytes": 30_000}
    values["base"]["batch"] = {"sequences": 2, "seq_len": 16}
    values["base"]["checkpoint"] = {"every": 5}
    values["base"]["evaluation"] = {"every": 5, "bytes_per_domain": 500}
    return Recipe.model_validate(values)


def open_ledger(folder: Path) -> Ledger:
    place = {
        "url": f"sqlite:///{folder}/ledger.db", "origin": "lab.example/real",
        "keys_dir": folder / "keys", "actor": "tester", "clock": lambda: datetime.now(UTC),
    }  # fmt: skip
    if (folder / "ledger.db").exists():
        return Ledger.open(**place)
    ledger = Ledger.create(**place, lab_name="real")
    ledger.append(Note(text="registered"), subject=SUBJECT)
    return ledger


def killer(when: str) -> Progress:
    proxy, _, step = when.partition(":")

    def watch(state: ProxyProgress) -> None:
        if state.name == proxy and state.step == int(step) and state.loss is not None:
            os.kill(os.getpid(), signal.SIGKILL)

    return watch


def main(folder: Path, when: str) -> None:
    recipe = real_recipe()
    if not (folder / "code.jsonl").exists():
        write_texts(folder)
    corpus = build_corpus(
        recipe.corpus, root=folder, corpora=folder / "corpora", progress=lambda *_: None
    )
    divergence = DivergenceRule(loss_above=50.0, patience=5)
    with open_ledger(folder) as ledger:
        root = next(iter(ledger.entries(subject=SUBJECT))).leaf
        tools = {
            "ledger": ledger,
            "tracker": Tracker(f"sqlite:///{folder}/mlflow.db", folder / "artifacts", SUBJECT),
            "corpus": corpus, "train": fit, "progress": killer(when),
        }  # fmt: skip
        plan = SweepRun(
            subject=SUBJECT, mode="confirmatory", registration=root, recipe=recipe,
            recipe_sha256=fingerprint(recipe.model_dump(mode="json")).removeprefix("sha256:"),
            metric="bpb_macro", direction="minimize", sampler=Sampler(name="random", seed=3),
            budget_trials=4, pruning=Pruning(rule="none"), failed_trials="count",
            divergence=divergence, search_url=f"sqlite:///{folder}/optuna.db",
        )  # fmt: skip
        sweep = run_sweep(plan, folder=folder / "sweep", **tools)
        best = sweep_ranking(
            sweep.trials, direction="minimize", tie_break="earlier_trial", control=recipe.control()
        )[:1]
        ladder = run_ladder(
            LadderRun(
                subject=SUBJECT, mode="confirmatory", root=root, recipe=recipe,
                trials=tuple(best), scales=("s", "m"), fresh_seeds=2, failed_trials="count",
                metric="bpb_macro", direction="minimize", divergence=divergence,
            ),
            folder=folder / "ladder", **tools,
        )  # fmt: skip
    print(json.dumps({
        "sweep_counts": sweep.counts, "done": sweep.done, "recovered": sweep.recovered,
        "trials": [
            [t.params, t.seed, t.value] for t in sweep.trials if t.state == "completed"
        ],
        "ladder_counts": ladder.counts, "continued": ladder.recovered,
        "runs": [[r.candidate, r.scale, r.seed, r.value] for r in ladder.runs],
    }))  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
