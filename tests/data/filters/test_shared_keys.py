import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from workbench.data.filters.shared_keys import KeptDocuments, KeyFiles, shared
from workbench.data.filters.signatures import PLACE, Keys


@pytest.mark.parametrize("seed", range(5))
def test_shared_numbers_group_equal_keys(seed: int) -> None:
    generator = random.Random(seed)
    keys = [generator.randrange(2**64 - 30, 2**64) for _ in range(generator.randrange(60))]
    numbers = shared(np.array(keys, dtype=np.uint64)).tolist()
    counts = Counter(keys)
    of_key: dict[int, int] = {}
    for key, number in zip(keys, numbers, strict=True):
        assert (number > 0) == (counts[key] > 1)
        if number:
            assert of_key.setdefault(key, number) == number
    assert sorted(of_key.values()) == list(range(1, len(of_key) + 1))


def test_key_files_give_back_what_batches_brought(tmp_path: Path) -> None:
    files = KeyFiles(tmp_path, num_bands=2)
    assert files.number()[0].tolist() == []
    assert list(files.rows()) == []
    files = KeyFiles(tmp_path, num_bands=2)
    for first, keys in ((0, [[5, 1], [6, 2]]), (2, [[7, 1]]), (3, [])):
        places = np.array([(1, first + i, 9, 0) for i in range(len(keys))], dtype=PLACE)
        columns = np.array(keys, dtype=np.uint64).reshape(len(keys), 2)
        files.append(Keys(places=places, keys=columns))
    assert files.places()["number"].tolist() == [0, 1, 2]
    sharing, num_shared = files.number()
    assert sharing.tolist() == [True, False, True]
    assert num_shared == [0, 1]
    assert list(files.rows()) == [[0, 1], [0, 0], [0, 1]]
    files.arrange(np.array([2, 1]))
    assert list(files.rows()) == [[0, 1], [0, 0]]


def test_key_files_longer_than_one_reading_give_every_row_once(tmp_path: Path) -> None:
    num = 20_000
    files = KeyFiles(tmp_path, num_bands=1)
    keys = np.repeat(np.arange(num // 2, dtype=np.uint64), 2)[:, None]
    files.append(Keys(places=np.zeros(num, dtype=PLACE), keys=keys))
    files.number()
    files.arrange(np.arange(num)[::-1])
    assert list(files.rows()) == [[number // 2 + 1] for number in reversed(range(num))]


@pytest.mark.parametrize("seed", range(5))
def test_kept_documents_are_found_by_any_key_with_the_most_common_first(seed: int) -> None:
    generator = np.random.default_rng(seed)
    numbers = generator.integers(0, 6, size=(40, 5), dtype=np.uint32)
    kept = KeptDocuments(numbers.max(axis=0).tolist())
    before: list[int] = []
    for document in range(40):
        common = {
            other: int(((numbers[other] == numbers[document]) & (numbers[other] > 0)).sum())
            for other in before
        }
        expected = sorted((-count, other) for other, count in common.items() if count)
        assert kept.sharing(numbers[document].tolist()) == [other for _, other in expected]
        if generator.random() < 0.6:
            kept.keep(document, numbers[document].tolist())
            before.append(document)
