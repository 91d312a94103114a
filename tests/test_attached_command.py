"""`surprise-rerank status` and `enrich` on a collection that somebody else made."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from qdrant_client import QdrantClient, models
from qdrant_rest import QdrantRest
from words import WordEncoder

from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.documents import Document
from surprise_rerank.encoders import loading
from surprise_rerank.errors import SurpriseRerankError
from surprise_rerank.eval.cli.surprise_rerank.main import command


class Desk:
    """Runs commands on one collection of a server."""

    def __init__(self, url: str, name: str) -> None:
        self.where = ["--qdrant-url", url, "--collection", name]
        self.client, self.name = QdrantClient(url, check_compatibility=False), name

    def run(self, *arguments: str) -> str:
        done = CliRunner().invoke(command, [*arguments, *self.where])
        assert done.exit_code == 0, done.output
        return done.output

    def refused(self, *arguments: str) -> str:
        """The message of an error, with which `main` exits with code 2."""
        done = CliRunner().invoke(command, [*arguments, *self.where])
        assert isinstance(done.exception, SurpriseRerankError), done.output
        return str(done.exception)

    def collections(self) -> list[str]:
        names = [found.name for found in self.client.get_collections().collections]
        return sorted(name.removeprefix(self.name) for name in names if name.startswith(self.name))


@pytest.fixture
def desk(rest: QdrantRest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    encoder = WordEncoder()
    monkeypatch.setattr(loading, "load_encoder", lambda name, *_, **__: WordEncoder(name=name))
    made = Desk(rest.url, f"papers-{uuid.uuid4()}")
    params = models.VectorParams(size=encoder.dimension, distance=models.Distance.COSINE)
    made.client.create_collection(made.name, params)
    texts = [f"text number {i} of cats and dogs" for i in range(40)]
    points = [
        models.PointStruct(id=i, vector=vector.tolist(), payload={"inhalt": text, "n": i})
        for i, (text, vector) in enumerate(zip(texts, encoder.encode(texts).dense, strict=True))
    ]
    made.client.upsert(made.name, points, wait=True)
    yield made
    made.client.close()


def test_status_tells_what_is_found_or_which_option_is_missing(desk: Desk) -> None:
    refused = desk.refused("status")
    assert "inhalt, n" in refused
    assert "--text" in refused
    shown = desk.run("status", "--text", "inhalt")
    assert "16 dimensions, Cosine" in shown
    assert "enriched" in shown
    facts: dict[str, Any] = json.loads(desk.run("status", "--text", "inhalt", "--json"))
    assert (facts["points"], facts["text"], facts["enriched"]) == ("40", "inhalt", "no")


def test_status_of_a_name_that_there_is_not_lists_those_that_there_are(desk: Desk) -> None:
    name = f"own-{uuid.uuid4()}"
    with DocumentIndex.open(None, WordEncoder(), url=desk.where[1], collection=name) as index:
        index.sync([Document("1", "a")])
    wrong = Desk(desk.where[1], desk.name[:-2]).refused("status")
    assert f"; did you mean {desk.name!r}? there is " in wrong
    assert f"{name}@" not in wrong


def test_enrich_asks_writes_goes_on_and_takes_away(desk: Desk) -> None:
    keys = ("--text", "inhalt")
    assert "nothing was written" in desk.run("enrich", "--dry-run", *keys)
    assert desk.collections() == [""]
    assert "40 enriched" in desk.run("enrich", *keys)
    assert desk.collections() == ["", ".surprise", ".surprise.files"]
    assert json.loads(desk.run("enrich", "--json", *keys))["unchanged"] == 40
    assert "beside it: tokens of all-MiniLM-L6-v2" in desk.run("status", *keys)
    assert "removed what was added" in desk.run("enrich", "--remove", *keys)
    assert desk.collections() == [""]
    assert "nothing had been added" in desk.run("enrich", "--remove", *keys)


def test_enrich_in_place_and_its_mistakes(desk: Desk) -> None:
    keys = ("--text", "inhalt")
    assert "in_place=True (--in-place)" in desk.refused("enrich", "--moments", *keys)
    only = ("enrich", "--moments", "--in-place", "--no-tokens", "--no-words", *keys)
    assert "40 enriched" in desk.run(*only)
    assert "enriched otherwise before" in desk.refused("enrich", *keys)
    assert "surprise_mu" in (desk.client.retrieve(desk.name, [1])[0].payload or {})
    assert "removed" in desk.run("enrich", "--remove", *keys)
    assert desk.client.retrieve(desk.name, [1])[0].payload == {
        "inhalt": "text number 1 of cats and dogs",
        "n": 1,
    }


def test_what_is_for_collections_of_others_is_refused_for_an_index(rest: QdrantRest) -> None:
    name = f"own-{uuid.uuid4()}"
    with DocumentIndex.open(None, WordEncoder(), url=rest.url, collection=name) as index:
        index.sync([Document("1", "a")])
    desk = Desk(rest.url, name)
    assert "--text are for collections of others" in desk.refused("status", "--text", "inhalt")
    assert "DocumentIndex.open" in desk.refused("enrich")
    done = CliRunner().invoke(command, ["enrich", "--index", "folder"])
    assert done.exit_code == 2
    assert "--qdrant-url" in done.output
