import random

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

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


def test_classifier_is_equal_bit_by_bit_for_any_number_of_threads() -> None:
    generator = random.Random(1)
    vocabulary = [f"w{number}" for number in range(3000)]
    texts = [" ".join(generator.choices(vocabulary, k=60)) for _ in range(600)]
    words = HashedWords()
    wanted, other = words.of(texts[:300]), words.of(texts[300:])
    models = []
    for threads in (1, 2, 8):
        with threadpool_limits(limits=threads):
            models.append(trained(wanted, other))
    assert len({model.coefficients.tobytes() for model in models}) == 1
    assert len({model.intercept for model in models}) == 1


def test_classifier_is_fitted_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    fit = LogisticRegression.fit

    def watched(model: LogisticRegression, *given: object) -> LogisticRegression:
        seen.extend(pool["num_threads"] for pool in threadpool_info())
        return fit(model, *given)

    monkeypatch.setattr(LogisticRegression, "fit", watched)
    words = HashedWords()
    with threadpool_limits(limits=2):
        trained(words.of(WANTED), words.of(OTHER))
    assert set(seen) == {1}


def test_classifier_of_one_kind_twice_tells_nothing_apart() -> None:
    words = HashedWords()
    model = trained(words.of(WANTED), words.of(WANTED))
    assert np.allclose(model.scores(words.of(WANTED)), 0.5)
