from collections import Counter
from math import log2
from pathlib import Path

import numpy as np
import pytest

from tests.data.tables import written_table
from tests.data.texts import sentences
from workbench.data.building.measures import read_measures, write_measures
from workbench.data.text.words import words


def test_measures_are_those_of_the_training_rows(tmp_path: Path) -> None:
    """Against plain counting; rows that were left out count as read, not as kept."""
    texts = sentences("docs", 30)
    table = written_table(tmp_path / "table", {"docs": texts})
    table.reject("docs", np.array([4]))
    train = np.arange(30) % 3 > 0
    train[4] = False
    (tmp_path / "out").mkdir()
    told: list[float] = []
    write_measures(table, {"docs": train}, tmp_path / "out", told.append)
    found = read_measures(tmp_path / "out", ("docs",))
    kept = [text for text, trained in zip(texts, train, strict=True) if trained]
    counts = Counter(word for text in kept for word in words(text))
    total = counts.total()
    expected = [
        sum(log2(total / counts[word]) for word in words(text)) / len(words(text)) for text in kept
    ]
    assert found.entropy["docs"] == pytest.approx(expected, rel=1e-6)
    lower = [sum(other < one for other in expected) / len(expected) for one in expected]
    assert found.rank["docs"] == pytest.approx(lower)
    assert found.heads["docs"].kept.words == total
    assert found.heads["docs"].read.words == sum(len(words(text)) for text in texts)
    assert set(found.heads["docs"].weighted) == {"0.999", "0.992"}
