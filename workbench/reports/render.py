"""Chronicles as HTML and Markdown. The one module that knows Jinja."""

import base64
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from workbench.reports.chronicle import Chronicle
from workbench.reports.dataset.page import DataPage
from workbench.reports.facts import Source
from workbench.reports.figures.canvas import Figure
from workbench.reports.index import Index
from workbench.reports.prose import prose_html, prose_markdown
from workbench.reports.quantities import calendar_day, clock_time

_SHEETS = ("palette.css", "figure.css", "page.css")
_SHOWN_RANGES = 3
_MARKDOWN = re.compile(r"[\\`*\[\]<>|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|&(?=[#A-Za-z])")
_BLOCK_START = re.compile(r"\A(\d*)(?:(?<=\d)([.)])(?=\s|\Z)|(?<!\d)([#+=-]))")
"""What would begin a heading or a list: a sign, or a number with a dot or bracket after it."""


def chronicle_html(chronicle: Chronicle) -> str:
    """Return one self-contained page: no script, no request, styles allowed by their hash."""
    return _html("chronicle.html.j2", _cite_html, chronicle=chronicle)


def chronicle_markdown(chronicle: Chronicle) -> str:
    """Return the chronicle as Markdown; its pictures are files beside it."""
    text = _markdown().get_template("chronicle.md.j2").render(chronicle=chronicle)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def index_html(index: Index) -> str:
    """Return the page that lists a lab's chronicles."""
    return _html("index.html.j2", partial(_cite_pages, index.pages), index=index)


def data_html(page: DataPage) -> str:
    """Return the report on a corpus: self-contained like a chronicle."""
    return _html("data.html.j2", _cite_html, sheets=(*_SHEETS, "data.css"), page=page)


def figure_file(figure: Figure) -> str:
    """Return the wide drawing as a file of its own, with its style inside."""
    style = _sheet("palette.css") + _sheet("figure.css")
    head, rest = figure.wide.split(">", 1)
    return f"{head}><style>{style}</style>{rest}\n"


def _html(
    template: str,
    cite: Callable[[Sequence[Source]], Markup],
    sheets: Sequence[str] = _SHEETS,
    **values: object,
) -> str:
    style = Markup("".join(_sheet(name) for name in sheets))  # noqa: S704  # our own files
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment = _environment(escaped=None)
    environment.filters.update(
        cite=cite,
        prose=lambda text: Markup(prose_html(text)),  # noqa: S704  # sanitised there
        svg=Markup,
    )
    page = environment.get_template(template)
    return page.render(style=style, style_hash=f"sha256-{digest}", **values)


def _markdown() -> Environment:
    environment = _environment(escaped=escape_markdown)
    environment.filters.update(
        cite=_cite_markdown,
        prose=lambda text: Markup(prose_markdown(text)),  # noqa: S704  # raw HTML is text there
        raw=Markup,
        fenced=_fenced,
        plain=lambda text: Markup(re.sub(r"[^\w:@./+-]", "", text)),  # noqa: S704  # no markup left
    )
    return environment


def _environment(escaped: Callable[[object], Markup] | None) -> Environment:
    environment = Environment(
        loader=PackageLoader("workbench.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=escaped,
    )
    environment.filters.update(day=calendar_day, clock=clock_time)
    return environment


def _sheet(name: str) -> str:
    return (files("workbench.reports") / "templates" / name).read_text(encoding="utf-8")


def escape_markdown(value: object) -> Markup:
    """Return a value as Markdown that shows it as it is; markup passes through."""
    if isinstance(value, Markup):
        return value
    text = " ".join(str(value).split("\n"))
    text = _BLOCK_START.sub(r"\1\\\2\3", _MARKDOWN.sub(lambda found: f"\\{found[0]}", text))
    return Markup(text)  # noqa: S704  # escaped for Markdown just above


def _fenced(text: str) -> Markup:
    """Return text as a code block whose fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}text\n{text.rstrip()}\n{fence}")  # noqa: S704  # shown verbatim


def ranges(sources: Sequence[Source]) -> list[tuple[Source, Source]]:
    """Return neighbouring entries as pairs of first and last."""
    found = sorted({source.sequence: source for source in sources}.items())
    pairs: list[tuple[Source, Source]] = []
    for sequence, source in found:
        if pairs and pairs[-1][1].sequence == sequence - 1:
            pairs[-1] = (pairs[-1][0], source)
        else:
            pairs.append((source, source))
    return pairs


def _shown(sources: Sequence[Source]) -> list[tuple[Source, Source]]:
    """Return the ranges to print: all of them, or one that spans them when they are many."""
    pairs = ranges(sources)
    return pairs if len(pairs) <= _SHOWN_RANGES else [(pairs[0][0], pairs[-1][1])]


def _numbers(first: Source, last: Source, dash: str) -> str:
    if first.sequence == last.sequence:
        return f"#{first.sequence}"
    return f"#{first.sequence}{dash}{last.sequence}"


def _cite_pages(pages: Mapping[str, str], sources: Sequence[Source]) -> Markup:
    """Return citations that lead to the chronicles in which the entries are.

    Of many chronicles the first and the last are linked, like of many ranges of entries.
    """
    by_page: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        by_page[pages[source.leaf]].append(source)
    found = [_cite_html(cited, page) for page, cited in by_page.items()]
    if len(found) <= _SHOWN_RANGES:
        return Markup(" ").join(found)
    between = Markup('<span class="cite">… in {} chronicles …</span>').format(len(found))
    return found[0] + between + found[-1]


def _cite_html(sources: Sequence[Source], page: str = "") -> Markup:
    if not sources:
        return Markup("")
    dash = "–" if len(ranges(sources)) <= _SHOWN_RANGES else " … "
    every = ", ".join(_numbers(first, last, "–") for first, last in ranges(sources))
    links = []
    for first, last in _shown(sources):
        hint = f"{first.kind} {first.id}" if first is last else f"Entries {every}"
        links.append(
            Markup('<a href="{}#e{}" title="{}">{}</a>').format(
                page, first.sequence, hint, _numbers(first, last, dash)
            )
        )
    return Markup('<span class="cite">{}</span>').format(Markup(" ").join(links))


def _cite_markdown(sources: Sequence[Source]) -> Markup:
    dash = "–" if len(ranges(sources)) <= _SHOWN_RANGES else " … "
    links = [f"[{_numbers(f, last, dash)}](#e{f.sequence})" for f, last in _shown(sources)]
    return Markup(" ".join(links))  # noqa: S704  # numbers and dashes alone
