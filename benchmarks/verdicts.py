"""How fast rules are applied to many experiments, against scipy's tests of the same data.

python benchmarks/verdicts.py [--json] [--smoke]
"""

import numpy as np
from measure import Goal, arguments, at_most, in_turn, report
from scipy import stats

from workbench.analysis.intervals import exact_bounds, welch_bounds


def welch(num: int, runs: int) -> Goal:
    generator = np.random.default_rng(1)
    control, treatment = generator.standard_normal((2, num, 5))

    def peer() -> object:
        found = stats.ttest_ind(treatment, control, axis=1, equal_var=False)
        return found.confidence_interval(0.9)

    ours, theirs = in_turn(lambda: welch_bounds(control, treatment, 0.05), peer, runs)
    return at_most(
        f"Welch bounds of {num} experiments of 5 seeds",
        ours,
        theirs,
        target=1.0,
        peer="scipy.stats.ttest_ind(axis=1) with its confidence interval",
        runs=runs,
    )


def exact(num: int, runs: int) -> Goal:
    generator = np.random.default_rng(2)
    control, treatment = generator.standard_normal((2, num, 6))

    def peer() -> object:
        return stats.permutation_test(
            (treatment, control),
            lambda a, b, axis: a.mean(axis=axis) - b.mean(axis=axis),
            vectorized=True,
            n_resamples=np.inf,
            axis=1,
        )

    ours, theirs = in_turn(lambda: exact_bounds(control, treatment, 0.05), peer, runs)
    return at_most(
        f"exact permutation bounds of {num} experiments of 6 seeds",
        ours,
        theirs,
        target=1.0,
        peer="scipy.stats.permutation_test (p-value only)",
        runs=runs,
    )


def main() -> None:
    runs, as_json = arguments()
    small = runs == 1
    report(
        [welch(200 if small else 20_000, runs), exact(4 if small else 400, runs)], as_json=as_json
    )


if __name__ == "__main__":
    main()
