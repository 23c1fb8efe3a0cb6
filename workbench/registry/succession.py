"""A key's replacement on the disk, so that a crash leaves the old key in force or the new one.

The new key waits in ``ROLE.key.next`` until the entry that names it is durable; then the old key
goes to ``ROLE.key.retired-ID`` and the new one takes its place. Whoever opens the log next finishes
what a crash left, or undoes it when the entry was never written. All of it under the store's lock.
"""

import secrets
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import IntegrityError, InvalidFileError
from workbench.registry.entries import KeyRotation
from workbench.registry.files import (
    remove_unfinished,
    sync_folder,
    write_atomic,
    write_once,
)
from workbench.registry.keys import AUTHOR_KEY, LOG_KEY, RETIRED, WAITING, Keys, load_keys
from workbench.registry.log import Entry
from workbench.registry.notes import SigningKey, VerifierKey
from workbench.registry.rotation import KeyChain, Role

KEY_FILES: dict[Role, str] = {"log": LOG_KEY, "author": AUTHOR_KEY}


def prepare(keys: Keys, role: Role) -> SigningKey:
    """Make the key that will replace another and let it wait beside it, durably."""
    old = key_of(keys, role)
    new = SigningKey(name=old.name, seed=secrets.token_bytes(32))
    path = _waiting(keys.folder, KEY_FILES[role])
    write_atomic(path, new.to_text().encode(), mode=0o600)
    return new


def install(keys: Keys, role: Role) -> Keys:
    """Put the waiting key in the place of the old one, keep the old one, and return the keys.

    Call it only when the entry that names the new key is durable. Repeating it is harmless.
    """
    folder, name = keys.folder, KEY_FILES[role]
    old = key_of(keys, role)
    write_once(retired_path(folder, role, old), old.to_text().encode(), mode=0o600)
    _waiting(folder, name).replace(folder / name)
    sync_folder(folder)
    return load_keys(folder.parent, keys.log.name)


def settle(keys: Keys, chain: KeyChain) -> Keys:
    """Finish each replacement that a crash cut short, or undo it when nothing records it.

    A copy of a private key that a writer left half-way is removed, so that a key which is moved
    away or destroyed is gone.

    Args:
        keys: as they are on the disk.
        chain: of the store, up to its last durable entry.

    Raises:
        IntegrityError: a waiting key file is damaged.
    """
    remove_unfinished(keys.folder)
    for role, name in KEY_FILES.items():
        path = _waiting(keys.folder, name)
        if not path.is_file():
            continue
        waiting = SigningKey.parse(path.read_bytes().decode("utf-8", "replace"))
        in_force = chain.log if role == "log" else chain.author
        if waiting.verifier == in_force:
            keys = install(keys, role)
        else:
            path.unlink()
            sync_folder(keys.folder)
    return keys


def require_in_force(keys: Keys, chain: KeyChain) -> None:
    """Refuse keys that the log does not name now, as from a backup older than a rotation.

    Raises:
        IntegrityError: names the key file and the key that is wanted.
    """
    for role, wanted in (("log", chain.log), ("author", chain.author)):
        held = keys.log if role == "log" else keys.author
        if held.verifier != wanted:
            known = chain.knows(str(held.verifier)) or chain.knows_author(str(held.verifier))
            what = "was given up by a rotation" if known else "is not named by the log"
            raise IntegrityError(
                f"{keys.folder / f'{role}.key'} holds key {held.verifier.key_id.hex()}, which "
                f"{what}; in force is {wanted.key_id.hex()}",
                remedy="restore the newest backup of the keys (docs/operations.md, Keys)",
            )


def key_of(keys: Keys, role: Role) -> SigningKey:
    """Return the private key of a role."""
    return keys.log if role == "log" else keys.author


def retired_path(folder: Path, role: Role, key: SigningKey) -> Path:
    """Return where a key that was replaced is kept."""
    return folder / f"{KEY_FILES[role]}.{RETIRED}{key.verifier.key_id.hex()}"


def path_of_old(folder: Path, entry: Entry) -> Path:
    """Return where the private key that a rotation replaced is kept.

    Raises:
        InvalidFileError: the entry is no rotation.
    """
    body = entry.body
    if not isinstance(body, KeyRotation):
        raise InvalidFileError(f"entry {entry.sequence} ({entry.kind}) replaces no key")
    key_id = VerifierKey.parse(body.old_key).key_id.hex()
    return folder / f"{KEY_FILES[body.role]}.{RETIRED}{key_id}"


@dataclass(frozen=True, kw_only=True)
class KeyLine:
    """One key that spoke for a log."""

    role: Role
    vkey: str
    """C2SP verifier key: public, to be handed out."""
    key_id: str
    since: int
    """Sequence of the entry that put it in force."""
    until: int | None
    """Sequence of the rotation that ended that; None while it is in force."""
    private: str
    """Path of the private key; empty when it is not here."""


def key_lines(chain: KeyChain, folder: Path) -> tuple[KeyLine, ...]:
    """Return every key of a chain, the log's before the author's, each oldest first."""
    return tuple(line for role in KEY_FILES for line in _lines_of(role, chain, folder))


def _lines_of(role: Role, chain: KeyChain, folder: Path) -> list[KeyLine]:
    history = chain.history(role)
    ends: list[int | None] = [sequence for sequence, _ in history[1:]]
    lines = []
    for (since, key), until in zip(history, [*ends, None], strict=True):
        name = KEY_FILES[role]
        if until is not None:
            name = f"{name}.{RETIRED}{key.key_id.hex()}"
        path = folder / name
        lines.append(
            KeyLine(
                role=role,
                vkey=str(key),
                key_id=key.key_id.hex(),
                since=since,
                until=until,
                private=str(path) if path.is_file() else "",
            )
        )
    return lines


def _waiting(folder: Path, name: str) -> Path:
    return folder / f"{name}{WAITING}"
