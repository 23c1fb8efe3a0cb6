"""Work done ahead of its consumer by one thread."""

import threading
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class _Failed:
    """What could not be made."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def made_ahead(make: Callable[[], T], *, num: int, depth: int) -> Generator[T, None, None]:
    """Yield ``make()`` so many times, in order, up to ``depth`` of them made before they are asked.

    Only the thread calls ``make``, so that whatever it changes needs no lock; what belongs to an
    item (the state after it, for example) must be part of the item. Closing the iterator, or its
    end, ends the thread; what was made and not asked for is lost.

    Raises:
        Exception: whatever ``make`` raised, at the place of the item that it could not make.
    """
    ready: SimpleQueue[T | _Failed] = SimpleQueue()
    slots = threading.Semaphore(depth)
    stopped = threading.Event()

    def work() -> None:
        for _ in range(num):
            slots.acquire()
            if stopped.is_set():
                return
            try:
                ready.put(make())
            except BaseException as error:  # noqa: BLE001 - raised again by the consumer
                ready.put(_Failed(error))
                return

    thread = threading.Thread(target=work, name="made-ahead", daemon=True)
    thread.start()
    try:
        for _ in range(num):
            made = ready.get()
            slots.release()
            if isinstance(made, _Failed):
                raise made.error
            yield made
    finally:
        stopped.set()
        slots.release()
        thread.join()
