import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from workbench.data.filters.resemblance import NgramSets, jaccard
from workbench.data.text.words import words


@dataclass
class Row:
    text: str


@dataclass
class Shelf:
    texts: list[str]
    reads: list[int] = field(default_factory=list)

    def row(self, domain: str, number: int) -> Row:
        self.reads.append(number)
        return Row(self.texts[number])


@pytest.mark.parametrize("seed", range(5))
def test_jaccard_is_that_of_python_sets(seed: int) -> None:
    generator = random.Random(seed)
    texts = [" ".join(generator.choices("abcd", k=generator.randrange(40))) for _ in range(8)]
    sets = NgramSets(Shelf(texts), n=3, max_ngrams=1000)

    def plain(text: str) -> set[tuple[str, ...]]:
        found = words(text)
        return {tuple(found[i : i + 3]) for i in range(max(1, len(found) - 2))} - {()}

    for one, first in enumerate(texts):
        for other, second in enumerate(texts):
            a, b = plain(first), plain(second)
            expected = len(a & b) / len(a | b) if a and b else 0
            assert jaccard(sets.of("d", one), sets.of("d", other)) == expected


def test_ngram_sets_read_again_only_what_was_used_least_recently() -> None:
    shelf = Shelf(["a b c", "d e f", "g h i"])
    sets = NgramSets(shelf, n=1, max_ngrams=6)
    for number in (0, 1, 0, 2, 0, 1):
        assert len(sets.of("d", number)) == 3
    assert shelf.reads == [0, 1, 2, 1]


def test_ngram_sets_keep_one_that_is_larger_than_the_room() -> None:
    shelf = Shelf(["a b c d", "e"])
    sets = NgramSets(shelf, n=1, max_ngrams=2)
    for number in (0, 0, 1, 1, 0):
        sets.of("d", number)
    assert shelf.reads == [0, 1, 0]


def test_jaccard_of_an_empty_set_is_nothing() -> None:
    empty = np.empty(0, dtype=np.uint64)
    assert jaccard(empty, empty) == 0
