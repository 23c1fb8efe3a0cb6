"""An opened lab: where its folders, settings, log and clock are."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from workbench.data.config import CorpusConfig
from workbench.errors import NotFoundError
from workbench.experiments.installed import require_training_extra
from workbench.experiments.progress import Progress
from workbench.layout import Layout
from workbench.registry.entries import DataState
from workbench.registry.ledger import Ledger
from workbench.registry.publish import PublishedLog
from workbench.registry.store import store_exists
from workbench.reports.verification import VerifiableLog
from workbench.settings import Settings, absolute_url

Clock = Callable[[], datetime]
LAB_FOLDERS = ("experiments", "proxies", "registry", "reports")
"""What runs is read from the ledger, so changes in these folders are no changes of the code."""


def utc_now() -> datetime:
    """Return the time of this machine, in UTC."""
    return datetime.now(UTC)


def building(progress: Progress) -> Callable[[str, float], None]:
    """Return what a corpus build reports to."""
    return lambda what, share: progress("corpus", share, 1.0, what)


class OpenedLab:
    """A lab with its settings and the way to its log."""

    def __init__(self, layout: Layout, settings: Settings, clock: Clock = utc_now) -> None:
        self.layout = layout
        self.settings = settings
        self.clock = clock

    @property
    def keys_folder(self) -> Path:
        """Where this lab's keys are, outside of the lab."""
        from workbench.registry.keys import keys_folder

        return keys_folder(self.settings.keys_dir, self.settings.origin)

    @property
    def store_url(self) -> str:
        """The ledger's URL, a SQLite file's with an absolute path."""
        return absolute_url(self.settings.store_url, self.layout.root)

    def ledger(self) -> Ledger:
        """Open the ledger for writing.

        Raises:
            NotFoundError: this machine has no store for the lab, or no keys.
        """
        if not self._has_store() and (self.layout.registry / "checkpoint").is_file():
            raise NotFoundError(
                "this lab has no store on this machine, only published files, which are read: a "
                "clone writes nothing into the log",
                remedy="work where the store is; if it is lost, and the lab's keys are here: "
                "workbench restore (docs/operations.md, The store is lost)",
            )
        return Ledger.open(
            url=self.store_url,
            origin=self.settings.origin,
            keys_dir=self.settings.keys_dir,
            actor=self.settings.actor,
            clock=self.clock,
        )

    def source(self) -> VerifiableLog:
        """Return the ledger to read: the store where there is one, else the published files."""
        if self._has_store():
            return self._stored()
        if (self.layout.registry / "checkpoint").is_file():
            return PublishedLog(self.layout.registry)
        raise NotFoundError(
            "this lab has neither a store on this machine nor a published ledger",
            remedy="workbench restore --from COPY, if there is a copy of the store; a new lab: "
            "workbench init DIR",
        )

    def _has_store(self) -> bool:
        return store_exists(self.store_url)

    def _is_unsigned(self) -> bool:
        """Return whether the log's keys are here and have signed nothing yet."""
        from workbench.registry.keys import load_keys

        try:
            keys = load_keys(self.settings.keys_dir, self.settings.origin)
        except NotFoundError:
            return False
        return keys.last_head() is None

    def _create_ledger(self) -> None:
        if self._has_store() and self._is_unsigned():
            # A call that was killed wrote the first entry: opening it signs a head over it.
            self.ledger().close()
            return
        self.layout.state.mkdir(parents=True, exist_ok=True)
        Ledger.create(
            url=self.store_url,
            origin=self.settings.origin,
            keys_dir=self.settings.keys_dir,
            actor=self.settings.actor,
            clock=self.clock,
            lab_name=self.settings.name,
        ).close()

    def _stored(self) -> Ledger:
        return Ledger.inspect(
            url=self.store_url, origin=self.settings.origin, keys_dir=self.settings.keys_dir
        )

    def _data(self, config: CorpusConfig, progress: Progress) -> DataState:
        require_training_extra()
        from workbench.data.build import build_corpus

        return build_corpus(
            config,
            root=self.layout.root,
            corpora=self.layout.corpora,
            progress=building(progress),
        ).state()
