"""The page to search in, in a real browser: clicks, keys, hostile texts, other hosts, and what axe finds."""

import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")
pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")

from axe_playwright_python.sync_playwright import Axe
from helpers.browsers import find_browser
from helpers.files import handbook, write_lines
from helpers.serving import Log, client_of, served, service_of
from helpers.words import WordEncoder
from playwright.sync_api import Browser, Page, expect, sync_playwright

from surprise_rerank import Document, Place
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.readers import open_documents
from surprise_rerank.connectors.server import ServerOptions, Service, service_app
from surprise_rerank.connectors.server._page import PAGE_ROUTES, POLICY
from surprise_rerank.thresholds.varied_questions import varied_questions

TOKEN = "a-long-random-one"
QUESTION = "why do dogs bark"
SCRIPT = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
BIDI = "dogs \u202e\u2067reversed\u202d bark \u0007\u001b[31m"
HOSTILE = [
    Document("script", f"{SCRIPT} dogs bark {SCRIPT}", title=SCRIPT, metadata={"a<b>": SCRIPT}),
    Document("bidi", BIDI, title=BIDI),
    *(
        Document(
            name,
            f"a {name} of dogs that bark, for its owner",
            title=name,
            metadata={"path": f"{name}.pdf", "url": address},
            places=((0, Place(page=12, heading=SCRIPT)),),
        )
        for name, address in (("manual", "https://example.org/m.pdf#x"), ("trap", "javascript:alert(1)"))
    ),
    Document("long", "dogs" + "x" * 1_000_000 + " bark", title="w" * 300),
]
USUAL = [
    *("cats sleep all day", "dogs bark at night", "a wing gives lift", "dogs bark. They warn of strangers."),
    *(f"number {i} of the birds that sing at dawn" for i in range(8)),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    documents = [
        Document(f"d{i}", text, title=f"Title {i}", metadata={"n": i}) for i, text in enumerate(USUAL)
    ]
    folder: Path = tmp_path_factory.mktemp("page") / "index"
    with DocumentIndex.open(folder, WordEncoder()) as index:
        index.sync([*documents, *HOSTILE], background=False)
        index.measure_background("auto", varied_questions(40))
        yield service_of(index, "auto")


@pytest.fixture(scope="module")
def url(service: Service) -> Iterator[str]:
    with served(service_app(service)) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("there is no Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


OPENED = "own => own.querySelectorAll('details').forEach(each => { each.open = true; })"


class Visit:
    """A page that was opened, with what it asked for and complained of."""

    def __init__(self, browser: Browser, **how: Any) -> None:
        self.page: Page = browser.new_context(**how).new_page()
        self.page.set_default_timeout(60_000)
        expect.set_options(timeout=60_000)  # a megabyte is typed, and the machine may be busy
        self.asked: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)
        self.page.on("dialog", lambda dialog: self.errors.append(dialog.message))

    def searched(self, address: str, question: str = QUESTION) -> Page:
        self.page.goto(address)
        expect(self.page.locator("#system option").first).to_be_attached()
        self.page.locator("#question").press_sequentially(question)
        expect(self.page.locator("#orders")).to_have_attribute("data-question", question)
        expect(self.page.locator("#timing")).to_contain_text("ms")
        return self.page

    def ids(self, order: str = "after") -> list[str]:
        titles: list[str] = self.page.locator(f"#{order} .hit").evaluate_all(
            "all => all.map(own => own.dataset.id)"
        )
        return titles


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    visit = Visit(browser)
    yield visit
    visit.page.context.close()


COMPARED = "/#compare=1"


def test_one_list_is_shown_unless_orders_are_compared(visit, url):
    page = visit.searched(url)
    answer = httpx.post(f"{url}/v1/search", json={"query": QUESTION, "keep_refused": True}).json()
    assert visit.ids() == [hit["id"] for hit in answer["results"]]
    expect(page.locator("#about")).to_contain_text("index · 17 documents")
    assert page.locator("#after .title").first.inner_text() == answer["results"][0]["title"]
    for hidden in ("#before", "#lines", "#after .parts", "#after .moved", "#legend"):
        expect(page.locator(hidden).first).to_be_hidden()
    page.locator("#search").evaluate(OPENED)
    with page.expect_request(lambda request: '"compare_with":"cosine"' in (request.post_data or "")):
        page.locator("#compare").check()
    for shown in ("#before", "#after .parts", "#after .moved", "#legend"):
        expect(page.locator(shown).first).to_be_visible()
    assert page.evaluate("location.hash").endswith("compare=1")


def test_a_citation_opens_the_file_at_its_page_and_no_script(visit, url):
    page = visit.searched(url, "manual or trap of dogs for its owner")
    link = page.locator("#after .hit[data-id=manual] a")
    expect(link).to_have_text(f"manual.pdf, p. 12, {SCRIPT}")
    assert link.get_attribute("href") == "https://example.org/m.pdf#page=12"
    trap = page.locator("#after .hit[data-id=trap]")
    expect(trap).to_contain_text("trap.pdf, p. 12")
    assert trap.locator("a").count() == 0
    page.locator("#search").evaluate(OPENED)
    page.locator("#passages").check()
    expect(page.locator("#after .hit[data-id=manual] a")).to_be_visible()


def test_a_citation_opens_the_file_that_was_indexed(visit, tmp_path):
    handbook(tmp_path / "manuals")
    write_lines(tmp_path / "manuals" / "a b" / "page.html", f"<p>Owls see at night {SCRIPT}")
    write_lines(tmp_path / "secret.txt", "a secret")
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync(open_documents(tmp_path / "manuals"), background=False)
        write_lines(tmp_path / "manuals" / "new.txt", "not indexed")
        service = service_of(index, "auto", files=tmp_path / "manuals")
        with served(service_app(service)) as url:
            page = visit.searched(url, "cats of this page")
            link = page.locator("#after .hit[data-id='handbook.pdf'] a")
            assert link.get_attribute("href").startswith("files/handbook.pdf#page=")
            answer = httpx.get(f"{url}/files/handbook.pdf")
            assert answer.headers["Content-Type"] == "application/pdf"
            assert answer.content == (tmp_path / "manuals" / "handbook.pdf").read_bytes()
            shown = httpx.get(f"{url}/files/a%20b/page.html")
            assert shown.headers["Content-Type"].startswith("text/plain")
            assert "sandbox" in shown.headers["Content-Security-Policy"]
            for name in ("new.txt", "..%2Fsecret.txt", "../secret.txt", "a%20b", ""):
                assert httpx.get(f"{url}/files/{name}").status_code == 404
            assert "files" not in httpx.get(f"{url}/info").json()["limits"]
        guarded = service_of(index, "auto", files=tmp_path / "manuals", token=TOKEN)
        assert client_of(service_app(guarded)).get("/files/handbook.pdf").status_code == 401


def test_after_an_error_the_old_answer_is_gone(visit, url):
    page = visit.searched(url)
    page.route("**/v1/search", lambda route: route.fulfill(status=500, json={"message": "no luck"}))
    page.locator("#question").press_sequentially(" at night")
    expect(page.locator("#notice")).to_have_text("no luck")
    for gone in ("#verdict", "#orders", "#told", "#legend"):
        expect(page.locator(gone)).to_be_hidden()
    page.unroute("**/v1/search")
    page.locator("#ask").click()
    expect(page.locator("#notice")).to_be_hidden()
    expect(page.locator("#verdict")).to_be_visible()


def test_typing_shows_both_orders_of_the_same_question(visit, url):
    page = visit.searched(f"{url}{COMPARED}")
    body = {"query": QUESTION, "compare_with": "cosine", "top_k": 10, "excerpts": True}
    answer = httpx.post(f"{url}/v1/search", json=body).json()
    assert visit.ids() == [hit["id"] for hit in answer["results"]]
    assert visit.ids("before") == [hit["id"] for hit in answer["compared"]["results"]]
    expect(page.locator("#verdict")).to_contain_text(answer["verdict"]["reason"])
    for hit in answer["results"]:
        shown, excerpt = page.locator(f"#after .hit[data-id={hit['id']}]"), hit["excerpt"]
        marks = [excerpt["text"][start:end] for start, end in excerpt["marks"]]
        assert shown.locator("mark").all_text_contents() == marks
        expect(shown.locator(".excerpt bdi")).to_have_text(excerpt["text"])
        expect(shown.locator(".parts")).to_contain_text("cosine")
        row = shown.locator(".head")
        rank, before = visit.ids().index(hit["id"]) + 1, hit["rank_compared"]
        expect(row).to_contain_text("as before" if before == rank else f"from {before}.")
    assert any(hit["excerpt"]["marks"] for hit in answer["results"])
    assert page.locator("#lines path").count() == len(answer["results"])
    assert visit.errors == []
    assert {urllib.parse.urlsplit(request).netloc for request in visit.asked} == {
        urllib.parse.urlsplit(url).netloc
    }


def test_a_link_brings_the_same_search_back_and_has_no_field_of_the_search_before(visit, url):
    page = visit.searched(url)
    page.locator("#system").select_option("dynamax")
    expect(page.locator("#after h2")).to_have_text("By dynamax")
    page.locator("#search").evaluate(OPENED)
    page.locator("#filter").fill(json.dumps({"must": [{"key": "metadata.n", "range": {"lt": 4}}]}))
    expect(page.locator("#after .hit")).to_have_count(4)
    seen, link = visit.ids(), page.locator("#link").get_attribute("href")
    page.goto("about:blank")
    page.goto(f"{url}/{link}")
    expect(page.locator("#after .hit")).to_have_count(4)
    assert visit.ids() == seen
    expect(page.locator("#question")).to_have_value(QUESTION)
    expect(page.locator("#system")).to_have_value("dynamax")
    page.evaluate("location.hash = '#q=cats'")
    expect(page.locator("#orders")).to_have_attribute("data-question", "cats")
    expect(page.locator("#after .hit")).to_have_count(10)
    expect(page.locator("#filter")).to_have_value("")
    assert page.evaluate("location.hash") == "#q=cats"


def test_the_slider_greys_out_what_would_be_refused_where_there_is_a_background(visit, url):
    page = visit.searched(url, "an umbrella for the rain")
    assert page.locator(".refused, .doubtful").count() == 0
    page.locator("#least").fill("0.97")
    expect(page.locator("#verdict")).to_contain_text("off-topic")
    expect(page.locator("#orders")).to_have_class("single doubtful")
    expect(page.locator("#after .refused")).to_have_count(page.locator("#after .hit").count())
    expect(page.locator("#after .refusal").first).to_be_visible()
    page.locator("#system").select_option("bm25")
    expect(page.locator("#after h2")).to_have_text("By bm25")
    expect(page.locator("#least")).to_be_disabled()
    expect(page.locator("#notice")).to_be_hidden()


def test_everything_can_be_done_by_keys_and_a_filter_that_is_none_is_said(visit, url):
    page = visit.searched(f"{url}{COMPARED}")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    second = visit.ids()[1]
    assert page.evaluate("document.activeElement.dataset.id") == second
    page.keyboard.press("Enter")
    expect(page.locator(f"#after .hit[data-id={second}] details p")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.closest('section').id") == "before"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "question"
    page.locator("#search").evaluate(OPENED)
    page.locator("#filter").fill('{"must": ')
    expect(page.locator("#notice")).to_contain_text("The filter is not JSON")
    page.locator("#filter").fill('{"mustt": []}')
    expect(page.locator("#notice")).to_contain_text("'mustt' is not known in the filter")


def test_hostile_texts_are_text(browser, url):
    visit = Visit(browser, viewport={"width": 360, "height": 740})
    page = visit.searched(url, f"dogs bark {SCRIPT}")
    page.locator("#search").evaluate(OPENED)  # which are folded on a phone
    page.locator("#top").fill("20")
    with page.expect_response("**/v1/search"):
        page.locator("#top").press("Enter")
    expect(page.locator("#after .hit")).to_have_count(len(USUAL) + len(HOSTILE))
    expect(page.locator("#after .hit[data-id=script] .title")).to_have_text(SCRIPT)
    for name in ("script", "bidi", "long"):
        page.locator(f"#after .hit[data-id={name}] summary").click()
    expect(page.locator("#after .hit[data-id=script] dl")).to_contain_text(SCRIPT)
    expect(page.locator("#after .hit[data-id=long] details p")).to_contain_text("characters more)")
    assert page.title() == "surprise-rerank"
    assert page.locator("#after script, #after img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("#question").fill("dogs " * 220_000)
    expect(page.locator("#notice")).to_contain_text("more than 1048576 bytes")
    (refused,) = visit.errors  # as browsers say of every status that is no success
    assert "status of 413" in refused
    page.context.close()


def test_a_token_is_asked_for_where_one_is_set(browser, service):
    guarded = Service(searches=True, options=ServerOptions(token=TOKEN), logger=Log().logger())
    guarded.opened = service.opened
    with served(service_app(guarded)) as url:
        assert httpx.get(f"{url}/").status_code == 200
        assert httpx.get(f"{url}/info").status_code == 401
        visit = Visit(browser)
        page = visit.page
        page.goto(url)
        page.locator("#token").fill("a wrong one")
        page.locator("#token").press("Enter")
        expect(page.locator("#notice")).to_contain_text("does not take this token")
        expect(page.locator("#search")).to_be_hidden()
        page.locator("#token").fill(TOKEN)
        page.locator("#token").press("Enter")
        expect(page.locator("#start")).to_be_visible()
        page.locator("#question").press_sequentially(QUESTION)
        expect(page.locator("#after .hit").first).to_be_visible()
        assert TOKEN not in page.url
        page.locator("#logout").click()
        expect(page.locator("#login")).to_be_visible()
        page.context.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 1200)])
def test_axe_finds_nothing(browser, url, scheme, width):
    # axe is a script of another origin, which the page's policy refuses, as it should.
    how: dict[str, Any] = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    visit = Visit(browser, bypass_csp=True, **how)
    page = visit.page
    page.goto(url)
    expect(page.locator("#examples button").first).to_be_visible()
    violations = Axe().run(page).response["violations"]
    visit.searched(url)
    page.locator("#search").evaluate(OPENED)
    page.locator("#after summary").first.click()
    page.locator("#least").fill("0.97")
    expect(page.locator("#verdict")).to_contain_text("too few to tell")
    page.locator("#orders").evaluate("orders => orders.classList.add('waiting')")  # as a slow answer does
    violations += Axe().run(page).response["violations"]
    assert [(violation["id"], violation["nodes"][0]["html"]) for violation in violations] == []
    page.context.close()


def test_every_file_of_the_page_comes_with_the_policy(service):
    client = client_of(service_app(service))
    for path in PAGE_ROUTES:
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["Content-Security-Policy"] == POLICY
        text = answer.text.replace("http://www.w3.org/2000/svg", "").replace("/^https?:", "")  # tests a link
        assert "http" not in text
    page = client.get("/").text
    assert "<script>" not in page
    assert "style=" not in page
