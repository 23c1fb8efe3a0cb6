"""Which re-run candidates stand out from the control when the number tried is accounted for."""

import math
from collections.abc import Sequence

from workbench.analysis.screening import improvement_p_value, kept_by_false_discovery
from workbench.registry.entries import Candidate
from workbench.reports.narrative import listed

RATE = 0.1
"""Share of false ones that is put up with among those kept."""
_CONTROL = "control"


def screening_sentence(candidates: Sequence[Candidate]) -> str:
    """Return which candidates pass, in a sentence; empty with fewer than two to choose from.

    It is information: no promotion and no verdict follows from it.
    """
    control = next((one for one in candidates if one.name == _CONTROL), None)
    tried = [one for one in candidates if one.name != _CONTROL]
    if control is None or len(tried) < 2:
        return ""
    kept = kept_by_false_discovery([_p_value(control, one) for one in tried], RATE)
    names = [one.name for one, passes in zip(tried, kept, strict=True) if passes]
    found = f"{listed(names)} pass" + ("es" if len(names) == 1 else "") if names else "none passes"
    return (
        f"For information only, nothing follows from it: of {len(tried)} candidates, {found} "
        f"Benjamini-Hochberg at a false-discovery rate of {RATE:g} (one-sided Welch tests of the "
        "re-runs against the control)."
    )


def _p_value(control: Candidate, candidate: Candidate) -> float:
    """Return the p-value; NaN where a re-run was lost, since those left are a kinder sample."""
    known = control.rerun_sd is not None and candidate.rerun_sd is not None
    complete = candidate.rerun_n == control.rerun_n
    if not (known and complete) or candidate.improvement is None:
        return math.nan
    return improvement_p_value(
        candidate.improvement,
        (control.rerun_sd or 0.0, control.rerun_n),
        (candidate.rerun_sd or 0.0, candidate.rerun_n),
    )
