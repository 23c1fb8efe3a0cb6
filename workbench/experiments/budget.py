"""The registered cap on device time: nothing more starts once it is used up."""

from workbench.errors import ConflictError
from workbench.registry.entries import ProxyRun, RunEnded, Trial
from workbench.registry.log import LogSource


def spent_device_hours(source: LogSource, subject: str, *, mode: str) -> float:
    """Return the device-hours of every trial, re-run and attempt, failed or not."""
    seconds = 0.0
    for entry in source.entries(subject=subject):
        body = entry.body
        if isinstance(body, Trial | ProxyRun | RunEnded) and body.mode == mode:
            seconds += body.device_seconds
    return seconds / 3600


def require_budget(source: LogSource, subject: str, *, cap_device_hours: float) -> None:
    """Refuse to start more confirmatory work when the registered cap is used up.

    Raises:
        ConflictError: names what was spent and the cap.
    """
    spent = spent_device_hours(source, subject, mode="confirmatory")
    if spent >= cap_device_hours:
        raise ConflictError(
            f"{subject} has used {spent:.3g} of its registered {cap_device_hours:g} device-hours",
            remedy=f"workbench chronicle {subject[:4]}   (a larger budget is a new registration)",
        )
