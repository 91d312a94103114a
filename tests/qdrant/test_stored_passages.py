"""Documents that are longer than the model's window: stored whole, in passages, and found by any of them."""

from collections.abc import Sequence

import numpy as np
import pytest
from conftest import Opener
from helpers.words import WordEncoder, interrupted
from qdrant_client import models

from surprise_rerank import (
    DataError,
    Document,
    DynaMaxScorer,
    Ensemble,
    IndexingError,
    Passages,
    Pipeline,
    Ranking,
    StoreError,
)
from surprise_rerank._pipeline import NOT_SPLIT
from surprise_rerank.connectors.qdrant import (
    DenseRetriever,
    DocumentIndex,
    IndexOptions,
    SearchOptions,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant._schema import Record
from surprise_rerank.connectors.qdrant._search.pools import Pools
from surprise_rerank.encoders.base import encode_queries

OPTIONS = IndexOptions(passages=Passages(overlap=2), surprise_vector=True)
LONG = Document(
    "long",
    " ".join(f"Sentence {i} speaks of topic{i} and thing{i}." for i in range(12)),
    title="Many topics",
    metadata={"kind": "book"},
)
SHORT = [Document(f"s{i}", f"a short text about topic{i}", metadata={"kind": "note"}) for i in range(6)]


def encoder(window: int | None = 16) -> WordEncoder:
    return WordEncoder(window=window)


def filled(open_index: Opener) -> DocumentIndex:
    index = open_index(encoder(), options=OPTIONS)
    report = index.sync([LONG, *SHORT])
    assert (report.added, report.split) == (7, 1)
    return index


def passages_of(index: DocumentIndex, topic: int) -> list[str]:
    """Texts of the passages that are found."""
    hits = index.pipeline("cosine", unit="passage").search(f"speaks of topic{topic}", top_k=1000, depth=1000)
    return sorted(f"{hit.passage.number} {hit.text}" for hit in hits if hit.passage)


def test_an_interrupted_long_document_is_gone_on_with_by_passages(open_index, tmp_path):
    sentences = [f"Sentence {i} speaks of topic{i} and thing{i}." for i in range(1000)]
    book = Document("book", " ".join(sentences), title="A book")
    options = IndexOptions(passages=OPTIONS.passages)
    with DocumentIndex.open(tmp_path / "whole", encoder(), options=options) as whole:
        whole.sync([book], background=False)
        count, expected = whole.status().points, passages_of(whole, 500)
        term_statistics = whole.corpus.term_statistics()
    with open_index(interrupted(300, 16), options=options) as index:
        with pytest.raises(KeyboardInterrupt):
            index.sync([book], background=False)
        assert (len(index), index.status().points) == (1, 384)
    again = encoder()
    with open_index(again, options=options) as index:
        index.sync([book], background=False)
        assert len(again.encoded_texts) == count - 384
        assert (index.status().points, passages_of(index, 500)) == (count, expected)
        np.testing.assert_array_equal(index.corpus.term_statistics().counts, term_statistics.counts)
        assert index.sync([book], background=False).unchanged == 1
    # Of one that is replaced the old passages answer until all new ones are there.
    changed = Document("book", " ".join(sentences[::-1]), title="A book")
    with open_index(interrupted(300, 16), options=options) as index:
        with pytest.raises(KeyboardInterrupt):
            index.sync([changed], background=False)
        assert passages_of(index, 500) == expected
        assert index.sync([book], background=False).unchanged == 1


def test_nothing_of_a_long_document_is_cut(open_index):
    with filled(open_index) as index:
        assert len(index) == 7
        pipeline = Pipeline(index.encoder, DenseRetriever(index.corpus, exact=True), DynaMaxScorer())
        for topic in range(12):
            ranking = pipeline.search(f"speaks of topic{topic} and thing{topic}.")
            assert ranking.ids[0] == "long"
            hit = next(iter(ranking))
            assert hit.document == LONG
            assert f"topic{topic}" in hit.text
            assert len(hit.text.split()) <= 16
            assert len(set(ranking.ids)) == len(ranking)
        whole = index.fetch(["long", "s1"], frozenset({"documents", "tokens", "dense"}))
    assert [p.number for p in whole.passages] == [*range(len(whole) - 1), 0]
    assert "".join(LONG.content[p.start : p.end] for p in whole.passages[:-1])
    covered = np.zeros(len(LONG.content), bool)
    for p in whole.passages[:-1]:
        covered[p.start : p.end] = True
    assert covered.all()


def test_pools_count_documents(open_index):
    with filled(open_index) as index:
        (query,) = encode_queries(index.encoder, ["Sentence speaks of topic1 topic2 topic3"])
        everything = index.corpus.search(query, 7, exact=True)
        order = list(dict.fromkeys(everything.ids))
        assert len(order) == 7
        for depth in (1, 2, 5):
            assert list(dict.fromkeys(index.corpus.search(query, depth, exact=True).ids)) == order[:depth]
        skipped = index.corpus.search(query, 3, exact=True, options=SearchOptions(offset=2))
        assert list(dict.fromkeys(skipped.ids)) == order[2:5]
        books = models.FieldCondition(key="metadata.kind", match=models.MatchValue(value="book"))
        pool = index.corpus.search(query, 5, options=SearchOptions(filter=models.Filter(must=[books])))
        assert set(pool.ids) == {"long"}
        assert len(pool) > 5


def test_a_search_of_few_among_long_documents_reads_few_passages(open_index, monkeypatch):
    books = [
        Document(f"b{n}", " ".join(f"Sentence {i} speaks of topic{i} in book{n}." for i in range(90)))
        for n in range(6)
    ]
    index = open_index(encoder(), options=OPTIONS)
    index.sync(books, background=False)
    read: list[int] = []
    ask = Pools.ask

    def counted(pools: Pools, requests: Sequence[models.QueryRequest]) -> list[list[Record]]:
        answers = ask(pools, requests)
        read.extend(map(len, answers))
        return answers

    monkeypatch.setattr(Pools, "ask", counted)
    pipeline = index.pipeline("cosine")
    few = pipeline.search("speaks of topic7", top_k=2, depth=2).ids
    assert read == [8 * 2 + 1]
    assert len(few) == 2
    # The pool has all of the six, or could have more: points of those that are there do not come again.
    every_passage = index.pipeline("cosine", unit="passage").search("topic7 in book3", top_k=999, depth=999)
    for depth in (6, 9):
        read.clear()
        ranking = pipeline.search("topic7 in book3", top_k=9, depth=depth)
        assert ranking.ids == tuple(dict.fromkeys(every_passage.ids))
        assert sum(read) < index.status().points / 2


def test_long_documents_that_are_not_split_say_so_to_who_asks_for_passages():
    book = Document("book", " ".join(f"Sentence {i} speaks of topic{i}." for i in range(300)))
    for window, notes in ((None, 1), (16, 0)):
        with DocumentIndex.open(":memory:", encoder(window), options=OPTIONS) as index:
            index.sync([book, *SHORT], background=False)
            pipeline = index.pipeline("cosine", unit="passage")
            assert pipeline.search("topic1", top_k=9).notes.count(NOT_SPLIT) == notes
            assert NOT_SPLIT not in pipeline.search("topic1", top_k=9, unit="document").notes


def test_surprise_of_passages(open_index):
    with filled(open_index) as index:
        questions = [f"topic{i} thing{i + 1}" for i in range(10)]
        index.set_ensemble(Ensemble.from_vectors(index.encoder.encode(questions).dense))
        assert index.status().points == index.status().documents + len(index.fetch(["long"], frozenset())) - 1
        (query,) = encode_queries(index.encoder, ["topic7 thing7"])
        pools = [
            SurpriseRetriever(index.corpus, mode=mode, exact=True, pool=7).retrieve(query, 7)
            for mode in ("formula", "vector")
        ]
        best = [(p.ids[0], p.passages[0]) for p in pools]
        assert best[0] == best[1]
        assert best[0][0] == "long"


def test_a_document_that_changes_its_length_leaves_nothing_behind(open_index):
    with filled(open_index) as index:
        points = index.status().points
        shorter = Document("long", "Only topic1 and thing1 now.")
        assert index.sync([shorter]).updated == 1
        assert (len(index), index.status().points) == (7, 7)
        assert index.sync([LONG]).split == 1
        assert (len(index), index.status().points) == (7, points)
        assert index.sync([LONG, *SHORT]).unchanged == 7
        assert index.delete(["long", "unknown"]) == 1
        assert (len(index), index.status().points) == (6, 6)
        index.sync([LONG, *SHORT[:2]], prune=True)
        assert (len(index), index.status().points) == (3, points - 4)


def test_a_half_written_document_is_written_again(open_index, monkeypatch):
    with open_index(encoder(), options=OPTIONS) as index:
        index.sync(SHORT)
        engine = index.corpus.storage.engine
        upsert, calls = engine.upsert, []

        def failing(points: list) -> None:
            calls.append(len(points))
            if any(p.payload.get("number") for p in points):
                raise StoreError("the power is out")
            upsert(points)

        monkeypatch.setattr(engine, "upsert", failing)
        with pytest.raises(IndexingError, match=r"1 document \('long'\) is not known to be stored") as caught:
            index.sync([*SHORT, LONG])
        assert caught.value.missing == ("long",)
        monkeypatch.undo()
        short = Document("long", "Only topic1 and thing1 now.")
        assert index.sync([*SHORT, short]).updated == 1
        assert (len(index), index.status().points) == (7, 7)


def test_given_vectors_are_of_whole_documents(open_index):
    model = encoder(window=None)
    documents = [LONG, *SHORT]
    encoded = model.encode([d.content for d in documents])
    model.encoded_texts.clear()
    with open_index(model, options=IndexOptions(passages=None)) as index:
        assert index.sync(documents, encoded=encoded).added == 7
        pool = index.fetch(["s3"], frozenset({"dense"}))
        np.testing.assert_allclose(pool.dense[0], encoded.dense[4], atol=1e-6)
        with pytest.raises(DataError, match="give one of each"):
            index.sync([*documents, Document("more", "x")], encoded=encoded)
    assert model.encoded_texts == []
    with (
        open_index(encoder(), options=IndexOptions(passages=None)) as index,
        pytest.raises(DataError, match=r"the shape of the dense vectors must be \(1, 16\), got \(1, 8\)"),
    ):
        index.sync([Document("n", "new")], encoded=WordEncoder(8).encode(["new"]))


def test_means_of_passages_do_not_depend_on_the_pool(open_index):
    many = [
        Document(f"d{i}", " ".join(f"Sentence {j} of topic{(i * j) % 7} and w{j}." for j in range(12)))
        for i in range(20)
    ]
    with open_index(encoder(), options=IndexOptions(passages=Passages(overlap=2, best=2))) as index:
        index.sync(many)
        (query,) = encode_queries(index.encoder, ["topic3 and w4"])
        scores = []
        for depth in (3, 10, 20):
            pool = index.corpus.search(query, depth, exact=True)
            ranking = Ranking.order(pool, pool.scores["cosine"])
            scores.append(dict(zip(ranking.ids, ranking.scores, strict=True)))
        for few in scores[:2]:
            for name, score in few.items():
                assert score == pytest.approx(scores[2][name], abs=1e-6)


def test_an_interrupted_prune_can_be_repeated(open_index, monkeypatch):
    with filled(open_index) as index:
        engine = index.corpus.storage.engine
        delete, calls = engine.delete, []

        def failing(points: list) -> None:
            calls.append(points)
            if len(calls) == 2:
                raise StoreError("the power is out")
            delete(points)

        monkeypatch.setattr(engine, "delete", failing)
        with pytest.raises(StoreError, match="power"):
            index.sync(SHORT, prune=True)
        monkeypatch.undo()
        (query,) = encode_queries(index.encoder, ["topic3"])
        assert "long" in index.corpus.search(query, 10, frozenset({"documents"})).ids
        assert index.sync(SHORT, prune=True).removed == 1
        assert (len(index), index.status().points) == (6, 6)
