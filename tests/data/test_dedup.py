import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.data.dedup import SeenTexts, content_digest, normalise


@pytest.mark.parametrize("variant", ["The cat", "the  CAT\n", "\tthe\u00a0cat ", "ｔｈｅ cat"])
def test_normalise_case_space_and_width_variants_are_one_text(variant: str) -> None:
    """D10."""
    assert normalise(variant) == "the cat"


@given(st.text(max_size=60))
def test_normalise_twice_changes_nothing(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


def test_seen_texts_short_texts_are_told_apart() -> None:
    """D7: texts shorter than any shingle are not all the same text, and "" is no special case."""
    seen = SeenTexts()
    texts = ["cat", "dog", "cat", "", ""]
    assert [t for t in texts if seen.is_new(content_digest(t))] == ["cat", "dog", ""]
