import math

import pytest

from workbench.data.filters.bands import Bands, bands_for
from workbench.errors import InvalidFileError


def by_trying_all(threshold: float, detection: float, num_hashes: int) -> Bands:
    """The obvious search over every pair of bands and rows, with a coarser area."""

    def area(num: int, rows: int) -> float:
        return sum(1 - (1 - (threshold * i / 4000) ** rows) ** num for i in range(4000))

    able = [
        (area(num, rows), num, rows)
        for rows in range(1, num_hashes + 1)
        for num in range(1, num_hashes // rows + 1)
        if 1 - (1 - threshold**rows) ** num >= detection
    ]
    _, num, rows = min(able)
    return Bands(num=num, rows=rows)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("detection", [0.9, 0.99])
@pytest.mark.parametrize("num_hashes", [32, 64])
def test_bands_compare_the_fewest_of_all_that_detect(
    threshold: float, detection: float, num_hashes: int
) -> None:
    found = bands_for(threshold=threshold, detection=detection, num_hashes=num_hashes)
    assert found == by_trying_all(threshold, detection, num_hashes)


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.7, 0.95, 0.999, 1.0])
@pytest.mark.parametrize("detection", [0.51, 0.9, 0.99, 0.9999])
def test_bands_detect_the_threshold_within_the_hashes(threshold: float, detection: float) -> None:
    found = bands_for(threshold=threshold, detection=detection, num_hashes=256)
    assert found.num_hashes <= 256
    assert found.detection(threshold) >= detection


def test_bands_of_the_published_threshold() -> None:
    found = bands_for(threshold=0.95, detection=0.99, num_hashes=256)
    assert found == Bands(num=12, rows=21)
    assert math.isclose(found.detection(0.95), 1 - (1 - 0.95**21) ** 12)


def test_bands_beyond_the_hashes_are_refused_with_the_number_needed() -> None:
    with pytest.raises(InvalidFileError, match=r"16 hashes .* 0\.1, 44 can") as refusal:
        bands_for(threshold=0.1, detection=0.99, num_hashes=16)
    assert "num_hashes to 44" in refusal.value.remedy
    assert bands_for(threshold=0.1, detection=0.99, num_hashes=44).num_hashes == 44
    with pytest.raises(InvalidFileError):
        bands_for(threshold=0.1, detection=0.99, num_hashes=43)


def test_detection_is_certain_for_equal_and_impossible_for_disjoint_sets() -> None:
    bands = Bands(num=12, rows=21)
    assert bands.detection(1) == 1
    assert bands.detection(0) == 0
