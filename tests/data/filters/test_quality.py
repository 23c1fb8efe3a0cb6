import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.data.tables import rejected, written_table
from workbench.data.building.stages import Rejected
from workbench.data.config import QualityConfig, ReferenceConfig
from workbench.data.filters.quality import QualityStage
from workbench.errors import InvalidFileError

TOPICS = {
    "sea": [
        f"{first}{last}" for first in ("wave", "tide", "sail", "reef") for last in "abcdefghij"
    ],
    "sky": [
        f"{first}{last}" for first in ("star", "moon", "wind", "rain") for last in "abcdefghij"
    ],
}


def texts(seed: int, **numbers: int) -> list[str]:
    generator = random.Random(seed)
    both = [
        f"{topic} " + " ".join(generator.choices(TOPICS[topic] + ["and", "the", "of"] * 5, k=20))
        for topic, number in numbers.items()
        for _ in range(number)
    ]
    generator.shuffle(both)
    return both


def stage(reference: list[str], **changes: Any) -> QualityStage:
    plain: dict[str, Any] = {
        "reference": {"source": "text:reference", "max_bytes": 10**9},
        "domains": ["docs"],
        **changes,
    }

    def read(config: ReferenceConfig) -> Iterator[str]:
        assert config.source == "text:reference"
        return iter(reference)

    return QualityStage(QualityConfig.model_validate(plain), read_reference=read)


def left_out(one: QualityStage, held: list[str], folder: Path) -> list[Rejected]:
    table = written_table(folder / "table", {"docs": held, "other": ["never looked at"]})
    return list(rejected(one, table, folder / "work"))


def test_quality_stage_brings_the_proportions_to_those_of_the_reference(tmp_path: Path) -> None:
    held = texts(1, sea=800, sky=200)
    one = stage(texts(2, sea=600, sky=600), bins=10)
    out = {r.number for r in left_out(one, held, tmp_path)}
    kept = Counter(text[:3] for number, text in enumerate(held) if number not in out)
    # Within a bin the corpus keeps its own proportions, and one bin lies between the topics.
    assert kept["sea"] / kept["sky"] == pytest.approx(1, abs=0.3)
    found = one.findings()["docs"]
    assert found["distance_before"] == pytest.approx(0.3, abs=0.05)
    assert found["distance_after"] < 0.08
    assert found["unmatched_bins"] == []
    assert 0.6 < found["auc"] < 0.75
    assert sum(b["before"] for b in found["bins"]) == pytest.approx(1)
    assert max(b["acceptance"] for b in found["bins"]) == 1


def test_quality_stage_says_which_bin_and_score_left_a_document_out(tmp_path: Path) -> None:
    one = stage(texts(2, sea=100, sky=300), bins=2)
    out = left_out(one, texts(1, sea=400, sky=100), tmp_path)
    assert {r.domain for r in out} == {"docs"}
    assert {r.reason for r in out} == {"over-represented (bin 1 of 2)"}
    assert all(r.why.startswith("score 0.") for r in out)
    probability = one.findings()["docs"]["bins"][0]["acceptance"]
    assert all(r.why.endswith(f"kept with probability {probability:.2f}") for r in out)


def test_quality_stage_corpus_like_its_reference_loses_nothing(tmp_path: Path) -> None:
    one = stage(texts(2, sea=300, sky=300))
    assert left_out(one, texts(1, sea=300, sky=300), tmp_path) == []
    assert 0.4 < one.findings()["docs"]["auc"] < 0.6


def test_quality_stage_corpus_that_is_its_reference_loses_nothing(tmp_path: Path) -> None:
    same = texts(1, sea=300, sky=100)
    one = stage(same)
    assert left_out(one, same, tmp_path) == []
    assert one.findings()["docs"]["distance_before"] == 0


def test_quality_stage_lacking_topic_is_reported_as_unmatched(tmp_path: Path) -> None:
    one = stage(texts(2, sea=200, sky=200))
    left_out(one, texts(1, sea=400), tmp_path)
    # Half of the reference is of the other topic; the bin at the border holds both.
    assert one.findings()["docs"]["unmatched_bins"] in ([6, 7, 8, 9, 10], [7, 8, 9, 10])


def test_quality_stage_result_depends_neither_on_order_nor_on_repetition(tmp_path: Path) -> None:
    held = texts(1, sea=300, sky=100)
    wanted = texts(2, sea=150, sky=150)

    def out_of(texts_in_order: list[str], reference: list[str], name: str) -> set[str]:
        found = left_out(stage(reference, bins=4), texts_in_order, tmp_path / name)
        assert [r.number for r in found] == sorted(r.number for r in found)
        return {texts_in_order[r.number] for r in found}

    forward = out_of(held, wanted, "forward")
    assert len(forward) > 50
    assert out_of(held, wanted, "again") == forward
    assert out_of(held[::-1], wanted[::-1], "backward") == forward


def test_quality_stage_seed_draws_other_documents(tmp_path: Path) -> None:
    held, wanted = texts(1, sea=300, sky=100), texts(2, sea=150, sky=150)
    one, other = stage(wanted, bins=4), stage(wanted, bins=4, seed=2)
    numbers = [{r.number for r in left_out(s, held, tmp_path)} for s in (one, other)]
    assert numbers[0] != numbers[1]
    assert one.settings() != other.settings()


def test_quality_stage_too_small_reference_is_refused_with_the_bins_that_fit(
    tmp_path: Path,
) -> None:
    one = stage(texts(2, sea=150))
    with pytest.raises(InvalidFileError) as refusal:
        left_out(one, texts(1, sea=300), tmp_path)
    assert "the reference 'text:reference' has 150 documents, and 10 bins need 200" in str(
        refusal.value
    )
    assert "set quality.bins to at most 7" in refusal.value.remedy


def test_quality_stage_too_small_domain_is_refused(tmp_path: Path) -> None:
    one = stage(texts(2, sea=300), bins=2)
    with pytest.raises(
        InvalidFileError, match="domain 'docs' has 39 documents, and 2 bins need 40"
    ):
        left_out(one, texts(1, sea=39), tmp_path)


def test_quality_stage_settings_are_what_decides() -> None:
    settings = stage([]).settings()
    assert settings["bins"] == 10
    assert settings["reference"]["source"] == "text:reference"
    assert settings != stage([], bins=9).settings()
    assert stage([], max_share_lost=0.2).max_share_lost == 0.2
    # The limit stops a build; it does not change what is left out.
    assert settings == stage([], max_share_lost=0.2).settings()
