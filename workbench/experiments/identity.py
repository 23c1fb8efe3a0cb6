"""A ``name@version`` means one content for ever: compared with what was registered under it."""

from collections.abc import Iterator, Mapping

from workbench.canonical import Json, fingerprint
from workbench.errors import Fault, InvalidFileError
from workbench.registry.entries import Document, Registration
from workbench.registry.located import Located, Path, read_yaml
from workbench.registry.log import LogSource

_NAMES: tuple[tuple[str, Path, Path], ...] = (
    ("recipe", ("recipe",), ()),
    ("full", ("full",), ()),
    ("recipe", ("corpus", "name"), ("corpus",)),
)
"""Which document holds a name, where the name is, and which part of the document it names."""


def identity_faults(documents: Mapping[str, Document], source: LogSource) -> list[Fault]:
    """Return a fault for each name whose content differs from a registered one.

    Contents are compared as values: a changed comment or key order is the same content.
    """
    faults: dict[tuple[str, Path], Fault] = {}
    parsed = {name: _parsed(document) for name, document in documents.items()}
    for subject, registered in _registered(source):
        for file, name_path, part in _NAMES:
            new = parsed.get(file)
            old = _parsed(registered.recipe if file == "recipe" else registered.full)
            if new is None or old is None or not _clash(new, old, name_path, part):
                continue
            name = new.get(name_path)
            fault = new.fault(
                name_path,
                f"{name!r} was registered with other content by {subject}",
                f"give it a new version: {_next_version(name)!r}",
            )
            faults.setdefault((file, name_path), fault)
    return list(faults.values())


def registered_changes(
    experiment: str, documents: Mapping[str, Document], source: LogSource
) -> Iterator[Fault]:
    """Yield a warning for each file of a registered experiment that is not what was frozen."""
    for subject, registered in _registered(source):
        if subject != experiment:
            continue
        frozen = {
            "proposal": registered.proposal,
            "recipe": registered.recipe,
            "full": registered.full,
        }
        for name, document in documents.items():
            if document.sha256 != frozen[name].sha256:
                message = "differs from what was registered, which is what runs"
                remedy = "git checkout the registered version, or propose a new experiment"
                yield Fault(where=document.path, message=message, remedy=remedy)


def _registered(source: LogSource) -> Iterator[tuple[str, Registration]]:
    for entry in source.entries(kind=Registration.kind):
        if isinstance(entry.body, Registration):
            yield entry.subject, entry.body


def _parsed(document: Document) -> Located | None:
    try:
        return read_yaml(document.text, document.path)
    except InvalidFileError:
        return None


def _clash(new: Located, old: Located, name_path: Path, part: Path) -> bool:
    name = new.get(name_path)
    same_name = isinstance(name, str) and name == old.get(name_path)
    return same_name and _content(new.get(part)) != _content(old.get(part))


def _content(value: Json) -> str:
    # Whole numbers and floats of equal value are one content: 1 and 1.0 configure the same.
    return fingerprint(_plain(value))


def _plain(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    whole = isinstance(value, float) and value.is_integer()
    return int(value) if whole else value


def _next_version(name: Json) -> str:
    stem, _, version = str(name).rpartition("@")
    return f"{stem}@{int(version) + 1}" if version.isdigit() else f"{name}@2"
