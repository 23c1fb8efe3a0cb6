"""Where a log's private keys are kept: outside the lab, one folder a log, for the owner only."""

import contextlib
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import ConflictError, IntegrityError, NotFoundError
from workbench.registry.files import sync_folder, write_atomic, write_once
from workbench.registry.heads import SignedHead, verify_head
from workbench.registry.notes import SigningKey, VerifierKey

LOG_KEY = "log.key"
AUTHOR_KEY = "author.key"
LAST_HEAD = "last-head"
RETIRED = "retired-"
"""Follows the name of a key file and a dot, and precedes the id of a key that was replaced."""


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The keys of one log and, beside them, the last tree head they signed."""

    folder: Path
    log: SigningKey
    """Signs tree heads; its name is the log's origin."""
    author: SigningKey
    """Signs the entries whose kind says ``signed``."""
    retired: tuple[VerifierKey, ...] = ()
    """Earlier keys of the tree heads. A crash may leave the last head signed by one of them."""

    def last_head(self) -> SignedHead | None:
        """Return the last signed head, or None when none was signed yet.

        Raises:
            IntegrityError: the file is not a head that this log's key signed.
        """
        path = self.folder / LAST_HEAD
        if not path.is_file():
            return None
        note = path.read_bytes().decode("utf-8", "replace")
        try:
            return self._verified(note)
        except IntegrityError as error:
            raise IntegrityError(
                f"{path} is not the last signed head: {error.message}",
                remedy="restore it from a backup of the keys; never delete it",
            ) from error

    def _verified(self, note: str) -> SignedHead:
        for key in self.retired:
            with contextlib.suppress(IntegrityError):
                return verify_head(note, key)
        return verify_head(note, self.log.verifier)

    def keep_head(self, head: SignedHead) -> None:
        """Replace the last signed head, durably."""
        write_atomic(self.folder / LAST_HEAD, head.note.encode(), mode=0o600)


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
    if (folder / LAST_HEAD).exists():
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
    log = _read_key(folder / LOG_KEY, origin)
    author = _read_key(folder / AUTHOR_KEY, author_name(origin))
    retired = sorted(folder.glob(f"{LOG_KEY}.{RETIRED}*"))
    return Keys(
        folder=folder,
        log=log,
        author=author,
        retired=tuple(_read_key(path, origin).verifier for path in retired),
    )


def _read_key(path: Path, name: str) -> SigningKey:
    if not path.is_file():
        raise NotFoundError(
            f"no private key {path}",
            remedy="set WORKBENCH_KEYS_DIR to the folder of the keys, or restore it from a backup",
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
