"""Overlap of evaluation sets with the windows that a run was served, against a slow reference."""

import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from workbench.data.filters.ngram_index import IndexBuilder, write_index
from workbench.data.manifest import file_sha256
from workbench.data.serving.served import ServedWindows
from workbench.data.serving.served_overlap import served_overlap
from workbench.data.text.words import words
from workbench.data.tokenizer import END_OF_TEXT_ID, encode, train_tokenizer
from workbench.errors import IntegrityError
from workbench.registry.entries import ServedOverlap

N = 4
WIDTH = 33  # a window of 32 targets
VOCABULARY = [f"{a}{b}" for a in ("sun", "moon", "star", "sea", "hill") for b in range(40)]


def prose(generator: random.Random, length: int) -> str:
    return " ".join(generator.choices(VOCABULARY, k=length))


class Served:
    """A corpus of two domains in memory, whose first documents repeat the validation split's."""

    def __init__(self, folder: Path, *, threshold: float = 0.5) -> None:
        generator = random.Random(11)
        self.folder = folder
        self.held = {
            "validation": [prose(generator, 60) for _ in range(20)],
            "test": [prose(generator, 60) for _ in range(20)] + ["two words"],
        }
        copies = [*self.held["validation"][:10], *self.held["test"][:6]]
        self.texts = {
            "code": [prose(generator, 80) + " " + text for text in copies],
            "docs": [prose(generator, 50) for _ in range(200)],
        }
        everything = [text for texts in self.texts.values() for text in texts]
        self.tokenizer = train_tokenizer(everything, 300)
        self._tokens = {
            domain: np.asarray([i for ids in encode(self.tokenizer, texts) for i in ids], "<u2")
            for domain, texts in self.texts.items()
        }
        builder = IndexBuilder(N, ("validation", "test"))
        for number, texts in enumerate(self.held.values()):
            for text in texts:
                builder.add(number, text)
        path = folder / "ngrams.npz"
        write_index(builder.index(), path)
        self.manifest = SimpleNamespace(
            ngrams_sha256=file_sha256(path),
            fingerprint="sha256:1",
            contamination=SimpleNamespace(threshold=threshold),
            shards={
                "train": {
                    domain: SimpleNamespace(
                        bytes=sum(len(text.encode()) for text in texts),
                        tokens=len(self._tokens[domain]),
                    )
                    for domain, texts in self.texts.items()
                }
            },
        )

    def tokens(self, split: str, domain: str) -> np.ndarray:
        assert split == "train"
        return self._tokens[domain]

    def windows(self, domain: str) -> np.ndarray:
        last = len(self._tokens[domain])
        starts = np.arange(0, last - 1, WIDTH - 1)
        return np.stack([starts, np.minimum(starts + WIDTH, last)], axis=1)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(tmp_path_factory.mktemp("served"))


def shingles(text: str) -> set[tuple[str, ...]]:
    found = words(text)
    return {tuple(found[i : i + N]) for i in range(len(found) - N + 1)}


def reference(corpus: Served, served: dict[str, np.ndarray]) -> dict[str, tuple[int, int, int]]:
    """Found n-grams, touched and contaminated documents, by marking every served token."""
    seen: set[tuple[str, ...]] = set()
    for domain, ranges in served.items():
        tokens = corpus.tokens("train", domain)
        is_served = np.zeros(len(tokens), dtype=bool)
        for start, end in ranges:
            is_served[start:end] = True
        piece: list[int] = []
        for token, mine in zip([*tokens, END_OF_TEXT_ID], [*is_served, False], strict=True):
            if mine and token != END_OF_TEXT_ID:
                piece.append(int(token))
            else:
                seen |= shingles(corpus.tokenizer.decode(piece))
                piece = []
    result = {}
    for name, texts in corpus.held.items():
        grams = [shingles(text) for text in texts]
        result[name] = (
            len(set().union(*grams) & seen),
            sum(1 for g in grams if g & seen),
            sum(1 for g in grams if g and len(g & seen) >= 0.5 * len(g)),
        )
    return result


def overlap_of(corpus: Served, served: dict[str, np.ndarray], **options: int) -> ServedOverlap:
    """Some windows of each domain, as a stream counts them: the others were served no times."""
    windows = {}
    for domain, ranges in served.items():
        fixed = corpus.windows(domain)
        times = np.asarray([(ranges[:, 0] == first).sum() for first in fixed[:, 0]])
        windows[domain] = ServedWindows(times=times, first=fixed[:, 0], stop=fixed[:, 1])
    return served_overlap(corpus, windows, **options)


def measured(overlap: ServedOverlap) -> dict[str, tuple[int, int, int]]:
    return {name: (o.found, o.touched, o.contaminated) for name, o in overlap.sets.items()}


def test_everything_served_finds_every_copy(corpus: Served) -> None:
    served = {domain: corpus.windows(domain) for domain in ("code", "docs")}
    overlap = overlap_of(corpus, served)
    assert measured(overlap) == reference(corpus, served)
    assert overlap.sets["validation"].contaminated == 10
    assert overlap.sets["test"].contaminated == 6
    assert overlap.sets["test"].unmeasured == 1
    assert overlap.windows == overlap.measured_windows == sum(map(len, served.values()))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_only_what_was_served_counts(corpus: Served, share: float) -> None:
    generator = np.random.default_rng(4)
    served = {}
    for domain in ("code", "docs"):
        ranges = corpus.windows(domain)
        served[domain] = generator.permutation(ranges[generator.random(len(ranges)) < share])
    assert measured(overlap_of(corpus, served)) == reference(corpus, served)


def test_window_served_again_changes_nothing(corpus: Served) -> None:
    once = {"code": corpus.windows("code")[3:20]}
    again = {"code": np.concatenate([once["code"], once["code"][::-1]])}
    assert overlap_of(corpus, again) == overlap_of(corpus, once)


def test_chunks_cut_no_ngram(corpus: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served = {domain: corpus.windows(domain) for domain in ("code", "docs")}
    whole = overlap_of(corpus, served)
    monkeypatch.setattr("workbench.data.serving.served_overlap._CHUNK", 50)
    monkeypatch.setattr("workbench.data.serving.served_overlap._REACH", 40)
    assert overlap_of(corpus, served) == whole


def test_more_than_the_cap_is_sampled_by_place_and_says_so(
    corpus: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.data.serving.served_overlap._BLOCK", 320)
    served = {domain: corpus.windows(domain) for domain in ("code", "docs")}
    whole = overlap_of(corpus, served)
    size = sum(shard.bytes for shard in corpus.manifest.shards["train"].values())
    part = overlap_of(corpus, served, most_bytes=size // 2)
    assert part == overlap_of(corpus, served, most_bytes=size // 2)
    assert 0.25 < part.measured_windows / part.windows < 0.75
    assert part.windows == whole.windows
    assert 0 < part.sets["validation"].found < whole.sets["validation"].found


def test_nothing_served_finds_nothing(corpus: Served) -> None:
    overlap = overlap_of(corpus, {"code": np.empty((0, 2), dtype=np.int64)})
    assert measured(overlap) == {"validation": (0, 0, 0), "test": (0, 0, 0)}
    assert overlap.windows == 0


def test_other_index_file_is_refused(tmp_path: Path) -> None:
    corpus = Served(tmp_path)
    (tmp_path / "ngrams.npz").write_bytes(b"not it")
    with pytest.raises(IntegrityError, match=r"ngrams\.npz is not the file that was built"):
        overlap_of(corpus, {"code": corpus.windows("code")})
