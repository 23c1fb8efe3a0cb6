"""Many candidates at once, none of them a claim: the share of false ones among those kept.

Screening chooses what is run again; it never supports a verdict.
"""

import numpy as np
from scipy.stats import false_discovery_control


def kept_by_false_discovery(p_values: list[float], rate: float) -> list[bool]:
    """Return which candidates the Benjamini-Hochberg step-up keeps, in the order given.

    A NaN is a candidate without a test: it is never kept and still counts in the number tried.

    Raises:
        ValueError: a p-value outside [0, 1], or a rate outside (0, 1).
    """
    if not 0 < rate < 1:
        raise ValueError(f"rate {rate!r} must lie between 0 and 1")
    if not p_values:
        return []
    known = np.nan_to_num(np.array(p_values, dtype=float), nan=1.0)
    kept = false_discovery_control(known, method="bh") <= rate
    return [bool(one) and not np.isnan(p) for one, p in zip(kept, p_values, strict=True)]
