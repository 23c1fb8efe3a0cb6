"""The index page on how forecasts have done: each number with its entries, and the figure."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.reports import forecast_log as logs
from tests.reports.forecast_log import Story
from tests.reports.sample import MemoryLog
from tests.reports.test_hidden import hide
from tests.reports.test_render import Page
from workbench.reports.blocks import Lines, Paragraph, Picture, Section, Table
from workbench.reports.calibration import calibration_section
from workbench.reports.figures.reliability import reliability
from workbench.reports.scores import lab_scoreboard
from workbench.reports.site import all_facts, write_chronicles


def stories(num: int) -> list[Story]:
    return [Story(name=f"{place:04d}-x") for place in range(1, num + 1)]


def section_of(log: MemoryLog) -> Section:
    return calibration_section(lab_scoreboard(all_facts([log]).values()))


def open_experiment(log: MemoryLog) -> Story:
    story = Story(name="0099-open")
    logs.register(log, story)
    logs.promote(log, story)
    logs.forecast(log, story)
    return story


def test_every_number_of_the_section_names_its_entries() -> None:
    log = logs.log_of(stories(2))
    open_experiment(log)
    blocks = section_of(log).blocks
    for block in blocks:
        if isinstance(block, Table):
            assert all(row.sources for row in block.rows)
        elif isinstance(block, Lines):
            assert all(clause.sources for line in block.lines for clause in line.clauses)
        elif isinstance(block, Paragraph):
            numbered = [c for c in block.clauses if re.search(r"\d", c.text)]
            assert all(clause.sources for clause in numbered)
        elif isinstance(block, Picture):
            assert block.figure.sources
    assert [type(block).__name__ for block in blocks] == [
        "Paragraph", "Lines", "Paragraph", "Table", "Table", "Picture",
    ]  # fmt: skip


def test_row_cites_the_forecast_and_the_verdict_that_scored_it() -> None:
    log = logs.log_of(stories(1))
    table = next(block for block in section_of(log).blocks if isinstance(block, Table))
    assert [row.cells[0] for row in table.rows] == ["improvement", "treatment", "control"]
    assert [[s.kind for s in row.sources] for row in table.rows] == [["forecast", "verdict"]] * 3
    assert table.rows[0].cells[2].startswith("0\u202f% (0.0 to 97.5)")


@pytest.mark.parametrize(("num", "drawn"), [(1, False), (2, True)])
def test_reliability_is_drawn_from_two_forecasts_of_a_target_on(num: int, drawn: bool) -> None:
    boards = lab_scoreboard(all_facts([logs.log_of(stories(num))]).values()).boards
    assert (reliability(boards) is not None) == drawn


def test_figure_says_in_words_what_it_draws() -> None:
    boards = lab_scoreboard(all_facts([logs.log_of(stories(3))]).values()).boards
    figure = reliability(boards)
    assert figure is not None
    assert (
        "Of the improvement: 50\u202f% intervals held 0 of 3 (0\u202f% to 71\u202f%)" in figure.alt
    )
    for drawing in (figure.wide, figure.narrow):
        root = ElementTree.fromstring(drawing)
        _, _, right, bottom = (float(n) for n in root.attrib["viewBox"].split())
        texts = [e for e in root.iter() if e.tag.endswith("text")]
        assert all(0 <= float(e.attrib["x"]) <= right for e in texts)
        assert all(0 <= float(e.attrib["y"]) <= bottom for e in texts)
        # One a target and level, and one a target in the legend.
        assert sum(e.tag.endswith("circle") for e in root.iter()) == 3 * 3 + 3


def test_what_has_no_score_is_counted_and_cited() -> None:
    log = logs.log_of(stories(1))
    story = open_experiment(log)
    logs.begin(log, story)
    logs.add(log, logs.forecast_body(story, "improvement"), story)
    hide(log, [next(e.sequence for e in log.found if e.kind == "forecast")])
    quiet = next(b for b in section_of(log).blocks if isinstance(b, Paragraph) and b.quiet)
    assert [clause.text.replace("\xa0", " ") for clause in quiet.clauses] == [
        "Not scored:",
        "3 forecasts still open.",
        "1 forecast made after a full-scale run began.",
        "1 forecast with hidden content.",
    ]
    assert all(clause.sources for clause in quiet.clauses[1:])


def test_lab_without_forecasts_says_so() -> None:
    log = logs.empty_log()
    logs.register(log, Story(name="0001-a"))
    (block,) = section_of(log).blocks
    assert isinstance(block, Paragraph)
    assert block.clauses[0].text == "No forecast is scored yet."


@pytest.mark.parametrize("num", [1, 4])
def test_citations_of_the_index_lead_into_the_chronicles(num: int, tmp_path: Path) -> None:
    older = logs.log_of([Story(name="0001-old")])
    older.origin = "example.org/older"
    index, _ = write_chronicles(logs.log_of(stories(num)), tmp_path, before=[older])
    links = Page(index.read_text("utf-8")).links
    assert any("0001-old/" in link for link in links)
    pages = {link.partition("#")[0] for link in links}
    ids = {page: {"", *Page((tmp_path / page).read_text("utf-8")).ids} for page in pages}
    for link in links:
        page, _, anchor = link.partition("#")
        assert anchor in ids[page]


def test_many_chronicles_are_cited_by_the_first_and_the_last(tmp_path: Path) -> None:
    index, _ = write_chronicles(logs.log_of(stories(5)), tmp_path)
    text = index.read_text("utf-8")
    assert "… in 5 chronicles …" in text
    assert "0003-x/chronicle.html#" not in text.partition('id="calibration"')[2]
