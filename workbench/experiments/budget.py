"""The registered cap on device time: nothing more starts once it is used up."""

from collections.abc import Callable

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
    _refuse_beyond(spent, cap_device_hours, subject)


def allowance(
    source: LogSource, subject: str, *, cap_device_hours: float
) -> Callable[[float], None]:
    """Return what refuses the next confirmatory trial or re-run once the cap is used up.

    It takes the device-seconds that were spent since this was called, so that a long sweep does
    not read its log anew for every trial, and raises as `require_budget` does.
    """
    before = spent_device_hours(source, subject, mode="confirmatory")
    return lambda since: _refuse_beyond(before + since / 3600, cap_device_hours, subject)


def _refuse_beyond(spent: float, cap: float, subject: str) -> None:
    if spent >= cap:
        raise ConflictError(
            f"{subject} has used {spent:.3g} of its registered {cap:g} device-hours",
            remedy=f"workbench chronicle {subject[:4]}   (a larger budget is a new registration)",
        )
