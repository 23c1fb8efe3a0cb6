"""Append what holds of the log as it is: whoever writes meanwhile makes it be looked at again.

An entry that must come once (a registration, the end of an embargo) or that says what was known (an
amendment, a withdrawal) is wrong for ever if another process, perhaps on another machine, appended
between the look and the entry.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench.errors import ConflictError
from workbench.registry.entries import Body
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry

_TRIES = 32
"""How often others may come between before a person is asked to repeat the command."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An entry that would be right if nothing were added before it."""

    body: Body
    refs: Sequence[str] = ()
    """Leaf hashes (hexadecimal) of the earlier entries that it rests on."""


def append_unraced(ledger: Ledger, subject: str, look: Callable[[], Wanted]) -> Entry:
    """Append what a look at the log gives, in the very next place after what it saw.

    Args:
        ledger: The lab's ledger.
        subject: Of the entry.
        look: Reads the log and returns the entry, or raises what refuses it; called once more each
            time that somebody else wrote meanwhile.

    Raises:
        ConflictError: others wrote each time.
    """
    left = _TRIES
    while True:
        size = ledger.head().size
        wanted = look()
        left -= 1
        try:
            return ledger.append(wanted.body, subject=subject, refs=wanted.refs, at_size=size)
        except ConflictError:
            if not left:
                raise
