"""Different answers first, and near-duplicates in one line, of any ranking and in any store."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.hosts import HOSTS
from helpers.serving import Log, client_of
from helpers.words import WordEncoder
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import models

from surprise_rerank import (
    Candidates,
    CosineScorer,
    DataError,
    Diversity,
    Document,
    Passage,
    Pipeline,
    Query,
    Ranking,
    SearchOptions,
    TextReranker,
)
from surprise_rerank._candidates import Field
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant._schema import DENSE, ID
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.rerank._diversity import (
    diverse_order,
    falling,
    marginal_relevance,
    near_duplicates,
    relevances,
)

SHARES = st.floats(0, 1)


@dataclass
class Pool:
    """A retriever that gives one pool, and remembers what it was asked for."""

    candidates: Candidates
    fields_read: list[frozenset[Field]] = field(default_factory=list)

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        self.fields_read.append(fields)
        return self.candidates


def pool(scores: list[float], vectors: list[list[float]]) -> Candidates:
    names = tuple(f"d{i}" for i in range(len(scores)))
    dense = np.array(vectors, dtype=np.float32)
    return Candidates(ids=names, scores={"score": np.array(scores)}, dense=dense)


def ranking_of(candidates: Candidates) -> Ranking:
    return Ranking.order(candidates, candidates.scores["score"])


# A best answer, two near-copies of it, and something else.
COPIES = pool([4.0, 3.0, 2.0, 1.0], [[3, 0, 0.1], [3, 0.2, 0], [3, 0, -0.1], [0, 1, 0]])


@st.composite
def lines(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 12))
    numbers = st.integers(-3, 3)
    rows = draw(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=n, max_size=n))
    relevance = draw(st.lists(SHARES, min_size=n, max_size=n))
    return np.sort(np.array(relevance))[::-1], unit_rows(np.array(rows, dtype=np.float32))


@given(lines(), SHARES, st.integers(1, 14))
def test_the_fast_form_takes_what_the_plain_form_values_most(drawn, diversity, most):
    relevance, vectors = drawn
    order = diverse_order(relevance, vectors, diversity, most).tolist()
    assert sorted(order) == list(range(len(relevance)))
    assert order[0] == 0
    for place in range(1, min(most, len(order))):
        chosen, left = order[:place], order[place:]
        values = {row: marginal_relevance(relevance, vectors, diversity, chosen, row) for row in left}
        assert values[order[place]] == pytest.approx(max(values.values()), abs=1e-9)
    assert order[most:] == sorted(order[most:])


@given(lines(), SHARES)
def test_a_row_is_in_the_group_of_the_best_row_that_it_is_near_to(drawn, least):
    _, vectors = drawn
    groups = near_duplicates(vectors, least)
    assert sorted(row for group in groups for row in group) == list(range(len(vectors)))
    firsts = [group[0] for group in groups]
    assert firsts == sorted(firsts)
    for row in range(len(vectors)):
        near = [first for first in firsts if first < row and vectors[first] @ vectors[row] >= least - 1e-6]
        head = next(group[0] for group in groups if row in group)
        assert head == (near[0] if near and row not in firsts else row)
        assert vectors[row].any() or [row] in groups or least < 1e-5, "it has no direction"


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=9),
    st.floats(0.1, 100),
    st.floats(-10, 10),
    st.integers(0, 3),
)
def test_relevance_has_one_scale_whatever_that_of_the_scores_is(values, factor, shift, unknown):
    scores = np.array([*values, *[-np.inf] * unknown])
    shares = relevances(scores)
    assert ((shares >= 0) & (shares <= 1)).all()
    assert (shares[len(values) :] == 0).all()
    if np.ptp(values) > 1e-3:
        np.testing.assert_allclose(relevances(scores * factor + shift), shares, atol=1e-6)
        assert (np.diff(shares[np.argsort(scores)]) >= 0).all()
    elif np.ptp(values) == 0:
        assert (shares[: len(values)] == 0.5).all(), "the vectors choose"


def test_what_is_new_comes_before_copies_and_every_line_keeps_its_own_score():
    ranking = ranking_of(COPIES)
    diverse = Diversity(0.5).applied(ranking, COPIES)
    assert diverse.ids == ("d0", "d3", "d1", "d2")
    assert diverse.scores.tolist() == [4.0, 1.0, 3.0, 2.0]
    assert diverse.duplicates is None
    folded = Diversity(collapse=0.95).applied(ranking, COPIES)
    assert [(hit.id, hit.duplicates) for hit in folded] == [("d0", ("d1", "d2")), ("d3", ())]
    among = Diversity(0.5, collapse=0.95).applied(ranking, COPIES, among=[0, 1])
    assert [(hit.id, hit.duplicates) for hit in among] == [("d0", ("d1",))]
    assert len(Diversity(0.5).applied(ranking, COPIES, among=[])) == 0
    bare = replace(COPIES, dense=None)
    with pytest.raises(DataError, match="the candidates' dense vectors must be there, got None"):
        Diversity(0.5).applied(ranking, bare)


def test_equal_vectors_are_duplicates_at_a_cosine_of_one():
    row = unit_rows(np.random.default_rng(0).normal(size=(1, 384)))
    assert near_duplicates(np.repeat(row, 3, axis=0), 1.0) == [[0, 1, 2]]


def test_a_document_in_passages_is_compared_by_its_best_one():
    texts = tuple(Document(name, "wing lift") for name in ("a", "a", "b", "c"))
    candidates = Candidates(
        ids=("a", "a", "b", "c"),
        scores={"score": np.array([1.0, 3.0, 2.0, 0.0])},
        dense=np.array([[0, 1], [1, 0], [1, 0], [0, 1]], dtype=np.float32),
        documents=texts,
        passages=(Passage(0, 0, 4), Passage(1, 5, 9), Passage(0, 0, 9), Passage(0, 0, 9)),
    )
    folded = Diversity(collapse=0.95).applied(ranking_of(candidates), candidates)
    assert [(hit.id, hit.duplicates, hit.text) for hit in folded] == [
        ("a", ("b",), "lift"),
        ("c", (), "wing lift"),
    ]


def test_a_search_takes_the_first_ones_from_the_whole_pool():
    retriever = Pool(COPIES)
    plain = Pipeline(WordEncoder(), retriever)
    assert plain.search("wing", 2).ids == ("d0", "d1")
    assert plain.search("wing", 2, diversity=0.5).ids == ("d0", "d3")
    assert plain.search("wing", 2, diversity=0.5).ids == ("d0", "d3")
    diverse = Pipeline(WordEncoder(), retriever, options=SearchOptions(diversity=0.5, collapse=0.95))
    assert [(hit.id, hit.duplicates) for hit in diverse.search("wing", 2)] == [
        ("d0", ("d1", "d2")),
        ("d3", ()),
    ]
    assert diverse.search("wing", 2, diversity=0, collapse=1.0).ids == ("d0", "d1")
    retriever.fields_read.clear()
    for options in ({}, {"diversity": 0}, {"diversity": 0.3}, {"collapse": 0.9}):
        plain.search("wing", **options)
    assert [("dense" in fields) for fields in retriever.fields_read] == [False, False, True, True]


def test_relevance_by_the_cosine_gives_the_order_of_qdrants_own_mmr(open_index):
    """The same choices; what differs in a `Diversity` is the scale of relevance alone."""
    with open_index(WordEncoder(), options=IndexOptions(passages=None, bm25=None)) as index:
        index.sync(DOCUMENTS)
        (query,) = encode_queries(index.encoder, ["wing lift air"])
        pool = index.corpus.search(query, 4, frozenset({"dense"}))
        rows = np.argsort(-pool.scores["cosine"], kind="stable")
        for share in (0.2, 0.5, 0.8):
            ours = diverse_order(pool.scores["cosine"][rows], unit_rows(pool.require_dense()[rows]), share)
            mmr = models.Mmr(diversity=share, candidates_limit=4)
            nearest = models.NearestQuery(nearest=query.require_dense().tolist(), mmr=mmr)
            request = models.QueryRequest(query=nearest, using=DENSE, limit=4, with_payload=[ID])
            (theirs,) = index.corpus.storage.engine.query_batch([request])
            assert [pool.ids[rows[i]] for i in ours] == [record.payload[ID] for record in theirs]


# Diversity and collapsing through the interfaces: hosts, the server and the command line.

# Two near-copies of the best answer, and two other answers.
TEXTS = (
    "a wing gives lift to a plane in still air",
    "a wing gives lift to a plane in air",
    "the lift of a wing falls at a stall",
    "drag slows every plane",
)
QUESTION = "a wing gives lift in air"
NAMES = tuple(f"d{i}" for i in range(len(TEXTS)))
DOCUMENTS = [Document(name, text) for name, text in zip(NAMES, TEXTS, strict=True)]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[DocumentIndex]:
    options = IndexOptions(passages=None, bm25=None)
    with DocumentIndex.open(tmp_path / "index", WordEncoder(64), options=options) as opened:
        opened.sync(DOCUMENTS)
        yield opened


def texts(**options: Any) -> TextReranker:
    return TextReranker(WordEncoder(64), CosineScorer(), options=SearchOptions(**options))


PLAIN = tuple(line.position for line in texts().rank(QUESTION, TEXTS))
BEST, COPY = PLAIN[:2]


@given(st.lists(st.floats(-9, 9) | st.just(-np.inf), max_size=8))
def test_scores_for_hosts_that_sort_again_keep_the_order(scores):
    shown = falling(scores)
    assert shown == sorted(shown, reverse=True)
    assert falling(shown) == shown


@pytest.mark.parametrize("host", HOSTS)
def test_hosts_name_the_duplicates_in_the_metadata(host, index):
    documents = [host.document(name, text, {}) for name, text in zip(NAMES, TEXTS, strict=True)]
    ranker = host.ranker(texts(collapse=0.9))
    first, second = (line.meta for line in host.rank(ranker, documents, QUESTION)[:2])
    assert first["duplicates"] == [NAMES[COPY]]
    assert "duplicates" not in second
    if host.module == "llama_index":
        node = ranker.postprocess_nodes(documents, query_str=QUESTION)[0].node
        assert "duplicates" in node.excluded_llm_metadata_keys
    if hasattr(host.adapter, "SurpriseRetriever"):
        retriever = host.retriever(index.pipeline("cosine", collapse=0.9))
        assert host.retrieve(retriever, QUESTION)[0].meta["duplicates"] == [NAMES[COPY]]


def test_the_server_takes_it_with_every_request(index):
    server = pytest.importorskip("surprise_rerank.connectors.server")

    def client_with(**options: Any) -> Any:
        reranker, pipeline = index.text_reranker("cosine", **options), index.pipeline("cosine", **options)
        return client_of(server.create_app(reranker, pipeline, logger=Log().logger()))

    client, started = client_with(), client_with(collapse=0.9)
    body = {"query": QUESTION, "documents": list(TEXTS)}
    plain = client.post("/v1/rerank", json=body).json()["results"]
    assert [result["index"] for result in plain] == list(PLAIN)
    assert "duplicates" not in plain[0]
    folded = client.post("/v1/rerank", json={**body, "collapse": 0.9}).json()["results"]
    assert [result["index"] for result in folded] == [i for i in PLAIN if i != COPY]
    assert folded[0]["duplicates"] == [COPY]
    diverse = client.post("/v2/rerank", json={**body, "diversity": 0.9}).json()["results"]
    assert [result["index"] for result in diverse] != list(PLAIN)
    shown = [result["relevance_score"] for result in diverse]
    assert shown == sorted(shown, reverse=True)
    assert len(set(shown)) == len(shown)
    search = {"query": QUESTION, "top_k": 2}
    hits = client.post("/v1/search", json={**search, "collapse": 0.9}).json()["results"]
    assert (hits[0]["id"], hits[0]["duplicates"]) == (NAMES[BEST], [NAMES[COPY]])
    assert client.post("/v1/search", json=search).json()["results"][0]["duplicates"] == []
    for wrong in ({"diversity": -1}, {"collapse": 95}, {"diversity": "much"}):
        assert client.post("/v1/search", json={**search, **wrong}).status_code == 422
    # What a server was started with can be said otherwise.
    assert len(started.post("/v1/rerank", json=body).json()["results"]) == len(TEXTS) - 1
    assert len(started.post("/v1/rerank", json={**body, "collapse": 1.0}).json()["results"]) == len(TEXTS)
    # Clients of Text Embeddings Inference expect a rank for each text.
    tei = started.post("/rerank", json={"query": QUESTION, "texts": list(TEXTS)})
    assert len(tei.json()) == len(TEXTS)
