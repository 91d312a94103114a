"""The commands on a collection that somebody else made."""

import io
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.foreign import foreign
from helpers.words import WordEncoder
from starlette.testclient import TestClient

from surprise_rerank import DataError, SurpriseRerankError
from surprise_rerank.connectors.attached._opening import CollectionConfig
from surprise_rerank.connectors.attached._settings import PipelineSettings
from surprise_rerank.connectors.qdrant import Location
from surprise_rerank.connectors.server import Service, service_app
from surprise_rerank.connectors.server._logs import EventLog
from surprise_rerank.encoders import _loading as loading
from surprise_rerank.eval.cli.surprise_rerank.main import command


class Desk:
    """Runs commands on one collection of a server."""

    def __init__(self, qdrant: Any) -> None:
        self.where = ["--index", f"{qdrant.url}/{qdrant.prefix}"]
        self.keys = Path()  # a file for --config
        self.client, self.name = qdrant.store, qdrant.prefix

    def run(self, *arguments: str) -> str:
        done = CliRunner().invoke(command, [*arguments, *self.where])
        assert done.exit_code == 0, done.output
        return done.stdout if "--json" in arguments else done.output

    def refused(self, *arguments: str) -> str:
        """The message of an error, with which `main` exits with code 2."""
        done = CliRunner().invoke(command, [*arguments, *self.where])
        assert isinstance(done.exception, SurpriseRerankError), done.output
        return str(done.exception)

    def collections(self) -> list[str]:
        names = [found.name for found in self.client.get_collections().collections]
        return sorted(name.removeprefix(self.name) for name in names if name.startswith(self.name))


@pytest.fixture
def desk(qdrant: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Desk:
    monkeypatch.setattr(loading, "load_encoder", lambda name, *_, **__: WordEncoder(name=name))
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path / "cache"))
    made = Desk(qdrant)
    made.keys = tmp_path / "papers.toml"
    made.keys.write_text('text = "inhalt"')
    texts = [f"text number {i} of cats and dogs" for i in range(40)]
    payloads = [{"inhalt": text, "n": i} for i, text in enumerate(texts)]
    foreign(WordEncoder().encode(texts).dense, payloads, made.name, client=made.client)
    return made


def test_status_tells_what_is_found_or_which_option_is_missing(desk):
    refused = desk.refused("status")
    assert "inhalt, n" in refused
    assert "text= (in the file of --config)" in refused
    shown = desk.run("status", "--config", str(desk.keys))
    assert "16 dimensions, Cosine" in shown
    assert "enriched" in shown
    facts: dict[str, Any] = json.loads(desk.run("status", "--config", str(desk.keys), "--json"))
    assert (facts["points"], facts["text"], facts["enriched"]) == (40, "inhalt", "no")


def test_enrich_asks_writes_goes_on_and_takes_away(desk):
    keys = ("--config", str(desk.keys))
    assert "nothing was written" in desk.run("enrich", "--dry-run", *keys)
    assert desk.collections() == [""]
    assert "40 added" in desk.run("enrich", *keys)
    assert desk.collections() == ["", ".surprise", ".surprise.files"]
    assert json.loads(desk.run("enrich", "--json", *keys))["unchanged"] == 40
    assert "enriched       tokens of all-MiniLM-L6-v2" in desk.run("status", *keys)
    assert "removed what was added" in desk.run("enrich", "--remove", *keys)
    assert desk.collections() == [""]
    assert "nothing had been added" in desk.run("enrich", "--remove", *keys)


def test_enrich_measures_a_background_where_the_model_is_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURPRISE_RERANK_BACKGROUND", "on")
    keys = ("--config", str(desk.keys))
    assert "no background was measured" in desk.run("enrich", *keys)
    assert "background of" not in desk.run("status", *keys)
    desk.keys.write_text('text = "inhalt"\nmodel = "words"')
    desk.run("enrich", *keys)
    assert "background of auto" in desk.run("status", *keys)


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("texts = 'a'", "did you mean 'text'"),
        ("text = 3", "papers.toml: text must be a string, got 3"),
        ("model = 'a'\n[embedding]\nmodel = 'b'", "give the model once"),
        ("[embedding]\nmodel = 'b'\nkey = 'secret'", "no setting 'key'"),
        ("text", "cannot be read as TOML"),
    ],
)
def test_a_wrong_file_is_refused_and_says_what_is_wrong(tmp_path, said, wrong):
    file = tmp_path / "papers.toml"
    file.write_text(said)
    with pytest.raises(DataError, match=re.escape(wrong)):
        CollectionConfig.read(file)


@pytest.mark.parametrize(
    ("target", "urls", "collection"),
    [
        ("http://localhost:6333/papers", ("http://localhost:6333",), "papers"),
        ("https://cloud.example/qdrant/my%20papers", ("https://cloud.example/qdrant",), "my papers"),
        ("http://a:1,http://b:2/papers", ("http://a:1", "http://b:2"), "papers"),
    ],
)
def test_a_target_is_a_server_and_a_collection(target, urls, collection):
    assert Location.at(target) == Location(url=",".join(urls), collection=collection)
    assert Location.at("folder") == Location("folder")
    with pytest.raises(DataError, match="names no collection"):
        Location.at("http://localhost:6333/")


def test_what_searches_an_index_searches_a_foreign_collection(desk, tmp_path, monkeypatch):
    monkeypatch.setenv("SURPRISE_RERANK_BACKGROUND", "on")
    desk.keys.write_text('text = "inhalt"\nmodel = "words"')
    keys = ("--config", str(desk.keys))
    asked, judged = tmp_path / "asked.tsv", tmp_path / "judged.tsv"
    asked.write_text("".join(f"q{i}\tnumber {i}\n" for i in range(30)))
    judged.write_text("".join(f"q{i}\t{i}\t1\n" for i in range(30)))
    other = tmp_path / "other.txt"
    other.write_text("".join(f"what is the capital number {i}?\n" for i in range(30)))
    tuned = desk.run("tune", "background", "--questions", str(other), "--system", "cosine", *keys)
    assert "cosine: " in tuned
    found = json.loads(desk.run("search", "number 3", "--json", "--system", "cosine", *keys))
    assert found["hits"][0]["text"].startswith("text number")
    assert found["hits"][0]["percentile"] is not None  # the background is kept from one command to the next
    assert json.loads(desk.run("status", "--json", *keys))["backgrounds"][0]["system"] == "cosine"
    assert "background of cosine" in desk.run("status", *keys)
    desk.keys.write_text('text = "inhalt"')  # what is kept is shown without a model
    assert "cosine" in desk.run("status", *keys)
    desk.keys.write_text('text = "inhalt"\nmodel = "words"')
    only = '{"must": [{"key": "n", "range": {"gte": 30}}]}'
    filtered = json.loads(desk.run("search", "number 3", "--json", "--filter", only, *keys))
    assert {hit["id"] for hit in filtered["hits"]} <= {str(i) for i in range(30, 40)}
    explain = ("search", "number 3", "--explain", "--json", "--system", "surprise")
    told = json.loads(desk.run(*explain, *keys))["candidates"][0]
    own = told["scorers"]["surprise"]
    assert own["contribution"] == told["score"]
    assert own["contribution"] == pytest.approx((own["raw"] - own["mean"]) / own["deviation"], abs=1e-3)
    judged_by = ("--questions", str(asked), "--qrels", str(judged), "--system", "fusion")
    assert json.loads(desk.run("tune", "weights", *judged_by, "--json", *keys))["system"] == "fusion"


def test_a_foreign_collection_is_served(desk):
    desk.keys.write_text('text = "inhalt"\nmodel = "words"')
    settings = PipelineSettings(index=desk.where[1], config=str(desk.keys))
    service = Service(searches=True, logger=EventLog(io.StringIO()))
    app = TestClient(service_app(service), "http://localhost")
    with service.loading(settings, lambda: None):
        until = time.monotonic() + 60
        while app.get("/ready").status_code != 200 and time.monotonic() < until:
            time.sleep(0.05)
        answer = app.post("/v1/search", json={"query": "number 3", "top_k": 2}).json()
        assert len(answer["results"]) == 2
        assert app.get("/info").json()["documents"] == 40
        refused = app.put("/v1/documents", json={"documents": [{"id": "1", "text": "a"}]})
        assert refused.status_code == 403
