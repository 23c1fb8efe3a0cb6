"""The documents of a corpus under construction, on disk between its stages.

A domain is three files: its rows as JSON lines, an index of where each line is, and the digests.
Memory holds a few bytes a document: whether it is still kept, and its language.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from workbench.canonical import Json

INDEX_ROW = np.dtype([("start", "<u8"), ("num_bytes", "<u4")])
"""Where a document's line begins in its domain's file, and the UTF-8 bytes of its text."""

_DIGEST_BYTES = 32
_UNLABELLED = 0


@dataclass(frozen=True, kw_only=True)
class Row:
    """One document of the table."""

    domain: str
    number: int
    """Its place in the domain's file, from 0."""
    id: str
    text: str
    digest: str
    """`dedup.content_digest` of the text."""
    num_bytes: int
    """UTF-8 bytes of the text."""
    provenance: str
    licence: str
    """Empty where nobody says."""
    language: str
    """What the source said, else empty; `Table.language` is what was found."""


class TableWriter:
    """Writes one domain's rows in their order."""

    def __init__(self, folder: Path, domain: str) -> None:
        self._domain = domain
        self._files = ExitStack()  # all are closed, even where one finds the disk full
        paths = (_rows_path, _index_path, _digests_path)
        self._rows, self._index, self._digests = (
            self._files.enter_context(path(folder, domain).open("wb")) for path in paths
        )
        self._start = 0
        self.num_rows = 0
        """Rows written so far: the number of the next one."""

    def __enter__(self) -> "TableWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._files.close()

    def write(self, row: Row) -> None:
        """Append a row.

        Raises:
            ValueError: it is of another domain or has another number than the next.
        """
        if (row.domain, row.number) != (self._domain, self.num_rows):
            raise ValueError(f"row {row.domain} {row.number} is not the next: {self.num_rows}")
        stored = {k: v for k, v in asdict(row).items() if k not in ("domain", "number")}
        line = json.dumps(stored, ensure_ascii=False).encode("utf-8") + b"\n"
        self._index.write(np.array((self._start, row.num_bytes), dtype=INDEX_ROW).tobytes())
        self._digests.write(bytes.fromhex(row.digest))
        self._rows.write(line)
        self._start += len(line)
        self.num_rows += 1


class Table:
    """Rows by domain; which are kept and their languages change as stages are applied."""

    def __init__(self, folder: Path, domains: tuple[str, ...]) -> None:
        """Open what `TableWriter` wrote; every row is kept and has no language yet."""
        self.domains = tuple(sorted(domains))
        """In alphabetical order."""
        self._folder = folder
        self._index = {domain: _mapped_index(folder, domain) for domain in self.domains}
        self._digests = {domain: _mapped_digests(folder, domain) for domain in self.domains}
        self._kept = {d: np.ones(len(index), dtype=np.bool_) for d, index in self._index.items()}
        self._labels = {d: np.zeros(len(i), dtype=np.uint16) for d, i in self._index.items()}
        self._languages: dict[str, int] = {"": _UNLABELLED}
        self._names = [""]

    def num_rows(self, domain: str) -> int:
        """Return how many rows the domain's file has, those left out included."""
        return len(self._index[domain])

    def num_kept(self, domain: str) -> int:
        """Return how many of the domain's rows are still kept."""
        return int(np.count_nonzero(self._kept[domain]))

    def kept_bytes(self, domain: str) -> int:
        """Return the UTF-8 bytes of the rows still kept."""
        sizes = self._index[domain]["num_bytes"]
        return int(sizes[self._kept[domain]].sum(dtype=np.int64))

    def kept(self, domain: str) -> NDArray[np.bool_]:
        """Return, a row of the file each, whether it is still kept; a read-only view."""
        view = self._kept[domain].view()
        view.flags.writeable = False
        return view

    def num_bytes(self, domain: str, number: int) -> int:
        """Return the UTF-8 bytes of one row's text."""
        return int(self._index[domain]["num_bytes"][number])

    def digest(self, domain: str, number: int) -> str:
        """Return the content digest of one row."""
        return bytes(self._digests[domain][number]).hex()

    def rows(self, domain: str) -> Iterator[Row]:
        """Yield the rows still kept, in the order of their source."""
        return self.chosen(domain, self._kept[domain])

    def all_rows(self, domain: str) -> Iterator[Row]:
        """Yield every row of the file, those left out included."""
        return self.chosen(domain, np.ones(self.num_rows(domain), dtype=np.bool_))

    def chosen(self, domain: str, chosen: NDArray[np.bool_]) -> Iterator[Row]:
        """Yield the rows of the file that a mask chooses, kept or not, in order."""
        with _rows_path(self._folder, domain).open("rb") as file:
            for number, line in enumerate(file):
                if chosen[number]:
                    yield _row(domain, number, line)

    def row(self, domain: str, number: int) -> Row:
        """Return one row, kept or not.

        Raises:
            IndexError: there is no such row.
        """
        if not 0 <= number < len(self._index[domain]):
            raise IndexError(f"domain {domain!r} has no row {number}")
        with _rows_path(self._folder, domain).open("rb") as file:
            file.seek(int(self._index[domain]["start"][number]))
            return _row(domain, number, file.readline())

    def reject(self, domain: str, numbers: NDArray[np.integer]) -> None:
        """Leave rows out."""
        self._kept[domain][numbers] = False

    def language(self, domain: str, number: int) -> str:
        """Return a row's ISO 639 code or programming language, empty where none was found."""
        return self._names[int(self._labels[domain][number])]

    def label(self, domain: str, number: int, language: str) -> None:
        """Say what language a row is in."""
        code = self._languages.get(language)
        if code is None:
            code = self._languages[language] = len(self._names)
            self._names.append(language)
        self._labels[domain][number] = code

    def save_labels(self, folder: Path) -> None:
        """Write every row's language to a folder, for `load_labels`."""
        (folder / "languages.json").write_text(json.dumps(self._names), "utf-8")
        for domain, labels in self._labels.items():
            np.save(folder / f"{domain}.labels.npy", labels)

    def load_labels(self, folder: Path) -> None:
        """Take the languages that `save_labels` wrote."""
        self._names = json.loads((folder / "languages.json").read_text("utf-8"))
        self._languages = {name: code for code, name in enumerate(self._names)}
        for domain in self.domains:
            self._labels[domain] = np.load(folder / f"{domain}.labels.npy")


def _row(domain: str, number: int, line: bytes) -> Row:
    stored: dict[str, Json] = json.loads(line)
    return Row(domain=domain, number=number, **stored)


def _mapped_index(folder: Path, domain: str) -> NDArray[np.void]:
    path = _index_path(folder, domain)
    num_rows = path.stat().st_size // INDEX_ROW.itemsize
    if num_rows == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype=INDEX_ROW)
    return np.memmap(path, dtype=INDEX_ROW, mode="r", shape=(num_rows,))


def _mapped_digests(folder: Path, domain: str) -> NDArray[np.uint8]:
    path = _digests_path(folder, domain)
    shape = (path.stat().st_size // _DIGEST_BYTES, _DIGEST_BYTES)
    if shape[0] == 0:
        return np.empty(shape, dtype=np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r", shape=shape)


def _rows_path(folder: Path, domain: str) -> Path:
    return folder / f"{domain}.jsonl"


def _index_path(folder: Path, domain: str) -> Path:
    return folder / f"{domain}.index"


def _digests_path(folder: Path, domain: str) -> Path:
    return folder / f"{domain}.digests"
