"""The course as static pages, read as files and from a web server, on a wide screen and on a phone."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nbformat
import pytest
from contrast import FAINT
from playwright.sync_api import Page

from course_utils.tools.run import ROOT, chapters

pytestmark = pytest.mark.all
BUILD = """
import sys
from pathlib import Path
from course_utils.tools import site
print(site.build(site.ROOT, Path(sys.argv[1])))
"""
# What of the page goes over the edge, what of it can't be read, and which pictures did not come
MEASURE = (
    "() => {"
    + FAINT
    + """
    const article = document.querySelector("article, .bd-search-container");
    const edge = document.documentElement.clientWidth + 1;
    const scrolls = (part) => part && part !== article.parentElement &&
        (getComputedStyle(part).overflowX !== "visible" || scrolls(part.parentElement));
    const over = [], formulas = [];
    for (const part of article.querySelectorAll("*")) {
        const box = part.getBoundingClientRect();
        if (box.width && box.right > edge && !scrolls(part)) over.push(part.outerHTML.slice(0, 80));
        if (part.closest("p, li, td, h1, h2, h3") && !part.closest("code, pre, .cell_output") &&
            part.checkVisibility() && [...part.childNodes].some(
                (node) => node.nodeType === 3 && /\\$[^$]+\\$/.test(node.data)))
            formulas.push(part.outerHTML.slice(0, 80));
    }
    const pictures = [...article.querySelectorAll("img")].filter((image) => !image.naturalWidth);
    return {
        wide: Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth),
        over, formulas,
        faint: faint([...article.querySelectorAll(":not(a.headerlink, a.headerlink *)")]),
        missing: pictures.map((image) => image.alt),
    };
}"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the whole course's site, as the command makes it."""
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-c", BUILD, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{folder / 'index.html'}\n"
    assert done.stderr == ""
    return folder


@pytest.fixture(scope="module")
def server(site: Path) -> Iterator[str]:
    """The site on a web server, below its root."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = partial(Quiet, directory=str(site.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}/site"
        serving.shutdown()


def test_every_chapter_is_there_with_its_pictures_and_formulas(site: Path) -> None:
    index = (site / "index.html").read_text("utf-8")
    for path in chapters([]):
        nb = nbformat.read(path, 4)
        page = (site / "notebooks" / f"{path.stem}.html").read_text("utf-8")
        outputs = [output for cell in nb.cells for output in cell.get("outputs", [])]
        assert page.count("<h1>") == 1
        assert page.count("_images/") == sum("image/png" in output.get("data", {}) for output in outputs)
        assert page.count('display="block"') == sum(cell.source.count("$$") for cell in nb.cells) // 2
        assert page.count('class="cell-name"') == sum(cell.cell_type == "code" for cell in nb.cells)
        assert index.count(f'href="notebooks/{path.stem}.html"') >= 2  # in the table and in the navigation


def test_every_page_fits_and_can_be_read(site: Path, page: Page) -> None:
    found = sorted(site.rglob("*.html"))
    assert len(found) > len(chapters([])) + 4
    for path in found:
        page.goto(path.as_uri())
        for width, theme in ((1280, "light"), (390, "light"), (390, "dark"), (1280, "dark")):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=theme)
            page.wait_for_function(f"document.documentElement.dataset.theme === '{theme}'")
            seen = page.evaluate(MEASURE)
            wrong = {name: value for name, value in seen.items() if value}
            assert not wrong, f"{path.relative_to(site)}, {width} pixels, {theme}"


@pytest.mark.parametrize("way", ["file", "server"])
def test_search_finds_a_term_and_leads_to_it(site: Path, server: str, page: Page, way: str) -> None:
    page.goto(f"{server}/index.html" if way == "server" else (site / "index.html").as_uri())
    page.keyboard.press("Control+k")
    page.keyboard.type("reduce-scatter")
    page.keyboard.press("Enter")
    results = page.locator("#search-results li a")
    results.first.wait_for(timeout=20_000)
    page.wait_for_function("document.querySelector('.search-summary')?.textContent.includes('found')")
    links = [link.get_attribute("href") or "" for link in results.all()]
    collectives = next(link for link in links if "notebooks/04_collectives.html" in link)
    page.locator(f"#search-results a[href='{collectives}']").first.click()
    page.wait_for_url("**/04_collectives.html*")
    assert "reduce-scatter" in page.locator("article").inner_text()


def test_the_way_leads_from_chapter_to_chapter(server: str, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{server}/index.html")
    for path in chapters([]):
        page.locator("a.right-next").click()
        page.wait_for_url(f"**/notebooks/{path.stem}.html")
    page.locator("button.primary-toggle").click()  # the navigation on a phone
    page.locator("#pst-primary-sidebar-modal a", has_text="05 ·").click()
    page.wait_for_url("**/notebooks/05_ddp.html")
    page.locator("article a[href='04_collectives.html']").first.click()
    page.wait_for_url("**/notebooks/04_collectives.html")
