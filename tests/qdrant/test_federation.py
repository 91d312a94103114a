"""Several collections that answer a question together."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.foreign import foreign
from helpers.words import WordEncoder

from surprise_rerank import DataError, Document, DocumentIndex, Federation
from surprise_rerank.connectors.attached import Collection
from surprise_rerank.thresholds.varied_questions import varied_questions

PETS = [Document(f"p{i}", f"dogs bark and cats purr number{i} of {i % 7} animals") for i in range(40)]
MONEY = [
    Document(f"m{i}", f"stocks fell and banks raised rates number{i} in {i % 5} countries") for i in range(40)
]
OTHERS = varied_questions(60)


@pytest.fixture
def pets(tmp_path: Path) -> Iterator[DocumentIndex]:
    with DocumentIndex.open(tmp_path / "pets", WordEncoder(48)) as index:
        index.sync(PETS, background=False)
        index.measure_background("auto", OTHERS)
        yield index


@pytest.fixture
def money() -> Collection:
    encoder, payloads = WordEncoder(48, name="other words"), [{"name": d.id, "text": d.text} for d in MONEY]
    client = foreign(encoder.encode([d.text for d in MONEY]).dense, payloads, "money")
    made = Collection.attach(client, "money", embed=encoder, id="name")
    made.measure_background("auto", OTHERS)
    return made


def test_a_question_finds_the_collection_that_answers_it(pets, money):
    both = Federation({"pets": pets, "money": money})
    assert repr(both) == "<Federation: pets, money>"
    for question, name in (("why do dogs bark", "pets"), ("which banks raised rates", "money")):
        found = both.search(question, 8)
        first = [hit.collection for hit in found[:3]]
        assert first[0] == name
        assert first.count(name) >= 2
        assert all(hit.text and hit.percentile is not None for hit in found)
        percentiles = [hit.percentile or 0.0 for hit in found]
        assert percentiles == sorted(percentiles, reverse=True)
        alone = {"pets": pets, "money": money}[name].pipeline().search(question, 8)
        own = [hit.id for hit in found if hit.collection == name]
        assert own == list(alone.ids[: len(own)])


def test_options_are_of_every_collection(pets, money):
    both = Federation([pets, money])
    assert len(both.search("why do dogs bark", 3)) == 3
    found = both.search("why do dogs bark", 50, min_percentile=0.9)
    assert found
    assert all(hit.percentile is not None and hit.percentile >= 0.9 for hit in found)
    assert len(found) < len(both.search("why do dogs bark", 50))
    single = both.search("why do dogs bark", 5, depth=1)
    assert len(single) == 5, "a pool is at least as large as what is shown"
    assert single[0].collection == pets.where
    offset = both.search("why do dogs bark", 5, offset=3)
    assert list(offset.ids) == list(both.search("why do dogs bark", 8).ids[3:])
    assert repr(both.search("why do dogs bark", 5, unit="passage")).startswith("<Ranking of 5 passages")
    folded = both.search("why do dogs bark", 50, collapse=0.8)
    assert any(hit.duplicates for hit in folded)


def test_one_collection_answers_as_it_does_alone(pets):
    alone = pets.pipeline("auto").search("why do cats purr", 7)
    found = Federation({"pets": pets}, "auto").search("why do cats purr", 7)
    assert [hit.id for hit in found] == list(alone.ids)
    np.testing.assert_allclose([hit.score for hit in found], alone.scores)


def test_wrong_uses_are_told(pets, tmp_path):
    with pytest.raises(DataError, match="collections must be at least one, got none"):
        Federation([])
    with DocumentIndex.open(tmp_path / "new", WordEncoder(48)) as new:
        new.sync(PETS[:3], background=False)
        with pytest.raises(DataError, match=r"'new' has no background of its system.*measure_background"):
            Federation({"pets": pets, "new": new}, "auto")
    with pytest.raises(DataError, match=r"places of collections must differ.*give them by name"):
        Federation([pets, pets])
    assert list(Federation({"a": pets, "b": pets}).pipelines) == ["a", "b"]
    both = Federation([pets])
    with pytest.raises(DataError, match="top_k must be"):
        both.search("q", 0)
    with pytest.raises(DataError, match="filterr"):
        both.search("q", filterr=1)
