"""What differs from the registration when something starts or resumes under it, field by field."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from workbench.canonical import Json, freeze, sha256_hex
from workbench.errors import IntegrityError, InvalidFileError
from workbench.experiments.plan import ExperimentPlan
from workbench.layout import Layout
from workbench.proxies.document_changes import (
    NAMES,
    DocumentName,
    changes_in,
    documents_of,
    prose_diff,
    shown,
)
from workbench.proxies.recipe import dotted
from workbench.registry.entries import CodeState, DataState, Deviation, Document, Registration
from workbench.registry.ledger import Ledger
from workbench.registry.located import decode
from workbench.registry.provenance import changed_files
from workbench.training.config import RunConfig

OUTPUTS = ("experiments", "proxies", "registry", "reports")
"""The lab's folders: what runs is read from the ledger, so a change in them changes no code."""
MOST_FIELDS = 20
"""Fields named of one edited file; the rest is counted."""
MOST_CHARACTERS = 500
DATA_EFFECT = "refused: nothing runs on other data than was registered"
REFUSED = frozenset({"data", "seeds", "config"})
"""Categories with which nothing runs: results would not answer the registered question."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Compares what is about to run with what is in force, and records every difference."""

    ledger: Ledger
    plan: ExperimentPlan
    layout: Layout
    code: CodeState
    environment: Mapping[str, str]
    host: Mapping[str, str]

    @property
    def registered_version(self) -> str:
        """Version of the workbench that was registered; empty when exploring."""
        body = self.plan.registration.body if self.plan.registration else None
        return body.code.workbench if isinstance(body, Registration) else ""

    def begin(self, at: str, more: Iterable[Deviation] = ()) -> list[Deviation]:
        """Record as `record` does, and refuse another seed or configuration than is in force.

        A key that the promoted configuration does not have is no reason to refuse.

        Raises:
            IntegrityError: names each such field with both values; they are recorded.
        """
        found = self.record(at, more)
        grave = [d for d in found if d.category in REFUSED and d.registered != shown(None)]
        if grave:
            named = "".join(f"\n    {d.what}: {d.registered} -> {d.found}" for d in grave)
            raise IntegrityError(
                f"{at} would not run what is in force (recorded as a deviation):{named}",
                remedy=f"install workbench {self.registered_version}, under which it was "
                "registered, and repeat the command",
            )
        return found

    def record(self, at: str, more: Iterable[Deviation] = ()) -> list[Deviation]:
        """Append each deviation that was not yet recorded at this place; return all of them.

        Args:
            at: What starts or resumes, like ``run treatment/seed-0 attempt 2``.
            more: What is found to differ in that place alone.
        """
        registration = self.plan.registration
        if registration is None or not isinstance(registration.body, Registration):
            return []
        registered = registration.body
        found = chain(
            more,
            code_deviations(registered, self.code, self.layout.root),
            environment_deviations(registered, self.environment),
            host_deviations(registered, self.host),
            recipe_deviations(registered, self.plan),
            file_deviations(registered, self.layout),
        )
        return append_deviations(self.ledger, self.plan, found, at=at)


def append_deviations(
    ledger: Ledger, plan: ExperimentPlan, found: Iterable[Deviation], *, at: str
) -> list[Deviation]:
    """Append each deviation unless the same is recorded at the same place; return all of them."""
    placed = [deviation.model_copy(update={"at": at}) for deviation in found]
    known = [entry.body for entry in ledger.entries(kind="deviation", subject=plan.subject)]
    for deviation in placed:
        if deviation not in known:
            ledger.append(deviation, subject=plan.subject, refs=plan.refs)
    return placed


def record_other_data(
    ledger: Ledger, plan: ExperimentPlan, found: DataState, *, at: str
) -> list[Deviation]:
    """Append, field by field, that the corpus is not the registered one; nothing if it is."""
    registration = plan.registration
    if registration is None or not isinstance(registration.body, Registration):
        return []
    return append_deviations(ledger, plan, data_deviations(registration.body, found), at=at)


def record_changed_sources(
    ledger: Ledger, plan: ExperimentPlan, found: str, *, at: str
) -> list[Deviation]:
    """Append that the corpus could not be had because its sources changed; nothing exploring.

    Args:
        ledger: The lab's ledger.
        plan: What was to run.
        found: Why the corpus was refused, in a sentence.
        at: What was starting or resuming.
    """
    registration = plan.registration
    if registration is None or not isinstance(registration.body, Registration):
        return []
    deviation = Deviation(
        category="data",
        what="data.sources",
        registered=registration.body.data.manifest,
        found=_short(found),
        effect=DATA_EFFECT,
    )
    return append_deviations(ledger, plan, [deviation], at=at)


def refuse_other_data(registered: DataState, found: DataState) -> None:
    """Refuse a corpus that is not the registered one.

    Raises:
        IntegrityError: the manifests differ, so that results would not answer the question.
    """
    if registered.manifest != found.manifest:
        raise IntegrityError(
            f"corpus {found.corpus} has manifest {found.manifest}, registered was "
            f"{registered.manifest}",
            remedy="restore the registered sources (Python and package versions are in the "
            "registration), or register a new proposal for the new data",
        )


def code_deviations(registered: Registration, code: CodeState, root: Path) -> Iterator[Deviation]:
    """Yield what differs in the code: commit, uncommitted changes, version of the workbench."""
    before = registered.code
    if code.commit != before.commit:
        yield Deviation(
            category="code",
            what="code.commit",
            registered=before.commit,
            found=code.commit,
            effect=_commit_effect(changed_files(root, before.commit, code.commit, outputs=OUTPUTS)),
        )
    if code.dirty:
        yield Deviation(
            category="code",
            what="code.dirty",
            registered="a clean work tree",
            found=f"uncommitted changes on {code.commit}",
            effect="the code that ran is in no commit",
        )
    if code.workbench != before.workbench:
        yield Deviation(
            category="code",
            what="code.workbench",
            registered=before.workbench,
            found=code.workbench,
            effect="another version of the workbench may compute other numbers",
        )


def _commit_effect(changed: Sequence[str] | None) -> str:
    if changed is None:
        return "results come from other code than was registered"
    if not changed:
        return f"none on what runs: the commits differ in {', '.join(OUTPUTS)} only"
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    return f"results come from other code than was registered: {', '.join(changed[:5])}{more}"


def environment_deviations(
    registered: Registration, found: Mapping[str, str]
) -> Iterator[Deviation]:
    """Yield each package, interpreter or platform of another version."""
    for key, before, now in _differing(registered.environment, found):
        yield Deviation(
            category="dependency",
            what=f"environment.{key}",
            registered=before,
            found=now,
            effect="another version may compute other numbers",
        )


def host_deviations(registered: Registration, found: Mapping[str, str]) -> Iterator[Deviation]:
    """Yield each fact of the machine that differs; none where none was registered."""
    if not registered.host:
        return
    for key, before, now in _differing(registered.host, found):
        yield Deviation(
            category="hardware",
            what=f"host.{key}",
            registered=before,
            found=now,
            effect="speed, and the last bits of sums, may differ",
        )


def data_deviations(registered: Registration, found: DataState) -> Iterator[Deviation]:
    """Yield each field of another corpus; none where the manifest is the registered one."""
    if registered.data.manifest == found.manifest:
        return
    for key, before, now in _differing(_flat(registered.data), _flat(found)):
        yield Deviation(
            category="data",
            what=f"data.{key}",
            registered=before,
            found=now,
            effect=DATA_EFFECT,
        )


def recipe_deviations(registered: Registration, plan: ExperimentPlan) -> Iterator[Deviation]:
    """Yield each manipulated key whose control value is read otherwise than when it was frozen."""
    frozen = dotted(registered.control)
    now = dotted(freeze(plan.recipe.control()))
    for key, before, found in _differing(frozen, now):
        yield Deviation(
            category="config",
            what=f"recipe base {key}",
            registered=before,
            found=found,
            effect="refused: the registered recipe means another control arm to this version",
        )


def config_deviations(promoted: Mapping[str, Json], config: RunConfig) -> Iterator[Deviation]:
    """Yield each key of a run's configuration that is not as it was promoted."""
    now = dotted(freeze(config.model_dump(mode="json")))
    for key, before, found in _differing(dotted(freeze(promoted)), now):
        added = before == shown(None)
        yield Deviation(
            category="config",
            what=f"config {key}",
            registered=before,
            found=found,
            effect="not in the promoted configuration: this version's default is used"
            if added
            else "refused: nothing runs with another configuration than was promoted",
        )


def seed_deviations(
    run: str, *, registered: int, about_to_use: int, earlier: Iterable[str]
) -> Iterator[Deviation]:
    """Yield where a run's seed is not the time-locked one, or not that of its earlier attempts.

    Args:
        run: ``arm/seed-N``.
        registered: What the registration's anchor in the log gives.
        about_to_use: What the attempt would be given.
        earlier: Seeds of the run's earlier attempts, as the log has them.
    """
    effect = "refused: a run has one seed, and nobody chooses it"
    for found in dict.fromkeys([str(about_to_use), *earlier]):
        if found != str(registered):
            yield Deviation(
                category="seeds",
                what=f"seed of {run}",
                registered=str(registered),
                found=found,
                effect=effect,
            )


def file_deviations(registered: Registration, layout: Layout) -> Iterator[Deviation]:
    """Yield each field of a registered file that was edited since; such edits have no effect."""
    for name in NAMES:
        document = documents_of(registered)[name]
        path = layout.root / document.path
        if path.is_file() and sha256_hex(path.read_bytes()) == document.sha256:
            continue
        fields = _edited_fields(name, document, path)
        for what, before, now in fields[:MOST_FIELDS] or [("", "", "")]:
            yield Deviation(
                category="file",
                what=f"file {document.path}{what and f': {what}'}",
                registered=before or f"sha256:{document.sha256}",
                found=now or "another content, or no file",
                effect="none on what runs: the registered text is used, the edit is not",
            )
        if len(fields) > MOST_FIELDS:
            yield Deviation(
                category="file",
                what=f"file {document.path}: {len(fields) - MOST_FIELDS} more fields",
                registered=f"sha256:{document.sha256}",
                found="other values",
                effect="none on what runs: the registered text is used, the edit is not",
            )


def _edited_fields(
    name: DocumentName, document: Document, path: Path
) -> list[tuple[str, str, str]]:
    """Return field, registered and found value; empty where the file cannot be compared."""
    try:
        text = decode(path.read_bytes(), document.path)
        new = Document(path=document.path, sha256=sha256_hex(text.encode()), text=text)
        changes = changes_in(name, document, new)
    except (OSError, InvalidFileError):
        return []
    return [
        (change.path, "the registered prose", "another prose")
        if prose_diff(change)
        else (change.path, _short(shown(change.old)), _short(shown(change.new)))
        for change in changes
    ]


def _differing(
    before: Mapping[str, Json], now: Mapping[str, Json]
) -> Iterator[tuple[str, str, str]]:
    for key in sorted({*before, *now}):
        if before.get(key) != now.get(key):
            yield key, _short(shown(before.get(key))), _short(shown(now.get(key)))


def _flat(data: DataState) -> dict[str, Json]:
    # The account tells at length what the manifest's fingerprint tells in one line.
    return dotted(freeze(data.model_dump(mode="python", exclude={"account"})))


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
