"""Which split a document belongs to: decided by its normalised text alone.

The same text lands in the same split whatever its source, order or neighbours, so that adding a
source never moves a document from the sealed test split into training.
"""

import hashlib
from fractions import Fraction
from typing import Literal, TypeAlias

from workbench.data.config import SEALED, SplitConfig

Split: TypeAlias = Literal["train", "validation", "test"]


def split_of(digest: str, config: SplitConfig) -> Split:
    """Return the split of the document with this content digest (`dedup.content_digest`)."""
    hashed = hashlib.sha256(f"split/v1|{config.salt}|{digest}".encode()).digest()
    position = Fraction(int.from_bytes(hashed[:8], "big"), 2**64)
    if position < Fraction(config.test):
        return "test"
    if position < Fraction(config.test) + Fraction(config.validation):
        return "validation"
    return "train"


def is_sealed(digest: str, config: SplitConfig) -> bool:
    """Return whether the document with this content digest belongs to the sealed split."""
    return split_of(digest, config) == SEALED
