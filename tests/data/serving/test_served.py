"""What was served, by replay, against what the stream hands out."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.numbered import NumberedSource, stream
from workbench.data.serving.served import samples_at, served_windows, with_ids
from workbench.data.serving.stream import TokenStream
from workbench.data.serving.weights import DecaySchedule

SOURCE = NumberedSource(a=201, b=31)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"weights": DecaySchedule(first=0.999, last=0.95, steps=40)},
    {"dropped_after": {"b": 1.5}},
]


def new(**options: Any) -> TokenStream:
    mixtures = [(0, {"a": 0.7, "b": 0.3}), (9, {"a": 0.4, "b": 0.6})]
    return stream(SOURCE, mixtures, seq_len=5, **options)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("step", [1, 9, 10, 40])
def test_samples_of_a_step_are_its_sequences(options: dict[str, Any], step: int) -> None:
    walked = new(**options)
    for _ in range(step):
        batch = walked.next_step()
    samples = samples_at(new(**options), SOURCE, step)
    assert [sample.row for sample in samples] == [0, 1, 2, 3]
    for sample, row, domain in zip(samples, batch.tokens, batch.domains, strict=True):
        assert SOURCE.domains[domain] == sample.domain
        assert (row[0], row[-1]) == (sample.first_token, sample.last_token)
        assert sample.documents == tuple(sorted({int(token) // 7 for token in row}))


def test_step_behind_the_stream_is_refused() -> None:
    begun = new()
    begun.skip(3)
    with pytest.raises(ValueError, match="step 3 is behind"):
        samples_at(begun, SOURCE, 3)
    with pytest.raises(ValueError, match="not before its first"):
        served_windows(begun, 5)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("steps", [0, 1, 37])
def test_served_windows_are_what_was_handed_out(options: dict[str, Any], steps: int) -> None:
    walked = new(**options)
    seen = Counter(
        (SOURCE.domains[domain], int(row[0]))
        for _ in range(steps)
        for batch in [walked.next_step()]
        for row, domain in zip(batch.tokens, batch.domains, strict=True)
    )
    found = served_windows(new(**options), steps)
    counted = {
        (domain, int(first)): int(times)
        for domain, part in found.items()
        for first, times in zip(part.first, part.times, strict=True)
        if times
    }
    assert counted == dict(seen)
    assert all((part.stop - part.first == 6).all() for part in found.values())


def test_ids_are_those_of_the_training_documents(tmp_path: Path) -> None:
    lines = [
        {"split": split, "domain": domain, "id": f"{split}/{domain}/{number}"}
        for split in ("test", "train", "validation")
        for domain in SOURCE.domains
        for number in range(40)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "documents.jsonl").write_text(text)
    for sample in with_ids(samples_at(new(), SOURCE, 12), tmp_path):
        assert sample.ids == tuple(f"train/{sample.domain}/{n}" for n in sample.documents)
        assert sample.ids
    assert with_ids(samples_at(new(), SOURCE, 1), tmp_path / "none")[0].ids == ()


def test_source_shorter_than_a_window_is_served_whole() -> None:
    source = NumberedSource(a=3)
    one = stream(source, [(0, {"a": 1.0})], seq_len=8, sequences=1)
    [sample] = samples_at(one, source, 4)
    assert (sample.first_token, sample.last_token, sample.documents) == (0, 2, (0,))
    assert np.array_equal(
        served_windows(stream(source, [(0, {"a": 1.0})], seq_len=8, sequences=1), 4)["a"].times,
        [4],
    )
