"""Stages and their settings in words."""

from collections.abc import Iterable, Mapping

from workbench.canonical import Json
from workbench.reports.dataset.facts import DataFacts, StageFacts
from workbench.reports.narrative import listed
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
NBSP = "\u00a0"
_LABELS = {
    "ngram": "words of an n-gram",
    "detection_at_threshold": "probability that a pair at the threshold is compared",
    "detection_0_1_below": "at 0.1 below",
    "detection_0_1_above": "at 0.1 above",
    "max_share_lost": "most that a source may lose",
}
_FIRST = ("threshold", "score", "ngram", "bands", "rows", *list(_LABELS)[1:4], "seed")
"""What decides most is told first."""
_MOST_CHARACTERS = 160
_SHORT = 20
"""Characters of a value that stays on a line with its name."""


def title(stage: str) -> str:
    """Return a stage's name as a heading."""
    return TITLES.get(stage, visible(stage.replace("_", " ").capitalize()))


def settings_in_words(values: Mapping[str, Json]) -> str:
    """Return settings or findings as ``key value; key value``.

    What is long is cut, and what is deeply nested is left to the JSON beside the page.
    """
    found = []
    elsewhere: dict[str, list[str]] = {}
    ordered = [key for key in _FIRST if key in values]
    for key in (*ordered, *(key for key in sorted(values) if key not in ordered)):
        value = values[key]
        label = visible(_LABELS.get(key, key.replace("_", " ")))
        if place := _where_it_is_whole(value):
            elsewhere.setdefault(place, []).append(label)
            continue
        shown = excerpt("none" if value in ({}, [], "") else plain(value), _MOST_CHARACTERS)
        found.append(f"{label}{' ' if len(shown) > _SHORT else NBSP}{shown}")
    found += [f"see {place} for: {listed(labels)}" for place, labels in elsewhere.items()]
    return "; ".join(found)


def _where_it_is_whole(value: Json) -> str:
    """Return where a reader finds a value that is too nested for a sentence; empty if it is not."""
    within = value.values() if isinstance(value, Mapping) else value
    if not isinstance(value, str) and isinstance(within, Iterable):
        return "data.json" if any(isinstance(item, Mapping) for item in within) else ""
    if isinstance(value, str) and value.startswith('{"'):
        return "the corpus’s manifest"
    return ""


def not_checked(facts: DataFacts) -> dict[str, str]:
    """Return, by domain whose source says the language of its prose, a sentence that says so."""
    config = facts.manifest.config
    rest = (
        "a document without one is identified" if config.language else "no language is identified"
    )
    return {
        domain: f"Labels as the source says in its column “{visible(column)}”; not checked by the "
        f"model, and no score applies to them ({rest})."
        for domain, column in config.labelled_by_source.items()
    }


def share_of(part: float, whole: float) -> str:
    """Return a share as per cent; a dash of nothing."""
    return percent(part / whole if whole else None)


def lost_in_words(stage: StageFacts) -> str:
    """Return the share of its bytes that a stage left out, with the stage's name."""
    share = share_of(stage.bytes_removed, stage.bytes_in - stage.bytes_cut)
    return f"{title(stage.name).lower()} {share}"
