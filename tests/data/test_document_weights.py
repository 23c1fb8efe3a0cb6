import math

import numpy as np
import pytest

from workbench.data.document_weights import document_weights


def test_document_weights_fall_with_the_rank_by_the_power_of_the_decay() -> None:
    ranks = np.array([0, 0.25, 0.5, 1], dtype=np.float32)
    expected = [0.992**100, 0.992**75, 0.992**50, 1]
    assert document_weights(ranks, 0.992).tolist() == pytest.approx(expected)
    assert document_weights(ranks, 1).tolist() == [1, 1, 1, 1]


def test_document_weights_take_a_decay_each() -> None:
    ranks, decays = np.array([0.5, 0.5]), np.array([0.999, 0.95])
    assert document_weights(ranks, decays).tolist() == pytest.approx([0.999**50, 0.95**50])


@pytest.mark.parametrize("decay", [0, -0.5, 1.001, math.nan])
def test_document_weights_refuse_a_decay_outside_its_range(decay: float) -> None:
    with pytest.raises(ValueError, match="decay is"):
        document_weights(np.zeros(1, dtype=np.float32), decay)
