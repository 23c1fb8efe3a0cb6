import random
import re

import numpy as np
import pytest

from workbench.data.text.dedup import normalise
from workbench.data.text.words import WordHashes, ngram_hashes, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n", []),
        ("The cat, the CAT's hat.", ["the", "cat", "the", "cat", "s", "hat"]),
        ("ＦＵＬＬ width", ["full", "width"]),
        ("snake_case = 1.5", ["snake_case", "1", "5"]),
        ("Ünïcode Straße", ["ünïcode", "straße"]),
        ("漢字 kana かな", ["漢", "字", "kana", "か", "な"]),
        ("e\u0301te\u0301", ["été"]),
    ],
)
def test_words_are_lower_case_without_punctuation(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize("seed", range(5))
def test_words_are_those_of_one_expression_over_the_normalised_text(seed: int) -> None:
    generator = random.Random(seed)
    ascii_text = "".join(chr(generator.randrange(128)) for _ in range(2000))
    wide = "".join(
        chr(generator.choice([generator.randrange(0x250), 0x4E00, 0xFF21])) for _ in ascii_text
    )
    for text in (ascii_text, wide, wide.replace("\u4e00", " ")):
        one_by_one = re.findall("\u4e00|[^\\W\u4e00]+", normalise(text))
        assert words(text) == one_by_one


def test_word_hashes_are_the_same_on_every_machine() -> None:
    assert WordHashes().of(["a", "b", "a"]).tolist() == [
        16629034431890738719, 6294355645245719615, 16629034431890738719,
    ]  # fmt: skip


def test_ngram_hashes_of_equal_runs_are_equal_wherever_they_stand() -> None:
    hashed = WordHashes().of(["x", "a", "b", "c", "y", "a", "b", "c"])
    found = ngram_hashes(hashed, 3)
    assert len(found) == 6
    assert found[1] == found[5]
    assert len(set(found.tolist())) == 5


def test_ngram_hashes_depend_on_the_order_of_the_words() -> None:
    hashes = WordHashes()
    assert ngram_hashes(hashes.of(["a", "b"]), 2) != ngram_hashes(hashes.of(["b", "a"]), 2)


def test_ngram_hashes_of_short_texts_differ_unless_their_words_are_equal() -> None:
    """D7: texts shorter than the shingle got one empty signature."""
    hashes = WordHashes()
    short = [ngram_hashes(hashes.of([text]), 5) for text in ("cat", "dog", "cat")]
    assert [len(one) for one in short] == [1, 1, 1]
    assert short[0] == short[2]
    assert short[0] != short[1]
    assert len(ngram_hashes(hashes.of([]), 5)) == 0


def test_ngram_hash_of_a_short_text_is_none_of_a_longer_one() -> None:
    hashes = WordHashes()
    assert ngram_hashes(hashes.of(["a", "b"]), 5)[0] not in ngram_hashes(hashes.of(["a", "b"]), 2)


def test_ngram_hashes_spread_over_all_bits() -> None:
    hashed = WordHashes().of([str(i) for i in range(5000)])
    bits = np.unpackbits(ngram_hashes(hashed, 5).view(np.uint8))
    assert abs(bits.mean() - 0.5) < 0.01
