"""Texts that somebody else retrieved: encoded on the fly, or fetched by id, and put in order."""

import asyncio
import math
from pathlib import Path

import numpy as np
import pytest
from helpers.words import WordEncoder

from surprise_rerank import (
    CosineScorer,
    DataError,
    Document,
    DynaMaxScorer,
    FunctionEncoder,
    PairedEncoder,
    Passages,
    SearchOptions,
    TextReranker,
)
from surprise_rerank.connectors._searchable import StoredCandidates
from surprise_rerank.connectors.qdrant import Bm25, DocumentIndex, IndexOptions
from surprise_rerank.rerank._auto import auto_of_texts

TEXTS = ["tea and milk", "a wing gives lift", "the wing", "a wing gives lift"]
DOCUMENTS = [Document(f"d{i}", text) for i, text in enumerate([*TEXTS, "drag of a wing", "bread"])]


@pytest.fixture
def reranker() -> TextReranker:
    return TextReranker(WordEncoder())


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory):
    options = IndexOptions(passages=None, bm25=Bm25())
    with DocumentIndex.open(tmp_path_factory.mktemp("i") / "index", WordEncoder(), options=options) as opened:
        opened.sync(DOCUMENTS)
        yield opened


def test_texts_come_best_first_and_equal_ones_in_their_order(reranker):
    ranked = reranker.rank("wing lift", TEXTS)
    assert [line.position for line in ranked] == [1, 3, 2, 0]
    assert ranked[0].score == ranked[1].score > ranked[2].score
    assert ranked[0].percentile is None
    assert ranked[0].relevance == ranked[0].score
    assert ranked[0].parts == {"dynamax": ranked[0].score}
    assert [line.position for line in reranker.rank("wing lift", TEXTS, top_k=2)] == [1, 3]
    assert [line.position for line in reranker.rank("wing", ["wing"], top_k=5)] == [0]
    assert [line.score for line in reranker.rank("drag", [""])] == [0.0]
    assert len(reranker.rank("wing", [])) == 0


@pytest.mark.parametrize("system", ["cosine", "dynamax", "fusion", "surprise"])
def test_stored_and_fresh_texts_score_alike(index, system):
    index.set_ensemble(index.ensemble(), source="documents")
    reranker = index.text_reranker(system)
    ids = [document.id for document in DOCUMENTS]
    texts = [document.text for document in DOCUMENTS]
    encoder = index.encoder
    encoder.encoded_texts.clear()
    stored = {line.position: line for line in reranker.rank("wing lift", texts, ids=ids)}
    assert encoder.encoded_texts == ["wing lift"]
    mixed_ids = [name if i % 2 else None for i, name in enumerate(ids)]
    mixed = {line.position: line for line in reranker.rank("wing lift", texts, ids=mixed_ids)}
    fresh = {line.position: line for line in reranker.rank("wing lift", texts)}
    for position, line in stored.items():
        for name in {"cosine", "dynamax", "z"} & set(line.parts):  # what is fresh has no BM25
            assert mixed[position].parts[name] == pytest.approx(line.parts[name], abs=0.02)
            assert fresh[position].parts[name] == pytest.approx(line.parts[name], abs=0.02)


def test_background_and_threshold_drop_what_is_off_topic(reranker):
    others = [f"{a} {b}" for a in ("salt", "jam", "egg", "rye") for b in ("pot", "tin", "cup", "jar", "mug")]
    judging = reranker.with_background(others, lambda question: TEXTS)
    ranked = judging.rank("wing lift", TEXTS)
    assert ranked[0].percentile == ranked[0].relevance == 20 / 21
    strict = TextReranker(
        reranker.encoder, background=judging.background, options=SearchOptions(min_percentile=0.95)
    )
    assert [line.position for line in strict.rank("wing lift", TEXTS)][:2] == [1, 3]
    assert len(strict.rank("rye mug", TEXTS)) == 0
    with pytest.raises(DataError, match="needs a background of other questions"):
        TextReranker(reranker.encoder, options=SearchOptions(min_percentile=0.5))


# Vectors that come with texts


def given_vectors(texts: list[str] = TEXTS) -> list[list[float] | None]:
    return [vector.tolist() for vector in WordEncoder().encode(texts).dense]


@pytest.mark.parametrize("chosen", [CosineScorer(), DynaMaxScorer(), auto_of_texts()])
@pytest.mark.parametrize("lacking", [(), (0, 3), (0, 1, 2, 3)])
def test_given_vectors_of_any_length_rank_as_encoded_ones(chosen, lacking):
    encoder = WordEncoder()
    expected = TextReranker(WordEncoder(), chosen).rank("wing lift", TEXTS)
    vectors = [None if i in lacking else np.array(v) * 5 for i, v in enumerate(given_vectors())]
    reranker = TextReranker(encoder, chosen)
    ranked = reranker.rank("wing lift", TEXTS, vectors=vectors)
    scores = {line.position: line.score for line in expected}
    assert {line.position: line.score for line in ranked} == pytest.approx(scores, abs=1e-6)
    notes = [note for note in ranked.notes if "were given" in note]
    reads_dense = chosen.needs >= {"dense"}
    assert notes == [f"vectors of {4 - len(lacking)} of 4 texts were given"] * (
        reads_dense and len(lacking) < 4
    )
    if chosen.needs == {"dense"} and len(lacking) < 4:
        first = min({0, 1, 2, 3} - set(lacking))  # one text is compared with the encoder's own
        assert encoder.encoded_texts == ["wing lift", TEXTS[first], *(TEXTS[i] for i in lacking)]
    assert list(asyncio.run(reranker.arank("wing lift", TEXTS, vectors=vectors))) == list(ranked)


def test_vectors_of_another_model_are_not_used_which_is_told(caplog):
    reranker = TextReranker(WordEncoder(), CosineScorer())
    expected = reranker.rank("wing lift", TEXTS)
    wrong = np.random.default_rng(0).normal(size=(4, 16))
    for vectors, note in (
        (wrong, "the vectors that came with 4 texts are of another model and were not used"),
        (wrong, "the vectors that came with 4 texts are of another model and were not used"),
        (wrong[:, :3], "have dimension 3, those of 'words' 16"),
    ):
        ranked = reranker.rank("wing lift", TEXTS, vectors=list(vectors))
        assert list(ranked) == list(expected)
        assert note in ranked.notes[0]
    assert caplog.text.count("are not of the encoder 'words'") == 1


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 2.0]], "the length of vectors must be 4, got 1; give one for each"),
        ([[1.0, math.nan], None, None, None], r"vectors\[0\] must be finite, got NaN or infinite values"),
        ([None, [[1.0]], None, None], r"vectors\[1\] must be of shape \(dimension,\), got \(1, 1\)"),
        ([None, [], None, None], r"vectors\[1\] must be of shape \(dimension,\), got \(0, 0\)"),
        ([None, ["wing"], None, None], r"vectors\[1\] must be numbers"),
        ([[1.0], [1.0, 2.0], None, None], r"the dimension of vectors\[1\] must be 1, got 2"),
    ],
)
def test_vectors_that_cannot_be_used_are_refused(reranker, vectors, message):
    with pytest.raises(DataError, match=message):
        reranker.rank("wing", TEXTS, vectors=vectors)


# What was stored


@pytest.mark.parametrize("setting", [{"depth": 1}, {"tenant": "a"}, {"filter": {}}])
def test_a_setting_of_a_pool_is_refused_for_texts_that_are_given(reranker, setting):
    with pytest.raises(DataError, match=f"re-ranking of texts has no setting '{next(iter(setting))}'"):
        reranker.rank("wing", ["wing", "lift"], **setting)


def test_how_many_were_stored_is_told(index, caplog):
    reranker = index.text_reranker("dynamax")
    with caplog.at_level("DEBUG", "surprise_rerank"):
        ranked = reranker.rank("wing lift", ["?", "tea", "?"], ids=[("gone", "d1"), "nowhere", "d5"])
    assert ranked.notes[0] == "stored 2 of 3; 1 were encoded"
    assert "stored 2 of 3" in caplog.text
    assert reranker.rank("wing lift", ["?"], ids=["d1"]).notes[0] == "stored 1 of 1"
    index.text_reranker("dynamax").rank("wing", ["wing"])  # nobody speaks of ids
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    for ids, why in (
        (["a", "b", "c", "d", None], "the index has none of their ids (see level debug)"),
        ([None] * 5, "none came with an id"),
    ):
        caplog.clear()
        reranker = index.text_reranker("dynamax")
        for _ in range(2):
            assert reranker.rank("wing", ["wing"] * 5, ids=ids).notes[0] == "stored 0 of 5; 5 were encoded"
        warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert warned == [f"none of 5 texts is stored, so all are encoded: {why}"]


# Texts that are longer than the model reads

LONG = "tea milk bread salt jam rye egg pot tin wing lift drag"


@pytest.fixture
def split(tmp_path: Path):
    options = IndexOptions(passages=Passages(overlap=0), bm25=None)
    with DocumentIndex.open(tmp_path / "split", WordEncoder(window=4), options=options) as opened:
        opened.sync([Document("long", "tea milk bread salt wing lift drag flow"), Document("short", "tea")])
        yield opened


def test_of_a_long_text_the_best_passage_counts_stored_or_not(split):
    encoder = WordEncoder(window=4)
    ranked = TextReranker(encoder).rank("wing lift", ["tea", f"  {LONG} ", "wing tea"])
    assert [line.position for line in ranked] == [1, 2, 0]
    assert ranked[0].score == pytest.approx(1.0, abs=1e-6)
    place = ranked[0].passage
    assert "wing lift" in LONG[place.start : place.end], "places are those of the content"
    assert set(ranked[0].text.split()) <= set(LONG.split()), "it begins and ends with whole words"
    assert ranked[0].text.endswith("drag")
    assert [line.text for line in ranked[1:]] == ["wing tea", "tea"]
    cut = TextReranker(WordEncoder(window=4), passages=None).rank("wing lift", ["tea", LONG, "wing tea"])
    assert cut[0].position == 2
    wide = TextReranker(WordEncoder(), passages=Passages(tokens=6, overlap=1)).rank(
        "wing lift", [LONG, "tea"]
    )
    assert wide[0].passage.start > 0
    ranked = TextReranker(encoder, stored=StoredCandidates(split.corpus)).rank(
        "wing lift", ["?", "?", "wing tea"], ids=["short", "long", None]
    )
    assert [line.position for line in ranked] == [1, 2, 0]
    assert ranked[0].score == pytest.approx(1.0, abs=0.02)
    # With a vector of the whole text, it is split for its tokens only.
    vectors = [vector.tolist() for vector in encoder.encode([LONG, "tea"]).dense]
    for chosen, is_split in ((CosineScorer(), False), (auto_of_texts(), True)):
        ranked = TextReranker(encoder, chosen).rank("wing lift", [LONG, "tea"], vectors=vectors)
        assert (ranked[0].position == 0) >= is_split
        assert any(line.passage is not None for line in ranked) == is_split


# Encoders of any kind


def test_an_embedding_function_is_an_encoder_and_ranks_by_cosine():
    def embed(texts: list[str]) -> np.ndarray:
        return WordEncoder().encode(texts).dense

    ranked = TextReranker(embed).rank("wing lift", TEXTS)
    same = TextReranker(FunctionEncoder(embed, name="mine"), CosineScorer())
    assert list(ranked) == list(same.rank("wing lift", TEXTS))
    assert tuple(ranked[0].parts) == ("cosine",)
    auto = TextReranker(embed, auto_of_texts()).rank("wing lift", TEXTS)
    assert "without token vectors: the question has none, so dynamax was left out" in auto.notes
    with pytest.raises(DataError, match="such as cosine or auto"):
        TextReranker(embed, DynaMaxScorer()).rank("wing lift", TEXTS)
    with pytest.raises(DataError, match="int is no encoder"):
        TextReranker(3)


OWN = [vector.tolist() for vector in WordEncoder(8).encode(["up", TEXTS[1]]).dense]


@pytest.mark.parametrize(
    ("chosen", "vectors", "dense_read", "tokens_read"),
    [
        (CosineScorer(), None, TEXTS[:2], []),
        (DynaMaxScorer(), None, [], TEXTS[:2]),
        (auto_of_texts(), None, TEXTS[:2], TEXTS[:2]),
        (auto_of_texts(), [OWN[0], None], [TEXTS[1]], TEXTS[:2]),
        (auto_of_texts(), OWN, [], TEXTS[:2]),
    ],
)
def test_of_a_pair_of_encoders_each_is_asked_for_what_is_read(chosen, vectors, dense_read, tokens_read):
    dense, tokens = WordEncoder(8), WordEncoder(16)
    reranker = TextReranker(PairedEncoder(dense, tokens), chosen)
    reranker.rank("warm", ["up"], vectors=vectors[:1] if vectors else None)
    for encoder in (dense, tokens):
        encoder.encoded_texts.clear()
    reranker.rank("wing lift", TEXTS[:2], vectors=vectors)
    assert (dense.encoded_texts[1:], tokens.encoded_texts[1:]) == (dense_read, tokens_read)
