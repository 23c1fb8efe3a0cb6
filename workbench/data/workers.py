"""Processes that work through batches: the results in order, at most a few batches ahead.

Each process is started afresh, not forked: the parent's threads and locks stay its own. Who calls
it from a script of their own needs the usual ``if __name__ == "__main__":``.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, TypeVar

from workbench.errors import RunFailedError

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """A number of worker processes, started when they are first needed."""

    def __init__(self, num: int = 1) -> None:
        """With 1 everything happens in this process.

        Raises:
            ValueError: less than 1.
        """
        if num < 1:
            raise ValueError(f"{num} workers cannot work: at least 1")
        self.num = num
        self._crew: list[_Worker] = []
        self._is_busy = False

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def map(self, function: Callable[[T], R], batches: Iterable[T]) -> Iterator[R]:
        """Yield ``function(batch)`` of each batch, in their order.

        Args:
            function: of a module's top level, so that another process finds it.
            batches: drawn as they are needed, at most two a worker ahead of what was yielded.

        Raises:
            ValueError: another map of these workers has not come to its end.
            RunFailedError: a worker process died.
            Exception: what the function raised, of the first batch that did.
        """
        if self.num == 1:
            yield from map(function, batches)
            return
        if self._is_busy:
            raise ValueError("these workers are at another map: one at a time")
        self._is_busy = True
        finished = False
        try:
            yield from self._in_processes(function, batches)
            finished = True
        finally:
            self._is_busy = False
            if not finished:  # somebody is still at a batch that nobody waits for
                self.close()

    def _in_processes(self, function: Callable[[T], R], batches: Iterable[T]) -> Iterator[R]:
        self._crew = self._crew or [_Worker() for _ in range(self.num)]
        idle = list(self._crew)
        busy: dict[Connection, tuple[_Worker, int]] = {}
        done: dict[int, tuple[bool, Any]] = {}
        numbered = enumerate(batches)
        ended = False
        due = 0
        while True:
            while idle and not ended and len(busy) + len(done) < 2 * self.num:
                task = next(numbered, None)
                if task is None:
                    ended = True
                else:
                    worker = idle.pop()
                    worker.start(function, task[1])
                    busy[worker.connection] = (worker, task[0])
            if due in done:
                succeeded, value = done.pop(due)
                if not succeeded:
                    raise value
                yield value
                due += 1
            elif busy:
                for ready in wait(list(busy)):
                    worker, number = busy.pop(ready)  # type: ignore[call-overload]
                    done[number] = worker.answer()
                    idle.append(worker)
            elif ended:
                return

    def close(self) -> None:
        """End the processes; a later `map` starts others."""
        crew, self._crew = self._crew, []
        for worker in crew:
            worker.end()


class _Worker:
    """One process and the near end of the pipe to it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, far_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(far_end,), daemon=True)
        self._process.start()
        far_end.close()  # so that its death is the end of the pipe

    def start(self, function: Callable[[Any], Any], batch: Any) -> None:
        try:
            self.connection.send((function, batch))
        except OSError as error:
            raise self._died() from error

    def answer(self) -> tuple[bool, Any]:
        try:
            answer: tuple[bool, Any] = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        return answer

    def _died(self) -> RunFailedError:
        self._process.join(5)
        return RunFailedError(
            f"a worker process ended with code {self._process.exitcode} before its work was done",
            remedy="free memory and repeat the command, or use fewer workers: --workers 1",
        )

    def end(self) -> None:
        self.connection.close()
        self._process.terminate()
        self._process.join()


def _serve(connection: Connection) -> None:
    # Ctrl-C reaches the whole group of processes: the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # The parent is gone when the pipe ends: nobody is left to tell.
    with contextlib.suppress(EOFError, OSError):
        while True:
            function, batch = connection.recv()
            _answer(connection, function, batch)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)  # from a thread there is no other way out of what the function is at


def _answer(connection: Connection, function: Callable[[Any], Any], batch: Any) -> None:
    try:
        answer = (True, function(batch))
    except Exception as error:  # noqa: BLE001 - every fault is raised again in the parent
        answer = (False, error)
    try:
        connection.send(answer)
    except (pickle.PicklingError, TypeError, AttributeError):
        connection.send((False, RunFailedError(f"a worker's answer cannot be sent: {answer[1]!r}")))
