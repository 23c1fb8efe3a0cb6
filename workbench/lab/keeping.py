"""Methods that keep a log usable: reveal, redact, replace keys."""

from contextlib import ExitStack
from pathlib import Path

from workbench.errors import ConflictError, InvalidFileError
from workbench.experiments.embargoes import DraftReveal, Revealed
from workbench.experiments.succession import Succession
from workbench.lab.opened import OpenedLab
from workbench.registry.log import Entry
from workbench.registry.redaction import DraftRedaction, What
from workbench.registry.restore import Restored
from workbench.registry.rotation import Role, Why
from workbench.registry.succession import KeyLine
from workbench.registry.successor import Forerunner


class Keeping(OpenedLab):
    """Embargoes that end, entries that must be erased, keys that change."""

    def draft_reveal(self, number: str) -> DraftReveal:
        """Return what ending the embargo of an experiment would publish; writes nothing.

        Raises:
            ConflictError: no embargo of it stands.
        """
        from workbench.experiments.embargoes import draft_reveal

        return draft_reveal(self.source(), self.layout.experiment(number).name)

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
                remedy='workbench keys rotate log --why scheduled --reason "yearly"',
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

    def restore(self, *, copy: Path | None = None, accept_loss: bool = False) -> Restored:
        """Make the lost store anew, or one of another kind, under the same origin.

        Args:
            copy: Folder of published files, or a SQLite store that is not the lab's; the lab's own
                ``registry/`` if None.
            accept_loss: Go on although an embargo withheld content that only the lost store had,
                and record that it is lost.

        Raises:
            NotFoundError: the keys or the copy are not there.
            IntegrityError: the copy does not verify.
            ConflictError: something that was signed is not in the copy, or there is a store.
        """
        from workbench.registry.keys import load_keys
        from workbench.registry.published import PublishedLog
        from workbench.registry.restore import (
            Restorable,
            opened_copy,
            record_losses,
            restore_store,
        )

        if self._has_store():
            # Without keys no restoring helps: that refusal says what does.
            load_keys(self.settings.keys_dir, self.settings.origin)
            raise ConflictError(
                "there is a store of this lab: nothing is restored over it",
                remedy="workbench verify; if it is damaged, move it away and repeat the command",
            )
        self.layout.state.mkdir(parents=True, exist_ok=True)
        origin, found = self.settings.origin, copy or self.layout.registry
        with ExitStack() as stack:
            source: Restorable = PublishedLog(found)
            if found.is_file():
                source = stack.enter_context(opened_copy(found, origin))
            made = restore_store(
                source,
                url=self.store_url,
                origin=origin,
                keys_dir=self.settings.keys_dir,
                accept_loss=accept_loss,
            )
        with self.ledger() as ledger:
            record_losses(ledger)
        return made

    def why_lost(self) -> str:
        """Return why the present log cannot be continued under its origin.

        Raises:
            ConflictError: it can.
        """
        from workbench.experiments.succession import why_lost

        return why_lost(self.layout, self.settings, self.store_url, self.clock)

    def begin_successor(self) -> Succession:
        """Begin a new log that continues the present one, which was lost.

        Raises:
            ConflictError: the present log can still be continued.
            IntegrityError: what is published of it does not verify.
        """
        from workbench.experiments.succession import begin_successor
        from workbench.reports.unfinished import unfinished_experiments

        self.why_lost()
        return begin_successor(
            self.layout,
            self.settings,
            url=self.store_url,
            clock=self.clock,
            unfinished=unfinished_experiments,
        )

    def forerunners(self) -> tuple[Forerunner, ...]:
        """Return the logs that this lab's log continues, the nearest first."""
        from workbench.registry.successor import forerunners

        return tuple(forerunners(self.source(), self.layout.registry))
