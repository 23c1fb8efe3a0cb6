"""Text that every installation holds: real, written by people, in three domains, no download.

``code`` is the standard library; ``docs`` is the language reference that Python ships for
``help()`` and the docstrings, readme files and licences of the installed packages; ``math`` is
SymPy and mpmath. No file serves two domains, so that no domain's training text repeats another's
held-out text.

Documents come in the order of a hash of their names: packages are mixed, and neither the file
system nor the installation's place has a say.
"""

import ast
import hashlib
import importlib.metadata
import platform
import pydoc_data.topics
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from workbench.data.config import CorpusConfig, all_sources
from workbench.data.text.documents import Document
from workbench.errors import NotFoundError

DOMAINS = ("code", "docs", "math")

DOCUMENTED = (
    "cryptography",
    "datasets",
    "jinja2",
    "lightning",
    "markdown-it-py",
    "mlflow",
    "numpy",
    "optuna",
    "pydantic",
    "pydantic-settings",
    "rich",
    "ruamel.yaml",
    "scipy",
    "sqlalchemy",
    "tokenizers",
    "typer",
)
"""Packages behind ``docs``: direct dependencies whose text is the same on every platform."""

MATHEMATICAL = ("mpmath", "sympy")

_NOT_CODE = frozenset(
    {
        "__pycache__",
        "dist-packages",
        "distutils",
        "encodings",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "site-packages",
        "test",
        "tkinter",
        "turtledemo",
    }
)
"""Folders of the standard library that are tables, separately packaged, text of ``docs``, or
no part of it."""

_MACHINE = ("config-", "_sysconfigdata")
"""What holds the build settings of one machine begins so."""

_NOT_MATH = frozenset(["_antlr", "rubi", "benchmarks"])
"""Generated parsers and timing scripts."""

_PYTHON_LICENCE = "Python-2.0"

_PROSE = re.compile(
    r"(readme|licen[cs]e|copying|notice|authors|changelog|changes|history|contributing)"
    r"[a-z0-9._-]*\Z",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class _Lazy:
    """A document whose text is read when its turn comes."""

    id: str
    provenance: str
    licence: str
    text: Callable[[], str]


@dataclass(frozen=True, kw_only=True)
class _Package:
    """An installed distribution."""

    name: str
    """In snake_case."""
    version: str
    provenance: str
    licence: str
    distribution: importlib.metadata.Distribution

    def document(self, name: PurePosixPath, text: Callable[[], str]) -> _Lazy:
        return _Lazy(
            id=f"{self.name}/{name.as_posix()}",
            provenance=self.provenance,
            licence=self.licence,
            text=text,
        )

    def description(self) -> str:
        """The long description: what the package index shows."""
        return (self.distribution.read_text("METADATA") or "").partition("\n\n")[2]

    def files(self) -> Iterator[tuple[PurePosixPath, Path]]:
        """Installed files with names that do not change with the version."""
        for entry in self.distribution.files or []:
            parts = ["dist-info" if p.endswith(".dist-info") else p for p in entry.parts]
            if ".." not in parts:
                yield PurePosixPath(*parts), Path(str(entry.locate()))


def builtin_documents(domain: str) -> Iterator[Document]:
    """Yield the documents of a built-in domain; unreadable or empty ones are left out.

    Raises:
        NotFoundError: no such domain.
    """
    found = sorted(_listing(domain), key=lambda d: hashlib.sha256(d.id.encode()).digest())
    for lazy in found:
        text = lazy.text()
        if text.strip():
            yield Document(id=lazy.id, text=text, provenance=lazy.provenance, licence=lazy.licence)


def builtin_versions(domain: str) -> dict[str, str]:
    """Return the versions that decide a built-in domain's text, keys in snake_case.

    Raises:
        NotFoundError: no such domain.
    """
    _known(domain)
    versions = {} if domain == "math" else {"python": platform.python_version()}
    names = {"code": (), "docs": DOCUMENTED, "math": MATHEMATICAL}[domain]
    versions |= {package.name: package.version for package in _installed(names)}
    return versions


def text_versions(config: CorpusConfig) -> dict[str, str]:
    """Return what decides the built-in text of a corpus: versions of Python and of packages.

    That of the texts it is compared with too: a quality reference, evaluation sets.
    """
    found: dict[str, str] = {}
    for source in all_sources(config):
        kind, _, name = source.source.partition(":")
        if kind == "builtin":
            found |= builtin_versions(name)
    return dict(sorted(found.items()))


def _listing(domain: str) -> Iterator[_Lazy]:
    _known(domain)
    if domain == "code":
        yield from _standard_library()
        return
    if domain == "docs":
        yield from _help_topics()
        for package in _installed(DOCUMENTED):
            yield from _package_documentation(package)
        return
    for package in _installed(MATHEMATICAL):
        yield from _package_sources(package)


def _known(domain: str) -> None:
    if domain not in DOMAINS:
        raise NotFoundError(
            f"built-in text {domain!r} does not exist",
            remedy=f"use one of {', '.join(f'builtin:{name}' for name in DOMAINS)} in the recipe",
        )


def _snake(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower())


def _installed(names: tuple[str, ...]) -> Iterator[_Package]:
    for name in names:
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        yield _package(distribution)


def _package(distribution: importlib.metadata.Distribution) -> _Package:
    metadata = distribution.metadata  # parsed anew at each access
    stated = [metadata[field] for field in ("License-Expression", "License") if field in metadata]
    licence = next((text for text in stated if text.strip()), "licence in package")
    name, version = metadata["Name"], metadata["Version"]
    return _Package(
        name=_snake(name),
        version=version,
        provenance=f"{name} {version}",
        licence=licence.strip().splitlines()[0][:80],
        distribution=distribution,
    )


def _standard_library() -> Iterator[_Lazy]:
    folder = Path(sysconfig.get_path("stdlib"))
    provenance = f"Python {platform.python_version()}"
    for path in _code_files(folder):
        yield _Lazy(
            id=f"python/{path.relative_to(folder).as_posix()}",
            provenance=provenance,
            licence=_PYTHON_LICENCE,
            text=partial(_read, path),
        )


def _code_files(folder: Path) -> Iterator[Path]:
    # Not rglob: it would walk through every installed package to leave it out afterwards.
    for path in folder.iterdir():
        if path.name in _NOT_CODE or path.name.startswith(_MACHINE):
            continue
        if path.is_dir():
            yield from _code_files(path)
        elif path.suffix == ".py":
            yield path


def _help_topics() -> Iterator[_Lazy]:
    provenance = f"Python {platform.python_version()}"
    for name, text in pydoc_data.topics.topics.items():
        yield _Lazy(
            id=f"python/help/{name}",
            provenance=provenance,
            licence=_PYTHON_LICENCE,
            text=partial(str, text),
        )


def _package_sources(package: _Package) -> Iterator[_Lazy]:
    for name, path in package.files():
        if name.suffix == ".py" and _NOT_MATH.isdisjoint(name.parts):
            yield package.document(name, partial(_read, path))


def _package_documentation(package: _Package) -> Iterator[_Lazy]:
    yield package.document(PurePosixPath("METADATA"), package.description)
    for name, path in package.files():
        if name.suffix == ".py" and {"tests", "_vendor"}.isdisjoint(name.parts):
            yield package.document(name, partial(_docstrings, path))
        elif _PROSE.match(name.name) and name.suffix in ("", ".md", ".rst", ".txt"):
            yield package.document(name, partial(_prose, path))


def _read(path: Path) -> str:
    """Return the file's text, or nothing where it is gone or not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _prose(path: Path) -> str:
    # Licences differ between packages in their copyright lines only; without these the exact
    # deduplication sees that they are one text.
    lines = _read(path).splitlines(keepends=True)
    return "".join(line for line in lines if not line.strip().lower().startswith("copyright"))


def _docstrings(path: Path) -> str:
    """Return the file's docstrings, each under its name, as ``help()`` prints them."""
    try:
        with warnings.catch_warnings():
            # Other people's escape sequences must neither be reported nor, where warnings are
            # errors, change what the corpus holds.
            warnings.simplefilter("ignore")
            module = ast.parse(_read(path))
    except (SyntaxError, ValueError):
        return ""
    return "\n\n".join(_named_docstrings(module, path.stem))


_Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _named_docstrings(node: ast.Module | _Documented, name: str) -> Iterator[str]:
    docstring = ast.get_docstring(node)
    if docstring:
        yield f"{name}\n\n{docstring}\n"
    for child in node.body:
        if isinstance(child, _Documented):
            yield from _named_docstrings(child, f"{name}.{child.name}")
