"""Stages and their settings in words."""

from collections.abc import Mapping

from workbench.canonical import Json
from workbench.reports.dataset.facts import StageFacts
from workbench.reports.quantities import percent, plain
from workbench.reports.untrusted import excerpt, visible

TITLES = {
    "read": "Reading",
    "exact_duplicates": "Exact duplicates",
    "language": "Language",
    "near_duplicates": "Near-duplicates",
    "quality": "Quality matching",
    "contamination": "Contamination",
}
WHAT_IT_DOES = {
    "read": "Empty texts and documents excluded by hand are left out; longer documents than the "
    "limit are cut at a line end.",
    "exact_duplicates": "Of texts that are equal after NFKC, lower case and white-space folding, "
    "the first is kept.",
    "language": "Prose whose language is not told with the least probability, or is not wanted, is "
    "left out; code and mathematics are exempt.",
    "near_duplicates": "MinHash over n-grams of words finds candidates within one language; the "
    "similarity of each pair is then computed, and of a pair at or above the threshold the longer "
    "document is kept.",
    "quality": "A light classifier’s scores are brought to the distribution of a reference; "
    "nothing is cut off at one end.",
    "contamination": "N-grams of words of every evaluation set are looked for in the training "
    "text.",
}
_MOST_CHARACTERS = 160
_NOT_MEASURED = "not recorded"


def title(stage: str) -> str:
    """Return a stage's name as a heading."""
    return TITLES.get(stage, visible(stage.replace("_", " ").capitalize()))


def settings_in_words(values: Mapping[str, Json]) -> str:
    """Return settings or findings as ``key value, key value``; a long one is cut.

    The whole of it is in the JSON beside the page.
    """
    found = []
    for key, value in values.items():
        text = plain(value) if value not in ({}, [], "") else "none"
        found.append(f"{visible(key.replace('_', ' '))}\u00a0{excerpt(text, _MOST_CHARACTERS)}")
    return "; ".join(found)


def share_of(part: float, whole: float) -> str:
    """Return a share as per cent; a dash of nothing."""
    return percent(part / whole if whole else None)


def lost_in_words(stage: StageFacts) -> str:
    """Return the share of its bytes that a stage left out, with the stage's name."""
    return f"{title(stage.name).lower()} {share_of(stage.bytes_removed, stage.bytes_in)}"
