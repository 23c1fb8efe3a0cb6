"""Writes chronicles into a lab's ``reports/`` folder, or checks that they are what they must be."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from workbench.errors import IntegrityError, NotFoundError
from workbench.registry.entries import Genesis
from workbench.registry.heads import SignedHead
from workbench.registry.log import Entry, LogSource
from workbench.reports.blocks import Picture
from workbench.reports.chronicle import chronicle
from workbench.reports.facts import ExperimentFacts, experiment_facts
from workbench.reports.index import folder_name, index_of
from workbench.reports.render import (
    chronicle_html,
    chronicle_markdown,
    figure_file,
    index_html,
)

INDEX = "index.html"


class Snapshot:
    """A log read once, so that many chronicles of it cost one pass."""

    def __init__(self, source: LogSource) -> None:
        self.origin = source.origin
        self._head = source.head()
        self._all = tuple(source.entries())
        self._by_subject: dict[str, list[Entry]] = defaultdict(list)
        for entry in self._all:
            self._by_subject[entry.subject].append(entry)

    def entries(self, *, kind: str | None = None, subject: str | None = None) -> Iterator[Entry]:
        """Yield the entries of a kind and a subject, in the order of the log."""
        among: Iterable[Entry] = self._all
        if subject is not None:
            among = self._by_subject.get(subject, [])
        return (entry for entry in among if kind in (None, entry.kind))

    def head(self) -> SignedHead | None:
        """Return the tree head that the log had when it was read."""
        return self._head

    @property
    def subjects(self) -> tuple[str, ...]:
        """Experiments and exploratory subjects, in the order of their first entry."""
        lab = {entry.subject for entry in self._all if entry.kind == Genesis.kind}
        return tuple(subject for subject in self._by_subject if subject not in lab)


def write_chronicles(
    source: LogSource, reports: Path, names: Sequence[str] = (), *, check: bool = False
) -> list[Path]:
    """Write chronicles as HTML and Markdown with their figures, and the index; return the pages.

    Args:
        source: The log, which is all that a chronicle is made of.
        reports: The lab's folder for them.
        names: Experiments or other subjects; all of them if empty.
        check: Write nothing; compare what is on disk instead.

    Raises:
        NotFoundError: the ledger has no entry about a name, or no experiment at all.
        IntegrityError: with ``check``, a file is missing or is not what the ledger gives.
    """
    snapshot = Snapshot(source)
    wanted = tuple(names) or snapshot.subjects
    if not wanted:
        raise NotFoundError(
            "the ledger has no experiment to chronicle", remedy='workbench propose "a title"'
        )
    files: dict[Path, str] = {}
    for name in wanted:
        files.update(_files(experiment_facts(snapshot, name), reports))
    if not (check and names):
        every = [experiment_facts(snapshot, subject) for subject in snapshot.subjects]
        files[reports / INDEX] = index_html(index_of(every))
    if check:
        _compare(files)
    else:
        for path, text in files.items():
            _replace(path, text)
    return [path for path in files if path.suffix in (".html", ".md")]


def _files(facts: ExperimentFacts, reports: Path) -> dict[Path, str]:
    told = chronicle(facts)
    folder = reports / folder_name(facts.experiment)
    pictures = [b for part in told.sections for b in part.blocks if isinstance(b, Picture)]
    return {
        folder / "chronicle.html": chronicle_html(told),
        folder / "chronicle.md": chronicle_markdown(told),
        **{folder / f"{p.figure.name}.svg": figure_file(p.figure) for p in pictures},
    }


def _compare(files: Mapping[Path, str]) -> None:
    wrong = [path for path, text in files.items() if not _holds(path, text)]
    if wrong:
        raise IntegrityError(
            f"{len(wrong)} of {len(files)} files are not what the ledger gives: "
            + ", ".join(str(path) for path in wrong[:5]),
            remedy="workbench chronicle",
        )


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(text.encode())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
