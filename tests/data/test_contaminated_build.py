"""Whole builds whose training text repeats held-out text and a named evaluation set."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.texts import build, corpus_config, write_jsonl
from workbench.data.corpus import Corpus
from workbench.data.manifest import NGRAMS_NAME
from workbench.data.serving.served import served_windows
from workbench.data.serving.served_overlap import served_overlap
from workbench.data.serving.stream import TokenStream
from workbench.data.splits import split_of
from workbench.data.text.dedup import content_digest, normalise
from workbench.errors import InvalidFileError

VOCABULARY = [f"{a}{b}" for a in ("sun", "moon", "star", "sea", "hill") for b in range(60)]
OPTIONS: dict[str, Any] = {
    "sources": {"docs": {"source": "jsonl:texts/docs.jsonl", "max_bytes": 10_000_000}},
    "contamination": {
        "ngram": 8,
        "evaluation": {"quiz": {"source": "jsonl:quiz.jsonl", "max_bytes": 1_000_000}},
    },
}


def prose(generator: random.Random, length: int) -> str:
    return " ".join(generator.choices(VOCABULARY, k=length))


def options(**contamination: Any) -> dict[str, Any]:
    return {**OPTIONS, "contamination": {**OPTIONS["contamination"], **contamination}}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of each held-out text a longer training text holds a copy; the first quiz text as well."""
    root = tmp_path_factory.mktemp("contaminated")
    generator = random.Random(8)
    splits = corpus_config().splits
    texts = [prose(generator, 40) for _ in range(300)]
    held = [text for text in texts if split_of(content_digest(text), splits) != "train"]
    wrapped = [prose(generator, 15) + " " + text for text in held]
    copies = [text for text in wrapped if split_of(content_digest(text), splits) == "train"]
    quiz = [prose(generator, 30), prose(generator, 30), "too short"]
    answers = next(
        text
        for text in (f"{prose(generator, 5)} {quiz[0]}" for _ in range(100))
        if split_of(content_digest(text), splits) == "train"
    )
    shouted = [text.upper().replace(" ", "  ") for text in texts[:60]]
    write_jsonl(root / "texts" / "docs.jsonl", [*texts, *shouted, *copies, answers])
    write_jsonl(root / "quiz.jsonl", quiz)
    return root


@pytest.fixture(scope="module")
def reported(lab: Path) -> Corpus:
    return build(corpus_config(**options()), lab)


@pytest.fixture(scope="module")
def excluded(lab: Path) -> Corpus:
    return build(corpus_config(**options(exclude=True)), lab)


def normalised_by_split(corpus: Corpus) -> dict[str, set[str]]:
    texts = {}
    for split in ("train", "validation"):
        tokens = np.asarray(corpus.tokens(split, "docs"))
        ends = np.flatnonzero(tokens == 0)
        pieces = np.split(tokens, ends + 1)[:-1]
        texts[split] = {normalise(corpus.decode(piece)) for piece in pieces}
    return texts


def test_no_document_is_in_two_splits_whatever_its_case_and_spaces(reported: Corpus) -> None:
    """Case D10: a fifth of the rows repeat others in capitals and with other spaces."""
    texts = normalised_by_split(reported)
    assert not texts["train"] & texts["validation"]
    assert len(texts["validation"]) == reported.manifest.shards["validation"]["docs"].documents
    removed = {s.name: s.removed["docs"].documents for s in reported.manifest.stages}
    assert removed["exact_duplicates"] == 60


def test_copies_inside_longer_training_texts_are_measured(reported: Corpus) -> None:
    found = reported.manifest.contamination
    assert found.sets["validation"].contaminated > 5
    assert found.sets["test"].contaminated > 5
    quiz = found.sets["quiz"]
    assert (quiz.documents, quiz.contaminated, quiz.unmeasured) == (3, 1, 1)
    assert found.sets_before == {}
    assert reported.manifest.stages[-1].removed["docs"].documents == 0


def test_exclusion_leaves_nothing_contaminated_and_keeps_both_counts(
    reported: Corpus, excluded: Corpus
) -> None:
    before, after = reported.manifest.contamination, excluded.manifest.contamination
    for name in ("validation", "test", "quiz"):
        assert after.sets_before[name].contaminated == before.sets[name].contaminated > 0
        assert after.sets[name].contaminated == 0
    removed = excluded.manifest.stages[-1].removed["docs"]
    shards = (reported.manifest.shards["train"], excluded.manifest.shards["train"])
    assert removed.documents == shards[0]["docs"].documents - shards[1]["docs"].documents > 0
    assert sum(removed.reasons.values()) == removed.documents
    assert "overlaps test" in removed.reasons
    assert all("docs.jsonl" not in s.why for s in removed.samples if "test" in s.why)


def test_exclusion_changes_the_keys_behind_it_and_none_before(
    reported: Corpus, excluded: Corpus
) -> None:
    """Case D6: another filter is another key."""
    assert reported.manifest.key != excluded.manifest.key
    keys = [[stage.key for stage in c.manifest.stages] for c in (reported, excluded)]
    assert keys[0][:-1] == keys[1][:-1]
    assert keys[0][-1] != keys[1][-1]


def test_held_out_text_is_the_same_with_and_without_exclusion(
    reported: Corpus, excluded: Corpus
) -> None:
    for split in ("validation", "test"):
        shards = [c.manifest.shards[split]["docs"].documents for c in (reported, excluded)]
        assert shards[0] == shards[1]


def test_result_does_not_depend_on_whether_the_stage_was_cached(
    lab: Path, excluded: Corpus
) -> None:
    another = build(corpus_config(**options(exclude=True), name="other@1"), lab)
    assert another.manifest.contamination == excluded.manifest.contamination
    assert another.manifest.ngrams_sha256 == excluded.manifest.ngrams_sha256


def test_exclusion_of_more_than_allowed_stops_the_build(lab: Path) -> None:
    config = corpus_config(**options(exclude=True, max_share_lost=0.01), name="strict@1")
    with pytest.raises(InvalidFileError, match=r"max_share_lost") as refused:
        build(config, lab)
    assert refused.value.remedy.startswith("write contamination.max_share_lost: 0.")


class Batch:
    sequences = 2
    seq_len = 16


def stream(corpus: Corpus) -> TokenStream:
    return TokenStream(corpus, batch=Batch(), seed=1, mixtures=[(0, {"docs": 1.0})])


def num_windows(corpus: Corpus) -> int:
    return -(-corpus.manifest.shards["train"]["docs"].tokens // Batch.seq_len)


def test_a_whole_epoch_served_overlaps_as_the_build_says(reported: Corpus) -> None:
    windows = served_windows(stream(reported), num_windows(reported) // Batch.sequences + 1)
    assert windows["docs"].times.min() >= 1
    overlap = served_overlap(reported, windows)
    for name, of in reported.manifest.contamination.sets.items():
        assert overlap.sets[name].model_dump() == of.model_dump(exclude={"samples"})
    assert overlap.windows == overlap.measured_windows == len(windows["docs"].times)


def test_part_of_an_epoch_overlaps_less(reported: Corpus) -> None:
    steps = num_windows(reported) * 3 // 4 // Batch.sequences
    overlap = served_overlap(reported, served_windows(stream(reported), steps))
    whole = reported.manifest.contamination.sets["test"]
    assert overlap.windows == steps * Batch.sequences
    assert 0 < overlap.sets["test"].found < whole.found


def test_ngrams_are_verified_with_the_other_files(reported: Corpus) -> None:
    reported.verify_open()
    assert (reported.folder / NGRAMS_NAME).is_file()


def test_index_of_the_sealed_split_holds_none_of_its_words(reported: Corpus) -> None:
    held = (reported.folder / NGRAMS_NAME).read_bytes()
    assert not any(word.encode() in held for word in VOCABULARY if len(word) > 4)
