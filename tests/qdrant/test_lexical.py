"""Qdrant's BM25 in this process: its vectors, its settings, and what Qdrant makes of them."""

import math
import unicodedata

import pytest
import qdrant_edge
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank import DataError
from surprise_rerank.connectors.qdrant import Bm25
from surprise_rerank.connectors.qdrant._lexical import LANGUAGES, SparseVector, term_hashes, words

# Words that neither stemmer nor stop words change.
WORDS = ["cat", "dog", "mat", "zebra", "roof", "quantum"]
TEXTS = ["cat dog cat", "zebra", "mat roof mat mat quantum", "dog dog roof", "", "cat mat"]


def as_dict(vector: SparseVector) -> dict[int, float]:
    return dict(zip(vector.indices.tolist(), vector.values.tolist(), strict=True))


def weight(tf: int, length: int, model: Bm25) -> float:
    return tf * (model.k + 1) / (tf + model.k * (1 - model.b + model.b * length / model.average_length))


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.sampled_from(WORDS), max_size=40),
    st.floats(0, 5),
    st.floats(0, 1),
    st.floats(0.5, 1000),
)
def test_values_are_saturated_frequencies(words, k, b, average):
    model = Bm25(k=k, b=b, average_length=average)
    [document] = model.documents([" ".join(words)])
    expected = {
        int(model.query(word).indices[0]): weight(words.count(word), len(words), model) for word in set(words)
    }
    assert as_dict(document) == pytest.approx(expected, rel=1e-5)
    assert document.indices.tolist() == sorted(set(document.indices.tolist()))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=40), st.integers(1, 50))
def test_queries_count_a_term_as_often_as_it_occurs(words, times):
    expected = {int(Bm25().query(word).indices[0]): times * words.count(word) for word in set(words)}
    assert as_dict(Bm25(k=3, b=0.9).query(" ".join(words * times))) == expected


@pytest.mark.parametrize("text", ["", "  ", "the of and", "\x00", "... !"])
def test_texts_without_a_term_have_empty_vectors(text):
    for vector in (*Bm25().documents([text]), Bm25().query(text)):
        assert len(vector.indices) == len(vector.values) == 0


def test_lone_surrogates_are_no_words():
    broken, whole = Bm25().documents(["cat \ud800 dog", "cat dog"])
    assert as_dict(broken) == as_dict(whole)
    assert as_dict(Bm25().query("cat \udfff")) == as_dict(Bm25().query("cat"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("我每天给", ["我", "我每", "每", "每天", "天", "天给", "给"]),
        ("猫", ["猫"]),
        ("猫のチェーン", ["猫", "猫の", "のチ", "チェ", "ェー", "ーン"]),
        ("จักรยาน", ["จัก", "กร", "รย", "ยา", "าน"]),  # a vowel or tone above a letter is no character
        ("자전거 체인", ["자전", "전거", "체인"]),
        ("हिन्दी में", ["हिन्दी", "में"]),  # a sign that joins two consonants ends no word
        ("Qdrant的HNSW图, x_1", ["Qdrant", "的", "HNSW", "图", "x", "1"]),
        ("der Fahr\u00adrad-Dynamo", ["der", "Fahr\u00adrad", "Dynamo"]),
    ],
)
def test_words_are_cut_where_a_reader_would(text, expected):
    assert [text[start:end] for start, end in words(text)] == expected


@pytest.mark.parametrize(
    ("question", "text", "other"),
    [
        ("自行车链条", "我每天给自行车链条上油", "猫整天睡觉"),
        ("猫", "猫は一日中眠る", "自転車のチェーンに毎日油をさす"),
        ("โซ่จักรยาน", "หยอดน้ำมันโซ่จักรยานทุกวัน", "แมวนอนทั้งวัน"),
        ("고양이", "고양이는 하루 종일 잔다", "자전거 체인에 매일 기름을 칠한다"),
        ("ﾁｪｰﾝ", "自転車のチェーンに毎日油をさす", "猫は一日中眠る"),
        ("indexes 图", "Qdrant的HNSW图 is an index", "他去图书馆"),
    ],
)
def test_questions_find_their_text_where_words_have_no_spaces(question, text, other):
    wanted = set(Bm25().query(question).indices.tolist())
    shared = [
        len(wanted & set(vector.indices.tolist())) / len(wanted) for vector in Bm25().documents([text, other])
    ]
    assert shared[0] == 1 > 2 * shared[1] - 0.01


@settings(deadline=None, max_examples=100)
@given(st.text(st.characters(exclude_categories=["Cn"]), max_size=60))
def test_a_text_has_the_terms_of_its_words(text):
    # What highlights mark is what lexical search finds. Libraries know the letters of different versions.
    plain = unicodedata.normalize("NFKC", text.encode("utf-8", "replace").decode())
    hashes = term_hashes(Bm25())
    of_words = {term for start, end in words(plain) for term in hashes(plain[start:end])}
    assert of_words == set(Bm25().query(text).indices.tolist())


def test_the_language_chooses_stemmer_and_stop_words():
    german = Bm25(language="german")
    [singular, plural] = german.documents(["Das Haus", "die Häuser"])
    assert len(singular.indices) == 1
    assert len(plural.indices) == 1
    assert len(Bm25().documents(["Das Haus"])[0].indices) == 2


def test_every_language_is_one_that_qdrant_has():
    for language in LANGUAGES:
        assert len(Bm25(language=language).query("quantum").indices) == 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"k": -0.1}, r"Bm25\.k must be a number of at least 0, got -0\.1"),
        ({"k": math.nan}, r"Bm25\.k must be a number of at least 0, got nan"),
        ({"k": math.inf}, r"Bm25\.k must be a number of at least 0, got inf"),
        ({"b": 1.5}, r"Bm25\.b must be a number from 0 to 1, got 1\.5"),
        ({"b": math.nan}, r"Bm25\.b must be a number from 0 to 1, got nan"),
        ({"average_length": 0.0}, r"Bm25\.average_length must be a number above 0, got 0\.0"),
        ({"average_length": math.inf}, r"Bm25\.average_length must be a number of at least 0, got inf"),
        ({"language": "klingon"}, r"Bm25\.language='klingon' is not known"),
        ({"language": "English"}, r"Bm25\.language='English' is not known"),
        ({"k": "1.2"}, r"Bm25\.k must be a number of at least 0, got '1\.2'"),
        ({"b": None}, r"Bm25\.b must be a number from 0 to 1, got None"),
    ],
)
def test_settings_out_of_range_are_told(wrong, told):
    with pytest.raises(DataError, match=told):
        Bm25(**wrong)


def test_qdrant_ranks_by_bm25(tmp_path):
    model = Bm25(average_length=3.0)
    params = qdrant_edge.EdgeSparseVectorParams(modifier=qdrant_edge.Modifier.Idf)
    shard = qdrant_edge.EdgeShard.create(
        str(tmp_path), qdrant_edge.EdgeConfig(sparse_vectors={"bm25": params})
    )
    points = [
        qdrant_edge.Point(i, {"bm25": qdrant_edge.SparseVector(v.indices.tolist(), v.values.tolist())})
        for i, v in enumerate(model.documents(TEXTS))
    ]
    shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
    query = model.query("cat roof")
    found = shard.query(
        qdrant_edge.QueryRequest(
            limit=10,
            query=qdrant_edge.Query.Nearest(
                qdrant_edge.SparseVector(query.indices.tolist(), query.values.tolist()), using="bm25"
            ),
        )
    )
    texts = [text.split() for text in TEXTS if text]  # one without a term counts for no frequency
    expected = {}
    for i, tokens in enumerate(map(str.split, TEXTS)):
        terms = [term for term in ("cat", "roof") if term in tokens]
        if terms:
            expected[i] = sum(
                math.log(1 + (len(texts) - n + 0.5) / (n + 0.5))
                * weight(tokens.count(term), len(tokens), model)
                for term, n in ((term, sum(term in other for other in texts)) for term in terms)
            )
    assert {p.id: p.score for p in found} == pytest.approx(expected, rel=1e-5)
    shard.close()
