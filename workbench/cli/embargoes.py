"""How an embargo is told in a terminal."""

import textwrap
from collections.abc import Iterator
from typing import Any

from workbench.cli.show import say
from workbench.experiments.checking import Checked
from workbench.experiments.embargoes import STAYS_PUBLIC, DraftReveal, Revealed
from workbench.registry.counts import entries_of
from workbench.registry.embargo import OpenEmbargo


def print_embargo(experiment: str, embargo: OpenEmbargo) -> None:
    """Print until when an experiment is withheld, and what to do."""
    say(f"  embargo    until {embargo.until}: {embargo.reason}")
    say(f"Withheld by workbench publish only: do not push experiments/{experiment} and its")
    say(f"recipe to a public place. By the end of that day: workbench reveal {experiment[:4]}")


def print_planned_embargo(checked: Checked) -> None:
    """Print, before anything is written, what an embargo that is planned does not withhold."""
    planned = checked.proposal.embargo if checked.proposal else None
    if planned is None:
        return
    say(f"Under embargo until {planned.until}: {planned.reason}")
    print_public(checked.experiment)


def print_public(experiment: str = "") -> None:
    """Print what no embargo withholds."""
    named = f" ({experiment})" if experiment else ""
    for line in textwrap.wrap(
        f"Public all the same: {STAYS_PUBLIC}. Until it is registered the folder{named} may be "
        "renamed; workbench propose TITLE --slug NAME chooses its name.",
        79,
        break_on_hyphens=False,
    ):
        say(line)


def reveal_lines(draft: DraftReveal) -> Iterator[str]:
    """Yield what a reveal would publish, and what can never be published."""
    embargo = draft.embargo
    yield f"Reveal of {draft.experiment}"
    yield f"  promised until   {embargo.until}: {embargo.reason}"
    yield f"  to be published  {entries_of(draft.num_entries)} with content, and for good"
    if draft.lost:
        named = ", ".join(f"#{sequence}" for sequence in draft.lost[:5])
        more = ", …" if len(draft.lost) > 5 else ""
        yield f"  lost for ever    the content of {entries_of(len(draft.lost))}: {named}{more}"


def reveal_json(draft: DraftReveal, made: Revealed | None) -> dict[str, Any]:
    """Return the same for another program."""
    return {
        "experiment": draft.experiment,
        "entry": made.entry.sequence if made else None,
        "until": draft.embargo.until,
        "num_entries": draft.num_entries,
        "lost": list(draft.lost),
    }
