"""Multivectors of an index: merged as its packed tokens are, in codes where Qdrant has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import NEEDS_EDGE, Opener
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qdrant_client import models
from real_server import cleaned, server_url
from words import WordEncoder

from surprise_rerank import Document, DynaMax
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, MaxSimRetriever
from surprise_rerank.connectors.qdrant.location import MEMORY
from surprise_rerank.connectors.qdrant.multivectors import CODED, TokenStorage, document_vectors
from surprise_rerank.connectors.qdrant.schema import DENSE, TOKEN_VECTORS, point_id
from surprise_rerank.connectors.qdrant.search.queries import dense_stage, maxsim_stage, request
from surprise_rerank.connectors.qdrant.writing.points import PointMaker
from surprise_rerank.core.tokens import TokenForm
from surprise_rerank.core.tokens.pooling import pooled_tokens
from surprise_rerank.encoders.base import Encoded, encode_queries
from surprise_rerank.errors import DataError

D = 48
WORDS = [f"word{i}" for i in range(400)]
MOST = TokenForm().least
# What the mean of some cosines of D components may be off by.
ERRORS: dict[TokenStorage, float] = {
    "float16": 1e-3,
    "uint8": 0.01,
    "turbo4": 0.05,
    "turbo2": 0.2,
    "turbo1": 0.4,
}


def documents(seed: int, lengths: list[int]) -> list[Document]:
    rng = np.random.default_rng(seed)
    return [Document(f"d{i}", " ".join(rng.choice(WORDS, n))) for i, n in enumerate(lengths)]


def native(index: DocumentIndex, document: Document) -> np.ndarray:
    """The multivector of a document, as it is stored."""
    (record,) = index.storage.engine.retrieve([point_id(document.id)], (), (TOKEN_VECTORS,))
    return np.asarray(record.vectors[TOKEN_VECTORS])


@pytest.mark.parametrize("pooling", [None, 1.0, 2.0])
@pytest.mark.parametrize("storage", list(ERRORS))
def test_maxsim_is_the_inclusion_of_the_merged_tokens(
    open_index: Opener, storage: TokenStorage, pooling: float | None
) -> None:
    """Also where nothing is packed: the options still say how tokens are merged."""
    encoder = WordEncoder(D)
    options = IndexOptions(packed_tokens=False, token_vectors=storage, pooling=pooling, passages=None)
    try:
        index = open_index(encoder, options=options)
    except DataError as error:
        if "local mode" in str(error):
            pytest.skip("local mode has no codes")
        raise
    with index:

        @settings(
            deadline=None,
            max_examples=3,
            suppress_health_check=[HealthCheck.function_scoped_fixture],
        )
        @given(seed=st.integers(0, 2**32), lengths=st.lists(st.integers(1, 230), min_size=2, max_size=6))
        def check(seed: int, lengths: list[int]) -> None:
            own = documents(seed, [*lengths, 0])
            index.sync(own, prune=True)
            form = index.manifest.options.token_form
            merged = pooled_tokens(
                encoder.encode([d.content for d in own]).require_tokens(), form.pooling, form.least
            )
            sizes = [len(native(index, document)) for document in own]
            assert sizes == [max(1, n) for n in merged.lengths.tolist()]
            (query,) = encode_queries(encoder, [" ".join(own[0].text.split()[:3]) + " word1 word2"])
            found = MaxSimRetriever(index, exact=True).retrieve(query, len(own))
            scores = dict(zip(found.ids, found.scores["maxsim"], strict=True))
            expected = DynaMax().pool(query.require_tokens(), merged)
            # DynaMax counts no negative cosine, and one word alone may be at one.
            many = merged.lengths > 8
            ours = np.array([scores[document.id] for document in own])
            np.testing.assert_allclose(ours[many], expected[many], rtol=0, atol=ERRORS[storage])

        check()


@pytest.mark.parametrize("storage", ["float16", "uint8"])
def test_multivectors_are_made_of_int8_tokens_and_never_of_codes(
    open_index: Opener, storage: TokenStorage
) -> None:
    encoder, own = WordEncoder(D), documents(1, [5, 90, 150])
    with_native = IndexOptions(token_storage="1bit", token_vectors=storage)
    with open_index(encoder, options=IndexOptions(token_storage="int8")) as index:
        index.sync(own)
        encoder.encoded_texts.clear()
        index.rebuild([*own[:2], Document("d2", own[2].text + " more")], options=with_native)
        assert len(encoder.encoded_texts) == 1, "only what has changed is encoded"
        carried = [native(index, document) for document in own[:2]]
        encoder.encoded_texts.clear()
        index.rebuild(own, options=with_native)
        assert len(encoder.encoded_texts) == len(own), "codes have lost what multivectors keep"
        fresh = [native(index, document) for document in own[:2]]
    tokens = encoder.encode([document.content for document in own[:2]]).require_tokens()
    form = TokenForm("1bit")
    for found, known in ((carried, tokens.stored("int8")), (fresh, tokens)):
        merged = form.merged(known)
        for i, rows in enumerate(found):
            expected = document_vectors(merged.text(i, unit=True), storage)
            np.testing.assert_allclose(rows, expected, atol=1 if storage == "uint8" else 1e-3)


@pytest.mark.parametrize("storage", list(CODED))
def test_local_mode_refuses_codes_that_it_would_not_compute(tmp_path: Path, storage: TokenStorage) -> None:
    options = IndexOptions(token_vectors=storage)
    expected = rf"token_vectors='{storage}' .* 1\.18 on, and .* local mode; choose engine='edge' or a url, or"
    with pytest.raises(DataError, match=expected):
        DocumentIndex.open(tmp_path / "index", WordEncoder(), engine="local", options=options)
    assert not (tmp_path / "index").exists()
    with pytest.raises(DataError, match=expected):
        DocumentIndex.open(MEMORY, WordEncoder(), options=options)
    with DocumentIndex.open(tmp_path / "index", WordEncoder(), engine="local") as index:
        index.sync(documents(0, [3]))
        with pytest.raises(DataError, match=expected):
            index.rebuild(documents(0, [3]), options=options)
        assert len(index) == 1


@pytest.mark.server
@pytest.mark.parametrize("storage", list(CODED))
def test_a_server_makes_the_codes_and_computes_with_them(storage: TokenStorage) -> None:
    encoder, name = WordEncoder(D), f"test-native-{storage}"
    options = IndexOptions(packed_tokens=False, token_vectors=storage, passages=None, bm25=None)
    place = {"url": server_url(), "collection": name}
    with (
        cleaned(server_url(), name) as client,
        DocumentIndex.open(None, encoder, **place, options=options) as index,
    ):
        own = documents(2, [100] * 40)
        index.sync(own)
        made = client.get_collection(f"{name}@1").config.params.vectors[TOKEN_VECTORS]
        assert made.datatype == models.Datatype.FLOAT16
        assert made.quantization_config.turbo.bits == f"bits{CODED[storage]}"
        assert made.quantization_config.turbo.always_ram
        assert made.on_disk
        (query,) = encode_queries(encoder, [own[0].text])
        tokens = query.require_tokens()
        stages = [dense_stage(query.dense, 40), maxsim_stage(tokens, 40)]
        coded = index.storage.engine.query(request(stages, 40, (), ()))
        whole = models.SearchParams(quantization=models.QuantizationSearchParams(ignore=True))
        exact = index.storage.engine.query(request(stages, 40, (), ()).model_copy(update={"params": whole}))
        ours, theirs = ({r.id: r.score for r in found} for found in (coded, exact))
        differences = [abs(ours[point] - theirs[point]) for point in theirs]
        assert max(differences) > 1e-4 * len(tokens), "the codes are what it computes with"


@NEEDS_EDGE
@pytest.mark.parametrize("storage", list(CODED))
def test_edge_computes_with_codes_too(tmp_path: Path, storage: TokenStorage) -> None:
    encoder, own = WordEncoder(D), documents(3, [100] * 20)
    scores = []
    for chosen in (storage, "float16"):
        options = IndexOptions(packed_tokens=False, token_vectors=chosen, passages=None)
        with DocumentIndex.open(tmp_path / chosen, encoder, engine="edge", options=options) as index:
            index.sync(own)
            (query,) = encode_queries(encoder, [own[0].text])
            found = MaxSimRetriever(index, exact=True).retrieve(query, 20)
            scores.append(dict(zip(found.ids, found.scores["maxsim"], strict=True)))
    coded, exact = scores
    errors = np.array([coded[name] - exact[name] for name in exact])
    assert 1e-4 < np.abs(errors).max() < ERRORS[storage]


def test_tokens_are_merged_once_for_both_places(monkeypatch: pytest.MonkeyPatch) -> None:
    from surprise_rerank.core.tokens import pooling

    asked = []
    clusters = pooling.clusters
    monkeypatch.setattr(pooling, "clusters", lambda *given: asked.append(1) or clusters(*given))
    encoder, own = WordEncoder(D), documents(4, [90, 90])
    options = IndexOptions(token_vectors="float16", passages=None).settled(D)
    maker = PointMaker(options, encoder, None)
    points = maker.points(maker.pieces(own)[0] + maker.pieces(own)[1], _encoded(encoder, own))
    assert len(asked) == 2
    assert [len(point[-1].vectors[TOKEN_VECTORS]) for point in points] == [MOST, MOST]
    assert all(DENSE in point[-1].vectors for point in points)


def _encoded(encoder: WordEncoder, own: list[Document]) -> Encoded:
    return encoder.encode([document.content for document in own])
