import random
from collections import Counter
from pathlib import Path

import pytest

from workbench.data.filters import reference
from workbench.data.filters.reference import Sample, draw_of, spooled_reference
from workbench.data.text.dedup import content_digest

TEXTS = [f"text number {number}" for number in range(2000)]


def test_draws_are_even_and_do_not_depend_on_each_other() -> None:
    draws = [draw_of(content_digest(text), 1) for text in TEXTS]
    quarters = Counter((draw.half, draw.keep < 0.5) for draw in draws)
    # 500 each, with a standard deviation of 19.
    assert all(abs(quarters[half, low] - 500) < 80 for half in (0, 1) for low in (True, False))
    assert all(0 <= draw.keep < 1 for draw in draws)


def test_draw_of_case_and_space_variants_is_the_same() -> None:
    assert draw_of(content_digest("The  cat"), 1) == draw_of(content_digest("the cat\n"), 1)
    assert draw_of(content_digest("the cat"), 1) != draw_of(content_digest("the cat"), 2)


def test_sample_holds_the_smallest_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "TRAINED_ON", 10)
    orders = list(range(50))
    random.Random(0).shuffle(orders)
    sample = Sample()
    for order in orders:
        sample.add(order, f"t{order}")
    assert sample.texts() == [f"t{order}" for order in range(10)]


def test_spooled_reference_reads_back_excerpts_and_halves(tmp_path: Path) -> None:
    texts = ["short\nlines \u2028 and more", "", "x" * 9000]
    found = spooled_reference(iter(texts), tmp_path / "reference.jsonl", seed=1)
    read = list(found.excerpts())
    assert found.num == 3
    assert [text for _, text in read] == [*texts[:2], " ".join(["x" * 1000] * 3)]
    assert [half for half, _ in read] == [draw_of(content_digest(t), 1).half for t in texts]
    assert sum(len(sample.texts()) for sample in found.samples) == 3
    other = spooled_reference([*texts[:2], "y"], tmp_path / "other.jsonl", seed=1)
    assert other.digest != found.digest
