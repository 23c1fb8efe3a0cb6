"""What is said of candidates that stand out: information, and never of a lost one."""

import pytest

from tests.reports.sample import sample_log
from workbench.registry.entries import Candidate, Promotion
from workbench.reports.screening import screening_sentence


def candidate(name: str, improvement: float | None = None, n: int = 3) -> Candidate:
    return Candidate(
        name=name,
        params={},
        rerun_mean=2.0,
        rerun_sd=0.01,
        rerun_n=n,
        improvement=improvement,
        feasible=True,
    )


CONTROL = candidate("control")


@pytest.mark.parametrize(
    ("candidates", "found"),
    [
        ([candidate("trial-01", 0.1), candidate("trial-02", 0.0)], "trial-01 passes"),
        ([candidate("trial-01", 0.1), candidate("trial-02", 0.2)], "trial-01 and trial-02 pass "),
        ([candidate("trial-01", 0.001), candidate("trial-02", -0.5)], "none passes"),
        # A lost re-run leaves a kinder sample: no test, and still one of those that were tried.
        ([candidate("trial-01", 0.1, n=2), candidate("trial-02", 0.0)], "none passes"),
        ([candidate("trial-01"), candidate("trial-02", 0.1)], "trial-02 passes"),
    ],
)
def test_sentence_names_the_candidates_that_pass(candidates: list[Candidate], found: str) -> None:
    text = screening_sentence([CONTROL, *candidates])
    assert f"of 2 candidates, {found}" in text
    assert text.startswith("For information only, nothing follows from it")


@pytest.mark.parametrize(
    "candidates",
    [[], [CONTROL], [CONTROL, candidate("trial-01", 0.1)], [candidate("trial-01")] * 3],
)
def test_nothing_is_said_without_a_choice_or_a_control(candidates: list[Candidate]) -> None:
    assert screening_sentence(candidates) == ""


def test_infeasible_candidate_of_the_sample_is_not_among_those_that_pass() -> None:
    log = sample_log()
    body = next(e.body for e in log.found if isinstance(e.body, Promotion))
    lost = next(c.name for c in body.candidates if not c.feasible)
    text = screening_sentence(body.candidates)
    assert "of 3 candidates" in text
    assert lost not in text
