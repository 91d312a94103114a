"""The page of `surprise-rerank search --explain`, in a real browser."""

import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from click.testing import CliRunner
from helpers.browsers import Seen, find_browser, look_at

from surprise_rerank import Document, load_encoder
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.eval.cli.surprise_rerank.search import search
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.reports.writing import to_html

pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")

BROWSER = find_browser()
NEEDS_BROWSER = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
EVIL = "<script>document.title = 'pwned'</script><img src=x onerror=\"document.title='pwned'\">"
QUESTION = f"why do dogs bark {EVIL}"

# What a person would look for: tables, plots that can be seen, and columns that a click sorts.
LOOK = """
  const box = element => { const b = element.getBoundingClientRect(); return [b.width, b.height]; };
  const plots = [...page.querySelectorAll("figure svg")];
  const table = page.querySelectorAll("table")[0];
  const rows = () => [...table.tBodies[0].rows].map(row => row.cells[0].textContent);
  const before = rows();
  table.querySelector("thead button").click();
  return {
    title: page.title,
    headings: [...page.querySelectorAll("h2")].map(heading => heading.textContent),
    plots: plots.map(box),
    paths: plots.map(plot => Math.max(...[...plot.querySelectorAll("path")].map(p => box(p)[0]))),
    text: page.body.textContent,
    images: page.images.length,
    scripts: page.scripts.length,
    width: [page.documentElement.scrollWidth, page.documentElement.clientWidth],
    before: before,
    after: rows(),
    fetched: page.defaultView.performance.getEntriesByType("resource").map(entry => entry.name),
  };
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of hostile documents."""
    folder = tmp_path_factory.mktemp("page")
    words = ["dogs", "bark", "cats", "sleep", "wings", "night", "why", "do", "script", "img", "pwned"]
    model = folder / "words.txt"
    model.write_text("".join(f"{w} {(i * 7) % 5 - 2} {i % 3 - 1} {i / 10} 1\n" for i, w in enumerate(words)))
    rows = [
        Document(
            f"d{i}{EVIL if i == 1 else ''}", f"{words[i % 6]} {words[i % 4]} {EVIL}", title=f"Note {EVIL}"
        )
        for i in range(20)
    ]
    rows.append(Document("long", f"dogs bark {'x' * 3000}", title="y" * 3000))
    with DocumentIndex.open(folder / "index", load_encoder(str(model))) as index:
        index.sync(rows)
    file = folder / "page.html"
    arguments = [QUESTION, "--index", str(folder / "index"), "--explain", str(file), "--top", "21", "-q"]
    done = CliRunner().invoke(search, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert done.stdout == f"{file} explains the ranking\n"
    return file


def test_the_page_is_one_file_in_which_documents_are_text(page):
    soup = BeautifulSoup(page.read_text("utf-8"), "html.parser")
    assert len(soup.find_all("script")) == 1
    verdict = soup.find(class_="verdict").text
    assert re.search(r"Rank 1 is 'Note .*' \(\d+ by", verdict)
    assert len(soup.table.tbody.find_all("tr")) == 21
    assert not soup.find_all(["img", "link", "iframe", "object"])
    assert EVIL in soup.table.text
    assert soup.title.text.endswith(EVIL)
    assert (
        "default-src 'none'" in soup.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"]
    )


@pytest.fixture(scope="module")
def seen(page: Path) -> Seen:
    assert BROWSER is not None
    return look_at(BROWSER, page, LOOK)


@NEEDS_BROWSER
def test_a_browser_shows_tables_and_plots_and_runs_nothing_of_the_documents(seen):
    found_by_script = seen.result
    assert len(found_by_script["headings"]) >= 7
    assert len(found_by_script["plots"]) >= 3
    assert all(width > 300 and height > 100 for width, height in found_by_script["plots"])
    assert all(width > 100 for width in found_by_script["paths"])
    assert found_by_script["width"][0] <= found_by_script["width"][1], (
        "the page itself does not scroll sideways"
    )
    assert (seen.console, found_by_script["fetched"]) == ((), [])
    assert found_by_script["title"] == f"Why these documents: {QUESTION}"
    assert EVIL in found_by_script["text"]
    assert (found_by_script["images"], found_by_script["scripts"]) == (0, 1)
    # A click sorts.
    assert found_by_script["before"] == [str(rank) for rank in range(1, 22)]
    assert found_by_script["after"] == found_by_script["before"][::-1]


@NEEDS_BROWSER
def test_a_phone_shows_the_page_without_scrolling_sideways(page):
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        messages: list[str] = []
        for scheme in ("light", "dark"):
            tab = browser.new_page(viewport={"width": 360, "height": 700}, color_scheme=scheme)
            tab.on("console", lambda message: messages.append(message.text))
            tab.on("pageerror", lambda error: messages.append(str(error)))
            tab.goto(page.as_uri())
            assert tab.evaluate("document.documentElement.scrollWidth") == 360
            assert axe.Axe().run(tab).response["violations"] == []
        assert messages == []
        browser.close()


@NEEDS_BROWSER
def test_a_script_that_the_policy_does_not_know_is_refused_and_told(tmp_path):
    file = tmp_path / "page.html"
    text = to_html(Report("One", ()))
    file.write_text(text.replace("</body>", "<script>document.title = 'pwned'</script></body>"))
    assert BROWSER is not None
    seen = look_at(BROWSER, file, "return page.title;")
    assert seen.result == "One"
    assert any("Content Security Policy" in line for line in seen.console)
