"""Time stamps where there may be none: what reads them is loaded when the first is met."""

import importlib.util
from collections.abc import Sequence

from workbench.registry.stamps import Stamp, StampReader


class StampsWhenMet:
    """Reads time stamps as the lab does. Published files are verified without starting a lab."""

    def read_stamp(self, response: bytes, message: bytes) -> Stamp:
        """Return what a response says, its signature not checked."""
        from workbench.lab.anchoring import TimestampsExtra

        return TimestampsExtra().read_stamp(response, message)

    def verify_stamp(self, response: bytes, message: bytes, roots: Sequence[bytes]) -> Stamp:
        """Return what a response says, its signature checked up to one of the roots (PEM)."""
        from workbench.lab.anchoring import TimestampsExtra

        return TimestampsExtra().verify_stamp(response, message, roots)


def stamps_when_met() -> StampReader | None:
    """Return what reads time stamps, None where the extra ``timestamps`` is not installed."""
    return StampsWhenMet() if importlib.util.find_spec("rfc3161_client") else None
