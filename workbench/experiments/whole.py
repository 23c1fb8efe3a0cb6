"""Nothing confirmatory goes on from a record of which this reader lacks a part."""

from workbench.errors import ConflictError
from workbench.registry.hidden import essential, hidden_entries
from workbench.registry.log import LogSource


def refuse_hidden(source: LogSource, experiment: str) -> None:
    """Refuse an experiment when bodies that its stages are computed from are hidden here.

    Otherwise a hidden trial would be run again, and a hidden verdict be given a second time.

    Raises:
        ConflictError: names the first of them, and why it is hidden.
    """
    lacking = essential(hidden_entries(source.entries(subject=experiment)))
    if not lacking:
        return
    first = lacking[0]
    remedy = 'what is left stays on record; for a new attempt: workbench propose "a title"'
    if not any(found.is_redacted for found in lacking):
        remedy = "go on where the store is that they were written to"
    more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    raise ConflictError(
        f"{experiment} cannot go on: entry {first.entry.sequence} ({first.entry.kind}){more} is "
        f"hidden here, {first.why}",
        remedy=remedy,
    )
