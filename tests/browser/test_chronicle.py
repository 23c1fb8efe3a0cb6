"""The chronicle as a reader's browser shows it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.reports.sample import EXPERIMENT
from tests.reports.test_render import hostile_log, sample_log
from workbench.reports.site import write_chronicles

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("needs chromium (apt-get install chromium)")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("reports")
    write_chronicles(sample_log(), root / "plain")
    write_chronicles(hostile_log(), root / "hostile")
    return root


def opened(browser: Browser, path: Path, *, width: int, scheme: str) -> tuple[Page, list[str]]:
    page = browser.new_page(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url))
    page.goto(path.as_uri())
    return page, [line for line in said if line != path.as_uri()]


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chronicle_opens_without_a_request_a_complaint_or_sideways_scrolling(
    browser: Browser, folder: Path, width: int, scheme: str
) -> None:
    path = folder / "plain" / EXPERIMENT / "chronicle.html"
    page, said = opened(browser, path, width=width, scheme=scheme)
    assert said == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    shown = page.locator(".wide svg:visible" if width > 640 else ".narrow svg:visible").count()
    assert shown == 8
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    dark = sum(int(part) for part in background.strip("rgb()").split(",")) < 380
    assert dark is (scheme == "dark")
    page.close()


def test_hostile_words_run_nothing_and_break_nothing(browser: Browser, folder: Path) -> None:
    path = folder / "hostile" / EXPERIMENT / "chronicle.html"
    page, said = opened(browser, path, width=1280, scheme="light")
    assert said == []
    assert page.evaluate("window.hit") is None
    assert page.locator("script, img, iframe, object").count() == 0
    assert page.locator("h1").inner_text().startswith("</title></style><script>")
    assert page.evaluate("document.querySelectorAll('main > section').length") == 16
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    page.close()


def test_text_is_legible_in_both_schemes(browser: Browser, folder: Path) -> None:
    """WCAG 2.2, success criterion 1.4.3: contrast of at least 4.5 for words."""
    path = folder / "plain" / EXPERIMENT / "chronicle.html"
    for scheme in ("light", "dark"):
        page, _ = opened(browser, path, width=1280, scheme=scheme)
        names = ["--ink", "--muted", "--link", "--control-ink", "--treatment", "--alert"]
        colours = page.evaluate(
            "names => names.concat('--paper').map(n => "
            "getComputedStyle(document.documentElement).getPropertyValue(n).trim())",
            names,
        )
        paper = _luminance(colours[-1])
        for name, colour in zip(names, colours, strict=False):
            high, low = sorted([_luminance(colour), paper], reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (scheme, name, colour)
        page.close()


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_print_opens_what_is_folded_on_screen(browser: Browser, folder: Path) -> None:
    path = folder / "plain" / EXPERIMENT / "chronicle.html"
    page, _ = opened(browser, path, width=794, scheme="dark")
    hidden = page.locator(".entries li").first
    assert not hidden.is_visible()
    page.emulate_media(media="print")
    assert page.evaluate("document.querySelector('.entries li').getBoundingClientRect().height") > 5
    assert not page.locator("nav").is_visible()
    ink = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--ink')")
    assert ink.strip() == "#1d1f22"
    page.close()
