"""What an experiment and its log promise before anything runs."""

from typing import Literal

from workbench.canonical import Json
from workbench.registry.entries.data_account import DataAccount
from workbench.registry.entries.record import Body, Number, Record


class Document(Record):
    """A file as it was frozen: the ledger's copy is the one that runs."""

    path: str
    """Relative to the lab's root."""
    sha256: str
    text: str


class CodeState(Record):
    """The version of the code that a registration or attempt used."""

    commit: str
    """Git commit of the lab's work tree; ``none`` outside git."""
    dirty: bool
    workbench: str
    """Version of the installed workbench package."""


class DataState(Record):
    """The corpus behind an experiment."""

    corpus: str
    """``name@version`` of the corpus recipe."""
    manifest: str
    """Fingerprint over sources, filters, tokenizer, splits and every shard's hash."""
    documents: dict[str, int]
    """Documents by split and domain, keys ``train_code`` and the like."""
    tokens: dict[str, int]
    duplicates_removed: int
    natural_mixture: dict[str, Number]
    """Share of each domain in the training split's bytes."""
    evaluation_sets: dict[str, str] = {}
    """Fingerprint of each set that a metric is read on, ``validation`` and ``sealed_test``: over
    the hash of every domain's tokens and of the tokenizer. Absent in entries older than it."""
    builder: dict[str, str] = {}
    """Versions of what the built-in text came from (Python, packages)."""
    account: DataAccount | None = None
    """Stages, composition and contamination. Absent in entries older than it."""


class Predecessor(Record):
    """The log that this one continues, because its keys or its newest entries were lost."""

    origin: str
    head: str
    """The old log's last known signed head, verbatim."""
    log_key: str
    """C2SP verifier key of that head."""


class Genesis(Body):
    """The first entry of a log: which keys speak for it."""

    kind = "genesis"
    lab: str
    record_format: str
    log_key: str
    """C2SP verifier key of the tree heads."""
    author_key: str
    """C2SP verifier key of the author signatures."""
    predecessor: Predecessor | None = None


class ApprovalRule(Record):
    """How many of which reviewers must approve before anything confirmatory runs."""

    required: int
    reviewers: dict[str, str]
    """C2SP verifier key by a short name in snake_case."""


class StatedPower(Record):
    """What the rule was expected to say when it was registered (`workbench check`)."""

    effect: Number
    """True improvement that the chances are for, in the primary metric's unit."""
    noise_sd: Number
    """Standard deviation between the seeds of an arm."""
    noise_source: str
    """``assumed: …`` or ``measured: …``."""
    chances: dict[str, Number]
    """By outcome; that of ``supported`` is the power."""


class Registration(Body):
    """A frozen proposal. Everything that runs under it is read from here, not from the files."""

    kind = "registration"
    signed = True
    experiment: str
    title: str
    proposal: Document
    recipe: Document
    full: Document
    frozen: Json
    """The proposal's front matter as typed values (model `Proposal`)."""
    control: dict[str, Json]
    """The control arm's values of the manipulated keys, as a nested configuration fragment."""
    code: CodeState
    environment: dict[str, str]
    """Package versions, Python, platform; keys in snake_case."""
    data: DataState
    arms: list[str]
    num_seeds: int
    host: dict[str, str] = {}
    """The machine that it was registered on (`workbench.registry.provenance.host`)."""
    approvals: ApprovalRule | None = None
    """As the lab required when it was registered; absent where none is required."""
    power: StatedPower | None = None
    """Absent while the noise between seeds was neither assumed nor measured."""


class Anchor(Body):
    """A signed tree head kept in the log itself: the registration it covers came before it."""

    kind = "anchor"
    method: Literal["embedded"]
    head: str
    """The signed note, verbatim. The time-locked seeds derive from its SHA-256."""
    tree_size: int
