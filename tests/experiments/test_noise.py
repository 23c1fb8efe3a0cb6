"""How much seeds differ, as the lab measured it."""

import math
from dataclasses import replace

import pytest

from tests.reports.sample import EXPERIMENT, MemoryLog, sample_log
from workbench.analysis.claims import sample_variance
from workbench.experiments.noise import Noise, measured_noise
from workbench.registry.entries import Hidden

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
