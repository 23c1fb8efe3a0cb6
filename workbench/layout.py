"""Where the folders and files of a lab are, and which names may become paths."""

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import InvalidFileError, NotFoundError

CONFIG_NAME = "workbench.toml"
MAX_SLUG = 40
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,119}\Z")
_EXPERIMENT = re.compile(r"(\d{4})-[a-z0-9]+(?:-[a-z0-9]+)*\Z")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The paths of one lab. Nothing here touches the disk except `experiment`."""

    root: Path

    @property
    def config(self) -> Path:
        """``workbench.toml``."""
        return self.root / CONFIG_NAME

    @property
    def experiments(self) -> Path:
        """Filed proposals, one folder an experiment."""
        return self.root / "experiments"

    @property
    def proxies(self) -> Path:
        """Sweep recipes."""
        return self.root / "proxies"

    @property
    def registry(self) -> Path:
        """The published ledger: static files only."""
        return self.root / "registry"

    @property
    def reports(self) -> Path:
        """Generated chronicles."""
        return self.root / "reports"

    @property
    def state(self) -> Path:
        """Stores, caches and checkpoints of this machine; never in git."""
        return self.root / ".workbench"

    @property
    def runs(self) -> Path:
        """Checkpoints and telemetry, one folder a run."""
        return self.state / "runs"

    @property
    def corpora(self) -> Path:
        """Built corpora, one folder a fingerprint."""
        return self.state / "corpora"

    def experiment(self, number_or_slug: str) -> Path:
        """Return the folder of experiment ``NNNN``, ``N`` or ``NNNN-slug``.

        Raises:
            NotFoundError: there is none, or the number is ambiguous.
        """
        folders = sorted(self.experiment_folders())
        wanted = number_or_slug.strip().rstrip("/")
        number = wanted.zfill(4) if wanted.isdigit() else None
        found = [f for f in folders if f.name == wanted or (number and f.name[:4] == number)]
        if len(found) == 1:
            return found[0]
        known = ", ".join(folder.name for folder in folders) or "none yet"
        problem = "is ambiguous" if found else "does not exist"
        raise NotFoundError(
            f"experiment {number_or_slug!r} {problem} in {self.experiments.name}/ (known: {known})",
            remedy='workbench propose "a title"',
        )

    def experiment_folders(self) -> list[Path]:
        """Return the folders named ``NNNN-slug``, in the order of their numbers."""
        if not self.experiments.is_dir():
            return []
        return sorted(p for p in self.experiments.iterdir() if _EXPERIMENT.match(p.name))


def find_lab(start: Path) -> Layout:
    """Return the lab that contains the folder.

    Raises:
        NotFoundError: no ``workbench.toml`` in the folder or above it.
    """
    for folder in [start.resolve(), *start.resolve().parents]:
        if (folder / CONFIG_NAME).is_file():
            return Layout(root=folder)
    raise NotFoundError(
        f"no {CONFIG_NAME} in {start} or any folder above it", remedy="workbench init DIR"
    )


def slug(title: str) -> str:
    """Return the title's first words in lower case, joined by hyphens, at most 40 characters.

    Raises:
        InvalidFileError: no letter or digit of the title survives.
    """
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain)
    while len(words) > 1 and len("-".join(words)) > MAX_SLUG:
        words.pop()
    text = "-".join(words)[:MAX_SLUG]
    if not text:
        raise InvalidFileError(
            f"title {title!r} has no ASCII letter or digit to name a folder after",
            remedy="give a title with at least one word in ASCII letters, or name the folder with "
            "--slug",
        )
    return text


def safe_name(name: str) -> str:
    """Return the name if it can be one path component, otherwise refuse it.

    Raises:
        InvalidFileError: separators, dots alone, ``%``, ``#``, ``?``, control characters or more
            than 120 characters.
    """
    if not _NAME.match(name) or ".." in name:
        raise InvalidFileError(
            f"name {name!r} cannot be a file name here",
            remedy="use letters, digits and . _ = - only, beginning with a letter or digit",
        )
    return name
