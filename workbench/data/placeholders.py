"""PLACEHOLDER of this branch only: stages that other branches write. Delete when those are merged."""

from pathlib import Path
from typing import Any

import numpy as np

from workbench.canonical import Json
from workbench.data.encoding import Ordered, Split
from workbench.data.manifest import NGRAMS_NAME, Contamination, Heads, StageName, WordHead
from workbench.data.table import Table


class _Nothing:
    name: StageName
    max_share_lost: float | None = None

    def __init__(self, config: Any, **options: Any) -> None:
        self.config = config
        self.options = options

    def settings(self) -> dict[str, Json]:
        return self.config.model_dump(mode="json") if self.config is not None else {}

    def rejects(self, table: Any, *, work: Path, progress: Any) -> Any:
        yield from ()

    def findings(self) -> dict[str, Json]:
        return {}


class LanguageStage(_Nothing):
    name: StageName = "language"


class NearDuplicateStage(_Nothing):
    name: StageName = "near_duplicates"


class QualityStage(_Nothing):
    name: StageName = "quality"


class ContaminationStage(_Nothing):
    name: StageName = "contamination"

    def result(self) -> Contamination:
        config = self.config
        return Contamination(ngram=config.ngram, threshold=config.threshold, one_in=1, sets={})

    def write_ngrams(self, folder: Path) -> None:
        np.savez(folder / NGRAMS_NAME, hashes=np.empty(0, dtype=np.uint64))


def measured(table: Table, train: Split) -> tuple[dict[str, Heads], Ordered]:
    none = WordHead(words=0, share=0.0, count_error=0)
    heads = {d: Heads(read=none, kept=none, weighted={}) for d in table.domains}
    zeros = {d: np.zeros(int(train[d].sum()), dtype=np.float32) for d in table.domains}
    return heads, Ordered(entropy=zeros, rank=zeros)
