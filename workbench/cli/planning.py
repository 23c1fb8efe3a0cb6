"""How many seeds a rule takes and what it will say, told in a terminal."""

from collections.abc import Mapping

from workbench.cli.checking import wrapped
from workbench.cli.show import print_table, say
from workbench.experiments.planned_rules import POWER
from workbench.experiments.power_report import ClaimPower, PowerReport

_TRUTHS = {"nothing": "no difference", "minimum": "the minimum effect", "expected": "expected"}
_BASIS = {"draft": "as the files are now", "in_force": "as registered"}
_MOST_LOOKS = 12
"""Looks that are told one by one; later ones are told together."""


def print_power(report: PowerReport) -> None:
    """Print the power of every claim."""
    say(f"{report.experiment}, {_BASIS[report.basis]}", bold=True)
    for claim in report.claims:
        _print(claim, report)


def _print(claim: ClaimPower, report: PowerReport) -> None:
    say()
    say(f"{claim.hypothesis}: {claim.claim} on {claim.metric}")
    until = f" to {claim.seeds}" if claim.stopping == "anytime" else ""
    wrapped(f"{claim.interval} {claim.stopping}{until} seeds an arm, alpha {claim.alpha:g}")
    if claim.noise is None:
        wrapped("Noise between seeds unknown: no chances.")
        return
    _print_scenarios(claim)
    _print_plans(claim)
    wrapped(f"Noise between seeds (standard deviation) {claim.noise.sentence()}.")
    wrapped(" ".join(_assumptions(claim, num_claims=len(report.claims))))


def _print_scenarios(claim: ClaimPower) -> None:
    say()
    headings = ["if truly", *(f"{one.true:+g}" if one.true else "0" for one in claim.scenarios)]
    rows = [["", *(_TRUTHS[one.truth] for one in claim.scenarios)]]
    outcomes = list(claim.scenarios[0].chances)
    rows += [[name, *(f"{one.chances[name]:.0%}" for one in claim.scenarios)] for name in outcomes]
    if len(claim.scenarios[0].stopped) > 1:
        rows.append(["seeds an arm", *(f"{one.mean_seeds:.1f}" for one in claim.scenarios)])
        stops = [_stops(one.stopped) for one in claim.scenarios]
        rows += [
            [f"stops at {when}", *(f"{each[when]:.0%}" for each in stops)] for when in stops[0]
        ]
    print_table(headings, rows)


def _stops(stopped: Mapping[int, float]) -> dict[str, float]:
    looks = list(stopped)
    kept = looks if len(looks) <= _MOST_LOOKS else looks[: _MOST_LOOKS - 1]
    told = {str(look): stopped[look] for look in kept}
    rest = looks[len(kept) :]
    if rest:
        told[f"{rest[0]} to {rest[-1]}"] = sum(stopped[look] for look in rest)
    return told


def _print_plans(claim: ClaimPower) -> None:
    say()
    smallest = "largest" if claim.claim.startswith("equivalent") else "smallest"
    say(f"Seeds against the {smallest} true improvement supported with power {POWER:g}:")
    rows = [
        [
            plan.stopping if plan.stopping != "anytime" else f"anytime, to {plan.seeds}",
            "none" if plan.detectable is None else f"{plan.detectable:.3g}",
            f"{plan.power:.0%}",
            f"{plan.mean_seeds:.1f}",
        ]
        for plan in claim.plans
    ]
    effect = f"{claim.effect:+g}" if claim.effect else "0"
    print_table(["looks at", smallest, f"power at {effect}", "seeds an arm"], rows)
    if claim.seeds_for_power is None:
        wrapped(f"No {claim.most_seeds} seeds an arm have power {POWER:g} at {effect}.")


def _assumptions(claim: ClaimPower, *, num_claims: int) -> list[str]:
    how = (
        f"Simulated: {claim.simulated:,} experiments a rule."
        if claim.simulated
        else "Computed for Welch's t in closed form."
    )
    assumed = (
        "Assumed: normal noise, the same in both arms, which share nothing (so pairing gains "
        "nothing), and no run diverges."
    )
    parts = [how, assumed]
    if claim.interval == "calibrated_t":
        parts.append("The noise floor is drawn from the same noise.")
    if num_claims > 1:
        parts.append(
            f"One of {num_claims} claims: all figures are at its share {claim.share:.3g} of alpha, "
            "the first step of Holm; the runs go on until every claim is decided."
        )
    return parts
