"""Which language documents are in, and what an index makes of it."""

# ruff: noqa: RUF001 - letters of other alphabets look like Latin ones

from typing import Any

import pytest
from helpers.words import WordEncoder, interrupted
from qdrant_client import QdrantClient, models

from surprise_rerank import Collection, Document, IndexMismatchError
from surprise_rerank.connectors.qdrant import Bm25, DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant._hybrid import NO_WORD
from surprise_rerank.connectors.qdrant._languages import MIXED, UNKNOWN, language_of
from surprise_rerank.eval.cli.surprise_rerank.main import command

TEXTS = {
    "english": "The house that we saw is on the hill, and there is no road to it from the village.",
    "german": "Das Haus, das wir gesehen haben, steht auf dem Berg, und vom Dorf führt keine Straße zu ihm.",
    "french": "La maison que nous avons vue est sur la colline, et il n'y a pas de route du village à elle.",
    "spanish": "La casa que vimos está en la colina, y no hay ningún camino desde el pueblo hasta ella.",
    "russian": "Дом, который мы видели, стоит на холме, и от деревни к нему нет никакой дороги.",
    "turkish": "Gördüğümüz ev tepenin üzerinde ve köyden ona giden bir yol yok, ama biz çok kez oradaydık.",
    "greek": "Το σπίτι που είδαμε είναι στον λόφο και δεν υπάρχει δρόμος από το χωριό προς αυτό.",
    "chinese": "我们看到的房子在山上，村子里没有路通到那里。",
    "japanese": "私たちが見た家は丘の上にあり、村からそこへ行く道はない。",
    "korean": "우리가 본 집은 언덕 위에 있고 마을에서 그곳으로 가는 길은 없다.",
    "thai": "บ้านที่เราเห็นอยู่บนเนินเขา และไม่มีถนนจากหมู่บ้านไปถึง",
}
UNSTEMMED = {
    "cyrillic script": "Къщата, която видяхме, е на хълма и от селото до нея няма път, но ние бяхме там.",
    "devanagari script": "हमने जो घर देखा वह पहाड़ी पर है, और गाँव से वहाँ तक कोई सड़क नहीं जाती।",
    UNKNOWN: "Dom, który widzieliśmy, stoi na wzgórzu, a ze wsi nie prowadzi tam żadna droga.",
}
HOUSES = [Document("one", "Das Haus steht auf dem Berg und ist alt."), Document("two", TEXTS["german"])]


@pytest.mark.parametrize(("language", "text"), [*TEXTS.items(), *UNSTEMMED.items()])
def test_the_language_is_found(language, text):
    assert language_of([text] * 3) == language


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        ([], UNKNOWN),
        (["", "17 + 4", "\ud800"], UNKNOWN),
        (["cat dog cat"], UNKNOWN),
        (["Cats sleep all day.", "A dog guards the house at night.", "Oil the chain each month."], "english"),
        ([f"bread number{i} needs oil and care{i}" for i in range(9)], UNKNOWN),  # "care" is Romanian, too
        ([TEXTS["english"], TEXTS["german"]], MIXED),
        ([TEXTS["english"], TEXTS["russian"]], MIXED),
        ([TEXTS["english"], TEXTS["chinese"] * 4], MIXED),
        ([TEXTS["english"]] * 9 + [TEXTS["german"]], "english"),
        (["Geneva, Bern", "Thun, Biel", *[TEXTS["french"]] * 2], "french"),  # names are of any language
    ],
)
def test_few_words_and_several_languages_are_told(texts, language):
    assert language_of(texts) == language


def test_an_index_has_the_stems_of_its_first_documents(open_index):
    with open_index(WordEncoder()) as index:
        assert len(index.pipeline("bm25").search("Häuser")) == 0  # before there is a language
        index.sync(document for document in HOUSES)  # a stream
        index.sync([Document(str(i), TEXTS["english"]) for i in range(9)])
        assert (index.manifest.language, index.corpus.language) == ("german", "german")
    with open_index(WordEncoder(), options=IndexOptions()) as index:  # the found one is no option
        assert {hit.id for hit in index.pipeline("bm25").search("Häuser")} == {"one", "two"}


def test_a_named_language_stays_and_another_is_refused(open_index):
    named = IndexOptions(bm25=Bm25(language="english"))
    with open_index(WordEncoder(), options=named) as index:
        index.sync(HOUSES)
        assert (index.manifest.language, index.corpus.language) == ("german", "english")
        assert len(index.pipeline("bm25").search("Häuser")) == 0
    with pytest.raises(IndexMismatchError, match="language='english'"):
        open_index(WordEncoder(), options=IndexOptions(bm25=Bm25(language="german")))


def test_a_rebuild_finds_the_language_again(open_index):
    with open_index(WordEncoder()) as index:
        index.sync([Document(str(i), TEXTS["english"]) for i in range(3)])
        index.rebuild(HOUSES)
        assert index.manifest.language == "german"
        assert {hit.id for hit in index.pipeline("bm25").search("Häuser")} == {"one", "two"}


def test_an_interrupted_rebuild_goes_on_in_its_language(open_index):
    german = [Document(str(i), f"{TEXTS['german']} {i}") for i in range(600)]
    english = [Document(f"e{i}", TEXTS["english"]) for i in range(700)]
    with open_index(WordEncoder()) as index:
        index.sync([Document("0", TEXTS["english"])])
        with pytest.raises(KeyboardInterrupt):
            index.rebuild(german, encoder=interrupted(300))
    with open_index(WordEncoder()) as index:
        assert index.rebuild([*english, *german]).unchanged >= 256
        assert index.manifest.language == "german"


def test_a_reader_of_an_index_that_was_empty_asks_in_its_language(open_index):
    with open_index(WordEncoder()) as reader:
        if reader.corpus.engine == "edge":
            pytest.skip("an embedded store is open in one process only")
        with open_index(WordEncoder()) as writer:
            writer.sync(HOUSES)
        assert {hit.id for hit in reader.pipeline("bm25").search("Häuser")} == {"one", "two"}


def test_enriched_words_are_in_the_documents_language():
    client, encoder = QdrantClient(":memory:"), WordEncoder()
    client.create_collection("houses", models.VectorParams(size=16, distance=models.Distance.COSINE))
    vectors = encoder.encode([document.text for document in HOUSES]).dense
    points: list[Any] = [
        models.PointStruct(id=i, vector=vector.tolist(), payload={"text": document.text})
        for i, (document, vector) in enumerate(zip(HOUSES, vectors, strict=True))
    ]
    client.upsert("houses", points)
    collection = Collection.attach(client, "houses", embed=encoder)
    collection.enrich(tokens=False)
    assert collection.corpus.language == "german"
    assert str(collection.enrich(tokens=False)).startswith("0 added, 0 updated, 2 unchanged")
    assert {hit.id for hit in collection.pipeline("bm25").search("Häuser")} == {"0", "1"}


def test_words_that_no_document_has_count_for_nothing():
    documents = [Document(str(i), f"w{i} w{i + 1} w{2 * i} old") for i in range(40)]
    orders = []
    for words in (Bm25(), None):
        with DocumentIndex.open(":memory:", WordEncoder(), options=IndexOptions(bm25=words)) as index:
            index.sync(documents, background=False)
            found = index.pipeline("fusion").search("w3x w5y", top_k=40)
            orders.append({hit.id: pytest.approx(hit.score, abs=1e-5) for hit in found})
            assert (NO_WORD in found.notes) == (words is not None)
            assert NO_WORD not in index.pipeline("fusion").search("w3", top_k=40).notes
    assert orders[0] == orders[1]


def test_status_shows_the_language(tmp_path, capsys):
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync(HOUSES)
    command.main(["status", "--index", str(tmp_path / "index")], standalone_mode=False)
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.split()[0] == "language"]
    assert line.split()[1] == "german"
