"""`rerank-eval` on a server: exact unless it is told otherwise, and what it leaves there."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from helpers.files import write_beir, write_vectors
from qdrant_client import QdrantClient

from surprise_rerank.eval.cli.rerank_eval.main import command
from surprise_rerank.eval.retrieval.evaluation import evaluate
from surprise_rerank.eval.retrieval.settings import RetrievalSettings

SYSTEMS = ("cosine", "surprise", "dynamax", "bm25", "fusion", "auto")
OWN = f"corpus-{os.getpid()}"  # in the names of what is made, as others may use the server, too
WORDS = [f"w{i}" for i in range(60)]


@pytest.fixture
def client(qdrant: Any) -> Iterator[QdrantClient]:
    """A server; what these tests have made there is removed."""
    yield qdrant.store
    for name in names(qdrant.store):
        qdrant.store.delete_collection(name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus in BEIR's layout and word vectors, of which no two documents score the same."""
    place, rng = tmp_path_factory.mktemp("corpus"), np.random.default_rng(5)
    write_vectors(place / "words.txt", WORDS, 24)
    documents = {f"d{i}": " ".join(rng.choice(WORDS, size=10 + i)) for i in range(40)}
    questions = {f"q{i}": " ".join(rng.choice(WORDS, size=4)) for i in range(6)}
    write_beir(place / OWN, documents, questions, [(f"q{i}", f"d{5 * i}", 1) for i in range(6)])
    return place


@pytest.fixture
def settings(folder: Path, tmp_path: Path, client: QdrantClient, qdrant: Any) -> RetrievalSettings:
    return RetrievalSettings(
        dataset=str(folder / OWN),
        systems=SYSTEMS,
        model=str(folder / "words.txt"),
        cache=tmp_path,
        depth=20,
        measures=("nDCG@10",),
        qdrant_url=qdrant.url,
    )


def names(client: QdrantClient) -> set[str]:
    return {listed.name for listed in client.get_collections().collections if OWN in listed.name}


def aliases(client: QdrantClient) -> set[str]:
    return {listed.alias_name for listed in client.get_aliases().aliases if OWN in listed.alias_name}


def run(settings: RetrievalSettings, *more: str, systems: Sequence[str] = ("cosine",)) -> Result:
    arguments = ("--dataset", settings.dataset, "--model", settings.model)
    arguments = (*arguments, "--systems", ",".join(systems), "--measures", "nDCG@10", *more)
    arguments += ("--set", f"qdrant_url={settings.qdrant_url}")
    return CliRunner().invoke(
        command,
        arguments,
        catch_exceptions=False,
        env={"SURPRISE_RERANK_CACHE": str(settings.cache)},
    )


def test_every_system_has_the_order_that_it_has_embedded(qdrant, settings, client):
    on_server, here = evaluate(settings), evaluate(replace(settings, qdrant_url=None))
    for one, other in zip(on_server.results, here.results, strict=True):
        assert one.values == pytest.approx(other.values), one.name
        for question, ranking in one.run.items():
            scores = dict(zip(other.run[question].ids, other.run[question].scores, strict=True))
            assert [scores[name] for name in ranking.ids] == pytest.approx(
                sorted(scores.values(), reverse=True), abs=1e-4
            ), (one.name, question)
    assert on_server.facts["collection"] in aliases(client)
    assert here.facts["collection"] is None
    dense = [request for request in qdrant.searches if request.get("using") == "dense"]
    assert dense
    assert all((request.get("params") or {}).get("exact") for request in dense)


def test_what_stays_on_the_server_is_named_and_used_again(settings, client):
    done = run(settings, "--json")
    (alias,) = aliases(client)
    values = json.loads(done.stdout)
    assert values["collection"] == alias
    assert f"the collection {alias} stays on {settings.qdrant_url} for the next run" in values["notes"]
    assert ": all were there" in run(settings).stderr
