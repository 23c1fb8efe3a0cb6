"""Methods that keep a log usable: reveal, redact, replace keys."""

from pathlib import Path

from workbench.errors import InvalidFileError
from workbench.experiments.embargoes import Revealed
from workbench.lab.opened import OpenedLab
from workbench.registry.log import Entry
from workbench.registry.redaction import DraftRedaction, What
from workbench.registry.rotation import Role, Why
from workbench.registry.succession import KeyLine


class Keeping(OpenedLab):
    """Embargoes that end, entries that must be erased, keys that change."""

    def reveal(self, number: str, *, reason: str = "") -> Revealed:
        """End the embargo of an experiment; the next publication holds its content.

        Raises:
            ConflictError: no embargo of it stands.
        """
        from workbench.experiments.embargoes import reveal

        with self.ledger() as ledger:
            return reveal(ledger, self.layout.experiment(number).name, reason=reason)

    def draft_redaction(self, entry: str) -> DraftRedaction:
        """Return what erasing an entry's content would mean.

        Args:
            entry: Its number, its id, or its leaf hash or the first digits of it.

        Raises:
            NotFoundError: there is no such entry.
            ConflictError: it is never erased, or is erased already.
        """
        from workbench.registry.redaction import draft_redaction

        return draft_redaction(self.source(), entry)

    def redact(self, draft: DraftRedaction, *, what: What, reason: str) -> Entry:
        """Record that an entry's content is erased, and erase it from the store.

        Raises:
            InvalidFileError: no reason is given.
            StoreUnavailableError: the store cannot be written, or somebody is reading it.
        """
        with self.ledger() as ledger:
            return ledger.redact(draft.target, what=what, reason=reason)

    def key_lines(self) -> tuple[KeyLine, ...]:
        """Return every key that spoke for the log, oldest first, and whether it is here."""
        from workbench.registry.rotation import chain_of
        from workbench.registry.succession import key_lines

        return key_lines(chain_of(self.source()), self.keys_folder)

    def rotate_key(self, role: Role, *, why: Why, reason: str) -> Entry:
        """Replace the key that signs tree heads or entries; both keys sign the entry that says so.

        Raises:
            InvalidFileError: no reason is given.
        """
        if not reason.strip():
            raise InvalidFileError(
                "a key is replaced for a reason, which is published",
                remedy=f'workbench keys rotate {role} --why {why} --reason "yearly"',
            )
        with self.ledger() as ledger:
            return ledger.rotate(role, why=why, reason=reason)

    def retired_path(self, entry: Entry) -> Path:
        """Return where the private key lies that a rotation replaced.

        Raises:
            InvalidFileError: the entry is no rotation.
        """
        from workbench.registry.succession import path_of_old

        return path_of_old(self.keys_folder, entry)
