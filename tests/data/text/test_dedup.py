import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.data.text.dedup import Place, SeenTexts, content_digest, normalise


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
    kept = []
    for number, text in enumerate(["cat", "dog", "cat", "", ""]):
        digest = content_digest(text)
        if seen.first([digest]) == [None]:
            seen.add(digest, Place(domain=0, number=number))
            kept.append(text)
    assert kept == ["cat", "dog", ""]


def test_seen_texts_of_many_runs_are_found_where_they_were_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against a dictionary, with runs small enough to be merged many times."""
    monkeypatch.setattr("workbench.data.text.dedup._MOST_RECENT", 8)
    # Zeros at the end are what fixed-length bytes drop.
    digests = [f"{number:030x}00" + "7" * 32 for number in range(200)]
    drawn = random.Random(1).choices(digests, k=600)
    seen, known = SeenTexts(), dict[str, Place]()
    for number, digest in enumerate(drawn):
        assert seen.first([digest, digests[0]]) == [known.get(digest), known.get(digests[0])]
        if digest not in known:
            known[digest] = Place(domain=number % 3, number=number)
            seen.add(digest, known[digest])
    assert len(known) > 100
