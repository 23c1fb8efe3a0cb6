"""Writes chronicles into a lab's ``reports/`` folder."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.layout import safe_name
from workbench.registry.entries import Genesis
from workbench.registry.heads import SignedHead
from workbench.registry.hidden import public_entries
from workbench.registry.log import Entry, LogSource
from workbench.reports.blocks import Picture
from workbench.reports.chronicle import chronicle
from workbench.reports.dataset.facts import DataFacts, data_json
from workbench.reports.dataset.page import data_page
from workbench.reports.facts import ExperimentFacts, experiment_facts
from workbench.reports.index import folder_name, index_of
from workbench.reports.render import (
    chronicle_html,
    chronicle_markdown,
    data_html,
    figure_file,
    index_html,
)

HTML, MARKDOWN, INDEX = "chronicle.html", "chronicle.md", "index.html"
DATA_HTML, DATA_JSON = "data.html", "data.json"


class Snapshot:
    """A log read once, as everybody may see it: chronicles show no more than its published files.

    From the store and from the published files the same chronicles come, to the byte.
    """

    def __init__(self, source: LogSource) -> None:
        self.origin = source.origin
        self._head = source.head()
        self._all = public_entries(source.entries())
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
    """The Markdown's pictures, beside it."""


def write_chronicle(
    source: LogSource, experiment: str, reports: Path, *, before: Sequence[LogSource] = ()
) -> Written:
    """Write one chronicle and the index; each file is replaced whole.

    Args:
        source: The log.
        experiment: Its subject.
        reports: Folder that is written to.
        before: The logs that it continues, the nearest first.

    Raises:
        NotFoundError: no ledger has an entry about it.
        InvalidFileError: a subject of the log cannot be a file name.
    """
    found = all_facts((source, *before))
    told = next((facts for facts in found.values() if facts.experiment == experiment), None)
    if told is None:
        told = experiment_facts(source, experiment)
    files = _files(told, reports / folder_name(experiment))
    _write({**files, **_index(found, reports)})
    return _written(files)


def write_chronicles(
    source: LogSource, reports: Path, *, before: Sequence[LogSource] = ()
) -> tuple[Path, tuple[Written, ...]]:
    """Write the chronicle of every subject and the index; return the index and what was written.

    Args:
        source: The log.
        reports: Folder that is written to.
        before: The logs that it continues, the nearest first. A subject that a newer log has, too,
            gets another folder for the older one.

    Raises:
        NotFoundError: the ledger has no experiment.
        InvalidFileError: a subject of the log cannot be a file name.
    """
    found = all_facts((source, *before))
    index = _index(found, reports)
    every = [_files(facts, reports / folder) for folder, facts in found.items()]
    for files in (*every, index):
        _write(files)
    return reports / INDEX, tuple(_written(files) for files in every)


def all_facts(logs: Sequence[LogSource]) -> dict[str, ExperimentFacts]:
    """Return every subject's facts by the folder of its chronicle, as everybody may see them.

    Args:
        logs: The newest log first, then those that it continues.

    Raises:
        InvalidFileError: a subject of a log cannot be a file name.
    """
    found: dict[str, ExperimentFacts] = {}
    for snapshot in (Snapshot(log) for log in logs):
        for subject in snapshot.subjects:
            folder = folder_name(subject)
            if folder in found:
                folder = safe_name(f"{folder}-of-{snapshot.origin.rpartition('/')[2]}"[:120])
            found[folder] = experiment_facts(snapshot, subject)
    return found


def write_data_report(facts: DataFacts, folder: Path) -> tuple[Path, Path]:
    """Write the report on a corpus as a page and as JSON, each replaced whole; return both."""
    page, plain = folder / DATA_HTML, folder / DATA_JSON
    _write({page: data_html(data_page(facts)), plain: data_json(facts)})
    return page, plain


def _index(found: Mapping[str, ExperimentFacts], reports: Path) -> dict[Path, str]:
    return {reports / INDEX: index_html(index_of(found))}


def _files(facts: ExperimentFacts, folder: Path) -> dict[Path, str]:
    told = chronicle(facts)
    pictures = [b for part in told.sections for b in part.blocks if isinstance(b, Picture)]
    return {
        folder / HTML: chronicle_html(told),
        folder / MARKDOWN: chronicle_markdown(told),
        **{folder / f"{p.figure.name}.svg": figure_file(p.figure) for p in pictures},
    }


def _written(files: Mapping[Path, str]) -> Written:
    html = next(path for path in files if path.name == HTML)
    return Written(
        html=html,
        markdown=html.with_name(MARKDOWN),
        figures=tuple(path for path in files if path.suffix == ".svg"),
    )


def _write(files: Mapping[Path, str]) -> None:
    for path, text in files.items():
        _replace(path, text)


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(text.encode())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
