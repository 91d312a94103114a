"""The PyTerrier transformers, in PyTerrier's pipelines and under its own checks."""

from collections.abc import Iterator
from typing import Any

import pytest
from helpers.words import WordEncoder

pytest.importorskip("pyterrier")

import pandas as pd
import pyterrier as pt
import pyterrier.testing

from surprise_rerank import Document, Pipeline, SearchOptions, TextReranker
from surprise_rerank.connectors.pyterrier import SurpriseRetriever, SurpriseTransformer
from surprise_rerank.connectors.qdrant import DocumentIndex

TEXTS = ["cats sleep all day", "dogs bark at night", "the dogs of the night bark", "a wing gives lift"]
OFF_TOPIC = [f"x{i} y{i} z{i % 3}" for i in range(19)]
QUERIES = pd.DataFrame({"qid": ["q2", "q1"], "query": ["dogs bark", "wing lift"], "label": [3, 4]})


@pytest.fixture
def index() -> Iterator[DocumentIndex]:
    encoder = WordEncoder(64)
    with DocumentIndex.open(":memory:", encoder) as index:
        index.sync(Document(f"d{i}", text) for i, text in enumerate(TEXTS))
        encoder.encoded_texts.clear()
        yield index


@pytest.fixture
def fresh() -> SurpriseTransformer:
    return SurpriseTransformer(TextReranker(WordEncoder(64)))


def results(**more: Any) -> pd.DataFrame:
    """Both queries with all texts, mixed up, from a first stage that ranks the other way round."""
    rows = [
        {"qid": qid, "query": query, "docno": f"d{i}", "text": text, "score": float(i), "rank": 3 - i, **more}
        for i, text in enumerate(TEXTS)
        for qid, query in zip(QUERIES["qid"], QUERIES["query"], strict=True)
    ]
    return pd.DataFrame(rows, index=range(10, 10 + len(rows)))


@pytest.mark.filterwarnings("ignore")  # they report what they found
class TestTransformerUnderTheirChecks(pt.testing.TransformerTestCase):
    @staticmethod
    def get_transformer() -> pt.Transformer:
        return SurpriseTransformer(TextReranker(WordEncoder()))


@pytest.mark.filterwarnings("ignore")
class TestRetrieverUnderTheirChecks(pt.testing.TransformerTestCase):
    @staticmethod
    def get_transformer() -> pt.Transformer:
        encoder = WordEncoder()
        return SurpriseRetriever(DocumentIndex.open(":memory:", encoder).pipeline("dynamax"))


def test_every_query_gets_an_order_of_its_own(fresh):
    frame = results(note="kept")
    before = frame.copy(deep=True)
    ranked = fresh(frame)
    pd.testing.assert_frame_equal(frame, before)
    assert ranked.index.tolist() == list(range(8))
    assert list(ranked.columns) == ["qid", "query", "docno", "text", "note", "score", "rank"]
    assert ranked["qid"].tolist() == ["q2"] * 4 + ["q1"] * 4
    assert ranked["rank"].tolist() == [0, 1, 2, 3] * 2
    assert ranked["docno"].tolist()[:2] == ["d1", "d2"]
    assert ranked["docno"].tolist()[4] == "d3"
    assert (ranked["note"] == "kept").all()
    for _, group in ranked.groupby("qid"):
        assert group["score"].is_monotonic_decreasing
    again = pt.model.add_ranks(ranked.drop(columns="rank"))
    assert again["rank"].tolist() == ranked["rank"].tolist()
    assert ranked["text"].tolist() == [TEXTS[int(name[1:])] for name in ranked["docno"]]


def test_retrieved_documents_stand_beside_their_queries(index):
    frame = QUERIES.assign(score=[1.0, 2.0], text=["x", "y"])
    before = frame.copy(deep=True)
    ranked = SurpriseRetriever(index.pipeline("dynamax"), num_results=2)(frame)
    pd.testing.assert_frame_equal(frame, before)
    assert list(ranked.columns) == ["qid", "query", "label", "docno", "text", "score", "rank"]
    assert ranked["qid"].tolist() == ["q2", "q2", "q1", "q1"]
    assert ranked["label"].tolist() == [3, 3, 4, 4]
    assert ranked["docno"].tolist()[:3] == ["d1", "d2", "d3"]
    assert ranked["rank"].tolist() == [0, 1, 0, 1]
    assert ranked["text"].tolist()[0] == TEXTS[1]


def test_a_background_adds_its_column_and_refuses_what_is_off_topic(index):
    judged: Pipeline = index.pipeline("dynamax").with_background(OFF_TOPIC)
    strict = SurpriseRetriever(judged.with_options(min_percentile=0.9))
    queries = pd.DataFrame({"qid": ["on", "off"], "query": ["dogs bark", "x99 y99 z99"]})
    ranked = strict(queries)
    assert set(ranked["qid"]) == {"on"}
    assert ranked["percentile"].iloc[0] == 0.95
    assert ranked["score"].iloc[0] > ranked["percentile"].iloc[0]
    assert ranked["rerank_verdict"].iloc[0] == "unknown"  # by 20 questions
    nothing = strict(queries.iloc[1:])
    ours = ["percentile", "rerank_verdict"]
    assert list(nothing.columns) == ["qid", "query", "docno", "text", "score", "rank", *ours]
    assert len(nothing) == 0
    texts = TextReranker(
        index.encoder, background=judged.background, options=SearchOptions(min_percentile=0.9)
    )
    reranked = SurpriseTransformer(texts)(results().assign(query="dogs bark"))
    assert list(reranked.columns[-2:]) == ours
    assert 0 < len(reranked) < 8


def test_both_work_in_pipelines_and_experiments_without_java(index):
    retriever = SurpriseRetriever(index.pipeline("cosine"))
    reranked = retriever >> SurpriseTransformer(index.text_reranker("dynamax"))
    assert (reranked % 1).search("dogs bark")["docno"].tolist() == ["d1"]
    assert len((reranked % 2).compile()(QUERIES)) == 4
    added = (retriever + reranked)(QUERIES)
    assert {"qid", "docno", "score", "rank"} <= set(added.columns)
    assert reranked([{"qid": "1", "query": "wing lift"}])[0]["docno"] == "d3"
    qrels = pd.DataFrame({"qid": ["q1", "q2"], "docno": ["d3", "d1"], "label": [1, 1]})
    topics = pd.DataFrame({"qid": ["q2", "q1"], "query": ["dogs bark at", "wing lift"]})
    table = pt.Experiment([retriever, reranked], topics, qrels, ["recip_rank"])
    assert table["recip_rank"].tolist()[1] == 1.0
    assert not pt.java.started()
