"""Sentences whose numbers cite the ledger."""

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.reports.facts import Source


@dataclass(frozen=True, kw_only=True)
class Clause:
    """A piece of a sentence, followed by the entries that it rests on."""

    text: str
    sources: tuple[Source, ...] = ()
    code: str = ""
    """A hash or path set in a fixed pitch after the text."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A labelled sentence."""

    label: str
    clauses: tuple[Clause, ...]

    @property
    def text(self) -> str:
        """The sentence without its citations."""
        return " ".join(f"{clause.text} {clause.code}".strip() for clause in self.clauses)


def line(label: str, *clauses: Clause) -> Line:
    """Return a line of the clauses."""
    return Line(label=label, clauses=clauses)


def clause(text: str, sources: Sequence[Source] = (), *, code: str = "") -> Clause:
    """Return a clause."""
    return Clause(text=text, sources=tuple(sources), code=code)


def listed(words: Sequence[str], last: str = "and") -> str:
    """Return ``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def sentence(text: str) -> str:
    """Return the text with a full stop, and a capital unless it begins with an identifier."""
    text = text.strip()
    if not text:
        return text
    if text.split()[0].rstrip(",;:").isalpha():
        text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?…:" else f"{text}."
