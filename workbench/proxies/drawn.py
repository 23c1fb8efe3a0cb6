"""What a training drew, as the ledger keeps it."""

from workbench.data.serving.stream import Accounting
from workbench.registry.entries import DomainUse


def domain_use(drawn: Accounting) -> dict[str, DomainUse]:
    """Return what was drawn by domain; empty before the first step."""
    return {
        domain: DomainUse(
            tokens=tokens,
            share=drawn.shares[domain],
            stated=drawn.stated[domain],
            epochs=drawn.epochs[domain],
        )
        for domain, tokens in drawn.tokens.items()
        if domain in drawn.shares
    }
