"""The token stream as Lightning wants it: sized, iterable, with a state."""

import contextlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workbench.data.serving.prefetch import made_ahead
from workbench.data.serving.stream import Accounting, TokenStream
from workbench.errors import IntegrityError

_DEPTH = 2
"""Batches made ahead: one may wait for the disk while the one before is trained on."""


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A batch with where the stream was after it."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]
    told: Accounting


class StepLoader:
    """Yields one optimizer step's tokens at a time, to the end of the run.

    Lightning saves and restores it with the rest of the run, because it has a state. It has a
    length as well, without which Lightning fetches a batch ahead and saves a stream that is one
    step further than the weights. Batches are made ahead in a thread; the state is that of the
    last one that was handed out, so that this cannot be seen from outside.
    """

    def __init__(self, stream: TokenStream, steps: int) -> None:
        self._stream = stream
        self._steps = steps
        self._done = 0
        self._last: _Made | None = None
        self._running: Generator[dict[str, Tensor], None, None] | None = None

    def __len__(self) -> int:
        """Return the steps of the whole run, also when resumed."""
        return self._steps

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        self.close()
        self._running = self._batches()
        return self._running

    def _batches(self) -> Generator[dict[str, Tensor], None, None]:
        ahead = made_ahead(self._make, num=self._steps - self._done, depth=_DEPTH)
        with contextlib.closing(ahead):
            for made in ahead:
                self._done += 1
                self._last = made
                yield made.tensors

    def _make(self) -> _Made:
        batch = self._stream.next_step()
        tensors = {"tokens": torch.from_numpy(batch.tokens)}
        if batch.segments is not None:
            segments_BT = torch.from_numpy(batch.segments)
            tensors["segments"] = segments_BT[:, :-1]
            # What follows end-of-text belongs to another document, of which nothing is known yet.
            tensors["mask"] = segments_BT[:, 1:] == segments_BT[:, :-1]
        return _Made(
            tensors=tensors, state=self._stream.state_dict(), told=self._stream.accounting()
        )

    def close(self) -> None:
        """End the thread that makes batches ahead, if it runs; nothing is lost that was used."""
        if self._running is not None:
            self._running.close()
            self._running = None
        if self._last is not None:
            self._stream.load_state_dict(self._last.state)

    def state_dict(self) -> dict[str, Any]:
        """Return where the stream is after the last batch that was handed out."""
        state = self._stream.state_dict() if self._last is None else self._last.state
        return {"done": self._done, "stream": state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to where the stream was.

        Raises:
            ConflictError: it was the stream of another run.
            IntegrityError: the state is not one that a stream of this run can have.
        """
        self.close()
        self._last = None
        self._stream.load_state_dict(state["stream"])
        done = state.get("done")
        if done != self._stream.step or self._stream.step > self._steps:
            raise IntegrityError(
                f"the loader's saved state has done {done!r}, its stream is after step "
                f"{self._stream.step} of {self._steps}",
                remedy="remove this checkpoint to resume from the one before, or start a fresh run",
            )
        self._done = self._stream.step

    def accounting(self) -> Accounting:
        """Return what was delivered up to the last batch that was handed out."""
        return self._stream.accounting() if self._last is None else self._last.told
