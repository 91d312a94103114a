"""No public function takes an argument of the wrong kind, or ends in an exception that is not ours."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from qdrant_client import models
from wrong_kinds import Things, cases

from surprise_rerank import (
    DataError,
    Document,
    DocumentIndex,
    EmptySourceError,
    FunctionEncoder,
    NotStoredError,
    Passages,
)
from surprise_rerank.connectors.qdrant import IndexOptions, RetryPolicy, SearchOptions
from surprise_rerank.connectors.similar import similar_documents
from surprise_rerank.connectors.systems import build_system
from surprise_rerank.encoders import static
from surprise_rerank.encoders.multi_vector import MultiVectorEncoder
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder
from surprise_rerank.similarities.definitions import WordStatistics


def test_every_argument_of_the_wrong_kind_is_refused_in_words(tmp_path):
    outcomes = defaultdict(list)
    for case in cases(Things(tmp_path)):
        outcome, words = case.outcome()
        outcomes[case.function].append((outcome, f"{case.parameter}: {case.kind}: {words}"))
    wrong = {
        name: [line for line in lines if line[0] != "refused"]
        for name, lines in outcomes.items()
        if any(outcome != "refused" for outcome, _ in lines)
    }
    assert len(outcomes) > 80
    assert wrong == {}


# What modules beside the face make, with what is needed for it.
MAKERS: dict[str, Callable[[Any], object]] = {
    "StaticEncoder": lambda wrong: static.StaticEncoder(wrong),
    "load_word_vectors": lambda wrong: static.load_word_vectors(wrong),
    "SentenceTransformerEncoder": lambda wrong: SentenceTransformerEncoder(wrong, "model"),
    "MultiVectorEncoder": lambda wrong: MultiVectorEncoder(wrong, "model"),
    "build_system": lambda wrong: build_system("cosine", wrong),
    "similar_documents": lambda wrong: similar_documents([("a", "b"), ("c", "d")], encoder=wrong),
    "RetryPolicy": lambda wrong: RetryPolicy(first_wait=str(wrong)),
    "score_threshold": lambda wrong: SearchOptions(score_threshold=str(wrong)),
    "WordStatistics.of": lambda wrong: WordStatistics.of(str(wrong)),
    "settings": lambda wrong: similar_documents([("a", "b")], wrong),
}


@pytest.mark.parametrize("wrong", [3, [1], {"a": 1}, b"dogs", np.zeros((2, 2))], ids=str)
@pytest.mark.parametrize("maker", MAKERS)
def test_what_modules_make_of_the_wrong_kind_is_refused_in_words(maker, wrong):
    with pytest.raises(DataError, match=r"must be|; give "):
        MAKERS[maker](wrong)


def lengths(texts: list[str]) -> list[list[float]]:
    return [[len(text), 1.0] for text in texts]


ENCODER = FunctionEncoder(lengths, name="lengths")


@pytest.fixture
def index() -> DocumentIndex:
    index = DocumentIndex.open(":memory:", ENCODER)
    index.sync([Document("1", "a"), Document("2", "bb"), Document("12", "ccc")])
    return index


def test_a_string_is_no_list_of_its_letters(index):
    index.set_ensemble(index.ensemble())
    for call in (index.delete, lambda ids: index.fetch(ids, frozenset()), index.add_questions):
        with pytest.raises(
            DataError, match="must be a list of strings, got '12'; put the string into a list"
        ):
            call("12")
    assert len(index) == 3
    assert index.corpus.statistics().record.count == 3
    with pytest.raises(DataError, match=r"documents\[0\] must be a Document, got {'id': '3'}"):
        index.sync([{"id": "3"}])
    with pytest.raises(DataError, match="query must be a Query, got 'why'; search by words with a pipeline"):
        index.corpus.search("why", 3)
    with pytest.raises(DataError, match=r"corpus must be .*index\.corpus"):
        build_system("cosine", index)


@pytest.mark.parametrize("kind", ["list", "generator", "array", "column"])
def test_lists_are_taken_as_people_have_them(index, kind):
    ids = ["1", "12"]
    if kind == "generator":
        ids = (name for name in ids)
    elif kind == "array":
        ids = np.array(ids)
    elif kind == "column":
        ids = pytest.importorskip("pandas").Series(ids)
    assert index.delete(ids) == 2
    assert index.fetch(["2"], frozenset()).ids == ("2",)
    with pytest.raises(NotStoredError, match="'12'"):
        index.fetch(["12"], frozenset())


def test_an_id_is_looked_up_as_it_was_stored(index):
    index.sync([Document("a\ud800", "dddd")])
    assert index.corpus.documents(["a\ud800"])["a\ud800"].text == "dddd"
    assert index.fetch(["a\ud800"], frozenset()).ids == ("a\ufffd",)
    assert index.text_reranker("cosine").rank("d", ["dddd"], ids=["a\ud800"]).notes == ("stored 1 of 1",)
    assert index.delete(["a\ud800"]) == 1


def test_there_are_as_many_names_as_questions(index):
    with pytest.raises(DataError, match="the number of ids must be 2, got 1; give one for each"):
        index.pipeline("cosine").encode(["a", "b"], ["q"])
    texts = index.text_reranker("cosine").rank("a", ["a", "bb"], ids=(name for name in ("2", None)))
    assert {(hit.position, hit.id) for hit in texts} == {(0, "2"), (1, "1")}


@pytest.mark.parametrize("change", ["rebuild", "prune", "renew"])
def test_an_empty_source_takes_nothing_away(tmp_path, change):
    with DocumentIndex.open(tmp_path / "index", ENCODER) as index:
        index.sync([Document("1", "a"), Document("2", "bb")])
        if change != "renew":
            with pytest.raises(EmptySourceError, match=r"2 of .*nothing was removed; look for why"):
                index.rebuild(iter(())) if change == "rebuild" else index.sync(iter(()), prune=True)
    if change == "renew":
        with pytest.raises(EmptySourceError):
            DocumentIndex.renew(tmp_path / "index", [], ENCODER)
    with DocumentIndex.open(tmp_path / "index", ENCODER) as index:
        assert index.fetch(["1", "2"], frozenset()).ids == ("1", "2")
        assert index.sync([Document("1", "a")], prune=True).removed == 1
        assert index.rebuild([Document("3", "c")]).added == 1


def test_a_condition_that_tests_nothing_is_refused_wherever_it_comes_from():
    nothing = models.FieldCondition(key="metadata.year", range=models.Range())
    for wrong in (
        models.Filter(must=[nothing]),
        models.Filter(should=[models.Filter(must_not=nothing)]),
        models.Filter(min_should=models.MinShould(conditions=[nothing], min_count=1)),
        models.Filter(must=[models.FieldCondition(key="metadata.year")]),
    ):
        with pytest.raises(DataError, match="tests nothing"):
            SearchOptions(filter=wrong)
    never = models.FieldCondition(key="metadata.year", range=models.Range(gte=float("nan")))
    with pytest.raises(DataError, match=r"must\[0\].range.gte must be a number, got nan"):
        SearchOptions(filter=models.Filter(must=[never]))
    right = models.FieldCondition(key="metadata.year", range=models.Range(gte=0))
    assert SearchOptions(filter=models.Filter(must=[right])).filter is not None


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({5: 1}, "a key of document 'd': metadata must be a string, got 5"),
        ({None: 1}, "got None"),
        ({"a": {"day": np.datetime64("2020-01-01")}}, r"metadata\['a'\]\['day'\] must be a value of JSON"),
        ({"n": 2**64}, "64 bits"),
        ({"x": float("nan")}, "a finite number"),
    ],
)
def test_metadata_that_cannot_be_stored_name_their_key(metadata, words):
    with pytest.raises(DataError, match=words):
        Document("d", "text", metadata=metadata)


def test_numbers_of_numpy_are_numbers():
    document = Document(
        "d", "text", metadata={"year": np.int64(2020), "shares": np.array([0.5]), "pair": (1, 2)}
    )
    assert document.metadata == {"year": 2020, "shares": [0.5], "pair": [1, 2]}
    assert Passages(tokens=np.int64(64)).tokens == 64


@pytest.mark.parametrize("wrong", [{"tokens": "no"}, {"passages": 5}, {"bm25": True}, {"pooling": 0.5}])
def test_options_of_an_index_are_of_their_kinds(wrong):
    with pytest.raises(DataError, match=f"IndexOptions.{next(iter(wrong))} must be"):
        IndexOptions(**wrong)
