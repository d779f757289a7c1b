"""Pages, opened in a browser: they sort, they follow the scheme, they ask nothing of the network."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

import grpcperf as gp
from grpcperf import report as pages
from grpcperf.sweep_page import page_of

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "chromium is not installed: make deps"
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield made
        made.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of 200 points, some of which are not valid."""

    def measure(point: Any) -> dict[str, Any]:
        rate = 1000.0 * point.connections * (2 if point.kind == "b" else 1) + point.size
        return {"throughput_rps": rate, "latency_p99_us": 1e5 / point.connections, "valid": point.size != 3}

    results = gp.Sweep(connections=[1, 2, 4, 8], kind=["a", "b"], size=range(25)).run(measure)
    return pages.write(page_of(results), tmp_path_factory.mktemp("page") / "sweep.html")


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": 1100, "height": 900})
    told: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: told.append(message.text))
    opened.on("pageerror", lambda error: told.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(file.as_uri())
    yield opened
    assert told == []
    assert [url for url in asked if not url.startswith("file:")] == []
    opened.close()


def column(page: Page, heading: str) -> list[str]:
    names = page.locator("thead th").all_inner_texts()
    at = next(number for number, name in enumerate(names, 1) if name.strip() == heading)
    return page.locator(f"tbody td:nth-child({at})").all_inner_texts()


def numbers(texts: list[str]) -> list[float]:
    return [float(text.replace(",", "")) for text in texts]


def test_a_click_on_a_heading_sorts(page: Page) -> None:
    page.get_by_role("button", name="calls/s").click()
    rising = numbers(column(page, "calls/s"))
    assert len(rising) == 200
    assert rising == sorted(rising)
    page.get_by_role("button", name="calls/s").click()
    assert numbers(column(page, "calls/s")) == sorted(rising, reverse=True)
    page.get_by_role("button", name="kind").click()
    assert column(page, "kind") == ["a"] * 100 + ["b"] * 100


def test_what_is_not_valid_is_marked(page: Page) -> None:
    assert page.locator("tr.amiss").count() == 8


def test_it_follows_the_scheme(page: Page) -> None:
    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    page.emulate_media(color_scheme="light")
    assert background() == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="dark")
    assert max(int(part) for part in re.findall(r"\d+", background())) < 64


def test_it_fits_a_narrow_window(page: Page) -> None:
    page.set_viewport_size({"width": 420, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


def test_it_is_one_small_file(file: Path) -> None:
    text = file.read_text()
    assert len(text) < 2 << 20
    assert text.count("<svg") == 2
    assert not re.search(r'(src|href)\s*=\s*["\']?(https?:)?//|@import|fetch\(', text)
