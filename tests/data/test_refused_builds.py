"""Builds that are stopped: files that change meanwhile, domains that stages leave empty."""

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.data.texts import build, corpus_config, sentences, write_jsonl
from workbench.data.build import build_corpus
from workbench.errors import ConflictError, InvalidFileError

ENGLISH = (
    "the of and to in that it was for on are as with they at be this from have by not but what "
    "all were when we there can an your which their said if do will each about how up out them"
)


def prose(count: int, seed: int = 0) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices(ENGLISH.split(), k=60)) for _ in range(count)]


def one_domain(**changes: Any) -> Any:
    source = {"source": "jsonl:a.jsonl", "max_bytes": 10_000_000}
    return corpus_config(**{"sources": {"docs": source}, **changes})


QUIZ = {"evaluation": {"quiz": {"source": "jsonl:quiz.jsonl", "max_bytes": 1_000_000}}}
QUALITY = {
    "reference": {"source": "jsonl:reference.jsonl", "max_bytes": 10_000_000},
    "domains": ["docs"],
    "bins": 2,
}


def once_at(stage: str, change: Callable[[], object]) -> Callable[[str, float], None]:
    changes = [change]

    def progress(told: str, share: float) -> None:
        del share
        if told == stage and changes:
            changes.pop()()

    return progress


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("reading docs", "a"),
        ("language", "quiz"),  # before it is hashed: the build began with another
        ("contamination", "quiz"),
        ("measuring words", "quiz"),
        ("quality", "reference"),
        ("encoding docs (test)", "a"),
    ],
)
def test_build_whose_files_change_is_refused_and_keeps_nothing_wrong(
    tmp_path: Path, stage: str, name: str
) -> None:
    for file, domain in (("a", "docs"), ("reference", "docs"), ("quiz", "math")):
        write_jsonl(tmp_path / f"{file}.jsonl", sentences(domain, 160))
    config = one_domain(contamination=QUIZ, quality={**QUALITY, "max_share_lost": 1.0})

    def change() -> None:
        write_jsonl(tmp_path / f"{name}.jsonl", sentences("docs", 160, seed=1))

    with pytest.raises(ConflictError, match=rf"{name}\.jsonl' changed while it was read"):
        build_corpus(
            config, root=tmp_path, corpora=tmp_path / "corpora", progress=once_at(stage, change)
        )
    again = build(config, tmp_path)
    apart = build_corpus(
        config, root=tmp_path, corpora=tmp_path / "apart", progress=lambda *_: None
    )
    assert again.fingerprint == apart.fingerprint


def test_stage_in_use_is_not_forgotten_by_other_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three other corpora are built while the first is at its last stage; two are remembered."""
    monkeypatch.setattr("workbench.data.building.cache._MOST_RESULTS", 2)
    for number in range(4):
        write_jsonl(tmp_path / f"s{number}.jsonl", sentences("docs", 60, seed=number))

    def config(number: int) -> Any:
        sources = {"docs": {"source": f"jsonl:s{number}.jsonl", "max_bytes": 1_000_000}}
        return corpus_config(name=f"s{number}@1", sources=sources)

    def build_others() -> None:
        for number in range(1, 4):
            build(config(number), tmp_path)

    def change() -> None:
        others = threading.Thread(target=build_others)
        others.start()
        others.join()

    corpora = tmp_path / "corpora"
    progress = once_at("contamination", change)
    build_corpus(config(0), root=tmp_path, corpora=corpora, progress=progress).verify()
    assert len(list((corpora / ".stages").glob("read-*"))) == 3


def test_language_that_takes_more_than_half_of_a_source_stops_the_build(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", prose(60))
    with pytest.raises(InvalidFileError) as caught:
        build(one_domain(language={"score": 0.0, "allowed": ["ja"]}), tmp_path)
    assert "language would take 100.0% of the bytes of 'docs'" in str(caught.value)
    assert "identified as en: " in str(caught.value)
    assert "language.max_share_lost" in caught.value.remedy


def test_domain_that_a_stage_leaves_empty_is_refused_with_the_stage(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", ["", *prose(60), *prose(9)])
    language = {"score": 0.0, "allowed": ["ja"], "max_share_lost": 1.0}
    with pytest.raises(InvalidFileError) as caught:
        build(one_domain(language=language), tmp_path)
    assert caught.value.message == (
        "no document of domain 'docs' is left: 70 read, read left out 1 (empty), exact_duplicates "
        "left out 9 (same as docs), language left out 60 (identified as en)"
    )
    assert caught.value.remedy.startswith("edit language.allowed")


def test_split_that_stages_leave_empty_is_refused_with_the_stage(tmp_path: Path) -> None:
    """Two of sixty documents say that they are wanted."""
    rows = [{"text": text, "lang": "ja"} for text in prose(60)]
    for row in rows[:2]:
        row["lang"] = "en"
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"source": "jsonl:a.jsonl", "max_bytes": 10_000_000, "language_field": "lang"}
    language = {"allowed": ["en"], "max_share_lost": 1.0}
    with pytest.raises(InvalidFileError) as caught:
        build(one_domain(sources={"docs": source}, language=language), tmp_path)
    assert "with 2 left: 60 read, language left out 58 (said to be ja)" in caught.value.message
    assert caught.value.remedy.startswith("edit language.allowed")


def test_split_that_is_empty_for_want_of_text_is_refused_with_what_helps(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", prose(2))
    with pytest.raises(InvalidFileError, match="has no document in the") as caught:
        build(one_domain(), tmp_path)
    assert "with 2 left: 2 read" in caught.value.message
    assert caught.value.remedy.startswith("raise max_bytes of 'docs'")
