"""Near-duplicates against a comparison of all pairs."""

import itertools
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench.data.building.stages import Rejected
from workbench.data.building.table import Row, Table, TableWriter
from workbench.data.config import NearDuplicateConfig
from workbench.data.filters.near_duplicates import NearDuplicateStage
from workbench.data.text.dedup import content_digest
from workbench.data.text.words import words
from workbench.data.workers import Workers

VOCABULARY = [f"w{number}" for number in range(3000)]


def table_of(folder: Path, texts: dict[str, list[str]], languages: Any = None) -> Table:
    """A table whose documents are called by domain and number, or by ``languages``' labels."""
    folder.mkdir()
    for domain, own in texts.items():
        with TableWriter(folder, domain) as writer:
            for number, text in enumerate(own):
                writer.write(
                    Row(
                        domain=domain, number=number, id=f"{domain}/{number}", text=text,
                        digest=content_digest(text), num_bytes=len(text.encode()),
                        provenance="", licence="", language="",
                    )
                )  # fmt: skip
    table = Table(folder, tuple(texts))
    for (domain, number), language in (languages or {}).items():
        table.label(domain, number, language)
    return table


def run(
    table: Table, work: Path, *, workers: int = 1, **settings: Any
) -> tuple[list[Rejected], NearDuplicateStage]:
    work.mkdir()
    config = NearDuplicateConfig.model_validate({"threshold": 0.8, **settings})
    shares: list[float] = []
    with Workers(workers) as crew:
        stage = NearDuplicateStage(config, workers=crew)
        found = list(stage.rejects(table, work=work, progress=shares.append))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    return found, stage


def rejected(texts: list[str], tmp_path: Path, **settings: Any) -> list[int]:
    found, _ = run(table_of(tmp_path / "table", {"docs": texts}), tmp_path / "work", **settings)
    return sorted(one.number for one in found)


def ngrams(text: str, n: int = 5) -> set[tuple[str, ...]]:
    found = words(text)
    return {tuple(found[i : i + n]) for i in range(max(1, len(found) - n + 1))}


def similarity(one: str, other: str) -> float:
    a, b = ngrams(one), ngrams(other)
    return len(a & b) / len(a | b)


def edited(text: str, share: float, generator: random.Random) -> str:
    """The text with a share of its words replaced, in one run and a few single places."""
    found = text.split()
    count = max(1, round(share * len(found)))
    start = generator.randrange(len(found))
    places = {(start + i) % len(found) for i in range(count - 1)} | {
        generator.randrange(len(found))
    }
    return " ".join(generator.choice(VOCABULARY) if i in places else w for i, w in enumerate(found))


def planted(seed: int, num: int = 50) -> list[str]:
    """Unrelated texts, each with five copies edited in 0.3, 1, 5, 10 and 20 % of its words."""
    generator = random.Random(seed)
    found = []
    for _ in range(num):
        text = " ".join(generator.choices(VOCABULARY, k=generator.randint(60, 600)))
        found += [
            text,
            *(edited(text, share, generator) for share in (0.003, 0.01, 0.05, 0.1, 0.2)),
        ]
    generator.shuffle(found)
    return found


def by_all_pairs(texts: list[str], threshold: float) -> tuple[set[int], int]:
    """What is left out when every document is compared with all kept longer ones."""
    order = sorted(range(len(texts)), key=lambda i: (-len(texts[i].encode()), i))
    sets = [ngrams(text) for text in texts]
    kept: list[int] = []
    out = set()
    for one in order:
        if any(len(sets[one] & sets[k]) >= threshold * len(sets[one] | sets[k]) for k in kept):
            out.add(one)
        else:
            kept.append(one)
    return out, len(kept)


@pytest.mark.parametrize("threshold", [0.6, 0.8, 0.95])
def test_rejects_are_those_of_comparing_all_pairs(tmp_path: Path, threshold: float) -> None:
    """Recall 0.95 or more; precision is 1, because every pair is verified."""
    texts = planted(1)
    table = table_of(tmp_path / "table", {"docs": texts})
    found, stage = run(table, tmp_path / "work", threshold=threshold)
    expected, _ = by_all_pairs(texts, threshold)
    numbers = {one.number for one in found}
    assert len(expected) > 20
    assert len(numbers & expected) >= 0.95 * len(expected)
    for one in found:
        share, _, kept = one.why.partition(" of the 5-grams of both as docs/")
        exact = similarity(texts[one.number], texts[int(kept)])
        assert exact >= threshold
        assert share == f"{exact:.3f}"
        assert int(kept) not in numbers
        assert len(texts[int(kept)]) >= len(texts[one.number])
    findings = stage.findings()
    assert findings["pairs_confirmed"] == len(found)
    assert findings["pairs_compared"] >= len(found)
    assert findings["removed_beside"] == {"docs": {"docs": len(found)}}
    assert 2 <= findings["largest_group"] <= 6


def test_kept_documents_do_not_resemble_each_other(tmp_path: Path) -> None:
    texts = planted(2, num=30)
    out = set(rejected(texts, tmp_path, detection=0.9999))
    kept = [text for number, text in enumerate(texts) if number not in out]
    assert all(similarity(a, b) < 0.8 for a, b in itertools.combinations(kept, 2))


def test_unrelated_texts_are_all_kept(tmp_path: Path) -> None:
    generator = random.Random(4)
    texts = [" ".join(generator.choices(VOCABULARY, k=50)) for _ in range(10_000)]
    assert rejected(texts, tmp_path, threshold=0.5) == []


def test_chain_loses_only_its_middle(tmp_path: Path) -> None:
    """A resembles B and B resembles C, but A not C: C stays."""
    tokens = [f"t{i:03}" for i in range(130)]
    a, b, c = (" ".join(tokens[start : start + 110 - start // 5]) for start in (0, 10, 20))
    assert similarity(a, b) >= 0.75
    assert similarity(b, c) >= 0.75
    assert similarity(a, c) < 0.75
    settings = {"threshold": 0.75, "detection": 0.9999}
    for order in itertools.permutations([a, b, c]):
        folder = tmp_path / "".join(str([a, b, c].index(text)) for text in order)
        folder.mkdir()
        assert rejected(list(order), folder, **settings) == [order.index(b)]


def test_longest_is_kept_and_the_earliest_of_equally_long_ones(tmp_path: Path) -> None:
    text = " ".join(VOCABULARY[:200])
    texts = [text[:-4], text[1:], text, "v" + text[1:], "u" + text[1:]]
    assert rejected(texts, tmp_path) == [0, 1, 3, 4]


def test_ties_go_by_domain_and_number(tmp_path: Path) -> None:
    text = " ".join(VOCABULARY[:200])
    table = table_of(tmp_path / "table", {"math": [text, "x" + text[1:]], "code": ["y" + text[1:]]})
    found, stage = run(table, tmp_path / "work")
    assert [(r.domain, r.number, r.reason) for r in found] == [
        ("math", 0, "near-duplicate of code"),
        ("math", 1, "near-duplicate of code"),
    ]
    assert stage.findings()["removed_beside"] == {"math": {"code": 2}}
    assert stage.findings()["largest_group"] == 3


def test_languages_are_not_compared_with_each_other(tmp_path: Path) -> None:
    text = " ".join(VOCABULARY[:100])
    labels = {("docs", 0): "en", ("docs", 1): "nl", ("docs", 2): "en"}
    table = table_of(tmp_path / "table", {"docs": [text] * 5}, labels)
    found, _ = run(table, tmp_path / "work")
    # Two in English, one in Dutch and two of unknown language.
    assert sorted(r.number for r in found) == [2, 4]


def test_rejects_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    texts = [text * 20 for text in planted(5, num=20)]
    table = table_of(tmp_path / "table", {"docs": texts[:50], "code": texts[50:]})
    one, _ = run(table, tmp_path / "one")
    three, _ = run(table, tmp_path / "three", workers=3)
    assert one == three
    assert len(one) > 10


def test_rejects_do_not_depend_on_the_order_of_the_documents(tmp_path: Path) -> None:
    texts = sorted(set(planted(6, num=30)), key=lambda text: (len(text), text))
    texts = [next(group) for _, group in itertools.groupby(texts, key=len)]  # no ties
    shuffled = list(texts)
    random.Random(1).shuffle(shuffled)
    results = []
    for name, order in (("sorted", texts), ("shuffled", shuffled)):
        (tmp_path / name).mkdir()
        results.append({order[number] for number in rejected(order, tmp_path / name)})
    assert results[0] == results[1]
    assert len(results[0]) > 10


def test_texts_already_left_out_are_not_looked_at(tmp_path: Path) -> None:
    text = " ".join(VOCABULARY[:100])
    table = table_of(tmp_path / "table", {"docs": [text + " more", text, text[:-3]]})
    table.reject("docs", np.array([0]))
    found, _ = run(table, tmp_path / "work")
    assert [r.number for r in found] == [2]


def test_short_texts_are_equal_only_where_their_words_are(tmp_path: Path) -> None:
    """D7: texts shorter than the shingle got one empty signature."""
    assert rejected(["cat", "dog", "cat", "", "?!", "...", "Cat!"], tmp_path) == [0, 2]


def test_many_equal_texts_are_each_compared_once(tmp_path: Path) -> None:
    text = " ".join(VOCABULARY[:50])
    table = table_of(tmp_path / "table", {"docs": [text + "." * (i % 7) for i in range(800)]})
    found, stage = run(table, tmp_path / "work")
    assert len(found) == 799
    assert stage.findings()["pairs_compared"] == 799
    assert stage.findings()["largest_group"] == 800


@pytest.mark.parametrize("texts", [{"docs": []}, {"docs": [], "code": ["one text"]}])
def test_table_of_little_loses_nothing(tmp_path: Path, texts: dict[str, list[str]]) -> None:
    found, stage = run(table_of(tmp_path / "table", texts), tmp_path / "work")
    assert found == []
    assert stage.findings()["false_candidate_share"] == 0


def settings_of(changes: Iterable[tuple[str, Any]] = ()) -> dict[str, Any]:
    config = NearDuplicateConfig.model_validate({"threshold": 0.95, **dict(changes)})
    return NearDuplicateStage(config, workers=Workers(1)).settings()


@pytest.mark.parametrize(
    "change",
    [("threshold", 0.9), ("ngram", 4), ("detection", 0.9), ("num_hashes", 128), ("seed", 2)],
)
def test_settings_change_with_everything_that_decides(change: tuple[str, Any]) -> None:
    assert settings_of([change]) != settings_of()


def test_settings_show_what_follows_from_the_threshold() -> None:
    shown = settings_of()
    assert (shown["bands"], shown["rows"]) == (12, 21)
    assert shown["detection_at_threshold"] >= 0.99
    assert shown["detection_0_1_below"] < 0.4
    assert shown["detection_0_1_above"] == 1
    assert shown["minhash"].startswith("rensa ")


def test_pair_exactly_at_the_threshold_goes_whatever_the_sizes(tmp_path: Path) -> None:
    """0.07 × 100 is a little more than 7 in floating point; 7 / 100 is 0.07."""
    tokens = [f"t{i}" for i in range(104)]
    long, short = " ".join(tokens), " ".join(tokens[:11])
    assert similarity(long, short) == 0.07
    assert rejected([long, short], tmp_path, threshold=0.07, detection=0.999) == [1]
