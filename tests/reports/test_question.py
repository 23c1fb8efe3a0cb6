"""What the newest version of a proposal says more, in the chronicle."""

import pytest

from tests.reports.sample import PROPOSAL, registration, sample_log
from tests.reports.test_changes import amendment_of
from workbench.registry.entries import StatedPower
from workbench.reports.facts import experiment_facts
from workbench.reports.sections.question import question_section

HASH = "sha256:" + "ab" * 32


def told(proposal: str, power: StatedPower | None = None) -> str:
    log = sample_log(proposal=proposal)
    log.replace_body("registration", power=power)
    return str(question_section(experiment_facts(log, registration().experiment)))


def test_first_version_is_told_as_before() -> None:
    text = told(PROPOSAL)
    assert "If a run diverges, then the verdict is void" in text
    for absent in ("Evaluation set", "Expected of the rule", "Approval of", "in phase"):
        assert absent not in text


def test_newest_version_tells_phase_evaluation_set_and_power() -> None:
    proposal = (
        PROPOSAL.replace("proposal: v1", "proposal: v2")
        .replace("{when: a run", "{phase: decay, when: a run")
        .replace("evaluation_set: sealed_test,", f"evaluation_set: sealed_test, "
                 f"evaluation_set_hash: '{HASH}',")
    )  # fmt: skip
    chances = {"supported": 0.81, "refuted": 0.05, "inconclusive": 0.14}
    power = StatedPower(effect=0.02, noise_sd=0.0047, noise_source="measured: x", chances=chances)
    text = told(proposal, power)
    assert "In phase decay, if a run diverges" in text
    assert HASH in text
    assert "supported 81" in text
    assert "(measured: x)" in text


@pytest.mark.parametrize("recomputed", [True, False])
def test_amended_rule_has_its_own_chances_or_those_shown_are_called_outdated(
    recomputed: bool,
) -> None:
    log = sample_log()
    log.replace_body("registration", power=_power(0.81))
    amendment = amendment_of(log)
    if recomputed:
        amendment = amendment.model_copy(update={"power": _power(0.66)})
    log.append(amendment)
    text = str(question_section(experiment_facts(log, registration().experiment)))
    outdated = "of the rule as first registered, not as amended"
    assert ("supported 66" in text, "supported 81" in text) == (recomputed, not recomputed)
    assert (outdated in text) is not recomputed


def _power(supported: float) -> StatedPower:
    chances = {"supported": supported, "inconclusive": 1 - supported}
    return StatedPower(effect=0.02, noise_sd=0.0047, noise_source="measured: x", chances=chances)
