"""Overlap of the evaluation sets with what a run was served, in the run's last entry."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.labs import SUBJECT, LabFolder
from workbench.experiments.promotion import promotion_body
from workbench.experiments.served_text import measured_overlap
from workbench.registry.entries import RunEnded
from workbench.training.config import RunConfig
from workbench.training.sampling import served_windows

pytestmark = pytest.mark.usefixtures("one_thread")


def test_completed_run_says_how_much_of_the_held_out_text_it_was_served(
    finished_lab: LabFolder,
) -> None:
    corpus = finished_lab.corpus()
    held = {split: corpus.manifest.shards[split] for split in ("validation", "test")}
    ended = finished_lab.bodies("run_ended")
    assert len(ended) == 6
    for body in ended:
        sequences = sum(use.tokens for use in body.drawn.values()) // 16
        assert 0 < body.served.windows == body.served.measured_windows <= sequences
        assert (body.served.ngram, body.served.one_in) == (13, 1)
        assert set(body.served.sets) == {"validation", "test"}
        for name, overlap in body.served.sets.items():
            assert overlap.documents == sum(s.documents for s in held[name].values())
            assert overlap.ngrams > 0


def test_windows_counted_are_the_ones_that_the_run_drew(finished_lab: LabFolder) -> None:
    corpus = finished_lab.corpus()
    for started, ended in _lives(finished_lab):
        config = _config(finished_lab, started)
        windows = served_windows(config, corpus, int(started.seed), ended.last_step)
        drawn = {domain: int(of.times.sum()) * 16 for domain, of in windows.items()}
        assert drawn == {domain: use.tokens for domain, use in ended.drawn.items()}
        assert ended.served.windows == sum(int((of.times > 0).sum()) for of in windows.values())


def test_damaged_index_leaves_the_run_completed_and_says_why(
    finished_lab: LabFolder,
) -> None:
    corpus = finished_lab.corpus()
    started, ended = _lives(finished_lab)[0]
    config = _config(finished_lab, started)
    result: Any = SimpleNamespace(mixture=SimpleNamespace(steps=ended.last_step))
    assert measured_overlap(corpus, config, started, result) == (ended.served, "")
    (corpus.folder / "ngrams.npz").write_bytes(b"cut short")
    served, why = measured_overlap(corpus, config, started, result)
    assert served is None
    assert why.startswith("overlap with the evaluation sets was not measured: ")
    assert "ngrams.npz is not the file that was built" in why


def test_run_that_diverged_has_no_overlap(diverged_stage: LabFolder) -> None:
    by_outcome = {body.outcome: body for body in diverged_stage.bodies("run_ended")}
    assert by_outcome["diverged"].served is None
    assert by_outcome["completed"].served is not None


def test_entry_of_before_reads_as_it_was_and_says_nothing() -> None:
    old = {
        "mode": "confirmatory",
        "run": "control/seed-0",
        "attempt": 1,
        "outcome": "completed",
        "last_step": 12,
        "surviving_step": 12,
        "planned_steps": 12,
        "tokens": 384,
        "device_seconds": "1.5",
    }
    body = RunEnded.model_validate(old)
    assert body.served is None
    assert "served" not in body.to_json()


def _lives(lab: LabFolder) -> list[tuple[Any, Any]]:
    ended = {body.run: body for body in lab.bodies("run_ended")}
    return [(started, ended[started.run]) for started in lab.bodies("run_started")]


def _config(lab: LabFolder, started: Any) -> RunConfig:
    (promotion,) = lab.entries("promotion")
    assert promotion.subject == SUBJECT
    return RunConfig.model_validate(promotion_body(promotion).configs[started.arm])
