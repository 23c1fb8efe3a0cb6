"""Noise floors of the log, as the rules take them."""

import math
from collections.abc import Collection, Iterator, Mapping

from workbench.analysis.rules import FEWEST_FLOOR_RUNS
from workbench.analysis.rules import NoiseFloor as FloorOfRule
from workbench.errors import ConflictError, NotFoundError
from workbench.registry.entries import Hidden, NoiseFloor
from workbench.registry.log import Entry, LogSource

MEASURE = "workbench noise proxies/NAME.yaml"


def floor_entries(source: LogSource) -> Iterator[tuple[Entry, NoiseFloor]]:
    """Yield every noise floor of the log that this reader has, in order."""
    for entry in source.entries(kind=NoiseFloor.kind):
        if isinstance(entry.body, NoiseFloor):
            yield entry, entry.body


def floor_of(source: LogSource, leaf: str) -> tuple[Entry, NoiseFloor]:
    """Return the noise floor that a proposal names.

    Raises:
        NotFoundError: the log has no entry of this leaf hash, or it is no noise floor.
        ConflictError: its body is hidden from this reader.
    """
    for entry in source.entries(kind=NoiseFloor.kind):
        if entry.leaf != leaf:
            continue
        if isinstance(entry.body, Hidden):
            raise ConflictError(
                f"noise floor {leaf[:12]} (entry {entry.sequence}) is hidden here: calibrated_t "
                "cannot take its spread from it",
                remedy="go on where the store is that it was written to",
            )
        if isinstance(entry.body, NoiseFloor):
            return entry, entry.body
    other = next((entry for entry in source.entries() if entry.leaf == leaf), None)
    is_other = f"entry {other.sequence} ({other.kind}) is none" if other else "no entry has it"
    raise NotFoundError(f"no noise floor has the leaf hash {leaf!r}: {is_other}", remedy=MEASURE)


def noise_floors(
    source: LogSource, leaf: str, *, metrics: Collection[str] = ()
) -> Mapping[str, FloorOfRule]:
    """Return the spreads of a noise floor by metric, as `Decision.of` takes them.

    Args:
        source: The log.
        leaf: Leaf hash of the noise floor's entry.
        metrics: Those that must be among them; a metric that did not vary counts as absent.

    Raises:
        NotFoundError: there is no such noise floor, or a metric is not in it.
        ConflictError: it is hidden here, or of fewer than 10 runs.
    """
    entry, body = floor_of(source, leaf)
    if body.num_runs < FEWEST_FLOOR_RUNS:
        raise ConflictError(
            f"noise floor {leaf[:12]} (entry {entry.sequence}) is of {body.num_runs} runs: "
            f"calibrated_t takes {FEWEST_FLOOR_RUNS} or more",
            remedy=f"{MEASURE} --runs {FEWEST_FLOOR_RUNS}, or interval welch_t",
        )
    usable = {
        metric: FloorOfRule(sd=spread, num_runs=body.num_runs)
        for metric, spread in body.spreads.items()
        if math.isfinite(spread) and spread > 0
    }
    absent = [metric for metric in metrics if metric not in usable]
    if absent or not usable:
        raise NotFoundError(
            f"noise floor {leaf[:12]} (entry {entry.sequence}) has no spread of "
            f"{', '.join(absent) or 'any metric'} (it has {', '.join(sorted(usable)) or 'none'})",
            remedy=f"measure one that has it with {MEASURE}, or interval welch_t",
        )
    return usable
