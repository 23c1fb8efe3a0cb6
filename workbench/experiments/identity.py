"""A ``name@version`` means one content for ever: compared with what was registered under it."""

from collections.abc import Iterator, Mapping

from workbench.canonical import Json, fingerprint
from workbench.errors import Fault, InvalidFileError
from workbench.registry.amended import effective
from workbench.registry.entries import Amendment, Document, Registration
from workbench.registry.located import Located, Path, read_yaml
from workbench.registry.log import LogSource

_NAMES: tuple[tuple[str, Path, Path], ...] = (
    ("recipe", ("recipe",), ()),
    ("full", ("full",), ()),
    ("recipe", ("corpus", "name"), ("corpus",)),
)
"""Which document holds a name, where the name is, and which part of the document it names."""

NOT_IN_FORCE = "differs from what was registered, which is what runs"
"""What a check says of a registered experiment's edited file."""


def identity_faults(documents: Mapping[str, Document], source: LogSource) -> list[Fault]:
    """Return a fault for each name whose content differs from a registered one.

    Contents are compared as values: a changed comment or key order is the same content.
    """
    earlier = list(_registered(source))
    faults: list[Fault] = []
    for file, name_path, part in _NAMES:
        document = documents.get(file)
        new = _parsed(document) if document else None
        name = new.get(name_path) if new else None
        if document is None or new is None or not isinstance(name, str):
            continue
        for subject, registered in earlier:
            old = registered.recipe if file == "recipe" else registered.full
            if old.sha256 != document.sha256 and _clash(new, old, name_path, part):
                message = f"{name!r} was registered with other content by {subject}"
                remedy = f"give it a new version: {_next_version(name)!r}"
                faults.append(new.fault(name_path, message, remedy))
                break
    return faults


def registered_changes(
    experiment: str, documents: Mapping[str, Document], source: LogSource
) -> Iterator[Fault]:
    """Yield a warning for each file of a registered experiment that is not what was frozen."""
    entry = effective(source, experiment)
    if entry is None or not isinstance(entry.body, Registration):
        return
    body = entry.body
    frozen = {"proposal": body.proposal, "recipe": body.recipe, "full": body.full}
    for name, document in documents.items():
        if document.sha256 != frozen[name].sha256:
            remedy = f"workbench amend {experiment[:4]}, or git checkout to put it back"
            yield Fault(where=document.path, message=NOT_IN_FORCE, remedy=remedy)


def _registered(source: LogSource) -> Iterator[tuple[str, Registration | Amendment]]:
    for kind in (Registration.kind, Amendment.kind):
        for entry in source.entries(kind=kind):
            if isinstance(entry.body, Registration | Amendment):
                yield entry.subject, entry.body


def _parsed(document: Document) -> Located | None:
    try:
        return read_yaml(document.text, document.path)
    except InvalidFileError:
        return None


def _clash(new: Located, old: Document, name_path: Path, part: Path) -> bool:
    name = new.get(name_path)
    # Parsing is slow beside a search, and a long log holds many registrations.
    parsed = _parsed(old) if name in old.text else None
    if parsed is None or parsed.get(name_path) != name:
        return False
    return _content(new.get(part)) != _content(parsed.get(part))


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


def _next_version(name: str) -> str:
    stem, _, version = name.rpartition("@")
    return f"{stem}@{int(version) + 1}" if version.isdigit() else f"{name}@2"
