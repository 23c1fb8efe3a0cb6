"""How much seeds differ, as the lab measured it."""

import math
import statistics
from dataclasses import replace
from typing import Any

import pytest

from tests.registry.stories import noise_floor
from tests.reports.sample import EXPERIMENT, MemoryLog, sample_log
from workbench.analysis.claims import sample_variance
from workbench.experiments.doubts import about_noise
from workbench.experiments.draft import proposal_draft
from workbench.experiments.noise import Noise, measured_noise
from workbench.registry.entries import Hidden, Repeat
from workbench.registry.located import read_yaml

CONTROL = (1.7791, 1.7724, 1.7836)
TREATMENT = (1.7312, 1.7281, 1.7349)
CORPUS = "builtin-three@1"


def measured(log: MemoryLog, **changes: str) -> Noise | None:
    asked = {"metric": "bpb_macro", "corpus": CORPUS, "but": "0002-next"} | changes
    return measured_noise(log, **asked)


def without(log: MemoryLog, *kinds: str) -> MemoryLog:
    return replace(log, found=[entry for entry in log.found if entry.kind not in kinds])


def test_noise_is_pooled_over_the_arms_of_earlier_verdicts() -> None:
    found = measured(sample_log())
    assert found is not None
    pooled = math.sqrt((sample_variance(CONTROL) + sample_variance(TREATMENT)) / 2)
    assert found.sd == pytest.approx(pooled)
    assert (found.freedom, found.is_known) == (4, True)
    assert found.source == "full-scale seeds of 0001"
    assert found.lower() < found.sd


def test_noise_without_a_verdict_is_that_of_the_largest_proxies() -> None:
    found = measured(without(sample_log(), "verdict"))
    assert found is not None
    # Three candidates on three seeds at the larger of two scales, whose spread is drawn from 0.004.
    assert found.freedom == 6
    assert found.source == "proxy re-runs of 0001"
    assert 0.002 < found.sd < 0.008


@pytest.mark.parametrize(
    "changes", [{"metric": "bpb_code"}, {"corpus": "other@1"}, {"but": EXPERIMENT}]
)
def test_noise_of_another_metric_or_corpus_or_of_itself_is_none(changes: dict[str, str]) -> None:
    assert measured(sample_log(), **changes) is None


def test_noise_of_a_hidden_registration_is_not_used() -> None:
    log = sample_log()
    place = next(i for i, entry in enumerate(log.found) if entry.kind == "registration")
    log.found[place] = replace(log.found[place], body=Hidden())
    assert measured(log) is None


def test_noise_of_few_runs_binds_nobody() -> None:
    few = Noise(sd=0.01, origin="measured", source="full-scale seeds of 0001", freedom=3)
    assert not few.is_known
    assert Noise(sd=0.01, origin="assumed", source="a paper").is_known
    assert few.sentence() == "0.01, measured: full-scale seeds of 0001, 3 degrees of freedom"


def floor(
    log: MemoryLog, *values: float, scale: str = "full", own: bool = False, **changes: Any
) -> None:
    """Log a noise floor of these values."""
    repeats = [
        Repeat(seed=str(i), state="completed", values={"bpb_macro": value})
        for i, value in enumerate(values)
    ]
    subject = {True: "0002-next", False: "0003-other"}[own] if scale == "full" else ""
    body = noise_floor().model_copy(
        update={"scale": scale, "experiment": subject, "corpus": CORPUS, "repeats": repeats}
        | {"num_runs": len(values), "parameters": 100, "config_sha256": scale + subject}
        | changes
    )
    entry = replace(log.found[-1], kind="noise_floor", subject=subject or "recipe:r@1", body=body)
    log.found.append(entry)


WIDE = (1.0, 1.2, 1.4, 1.6, 1.8)
NARROW = (1.00, 1.01, 1.02, 1.03, 1.04)


def test_noise_floor_at_full_scale_comes_before_other_experiments_seeds() -> None:
    log = sample_log()
    floor(log, *WIDE)
    found = measured(log)
    assert found is not None
    assert (found.sd, found.freedom) == (pytest.approx(statistics.stdev(WIDE)), 4)
    assert found.source == "noise floor of 0003 at full scale (mixture code 0.5, docs 0.5)"


def test_noise_floor_of_the_planned_experiment_comes_first() -> None:
    log = sample_log()
    floor(log, *NARROW, own=True)
    floor(log, *WIDE, 2.0)
    found = measured(log)
    assert found is not None
    assert found.source.startswith("noise floor of 0002 at full scale")


def test_noise_floors_of_two_mixtures_are_never_pooled() -> None:
    log = without(sample_log(), "verdict")
    floor(log, *WIDE)
    floor(log, *NARROW, 1.05, mixture={"code": 1.0, "docs": 0.0}, config_sha256="other")
    found = measured(log)
    assert found is not None
    assert found.sd == pytest.approx(statistics.stdev((*NARROW, 1.05)))
    assert "(mixture code 1, docs 0)" in found.source


def test_noise_floor_that_was_extended_counts_each_seed_once() -> None:
    log = sample_log()
    floor(log, *WIDE[:3])
    floor(log, *WIDE)
    found = measured(log)
    assert found is not None
    assert (found.sd, found.freedom) == (pytest.approx(statistics.stdev(WIDE)), 4)


def test_noise_floor_at_a_recipes_scale_comes_after_verdicts_and_before_re_runs() -> None:
    log = sample_log()
    floor(log, *WIDE, scale="d64")
    floor(log, *NARROW, scale="d128", parameters=400)
    found = measured(log)
    assert found is not None
    assert found.source == "full-scale seeds of 0001"
    proxies = measured(without(log, "verdict"))
    assert proxies is not None
    assert proxies.source == "noise floor of r@1 at d128 (mixture code 0.5, docs 0.5)"


def test_noise_floor_of_few_runs_gives_way_to_what_binds() -> None:
    log = sample_log()
    floor(log, *WIDE[:3], own=True)
    found = measured(log)
    assert found is not None
    assert found.source == "full-scale seeds of 0001"
    alone = measured(without(log, "verdict", "proxy_run"))
    assert alone is not None
    assert (alone.freedom, alone.is_known) == (2, False)


@pytest.mark.parametrize(
    "changes",
    [
        {"corpus": "other@1"},
        {"repeats": [Repeat(seed="1", state="diverged")] * 9},
        {"repeats": [Repeat(seed=s, state="completed", values={"bpb_macro": 1.0}) for s in "ab"]},
    ],
)
def test_noise_floor_that_says_nothing_of_the_metric_is_none(changes: dict[str, Any]) -> None:
    log = without(sample_log(), "verdict", "proxy_run")
    floor(log, *WIDE, **changes)
    assert measured(log) is None


def test_margin_below_twice_the_floor_is_doubted() -> None:
    draft = proposal_draft(read_yaml(EFFECT.format(worth=0.01, margin=0.02), "p.md"))
    known = Noise(sd=0.02, origin="measured", source="noise floor of 0003", freedom=9)
    said = [str(fault) for fault in about_noise(draft, known)]
    assert len(said) == 2
    assert "minimum_effect 0.01 is below twice the spread between seeds, 0.04" in said[0]
    assert said[0].startswith("p.md:3: ")
    assert "δ 0.02 is below twice" in said[1]
    assert list(about_noise(draft, None)) == []
    assert list(about_noise(draft, replace(known, freedom=2))) == []
    large = proposal_draft(read_yaml(EFFECT.format(worth=0.04, margin=0.04), "p.md"))
    assert list(about_noise(large, known)) == []


EFFECT = """\
hypotheses:
  - id: H1
    minimum_effect: {worth}
decision:
  hypothesis: H1
  claim: superior({margin})
"""
