"""How a corpus was made, as a registration records it: enough to state it from the log alone."""

from workbench.registry.entries.record import Number, Record


class DomainAccount(Record):
    """Documents and UTF-8 bytes of one domain at both ends of the build."""

    read: int
    read_bytes: int
    """As it came, before anything was cut or left out."""
    cut: int
    """Documents longer than the limit."""
    cut_bytes: int
    kept: int
    kept_bytes: int
    exhausted: bool
    """The source ended before the bytes that were asked for were taken."""


class Loss(Record):
    """What a stage left out of one domain."""

    documents: int
    bytes: int


class FilterStage(Record):
    """One stage of the build."""

    name: str
    settings: dict[str, str]
    """Thresholds, seeds, models; a value that is long is given by its fingerprint."""
    removed: dict[str, Loss]
    """By domain; a domain that lost nothing is left out."""


class Cell(Record):
    """What is kept of one domain in one language and split."""

    domain: str
    language: str
    """``others`` is all languages but the largest."""
    split: str
    documents: int
    bytes: int
    tokens: int


class LicenceCount(Record):
    """Kept documents of one domain under one licence."""

    domain: str
    licence: str
    """``others`` is all licences but the most frequent."""
    documents: int


class WeightedHead(Record):
    """Share of the most frequent words when documents are drawn by their entropy."""

    decay: str
    share: Number


class HeadAccount(Record):
    """Share of the 1,000 most frequent words in the text of one domain."""

    read: Number
    kept: Number
    weighted: list[WeightedHead] = []


class SetOverlap(Record):
    """How much of one evaluation set stands in training text."""

    documents: int
    ngrams: int
    """Distinct n-grams of words looked for."""
    found: int
    touched: int
    """Documents with at least one n-gram found; a lower bound where n-grams were sampled."""
    contaminated: int
    """Documents with at least the threshold's share found."""
    unmeasured: int
    """Documents too short for one n-gram, or with none of theirs in the sample."""


class ContaminationAccount(Record):
    """Method, threshold and overlap."""

    ngram: int
    """Words."""
    threshold: Number
    one_in: int
    """One n-gram in so many was looked for, chosen by its hash."""
    sets: dict[str, SetOverlap]
    """What is left after exclusion."""
    sets_before: dict[str, SetOverlap] = {}
    """Before documents were left out; empty where none were."""


class DataAccount(Record):
    """What is in a corpus and what was left out of it, with every threshold."""

    domains: dict[str, DomainAccount]
    stages: list[FilterStage]
    """In the order in which they happened."""
    composition: list[Cell]
    licences: list[LicenceCount]
    heads: dict[str, HeadAccount] = {}
    contamination: ContaminationAccount
