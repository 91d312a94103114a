"""Payloads of collections that somebody else made: which keys are read, and what finds documents by them."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.foreign import foreign
from helpers.words import WordEncoder
from qdrant_client import models

from surprise_rerank import DataError
from surprise_rerank.connectors.attached import Collection
from surprise_rerank.connectors.attached._finding import sparse_embed
from surprise_rerank.connectors.attached._layouts import find_layout
from surprise_rerank.connectors.qdrant._payloads import Payload, PayloadLayout, haystack_point
from surprise_rerank.connectors.systems import build_system
from surprise_rerank.core._json_values import at

ENCODER = WordEncoder(32)
TEXTS = [
    f"{topic} number{i}" for i in range(10) for topic in ("cats purr", "dogs bark at night", "bread is baked")
]
COUNT = len(TEXTS)


def collection_of(
    payload: Callable[[int], dict[str, Any]],
    distance: models.Distance = models.Distance.COSINE,
    **settings: Any,
) -> Collection:
    client = foreign(ENCODER.encode(TEXTS).dense, [payload(i) for i in range(COUNT)], distance=distance)
    return Collection.attach(client, "papers", **{"embed": ENCODER, **settings})


def layout_of(*payloads: Payload, **keys: str) -> PayloadLayout:
    points = [(str(i), payload) for i, payload in enumerate(payloads)]
    return find_layout(points, "here", **keys)


def test_a_text_that_is_a_list_of_strings_is_read():
    layout = layout_of({"text": ["dogs", "bark"], "tags": ["a"]}, {"text": "cats"}, {"text": [1]})
    payloads = [{"text": ["dogs", "bark"], "tags": ["a"]}, {"text": "cats"}, {"text": [1]}]
    assert [layout.document("1", payload).text for payload in payloads] == ["dogs\n\nbark", "cats", ""]
    assert (layout.lacking, layout.document("1", payloads[0]).metadata) == (1, {"tags": ["a"]})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("docno", lambda i: {"docno": 1000 + i}),
        ("docno", lambda i: {"docno": f"d{i}"}),
        ("docno", lambda i: {"docno": i + 5 if i % 2 else str(i + 5)}),
        ("m.docno", lambda i: {"m.docno": f"d{i}"}),
        ("m.docno", lambda i: {"m": {"docno": -i - 1}}),
        ("Doc No", lambda i: {"Doc No": f"d{i}"}),
    ],
)
def test_documents_are_found_by_ids_of_any_kind(key, value):
    collection = collection_of(lambda i: {"text": TEXTS[i], **value(i)}, id=key)
    ids = collection.pipeline("cosine").search("dogs", top_k=COUNT).ids
    assert set(ids) == {str(at(value(i), key)) for i in range(COUNT)}
    found = collection.fetch((*ids, "nobody", "-77"), frozenset({"documents"}), skip_missing=True)
    assert found.ids == ids
    assert {own.text for own in found.documents or ()} == set(TEXTS)


@pytest.mark.parametrize(
    ("payload", "keys"),
    [
        (lambda i: {"doc.text": TEXTS[i]}, {"text": "doc.text"}),
        (lambda i: {"doc": {"text": TEXTS[i]}}, {"text": "doc.text"}),
        (lambda i: {"Main Text": TEXTS[i]}, {"text": "Main Text"}),
        (lambda i: {"_node_content": json.dumps({"text": ""}), "text": TEXTS[i]}, {}),
        (lambda i: {"_node_content": json.dumps({"text": TEXTS[i]}), "head": f"h{i}"}, {"title": "head"}),
    ],
)
def test_what_is_fetched_for_the_text_has_the_same_text(payload, keys):
    collection = collection_of(payload, **keys)
    layout = collection.corpus.payloads
    pages = collection.corpus.points.scroll(layout.text_fields())
    fetched = {record.id: layout.document(record.id, record.payload) for page in pages for record in page}
    for i in range(COUNT):
        assert fetched[str(i)].text == TEXTS[i]
        assert fetched[str(i)].content == layout.document(str(i), payload(i)).content


def test_a_key_that_is_named_takes_the_place_of_one_in_a_known_layout():
    node = {"_node_content": json.dumps({"text": "a b", "metadata": {"head": "H", "n": 1}}), "head": "H"}
    layout = layout_of({**node, "doc_id": "d1"}, id="doc_id", title="head")
    document = layout.document("0", {**node, "doc_id": "d1"})
    assert (document.id, document.title, document.text) == ("d1", "H", "a b")
    assert document.metadata == {"n": 1}
    own = {"page_content": "a b", "metadata": {"source": "x"}, "body": "c d"}
    assert layout_of(own, text="body").document("0", own).text == "c d"
    assert layout_of(own, id="metadata.source").document("0", own).id == "x"
    assert (
        layout_of({**node, "body": "c d"}, text="body").document("0", {**node, "body": "c d"}).text == "c d"
    )


def test_documents_of_haystack_keep_their_points_with_another_title_but_not_with_another_id():
    payload = {"id": "doc", "content": "a b", "meta": {"name": "n", "key": "k"}}
    points = [(haystack_point("doc"), payload)]
    titled = find_layout(points, "here", title="meta.name")
    assert titled.hashed_ids
    assert titled.document("0", payload).content == "n a b"
    assert not find_layout(points, "here", id="meta.key").hashed_ids


def test_unit_vectors_by_manhattan_are_ranked_by_manhattan():
    collection = collection_of(lambda i: {"text": TEXTS[i]}, models.Distance.MANHATTAN)
    (query,) = ENCODER.encode(["dogs number3"]).dense
    nearest = np.argsort(np.abs(ENCODER.encode(TEXTS).dense - query).sum(axis=1), kind="stable")[:8]
    assert collection.corpus.vectors.similarity == "manhattan"
    ranked = collection.text_reranker("cosine").rank(
        "dogs number3", TEXTS, ids=[str(i) for i in range(COUNT)], top_k=8
    )
    assert [own.position for own in ranked] == nearest.tolist()
    with pytest.raises(DataError, match="compares its vectors by Manhattan"):
        build_system("auto", collection.corpus)
    euclid = collection_of(lambda i: {"text": TEXTS[i]}, models.Distance.EUCLID)
    assert euclid.corpus.vectors.similarity == "dot"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([-1], [1.0]), r"the indices \[-1\] and the values \[1.0\]; expected whole numbers"),
        (([2**32], [1.0]), "whole numbers from 0"),
        (([1.5], [1.0]), r"the indices \[1.5\]"),
        (([5, 5], [1.0, 2.0]), "each once"),
        ((["bread"], [1.0]), r"indices \['bread'\]"),
        (([1], ["much"]), r"values \['much'\]"),
        (([1, 2], [1.0]), "as many finite numbers"),
        ({"indices": [1]}, "a dict with the keys indices"),
        ({7: 1.0}, "a dict with the keys 7"),
        ([1, 2], "gave a list"),
    ],
)
def test_a_wrong_sparse_vector_is_shown(given, message):
    def my_sparse(text: str) -> Any:
        return given

    with pytest.raises(DataError, match=message) as caught:
        sparse_embed(my_sparse)("a question")
    assert "my_sparse" in str(caught.value)


def test_a_right_sparse_vector_is_in_order_without_zeros():
    found = sparse_embed(lambda text: ([9, 2**32 - 1, 3.0], [1.0, 2.0, 0.0]))("bread")
    assert found.indices.tolist() == [9, 2**32 - 1]
    assert found.values.tolist() == [1.0, 2.0]
    assert not len(sparse_embed(lambda text: ([], []))("bread").indices)


@pytest.mark.parametrize(
    ("value", "name"), [("a", "a"), (7, "7"), ("", "point"), (True, "point"), (None, "point")]
)
def test_a_point_without_a_usable_id_has_its_own(value, name):
    assert PayloadLayout(("text",), id="id").document_id("point", {"id": value}) == name
