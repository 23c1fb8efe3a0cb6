"""Writes chronicles into a lab's ``reports/`` folder."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.layout import safe_name
from workbench.registry.entries import Genesis
from workbench.registry.heads import SignedHead
from workbench.registry.ledger import Entry, LogSource
from workbench.reports.blocks import Picture
from workbench.reports.chronicle import Chronicle, chronicle
from workbench.reports.facts import ExperimentFacts, experiment_facts
from workbench.reports.index import chronicle_name, index_of
from workbench.reports.render import (
    chronicle_html,
    chronicle_markdown,
    figure_file,
    index_html,
)


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


@dataclass(frozen=True, kw_only=True)
class Written:
    """The files of one chronicle."""

    html: Path
    markdown: Path
    figures: tuple[Path, ...]


def write_chronicle(source: LogSource, experiment: str, reports: Path) -> Written:
    """Write one chronicle; each file is replaced whole.

    Raises:
        NotFoundError: the ledger has no entry about it.
    """
    return _write(experiment_facts(source, experiment), reports)


def write_chronicles(source: LogSource, reports: Path) -> tuple[Path, tuple[Written, ...]]:
    """Write the chronicles of every subject and the index; return the index and what was written.

    Raises:
        NotFoundError: the ledger has no experiment.
    """
    snapshot = Snapshot(source)
    found = [experiment_facts(snapshot, subject) for subject in snapshot.subjects]
    listing = index_html(index_of(found))
    written = tuple(_write(facts, reports) for facts in found)
    return _replace(reports / "index.html", listing), written


def _write(facts: ExperimentFacts, reports: Path) -> Written:
    told = chronicle(facts)
    name = safe_name(chronicle_name(facts.experiment))
    pictures = [
        _replace(reports / name / f"{picture.figure.name}.svg", figure_file(picture.figure))
        for picture in _pictures(told)
    ]
    return Written(
        html=_replace(reports / f"{name}.html", chronicle_html(told)),
        markdown=_replace(reports / f"{name}.md", chronicle_markdown(told)),
        figures=tuple(pictures),
    )


def _pictures(told: Chronicle) -> Sequence[Picture]:
    return [b for part in told.sections for b in part.blocks if isinstance(b, Picture)]


def _replace(path: Path, text: str) -> Path:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return path
