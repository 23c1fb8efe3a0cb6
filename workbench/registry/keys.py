"""Where a log's private keys are kept: outside the lab, one folder a log, for the owner only."""

import contextlib
import os
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from workbench.errors import ConflictError, IntegrityError, NotFoundError
from workbench.registry.files import sync_folder, write_atomic, write_once
from workbench.registry.heads import SignedHead, verify_head
from workbench.registry.notes import SigningKey

LOG_KEY = "log.key"
AUTHOR_KEY = "author.key"
LAST_HEAD = "last-head"
SYNCED_HEAD = "last-head.synced"
"""An older head, durable: what is left of the last one if a loss of power tears its file."""
RETIRED = "retired-"
"""Follows the name of a key file and a dot, and precedes the id of a key that was replaced."""
WAITING = ".next"
"""Follows the name of a key file that waits to take the place of another."""
_READS = 5
_LONGEST_HEAD = 4096


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The keys of one log and, beside them, the last tree head they signed."""

    folder: Path
    log: SigningKey
    """Signs tree heads; its name is the log's origin."""
    author: SigningKey
    """Signs the entries whose kind says ``signed``."""
    stamp: tuple[int, ...] = field(default=(), compare=False)
    """Times and identities of the folder and the key files when they were read."""

    def are_replaced(self) -> bool:
        """Return whether the files now hold other keys than these."""
        # By inode: a folder's time of change is too coarse to tell two changes of one moment apart.
        return _stamp(self._files) != self.stamp

    @cached_property
    def _files(self) -> tuple[str, str]:
        return _key_files(self.folder)

    @cached_property
    def _last(self) -> Path:
        return self.folder / LAST_HEAD

    def last_head(self) -> SignedHead | None:
        """Return the last signed head, or None when none was signed yet.

        Raises:
            IntegrityError: the file is not a head that this log's key, or one before it, signed.
        """
        path = self._last
        if not path.is_file():
            return None
        data = path.read_bytes()
        if not data and not (self.folder / SYNCED_HEAD).is_file():
            return None  # a first writer made the file and got no further
        for _ in range(_READS):
            try:
                return self._verified(data)
            except IntegrityError as error:
                # Another process may have written while this one read.
                again = path.read_bytes()
                if again == data:
                    return self._after_power_loss(path, data, error)
                data = again
        raise IntegrityError(f"{path} does not stand still", remedy="repeat the command")

    def newest(self) -> bytes:
        """Return the bytes of the last signed head, unchecked; nothing when there is none."""
        try:
            descriptor = os.open(self._last, os.O_RDONLY)
        except FileNotFoundError:
            return b""
        try:
            return os.read(descriptor, _LONGEST_HEAD)
        finally:
            os.close(descriptor)

    def keep_head(self, head: SignedHead) -> None:
        """Replace the last signed head. A loss of power may take it back; see `sync_head`."""
        data = head.note.encode()
        descriptor = os.open(self._last, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            # In place: below 512 bytes, so within the one sector that a disk writes whole.
            os.pwrite(descriptor, data, 0)
            if os.fstat(descriptor).st_size > len(data):
                os.ftruncate(descriptor, len(data))
        finally:
            os.close(descriptor)

    def sync_head(self, head: SignedHead) -> None:
        """Keep a second copy of the head that no loss of power takes back."""
        write_atomic(self.folder / SYNCED_HEAD, head.note.encode(), mode=0o600)

    def synced_size(self) -> int:
        """Return the size of the head that `sync_head` kept last, 0 for none that holds."""
        path = self.folder / SYNCED_HEAD
        with contextlib.suppress(IntegrityError, FileNotFoundError):
            return self._verified(path.read_bytes()).size
        return 0

    def authors(self) -> list[SigningKey]:
        """Return the author's key and those that it replaced, as far as they are in the folder."""
        return [self.author, *self._retired("author")]

    def _verified(self, data: bytes) -> SignedHead:
        note = data.decode("utf-8", "replace")
        try:
            return verify_head(note, self.log.verifier)
        except IntegrityError:
            # A rotation replaces the key before it signs the first head with the new one.
            for key in self._retired("log"):
                with contextlib.suppress(IntegrityError):
                    return verify_head(note, key.verifier)
            raise

    def _retired(self, role: str) -> list[SigningKey]:
        paths = sorted(self.folder.glob(f"{role}.key.{RETIRED}*"))
        return [SigningKey.parse(path.read_bytes().decode("utf-8", "replace")) for path in paths]

    def _after_power_loss(self, path: Path, data: bytes, error: IntegrityError) -> SignedHead:
        """Return the durable head where the last one looks as a loss of power leaves a file."""
        synced = self.folder / SYNCED_HEAD
        is_torn = not data.endswith(b"\n") or b"\0" in data
        if is_torn and synced.is_file():
            with contextlib.suppress(IntegrityError):
                return self._verified(synced.read_bytes())
        raise IntegrityError(
            f"{path} is not the last signed head: {error.message}",
            remedy="restore it from a backup of the keys; never delete it",
        ) from error


def _stamp(files: Sequence[str]) -> tuple[int, ...]:
    """Return times and identities that change when one of the key files is replaced."""
    found: list[int] = []
    for file in files:
        try:
            status = os.stat(file)  # noqa: PTH116  # before every append; a path object costs more
        except FileNotFoundError:
            found += [0, 0]
        else:
            found += [status.st_ino, status.st_mtime_ns]
    return tuple(found)


def _key_files(folder: Path) -> tuple[str, str]:
    return str(folder / LOG_KEY), str(folder / AUTHOR_KEY)


def keys_folder(keys_dir: Path, origin: str) -> Path:
    """Return the folder of a log's keys."""
    return keys_dir / origin.replace("/", "_")


def author_name(origin: str) -> str:
    """Return the key name under which the author of a log signs."""
    return f"{origin}/author"


def create_keys(keys_dir: Path, origin: str) -> Keys:
    """Make the keys of a new log, or take up those of a creation that was cut short.

    Raises:
        ConflictError: these keys have signed heads already: the log exists, here or elsewhere.
    """
    folder = keys_folder(keys_dir, origin)
    last = folder / LAST_HEAD
    if last.exists() and (last.stat().st_size or (folder / SYNCED_HEAD).exists()):
        raise ConflictError(
            f"the keys of log {origin!r} in {folder} have already signed a log",
            remedy="choose another origin in workbench.toml: one origin never names two logs",
        )
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    for name, key_name in ((LOG_KEY, origin), (AUTHOR_KEY, author_name(origin))):
        key = SigningKey(name=key_name, seed=secrets.token_bytes(32))
        write_once(folder / name, key.to_text().encode(), mode=0o600)
    sync_folder(folder.parent)
    return load_keys(keys_dir, origin)


def load_keys(keys_dir: Path, origin: str) -> Keys:
    """Read the keys of a log.

    Raises:
        NotFoundError: there are none.
        IntegrityError: others may read them, or they are malformed or of another log.
    """
    folder = keys_folder(keys_dir, origin)
    stamp = _stamp(_key_files(folder))
    return Keys(
        folder=folder,
        log=_read_key(folder / LOG_KEY, origin),
        author=_read_key(folder / AUTHOR_KEY, author_name(origin)),
        stamp=stamp,
    )


def _read_key(path: Path, name: str) -> SigningKey:
    if not path.is_file():
        raise NotFoundError(
            f"no private key {path}",
            remedy="set WORKBENCH_KEYS_DIR to the folder of the keys, or restore it from a backup; "
            "if they are lost: workbench restore --new-origin (docs/operations.md, The keys are "
            "lost)",
        )
    _refuse_loose_mode(path.parent)
    _refuse_loose_mode(path)
    try:
        key = SigningKey.parse(path.read_bytes().decode("utf-8", "replace"))
    except IntegrityError as error:
        raise IntegrityError(
            f"{path} cannot be used: {error.message}", remedy="restore it from a backup of the keys"
        ) from error
    if key.name != name:
        raise IntegrityError(f"{path} is the key of {key.name!r}, not of {name!r}")
    return key


def _refuse_loose_mode(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        wanted = "700" if path.is_dir() else "600"
        raise IntegrityError(
            f"{path} has mode {mode:o}: others may read the private keys",
            remedy=f"chmod {wanted} {path}",
        )
