import numpy as np
import pytest
from numpy.typing import NDArray

from workbench.data.filters.bands import Bands
from workbench.data.filters.signatures import PLACE, Batch, band_keys, batches, signatures
from workbench.data.text.words import Hashes

NUM_PAIRS = 400


def pairs(size: int, similarity: float) -> tuple[list[Hashes], list[Hashes], float]:
    """Pairs of random sets of ``size`` elements together, and their true similarity."""
    generator = np.random.default_rng(size)
    common = max(1, round(size * similarity))
    cut = common + (size - common) // 2
    drawn = generator.integers(0, 2**64, size=(NUM_PAIRS, size), dtype=np.uint64)
    ones = [row[:cut] for row in drawn]
    others = [np.concatenate([row[:common], row[cut:]]) for row in drawn]
    return ones, others, common / size


@pytest.mark.parametrize("size", [2, 5, 20, 100, 1000])
@pytest.mark.parametrize("similarity", [0.3, 0.5, 0.8, 0.95])
def test_rows_agree_as_often_as_the_sets_are_similar(size: int, similarity: float) -> None:
    ones, others, true = pairs(size, similarity)
    agree = _rows(ones, 64) == _rows(others, 64)
    deviation = np.sqrt(true * (1 - true) / agree.size)
    assert abs(agree.mean() - true) <= 4 * deviation
    by_row = np.sqrt(true * (1 - true) / NUM_PAIRS)
    assert np.abs(agree.mean(axis=0) - true).max() <= 4.5 * by_row


@pytest.mark.parametrize("size", [3, 30, 300])
@pytest.mark.parametrize("bands", [Bands(num=12, rows=5), Bands(num=20, rows=3)])
def test_bands_agree_as_often_as_the_formula_says(size: int, bands: Bands) -> None:
    ones, others, true = pairs(size, 0.6)
    agree = _rows(ones, bands.num_hashes) == _rows(others, bands.num_hashes)
    found = agree.reshape(NUM_PAIRS, bands.num, bands.rows).all(axis=2).any(axis=1).mean()
    expected = bands.detection(true)
    assert abs(found - expected) <= 4 * np.sqrt(expected * (1 - expected) / NUM_PAIRS) + 1e-9


def test_signature_depends_on_the_set_alone() -> None:
    generator = np.random.default_rng(3)
    sets = [generator.integers(0, 2**64, size=n, dtype=np.uint64) for n in (1, 7, 90, 3000)]
    together = _rows(sets, 252)
    shuffled = [np.concatenate([one[::-1], one[: len(one) // 2]]) for one in sets]
    assert np.array_equal(_rows(shuffled, 252), together)
    assert np.array_equal(np.concatenate([_rows([one], 252) for one in sets]), together)
    assert not np.array_equal(signatures(sets, num_hashes=252, seed=2), together)


def test_keys_are_equal_where_all_rows_of_a_band_are() -> None:
    texts = ["a b c d e f g h", "a b c d e f g x", "a b c d e f g h", "p q r"]
    bands = Bands(num=40, rows=2)
    keys = band_keys(_batch(texts, [0] * 4), ngram=2, bands=bands, seed=1).keys
    assert np.array_equal(keys[0], keys[2])
    assert 0 < (keys[0] == keys[1]).sum() < 40
    assert not (keys[0] == keys[3]).any()


def test_keys_of_other_languages_differ() -> None:
    keys = band_keys(
        _batch(["the same text"] * 2, [0, 1]), ngram=2, bands=Bands(num=8, rows=2), seed=1
    ).keys
    assert not (keys[0] == keys[1]).any()


def test_keys_of_texts_without_words_are_none() -> None:
    bands = Bands(num=2, rows=2)
    found = band_keys(_batch(["", "a word", "?!"], [0] * 3), ngram=5, bands=bands, seed=1)
    assert found.places["number"].tolist() == [1]
    assert found.keys.shape == (1, 2)
    assert band_keys(_batch(["", "!"], [0, 0]), ngram=5, bands=bands, seed=1).keys.shape == (0, 2)


def test_batches_hold_every_document_in_order() -> None:
    texts = ["x" * 900_000, "", "y" * 1_500_000, "z"]
    documents = [(text, (0, number, len(text), 0)) for number, text in enumerate(texts)]
    found = list(batches(documents))
    assert [text for batch in found for text in batch.texts] == texts
    assert [n for batch in found for n in batch.places["number"].tolist()] == [0, 1, 2, 3]
    assert len(found) == 2
    assert list(batches([])) == []


def _rows(sets: list[Hashes], num_hashes: int) -> NDArray[np.uint32]:
    return signatures(sets, num_hashes=num_hashes, seed=1)


def _batch(texts: list[str], labels: list[int]) -> Batch:
    places = [(0, number, len(texts[number]), label) for number, label in enumerate(labels)]
    return Batch(texts=texts, places=np.array(places, dtype=PLACE))
