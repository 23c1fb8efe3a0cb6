"""Runs that were trained elsewhere, judged by a rule; never a registered verdict."""

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.analysis.claims import Direction, Judgement
from workbench.analysis.explanation import Explanation, explain
from workbench.analysis.looks import Comparison, DivergenceRule, Look, Measured, decide_look
from workbench.analysis.rules import NoiseFloor, Rule
from workbench.errors import Fault, InvalidFileError

COLUMNS = ("arm", "seed", "value")
ARMS = ("control", "treatment")
NOISE = "noise"
"""The arm of repeats that give ``calibrated_t`` its noise floor."""
LABEL = "UNREGISTERED"
CAVEAT = (
    "Nothing shows that this rule, these seeds and this metric were chosen before the values were "
    "seen: it is exploratory, and no claim may rest on it."
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run of somebody's."""

    arm: str
    seed: str
    """As written: 1337 or ``a``; only the same or not the same."""
    value: float | None
    """None where the cell is empty: the run diverged. A NaN is a value, and voids."""
    ended: bool = True
    """False of a run that was begun and has no value yet or failed: its seed is missing."""


@dataclass(frozen=True, kw_only=True)
class OutsideVerdict:
    """What a rule says of others' runs."""

    registered: bool
    """Always false."""
    rule: Rule
    looks: tuple[Look, ...]
    """In order, up to the one that decided or for which there are seeds."""
    seeds: tuple[str, ...]
    """In the order in which they were looked at; control / treatment where the arms differ."""
    unused: int
    """Seeds an arm that the rule did not come to."""
    explanation: Explanation
    sha256: str
    """Of the rows that were read."""

    @property
    def judgement(self) -> Judgement:
        """Of the last look."""
        return self.looks[-1].judgement


def read_runs(text: str, name: str) -> list[Row]:
    """Return the runs of a CSV file with the columns arm, seed and value, in the file's order.

    Raises:
        InvalidFileError: other columns, an unknown arm, a value that is no number, or two rows of
            one arm and seed; all faults at once.
    """
    reader = csv.DictReader(
        io.StringIO(text.removeprefix("\ufeff"), newline=""), skipinitialspace=True
    )
    missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise InvalidFileError(
            f"{name} has no column {', '.join(missing)}",
            remedy="name the columns in the first line: arm,seed,value",
        )
    rows: list[Row] = []
    faults: list[Fault] = []
    seen: set[tuple[str, str]] = set()
    for cells in reader:
        where = f"{name}:{reader.line_num}"
        arm, seed, value = ((cells[column] or "").strip() for column in COLUMNS)
        fault = _fault(arm, seed, value, seen)
        if fault:
            faults.append(Fault(where=where, message=fault))
            continue
        seen.add((arm, seed))
        rows.append(Row(arm=arm, seed=seed, value=float(value) if value else None))
    if faults:
        raise InvalidFileError(f"{name} cannot be judged", faults)
    return rows


def outside_verdict(
    rows: Sequence[Row],
    rule_text: str,
    *,
    direction: Direction,
    metric: str,
    divergence: DivergenceRule,
    data_arms: bool | None,
) -> OutsideVerdict:
    """Return what the rule says of these runs, look by look, as if they had been made for it.

    Seeds are taken in the file's order. Where pairs are compared, a pair is the same seed in both
    arms; otherwise the arms' seeds may have different names.

    Args:
        rows: The runs.
        rule_text: For example ``superior(0.02) welch_t fixed(5) alpha 0.05``.
        direction: Which way the metric is better.
        metric: Its name, for the explanation.
        divergence: What a run without a value does.
        data_arms: Whether the arms differ in their data; ``calibrated_t`` must be told.

    Raises:
        InvalidFileError: the rule cannot be read or does not fit the runs.
    """
    try:
        rule = _rule(rows, rule_text, data_arms)
        orders = _orders(rows, paired=rule.interval == "paired_t")
        most = None if rule.stopping.looks else max(len(order) for order in orders.values())
        looks = _looks(rule, rows, orders, direction, divergence, rule.looks_up_to(most))
    except ValueError as error:
        untold = data_arms is None and "calibrated_t" in rule_text
        raise InvalidFileError(
            str(error),
            remedy="say whether both arms saw the same data: add --same-data or --other-data"
            if untold and "must be told" in str(error)
            else "state another --rule, or give the runs that it needs",
        ) from error
    used = looks[-1].num_seeds
    return OutsideVerdict(
        registered=False,
        rule=rule,
        looks=tuple(looks),
        seeds=_shown(orders, used),
        unused=max(0, max(len(order) for order in orders.values()) - used),
        explanation=explain(rule, looks[-1].judgement, metric=metric),
        sha256=hashlib.sha256(repr(list(rows)).encode()).hexdigest(),
    )


def _fault(arm: str, seed: str, value: str, seen: set[tuple[str, str]]) -> str:
    if arm not in (*ARMS, NOISE):
        return f"arm {arm!r} is not control, treatment or noise"
    if not seed:
        return f"a run of {arm} without a seed"
    if (arm, seed) in seen:
        return f"a second value of {arm} seed {seed}"
    try:
        float(value or "0")
    except ValueError:
        return f"value {value!r} is not a number (leave it empty for a run that diverged)"
    return ""


def _rule(rows: Sequence[Row], text: str, data_arms: bool | None) -> Rule:
    repeats = [row.value for row in rows if row.arm == NOISE]
    if "calibrated_t" not in text:
        return Rule.parse(text)
    if any(value is None for value in repeats):
        raise ValueError("a diverged repeat cannot be left out of a noise floor silently")
    floor = NoiseFloor.of([value for value in repeats if value is not None])
    return Rule.parse(text, noise_floor=floor, data_arms=data_arms)


def _orders(rows: Sequence[Row], *, paired: bool) -> dict[str, list[str]]:
    """Return each arm's seeds in the order in which they count as the first, second and so on."""
    orders = {arm: [row.seed for row in rows if row.arm == arm] for arm in ARMS}
    empty = [arm for arm, seeds in orders.items() if not seeds]
    if empty:
        raise ValueError(f"no runs of {' and '.join(empty)}")
    if paired:
        both = list(dict.fromkeys(row.seed for row in rows if row.arm in ARMS))
        return dict.fromkeys(ARMS, both)
    return orders


def _looks(
    rule: Rule,
    rows: Sequence[Row],
    orders: Mapping[str, Sequence[str]],
    direction: Direction,
    divergence: DivergenceRule,
    counts: Sequence[int],
) -> list[Look]:
    values = {(row.arm, row.seed): row.value for row in rows if row.ended}
    begun = max(len(order) for order in orders.values())
    most = None if rule.stopping.looks else counts[-1]
    looks: list[Look] = []
    following: int | None = counts[0]
    while following is not None:
        control, treatment = (
            tuple(
                Measured(seed_index=i, value=values[arm, seed])
                for i, seed in enumerate(orders[arm][:following])
                if (arm, seed) in values
            )
            for arm in ARMS
        )
        comparison = Comparison(
            rule=rule,
            direction=direction,
            divergence=divergence,
            control=control,
            treatment=treatment,
            seed_names=orders,
        )
        looks.append(decide_look(comparison, following, most=most))
        # A look whose seeds nobody has begun is still to come, not void.
        following = looks[-1].next_seeds if begun > following else None
    return looks


def _shown(orders: Mapping[str, Sequence[str]], used: int) -> tuple[str, ...]:
    control, treatment = (list(orders[arm][:used]) for arm in ARMS)
    if control == treatment:
        return tuple(control)
    return (*(f"control {seed}" for seed in control), *(f"treatment {seed}" for seed in treatment))
