from pathlib import Path
from typing import Any

import pytest

from tests.data.texts import corpus_config, sentences, write_jsonl
from workbench.data.building.reading import Reading, take_read
from workbench.data.building.table import Table
from workbench.data.config import SourceConfig
from workbench.data.text.dedup import content_digest
from workbench.data.workers import Workers
from workbench.errors import InvalidFileError


def is_open(digest: str) -> bool:
    """No text is sealed."""
    return not digest


def reading(root: Path, **changes: Any) -> Reading:
    source = {"source": "jsonl:texts", "max_bytes": 10_000_000}
    config = corpus_config(**{"sources": {"code": source}, **changes})
    return Reading(config, root=root, workers=Workers(1))


def write_files(root: Path) -> None:
    for name, domain in (("a", "code"), ("b", "docs")):
        write_jsonl(root / "texts" / f"{name}.jsonl", sentences(domain, 40))


def read_to(folder: Path, one: Reading) -> Table:
    folder.mkdir()
    one.write(folder, lambda stage, share: None)
    return Table(folder, one.domains)


def test_reading_writes_rows_accounts_and_two_records(tmp_path: Path) -> None:
    texts = sentences("code", 40)
    write_jsonl(tmp_path / "texts" / "a.jsonl", [*texts, "", texts[3].upper()])
    one = reading(tmp_path)
    table = read_to(tmp_path / "table", one)
    assert [row.text for row in table.rows("code")] == texts
    accounts, records = take_read(tmp_path / "table", is_sealed=is_open)
    assert (accounts["code"].read, accounts["code"].exhausted) == (42, True)
    assert [record.name for record in records] == ["read", "exact_duplicates"]
    assert records[0].removed["code"].reasons == {"empty": 1}
    assert records[1].removed["code"].reasons == {"same as code": 1}
    (sample,) = records[1].removed["code"].samples
    assert (sample.id, sample.why) == ("texts/a.jsonl#41", "same text as texts/a.jsonl#3")
    assert records[1].key == one.key != records[0].key


def test_reading_counts_rows_whose_value_is_no_string(tmp_path: Path) -> None:
    texts: list[Any] = [*sentences("code", 40), 5, ["a"], None, ""]
    write_jsonl(tmp_path / "texts" / "a.jsonl", texts)
    (tmp_path / "texts" / "b.jsonl").write_text('{"other": 1}\n' * 3)
    table = read_to(tmp_path / "table", reading(tmp_path))
    assert [row.text for row in table.rows("code")] == texts[:40]
    _, records = take_read(tmp_path / "table", is_sealed=lambda digest: False)
    assert records[0].removed["code"].reasons == {"empty": 1, "no text": 6}


def test_reading_refuses_a_number_of_bytes_that_is_a_slip() -> None:
    with pytest.raises(ValueError, match="less than or equal to 1000000000000000"):
        SourceConfig(source="jsonl:texts", max_bytes=10**30)


def test_reading_keeps_what_a_set_of_all_digests_would_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D10, against the obvious reference, with batches and runs small enough to matter."""
    monkeypatch.setattr("workbench.data.building.reading._BATCH", 7)
    monkeypatch.setattr("workbench.data.text.dedup._MOST_RECENT", 16)
    texts = sentences("code", 60)
    rows = [texts[number * number % 60] for number in range(200)]
    write_jsonl(tmp_path / "texts" / "a.jsonl", rows)
    expected, seen = [], set[str]()
    for row in rows:
        if content_digest(row) not in seen:
            seen.add(content_digest(row))
            expected.append(row)
    table = read_to(tmp_path / "table", reading(tmp_path))
    assert [row.text for row in table.rows("code")] == expected


@pytest.mark.parametrize(
    "change",
    [
        {"max_document_bytes": 500},
        {"exclude": ["texts/a.jsonl#3"]},
        {"sources": {"code": {"source": "jsonl:texts", "max_bytes": 100}}},
        {"sources": {"code": {"source": "jsonl:texts", "max_bytes": 10_000_000, "licence": "MIT"}}},
        {"sources": {"docs": {"source": "jsonl:texts", "max_bytes": 10_000_000}}},
    ],
)
def test_reading_key_differs_with_everything_that_decides_it(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    """D6."""
    write_files(tmp_path)
    assert reading(tmp_path, **change).key != reading(tmp_path).key


def test_reading_key_does_not_hang_on_what_comes_later(tmp_path: Path) -> None:
    write_files(tmp_path)
    tokenizer = {"vocab_size": 280, "train_bytes": 9000}
    assert reading(tmp_path, tokenizer=tokenizer).key == reading(tmp_path).key


def test_reading_key_differs_with_contents_and_order_of_files(tmp_path: Path) -> None:
    """D6: the same files in another order are another corpus."""
    write_files(tmp_path)
    keys = [reading(tmp_path).key]
    (tmp_path / "texts" / "a.jsonl").rename(tmp_path / "texts" / "c.jsonl")
    keys.append(reading(tmp_path).key)
    write_jsonl(tmp_path / "texts" / "c.jsonl", sentences("code", 41))
    keys.append(reading(tmp_path).key)
    assert len(set(keys)) == 3


def test_reading_leaves_out_what_is_excluded_and_says_so(tmp_path: Path) -> None:
    write_files(tmp_path)
    table = read_to(tmp_path / "table", reading(tmp_path, exclude=["texts/b.jsonl#5"]))
    assert table.num_rows("code") == 79
    assert "texts/b.jsonl#5" not in {row.id for row in table.rows("code")}
    _, records = take_read(tmp_path / "table", is_sealed=is_open)
    removed = records[0].removed["code"]
    assert removed.reasons == {"excluded by hand": 1}
    assert removed.samples[0].excerpt == sentences("docs", 40)[5][:300]


def test_reading_exclusion_that_names_no_document_is_refused_with_the_nearest(
    tmp_path: Path,
) -> None:
    write_files(tmp_path)
    with pytest.raises(InvalidFileError, match=r"texts/b\.jsonl#50.*no document") as caught:
        read_to(tmp_path / "table", reading(tmp_path, exclude=["texts/b.jsonl#50"]))
    assert "texts/b.jsonl#5" in caught.value.remedy


def test_reading_hides_what_repeats_a_sealed_text_or_was_excluded_beside_it(
    tmp_path: Path,
) -> None:
    texts = sentences("code", 40)
    repeats = [texts[3].upper(), texts[4].upper(), texts[5].upper()]
    write_jsonl(tmp_path / "texts" / "a.jsonl", [*texts, *repeats])
    read_to(tmp_path / "table", reading(tmp_path, exclude=["texts/a.jsonl#42"]))
    sealed = {content_digest(texts[3]), content_digest(texts[5])}
    _, records = take_read(tmp_path / "table", is_sealed=sealed.__contains__)
    assert [(s.id, s.why, s.excerpt) for s in records[0].removed["code"].samples] == [
        ("", "excluded by hand: its text belongs to the sealed test split", "")
    ]
    by_id = {sample.id: sample for sample in records[1].removed["code"].samples}
    assert set(by_id) == {"", "texts/a.jsonl#41"}
    assert by_id[""].why == "same as code: same as a document of the sealed test split"
    assert by_id[""].excerpt == ""
    assert records[1].removed["code"].reasons == {"same as code": 2}


def test_reading_a_source_that_another_domain_holds_is_refused(tmp_path: Path) -> None:
    texts = sentences("code", 40)
    write_jsonl(tmp_path / "a.jsonl", [*texts, *texts, *texts])  # repeats of its own are its affair
    for name, num_own in (("b", 3), ("c", 8)):
        write_jsonl(tmp_path / f"{name}.jsonl", [*texts, *sentences("docs", num_own)])

    def read(name: str) -> None:
        sources = {
            domain: {"source": f"jsonl:{file}.jsonl", "max_bytes": 10_000_000}
            for domain, file in (("code", "a"), ("docs", name))
        }
        folder = tmp_path / f"table-{name}"
        read_to(folder, reading(tmp_path, sources=sources))
        take_read(folder, is_sealed=is_open)

    with pytest.raises(InvalidFileError, match="of the bytes of 'docs' as equal") as caught:
        read("b")
    assert "more than 90%" in str(caught.value)
    assert str(caught.value).count("same text as a.jsonl#") == 3
    assert caught.value.remedy.startswith("remove the domain 'docs'")
    read("c")
