"""What the ledger says of a sweep or a ladder: the entries that rest on one root."""

from workbench.registry.entries import ProxyRun, Trial
from workbench.registry.log import LogSource


def recorded_trials(source: LogSource, *, subject: str, root: str) -> list[Trial]:
    """Return the trials that refer to the root, in the order in which they ended."""
    entries = source.entries(kind="trial", subject=subject) if root else ()
    return [e.body for e in entries if root in e.refs and isinstance(e.body, Trial)]


def recorded_runs(source: LogSource, *, subject: str, root: str) -> list[ProxyRun]:
    """Return the re-runs that refer to the root, in the order in which they ended."""
    entries = source.entries(kind="proxy_run", subject=subject) if root else ()
    return [e.body for e in entries if root in e.refs and isinstance(e.body, ProxyRun)]


def trial_leaves(source: LogSource, *, subject: str, root: str) -> dict[int, str]:
    """Return the leaf of each trial that refers to the root, by its number."""
    entries = source.entries(kind="trial", subject=subject) if root else ()
    return {e.body.number: e.leaf for e in entries if root in e.refs and isinstance(e.body, Trial)}
