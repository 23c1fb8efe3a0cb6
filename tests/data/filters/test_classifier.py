import numpy as np

from workbench.data.filters.classifier import FEATURES, HashedWords, trained

WANTED = ["the quiet river runs to the sea", "a river of quiet water", "the sea and the river"]
OTHER = ["click here to buy now", "buy now and save", "click to save more now"]


def test_hashed_words_rows_are_counts_of_words_and_pairs_at_unit_length() -> None:
    rows = HashedWords().of(["a b a", "", "b a"])
    assert rows.shape == (3, FEATURES)
    # a twice, b, "a b", "b a": one squared length of 4 + 1 + 1 + 1.
    expected = np.sort([2, 1, 1, 1]) / np.sqrt(7)
    assert np.allclose(np.sort(rows[0].data), expected)
    assert rows[1].nnz == 0
    assert rows[2].nnz == 3


def test_hashed_words_row_does_not_depend_on_its_batch() -> None:
    alone = HashedWords().of([WANTED[0]])
    among = HashedWords().of([*OTHER, WANTED[0]])
    assert (alone != among[3]).nnz == 0


def test_classifier_scores_the_wanted_higher() -> None:
    words = HashedWords()
    model = trained(words.of(WANTED), words.of(OTHER))
    wanted, other = model.scores(words.of(["quiet sea", "save now"]))
    assert other < 0.5 < wanted


def test_classifier_trained_twice_is_equal_bit_by_bit() -> None:
    words = HashedWords()
    models = [trained(words.of(WANTED), words.of(OTHER)) for _ in range(2)]
    assert models[0].coefficients.tobytes() == models[1].coefficients.tobytes()
    assert models[0].intercept == models[1].intercept


def test_classifier_of_one_kind_twice_tells_nothing_apart() -> None:
    words = HashedWords()
    model = trained(words.of(WANTED), words.of(WANTED))
    assert np.allclose(model.scores(words.of(WANTED)), 0.5)
