"""What runs or trials drew from each domain, in a few words."""

from collections.abc import Iterable, Mapping, Sequence

from workbench.registry.entries import DomainUse
from workbench.reports.quantities import percent, significant


def drawn_in_words(uses: Iterable[Mapping[str, DomainUse]]) -> str:
    """Return realised share and epochs of each domain; a range where they differ.

    Those that say nothing are passed over; empty where none says anything.
    """
    found = [use for use in uses if use]
    domains = dict.fromkeys(domain for use in found for domain in use)
    parts = []
    for domain in domains:
        own = [use[domain] for use in found if domain in use]
        share = _range([percent(use.share) for use in sorted(own, key=lambda use: use.share)])
        epochs = _range(
            [significant(use.epochs, 3) for use in sorted(own, key=lambda use: use.epochs)]
        )
        parts.append(f"{domain} {share} ({epochs} {'epoch' if epochs == '1' else 'epochs'})")
    return ", ".join(parts)


def _range(rising: Sequence[str]) -> str:
    return rising[0] if rising[0] == rising[-1] else f"{rising[0]} to {rising[-1]}"
