"""What a corpus is made of and how. Imports nothing heavy, so that a recipe can be checked."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

_DOMAIN = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
SPLITS = ("train", "validation", "test")
"""``test`` is sealed: only the verdict reads it."""


def _domain(name: str) -> str:
    if not _DOMAIN.match(name):
        raise ValueError(f"domain {name!r} must be lower-case snake_case, at most 32 characters")
    return name


Domain = Annotated[str, AfterValidator(_domain)]


class SourceConfig(BaseModel):
    """Where one domain's text comes from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    """``builtin:code|docs|math``, ``text:PATH``, ``jsonl:PATH``, ``parquet:PATH`` or
    ``hub:NAME[@REVISION]``."""
    text_field: str = "text"
    """Column of a JSONL, Parquet or hub source."""
    split: str = "train"
    """Split of a hub source."""
    max_bytes: int = Field(ge=1)
    """Documents are taken in the source's order until their UTF-8 bytes reach this."""


class TokenizerConfig(BaseModel):
    """A byte-level BPE trained on the training split."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["byte_bpe"] = "byte_bpe"
    vocab_size: int = Field(ge=257, le=1_000_000)
    train_bytes: int = Field(ge=1)
    """Bytes of training text, taken in equal parts from each domain."""


class SplitConfig(BaseModel):
    """Shares of documents held out, after deduplication, by a hash of the normalised text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    validation: float = Field(gt=0, lt=0.5)
    test: float = Field(gt=0, lt=0.5)
    salt: str
    """Mixed into the hash; another salt is another split."""


class CorpusConfig(BaseModel):
    """Sources, deduplication, splits and tokenizer: an identity with its recipe's name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*@[0-9]+$")
    """``name@version``."""
    sources: dict[Domain, SourceConfig] = Field(min_length=1)
    deduplicate: Literal["exact_normalized"] = "exact_normalized"
    """Equal after NFKC, lower case and white-space folding; the first is kept."""
    max_document_bytes: int = Field(default=20_000, ge=100)
    """Longer documents are cut at a line end, so that no document dominates a split."""
    splits: SplitConfig
    tokenizer: TokenizerConfig

    @model_validator(mode="after")
    def _sources_are_known(self) -> "CorpusConfig":
        kinds = {config.source.partition(":")[0] for config in self.sources.values()}
        unknown = kinds - {"builtin", "text", "jsonl", "parquet", "hub"}
        if unknown:
            raise ValueError(f"source kinds {sorted(unknown)} are unknown")
        return self
