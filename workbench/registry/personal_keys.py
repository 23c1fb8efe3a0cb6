"""Key files of people who are not the log: a reviewer approves, a witness cosigns.

A key file is one line, kept outside of any lab, for its owner only.
"""

import secrets
import stat
from pathlib import Path
from typing import Literal, TypeAlias

from workbench.errors import ConflictError, IntegrityError, NotFoundError
from workbench.registry.cosignatures import Cosigner, CosignerKey
from workbench.registry.files import write_once
from workbench.registry.notes import SigningKey, VerifierKey

Purpose: TypeAlias = Literal["review", "witness"]
"""A reviewer's key signs notes; a witness's key cosigns heads. One key never serves for both."""


def create_personal_key(path: Path, name: str, purpose: Purpose) -> VerifierKey | CosignerKey:
    """Make a key file, mode 0600, and return the public half, which is given to others.

    Args:
        path: a file that does not exist.
        name: what signatures carry, without spaces or plus; like ``example.org/reviewer-1``.
        purpose: what the key is for.

    Raises:
        ConflictError: there is such a file; it is never overwritten.
        IntegrityError: the name cannot be that of a key.
    """
    seed = secrets.token_bytes(32)
    key = (SigningKey if purpose == "review" else Cosigner)(name=name, seed=seed)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = key.to_text()
    write_once(path, text.encode(), mode=0o600)
    if path.read_bytes() != text.encode():
        raise ConflictError(
            f"{path} exists: a key file is never overwritten",
            remedy=f"use that key, or workbench keys new {name} --out FILE",
        )
    return key.verifier


def load_reviewer_key(path: Path) -> SigningKey:
    """Return a reviewer's key.

    Raises:
        NotFoundError: there is no such file.
        IntegrityError: others may read it, or it is not a reviewer's key.
    """
    return SigningKey.parse(_private_text(path))


def load_cosigner(path: Path) -> Cosigner:
    """Return a witness's key.

    Raises:
        NotFoundError: there is no such file.
        IntegrityError: others may read it, or it is not a witness's key.
    """
    return Cosigner.parse(_private_text(path))


def _private_text(path: Path) -> str:
    if not path.is_file():
        raise NotFoundError(
            f"no key file {path}", remedy="workbench keys new NAME, then give the file that it made"
        )
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise IntegrityError(
            f"{path} has mode {mode:o}: others may read the private key",
            remedy=f"chmod 600 {path}",
        )
    return path.read_bytes().decode("utf-8", "replace")
