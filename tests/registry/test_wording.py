"""How statements are worded for PostgreSQL; what the server makes of them is the contract's."""

import pytest

from workbench.errors import InvalidFileError
from workbench.registry.store.wording import PREPARED, filled, lazily, preparation


@pytest.mark.parametrize("sql", PREPARED)
def test_preparation_numbers_every_mark_in_its_order(sql: str) -> None:
    said = preparation(sql)
    assert said.startswith(f"PREPARE {PREPARED[sql]} AS ")
    parts = said.removeprefix(f"PREPARE {PREPARED[sql]} AS ")
    for number in range(1, sql.count("?") + 1):
        before, mark, parts = parts.partition(f"${number}")
        assert mark, f"${number} is not there"
        assert "$" not in before
    assert "?" not in said
    assert "$" not in parts


def test_names_of_what_is_prepared_are_not_shared() -> None:
    assert len(set(PREPARED.values())) == len(PREPARED)


@pytest.mark.parametrize("known", [{}, {"INSERT ?, ?, ?": "one"}])
def test_values_stand_where_their_marks_are(known: dict[str, str]) -> None:
    said = filled("INSERT ?, ?, ?", (-7, b"\x00'", "it's; DROP"), known)
    values = "-7, '\\x0027'::bytea, 'it''s; DROP'"
    assert said == (f"EXECUTE one({values})" if known else f"INSERT {values}")


def test_statement_without_values_is_its_name_where_it_is_known() -> None:
    assert filled("SELECT 1", (), {"SELECT 1": "one"}) == "EXECUTE one"
    assert filled("SELECT 1", (), {}) == "SELECT 1"


def test_text_with_a_nul_is_refused() -> None:
    with pytest.raises(InvalidFileError, match="NUL"):
        filled("SELECT ?", ("a\0b",), {})


def test_lazy_transaction_waits_for_no_disk_and_is_left_out_for_nothing() -> None:
    assert lazily([]) == []
    begin, setting, statement, commit = lazily([("SELECT 1", ())])
    assert (begin[0], commit[0], statement) == ("BEGIN", "COMMIT", ("SELECT 1", ()))
    assert setting[0] == "SET LOCAL synchronous_commit = off"
