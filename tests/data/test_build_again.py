"""What a second build repeats, what a killed one leaves, and what it all takes."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.data.texts import WORDS, build, corpus_config, sentences, write_jsonl
from tests.disks import disk
from workbench.data.build import build_corpus
from workbench.data.corpus import Corpus, open_corpus
from workbench.errors import InvalidFileError, NotFoundError, StoreUnavailableError

ROOT = Path(__file__).parents[2]
STAGES = {"reading code", "language", "near duplicates", "contamination", "measuring words"}


def config(**changes: Any) -> Any:
    source = {"source": "jsonl:a.jsonl", "max_bytes": 10_000_000}
    plain = {"sources": {"code": source}, "near_duplicates": {"threshold": 0.8}}
    return corpus_config(**{**plain, **changes})


def told_by(one: Any, root: Path) -> tuple[Corpus, set[str]]:
    told: list[str] = []
    corpus = build_corpus(
        one, root=root, corpora=root / "corpora", progress=lambda stage, share: told.append(stage)
    )
    return corpus, set(told) & STAGES


@pytest.fixture
def built(tmp_path: Path) -> Corpus:
    write_jsonl(tmp_path / "a.jsonl", sentences("code", 120))
    corpus, stages = told_by(config(), tmp_path)
    assert stages == STAGES
    return corpus


@pytest.mark.parametrize(
    ("change", "again"),
    [
        ({"tokenizer": {"vocab_size": 301, "train_bytes": 30_000}}, set()),
        ({"name": "other@1"}, set()),
        ({"contamination": {"ngram": 5}}, {"contamination", "measuring words"}),
        (
            {"near_duplicates": {"threshold": 0.7}},
            {"near duplicates", "contamination", "measuring words"},
        ),
        ({"splits": {"validation": 0.1, "test": 0.1, "salt": "other"}},
         {"contamination", "measuring words"}),
        ({"language": {"score": 0.0}}, STAGES - {"reading code"}),
        ({"exclude": ["a.jsonl#7"]}, STAGES),
        ({"max_document_bytes": 300}, STAGES),
    ],
)  # fmt: skip
def test_changed_setting_repeats_its_stage_and_those_behind_it_only(
    built: Corpus, tmp_path: Path, change: dict[str, Any], again: set[str]
) -> None:
    """D6: another filter or tokenizer never finds the results of the first."""
    corpus, stages = told_by(config(**change), tmp_path)
    assert stages == again
    assert corpus.fingerprint != built.fingerprint
    keys = [[stage.key for stage in one.manifest.stages] for one in (built, corpus)]
    different = [before != after for before, after in zip(*keys, strict=True)]
    assert different == sorted(different)  # from the first that differs on, all do
    apart = build_corpus(
        config(**change), root=tmp_path, corpora=tmp_path / "apart", progress=lambda *_: None
    )
    assert apart.fingerprint == corpus.fingerprint


def test_exclusion_added_later_leaves_the_document_out_of_everything(
    built: Corpus, tmp_path: Path
) -> None:
    train = [
        entry["id"]
        for entry in map(json.loads, (built.folder / "documents.jsonl").read_text().splitlines())
        if entry["split"] == "train"
    ]
    corpus, _ = told_by(config(exclude=train[:1]), tmp_path)
    left = (corpus.folder / "documents.jsonl").read_text()
    assert f'"{train[0]}"' not in left
    assert f'"{train[1]}"' in left
    (record,) = [stage for stage in corpus.manifest.stages if stage.name == "read"]
    assert record.removed["code"].reasons == {"excluded by hand": 1}
    assert record.settings["exclude"] == train[:1]


def test_stage_that_would_wipe_a_source_out_stops_the_build(tmp_path: Path) -> None:
    texts = sentences("code", 20)
    variants = [f"{text.strip()} tail{number}\n" for text in texts for number in range(6)]
    write_jsonl(tmp_path / "a.jsonl", variants)
    with pytest.raises(InvalidFileError) as caught:
        build(config(), tmp_path)
    assert "near_duplicates would take" in str(caught.value)
    assert "'code', more than max_share_lost 0.5" in str(caught.value)
    assert str(caught.value).count("near-duplicate of code: ") == 3


@pytest.mark.slow
def test_build_is_the_same_for_any_number_of_workers(
    built: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = build_corpus(
        config(),
        root=tmp_path,
        corpora=tmp_path / "two",
        progress=lambda *_: None,
        workers=2,
    )
    assert corpus.fingerprint == built.fingerprint


def test_two_builds_at_once_make_one_corpus(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", sentences("code", 80))
    stages: list[str] = []
    both = threading.Barrier(2)

    def build_one() -> None:
        both.wait()
        build_corpus(
            config(),
            root=tmp_path,
            corpora=tmp_path / "corpora",
            progress=lambda stage, share: stages.append(stage),
        )

    threads = [threading.Thread(target=build_one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stages.count("training the tokenizer") == 1
    assert stages.count("ready") == 2
    open_corpus(config(), tmp_path / "corpora").verify()


KILLED = """
import os, signal, sys
from pathlib import Path
from workbench.data.build import build_corpus
from workbench.data.config import CorpusConfig

def progress(stage, share):
    if stage.startswith(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

config = CorpusConfig.model_validate_json(sys.argv[1])
root = Path(sys.argv[2])
build_corpus(config, root=root, corpora=root / "corpora", progress=progress)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "stage", ["reading math", "language", "near dup", "contamination", "measuring", "encoding math"]
)
def test_build_that_is_killed_leaves_nothing_that_loads(tmp_path: Path, stage: str) -> None:
    for domain in WORDS:
        write_jsonl(tmp_path / "texts" / f"{domain}.jsonl", sentences(domain, 80))
    one = corpus_config(near_duplicates={"threshold": 0.8})
    child = subprocess.run(
        [sys.executable, "-c", KILLED, one.model_dump_json(), str(tmp_path), stage],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    corpora = tmp_path / "corpora"
    assert list(corpora.rglob(".building-*")) != []
    with pytest.raises(NotFoundError):
        open_corpus(one, corpora)
    built = build(one, tmp_path)
    built.verify()
    assert list(corpora.rglob(".building-*")) == []
    apart = build_corpus(one, root=tmp_path, corpora=tmp_path / "b", progress=lambda *_: None)
    assert apart.fingerprint == built.fingerprint


@pytest.mark.parametrize("size", ["100k", "300k", "500k"])
def test_build_on_a_full_disk_is_a_refusal_and_goes_on_with_space(
    tmp_path: Path, size: str
) -> None:
    write_jsonl(tmp_path / "a.jsonl", sentences("code", 500))
    with disk(tmp_path / "corpora", f"size={size}"):
        with pytest.raises(StoreUnavailableError, match="full") as caught:
            build(config(), tmp_path)
        assert "free space" in caught.value.remedy
        assert list((tmp_path / "corpora").rglob(".building-*")) == []
        subprocess.run(["mount", "-o", "remount,size=64m", str(tmp_path / "corpora")], check=True)
        build(config(), tmp_path).verify()


PEAK = """
import resource, sys
from pathlib import Path
from workbench.data.build import build_corpus
from workbench.data.config import CorpusConfig

config = CorpusConfig.model_validate_json(sys.argv[1])
root = Path(sys.argv[2])
build_corpus(config, root=root, corpora=root / "corpora", progress=lambda *_: None)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_mb(root: Path, megabytes: int) -> float:
    """Build a corpus of about so much text in a process of its own."""
    root.mkdir()
    with (root / "a.jsonl").open("w") as file:
        for seed in range(megabytes):
            for text in sentences("docs", 4000, seed):
                file.write(json.dumps({"text": f"{seed} {text}"}) + "\n")
    run = subprocess.run(
        [sys.executable, "-c", PEAK, config().model_dump_json(), str(root)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        text=True,
    )
    return int(run.stdout) / 1024


@pytest.mark.slow
def test_build_of_sixty_times_the_text_takes_little_more_memory(tmp_path: Path) -> None:
    """Documents of 240 bytes, the worst case: what is held is held for each of them."""
    growth = peak_mb(tmp_path / "large", 60) - peak_mb(tmp_path / "small", 1)
    assert growth < 150
