"""`surprise-rerank search --server`: a running server answers, as an index that is opened here would."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator

import pytest
from calling import exit_code
from named_index import named_index  # noqa: F401 - a fixture
from serving import Log, served, words_reranker
from test_start_up import SLOW, imported

from surprise_rerank.connectors.attached.settings import PipelineSettings
from surprise_rerank.connectors.server import ServerOptions, create_app
from surprise_rerank.eval.cli.surprise_rerank.main import main

pytest.importorskip("fastapi")
TOKEN = "a-token-of-this-test"


@contextlib.contextmanager
def serving(folder: str, system: str = "auto", token: str | None = None) -> Iterator[str]:
    settings = PipelineSettings(folder, system=system)
    options = ServerOptions(token=token)
    app = create_app(
        settings.text_reranker(), settings.pipeline(), options, system=system, logger=Log().logger()
    )
    with served(app) as url:
        yield url


@pytest.fixture
def url(named_index: str) -> Iterator[str]:  # noqa: F811
    with serving(named_index) as address:
        yield address


class Search:
    """Runs `surprise-rerank search`."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> str:
        assert exit_code(main, "surprise-rerank", "search", *arguments) == 0
        return self._capsys.readouterr().out

    def refused(self, *arguments: str) -> str:
        assert exit_code(main, "surprise-rerank", "search", *arguments) == 2
        shown = self._capsys.readouterr()
        assert shown.out == ""
        return shown.err


@pytest.fixture
def search(capsys: pytest.CaptureFixture[str]) -> Search:
    return Search(capsys)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--top", "2", "--offset", "1"),
        ("--threshold", "0"),
        ("--group-by", "metadata.topic", "--top", "2", "--group-size", "1"),
        ("--system", "auto", "--pool", "2"),
        ("--filter", '{"must": [{"key": "metadata.topic", "match": {"value": "animals"}}]}'),
    ],
)
def test_the_output_is_that_of_the_index(
    search: Search,
    named_index: str,  # noqa: F811
    url: str,
    options: tuple[str, ...],
) -> None:
    question = "loud dog and a cup of tea"
    assert search(question, *options, "--server", url) == search(question, *options, "--index", named_index)
    here, there = (
        json.loads(search(question, *options, "--json", *place))
        for place in (("--index", named_index), ("--server", url))
    )
    assert here.pop("seconds") > 0
    assert there.pop("seconds") > 0
    assert there == here


def test_several_questions_are_answered_in_their_order(
    search: Search,
    named_index: str,  # noqa: F811
    url: str,
    tmp_path,
) -> None:
    (tmp_path / "questions.txt").write_text("loud dog\nbread oven\n")
    file = ("--questions", str(tmp_path / "questions.txt"))
    assert search(*file, "--server", url) == search(*file, "--index", named_index)


def test_a_threshold_of_surprise_is_the_servers_to_measure(search: Search, named_index: str) -> None:  # noqa: F811
    with serving(named_index, "dynamax") as address:
        place = ("--server", address, "--json", "--min-surprise")
        answer = json.loads(search("loud dog barks", *place, "0.9"))
        assert answer["verdict"]["status"] == "unknown"  # four documents
        found = answer["hits"]
        assert [hit["id"] for hit in found] == ["dogs"]
        assert found[0]["surprise"] >= 0.9
        refused = json.loads(search("tax form deadline", *place, "0.9"))
        assert refused["hits"] == []
        assert (refused["verdict"]["status"], refused["verdict"]["chance"]) == ("off-topic", None)
        assert "measure a surprise of at most" in search.refused("x", *place, "1.0")


def test_what_the_server_decides_is_refused_by_its_name(search: Search, url: str) -> None:
    given = "--mode client,--exact,--model m,--index i,--tenant t"
    for option in map(str.split, given.split(",")):
        assert f"{option[0]} cannot be used with --server" in search.refused("dog", "--server", url, *option)


def test_an_index_of_the_environment_is_no_contradiction(
    search: Search, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURPRISE_RERANK_INDEX", "elsewhere")
    assert search("loud dog", "--server", url).splitlines()[1].startswith("1\t")


def test_the_token_comes_from_the_environment_and_is_never_shown(
    search: Search,
    named_index: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(named_index, token=TOKEN) as address:
        monkeypatch.setenv("SURPRISE_RERANK_TOKEN", TOKEN)
        assert TOKEN not in search("loud dog", "--server", address)
        monkeypatch.setenv("SURPRISE_RERANK_TOKEN", f"{TOKEN}-of-another")
        message = search.refused("loud dog", "--server", address)
        assert "the one there is not the server's" in message
        assert TOKEN not in message
        monkeypatch.delenv("SURPRISE_RERANK_TOKEN")
        assert "set SURPRISE_RERANK_TOKEN (none is set)" in search.refused("loud dog", "--server", address)


@pytest.mark.parametrize("token", ["two-lines\nof-a-key", "not-ascii-\u20ac-key"])
def test_a_token_that_cannot_be_sent_is_not_shown(
    search: Search, url: str, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("SURPRISE_RERANK_TOKEN", token)
    message = search.refused("loud dog", "--server", url)
    assert "correct SURPRISE_RERANK_TOKEN" in message
    assert "key" not in message


def test_what_cannot_answer_is_one_line(search: Search) -> None:
    with served(create_app(words_reranker(), logger=Log().logger())) as address:
        assert "start it with an index" in search.refused("dog", "--server", address)
    assert "cannot be reached" in search.refused("dog", "--server", "http://127.0.0.1:9")
    for wrong in ("ftp://localhost", "http://", "localhost:8000"):
        assert "is no url of a server" in search.refused("dog", "--server", wrong)
    message = search.refused("dog", "--server", "http://user:secret@127.0.0.1:9")
    assert "secret" not in message


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"results": [{}], "system": "s"}'])
def test_an_answer_of_something_else_is_told(search: Search, body: bytes) -> None:
    class Other(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_address[1]}"
            assert "something else than 'surprise-rerank serve'" in search.refused("dog", "--server", address)
        finally:
            server.shutdown()
            thread.join()


def test_nothing_that_computes_is_imported(url: str) -> None:
    modules = imported("surprise_rerank", "search", "loud dog", "--server", url)
    assert not modules & {*SLOW, "numpy", "qdrant_client", "qdrant_edge", "pydantic"}
