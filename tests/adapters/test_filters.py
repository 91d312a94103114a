"""Haystack's filters pick the same documents in an index as in Haystack's own store."""

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.words import WordEncoder

from surprise_rerank import DataError, Document, Pipeline
from surprise_rerank.connectors._filters import from_haystack
from surprise_rerank.connectors.qdrant import DenseRetriever, DocumentIndex, SearchOptions
from surprise_rerank.core._extras import is_installed

WIDE = "größe [cm]"
METADATA: list[dict[str, Any]] = [
    {"year": 2019, "kind": "news", "draft": False, "price": 1.5, "rating": 2, "day": "2026-01-31T10:00:00"},
    {"year": 2020, "kind": "blog", "draft": True, "price": 2.0, "rating": 2.0, "day": "2026-02-01T10:00:00"},
    {"year": 2021, "kind": "news", "draft": True, "price": 2.5, "rating": 7.0, "day": "2026-03-01T10:00:00"},
    {"kind": "none"},
]
METADATA[0] |= {"at": {"x": 1}, "my key": {WIDE: 1}}
METADATA[1] |= {"at": {"x": 2}, "my key": {WIDE: 2}, "serial": 2**53 + 1}
METADATA[2] |= {"tags": ["a", "b"], "my key": {WIDE: 1.5}, "serial": 2**53}


def where(field: str, operator: str, value: Any) -> dict[str, Any]:
    return {"field": field, "operator": operator, "value": value}


def joined(operator: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    return {"operator": operator, "conditions": list(conditions)}


YEAR, NEWS = where("meta.year", ">=", 2020), where("meta.kind", "==", "news")
FILTERS = [
    YEAR,
    NEWS,
    where("kind", "==", "news"),
    where("id", "==", "1"),
    where("id", "in", ["0", "2", "none"]),
    where("meta.draft", "==", True),
    where("meta.draft", "!=", True),
    where("meta.price", "!=", 2.5),
    where("meta.price", "<", 2),
    where("meta.year", "<=", 2020),
    where("meta.year", "==", None),
    where("meta.year", "!=", None),
    where("meta.year", "in", [2019, 2021]),
    where("meta.year", "not in", [2019, 2021]),
    where("meta.kind", "in", []),
    where("meta.at.x", "==", 2),
    where("meta.rating", "==", 2),
    where("meta.rating", "==", 2.0),
    where("meta.rating", "!=", 2),
    where("meta.rating", "not in", [7]),
    where("meta.serial", "==", 2**53),
    where("meta.serial", "==", 2**53 + 1),
    where("meta.my key.größe [cm]", "==", 1),
    where("meta.my key.größe [cm]", "<", 2),
    where("meta.my key.größe [cm]", "==", None),
    where("my key", "==", None),
    where("meta.at[x]", "==", None),
    where("meta.day", ">", "2026-01-31T12:00:00"),
    where("meta.day", "<=", "2026-02-01T10:00:00"),
    joined("AND", YEAR, NEWS),
    joined("OR", YEAR, NEWS),
    joined("NOT", YEAR, NEWS),
    joined("OR"),
    joined("NOT"),
    joined("OR", joined("OR"), NEWS),
    joined("NOT", joined("OR")),
    joined("AND", joined("OR", NEWS, where("meta.kind", "==", "none")), joined("NOT", YEAR)),
]


@pytest.fixture(scope="module", params=["memory", "folder"])
def index(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DocumentIndex]:
    place = ":memory:" if request.param == "memory" else tmp_path_factory.mktemp("filters")
    with DocumentIndex.open(place, WordEncoder()) as index:
        index.sync(Document(str(i), f"text {i}", metadata=more) for i, more in enumerate(METADATA))
        yield index


def found(index: DocumentIndex, filters: dict[str, Any]) -> list[str]:
    options = SearchOptions(filter=from_haystack(filters))
    return sorted(Pipeline(WordEncoder(), DenseRetriever(index.corpus, options=options)).search("text").ids)


@pytest.mark.skipif(not is_installed("haystack"), reason="the extra 'haystack' is not installed")
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_the_same_documents_are_picked_as_by_haystack(index, filters, monkeypatch):
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    from haystack import Document as HaystackDocument
    from haystack.utils.filters import document_matches_filter

    documents = [HaystackDocument(id=str(i), content="text", meta=more) for i, more in enumerate(METADATA)]
    assert found(index, filters) == [d.id for d in documents if document_matches_filter(filters, d)]


def test_a_value_in_a_list_is_found(index):
    assert found(index, where("meta.tags", "==", "a")) == ["2"]


def test_a_date_may_be_one(index):
    assert found(index, where("meta.day", ">=", datetime.datetime(2026, 2, 1))) == ["1", "2"]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ("news", "a filter must be a dictionary, got 'news'"),
        ({}, "the filter has nothing"),
        ({"field": "meta.kind", "operator": "=="}, "has 'field', 'operator'; a comparison has field"),
        ({"operator": "AND"}, "has operator and conditions"),
        ({"operator": "AND", "conditions": 3}, "conditions must be a list of filters, got 3"),
        (where(3, "==", 3), "the field of a filter must be a string, got 3"),
        (where("meta.", "==", 3), "a filter's field must be keys .* got ''; join them"),
        (where("meta.a..b", "==", 3), r"a filter's field must be keys .* got 'a\.\.b'"),
        (where('meta.a"b', "==", 3), "a filter's field must be keys with no"),
        (where("content", "==", "text"), "does not filter by 'content' .* is 'meta.content'"),
        (where("meta", "==", None), "does not filter by 'meta'"),
        (where("meta.year", "==", 2**63), r"the value of metadata\.year must be a string, a boolean,"),
        (joined("XOR", NEWS), "operator='XOR' is not known"),
        (where("meta.kind", "=", "news"), "'=' is not known"),
        (where("meta.kind", "in", "news"), r"the values of metadata\.kind must be a list, got 'news'"),
        (where("meta.kind", "==", ["news"]), r"the value of metadata\.kind must be a string, a boolean,"),
        (where("meta.kind", ">", "news"), "greater or less than 'news'; give a number, or a date"),
        (where("meta.kind", ">", None), "greater or less than None"),
    ],
)
def test_what_is_no_filter_says_so(filters, message):
    with pytest.raises(DataError, match=message):
        from_haystack(filters)
