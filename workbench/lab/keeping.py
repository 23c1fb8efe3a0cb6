"""Methods that keep a log usable: reveal, redact, replace keys, restore."""

from workbench.experiments.embargoes import Revealed
from workbench.lab.opened import OpenedLab
from workbench.registry.log import Entry
from workbench.registry.rotation import Role, Why


class Keeping(OpenedLab):
    """Embargoes that end, entries that must be erased, keys that change, logs that are lost."""

    def reveal(self, number: str, *, reason: str = "") -> Revealed:
        """End the embargo of an experiment; the next publication holds its content.

        Raises:
            ConflictError: no embargo of it stands.
        """
        from workbench.experiments.embargoes import reveal

        with self.ledger() as ledger:
            return reveal(ledger, self.layout.experiment(number).name, reason=reason)

    def rotate_key(self, role: Role, *, why: Why, reason: str) -> Entry:
        """Replace the key that signs tree heads or entries; both keys sign the entry that says so.

        Raises:
            InvalidFileError: no reason is given.
        """
        from workbench.errors import InvalidFileError

        if not reason.strip():
            raise InvalidFileError(
                "a key is replaced for a reason, which is published",
                remedy=f'workbench keys rotate {role} --why {why} --reason "yearly"',
            )
        with self.ledger() as ledger:
            return ledger.rotate(role, why=why, reason=reason)
