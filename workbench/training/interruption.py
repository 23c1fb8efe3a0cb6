"""Leaving a run in good order when the terminal or the scheduler asks for it."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop and did, after its files and recorders were written."""

    def __init__(self, signal_name: str, last_step: int) -> None:
        super().__init__(f"{signal_name} after step {last_step}")
        self.signal_name = signal_name
        self.last_step = last_step


@dataclass(kw_only=True)
class StopRequest:
    """Whether a signal has asked the run to stop."""

    signal_name: str = ""
    """Empty until then."""


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Turn Ctrl-C and SIGTERM into a request that the run sees between two steps.

    A second Ctrl-C does not wait for the step. Outside the main thread, where Python delivers no
    signals, the request is never made.
    """
    request = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        if request.signal_name and number == signal.SIGINT:
            raise KeyboardInterrupt
        request.signal_name = signal.Signals(number).name

    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in previous:
            signal.signal(number, handle)
        yield request
    finally:
        for number, handler in previous.items():
            # None: a handler that Python did not install and cannot put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
