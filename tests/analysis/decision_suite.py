"""How often each rule errs and how often it finds what is there, measured by simulation.

python -m tests.analysis.decision_suite     writes docs/decision-rules.md (about a minute)
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workbench.analysis.intervals import welch_bounds
from workbench.analysis.rules import NoiseFloor, Rule
from workbench.analysis.simulation import (
    Noise,
    NormalNoise,
    ResampledNoise,
    Simulated,
    simulate,
    verdict_rates,
)

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "decision-rules.md"
ALPHA = 0.05
SEED = 20261130
NUM = 20_000
NUM_EXACT = 8_000
"""Permutation tests of 8 seeds enumerate 12,870 splits each."""
MOST_ANYTIME = 20
FLOOR_RUNS = 10
# Noise has spread 1, so margins and effects are in spreads.
CLAIMS = {
    "superior(0)": (0.0, 0.0, 2.0),
    "superior(2)": (0.0, 2.0, 2.0),
    "superior_by(1)": (1.0, 1.0, 3.0),
    "non_inferior(1)": (-1.0, -1.0, 1.0),
    "equivalent(2)": (2.0, 2.0, 0.0),
}
"""By claim: the true improvement at which support is just false, the one at which refutation is,
and one that is 2 spreads inside the claim."""
RULES = [
    *(
        f"{kind} fixed({n})"
        for kind in ("welch_t", "paired_t", "calibrated_t", "perm_exact")
        for n in (3, 5, 8)
    ),
    *(f"{kind} group(3,5,8)" for kind in ("welch_t", "paired_t", "calibrated_t")),
    "perm_exact group(4,5,8)",
    "paired_t anytime",
]
FIGURES = ["false support", "false refutation", "power", "mean seeds"]
MISMATCHED = ("both arms", "treatment only")
HEADINGS = [
    "rule",
    "claim",
    *(f"{figure}, {noise}" for noise in ("normal", "real") for figure in FIGURES),
]


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was measured of one rule and claim with one kind of noise."""

    rule: str
    claim: str
    noise: str
    false_support: float
    false_refutation: float
    power: float
    """Support when the truth lies 2 spreads inside the claim."""
    mean_seeds: float
    """Where ``power`` is."""
    num: int

    @property
    def label(self) -> tuple[str, str]:
        return self.rule, self.claim

    def figures(self) -> list[str]:
        rates = (self.false_support, self.false_refutation, self.power)
        return [*(f"{rate:.3f}" for rate in rates), f"{self.mean_seeds:.1f}"]


@dataclass(frozen=True, kw_only=True)
class Habit:
    """How often a habit finds an improvement where there is none, and how often our rule does."""

    habit: str
    error: float
    rule: str
    held: float
    num: int


def real_noise(shared: Path) -> ResampledNoise:
    """Residuals of repeats of identical public runs, in spreads of their group."""
    text = (shared / "decision-rules" / "seed_noise_modded_nanogpt.json").read_text("utf-8")
    return ResampledNoise([group["final_val_loss"] for group in json.loads(text)], sd=1.0)


def parsed(rule: str, claim: str) -> Rule:
    floor = NoiseFloor(sd=1.0, num_runs=FLOOR_RUNS) if "calibrated" in rule else None
    return Rule.parse(f"{claim} {rule} alpha {ALPHA}", noise_floor=floor, data_arms=False)


def simulated(rule: str, noise: Noise) -> Simulated:
    exact = rule.startswith("perm_exact") and "8" in rule
    return simulate(
        parsed(rule, "superior(0)"),
        noise,
        num=NUM_EXACT if exact else NUM,
        generator=np.random.default_rng(SEED),
        most=MOST_ANYTIME if "anytime" in rule else None,
    )


def rows(name: str, noise: Noise, rules: list[str] = RULES) -> Iterator[Row]:
    for text in rules:
        drawn = simulated(text, noise)
        for claim, (unsupported, unrefuted, inside) in CLAIMS.items():
            rule = parsed(text, claim)
            at = verdict_rates(rule, drawn, true=inside)
            yield Row(
                rule=text,
                claim=claim,
                noise=name,
                false_support=verdict_rates(rule, drawn, true=unsupported).supported,
                false_refutation=verdict_rates(rule, drawn, true=unrefuted).refuted,
                power=at.supported,
                mean_seeds=at.mean_seeds,
                num=at.num,
            )


def habits(noise: Noise) -> list[Habit]:
    """What is gained by looking often, choosing the metric, the seeds or the candidate."""
    generator = np.random.default_rng(SEED + 1)

    def wins(control: np.ndarray, treatment: np.ndarray, alpha: float = ALPHA) -> np.ndarray:
        return welch_bounds(control, treatment, alpha).lower > 0

    arms = noise.draw(NUM, 2, MOST_ANYTIME, generator)
    peeked = np.any([wins(arms[:, 0, :n], arms[:, 1, :n]) for n in range(3, 21)], axis=0)
    anytime, group = (
        verdict_rates(parsed(text, "superior(0)"), simulated(text, noise), true=0.0).supported
        for text in ("paired_t anytime", "welch_t group(3,5,8)")
    )
    metrics = [noise.draw(NUM, 2, 5, generator) for _ in range(5)]
    any_metric = np.any([wins(m[:, 0], m[:, 1]) for m in metrics], axis=0)
    # Without any true effect, Holm supports something exactly when Bonferroni does.
    holm = np.any([wins(m[:, 0], m[:, 1], ALPHA / 5) for m in metrics], axis=0)
    control, treatment = metrics[0][:, 0], metrics[0][:, 1]
    kept = np.sort(treatment, axis=1)[:, 2:]
    one_best = treatment.max(axis=1) > control.mean(axis=1)
    honest = wins(control, treatment)
    candidates = noise.draw(NUM, 11, 5, generator)
    winner = candidates[:, 1:].mean(axis=2).argmax(axis=1)
    chosen = np.take_along_axis(candidates[:, 1:], winner[:, None, None], axis=1)[:, 0]
    fresh = noise.draw(NUM, 2, 5, generator)
    of_winner, of_fresh = wins(candidates[:, 0], chosen), wins(fresh[:, 0], fresh[:, 1])
    same, all_seeds = "the same habit", "all registered seeds"
    pairs = [
        ("Welch at 0.05 after each seed from 3 to 20, stopping at a win", peeked),
        (same, peeked),
        ("the best of 5 metrics", any_metric),
        (same, any_metric),
        ("the best 3 of 5 treatment seeds against all of the control's", wins(control, kept)),
        ("the best of 5 treatment seeds ahead of the control's mean", one_best),
        ("the best of 10 candidates, judged on the seeds it was chosen by", of_winner),
    ]
    rules = [
        ("`paired_t anytime`", anytime),
        ("`welch_t group(3,5,8)`", group),
        ("Holm over the 5", holm),
        ("the registered metric", honest),
        (all_seeds, honest),
        (all_seeds, honest),
        ("fresh seeds for it and the control", of_fresh),
    ]
    return [
        Habit(habit=h, error=float(np.mean(e)), rule=r, held=float(np.mean(k)), num=NUM)
        for (h, e), (r, k) in zip(pairs, rules, strict=True)
    ]


def mismatch(scales: tuple[float, float], noise: Noise, n: int) -> float:
    """False support of a calibrated rule whose arms are noisier than the floor it was given."""
    text = f"calibrated_t fixed({n})"
    drawn = simulate(
        parsed(text, "superior(0)"),
        _Noisier(noise, scales),
        num=NUM,
        generator=np.random.default_rng(SEED),
    )
    return verdict_rates(parsed(text, "superior(0)"), drawn, true=0.0).supported


class _Noisier:
    """Arms that vary more than the runs of the noise floor, which are drawn one arm at a time."""

    def __init__(self, noise: Noise, scales: tuple[float, float]) -> None:
        self.sd = noise.sd
        self._noise = noise
        self._scales = np.array(scales)[None, :, None]

    def draw(self, num: int, arms: int, seeds: int, generator: np.random.Generator) -> np.ndarray:
        drawn = self._noise.draw(num, arms, seeds, generator)
        return drawn * self._scales if arms > 1 else drawn


def main() -> None:
    shared = Path(os.environ.get("WORKBENCH_SHARED", ROOT.parent / "shared" / "data"))
    kinds: dict[str, Noise] = {"normal": NormalNoise(sd=1.0), "real": real_noise(shared)}
    found = [list(rows(name, noise)) for name, noise in kinds.items()]
    lines = [[*n.label, *n.figures(), *r.figures()] for n, r in zip(*found, strict=True)]
    text = DOCUMENT.read_text("utf-8")
    for mark, table in {
        "rates": _table(HEADINGS, lines),
        "habits": _table(
            ["habit", "finds an improvement", "instead", "errs"],
            [[h.habit, f"{h.error:.3f}", h.rule, f"{h.held:.3f}"] for h in habits(kinds["real"])],
        ),
        "mismatch": _table(
            ["spread over the floor's", *(f"{w}, n = {n}" for w in MISMATCHED for n in (3, 5, 8))],
            [
                [f"{s:g}", *(f"{r:.3f}" for r in _mismatches(s, kinds["normal"]))]
                for s in (1.0, 1.25, 1.5, 2.0, 3.0)
            ],
        ),
    }.items():
        before, _, rest = text.partition(f"<!-- {mark} -->\n")
        _, _, after = rest.partition(f"<!-- end {mark} -->")
        text = f"{before}<!-- {mark} -->\n{table}<!-- end {mark} -->{after}"
    DOCUMENT.write_text(text, "utf-8")


def _mismatches(scale: float, noise: Noise) -> list[float]:
    pairs = ((scale, scale), (1.0, scale))
    return [mismatch(pair, noise, n) for pair in pairs for n in (3, 5, 8)]


def _table(headings: list[str], lines: list[list[str]]) -> str:
    marks = ["---"] * len(headings)
    return "".join(f"| {' | '.join(line)} |\n" for line in [headings, marks, *lines])


if __name__ == "__main__":
    main()
