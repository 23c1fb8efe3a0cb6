"""The attempts of full-scale runs, read from the ledger."""

from dataclasses import dataclass

from workbench.registry.entries import Mode, RunEnded, RunStarted
from workbench.registry.log import Entry, LogSource


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One process life of a run."""

    start_entry: Entry
    started: RunStarted
    end_entry: Entry | None
    ended: RunEnded | None
    """None while the process lives, or when it died without a word."""


@dataclass(frozen=True, kw_only=True)
class RunHistory:
    """All attempts of one arm and seed, oldest first."""

    run: str
    attempts: tuple[Attempt, ...]

    @property
    def last(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def final(self) -> Attempt | None:
        """The attempt that completed or diverged; such a run is never started again."""
        last = self.last
        if last is None or last.ended is None:
            return None
        return last if last.ended.outcome in ("completed", "diverged") else None


def run_name(arm: str, seed_index: int) -> str:
    """Return the name of a run, which is also its folder below the experiment's."""
    return f"{arm}/seed-{seed_index}"


def histories(source: LogSource, subject: str, mode: Mode) -> dict[str, RunHistory]:
    """Return the history of every run of the experiment that ever started, by run name."""
    ends: dict[tuple[str, int], tuple[Entry, RunEnded]] = {}
    for entry in source.entries(kind="run_ended", subject=subject):
        if isinstance(entry.body, RunEnded) and entry.body.mode == mode:
            ends[entry.body.run, entry.body.attempt] = (entry, entry.body)
    found: dict[str, list[Attempt]] = {}
    for entry in source.entries(kind="run_started", subject=subject):
        body = entry.body
        if not isinstance(body, RunStarted) or body.mode != mode:
            continue
        end_entry, ended = ends.get((body.run, body.attempt), (None, None))
        attempt = Attempt(start_entry=entry, started=body, end_entry=end_entry, ended=ended)
        found.setdefault(body.run, []).append(attempt)
    return {run: RunHistory(run=run, attempts=tuple(list_)) for run, list_ in found.items()}
