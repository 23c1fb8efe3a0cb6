"""The facade: one method a command."""

import secrets
from pathlib import Path

from workbench.errors import (
    ConflictError,
)
from workbench.lab.anchoring import Anchoring
from workbench.lab.changing import Changing
from workbench.lab.data import Preparing
from workbench.lab.filing import Filing
from workbench.lab.keeping import Keeping
from workbench.lab.measuring import Measuring
from workbench.lab.opened import Clock, utc_now
from workbench.lab.reading import Reading
from workbench.lab.running import Running
from workbench.lab.scheduling import Scheduling
from workbench.lab.watching import Watching
from workbench.layout import find_lab, slug
from workbench.registry import provenance
from workbench.settings import load_settings, refuse_unnameable


class Lab(
    Filing,
    Changing,
    Preparing,
    Running,
    Watching,
    Measuring,
    Scheduling,
    Reading,
    Anchoring,
    Keeping,
):
    """An opened lab. Every command of the command line is one method here."""

    @classmethod
    def init(cls, folder: Path, *, name: str = "", clock: Clock = utc_now) -> "Lab":
        """Make a lab in the folder and write the log's first entry.

        Raises:
            ConflictError: the folder already holds a lab.
        """
        from workbench.scaffold.lab import write_lab

        folder = folder.resolve()
        if (folder / "workbench.toml").exists():
            cls.open(folder)._refuse_begun()
        else:
            provenance.require_git()
            refuse_unnameable(folder)
            called = name or folder.name
            origin = f"workbench.lab/{slug(called)}-{secrets.token_hex(4)}"
            write_lab(folder, name=called, origin=origin)
        provenance.ensure_repository(folder)
        lab = cls.open(folder, clock=clock)
        lab._create_ledger()
        lab.write_schemas()
        return lab

    def _refuse_begun(self) -> None:
        """Refuse any lab but one that a process which died left without its ledger."""
        # A clone has a commit, and its log is elsewhere: one origin never names two logs.
        is_cloned = provenance.code_state(self.layout.root).commit != provenance.NO_COMMIT
        is_begun = is_cloned or (self.layout.registry / "checkpoint").exists()
        if is_begun or (self._has_store() and not self._is_unsigned()):
            raise ConflictError(f"{self.layout.root} is already a lab", remedy="workbench status")

    @classmethod
    def open(cls, folder: Path | None = None, *, clock: Clock = utc_now) -> "Lab":
        """Open the lab that contains the folder (default: the current one).

        Raises:
            NotFoundError: there is none.
            InvalidFileError: ``workbench.toml`` cannot be used.
        """
        layout = find_lab(folder or Path.cwd())
        return cls(layout, load_settings(layout.config), clock)
