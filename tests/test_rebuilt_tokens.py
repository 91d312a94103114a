"""Token vectors of an index that is rebuilt: taken over where nothing is lost, encoded anew elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import Opener
from words import WordEncoder

from surprise_rerank import Document, FunctionEncoder
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant.schema import TOKENS, packed_text, point_id, tokens_id
from surprise_rerank.core.tokens import TokenForm
from surprise_rerank.encoders.passages import Passages
from surprise_rerank.errors import DataError

DOCUMENTS = [Document(f"d{i}", " ".join(f"word{(i * j) % 23}" for j in range(5 + 9 * i))) for i in range(9)]
INT8 = IndexOptions(token_storage="int8")
ALL = frozenset({"dense", "tokens"})


def test_a_new_index_says_how_its_tokens_are_stored(open_index: Opener):
    encoder = WordEncoder()
    with open_index(encoder) as index:
        index.sync(DOCUMENTS)
        form = index.manifest.options.token_form
        assert form == TokenForm.usual(encoder.dimension)
        found = index.fetch(["d8"], ALL).require_tokens()
        assert (found.storage, found.token_counts.tolist()) == (form.storage, [77])
        assert found.lengths.tolist() == [form.least]
    with open_index(encoder, options=IndexOptions()) as index:  # asks for nothing in particular
        assert index.manifest.options.token_form == form


@pytest.mark.parametrize(
    ("before", "after", "reads"),
    [
        (INT8, IndexOptions(token_storage="1bit"), 0),
        (INT8, IndexOptions(token_storage="2bit", pooling=2), 0),
        (INT8, INT8, 0),
        (IndexOptions(token_storage="1bit"), IndexOptions(token_storage="1bit"), 0),
        (IndexOptions(token_storage="4bit", pooling=1), IndexOptions(token_storage="2bit"), 9),
        (IndexOptions(token_storage="1bit"), IndexOptions(token_storage="2bit"), 9),
        (IndexOptions(token_storage="2bit", pooling=2), IndexOptions(token_storage="2bit", pooling=4), 9),
        (IndexOptions(token_storage="1bit"), INT8, 9),
        (INT8, IndexOptions(token_storage="1bit", passages=Passages(tokens=40)), 9),
        (IndexOptions(packed_tokens=False), IndexOptions(token_storage="1bit"), 9),
        (IndexOptions(token_storage="1bit"), IndexOptions(packed_tokens=False), 0),
    ],
)
def test_a_rebuilt_index_encodes_only_what_it_cannot_make(
    open_index: Opener, before: IndexOptions, after: IndexOptions, reads: int
):
    encoder = WordEncoder()
    with open_index(encoder, options=before) as index:
        index.sync(DOCUMENTS)
        encoder.encoded_texts.clear()
        index.rebuild(DOCUMENTS, options=after)
        assert len(encoder.encoded_texts) >= reads if reads else encoder.encoded_texts == []
        expected = encoder.encode([d.content for d in DOCUMENTS])
        if after.passages is not None and after.passages.tokens:
            return
        fields = ALL if after.packed_tokens else frozenset({"dense"})
        found = index.fetch([d.id for d in DOCUMENTS], fields)
        np.testing.assert_allclose(found.dense, expected.dense, atol=1e-6)
        if after.packed_tokens:
            form = index.manifest.options.token_form
            wanted = form.of(expected.require_tokens())
            assert found.require_tokens().lengths.tolist() == wanted.lengths.tolist()
            assert found.require_tokens().storage == form.storage


def test_changed_documents_are_encoded_in_a_rebuild_and_keep_their_place(open_index: Opener):
    encoder = WordEncoder()
    with open_index(encoder, options=INT8) as index:
        index.sync(DOCUMENTS)
        encoder.encoded_texts.clear()
        changed = [replace(DOCUMENTS[0], text="blue green"), *DOCUMENTS[1:8], Document("new", "red")]
        index.rebuild(changed, options=IndexOptions(token_storage="2bit"))
        assert sorted(encoder.encoded_texts) == ["blue green", "red"]
        found = index.fetch([d.id for d in changed], ALL)
        np.testing.assert_allclose(found.dense, encoder.encode([d.content for d in changed]).dense, atol=1e-6)
        assert found.require_tokens().token_counts.tolist() == [2, *(5 + 9 * i for i in range(1, 8)), 1]


def test_damaged_tokens_are_encoded_anew(open_index: Opener):
    encoder = WordEncoder()
    with open_index(encoder) as index:
        index.sync(DOCUMENTS)
        broken = tokens_id(point_id("d3"))
        index.storage.engine.set_payloads([(broken, {TOKENS: packed_text(b"SRT3 and nonsense")})])
        encoder.encoded_texts.clear()
        index.rebuild(DOCUMENTS)
        assert encoder.encoded_texts == [DOCUMENTS[3].content]
        assert index.fetch(["d3"], ALL).require_tokens().token_counts.tolist() == [32]


def api(seen: list[str], salt: int = 0, window: int = 40) -> FunctionEncoder:
    """An embedding API: the counts of a text's words."""

    def embed(texts: list[str]) -> np.ndarray:
        seen.extend(texts)
        return np.array([[len(t), t.count("1") + salt, 1] for t in texts], np.float32)

    return FunctionEncoder(embed, name="api", window=window)


def test_passages_that_are_split_otherwise_are_encoded_anew(open_index: Opener):
    long = [Document("long", " ".join(f"word{i}" for i in range(400)))]
    seen: list[str] = []
    with open_index(api([], window=100)) as index:
        index.sync(long)
        index.rebuild(long, encoder=api(seen, window=40))
        rebuilt = index.fetch(["long"], frozenset({"dense"}))
        with DocumentIndex.open(":memory:", api([], window=40)) as fresh:
            fresh.sync(long)
            wanted = fresh.fetch(["long"], frozenset({"dense"}))
    assert rebuilt.passages == wanted.passages
    np.testing.assert_allclose(rebuilt.dense, wanted.dense, atol=1e-6)
    assert len(seen) >= len(wanted.passages or ())


def test_everything_is_encoded_again_on_request(open_index: Opener):
    seen: list[str] = []
    with open_index(api([])) as index:
        index.sync(DOCUMENTS)
        before = index.fetch(["d3"], frozenset({"dense"})).require_dense()
        index.rebuild(DOCUMENTS, encoder=api(seen, salt=9))
        assert not {d.content for d in DOCUMENTS} & set(seen)
        index.rebuild(DOCUMENTS, encoder=api(seen, salt=9), encode_again=True)
        assert DOCUMENTS[0].content in seen
        assert not np.allclose(index.fetch(["d3"], frozenset({"dense"})).require_dense(), before)


def test_a_model_of_another_dimension_gets_its_own_usual_form(open_index: Opener):
    with open_index(WordEncoder()) as index:
        index.sync(DOCUMENTS)
        assert index.manifest.options.token_storage == "4bit"
        index.rebuild(DOCUMENTS, encoder=WordEncoder(dimension=256))
        assert index.manifest.options.token_form == TokenForm.usual(256)


@pytest.mark.parametrize("asked", [{"token_storage": "2bit"}, {"pooling": 7.0}])
def test_a_form_of_tokens_that_are_not_stored_is_refused(asked: dict[str, Any]):
    with pytest.raises(
        DataError, match=f"{next(iter(asked))}=.* is of token vectors, and packed_tokens=False"
    ):
        DocumentIndex.open(":memory:", WordEncoder(), options=IndexOptions(packed_tokens=False, **asked))
