"""What a stream served, found by replaying its draws: no token is read and nothing is trained."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from workbench.data.manifest import DOCUMENTS_NAME
from workbench.data.serving.stream import TokenStream

_STEPS_AT_ONCE = 1024


class DocumentIndex(Protocol):
    """Where documents begin; `corpus.Corpus` is one."""

    def documents(self, split: str, domain: str) -> NDArray[Any]:
        """One row a document, with its first token as ``start``."""


@dataclass(frozen=True, kw_only=True)
class ServedSample:
    """One sequence of one step."""

    row: int
    """In the step's batch of all ranks, from 0."""
    domain: str
    epoch: int
    """Of the domain, from 0."""
    window: int
    """Number of the window in the domain's training tokens."""
    first_token: int
    last_token: int
    """Inclusive; both are places in the domain's training shard."""
    documents: tuple[int, ...]
    """Numbers in the shard of the documents that the window touches."""
    ids: tuple[str, ...] = ()
    """Their identities, where they were looked up."""


@dataclass(frozen=True, kw_only=True)
class ServedWindows:
    """How often each fixed window of a domain was served."""

    times: NDArray[np.int64]
    """By number of the window."""
    first: NDArray[np.int64]
    """Its first token in the domain's training shard."""
    stop: NDArray[np.int64]
    """The token after its last."""


def samples_at(stream: TokenStream, corpus: DocumentIndex, step: int) -> tuple[ServedSample, ...]:
    """Return the sequences of a step, counted from 1; the stream is taken there.

    Raises:
        ValueError: the stream is past the step.
    """
    if step <= stream.step:
        raise ValueError(f"the stream is after step {stream.step}, so step {step} is behind it")
    stream.skip(step - 1 - stream.step)
    places = stream.next_places()
    samples: dict[int, ServedSample] = {}
    for number, domain in enumerate(stream.domains):
        rows = np.flatnonzero(places.domains == number)
        if not len(rows):
            continue
        windows = places.windows[rows]
        first, stop = stream.window_bounds(number, windows)
        starts = corpus.documents("train", domain)["start"]
        low = np.searchsorted(starts, first, side="right") - 1
        high = np.searchsorted(starts, stop, side="left")
        for i, row in enumerate(rows.tolist()):
            samples[row] = ServedSample(
                row=row,
                domain=domain,
                epoch=int(places.epochs[row]),
                window=int(windows[i]),
                first_token=int(first[i]),
                last_token=int(stop[i]) - 1,
                documents=tuple(range(int(low[i]), int(high[i]))),
            )
    return tuple(samples[row] for row in sorted(samples))


def with_ids(samples: Sequence[ServedSample], folder: Path) -> tuple[ServedSample, ...]:
    """Return the samples with the identities of their documents, from a corpus's folder.

    Unchanged where the folder has no list of documents.
    """
    path = folder / DOCUMENTS_NAME
    if not path.is_file():
        return tuple(samples)
    wanted: dict[str, dict[int, str]] = {}
    for sample in samples:
        wanted.setdefault(sample.domain, {}).update(dict.fromkeys(sample.documents, ""))
    _look_up(path, wanted)
    return tuple(
        replace(sample, ids=tuple(wanted[sample.domain][n] for n in sample.documents))
        for sample in samples
    )


def _look_up(path: Path, wanted: Mapping[str, dict[int, str]]) -> None:
    passed = dict.fromkeys(wanted, 0)
    missing = sum(map(len, wanted.values()))
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not missing:
                return
            entry = json.loads(line)
            domain = entry["domain"]
            if entry["split"] != "train" or domain not in wanted:
                continue
            if passed[domain] in wanted[domain]:
                wanted[domain][passed[domain]] = entry["id"]
                missing -= 1
            passed[domain] += 1


def served_windows(stream: TokenStream, steps: int) -> dict[str, ServedWindows]:
    """Return by domain how often each window was served in so many steps of a fresh stream.

    Raises:
        ValueError: the stream has begun.
    """
    if stream.step:
        raise ValueError(f"the stream is after step {stream.step}, not before its first")
    if stream.is_weighted:
        times = {d: np.zeros(n, dtype=np.int64) for d, n in stream.num_windows().items()}
        for begin in range(0, steps, _STEPS_AT_ONCE):
            places = stream.next_places(min(_STEPS_AT_ONCE, steps - begin))
            for number, domain in enumerate(stream.domains):
                np.add.at(times[domain], places.windows[places.domains == number], 1)
    else:
        stream.skip(steps)
        times = stream.times_passed()
    served: dict[str, ServedWindows] = {}
    for number, domain in enumerate(stream.domains):
        first, stop = stream.window_bounds(number, np.arange(len(times[domain])))
        served[domain] = ServedWindows(times=times[domain], first=first, stop=stop)
    return served
