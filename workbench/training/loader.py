"""The token stream as Lightning wants it: sized, iterable, with a state."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from workbench.data.stream import Accounting, TokenStream


class StepLoader:
    """Yields one optimizer step's tokens at a time, to the end of the run.

    Lightning saves and restores it with the rest of the run, because it has a state. It has a
    length as well, without which Lightning fetches a batch ahead and saves a stream that is one
    step further than the weights.
    """

    def __init__(self, stream: TokenStream, steps: int) -> None:
        self._stream = stream
        self._steps = steps
        self._done = 0

    def __len__(self) -> int:
        """Return the steps of the whole run, also when resumed."""
        return self._steps

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        while self._done < self._steps:
            batch = self._stream.next_step()
            self._done += 1
            yield {"tokens": torch.from_numpy(batch.tokens)}

    def state_dict(self) -> dict[str, Any]:
        """Return where the stream is after the last batch that was handed out."""
        return {"done": self._done, "stream": self._stream.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go to where the stream was."""
        self._done = state["done"]
        self._stream.load_state_dict(state["stream"])

    def accounting(self) -> Accounting:
        """Return what the stream delivered."""
        return self._stream.accounting()
