"""One contract: an index of ours and somebody else's collection of the same documents say the same."""

import contextlib
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from helpers.faults import cleaned, server_url
from helpers.foreign import foreign
from helpers.words import WordEncoder
from qdrant_client import QdrantClient

from surprise_rerank import DataError, Document, FunctionEncoder, NotStoredError
from surprise_rerank._pipeline import NO_NEIGHBOURS
from surprise_rerank.connectors.attached import Collection
from surprise_rerank.connectors.qdrant import CollectionStatus, DocumentIndex, IndexOptions, Location

TOPICS = ("cats purr on mats", "dogs bark at night", "stocks fell on monday", "bread needs flour")
TEXTS = {str(i): f"{TOPICS[i % 4]} word{i * 7 % 29}" for i in range(1, 41)}
QUESTION = "which bread needs flour"
Either: TypeAlias = DocumentIndex | Collection

pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes:UserWarning"),
    pytest.mark.parametrize("made_by", ["ours", "somebody else", "somebody else, enriched"]),
    pytest.mark.parametrize(
        "place",
        [
            *("folder", "memory"),  # a folder of ours is Edge's
            *(pytest.param(name, marks=pytest.mark.server) for name in ("server", "server by gRPC")),
        ],
    ),
]


def plain_encoder() -> FunctionEncoder:
    """Dense vectors alone, as most collections have them."""
    words = WordEncoder()
    return FunctionEncoder(lambda texts: words.encode(texts).dense, name="words")


@pytest.fixture
def collection(made_by: str, place: str, tmp_path: Path) -> Iterator[Either]:
    encoder, options = plain_encoder(), IndexOptions(passages=None, bm25=None, tokens=False)
    where: Any = tmp_path / "own" if place == "folder" else ":memory:"
    with contextlib.ExitStack() as held:
        client, name = None, f"test-{uuid.uuid4()}"
        if place.startswith("server"):
            client = held.enter_context(cleaned(server_url(), name))
            where = Location(url=server_url(), collection=name, prefer_grpc=place.endswith("gRPC"))
        if made_by == "ours":
            index = held.enter_context(DocumentIndex.open(where, encoder, options=options))
            index.sync([Document(name, text) for name, text in TEXTS.items()])
            yield index
            return
        if client is None:
            client = where = QdrantClient(path=str(tmp_path)) if place == "folder" else QdrantClient(where)
            held.callback(client.close)
        vectors, ids = encoder.encode(list(TEXTS.values())).dense, [int(id_) for id_ in TEXTS]
        foreign(vectors, [{"text": text} for text in TEXTS.values()], name, client=client, ids=ids)
        attached = held.enter_context(Collection.attach(where, name, embed=encoder))
        if made_by.endswith("enriched"):
            attached.enrich(tokens=False)
        yield attached


def test_documents_by_id_come_once_and_in_the_order_of_the_ids(collection):
    pool = collection.fetch(["2", "1", "1", "2", "3"], {"documents", "dense"})
    assert pool.ids == ("2", "1", "3")
    assert [document.text for document in pool.require_documents()] == [TEXTS[name] for name in pool.ids]
    assert pool.require_dense().shape == (3, 16)
    assert collection.fetch([], {"dense"}).ids == ()


@pytest.mark.parametrize("missing", ["nope", "4711", ""])
def test_unknown_ids_are_refused_or_skipped(collection, missing):
    with pytest.raises(NotStoredError) as refused:
        collection.fetch(["1", missing, missing], frozenset())
    said = f"1 documents are not in {collection.where}, such as {missing!r}; sync it, or skip them"
    assert str(refused.value).startswith(said)
    assert collection.fetch(["1", missing], frozenset(), skip_missing=True).ids == ("1",)


def test_samples_are_of_so_many_documents_and_always_the_same(collection):
    assert len(collection.corpus.sample_ids(5)) == 5
    assert collection.corpus.sample_ids(5) == collection.corpus.sample_ids(5)
    assert set(collection.corpus.sample_ids(1000)) == set(TEXTS)
    assert collection.corpus.sample(5, frozenset({"dense"})).ids == collection.corpus.sample_ids(5)
    assert [document.id for document in collection.corpus.sample_documents(5)] == list(
        collection.corpus.sample_ids(5)
    )


WRONG: dict[str, tuple[Callable[[Either], Any], str]] = {
    "no sample": (
        lambda c: c.corpus.sample(0, frozenset()),
        "size must be a whole number of at least 1, got 0",
    ),
    "no sampled ids": (lambda c: c.corpus.sample_ids(0), "size must be a whole number of at least 1, got 0"),
    "a field of a sample": (
        lambda c: c.corpus.sample(3, frozenset({"text"})),
        r"fields\[0\]='text' is not known",
    ),
    "a field": (lambda c: c.fetch(["1"], {"text"}), r"fields\[0\]='text' is not known"),
    "an id without a list": (lambda c: c.fetch("1", frozenset()), r"put the string into a list"),
    "a system": (lambda c: c.pipeline("bm52"), "system='bm52' is not known; did you mean"),
    "a mode": (lambda c: c.pipeline("surprise", mode="magic"), "mode='magic' is not known"),
    "a unit": (lambda c: c.by_unit("page"), "unit='page' is not known"),
    "no words": (lambda c: c.pipeline("bm25"), "has no words, which bm25 reads; choose another system, or "),
    "token vectors": (lambda c: c.fetch(["1"], {"tokens"}), "has no token vectors; .*, or choose a system"),
    "sampled tokens": (lambda c: c.corpus.token_sample(3), "has no token vectors; .*, or choose a system"),
    "a system of tokens": (lambda c: c.pipeline("dynamax"), "has no token vectors, which dynamax compares"),
    "a tenant": (lambda c: c.of_tenant("acme"), "tenant='acme'"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_refused_in_the_same_words(collection, wrong):
    if wrong == "no words" and collection.corpus.words is not None:
        pytest.skip("words were added")
    call, words = WRONG[wrong]
    with pytest.raises(DataError, match=words):
        call(collection)


def test_surprise_without_an_ensemble_is_measured_against_all_documents(collection):
    scores = collection.pipeline("surprise").search(QUESTION, 10)
    vectors = plain_encoder().encode(list(TEXTS.values())).dense.astype(np.float64)
    similarities = vectors @ vectors.T
    z = (vectors @ plain_encoder().encode([QUESTION], kind="query").dense[0] - similarities.mean(1)) / (
        similarities.std(1)
    )
    expected = dict(zip(TEXTS, z, strict=True))
    np.testing.assert_allclose(scores.parts["z"], [expected[name] for name in scores.ids], atol=1e-3)


def test_a_status_is_one_kind_of_report(collection):
    status = collection.status()
    assert isinstance(status, CollectionStatus)
    facts, values = dict(status.facts()), json.loads(json.dumps(status.to_json()))
    assert (facts["documents"], facts["points"], facts["engine"]) == ("40", "40", collection.corpus.engine)
    lacking = "token vectors" if collection.corpus.words else "words and token vectors"
    assert facts["ranks by"].startswith(f"{collection.corpus.default_system} (without {lacking}: ")
    assert {"model", "title" if status.manifest is None else "passages"} <= facts.keys()
    assert (values["documents"], values["points"], values["where"]) == (40, 40, collection.where)
    assert values["ranks_by"] == facts["ranks by"]
    assert (collection.placement() is None) == (collection.corpus.engine != "server")


def test_neighbours_that_nobody_knows_are_not_left_out_in_silence(collection):
    plain = collection.pipeline("cosine").search(QUESTION, top_k=2)
    wider = collection.pipeline("cosine").search(QUESTION, top_k=2, context=1)
    assert wider.ids == plain.ids
    assert [note for note in wider.notes if note not in plain.notes] == [NO_NEIGHBOURS]
