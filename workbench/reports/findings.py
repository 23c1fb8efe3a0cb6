"""What a check of a claim found; apart from the checks, so that a reader can start without them."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a value stands in the record."""

    sequence: int
    leaf: str
    """Leaf hash of the entry, hexadecimal."""
    id: str
    kind: str
    time: str
    """RFC 3339, UTC."""
    actor: str


@dataclass(frozen=True, kw_only=True)
class AuditFinding:
    """One check of one claim, passed or not."""

    number: int
    """Of the check, as record-format.md numbers them."""
    check: str
    subject: str
    passed: bool
    detail: str
    sources: tuple[Source, ...]
    recomputed: bool = True
    """False where what it rests on is hidden: nothing was found wrong, and nothing right."""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a verdict says, for a reader who has only the published files."""

    subject: str
    sequence: int
    """Of the verdict's entry."""
    hypothesis: str
    claim: str
    metric: str
    outcome: str
    mode: str
    estimate: float | None
    """Improvement of treatment over control, positive is better."""
    lower: float | None
    upper: float | None
    n: dict[str, int]
    """Values by arm."""

    def line(self) -> str:
        """Return it in a line."""
        number = "no estimate" if self.estimate is None else f"{self.estimate:+.4f}"
        if self.lower is not None and self.upper is not None:
            number = f"{number} [{self.lower:+.4f}, {self.upper:+.4f}]"
        counts = "+".join(str(self.n[arm]) for arm in sorted(self.n))
        watermark = "" if self.mode == "confirmatory" else f", {self.mode}"
        return (
            f"{self.hypothesis}: {self.claim} on {self.metric} -> {self.outcome}{watermark}, "
            f"{number}, n={counts}"
        )
