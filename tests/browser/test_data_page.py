"""The report on a corpus as a reader's browser shows it."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.test_chronicle import browser, opened
from tests.reports.corpora import hostile_manifest, sample_manifest
from workbench.reports.dataset.facts import data_facts
from workbench.reports.site import write_data_report

__all__ = ["browser"]
pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_opens_without_a_request_a_complaint_or_sideways_scrolling(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    path, _ = write_data_report(data_facts(sample_manifest()), tmp_path)
    page, said = opened(browser, path, width=width, scheme=scheme)
    assert said == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shown = page.locator(".wide svg:visible" if width > 640 else ".narrow svg:visible").count()
    assert shown == 2
    page.close()


def test_hostile_text_of_a_corpus_runs_nothing_and_breaks_nothing(
    browser: Browser, tmp_path: Path
) -> None:
    path, _ = write_data_report(data_facts(hostile_manifest()), tmp_path)
    page, said = opened(browser, path, width=1280, scheme="light")
    assert said == []
    assert page.evaluate("window.hit") is None
    assert page.locator("script, img, iframe, object").count() == 0
    assert page.evaluate("document.querySelectorAll('main > section').length") == 11
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    page.close()
