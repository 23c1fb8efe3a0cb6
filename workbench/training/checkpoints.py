"""Checkpoints that are whole or absent: written aside, read back, then renamed into place.

A checkpoint is ``step-NNNNNNNN.ckpt`` with its SHA-256 in ``step-NNNNNNNN.ckpt.sha256``. The digest
is in place before the checkpoint is, so a process that dies at any point leaves either no
checkpoint of that step or one that can be verified.
"""

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from lightning.fabric.plugins.io.checkpoint_io import CheckpointIO

from workbench.errors import IntegrityError, NotFoundError

_NAME = re.compile(r"step-(\d{8})\.ckpt\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\n\Z")
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A saved model state whose bytes match their digest."""

    step: int
    path: Path
    sha256: str


@dataclass(frozen=True, kw_only=True)
class RejectedCheckpoint:
    """A file that looks like a checkpoint and cannot be trusted."""

    step: int
    path: Path
    reason: str


def checkpoint_path(folder: Path, step: int) -> Path:
    """Return where the checkpoint of a step is kept in a run's checkpoint folder."""
    return folder / f"step-{step:08d}.ckpt"


def newest_good(folder: Path) -> tuple[Checkpoint | None, tuple[RejectedCheckpoint, ...]]:
    """Return the newest checkpoint that verifies, and the newer ones that do not. Only reads."""
    rejected: list[RejectedCheckpoint] = []
    for step, path in reversed(_found(folder)):
        try:
            sha256 = verify_file(path)
        except IntegrityError as error:
            rejected.append(RejectedCheckpoint(step=step, path=path, reason=error.message))
        else:
            return Checkpoint(step=step, path=path, sha256=sha256), tuple(rejected)
    return None, tuple(rejected)


def set_aside(rejected: RejectedCheckpoint) -> Path:
    """Rename a rejected checkpoint so that it is kept as evidence and never tried again."""
    aside = rejected.path.with_name(f"{rejected.path.name}.rejected")
    rejected.path.replace(aside)
    return aside


def verify_file(path: Path) -> str:
    """Return the SHA-256 of a checkpoint that matches its recorded digest.

    Raises:
        IntegrityError: the digest is missing or unreadable, or the bytes do not match it.
    """
    recorded = _recorded_digest(path)
    found = _file_digest(path)
    if found != recorded:
        raise IntegrityError(
            f"{path.name} has SHA-256 {found[:12]}…, recorded was {recorded[:12]}… "
            f"({path.stat().st_size} bytes on disk)",
            remedy="workbench run NNNN continues from an older checkpoint by itself",
        )
    return found


def read_checkpoint(path: Path, sha256: str) -> dict[str, Any]:
    """Return the state in a checkpoint, on the CPU. Nothing but tensors and plain values loads.

    Raises:
        NotFoundError: the file does not exist.
        IntegrityError: its bytes are not those of the digest.
    """
    if not path.is_file():
        raise NotFoundError(f"checkpoint {path} does not exist", remedy="workbench run NNNN")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise IntegrityError(
                f"{path.name} has SHA-256 {found[:12]}…, expected was {sha256[:12]}…",
                remedy="workbench run NNNN trains again from the last good checkpoint",
            )
        file.seek(0)
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    return state


def write_checkpoint(state: dict[str, Any], path: Path) -> Checkpoint:
    """Save a state so that the path holds all of it or is left as it was.

    Raises:
        IntegrityError: what was read back differs from what was written.
        OSError: the disk refused.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    sha256 = _write_aside(path, lambda file: torch.save(state, file))
    sidecar = _sidecar(path)
    _write_aside(sidecar, lambda file: file.write(f"{sha256}\n".encode()))
    _aside(sidecar).replace(sidecar)
    _aside(path).replace(path)
    _sync_folder(path.parent)
    return Checkpoint(step=_step_of(path), path=path, sha256=sha256)


def retain(folder: Path, keep: int) -> None:
    """Delete all but the newest ``keep`` checkpoints, provided that the newest one verifies."""
    older = _found(folder)[:-keep]
    newest, _ = newest_good(folder)
    for step, path in older:
        if newest is not None and step < newest.step:
            path.unlink(missing_ok=True)
            _sidecar(path).unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Delete what writers that died have left unfinished."""
    for path in folder.glob(".step-*.unfinished"):
        path.unlink(missing_ok=True)


class VerifiedCheckpointIO(CheckpointIO):
    """Lightning's door to the files above."""

    def __init__(self) -> None:
        self.saved: Checkpoint | None = None
        """The last checkpoint that this process wrote."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: object | None = None
    ) -> None:
        """Write a checkpoint as `write_checkpoint` does."""
        del storage_options
        self.saved = write_checkpoint(checkpoint, Path(path))

    def load_checkpoint(
        self,
        path: str | Path,
        map_location: object | None = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Read a checkpoint as `read_checkpoint` does; code in it never runs."""
        del map_location, weights_only
        return read_checkpoint(Path(path), _recorded_digest(Path(path)))

    def remove_checkpoint(self, path: str | Path) -> None:
        """Delete a checkpoint and its digest."""
        Path(path).unlink(missing_ok=True)
        _sidecar(Path(path)).unlink(missing_ok=True)


def _found(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    matches = [(_NAME.match(path.name), path) for path in folder.iterdir()]
    return sorted((int(match[1]), path) for match, path in matches if match)


def _step_of(path: Path) -> int:
    match = _NAME.match(path.name)
    if match is None:
        raise ValueError(f"{path.name!r} is not the name of a checkpoint (step-NNNNNNNN.ckpt)")
    return int(match[1])


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.unfinished")


def _recorded_digest(path: Path) -> str:
    try:
        text = _sidecar(path).read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise IntegrityError(f"{path.name} has no readable digest beside it") from error
    if not _DIGEST.match(text):
        raise IntegrityError(f"the digest beside {path.name} is damaged: {text[:80]!r}")
    return text.strip()


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise IntegrityError(f"{path.name} cannot be read: {error}") from error


class _HashingFile:
    """Passes writes on and hashes them, so that the digest is of what was meant to be written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def _write_aside(path: Path, write: Callable[[Any], object]) -> str:
    aside = _aside(path)
    with aside.open("wb", buffering=_CHUNK_BYTES) as file:
        hashing = _HashingFile(file)
        write(hashing)
        file.flush()
        os.fsync(file.fileno())
    meant = hashing.digest.hexdigest()
    if _file_digest(aside) != meant:
        aside.unlink()
        raise IntegrityError(
            f"{path.name} read back differently from what was written",
            remedy="check the disk that holds the run folder, then repeat the command",
        )
    return meant


def _sync_folder(folder: Path) -> None:
    # The rename itself must survive a power cut, not only the bytes of the file.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
