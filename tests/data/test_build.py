import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.texts import WORDS, build, corpus_config, sentences, write_jsonl
from workbench.data.build import build_corpus
from workbench.data.corpus import Corpus, corpus_fingerprint, corpus_folder, open_corpus
from workbench.data.manifest import DOCUMENTS_NAME, Removed
from workbench.data.text.dedup import normalise
from workbench.errors import ConflictError, InvalidFileError, NotFoundError


def silent(stage: str, share: float) -> None:
    del stage, share


def one_domain(**changes: Any) -> Any:
    source = {"source": "jsonl:a.jsonl", "max_bytes": 10_000_000}
    return corpus_config(**{"sources": {"code": source}, **changes})


def documents(corpus: Corpus) -> list[dict[str, Any]]:
    lines = (corpus.folder / DOCUMENTS_NAME).read_text().splitlines()
    return [json.loads(line) for line in lines]


def removed_by(corpus: Corpus, name: str) -> dict[str, Removed]:
    (record,) = [stage for stage in corpus.manifest.stages if stage.name == name]
    return record.removed


def training_text(corpus: Corpus, domain: str) -> list[str]:
    tokens = np.asarray(corpus.tokens("train", domain))
    ends = np.flatnonzero(tokens == 0)
    return [corpus.decode(part) for part in np.split(tokens, ends + 1)[:-1]]


def test_build_keeps_every_document_exactly_once(corpus: Corpus) -> None:
    index = documents(corpus)
    assert Counter(entry["domain"] for entry in index) == {"code": 120, "docs": 90, "math": 60}
    texts = sentences("math", 60)
    expected = [texts[int(e["id"].partition("#")[2])] for e in index if e["domain"] == "math"]
    splits = [entry["split"] for entry in index if entry["domain"] == "math"]
    kept = [text for text, split in zip(expected, splits, strict=True) if split == "train"]
    assert training_text(corpus, "math") == kept


def test_build_in_two_places_gives_the_same_bytes(lab: Path, corpus: Corpus) -> None:
    other = build_corpus(corpus_config(), root=lab, corpora=lab / "other", progress=silent)
    files = sorted(p.relative_to(other.folder) for p in other.folder.rglob("*") if p.is_file())
    assert files == sorted(
        p.relative_to(corpus.folder) for p in corpus.folder.rglob("*") if p.is_file()
    )
    for name in files:
        assert (other.folder / name).read_bytes() == (corpus.folder / name).read_bytes()


def test_build_order_of_the_domains_in_the_recipe_changes_nothing(lab: Path) -> None:
    config = corpus_config()
    turned = config.model_copy(update={"sources": dict(reversed(config.sources.items()))})
    assert corpus_fingerprint(turned) == corpus_fingerprint(config)
    built = build_corpus(turned, root=lab, corpora=lab / "turned", progress=silent)
    assert built.fingerprint == build(config, lab).fingerprint


def test_build_duplicates_never_cross_the_split(tmp_path: Path) -> None:
    """D10: a fifth of the rows repeat others in case or space; none is in two splits."""
    originals = sentences("code", 200)
    variants = [text.upper().replace(" ", "  ") for text in originals[:50]]
    write_jsonl(tmp_path / "a.jsonl", [*originals, *variants])
    corpus = build(one_domain(), tmp_path)
    index = documents(corpus)
    rows = [*originals, *variants]
    texts = {split: set[str]() for split in ("train", "validation", "test")}
    for entry in index:
        texts[entry["split"]].add(normalise(rows[int(entry["id"].partition("#")[2])]))
    assert sum(map(len, texts.values())) == 200
    assert not texts["train"] & texts["test"]
    assert not texts["train"] & texts["validation"]
    assert not texts["validation"] & texts["test"]
    removed = removed_by(corpus, "exact_duplicates")["code"]
    domain = corpus.manifest.domains["code"]
    assert (domain.read, domain.kept, removed.documents) == (250, 200, 50)
    assert removed.reasons == {"same as code": 50}
    assert corpus.state().duplicates_removed == 50
    assert len(removed.samples) == 10
    for sample in [sample for sample in removed.samples if sample.id]:  # the others are sealed
        place = int(sample.id.removeprefix("a.jsonl#"))
        assert sample.why == f"same text as a.jsonl#{place - 200}"
        assert sample.excerpt == variants[place - 200][:300]


def test_build_duplicates_across_domains_are_removed_too(tmp_path: Path) -> None:
    """D10."""
    for domain in WORDS:
        write_jsonl(tmp_path / "texts" / f"{domain}.jsonl", [*sentences(domain, 80), "Shared. "])
    corpus = build(corpus_config(), tmp_path)
    removed = removed_by(corpus, "exact_duplicates")
    assert {domain: of.reasons for domain, of in removed.items()} == {
        "code": {},
        "docs": {"same as code": 1},
        "math": {"same as code": 1},
    }


def test_build_empty_and_unencodable_documents_are_left_out_and_counted(tmp_path: Path) -> None:
    """D7: "" is handled."""
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"text": t}) + "\n" for t in ["", " \n", None, *sentences("code", 80)])
    )
    corpus = build(one_domain(), tmp_path)
    domain = corpus.manifest.domains["code"]
    assert (domain.read, domain.kept) == (83, 80)
    assert removed_by(corpus, "read")["code"].reasons == {"empty": 2, "no text": 1}


def test_build_long_documents_are_cut_and_counted(tmp_path: Path) -> None:
    long = "a line of code\n" * 20
    write_jsonl(tmp_path / "a.jsonl", [*sentences("code", 80), long])
    corpus = build(one_domain(max_document_bytes=200), tmp_path)
    domain = corpus.manifest.domains["code"]
    last = [entry for entry in documents(corpus) if entry["id"] == "a.jsonl#80"]
    assert [entry["num_bytes"] for entry in last] == [195]
    assert domain.cut >= 1
    total = sum(len(text) for text in [*sentences("code", 80), long])
    assert domain.kept_bytes + domain.cut_bytes == domain.read_bytes == total


def test_build_stops_at_max_bytes_and_says_whether_the_source_ended(tmp_path: Path) -> None:
    texts = sentences("code", 100)
    write_jsonl(tmp_path / "a.jsonl", texts)
    sources = {"code": {"source": "jsonl:a.jsonl", "max_bytes": sum(map(len, texts[:60])) - 5}}
    config = one_domain(sources=sources, tokenizer={"vocab_size": 280, "train_bytes": 9000})
    domain = build(config, tmp_path).manifest.domains["code"]
    assert (domain.kept, domain.exhausted) == (60, False)
    assert build(one_domain(), tmp_path).manifest.domains["code"].exhausted


@pytest.mark.parametrize(
    "change",
    [
        {"tokenizer": {"vocab_size": 301, "train_bytes": 30_000}},
        {"max_document_bytes": 10_000},
        {"splits": {"validation": 0.1, "test": 0.1, "salt": "other"}},
        {"name": "small@2"},
        {"sources": {"code": {"source": "jsonl:texts/code.jsonl", "max_bytes": 1000}}},
    ],
)
def test_fingerprint_of_any_other_configuration_differs(change: dict[str, Any]) -> None:
    """D6: nothing cached under one tokenizer or filter is used under another."""
    assert corpus_fingerprint(corpus_config(**change)) != corpus_fingerprint(corpus_config())


def test_fingerprint_of_builtin_text_depends_on_installed_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources = {"code": {"source": "builtin:code", "max_bytes": 1000}}
    before = corpus_fingerprint(one_domain(sources=sources))
    monkeypatch.setattr("platform.python_version", lambda: "3.99.0")
    assert corpus_fingerprint(one_domain(sources=sources)) != before


def test_second_build_reads_nothing_and_returns_the_same(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", sentences("code", 80))
    first = build(one_domain(), tmp_path)
    before = {p: p.stat().st_mtime_ns for p in first.folder.rglob("*")}
    told: list[str] = []
    second = build_corpus(
        one_domain(),
        root=tmp_path,
        corpora=tmp_path / "corpora",
        progress=lambda stage, share: told.append(stage),
    )
    assert second.fingerprint == first.fingerprint
    assert {p: p.stat().st_mtime_ns for p in first.folder.rglob("*")} == before
    assert told == ["ready"]


def test_second_build_after_a_file_changed_is_refused(tmp_path: Path) -> None:
    """D6: the same recipe over other text is another version, not the old cache."""
    write_jsonl(tmp_path / "a.jsonl", sentences("code", 80))
    build(one_domain(), tmp_path)
    write_jsonl(tmp_path / "a.jsonl", sentences("code", 81))
    with pytest.raises(ConflictError, match="small@2"):
        build(one_domain(), tmp_path)


def test_progress_never_goes_back_and_ends_at_one(lab: Path) -> None:
    told: list[tuple[str, float]] = []
    build_corpus(
        corpus_config(name="progress@1"),
        root=lab,
        corpora=lab / "progress",
        progress=lambda stage, share: told.append((stage, share)),
    )
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert told[-1] == ("ready", 1.0)
    assert {"reading code", "training the tokenizer"} <= {stage for stage, _ in told}


def test_build_that_fails_leaves_no_corpus_and_nothing_half_done(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", sentences("code", 5))
    with pytest.raises(InvalidFileError, match="no document in the"):
        build(one_domain(), tmp_path)
    assert [p.name for p in (tmp_path / "corpora").iterdir() if p.is_dir()] == [".stages"]
    assert list((tmp_path / "corpora").rglob(".building-*")) == []
    with pytest.raises(NotFoundError, match="not built"):
        open_corpus(one_domain(), tmp_path / "corpora")


def test_folder_is_named_after_recipe_and_fingerprint(tmp_path: Path) -> None:
    digest = corpus_fingerprint(corpus_config()).removeprefix("sha256:")
    assert corpus_folder(corpus_config(), tmp_path).name == f"small-v1-{digest[:16]}"


def test_build_documents_have_their_first_token_and_training_ones_their_entropy(
    corpus: Corpus,
) -> None:
    for split in ("train", "validation"):
        tokens = np.asarray(corpus.tokens(split, "docs"))
        index = corpus.documents(split, "docs")
        ends = np.flatnonzero(tokens == 0)
        assert index["start"].tolist() == [0, *(ends[:-1] + 1).tolist()]
        assert (index["entropy"] > 0).all() == (split == "train")
    ranked = corpus.documents("train", "docs")
    order = np.argsort(ranked["entropy"], kind="stable")
    assert (np.diff(ranked["rank"][order]) >= 0).all()
    assert 0 <= ranked["rank"].min() < 0.1 < 0.9 < ranked["rank"].max() < 1
    held_out = corpus.documents("validation", "docs")
    assert not held_out["entropy"].any()
    assert not held_out["rank"].any()


def test_build_composition_adds_up_to_the_shards(corpus: Corpus) -> None:
    for split, by_domain in corpus.manifest.shards.items():
        for domain, shard in by_domain.items():
            cells = [
                cell
                for cell in corpus.manifest.composition
                if (cell.split, cell.domain) == (split, domain)
            ]
            assert sum(cell.documents for cell in cells) == shard.documents
            assert sum(cell.bytes for cell in cells) == shard.bytes
            assert sum(cell.tokens for cell in cells) == shard.tokens
    entries = Counter((e["domain"], e["language"], e["split"]) for e in documents(corpus))
    assert entries == {
        (c.domain, c.language, c.split): c.documents for c in corpus.manifest.composition
    }


def test_build_counts_provenance_and_licences_of_what_is_kept(tmp_path: Path) -> None:
    rows = [{"text": text, "terms": "MIT"} for text in sentences("code", 60)]
    rows += [{"text": text, "terms": None} for text in sentences("docs", 30)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"source": "jsonl:a.jsonl", "max_bytes": 10_000_000, "licence_field": "terms"}
    domain = build(one_domain(sources={"code": source}), tmp_path).manifest.domains["code"]
    assert domain.licences == {"MIT": 60, "not stated": 30}
    assert domain.provenance == {"jsonl:a.jsonl": 90}
    assert [file.path for file in domain.files] == ["a.jsonl"]


@pytest.mark.slow
def test_build_of_builtin_text_needs_no_file_and_no_network(tmp_path: Path) -> None:
    config = corpus_config(
        sources={
            domain: {"source": f"builtin:{domain}", "max_bytes": 150_000}
            for domain in ("code", "docs", "math")
        },
        max_document_bytes=4000,
    )
    corpus = build(config, tmp_path)
    corpus.verify()
    assert not any(domain.exhausted for domain in corpus.manifest.domains.values())
    assert all(domain.licences for domain in corpus.manifest.domains.values())
    assert {"numpy", "python", "sympy"} <= set(corpus.state().builder)
    assert all(0.3 < share < 0.37 for share in corpus.natural_mixture().values())
