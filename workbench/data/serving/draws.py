"""One domain's fixed windows in the order of each epoch, all of them or thinned by weight."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from workbench.data.document_weights import Decay
from workbench.data.serving.weights import WindowWeights

_ORDER = "stream/v1"
"""Part of every order: a change would reorder runs that are resumed after an upgrade."""
_LOOK_AHEAD = 16
_LOOKED_AT_ONCE = 1 << 14


class DomainDraws:
    """Hands out a domain's windows, epoch after epoch.

    Without weights every window comes once an epoch. With weights each is taken with a probability
    that is its weight, decided by a hash of seed, domain, epoch and window; what is passed over
    comes again in the next epoch. The state is one number, the windows passed so far.
    """

    def __init__(
        self, *, domain: str, seed: int, count: int, weights: WindowWeights | None = None
    ) -> None:
        self.count = count
        """Windows an epoch."""
        self.position = 0
        """Windows passed so far, taken or not."""
        self._domain = domain
        self._seed = seed
        self._weights = weights
        self._epoch = -1
        self._order: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._chance: NDArray[np.float64] = np.empty(0, dtype=np.float64)

    @property
    def cursor(self) -> tuple[int, int]:
        """Epoch and place in it of the next window."""
        return divmod(self.position, self.count)

    def take(self, num: int, decay: Decay = 1.0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the epochs and the numbers of the next windows.

        Args:
            num: how many.
            decay: of the document weights, one for all or one for each; unused without weights.
        """
        decays = np.broadcast_to(decay, (num,))
        windows = np.empty(num, dtype=np.int64)
        epochs = np.empty(num, dtype=np.int64)
        done = 0
        while done < num:
            epoch, place = self.cursor
            self._turn_to(epoch)
            part, passed = self._next(place, num - done, decays[done:])
            self.position += passed
            windows[done : done + len(part)] = part
            epochs[done : done + len(part)] = epoch
            done += len(part)
        return epochs, windows

    def times_passed(self) -> NDArray[np.int64]:
        """Return how often each window was passed so far; without weights, how often it came."""
        epoch, place = self.cursor
        self._turn_to(epoch)
        times = np.full(self.count, epoch, dtype=np.int64)
        times[self._order[:place]] += 1
        return times

    def _next(
        self, place: int, num: int, decays: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], int]:
        if self._weights is None:
            part = self._order[place : place + num]
            return part, len(part)
        part = self._order[place : place + min(2 * num + _LOOK_AHEAD, _LOOKED_AT_ONCE)]
        taken = np.flatnonzero(self._is_taken(part, decays, self._weights))[:num]
        passed = int(taken[-1]) + 1 if len(taken) == num else len(part)
        return part[taken], passed

    def _is_taken(
        self, part: NDArray[np.int64], decays: NDArray[np.float64], weights: WindowWeights
    ) -> NDArray[np.bool_]:
        """Return which of consecutive windows are taken.

        A window is weighed at the decay of the draw that comes to it, which depends on how many
        before it were taken. That is solved by repetition: windows in front of the first wrong
        one are right, and two rounds are nearly always enough since the decay hardly changes.
        """
        chance = self._chance[part]
        here = np.full(len(part), decays[0])
        while True:
            taken = chance < weights.relative(part, here)
            if decays[0] == decays[-1]:
                return taken
            before: NDArray[np.int64] = np.cumsum(taken) - taken
            right = decays[np.minimum(before, len(decays) - 1)]
            if np.array_equal(right, here):
                return taken
            here = right

    def _turn_to(self, epoch: int) -> None:
        if epoch == self._epoch:
            return
        self._epoch = epoch
        self._order = window_order(self._seed, self._domain, epoch, self.count)
        if self._weights is not None:
            raw = _random(f"{_ORDER}/taken|{self._seed}|{self._domain}|{epoch}", self.count)
            self._chance = np.asarray((raw >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def window_order(seed: int, domain: str, epoch: int, count: int) -> NDArray[np.int64]:
    """Return a permutation of ``range(count)`` that seed, domain and epoch decide.

    From the raw output of Philox, which NumPy keeps the same between versions (NEP 19), unlike
    that of its ``permutation``.
    """
    return np.argsort(_random(f"{_ORDER}|{seed}|{domain}|{epoch}", count), kind="stable")


def _random(name: str, count: int) -> NDArray[np.uint64]:
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big")
    return np.asarray(np.random.Philox(key=key).random_raw(count), dtype=np.uint64)
