import base64
import hashlib
import math
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from tests.reports.sample import (
    EXPERIMENT,
    PROPOSAL,
    MemoryLog,
    exploratory_log,
    front,
    sample_log,
)
from workbench.registry.entries import Body, Incident, Note, RunEnded, Trial
from workbench.reports.blocks import Picture
from workbench.reports.chronicle import Chronicle, chronicle
from workbench.reports.facts import experiment_facts
from workbench.reports.prose import prose_html, prose_markdown
from workbench.reports.render import (
    chronicle_html,
    chronicle_markdown,
    escape_markdown,
    figure_file,
    ranges,
)

HOSTILE = (
    "</title></style><script>window.hit=1</script><img src=x onerror=window.hit=1>'\"`|_*[x](y)"
)

SECTIONS = [
    "Status",
    "The registered question",
    "Lineage of attempts",
    "Timeline",
    "Curves",
    "Sweep accounting",
    "Decisions",
    "Deviations",
    "Incidents",
    "Forecast against result",
    "Verdict",
    "Negative results",
    "Cost by outcome",
    "Five disclosures",
    "Limitations",
    "Record",
]


class Page(HTMLParser):
    """Collects tags, attributes, identifiers and the links between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.open.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id" and value:
                self.ids.append(value)
            if name == "href" and value:
                self.links.append(value)

    def handle_endtag(self, tag: str) -> None:
        self.open.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def told(log: MemoryLog, subject: str = EXPERIMENT) -> Chronicle:
    return chronicle(experiment_facts(log, subject))


@pytest.fixture(scope="module")
def sample() -> Chronicle:
    return told(sample_log())


def test_chronicle_has_the_sections_in_their_order(sample: Chronicle) -> None:
    assert [section.title for section in sample.sections] == SECTIONS
    html, markdown = chronicle_html(sample), chronicle_markdown(sample)
    assert re.findall(r"<h2>(.*?)</h2>", html) == SECTIONS
    assert re.findall(r"^## (.*)$", markdown, re.MULTILINE) == SECTIONS


def test_same_ledger_gives_the_same_bytes() -> None:
    first, second = told(sample_log()), told(sample_log())
    assert chronicle_html(first) == chronicle_html(second)
    assert chronicle_markdown(first) == chronicle_markdown(second)


def test_every_citation_leads_to_an_entry_with_its_identifier(sample: Chronicle) -> None:
    html = chronicle_html(sample)
    page = Page(html)
    cited = {link for link in page.links if re.fullmatch(r"#e\d+", link)}
    assert len(cited) > 40
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    for entry in sample_log().found[1:]:
        assert entry.id in html
        assert entry.leaf in html


def test_identifiers_of_the_page_are_unique(sample: Chronicle) -> None:
    ids = Page(chronicle_html(sample)).ids
    assert len(ids) == len(set(ids))


def test_every_figure_names_its_entries(sample: Chronicle) -> None:
    pictures = [b for part in sample.sections for b in part.blocks if isinstance(b, Picture)]
    assert [p.figure.name for p in pictures] == [
        *("attempts", "loss", "validation", "sweep-confirmatory"),
        *("ladder", "forecast", "verdict", "costs"),
    ]
    assert all(picture.figure.sources for picture in pictures)


def test_page_is_self_contained_and_its_style_is_allowed_by_hash(sample: Chronicle) -> None:
    html = chronicle_html(sample)
    page = Page(html)
    assert not page.tags & {"script", "img", "link", "iframe", "object", "form", "base"}
    assert not {name for name in page.attributes if name.startswith("on") or name == "style"}
    assert not [link for link in page.links if not link.startswith("#")]
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    policy = re.search(r"sha256-([A-Za-z0-9+/=]+)", html)
    assert style is not None
    assert policy is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy[1] == digest
    assert "default-src 'none'" in html


def hostile_log() -> MemoryLog:
    log = sample_log(proposal=PROPOSAL + f"\n# {HOSTILE}\n\n{HOSTILE}\n\n<b>{HOSTILE}</b>\n")
    for kind, changes in _hostile_fields().items():
        log.replace_body(kind, **changes)
    log.append(Note(text=HOSTILE))
    return log


def _hostile_fields() -> dict[str, dict[str, Any]]:
    return {
        "genesis": {"lab": HOSTILE},
        "registration": {"title": HOSTILE, "environment": {"python": HOSTILE}},
        "trial": {"reason": HOSTILE, "metric": HOSTILE},
        "sweep_started": {"recipe": HOSTILE, "sampler": HOSTILE},
        "proxy_run": {"candidate": HOSTILE, "scale": HOSTILE},
        "promotion": {"rule": HOSTILE, "reason": HOSTILE, "chosen": HOSTILE},
        "forecast": {"assumptions": [HOSTILE], "method": HOSTILE},
        "run_started": {"run": HOSTILE, "arm": HOSTILE, "seed": HOSTILE},
        "run_ended": {"run": HOSTILE, "reason": HOSTILE},
        "decision": {"question": HOSTILE, "dissent": HOSTILE, "evidence": [HOSTILE]},
        "deviation": {"what": HOSTILE, "found": HOSTILE},
        "incident": {"excerpt": f"```\n{HOSTILE}", "symptom": HOSTILE, "category": HOSTILE},
        "verdict": {"action": HOSTILE, "metric": HOSTILE, "void_reasons": [HOSTILE]},
    }


def test_hostile_text_stays_text_in_html(sample: Chronicle) -> None:
    page = Page(chronicle_html(told(hostile_log())))
    clean = Page(chronicle_html(sample))
    assert not page.tags & {"script", "img"}
    assert page.tags <= clean.tags
    assert not {name for name in page.attributes if name.startswith("on")}
    assert "".join(page.words).count("window.hit=1</script>") > 20


def test_hostile_text_stays_text_in_markdown() -> None:
    markdown = chronicle_markdown(told(hostile_log()))
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    page = Page(rendered)
    assert "script" not in page.tags
    assert not {name for name in page.attributes if name.startswith("on")}
    pictures = re.findall(r'<img src="([^"]*)"', rendered)
    assert len(pictures) == rendered.count("<img")
    assert all(re.fullmatch(r"[a-z-]+\.svg", name) for name in pictures)
    elsewhere = [link for link in page.links if not re.fullmatch(r"#e\d+", link)]
    # The proposal's own prose keeps its three links; every other value is escaped.
    assert elsewhere == ["y", "y", "y"]
    assert "".join(page.words).count("window.hit=1</script>") > 20


def test_hostile_text_stays_text_in_figure_files() -> None:
    sections = told(hostile_log()).sections
    pictures = [b.figure for part in sections for b in part.blocks if isinstance(b, Picture)]
    assert pictures
    for figure in pictures:
        root = ElementTree.fromstring(figure_file(figure))
        names = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert not names & {"script", "img", "image", "foreignObject", "a"}


@pytest.mark.parametrize("width", ["wide", "narrow"])
def test_figures_are_well_formed_and_stay_inside_their_frame(sample: Chronicle, width: str) -> None:
    pictures = [b.figure for part in sample.sections for b in part.blocks if isinstance(b, Picture)]
    for figure in pictures:
        root = ElementTree.fromstring(getattr(figure, width))
        left, top, right, bottom = (float(n) for n in root.attrib["viewBox"].split())
        assert (left, top) == (0, 0)
        for element in root.iter():
            if element.tag.endswith("text"):
                assert -1 <= float(element.attrib["x"]) <= right
                assert 0 <= float(element.attrib["y"]) <= bottom
        assert "nan" not in getattr(figure, width)
        assert root.attrib["aria-label"]


@pytest.mark.parametrize(
    "last",
    [
        *("registration", "anchor", "sweep_started", "trial", "sweep_ended", "proxy_run"),
        *("promotion", "deviation", "forecast", "run_started", "run_ended", "incident"),
        *("decision", "exposure", "verdict"),
    ],
)
def test_chronicle_can_be_written_at_any_stage(last: str) -> None:
    log = sample_log()
    cut = next(i for i, entry in enumerate(log.found) if entry.kind == last)
    log.found = log.found[: cut + 1]
    page = told(log)
    assert [section.title for section in page.sections] == SECTIONS
    assert chronicle_html(page).count("<h2>") == len(SECTIONS)
    assert chronicle_markdown(page)


def test_exploratory_chronicle_is_watermarked_and_has_no_verdict() -> None:
    page = told(exploratory_log(), "recipe:mixture@1")
    html = chronicle_html(page)
    assert page.exploratory
    assert '<body class="exploratory">' in html
    assert "can never support a verdict" in html
    assert "can never support a verdict" in chronicle_markdown(page)


def test_unregistered_verdict_does_not_make_a_chronicle_look_decided() -> None:
    log = exploratory_log()
    verdict = next(e.body for e in sample_log().found if e.kind == "verdict")
    log.append(verdict, "recipe:mixture@1")
    page = told(log, "recipe:mixture@1")
    html = chronicle_html(page)
    assert page.state == "exploratory"
    assert "Exploratory verdict, which supports nothing" in html
    assert "Do not rely on this verdict" in html


def test_failed_audit_is_said_in_the_chronicle() -> None:
    log = sample_log()
    log.replace_body("verdict", estimate=0.5)
    assert "Do not rely on this verdict" in chronicle_html(told(log))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_non_finite_values_are_shown_and_never_drawn_or_read_as_zero(value: float) -> None:
    """B2, B10: a diverged trial and a diverged run stay what they are."""
    log = sample_log()

    def spoil(body: Body) -> Body:
        if isinstance(body, Trial) and body.number == 2:
            return body.model_copy(update={"value": value})
        if isinstance(body, RunEnded):
            curve = [*body.curve[:-1], body.curve[-1].model_copy(update={"loss": value})]
            return body.model_copy(update={"curve": curve})
        return body

    bodies = [(entry.kind, spoil(entry.body)) for entry in log.found]
    fresh = MemoryLog()
    for kind, body in bodies:
        fresh.append(body, "lab" if kind == "genesis" else EXPERIMENT)
    html = chronicle_html(told(fresh))
    assert "non-finite(" in html
    unmarked = re.sub(r"non-finite\([^)]*\)", "", html)
    assert not re.search(r'[="(, ](nan|inf)[",) ]', unmarked)


def test_incident_counts_towards_its_layer_and_is_numbered_in_the_curve(
    sample: Chronicle,
) -> None:
    html = chronicle_html(sample)
    assert "1. Process lost in treatment/seed-1" in html
    row = re.search(r"<td>operations</td>\s*<td class=\"n\">1</td>", html)
    assert row is not None


def test_incident_of_every_layer_is_counted() -> None:
    log = sample_log()
    incident = next(e.body for e in log.found if isinstance(e.body, Incident))
    for layer in ("objective", "architecture", "optimizer"):
        log.append(incident.model_copy(update={"layer": layer}))
    html = chronicle_html(told(log))
    for layer in ("objective", "architecture", "optimizer", "operations"):
        assert re.search(rf"<td>{layer}</td>\s*<td class=\"n\">1</td>", html)


def test_prose_keeps_its_structure_and_loses_what_is_dangerous() -> None:
    html = prose_html(
        "# One\n\n**bold** [bad](javascript:alert(1)) [good](https://example.org)\n\n"
        "<script>x</script>\n\n![i](https://example.org/x.png)\n\n| a |\n| - |\n| b |\n"
    )
    assert "<h4>One</h4>" in html
    assert "<strong>bold</strong>" in html
    assert '<a href="https://example.org" rel="noopener noreferrer">good</a>' in html
    assert "<table>" in html
    page = Page(html)
    assert not page.tags & {"script", "img"}
    assert page.links == ["https://example.org"]


def test_prose_in_markdown_moves_headings_but_not_code() -> None:
    text = prose_markdown("# One\n\n```\n# two <b>\n```\n<i>three")
    assert text == "#### One\n\n```\n# two <b>\n```\n\\<i>three"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("bpb_macro", "bpb_macro"),
        ("a|b", "a\\|b"),
        ("# title", "\\# title"),
        ("1. x", "1\\. x"),
        ("0.168 device-hours", "0.168 device-hours"),
        ("3) x", "3\\) x"),
        ("two\nlines", "two lines"),
        ("_x_", "\\_x\\_"),
        ("&lt;", "\\&lt;"),
    ],
)
def test_markdown_values_are_escaped_only_where_they_must_be(value: str, wanted: str) -> None:
    assert escape_markdown(value) == wanted


def test_ranges_join_neighbours() -> None:
    facts = experiment_facts(sample_log(), EXPERIMENT)
    sources = [source for found in facts.ends for source in found.sources]
    pairs = [(first.sequence, last.sequence) for first, last in ranges(sources)]
    assert pairs == [(n, n) for n, _ in pairs]
    assert facts.sweep is not None
    trials = [source for found in facts.sweep.trials for source in found.sources]
    assert [(a.sequence, b.sequence) for a, b in ranges(trials)] == [(4, 19)]


def test_question_is_told_in_the_words_of_the_proposal(sample: Chronicle) -> None:
    words = "".join(Page(chronicle_html(sample)).words)
    registered = front(PROPOSAL)
    hypothesis = registered["hypotheses"][0]
    for text in (hypothesis["statement"], *registered["threats_to_validity"]):
        assert text in words
