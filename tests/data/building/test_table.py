from pathlib import Path

import numpy as np
import pytest

from tests.data.tables import written_table
from workbench.data.building.table import Row, Table, TableWriter
from workbench.data.text.dedup import content_digest

TEXTS = {
    "code": ["def f():\n\treturn 1\r\n", 'quotes " and \\ and \u2028 and \x00', "é" * 500],
    "docs": [f"page {number}\n" * number for number in range(1, 40)],
}


def test_table_gives_back_every_row_in_order_and_by_number(tmp_path: Path) -> None:
    table = written_table(tmp_path, TEXTS)
    assert table.domains == ("code", "docs")
    for domain, texts in TEXTS.items():
        rows = list(table.rows(domain))
        assert [row.text for row in rows] == texts
        assert [row.number for row in rows] == list(range(len(texts)))
        assert rows == [table.row(domain, number) for number in reversed(range(len(texts)))][::-1]
        assert [row.digest for row in rows] == [content_digest(text) for text in texts]
        assert [table.digest(domain, row.number) for row in rows] == [row.digest for row in rows]
        sizes = [len(text.encode()) for text in texts]
        assert [table.num_bytes(domain, row.number) for row in rows] == sizes
        assert table.kept_bytes(domain) == sum(sizes)


def test_table_rejected_rows_are_left_out_of_rows_but_not_of_the_file(tmp_path: Path) -> None:
    table = written_table(tmp_path, TEXTS)
    table.reject("docs", np.array([0, 7, 38]))
    kept = [number for number in range(39) if number not in (0, 7, 38)]
    assert [row.number for row in table.rows("docs")] == kept
    assert [row.number for row in table.all_rows("docs")] == list(range(39))
    assert (table.num_kept("docs"), table.num_rows("docs")) == (36, 39)
    assert table.kept_bytes("docs") == sum(len(TEXTS["docs"][number]) for number in kept)
    assert table.num_kept("code") == 3
    assert table.row("docs", 7).text == TEXTS["docs"][7]
    with pytest.raises(ValueError, match="read-only"):
        table.kept("docs")[0] = True


def test_table_languages_survive_saving_and_another_opening(tmp_path: Path) -> None:
    table = written_table(tmp_path / "table", TEXTS)
    for number, language in enumerate(["en", "de", "en", ""] * 9):
        table.label("docs", number, language)
    (tmp_path / "labels").mkdir()
    table.save_labels(tmp_path / "labels")
    other = Table(tmp_path / "table", table.domains)
    assert other.language("docs", 1) == ""
    other.load_labels(tmp_path / "labels")
    assert [other.language("docs", number) for number in range(39)] == [
        *(["en", "de", "en", ""] * 9),
        *[""] * 3,
    ]
    other.label("code", 0, "python")
    assert (other.language("code", 0), other.language("docs", 1)) == ("python", "de")


def test_table_without_rows_is_empty(tmp_path: Path) -> None:
    table = written_table(tmp_path, {"code": []})
    assert (table.num_rows("code"), table.kept_bytes("code"), list(table.rows("code"))) == (
        0,
        0,
        [],
    )


@pytest.mark.parametrize("number", [-1, 3])
def test_table_row_that_is_not_there_is_refused(tmp_path: Path, number: int) -> None:
    with pytest.raises(IndexError, match="has no row"):
        written_table(tmp_path, TEXTS).row("code", number)


@pytest.mark.parametrize(("domain", "number"), [("docs", 0), ("code", 1)])
def test_table_writer_takes_its_own_rows_in_order_only(
    tmp_path: Path, domain: str, number: int
) -> None:
    row = Row(
        domain=domain, number=number, id="a", text="a", digest=content_digest("a"), num_bytes=1,
        provenance="tests", licence="", language="",
    )  # fmt: skip
    with TableWriter(tmp_path, "code") as writer, pytest.raises(ValueError, match="not the next"):
        writer.write(row)
