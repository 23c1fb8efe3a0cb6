"""The facade: one method a command, and the Python API of a lab.

Imports that cost time are inside the methods, so that a reading command never loads training code.
"""

import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from workbench.data.config import CorpusConfig
from workbench.errors import (
    ConflictError,
    IntegrityError,
    InvalidFileError,
    NotFoundError,
)
from workbench.experiments.checking import Checked
from workbench.experiments.filing import Receipt
from workbench.experiments.installed import require_training_extra
from workbench.experiments.plan import ExperimentPlan
from workbench.experiments.progress import Progress, silent
from workbench.experiments.summaries import RunsReport, Stages, SweepReport
from workbench.layout import Layout, find_lab, slug
from workbench.registry import provenance
from workbench.registry.entries import DataState, Decision, Forecast, Note, Registration
from workbench.registry.ledger import Ledger
from workbench.registry.log import Entry
from workbench.registry.publish import PublishedLog, PublishSummary
from workbench.reports.stages import ExperimentStatus, experiment_statuses
from workbench.reports.verification import VerifiableLog, Verification
from workbench.settings import Settings, absolute_url, load_settings, refuse_unnameable

Clock = Callable[[], datetime]
LAB_FOLDERS = ("experiments", "proxies", "registry", "reports")
"""What runs is read from the ledger, so changes in these folders are no changes of the code."""


def utc_now() -> datetime:
    """Return the time of this machine, in UTC."""
    return datetime.now(UTC)


class Lab:
    """An opened lab. Every command of the command line is one method here."""

    def __init__(self, layout: Layout, settings: Settings, clock: Clock = utc_now) -> None:
        self.layout = layout
        self.settings = settings
        self.clock = clock

    # Making and opening

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
        return lab

    def _refuse_begun(self) -> None:
        """Refuse any lab but one that a process which died left without its ledger."""
        # A clone has a commit, and its log is elsewhere: one origin never names two logs.
        is_cloned = provenance.code_state(self.layout.root).commit != provenance.NO_COMMIT
        if is_cloned or self._has_store() or (self.layout.registry / "checkpoint").exists():
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

    @property
    def keys_folder(self) -> Path:
        """Where this lab's keys are, outside of the lab."""
        from workbench.registry.keys import keys_folder

        return keys_folder(self.settings.keys_dir, self.settings.origin)

    @property
    def store_url(self) -> str:
        """The ledger's SQLAlchemy URL with an absolute path."""
        return absolute_url(self.settings.store_url, self.layout.root)

    def ledger(self) -> Ledger:
        """Open the ledger for writing.

        Raises:
            NotFoundError: this machine has no store for the lab, or no keys.
        """
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
            remedy="workbench init DIR",
        )

    def _has_store(self) -> bool:
        prefix = "sqlite:///"
        if not self.store_url.startswith(prefix):
            return True
        return Path(self.store_url.removeprefix(prefix)).is_file()

    def _create_ledger(self) -> None:
        self.layout.state.mkdir(parents=True, exist_ok=True)
        Ledger.create(
            url=self.store_url,
            origin=self.settings.origin,
            keys_dir=self.settings.keys_dir,
            actor=self.settings.actor,
            clock=self.clock,
            lab_name=self.settings.name,
        ).close()

    # Filing

    def propose(self, title: str, *, owner: str = "", recipe: str | None = None) -> Path:
        """File a proposal from the scaffold and return its folder."""
        from workbench.experiments.filing import propose

        return propose(self.layout, title, owner=owner or self.settings.actor, recipe=recipe)

    def check(self, number: str) -> Checked:
        """Return the checked files of an experiment with every fault and warning."""
        from workbench.experiments.checking import check

        source = self.source() if self._has_store() else None
        return check(self.layout, number, source=source)

    def register(self, number: str, *, progress: Progress = silent) -> Receipt:
        """Freeze an experiment in the ledger and derive its seeds.

        Raises:
            InvalidFileError: the files have faults; carries all of them.
            ConflictError: registered already, outside git or with uncommitted changes.
        """
        from workbench.experiments.filing import register

        checked = self.check(number)
        checked.require()
        if checked.recipe is None:
            raise InvalidFileError(f"{checked.experiment} has no recipe")
        state = self._data(checked.recipe.corpus, progress)
        with self.ledger() as ledger:
            return register(self.layout, number, ledger=ledger, corpus=state)

    def note(self, text: str, *, experiment: str = "") -> Entry:
        """Write a remark into the logbook of an experiment, or of the lab."""
        subject = self.layout.experiment(experiment).name if experiment else "lab"
        if not text.strip():
            raise InvalidFileError("an empty note says nothing", remedy='workbench note "a remark"')
        with self.ledger() as ledger:
            return ledger.append(Note(text=text), subject=subject)

    def decide(
        self,
        number: str,
        *,
        question: str,
        options: Sequence[str],
        chosen: str,
        evidence: Sequence[str],
        would_reverse: str,
        owner: str = "",
        dissent: str = "",
        rollback: str = "",
    ) -> Entry:
        """Record a person's decision.

        Raises:
            InvalidFileError: the choice is not one of the options considered.
        """
        if chosen not in options:
            raise InvalidFileError(
                f"chosen {chosen!r} is not one of the options {list(options)}",
                remedy="name every option considered with --option, the chosen one included",
            )
        body = Decision(
            question=question,
            options=list(options),
            chosen=chosen,
            basis="judgement",
            evidence=list(evidence),
            dissent=dissent,
            owner=owner or self.settings.actor,
            reversible=bool(rollback),
            rollback=rollback,
            would_reverse=would_reverse,
        )
        with self.ledger() as ledger:
            return ledger.append(body, subject=self.layout.experiment(number).name)

    # Running

    def build_data(self, recipe: str, *, progress: Progress = silent) -> DataState:
        """Build the corpus of a recipe file unless it is built, and return what it holds.

        Raises:
            NotFoundError: there is no such file.
            InvalidFileError: the recipe has faults.
        """
        from workbench.proxies.recipe_file import load_recipe

        path = Path(recipe) if Path(recipe).is_absolute() else self.layout.root / recipe
        if not path.is_file():
            known = ", ".join(
                f"proxies/{p.name}" for p in sorted(self.layout.proxies.glob("*.yaml"))
            )
            raise NotFoundError(f"recipe {recipe} does not exist (known: {known or 'none'})")
        return self._data(load_recipe(path.read_text("utf-8"), recipe).corpus, progress)

    def sweep(
        self, number: str, *, exploratory: bool = False, progress: Progress = silent
    ) -> SweepReport:
        """Run what is left of an experiment's sweep.

        Raises:
            NotRegisteredError: not registered and not exploratory.
            RunFailedError: no trial completed.
        """
        with self._campaign(number, exploratory=exploratory, progress=progress) as campaign:
            return campaign.sweep()

    def promote(
        self, number: str, *, exploratory: bool = False, progress: Progress = silent
    ) -> Entry:
        """Re-run the best trials on fresh seeds, choose, forecast; return the promotion's entry.

        Raises:
            NotRegisteredError: not registered and not exploratory.
            ConflictError: the sweep is not finished.
        """
        with self._campaign(number, exploratory=exploratory, progress=progress) as campaign:
            entry = campaign.promote()
        from workbench.experiments.promoted_config import write_promoted

        write_promoted(self.layout, entry)
        return entry

    def forecasts(self, promotion: Entry) -> list[Forecast]:
        """Return the forecasts that were made with a promotion."""
        entries = self.source().entries(kind="forecast", subject=promotion.subject)
        return [
            entry.body
            for entry in entries
            if promotion.leaf in entry.refs and isinstance(entry.body, Forecast)
        ]

    def run(
        self, number: str, *, exploratory: bool = False, progress: Progress = silent
    ) -> RunsReport:
        """Run what is left of both arms at full scale.

        Raises:
            NotRegisteredError: not registered and not exploratory.
            ConflictError: nothing was promoted, or the registered budget is used up.
            RunFailedError: an attempt failed; repeating the command continues it.
        """
        with self._campaign(number, exploratory=exploratory, progress=progress) as campaign:
            return campaign.run()

    def verdict(
        self, number: str, *, incomplete: bool = False, progress: Progress = silent
    ) -> Entry:
        """Read the sealed test split once, judge by the registered rule; return the verdict.

        Raises:
            NotRegisteredError: exploratory work never has a verdict.
            ConflictError: there is a verdict already, or runs are missing.
        """
        with self._campaign(number, exploratory=False, progress=progress) as campaign:
            return campaign.verdict(incomplete=incomplete)

    @contextmanager
    def _campaign(self, number: str, *, exploratory: bool, progress: Progress) -> Iterator[Stages]:
        plan = self._plan(number, exploratory=exploratory)
        # Refusals come first: the training stack takes seconds to import.
        require_training_extra()
        from workbench.data.build import build_corpus
        from workbench.experiments.campaign import Campaign
        from workbench.experiments.deviations import refuse_other_data
        from workbench.training.tracking import Tracker

        corpus = build_corpus(
            plan.recipe.corpus,
            root=self.layout.root,
            corpora=self.layout.corpora,
            progress=_building(progress),
        )
        if plan.registration and isinstance(plan.registration.body, Registration):
            refuse_other_data(plan.registration.body.data, corpus.state())
        corpus.verify_open()
        tracker = Tracker(
            absolute_url(self.settings.mlflow_uri, self.layout.root),
            self.layout.state / "mlartifacts",
            f"{slug(self.settings.name)}-{plan.subject}",
        )
        with self.ledger() as ledger:
            yield Campaign(
                layout=self.layout,
                plan=plan,
                ledger=ledger,
                tracker=tracker,
                corpus=corpus,
                search_url=absolute_url(self.settings.optuna_url, self.layout.root),
                code=provenance.code_state(self.layout.root, outputs=LAB_FOLDERS),
                environment=provenance.environment(),
                host=provenance.host(),
                progress=progress,
            )

    def _plan(self, number: str, *, exploratory: bool) -> ExperimentPlan:
        from workbench.experiments.plan import draft_plan, registered_plan

        folder = self.layout.experiment(number)
        if exploratory:
            return draft_plan(self.layout, folder)
        return registered_plan(self.source(), folder.name)

    def _data(self, config: CorpusConfig, progress: Progress) -> DataState:
        require_training_extra()
        from workbench.data.build import build_corpus

        return build_corpus(
            config,
            root=self.layout.root,
            corpora=self.layout.corpora,
            progress=_building(progress),
        ).state()

    # Reading

    def status(self) -> list[ExperimentStatus]:
        """Return where every experiment stands."""
        filed = [folder.name for folder in self.layout.experiment_folders()]
        return experiment_statuses(self.source(), filed)

    def chronicle(self, number: str = "", *, check: bool = False) -> list[Path]:
        """Write the chronicles of one or all experiments and return their paths.

        Raises:
            IntegrityError: with ``check``, a chronicle on disk is not what the ledger gives.
        """
        name = self.layout.experiment(number).name if number else ""
        if not check:
            return self._write_chronicles(name, self.layout.reports)
        with tempfile.TemporaryDirectory() as scratch:
            fresh = self._write_chronicles(name, Path(scratch))
            names = [path.relative_to(scratch) for path in fresh]
            stale = [
                str(name)
                for name, path in zip(names, fresh, strict=True)
                if not (self.layout.reports / name).is_file()
                or (self.layout.reports / name).read_bytes() != path.read_bytes()
            ]
        if stale:
            raise IntegrityError(
                f"not what the ledger gives: {', '.join(stale)}", remedy="workbench chronicle"
            )
        return [self.layout.reports / name for name in names]

    def _write_chronicles(self, experiment: str, reports: Path) -> list[Path]:
        from workbench.reports.site import write_chronicle, write_chronicles

        source = self.source()
        if experiment:
            written = write_chronicle(source, experiment, reports)
            return [written.html, written.markdown]
        index, all_written = write_chronicles(source, reports)
        return [index, *(path for w in all_written for path in (w.html, w.markdown))]

    def verify(self, *, kept_head: str | None = None) -> Verification:
        """Verify the ledger offline and recompute every verdict from it.

        Args:
            kept_head: A signed head that the reader kept from before, verbatim. Without one, the
                published head is taken where a store is verified.
        """
        from workbench.reports.verification import verify_lab

        log = self.source()
        kept = kept_head if kept_head is not None else self._kept_head(log)
        return verify_lab(log, vkey=log.vkey, kept_head=kept)

    def _stored(self) -> Ledger:
        return Ledger.inspect(
            url=self.store_url, origin=self.settings.origin, keys_dir=self.settings.keys_dir
        )

    def _kept_head(self, log: VerifiableLog) -> str | None:
        """Return the published head when the store is verified: it was kept outside of it."""
        checkpoint = self.layout.registry / "checkpoint"
        if isinstance(log, PublishedLog) or not checkpoint.is_file():
            return None
        return checkpoint.read_bytes().decode("utf-8", "replace")

    def publish(self) -> PublishSummary:
        """Write the ledger's new entries into ``registry/`` as static files."""
        from workbench.registry.publish import publish

        return publish(self.source(), self.layout.registry)


def _building(progress: Progress) -> Callable[[str, float], None]:
    return lambda what, share: progress("corpus", share, 1.0, what)
