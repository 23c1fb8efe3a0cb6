"""Brings a domain's distribution of classifier scores to that of a reference, not to an end.

1. Reference and corpus are halved by a hash of their text. A classifier of each half tells
   reference from corpus and scores the other half, so that no text is scored by a classifier that
   has seen it, and the two are treated alike.
2. Quantiles of the reference's scores bound the bins, in each half by itself.
3. A document of bin b is kept with a probability proportional to (reference's share of b) /
   (corpus's share of b), the greatest being 1 (rejection sampling, von Neumann 1951), decided by a
   hash of its text: neither the order of the documents nor the other domains have a say.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from workbench.canonical import Json
from workbench.data.building.stages import Rejected
from workbench.data.building.table import Table
from workbench.data.config import QualityConfig, ReferenceConfig
from workbench.data.filters.classifier import FEATURES, Classifier, HashedWords, trained
from workbench.data.filters.matching import (
    LEAST_P,
    Matching,
    area_under_curve,
    distance,
    matching,
    shares,
)
from workbench.data.filters.reference import (
    TRAINED_ON,
    Reference,
    Sample,
    draw_of,
    spooled_reference,
)
from workbench.data.manifest import StageName
from workbench.data.text.documents import EXCERPT, excerpt
from workbench.errors import InvalidFileError

LEAST_IN_BIN = 20
"""Documents a bin that the reference and the domain must have."""

_BATCH = 500
_T = TypeVar("_T")
_SCORED = np.dtype([("number", "<u8"), ("draw", "<f8"), ("score", "<f4"), ("half", "u1")])


class QualityStage:
    """Leaves text out where a domain has more of a kind than the reference.

    Args:
        config: reference, domains, bins, seed and limit.
        read_reference: returns the reference's texts, cut as the corpus's documents are.
    """

    name: StageName = "quality"
    keeps = ()

    def __init__(
        self,
        config: QualityConfig,
        *,
        read_reference: Callable[[ReferenceConfig], Iterator[str]],
    ) -> None:
        self.max_share_lost: float | None = config.max_share_lost
        self._config = config
        self._read_reference = read_reference
        self._words = HashedWords()
        self._findings: dict[str, Json] = {}

    def settings(self) -> dict[str, Json]:
        """Return what decides the stage's result, besides what stands in the reference's files."""
        return {
            "bins": self._config.bins,
            "classifier": "logistic regression of hashed words and pairs of words",
            "domains": sorted(self._config.domains),
            "excerpt": EXCERPT,
            "features": FEATURES,
            "least_p": LEAST_P,
            "reference": self._config.reference.model_dump(mode="json"),
            "scikit_learn": version("scikit-learn"),
            "seed": self._config.seed,
            "threads": 1,
            "trained_on": TRAINED_ON,
        }

    def rejects(
        self, table: Table, *, work: Path, progress: Callable[[float], None]
    ) -> Iterator[Rejected]:
        """Yield what is left out of each matched domain, in the table's order.

        Raises:
            InvalidFileError: the reference or a domain has fewer than `LEAST_IN_BIN` documents a
                bin.
        """
        progress(0.0)  # reading the reference takes its time
        texts = self._read_reference(self._config.reference)
        reference = spooled_reference(texts, work / "reference.jsonl", seed=self._config.seed)
        self._check_size("the reference " + repr(self._config.reference.source), reference.num)
        domains = sorted(self._config.domains)
        for place, domain in enumerate(domains):
            start, width = place / len(domains), 1 / len(domains)
            part = partial(_part_of, progress, start, width)
            yield from self._domain_rejects(table, domain, reference, part)
        progress(1.0)

    def findings(self) -> dict[str, Json]:
        """Return by domain how well a classifier tells it from the reference, and the bins."""
        return self._findings

    def _check_size(self, what: str, num: int) -> None:
        needed = LEAST_IN_BIN * self._config.bins
        if num >= needed:
            return
        fits = num // LEAST_IN_BIN
        fewer = f"set quality.bins to at most {fits}, or " if fits > 1 else ""
        raise InvalidFileError(
            f"quality: {what} has {num} documents, and {self._config.bins} bins need {needed}",
            remedy=f"{fewer}take more text (max_bytes), or leave the domain out of quality.domains",
        )

    def _domain_rejects(
        self,
        table: Table,
        domain: str,
        reference: Reference,
        progress: Callable[[float], None],
    ) -> Iterator[Rejected]:
        models = self._classifiers(table, domain, reference, progress)
        scored = self._reference_scores(reference, models)
        own = self._domain_scores(table, domain, models, progress)
        bins = self._config.bins
        edges = [np.quantile(scores, np.arange(1, bins) / bins) for scores in scored]
        reference_bins = [_bins(scored[half], edges[half]) for half in (0, 1)]
        own_bins = np.zeros(len(own), dtype=np.int64)
        for half in (0, 1):
            mine = own["half"] == half
            own_bins[mine] = _bins(own["score"][mine], edges[half])
        counts = np.bincount(np.concatenate(reference_bins), minlength=bins)
        found = matching(counts, np.bincount(own_bins, minlength=bins))
        kept = own["draw"] < found.acceptance[own_bins]
        auc = [area_under_curve(scored[h], own["score"][own["half"] == h]) for h in (0, 1)]
        finding = _finding(found, sum(auc) / 2, counts, own_bins, kept)
        self._findings[domain] = {"reference_digest": reference.digest, **finding}
        for place in np.flatnonzero(~kept).tolist():
            bin_number = int(own_bins[place])
            yield Rejected(
                domain=domain,
                number=int(own["number"][place]),
                reason=f"over-represented (bin {bin_number + 1} of {bins})",
                why=f"score {own['score'][place]:.2f}, "
                f"kept with probability {found.acceptance[bin_number]:.2f}",
            )

    def _classifiers(
        self,
        table: Table,
        domain: str,
        reference: Reference,
        progress: Callable[[float], None],
    ) -> tuple[Classifier, Classifier]:
        """Return the classifier for each half: the one that was trained on the other."""
        samples, num = (Sample(), Sample()), 0
        total = max(1, table.num_kept(domain))
        for row in table.rows(domain):
            draw = draw_of(row.digest, self._config.seed)
            samples[draw.half].add(draw.order, excerpt(row.text))
            num += 1
            progress(min(0.3, 0.3 * num / total))
        self._check_size(f"domain {domain!r}", num)
        models = [
            trained(self._words.of(wanted.texts()), self._words.of(other.texts()))
            for wanted, other in zip(reference.samples, samples, strict=True)
        ]
        return models[1], models[0]

    def _reference_scores(
        self, reference: Reference, models: tuple[Classifier, Classifier]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        found: tuple[list[NDArray[np.float32]], ...] = ([], [])
        for batch in _batches(reference.excerpts()):
            halves = np.array([half for half, _ in batch])
            scores = self._scores([text for _, text in batch], halves, models)
            for half in (0, 1):
                found[half].append(scores[halves == half])
        return np.concatenate(found[0]), np.concatenate(found[1])

    def _domain_scores(
        self,
        table: Table,
        domain: str,
        models: tuple[Classifier, Classifier],
        progress: Callable[[float], None],
    ) -> NDArray[np.void]:
        found, num = [], 0
        total = max(1, table.num_kept(domain))
        for batch in _batches(table.rows(domain)):
            draws = [draw_of(row.digest, self._config.seed) for row in batch]
            rows = np.zeros(len(batch), dtype=_SCORED)
            rows["number"] = [row.number for row in batch]
            rows["draw"] = [draw.keep for draw in draws]
            rows["half"] = [draw.half for draw in draws]
            rows["score"] = self._scores([excerpt(r.text) for r in batch], rows["half"], models)
            found.append(rows)
            num += len(batch)
            progress(min(1.0, 0.3 + 0.7 * num / total))
        return np.concatenate(found)

    def _scores(
        self, texts: list[str], halves: NDArray[np.integer], models: tuple[Classifier, Classifier]
    ) -> NDArray[np.float32]:
        rows = self._words.of(texts)
        return np.where(halves == 0, models[0].scores(rows), models[1].scores(rows)).astype("<f4")


def _part_of(progress: Callable[[float], None], start: float, width: float, share: float) -> None:
    progress(start + width * share)


def _bins(scores: NDArray[np.float32], edges: NDArray[np.float32]) -> NDArray[np.int64]:
    return np.searchsorted(edges, scores, side="right")


def _finding(
    found: Matching,
    auc: float,
    reference: NDArray[np.int64],
    own_bins: NDArray[np.int64],
    kept: NDArray[np.bool_],
) -> dict[str, Json]:
    before = np.bincount(own_bins, minlength=len(reference))
    after = np.bincount(own_bins[kept], minlength=len(reference))
    return {
        "reference_documents": int(reference.sum()),
        "documents": len(own_bins),
        "auc": auc,
        "p_equal": found.p_equal,
        "distance_before": distance(reference, before),
        "distance_after": distance(reference, after),
        "unmatched_bins": [place + 1 for place in found.unmatched],
        "bins": [
            {"reference": float(r), "before": float(b), "after": float(a), "acceptance": float(p)}
            for r, b, a, p in zip(
                shares(reference), shares(before), shares(after), found.acceptance, strict=True
            )
        ],
    }


def _batches(items: Iterable[_T]) -> Iterator[list[_T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, _BATCH)):
        yield batch
