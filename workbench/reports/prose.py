"""The Markdown that people wrote, as a chronicle shows it."""

import re

import nh3
from markdown_it import MarkdownIt

_TAGS = {
    *("p", "br", "hr", "em", "strong", "code", "pre", "blockquote", "ul", "ol", "li", "a"),
    *("h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td", "del", "sup", "sub"),
}
_HEADING_SHIFT = 3
"""A proposal's first-level heading stands below the chronicle's third-level ones."""


def prose_html(markdown: str) -> str:
    """Return Markdown as HTML that can carry no script, style, image or form.

    Raw HTML in the source stays text; the result is sanitised once more.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(markdown)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            level = min(6, int(token.tag[1]) + _HEADING_SHIFT)
            token.tag = f"h{level}"
    rendered = parser.renderer.render(tokens, parser.options, {})
    return nh3.clean(
        rendered,
        tags=_TAGS,
        attributes={"a": {"href", "title"}},
        url_schemes={"https", "http", "mailto"},
        link_rel="noopener noreferrer",
    )


def prose_markdown(markdown: str) -> str:
    """Return the prose with headings below the chronicle's own and raw HTML as text."""
    lines: list[str] = []
    fenced = False
    for text in markdown.splitlines():
        fence = text.lstrip().startswith(("```", "~~~"))
        fenced ^= fence
        lines.append(text if fenced or fence else _moved(text))
    return "\n".join(lines)


def _moved(text: str) -> str:
    text = text.replace("<", "\\<")
    heading = re.match(r"(#{1,6})(?=\s)", text)
    if heading is None:
        return text
    level = min(6, len(heading[1]) + _HEADING_SHIFT)
    return "#" * level + text[len(heading[1]) :]
