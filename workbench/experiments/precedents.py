"""What this lab registered before that overlaps with a new question, and how it ended."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.canonical import Json
from workbench.errors import InvalidFileError
from workbench.proxies.recipe_file import parsed_full, parsed_recipe
from workbench.registry.entries import (
    Amendment,
    Document,
    Hidden,
    Promotion,
    Registration,
    RunStarted,
    SweepStarted,
    Verdict,
    Withdrawal,
)
from workbench.registry.log import Entry, LogSource
from workbench.registry.proposal import PLACEHOLDER

MOST = 5
"""Precedents that are named; the closest ones."""
ALIKE = 0.5
"""Shared part of the manipulated keys, or of the title's words, from which questions overlap."""
_STEM = 5
"""Letters that decide whether two words are one."""
_COMMON = frozenset(
    {"about", "after", "and", "are", "better", "does", "from", "have", "help", "into", "its"}
    | {"less", "more", "than", "that", "the", "their", "them", "this", "when", "which", "with"}
    | {"without", "would"}
)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What an experiment asks, as far as two of them can be compared."""

    title: str
    kind: str = ""
    manipulated: tuple[str, ...] = ()
    recipe: str = ""
    """``name@version``."""
    width: int | None = None
    """``model.d_model`` at full scale."""
    scales: tuple[str, ...] = ()
    seeds: int | None = None
    claim: str = ""
    metric: str = ""


@dataclass(frozen=True, kw_only=True)
class Precedent:
    """An earlier experiment that asked something alike."""

    experiment: str
    title: str
    state: str
    """``supported``, ``refuted``, ``inconclusive``, ``void``, ``withdrawn``, ``nothing promoted``,
    ``running``, ``registered`` or ``hidden``."""
    width: int | None
    seeds: int | None
    shared: tuple[str, ...]
    """Manipulated keys that both have."""
    differs: tuple[str, ...]
    """What is not the same, the new experiment's value first."""
    found: str
    """Estimate and bounds of its verdict, or why it was withdrawn or void; may be empty."""

    def headline(self) -> str:
        """Return ``overlaps 0009, refuted, d512, 3 seeds``."""
        parts = [f"overlaps {self.experiment[:4]}", self.state]
        parts += [f"d{self.width}"] if self.width else []
        parts += [f"{self.seeds} seeds"] if self.seeds else []
        return ", ".join(parts)


def precedents(source: LogSource, question: Question, *, but: str = "") -> tuple[Precedent, ...]:
    """Return the registered experiments that overlap with a question, the closest first.

    Withdrawn, void and hidden ones count, too. Two questions overlap when they share half of the
    manipulated keys (of the shorter list), the recipe's name, or half of the titles' words.

    Args:
        source: The log.
        question: What is asked now.
        but: The experiment itself.
    """
    found: list[tuple[float, int, Entry, Question]] = []
    for entry in source.entries(kind=Registration.kind):
        if entry.subject == but:
            continue
        earlier = _earlier(source, entry)
        closeness = _closeness(question, earlier)
        if closeness:
            found.append((-closeness, -entry.sequence, entry, earlier))
    closest = sorted(found, key=lambda item: item[:2])[:MOST]
    return tuple(_precedent(source, entry, question, earlier) for *_, entry, earlier in closest)


def question_of(
    frozen: Json, *, title: str = "", recipe: str = "", width: int | None = None
) -> Question:
    """Return the question of a proposal's values, typed or as the ledger froze them."""
    values = frozen if isinstance(frozen, Mapping) else {}
    design, measures = _below(values, "design"), _below(values, "measures")
    claim = str(_below(values, "decision").get("claim", ""))
    return Question(
        title=title or str(values.get("title", "")),
        kind=str(values.get("kind", "")),
        manipulated=tuple(map(str, design.get("manipulated") or ())),
        recipe=recipe,
        width=width,
        scales=tuple(map(str, design.get("scales") or ())),
        seeds=design.get("seeds"),
        claim="" if PLACEHOLDER in claim else claim,
        metric=str(_below(measures, "primary").get("metric", "")),
    )


def _below(values: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    value = values.get(key)
    return value if isinstance(value, Mapping) else {}


def _earlier(source: LogSource, entry: Entry) -> Question:
    """Return what was asked, with the newest amendment; of a hidden one only what its name says.

    Without the width: that takes long to read, and most experiments do not overlap.
    """
    body = _in_force(source, entry)
    if body is None:
        return Question(title=entry.subject[5:].replace("-", " "))
    title = entry.body.title if isinstance(entry.body, Registration) else ""
    return question_of(body.frozen, title=title, recipe=_identity(body.recipe))


def _in_force(source: LogSource, entry: Entry) -> Registration | Amendment | None:
    if not isinstance(entry.body, Registration):
        return None
    amended = source.entries(kind=Amendment.kind, subject=entry.subject)
    bodies = [later.body for later in amended if isinstance(later.body, Amendment)]
    return bodies[-1] if bodies else entry.body


def _identity(recipe: Document) -> str:
    named = re.search(r"(?m)^[{ ]*[\"']?recipe[\"']?: *[\"']?([a-z0-9-]+@[0-9]+)", recipe.text)
    return named[1] if named else ""


def _width_of(body: Registration | Amendment | None) -> int | None:
    if body is None:
        return None
    try:
        base = parsed_recipe(body.recipe.text, body.recipe.path)
        return parsed_full(body.full.text, body.full.path).config(base).model.d_model
    except (InvalidFileError, ValueError):
        return None  # registered by a version whose recipes this one does not read


def _closeness(new: Question, old: Question) -> float:
    """Return how close two questions are, 0 where they do not overlap."""
    mine, theirs = set(new.manipulated), set(old.manipulated)
    shared, either = len(mine & theirs), len(mine | theirs)
    shorter = min(len(mine), len(theirs))
    same_recipe = bool(new.recipe) and _stem(new.recipe) == _stem(old.recipe)
    title = _likeness(new.title, old.title)
    if not (same_recipe or title >= ALIKE or (shorter and shared / shorter >= ALIKE)):
        return 0.0
    same_kind = bool(new.kind) and new.kind == old.kind
    return (shared / either if either else 0.0) + title + 0.5 * same_recipe + 0.1 * same_kind


def _likeness(left: str, right: str) -> float:
    mine, theirs = _words(left), _words(right)
    return len(mine & theirs) / len(mine | theirs) if mine and theirs else 0.0


def _words(title: str) -> set[str]:
    words = re.findall(r"[^\W_]{3,}", title.lower())
    return {word[:_STEM] for word in words if word not in _COMMON}


def _stem(identity: str) -> str:
    return identity.partition("@")[0]


def _precedent(source: LogSource, entry: Entry, new: Question, old: Question) -> Precedent:
    state, found = _state(source, entry)
    old = replace(old, width=_width_of(_in_force(source, entry)))
    return Precedent(
        experiment=entry.subject,
        title=old.title,
        state=state,
        width=old.width,
        seeds=old.seeds,
        shared=tuple(key for key in new.manipulated if key in old.manipulated),
        differs=() if isinstance(entry.body, Hidden) else tuple(_differences(new, old)),
        found=found,
    )


def _state(source: LogSource, entry: Entry) -> tuple[str, str]:
    """Return how an experiment ended or where it is, and what was found."""
    bodies = [later.body for later in source.entries(subject=entry.subject)]
    given_up = next((body for body in bodies if isinstance(body, Withdrawal)), None)
    verdicts = [body for body in bodies if isinstance(body, Verdict)]
    if verdicts:
        return verdicts[-1].outcome, _finding(verdicts[-1])
    if given_up is not None:
        return "withdrawn", given_up.reason
    if isinstance(entry.body, Hidden):
        return "hidden", "its body is withheld or redacted"
    promotions = [
        body for body in bodies if isinstance(body, Promotion) and body.mode == "confirmatory"
    ]
    if promotions and promotions[-1].chosen == "none":
        return "nothing promoted", promotions[-1].reason
    begun = any(
        isinstance(body, SweepStarted | RunStarted) and body.mode == "confirmatory"
        for body in bodies
    )
    return ("running" if begun else "registered"), ""


def _finding(verdict: Verdict) -> str:
    if verdict.outcome == "void":
        return "; ".join(verdict.void_reasons)
    numbers = (verdict.estimate, verdict.lower, verdict.upper)
    known = [value for value in numbers if value is not None and math.isfinite(value)]
    if len(known) < 3:
        return ""
    estimate, lower, upper = known
    return f"improvement {estimate:+.4g} [{lower:+.4g}, {upper:+.4g}] in {verdict.metric}"


def _differences(new: Question, old: Question) -> Iterator[str]:
    more = [key for key in new.manipulated if key not in old.manipulated]
    less = [key for key in old.manipulated if key not in new.manipulated]
    if more:
        yield f"varies also {_listed(more)}"
    if less:
        yield f"does not vary {_listed(less)}"
    pairs = {
        "kind": (new.kind, old.kind),
        "recipe": (new.recipe, old.recipe),
        "width": (_width(new), _width(old)),
        "scales": (_listed(new.scales), _listed(old.scales)),
        "seeds": (new.seeds, old.seeds),
        "claim": (new.claim, old.claim),
        "metric": (new.metric, old.metric),
    }
    for name, (mine, theirs) in pairs.items():
        if mine and theirs and mine != theirs:
            yield f"{name} {mine}, there {theirs}"


def _width(question: Question) -> str:
    return f"d{question.width}" if question.width else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
