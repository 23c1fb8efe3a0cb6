"""Corpora of one name with other contents: what was built before under it, and what differs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from workbench.canonical import Json
from workbench.data.corpus import corpus_folder
from workbench.data.manifest import MANIFEST_NAME, Manifest, read_manifest
from workbench.errors import IntegrityError

_MOST_KEYS = 6


@dataclass(frozen=True, kw_only=True)
class Namesake:
    """Another corpus of the same name and version, the last that was built on this machine."""

    name: str
    fingerprint: str
    num: int
    """Corpora of the name with other contents that lie beside the present one."""
    keys: tuple[str, ...]
    """Dotted keys of the configuration that differ, without the first ``corpus.``; empty where
    only the versions of sources or libraries do."""

    def sentence(self) -> str:
        """Return what happened to the name, and what to edit, in one line."""
        shown = ", ".join(self.keys[:_MOST_KEYS])
        more = len(self.keys) - _MOST_KEYS
        told = f"{shown} and {more} more" if more > 0 else shown
        name, _, version = self.name.partition("@")
        others = f"the last of {self.num} others is" if self.num > 1 else "that is"
        return (
            f"{self.name} was built here with other content before ({others} "
            f"{self.fingerprint.removeprefix('sha256:')[:8]}); what differs: "
            f"{told or 'versions of its sources or libraries'}. Each keeps its report; to keep a "
            f"name for one content write {name}@{int(version) + 1}."
        )


def namesake(manifest: Manifest, corpora: Path) -> Namesake | None:
    """Return the last other corpus of a corpus's name, None where there is none that is whole."""
    own = corpus_folder(manifest.config, corpora)
    named = f"{manifest.config.name.replace('@', '-v')}-"
    folders = [
        path.parent
        for path in corpora.glob(f"{named}*/{MANIFEST_NAME}")
        if path.parent != own and len(path.parent.name) == len(own.name)
    ]
    folders.sort(key=lambda path: ((path / MANIFEST_NAME).stat().st_mtime_ns, path.name))
    others = [found for found in map(_read, folders) if _is_other(found, manifest)]
    last = others[-1] if others else None
    if last is None:
        return None
    before, now = (dict(_leaves(m.config.model_dump(mode="json"))) for m in (last, manifest))
    # A section that is switched off is a key with None, which is more than a key that is missing.
    changed = {
        key
        for key in {**before, **now}
        if (key in before, before.get(key)) != (key in now, now.get(key))
    }
    # Of a section that one of them lacks its name says enough.
    changed -= {key for key in changed for whole in changed if key.startswith(f"{whole}.")}
    return Namesake(
        name=manifest.config.name,
        fingerprint=last.fingerprint,
        num=len(others),
        keys=tuple(key for key in {**now, **before} if key in changed),
    )


def _read(folder: Path) -> Manifest | None:
    try:
        return read_manifest(folder)
    except IntegrityError:
        return None  # opening that one is refused by itself


def _is_other(found: Manifest | None, manifest: Manifest) -> bool:
    return (
        found is not None
        and found.config.name == manifest.config.name
        and found.fingerprint != manifest.fingerprint
    )


def _leaves(plain: Mapping[str, Json], prefix: str = "") -> Iterator[tuple[str, Json]]:
    for key, value in plain.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
