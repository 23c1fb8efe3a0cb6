"""Shares of the domains in the training tokens."""

import math
from collections.abc import Mapping
from typing import Literal, Protocol

from workbench.errors import InvalidFileError


class DomainShares(Protocol):
    """What a mixture is resolved against; `corpus.Corpus` is one."""

    @property
    def domains(self) -> tuple[str, ...]:
        """Every domain of the corpus."""

    def natural_mixture(self) -> dict[str, float]:
        """Each domain's share of the training text."""


def resolve(
    mixture: Mapping[str, float] | Literal["natural"], corpus: DomainShares
) -> dict[str, float]:
    """Return the share of every domain of the corpus; the shares sum to 1.

    A domain that the mixture leaves out has share 0.

    Raises:
        InvalidFileError: a domain that the corpus lacks, a negative or non-finite share, or none
            above 0.
    """
    shares = corpus.natural_mixture() if mixture == "natural" else dict(mixture)
    unknown = sorted(set(shares) - set(corpus.domains))
    if unknown:
        raise InvalidFileError(
            f"mixture names domains {unknown} that the corpus lacks",
            remedy=f"use {', '.join(corpus.domains)}",
        )
    total = math.fsum(shares.values())
    if any(not 0 <= share < math.inf for share in shares.values()) or not total > 0:
        raise InvalidFileError(
            f"mixture {shares} is not a set of shares", remedy="give shares ≥ 0 that sum to 1"
        )
    return {domain: shares.get(domain, 0.0) / total for domain in corpus.domains}
