"""Which experiments a log that was lost leaves to be registered anew."""

from workbench.registry.entries import Promotion, Redaction, Registration, Verdict, Withdrawal
from workbench.registry.log import LogSource

_NONE = "none"
"""What a promotion chose when no candidate may be promoted: a result, which ends the experiment."""


def unfinished_experiments(source: LogSource) -> list[str]:
    """Return the experiments that were registered and came to no end, in their order.

    An end is a verdict, a withdrawal, or a promotion that chose no candidate. One whose promise
    was erased is left out: nothing confirmatory could have gone on in it.
    """
    begun: set[str] = set()
    over: set[str] = set()
    promises: dict[str, str] = {}
    for entry in source.entries():
        body = entry.body
        if entry.kind == Registration.kind:
            begun.add(entry.subject)
            promises[entry.leaf] = entry.subject
        elif entry.kind == Redaction.kind:
            over.update(promises[ref] for ref in entry.refs if ref in promises)
        if entry.kind in (Verdict.kind, Withdrawal.kind) or (
            isinstance(body, Promotion) and body.mode == "confirmatory" and body.chosen == _NONE
        ):
            over.add(entry.subject)
    return sorted(begun - over)
