"""What ``workbench init`` writes."""

import json
import re
from importlib import resources
from pathlib import Path

from workbench.errors import ConflictError, InvalidFileError

DEFAULT_RECIPE = "proxies/mixture-lambda-phases.yaml"
"""The recipe of a new lab, relative to its root."""

CONFIG = "workbench.toml"
_FILES = {
    "gitignore": ".gitignore",
    "experiments/README.md": "experiments/README.md",
    "proxies/README.md": "proxies/README.md",
    "registry/README.md": "registry/README.md",
    "reports/README.md": "reports/README.md",
    DEFAULT_RECIPE: DEFAULT_RECIPE,
}
_ORIGIN = re.compile(r"[a-z0-9][a-z0-9./_-]{2,119}\Z")


def template(name: str) -> str:
    """Return the text of a packaged template."""
    return resources.files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def filled(text: str, values: dict[str, str]) -> str:
    """Return the template with each ``{{name}}`` replaced, in one pass over the text.

    Raises:
        KeyError: the template has a name that the values lack.
    """
    return re.sub(r"\{\{([a-z_]+)\}\}", lambda match: values[match[1]], text)


def quoted(text: str) -> str:
    """Return the text as a double-quoted string that TOML and YAML read alike."""
    return json.dumps(text, ensure_ascii=False)


def write_lab(folder: Path, *, name: str, origin: str) -> tuple[Path, ...]:
    """Write a lab's files into a new or existing folder and return the ones written.

    Files that are already there stay as they are. ``workbench.toml``, which makes the folder a lab,
    comes last, so that an interrupted call can be repeated.

    Raises:
        ConflictError: the folder is a lab already, or a file.
        InvalidFileError: the name or the origin cannot be used.
    """
    _check_names(name, origin)
    if folder.exists() and not folder.is_dir():
        raise ConflictError(f"{folder} is a file", remedy="workbench init another-folder")
    if (folder / CONFIG).exists():
        raise ConflictError(
            f"{folder} is a lab already ({CONFIG} exists)",
            remedy=f"cd {folder} && workbench status",
        )
    written = [folder / path for path in _FILES.values() if not (folder / path).exists()]
    for source, path in _FILES.items():
        _write_new(folder / path, template(source))
    # Ignores itself, whatever the root's .gitignore says: the stores must never make a tree dirty.
    _write_new(folder / ".workbench" / ".gitignore", "*\n")
    settings = filled(template(CONFIG), {"name": quoted(name), "origin": quoted(origin)})
    _write_new(folder / CONFIG, settings)
    return (*written, folder / CONFIG)


def _check_names(name: str, origin: str) -> None:
    if not 1 <= len(name) <= 80 or not name.isprintable() or not name.strip():
        raise InvalidFileError(
            f"lab name {name!r} is not 1 to 80 printable characters",
            remedy='workbench init DIR --name "a short name"',
        )
    if not _ORIGIN.match(origin):
        raise InvalidFileError(
            f"origin {origin!r} is not 3 to 120 of a-z 0-9 . / _ - beginning with a-z or 0-9",
            remedy="choose another origin, for example example.org/lab",
        )


def _write_new(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        return
