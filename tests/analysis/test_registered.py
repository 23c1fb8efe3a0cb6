"""A registered decision: one claim or a family, look by look."""

from dataclasses import dataclass

import pytest

from workbench.analysis.looks import Measured
from workbench.analysis.registered import ByArm, Decision


@dataclass(frozen=True)
class _Terms:
    interval: str = "welch_t"
    stopping: str = "group(3,5,8)"
    alpha: float = 0.05
    multiplicity: str = "none"


@dataclass(frozen=True)
class _Claim:
    hypothesis: str = "H1"
    metric: str = "bpb_macro"
    direction: str = "minimize"
    claim: str = "superior(0.5)"


def _decision(*claims: _Claim, terms: _Terms | None = None, seeds: int = 8) -> Decision:
    return Decision.of(
        terms or _Terms(),
        claims or (_Claim(),),  # type: ignore[arg-type]
        seeds=seeds,
        divergence="arm_void",
        data_arms=False,
    )


def _arms(num_seeds: int, effect: float, spread: float = 0.1) -> ByArm:
    """Return values whose spread is known and whose treatment is lower by the effect."""
    wobble = [spread * ((i % 3) - 1) for i in range(num_seeds)]
    return {
        "control": [Measured(seed_index=i, value=3.0 + w) for i, w in enumerate(wobble)],
        "treatment": [
            Measured(seed_index=i, value=3.0 - effect + w) for i, w in enumerate(reversed(wobble))
        ],
    }


def test_one_claim_goes_on_until_it_is_decided() -> None:
    decision = _decision()
    first = decision.look_at({"bpb_macro": _arms(3, 0.2, spread=0.3)}, 3)
    assert (first.number, first.state, first.next_seeds) == (1, "go_on", 5)
    second = decision.look_at({"bpb_macro": _arms(5, 1.0)}, 5, before=first)
    assert (second.number, second.state, second.next_seeds) == (2, "stop", None)
    assert second.by_hypothesis["H1"].judgement.outcome == "supported"


def test_last_look_is_final_whatever_it_shows() -> None:
    last = _decision().look_at({"bpb_macro": _arms(8, 0.2, spread=0.5)}, 8)
    assert (last.state, last.next_seeds) == ("final", None)
    assert last.by_hypothesis["H1"].judgement.outcome == "inconclusive"


def test_decided_claim_of_a_family_stays_decided() -> None:
    terms = _Terms(multiplicity="holm")
    decision = _decision(_Claim(), _Claim(hypothesis="H2", metric="bpb_code"), terms=terms)
    shown, open_still = _arms(3, 1.0), _arms(3, 0.2, spread=0.5)
    first = decision.look_at({"bpb_macro": shown, "bpb_code": open_still}, 3)
    assert first.state == "go_on"
    outcomes = {name: look.judgement.outcome for name, look in first.by_hypothesis.items()}
    assert outcomes == {"H1": "supported", "H2": "inconclusive"}
    # More seeds blur the first claim: it was shown at its share of alpha and stays so.
    blurred = {"bpb_macro": _arms(5, 0.0, spread=0.5), "bpb_code": _arms(5, 1.0)}
    second = decision.look_at(blurred, 5, before=first)
    assert second.by_hypothesis["H1"] is first.by_hypothesis["H1"]
    assert second.by_hypothesis["H2"].judgement.outcome == "supported"
    assert (second.state, second.next_seeds) == ("stop", None)
    # Judged alone, the blurred values would not have shown it.
    alone = decision.look_at(blurred, 5)
    assert alone.by_hypothesis["H1"].judgement.outcome != "supported"


def test_diverged_run_ends_it_under_arm_void() -> None:
    values = _arms(3, 0.2, spread=0.5)
    control = [*values["control"][:2], Measured(seed_index=2, value=None)]
    look = _decision().look_at(
        {"bpb_macro": {"control": control, "treatment": values["treatment"]}}, 3
    )
    assert (look.state, look.next_seeds) == ("stop", None)
    assert look.by_hypothesis["H1"].judgement.outcome == "void"


@pytest.mark.parametrize(
    ("claims", "terms", "seeds", "says"),
    [
        ((_Claim(), _Claim()), _Terms(multiplicity="holm"), 8, "two claims of one hypothesis"),
        ((_Claim(), _Claim(hypothesis="H2")), _Terms(), 8, "without multiplicity holm"),
        ((_Claim(),), _Terms(multiplicity="holm"), 8, "nothing to correct for"),
        ((_Claim(),), _Terms(), 5, "ends at 8 seeds, not 5"),
        ((_Claim(),), _Terms(stopping="anytime", interval="paired_t"), 2, "can show nothing"),
    ],
)
def test_refuses_what_cannot_be_decided(
    claims: tuple[_Claim, ...], terms: _Terms, seeds: int, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        _decision(*claims, terms=terms, seeds=seeds)
