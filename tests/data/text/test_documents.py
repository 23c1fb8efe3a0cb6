from hypothesis import given
from hypothesis import strategies as st

from workbench.data.text.documents import cut_at_line_end, pieces

encodable = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(encodable, st.integers(4, 50))
def test_pieces_of_any_text_join_to_it_and_fit(text: str, limit: int) -> None:
    parts = list(pieces(text, limit))
    assert "".join(parts) == text
    assert all(1 <= len(part.encode()) <= limit for part in parts)


def test_cut_of_long_text_ends_at_the_last_line_that_fits() -> None:
    assert cut_at_line_end("one\ntwo\nthree\n", 9) == "one\ntwo\n"


def test_cut_of_one_long_line_never_splits_a_character() -> None:
    assert cut_at_line_end("ééééé", 5) == "éé"


def test_cut_of_text_that_fits_changes_nothing() -> None:
    assert cut_at_line_end("no line end", 11) == "no line end"
    assert cut_at_line_end("", 11) == ""
