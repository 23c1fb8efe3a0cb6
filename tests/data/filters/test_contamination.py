"""Contamination against a brute-force reference, with planted copies of held-out documents."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from workbench.canonical import freeze
from workbench.data.building.stages import Rejected
from workbench.data.building.table import Row
from workbench.data.config import ContaminationConfig, ReferenceConfig
from workbench.data.filters.contamination import (
    ContaminationStage,
    contamination_of,
    ngram_index,
)
from workbench.data.filters.ngram_finder import finder_of
from workbench.data.filters.ngram_index import read_index, set_overlaps, write_index
from workbench.data.manifest import Contamination, StageRecord
from workbench.data.splits import Split
from workbench.data.text.dedup import content_digest
from workbench.data.text.words import words

N = 5
VOCABULARY = [f"word{number}" for number in range(2_000)]


@dataclass
class Rows:
    """A table in memory: ``by_domain[domain]`` is a list of (split, text)."""

    by_domain: dict[str, list[tuple[Split, str]]]

    @property
    def domains(self) -> tuple[str, ...]:
        return tuple(sorted(self.by_domain))

    def num_kept(self, domain: str) -> int:
        return len(self.by_domain[domain])

    def row(self, domain: str, number: int) -> Row:
        text = self.by_domain[domain][number][1]
        return Row(
            domain=domain,
            number=number,
            id=f"{domain}.jsonl#{number}",
            text=text,
            digest=content_digest(text),
            num_bytes=len(text.encode()),
            provenance="",
            licence="",
            language="",
        )

    def rows(self, domain: str) -> Iterator[Row]:
        return (self.row(domain, number) for number in range(self.num_kept(domain)))

    def split_of_row(self, row: Row) -> Split:
        return self.by_domain[row.domain][row.number][0]

    def texts(self, split: Split) -> list[str]:
        return [text for d in self.domains for s, text in self.by_domain[d] if s == split]


class InProcess:
    num = 1

    def map(self, function, batches):
        return map(function, batches)


def prose(generator: random.Random, length: int) -> str:
    return " ".join(generator.choices(VOCABULARY, k=length))


def edited(generator: random.Random, text: str, share: float) -> str:
    found = text.split()
    for place in generator.sample(range(len(found)), round(share * len(found))):
        found[place] = "edited"
    return " ".join(found)


@dataclass
class Outcome:
    rejected: list[Rejected]
    result: Contamination
    stage: ContaminationStage


def scan(
    rows: Rows,
    work: Path,
    *,
    sets: dict[str, list[tuple[str, str]]] | None = None,
    **changes: object,
) -> Outcome:
    sets = sets or {}
    config = ContaminationConfig.model_validate(
        {
            "ngram": N,
            "evaluation": {name: reference(name) for name in sets},
            **changes,
        }
    )
    stage = ContaminationStage(
        config,
        split_of_row=rows.split_of_row,
        read_reference=reader(sets),
        identity={"salt": "x"},
        workers=InProcess(),
    )
    work.mkdir(exist_ok=True)
    shares: list[float] = []
    rejected = list(stage.rejects(rows, work=work, progress=shares.append))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    return Outcome(rejected=rejected, result=stage.result(), stage=stage)


def reference(name: str) -> dict[str, object]:
    return {"source": f"jsonl:{name}.jsonl", "max_bytes": 1_000_000}


def reader(
    sets: dict[str, list[tuple[str, str]]],
) -> Callable[[ReferenceConfig], list[tuple[str, str]]]:
    return lambda config: sets[config.source.removeprefix("jsonl:").removesuffix(".jsonl")]


def shingles(text: str, n: int = N) -> set[tuple[str, ...]]:
    found = words(text)
    return {tuple(found[i : i + n]) for i in range(len(found) - n + 1)}


def expected(documents: list[str], training: list[str], threshold: float) -> dict[str, int]:
    served = set().union(*(shingles(text) for text in training))
    found = [(shingles(text), shingles(text) & served) for text in documents]
    held = set().union(*(grams for grams, _ in found))
    return {
        "documents": len(documents),
        "ngrams": len(held),
        "found": len(held & served),
        "touched": sum(1 for _, hit in found if hit),
        "contaminated": sum(1 for g, hit in found if g and len(hit) >= threshold * len(g)),
        "unmeasured": sum(1 for grams, _ in found if not grams),
    }


def counts(result: Contamination, name: str) -> dict[str, int]:
    return result.sets[name].model_dump(exclude={"samples"})


@pytest.fixture
def planted() -> Rows:
    """Training text holds copies of every third held-out document, with 0 to 40 % edited."""
    generator = random.Random(3)
    by_domain: dict[str, list[tuple[Split, str]]] = {}
    for domain in ("code", "docs"):
        held = [
            (split, prose(generator, generator.choice([2, 4, 5, 6, 40, 120])))
            for split in ("validation", "test")
            for _ in range(40)
        ]
        copies = [
            f"{prose(generator, 30)} {edited(generator, text, generator.random() * 0.4)}"
            for _, text in held[::3]
        ]
        own = [prose(generator, generator.randint(1, 100)) for _ in range(100)]
        rows = [*held, *(("train", text) for text in [*copies, *own])]
        generator.shuffle(rows)
        by_domain[domain] = rows
    return Rows(by_domain)


def test_overlap_of_planted_copies_equals_the_brute_force_count(
    planted: Rows, tmp_path: Path
) -> None:
    generator = random.Random(9)
    named = [("q/1", planted.texts("train")[5]), ("q/2", prose(generator, 50)), ("q/3", "so few")]
    outcome = scan(planted, tmp_path, sets={"quiz": named})
    training = planted.texts("train")
    for split in ("validation", "test"):
        assert counts(outcome.result, split) == expected(planted.texts(split), training, 0.5)
    assert counts(outcome.result, "quiz") == expected([t for _, t in named], training, 0.5)
    assert outcome.result.sets["validation"].contaminated > 5
    assert (
        outcome.result.sets["validation"].touched > outcome.result.sets["validation"].contaminated
    )
    assert outcome.result.sets["quiz"].contaminated == 1
    assert outcome.result.sets["quiz"].unmeasured == 1
    assert outcome.rejected == []
    assert outcome.result.sets_before == {}


def test_exclusion_rejects_what_alone_holds_the_threshold_and_both_results_are_kept(
    planted: Rows, tmp_path: Path
) -> None:
    outcome = scan(planted, tmp_path, exclude=True)
    held = [shingles(t) for s in ("validation", "test") for t in planted.texts(s)]
    should = {
        (domain, number)
        for domain in planted.domains
        for number, (split, text) in enumerate(planted.by_domain[domain])
        if split == "train" and any(g and len(g & shingles(text)) >= 0.5 * len(g) for g in held)
    }
    assert {(r.domain, r.number) for r in outcome.rejected} == should
    left = Rows(
        {
            d: [row for n, row in enumerate(rows) if (d, n) not in should]
            for d, rows in planted.by_domain.items()
        }
    )
    for split in ("validation", "test"):
        before = outcome.result.sets_before[split].model_dump(exclude={"samples"})
        assert before == expected(planted.texts(split), planted.texts("train"), 0.5)
        assert counts(outcome.result, split) == expected(
            left.texts(split), left.texts("train"), 0.5
        )
        assert counts(outcome.result, split)["contaminated"] == 0 < before["contaminated"]


def test_evidence_names_a_validation_document_but_never_one_of_the_sealed_split(
    tmp_path: Path,
) -> None:
    generator = random.Random(1)
    validation, test = prose(generator, 40), prose(generator, 40)
    rows = Rows(
        {
            "docs": [
                ("validation", validation),
                ("test", f"secret {test}"),
                ("train", f"an open beginning {validation}"),
                ("train", f"another open beginning {test}"),
            ]
        }
    )
    outcome = scan(rows, tmp_path, exclude=True)
    first, second = outcome.rejected
    assert (first.reason, first.why) == (
        "overlaps validation",
        "1.00 of the 5-grams of docs.jsonl#0",
    )
    assert second.reason == "overlaps test"
    assert second.why == "0.97 of the 5-grams of a document of the test split"
    told = outcome.result.model_dump_json()
    assert "secret" not in told
    assert "docs.jsonl#1" not in told
    assert (first.sealed, second.sealed) == (False, True)
    (sample,) = outcome.result.sets_before["test"].samples
    assert (sample.id, sample.excerpt) == ("", "")
    assert sample.why == second.why
    (sample,) = outcome.result.sets_before["validation"].samples
    assert sample.id == "docs.jsonl#2"
    assert sample.excerpt.startswith("an open beginning")


def test_training_text_that_repeats_the_sealed_split_is_shown_for_no_other_set(
    tmp_path: Path,
) -> None:
    generator = random.Random(2)
    validation, test = prose(generator, 60), prose(generator, 40)
    rows = Rows(
        {
            "docs": [
                ("validation", validation),
                ("test", test),
                ("train", f"{test} {validation}"),
            ]
        }
    )
    outcome = scan(rows, tmp_path, exclude=True)
    (rejected,) = outcome.rejected
    assert rejected.sealed
    (sample,) = outcome.result.sets_before["validation"].samples
    assert (sample.id, sample.excerpt) == ("", "")
    assert test[:20] not in outcome.result.model_dump_json()


def test_short_document_is_unmeasured_and_never_matched_by_an_equally_short_text(
    tmp_path: Path,
) -> None:
    rows = Rows({"docs": [("test", "one two three"), ("train", "one two three"), ("train", "!")]})
    outcome = scan(rows, tmp_path, exclude=True)
    assert outcome.rejected == []
    assert counts(outcome.result, "test") == {
        "documents": 1,
        "ngrams": 0,
        "found": 0,
        "touched": 0,
        "contaminated": 0,
        "unmeasured": 1,
    }


def test_sampled_shares_are_close_to_the_exact_ones(tmp_path: Path) -> None:
    generator = random.Random(5)
    held = [prose(generator, 400) for _ in range(120)]
    rows = Rows(
        {
            "docs": [
                *(("test", text) for text in held),
                *(("train", edited(generator, text, 0.08)) for text in held[:60]),
            ]
        }
    )
    exact = scan(rows, tmp_path / "all", ngram=13).result
    config = ContaminationConfig(ngram=13)
    index = ngram_index(
        config, rows, split_of_row=rows.split_of_row, read_reference=reader({}), most=6_000
    )
    assert index.one_in == 8
    assert 3_000 < len(index.pair_documents) <= 6_000
    sampled = _scan_with(index, rows)
    whole = exact.sets["test"]
    assert exact.one_in == 1
    assert sampled.found / sampled.ngrams == pytest.approx(whole.found / whole.ngrams, abs=0.02)
    assert sampled.touched == whole.touched == 60
    assert sampled.unmeasured == 0


def _scan_with(index, rows: Rows):
    finder = finder_of(index)
    found = np.zeros(len(index.hashes), dtype=bool)
    for text in rows.texts("train"):
        found[finder.places(text)] = True
    return set_overlaps(index, found, 0.5)["test"]


@pytest.mark.parametrize("most", [1, 100, 5_000, 100_000])
def test_sampling_is_the_smallest_power_of_two_that_fits(planted: Rows, most: int) -> None:
    def index(limit: int):
        return ngram_index(
            ContaminationConfig(ngram=N),
            planted,
            split_of_row=planted.split_of_row,
            read_reference=reader({}),
            most=limit,
        )

    whole, thinned = index(10**9), index(most)
    kept = [len([h for h in _pairs(whole) if h % one_in == 0]) for one_in in _powers()]
    smallest = next(one_in for one_in, count in zip(_powers(), kept, strict=True) if count <= most)
    assert thinned.one_in == smallest
    assert _pairs(thinned) == [h for h in _pairs(whole) if h % smallest == 0]


def test_sampling_begins_only_above_the_cap(planted: Rows) -> None:
    def one_in(most: int) -> int:
        options = {"split_of_row": planted.split_of_row, "read_reference": reader({})}
        return ngram_index(ContaminationConfig(ngram=N), planted, most=most, **options).one_in

    options = {"split_of_row": planted.split_of_row, "read_reference": reader({})}
    pairs = len(_pairs(ngram_index(ContaminationConfig(ngram=N), planted, **options)))
    assert (one_in(pairs), one_in(pairs - 1)) == (1, 2)


def test_ngram_repeated_in_a_document_counts_once(tmp_path: Path) -> None:
    generator = random.Random(6)
    refrain, verse = prose(generator, 5), prose(generator, 60)
    song = " ".join([refrain] * 30) + " " + verse
    rows = Rows({"docs": [("test", song), ("train", " ".join([refrain] * 9))]})
    outcome = scan(rows, tmp_path, exclude=True)
    assert outcome.rejected == []
    assert counts(outcome.result, "test") == expected([song], rows.texts("train"), 0.5)


def test_evidence_is_the_document_that_is_repeated_most(tmp_path: Path) -> None:
    generator = random.Random(7)
    shared, rest = prose(generator, 20), prose(generator, 200)
    rows = Rows(
        {
            "docs": [
                ("validation", f"{shared} {rest}"),
                ("validation", f"{shared} {prose(generator, 3)}"),
                ("validation", f"{rest[:300]} {shared}"),
                ("train", shared),
            ]
        }
    )
    (rejected,) = scan(rows, tmp_path, exclude=True).rejected
    assert rejected.why == "0.84 of the 5-grams of docs.jsonl#1"


def _powers() -> list[int]:
    return [2**exponent for exponent in range(30)]


def _pairs(index) -> list[int]:
    return [
        int(h)
        for h, count in zip(index.hashes, index.starts[1:] - index.starts[:-1], strict=True)
        for _ in range(count)
    ]


def test_index_file_reads_back_as_it_was_and_holds_no_text(planted: Rows, tmp_path: Path) -> None:
    index = ngram_index(
        ContaminationConfig(ngram=N),
        planted,
        split_of_row=planted.split_of_row,
        read_reference=reader({}),
    )
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_index(index, tmp_path / folder / "ngrams.npz")
    path = tmp_path / "a" / "ngrams.npz"
    assert path.read_bytes() == (tmp_path / "b" / "ngrams.npz").read_bytes()
    assert b"word1" not in path.read_bytes()
    again = read_index(path)
    assert (again.ngram, again.one_in, again.names) == (N, 1, ("validation", "test"))
    for name in ("hashes", "starts", "pair_documents", "document_sets", "sizes"):
        assert getattr(again, name).tolist() == getattr(index, name).tolist()


def test_licence_text_in_every_document_is_counted_as_by_brute_force(tmp_path: Path) -> None:
    generator = random.Random(2)
    licence = prose(generator, 30)
    rows = Rows(
        {
            "code": [
                *(("test", f"{licence} {prose(generator, 30)}") for _ in range(50)),
                *(("train", f"{licence} {prose(generator, 30)}") for _ in range(50)),
            ]
        }
    )
    outcome = scan(rows, tmp_path, exclude=True, threshold=0.45)
    assert len(outcome.rejected) == 50
    before = outcome.result.sets_before["test"].model_dump(exclude={"samples"})
    assert before == expected(rows.texts("test"), rows.texts("train"), 0.45)
    assert outcome.result.sets["test"].found == 0


def test_record_of_the_stage_gives_the_result_back(planted: Rows, tmp_path: Path) -> None:
    outcome = scan(planted, tmp_path, exclude=True)
    record = StageRecord(
        name="contamination",
        key="sha256:0",
        settings=freeze(outcome.stage.settings()),
        removed={},
        findings=freeze(outcome.stage.findings()),
    )
    assert contamination_of(record) == outcome.result
    assert outcome.stage.max_share_lost == 0.5


def test_report_only_loses_nothing_and_has_no_limit(planted: Rows, tmp_path: Path) -> None:
    assert scan(planted, tmp_path).stage.max_share_lost is None


@pytest.mark.parametrize("change", [{"ngram": 6}, {"threshold": 0.4}, {"exclude": True}])
def test_settings_change_with_what_decides(
    planted: Rows, tmp_path: Path, change: dict[str, object]
) -> None:
    assert scan(planted, tmp_path / "a").stage.settings() != (
        scan(planted, tmp_path / "b", **change).stage.settings()
    )


@pytest.mark.parametrize("name", ["validation", "test", "train"])
def test_evaluation_set_cannot_take_the_name_of_a_split(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ContaminationConfig.model_validate({"evaluation": {name: reference("x")}})


def test_corpus_without_held_out_text_finds_nothing(tmp_path: Path) -> None:
    outcome = scan(Rows({"docs": [("train", "a b c d e f g h")]}), tmp_path)
    assert outcome.result.sets["test"].documents == 0
    assert outcome.result.sets["test"].found == 0
