"""What a corpus is made of and how. Imports nothing heavy, so that a recipe can be checked."""

import re
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

Content = Literal["prose", "code", "math"]
_DOMAIN = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
_MOST_BYTES = 10**15
"""A petabyte: more is a slip, and no longer exact in every reader of the record."""
SOURCE_KINDS = ("builtin", "text", "jsonl", "parquet", "hub")
SEALED = "test"
"""The split that only the verdict reads."""
SPLITS = ("train", "validation", SEALED)


def _domain(name: str) -> str:
    if not _DOMAIN.match(name):
        raise ValueError(f"domain {name!r} must be lower-case snake_case, at most 32 characters")
    return name


Domain = Annotated[str, AfterValidator(_domain)]


class ReferenceConfig(BaseModel):
    """Where text comes from that is read but never trained on: a reference, an evaluation set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    """``builtin:code|docs|math``, ``text:PATH``, ``jsonl:PATH``, ``parquet:PATH`` or
    ``hub:NAME[@REVISION]``."""
    text_field: str = "text"
    """Column of a JSONL, Parquet or hub source."""
    split: str = "train"
    """Split of a hub source."""
    max_bytes: int = Field(ge=1, le=_MOST_BYTES)
    """Documents are taken in the source's order until their UTF-8 bytes reach this."""

    @field_validator("source")
    @classmethod
    def _is_known(cls, value: str) -> str:
        kind = value.partition(":")[0]
        if kind not in SOURCE_KINDS:
            known = ", ".join(f"{one}:" for one in SOURCE_KINDS)
            near = get_close_matches(kind.lower(), SOURCE_KINDS, n=1)
            hint = f"did you mean {near[0] + ':'!r}? " if near else ""
            # What follows the arrow is told as the remedy.
            raise ValueError(f"source kind {kind!r} is unknown -> {hint}the kinds are {known}")
        return value


class SourceConfig(ReferenceConfig):
    """Where one domain's text comes from."""

    content: Content | None = None
    """What it holds; code and mathematics have no language score to pass. By default ``code`` for
    ``builtin:code``, ``math`` for ``builtin:math`` and ``prose`` for everything else."""
    language_field: str | None = None
    """Column that names a document's language or programming language. Without it the ending of a
    document's name says the programming language, and prose is identified."""
    licence: str | None = None
    """SPDX expression of the whole source, where its documents do not say."""
    licence_field: str | None = None
    """Column that names a document's licence."""

    @property
    def holds(self) -> Content:
        """What the source holds."""
        if self.content is not None:
            return self.content
        named: dict[str, Content] = {"builtin:code": "code", "builtin:math": "math"}
        return named.get(self.source, "prose")


class LanguageConfig(BaseModel):
    """Prose whose language is not told with confidence, or is not wanted, is left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    allowed: tuple[Annotated[str, Field(pattern=r"^[a-z]{2,3}$")], ...] = ()
    """ISO 639 codes; empty allows every language."""
    score: float = Field(default=0.92, ge=0, le=1)
    """Least score of the likeliest language. Code and mathematics are exempt."""
    measure: Literal["against_second", "probability"] = "against_second"
    """What the score is: the likeliest language's probability p1 against the second likeliest's,
    p1 / (p1 + p2), or p1 itself. The small model spreads much probability over languages that
    nobody would confuse, so p1 is low on technical text (docs/decisions/0017-language-score.md)."""
    max_share_lost: float = Field(default=0.5, gt=0, le=1)
    """A source that loses more of its bytes than this stops the build."""


class NearDuplicateConfig(BaseModel):
    """MinHash over n-grams of words, within one language or programming language."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ngram: int = Field(default=5, ge=1, le=32)
    """Words."""
    threshold: float = Field(gt=0, le=1)
    """Jaccard similarity of the n-gram sets from which on the shorter document is left out."""
    detection: float = Field(default=0.99, gt=0.5, lt=1)
    """Least probability that a pair exactly at the threshold is compared. Bands and rows follow."""
    num_hashes: int = Field(default=256, ge=16, le=1024)
    """At most this many hashes a document."""
    seed: int = Field(default=1, ge=0, lt=2**32)
    max_share_lost: float = Field(default=0.5, gt=0, le=1)
    """A source that loses more of its bytes than this stops the build."""


class QualityConfig(BaseModel):
    """Scores of a light classifier are brought to the distribution of a reference, not to an end.

    Text is left out where the corpus has more of a kind than the reference; nothing is cut off.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reference: ReferenceConfig
    """Text whose distribution of scores the corpus takes."""
    domains: tuple[Domain, ...] = Field(min_length=1)
    """Domains that are matched, each by itself."""
    bins: int = Field(default=10, ge=2, le=100)
    """Quantiles of the reference's scores."""
    seed: int = Field(default=1, ge=0, lt=2**32)
    max_share_lost: float = Field(default=0.5, gt=0, le=1)
    """A source that loses more of its bytes than this stops the build."""


class ContaminationConfig(BaseModel):
    """N-grams of words that training text shares with what is evaluated on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ngram: int = Field(default=13, ge=2, le=64)
    """Words."""
    threshold: float = Field(default=0.5, gt=0, le=1)
    """Share of an evaluation document's n-grams found in training text that marks it."""
    evaluation: dict[Domain, ReferenceConfig] = {}
    """Sets besides the corpus's own validation and test splits, which are always measured."""
    exclude: bool = False
    """Leave training documents out that alone hold the threshold's share of an evaluation
    document's n-grams; else only report the overlap."""
    max_share_lost: float = Field(default=0.5, gt=0, le=1)
    """A source that loses more of its bytes than this stops the build."""

    @field_validator("evaluation")
    @classmethod
    def _names_are_free(cls, value: dict[str, ReferenceConfig]) -> dict[str, ReferenceConfig]:
        taken = sorted(set(value) & set(SPLITS))
        if taken:
            raise ValueError(
                f"contamination.evaluation names {taken}: the corpus's own splits have these "
                "names; call the set otherwise"
            )
        return value


class TokenizerConfig(BaseModel):
    """A byte-level BPE trained on the training split."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["byte_bpe"] = "byte_bpe"
    vocab_size: int = Field(ge=257, le=1_000_000)
    train_bytes: int = Field(ge=1, le=_MOST_BYTES)
    """Bytes of training text, taken in equal parts from each domain."""


class SplitConfig(BaseModel):
    """Shares of documents held out, after deduplication, by a hash of the normalised text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    validation: float = Field(gt=0, lt=0.5)
    test: float = Field(gt=0, lt=0.5)
    salt: str
    """Mixed into the hash; another salt is another split."""


class CorpusConfig(BaseModel):
    """Sources, filters, splits and tokenizer: an identity with its recipe's name.

    Stages come in this order: read (empty text, length, by-hand exclusions), exact duplicates,
    language, near-duplicates, quality, splits, contamination, tokenizer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*@[0-9]+$")
    """``name@version``."""
    sources: dict[Domain, SourceConfig] = Field(min_length=1)
    language: LanguageConfig | None = None
    """None identifies no language and leaves nothing out."""
    deduplicate: Literal["exact_normalized"] = "exact_normalized"
    """Equal after NFKC, lower case and white-space folding; the first is kept."""
    near_duplicates: NearDuplicateConfig | None = None
    """None leaves near-duplicates in."""
    quality: QualityConfig | None = None
    contamination: ContaminationConfig = ContaminationConfig()
    exclude: tuple[str, ...] = ()
    """Identities of documents that are left out by hand: a licence withdrawn, a leak found. As
    ``documents.jsonl`` writes them; one that names no document read is refused. Everything behind
    reading is made again."""
    max_document_bytes: int = Field(default=20_000, ge=100, le=_MOST_BYTES)
    """Longer documents are cut at a line end, so that no document dominates a split."""
    splits: SplitConfig
    tokenizer: TokenizerConfig

    @property
    def labelled_by_source(self) -> dict[str, str]:
        """Domains of prose whose sources say the language, and the column: no model checks it."""
        return {
            domain: source.language_field
            for domain, source in sorted(self.sources.items())
            if source.language_field is not None and source.holds == "prose"
        }

    @model_validator(mode="after")
    def _domains_are_known(self) -> "CorpusConfig":
        unknown = set(self.quality.domains if self.quality else ()) - set(self.sources)
        if unknown:
            raise ValueError(f"quality names {sorted(unknown)}, which are no domains of the corpus")
        return self


def all_sources(config: CorpusConfig) -> tuple[ReferenceConfig, ...]:
    """Return everything that a build reads: sources, quality reference, evaluation sets."""
    references = [config.quality.reference] if config.quality else []
    evaluated = config.contamination.evaluation
    return (
        *(config.sources[domain] for domain in sorted(config.sources)),
        *references,
        *(evaluated[name] for name in sorted(evaluated)),
    )
