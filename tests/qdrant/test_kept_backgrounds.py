"""Backgrounds that are made without being asked for, kept beside the points, and look after themselves."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.foreign import foreign
from helpers.words import WordEncoder

from surprise_rerank import DataError, Document
from surprise_rerank.connectors.attached import Collection
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant._languages import unread
from surprise_rerank.connectors.qdrant._storage import files as storage_files
from surprise_rerank.connectors.systems import _backgrounds as backgrounds
from surprise_rerank.connectors.systems._backgrounds import title_questions
from surprise_rerank.thresholds.varied_questions import (
    ORIGIN,
    USUAL,
    question_shares,
    translated_questions,
    varied_questions,
)

TOPICS = ("bread", "chain", "tyre", "brake", "lamp", "saddle", "pedal", "wheel", "frame", "basket")
FEWER, GIVEN = varied_questions(40), varied_questions(65)[40:]


def documents(count: int) -> list[Document]:
    return [
        Document(
            f"d{i}",
            f"{TOPICS[i % 10]} number{i} needs oil{i % 7} and care{i % 3}",
            title=f"On {TOPICS[i % 10]} {i}",
        )
        for i in range(count)
    ]


@pytest.fixture(autouse=True)
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURPRISE_RERANK_BACKGROUND", "on")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer questions than the package's 300: what is tested does not depend on their number."""
    monkeypatch.setattr(backgrounds, "varied_questions", lambda: FEWER)


@pytest.fixture
def index(few: None, tmp_path: Path) -> Iterator[DocumentIndex]:
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as opened:
        opened.sync(documents(30))
        yield opened


def test_a_model_encodes_the_questions_of_the_package_once(few, tmp_path, monkeypatch):
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path / "cache"))
    assert question_shares(varied_questions()).sum() == USUAL

    def encoded(name: str) -> int:
        """How many questions of the package are encoded for the first background of a new index."""
        encoder = WordEncoder(fingerprint="kept")
        with DocumentIndex.open(tmp_path / name, encoder) as index:
            index.sync(documents(12))
            (made,) = index.backgrounds().values()
            assert (made.effective, made.origin, made.documents) == (len(FEWER), ORIGIN, 12)
            assert set(made.texts) == set(FEWER)
            assert index.pipeline().search("bread number0 needs oil0").percentile[0] > 0.9
            index.measure_background(questions=GIVEN)  # whose vectors are not kept
        return len(set(encoder.encoded_texts) & set(FEWER))

    assert [encoded("one"), encoded("two")] == [len(FEWER), 0]
    (file,) = (tmp_path / "cache" / "questions").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    file.write_bytes(b"damaged")
    assert encoded("three") == len(FEWER)


def test_each_system_has_its_own_of_the_same_questions_but_that_of_words_alone(index):
    assert set(index.backgrounds()) == {"auto"}
    for system in ("bm25", "cosine"):
        assert index.pipeline(system).current_background() is None
    index.measure_background("cosine")
    strict = index.pipeline("cosine", min_percentile=0.9).current_background()
    assert strict.names == ("cosine",)
    both = index.backgrounds()
    assert set(both["cosine"].texts) == set(both["auto"].texts) == set(FEWER)
    with pytest.raises(DataError, match="give at least 99"):
        index.pipeline("cosine", min_percentile=0.99)


def test_a_background_is_measured_again_when_a_quarter_of_the_corpus_has_changed(index):
    def synced(count: int, text: str = "", *, prune: bool = False) -> int:
        own = documents(count) if not text else [Document(f"d{i}", f"{text} {i}") for i in range(count)]
        index.sync(own, prune=prune)
        return index.backgrounds()["auto"].documents

    assert [synced(59), synced(60), synced(30, prune=True)] == [59, 59, 30]
    first = index.backgrounds()["auto"].totals.tolist()
    for count in (7, 7):  # the same ones again are no change
        synced(count, "something else")
        assert index.backgrounds()["auto"].totals.tolist() == first
    synced(3, "a thing")  # 10 of 30 since it was measured
    assert index.backgrounds()["auto"].totals.tolist() != first


def test_pipelines_look_up_the_background_of_now_and_changes_make_percentiles_smaller(index):
    pipeline, question = index.pipeline("auto"), "bread number3"
    before = pipeline.search(question)
    index.sync([Document("new", "nothing of the kind at all")], background=False)
    after = pipeline.search(question)
    assert after.percentile[0] == pytest.approx(before.percentile[0] ** (31 / 30))
    index.delete([f"d{i}" for i in range(20, 28)])
    stale = pipeline.search(question).verdict
    assert stale.status == "unknown"
    assert "measured over 30 documents, and 9 came, changed or went since" in stale.reason
    index.measure_background("auto")
    measured = pipeline.search(question)
    assert measured.verdict.reason.startswith("23 documents are too few")
    assert pipeline.current_background().changed == 0
    index.sync(documents(70))  # another pipeline's collection would be as stale: it is measured by sync
    assert pipeline.current_background().documents == 71


def test_a_pipeline_measures_and_writes_nothing(index, monkeypatch):
    def refused(name: str, content: bytes) -> None:
        raise AssertionError(f"{name} is written")

    monkeypatch.setattr(index.corpus.storage, "write_file", refused)
    asked = len(index.encoder.encoded_texts)
    for system in ("auto", "cosine", "bm25", "dynamax", "fusion"):
        index.pipeline(system)
        if system != "bm25":
            index.text_reranker(system)
    assert len(index.encoder.encoded_texts) == asked


def test_questions_that_were_given_are_asked_again_and_their_calibration_is_kept(index):
    index.measure_background("auto", GIVEN, origin="logs")
    asked = {f"q{i}": f"{TOPICS[i]} number{i}" for i in range(10)}
    asked |= {f"r{i}": question for i, question in enumerate(FEWER[:6])}
    qrels = {name: {f"d{name[1:]}": 1 if name[0] == "q" else 0} for name in asked}
    chance = index.calibrate_chance(asked, qrels, "auto")
    assert (chance.judged, chance.longest) == (16, max(len(own.split()) for own in asked.values()))
    for change in (index.sync, index.rebuild):
        change(documents(60))
        again = index.backgrounds()["auto"]
        assert (set(again.texts), again.origin, again.documents) == (set(GIVEN), "logs", 60)
        assert again.chance == chance


def test_nothing_is_measured_where_it_is_switched_off_or_nothing_is_there(few, tmp_path, monkeypatch):
    with DocumentIndex.open(tmp_path / "one", WordEncoder()) as index:
        index.sync([])
        index.sync(documents(12), background=False)
        monkeypatch.setenv("SURPRISE_RERANK_BACKGROUND", "off")
        index.sync(documents(13))
        assert index.pipeline("cosine").current_background() is None
        assert index.backgrounds() == {}
        with pytest.raises(DataError, match="has no background of other questions for the system 'cosine'"):
            index.pipeline("cosine", min_percentile=0.9)
        monkeypatch.setenv("SURPRISE_RERANK_BACKGROUND", "perhaps")
        with pytest.raises(DataError, match=r"SURPRISE_RERANK_BACKGROUND='perhaps' .* set it to on or off"):
            index.sync(documents(14))


def test_an_attached_collection_is_measured_when_it_is_asked_to_and_when_its_scorers_change(few):
    encoder, texts = WordEncoder(), [own.content for own in documents(30)]
    client = foreign(encoder.encode(texts).dense, [{"text": text} for text in texts], "pages")
    collection = Collection.attach(client, "pages", embed=encoder, keep="qdrant")
    assert collection.pipeline("cosine").current_background() is None
    assert collection.backgrounds() == {}
    collection.measure_background("cosine")
    assert collection.pipeline("cosine", min_percentile=0.9).search(texts[0]).percentile[0] > 0.9
    (measured,) = collection.backgrounds().values()
    assert (set(measured.texts), measured.documents, measured.origin) == (set(FEWER), 30, ORIGIN)
    collection.measure_background("auto", GIVEN, origin="logs")
    collection.enrich()
    again = collection.pipeline("auto").current_background()
    assert set(again.names) == {"bm25", "cosine", "dynamax"}
    assert (set(again.texts), again.origin) == (set(GIVEN), "logs")


GERMAN = ["der Hund", "die Katze", "das Haus", "ein Berg", "eine Straße", "der Wald", "die Stadt", "das Dorf"]


def german(count: int, say: str) -> list[str]:
    return [f"{say} {GERMAN[i % 8]} und was ist mit der Nummer {i} oder {i * i}?" for i in range(count)]


def test_the_questions_are_in_the_language_of_the_documents(tmp_path):
    texts = [Document(f"d{i}", text) for i, text in enumerate(german(120, "Hier steht nicht nur"))]
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync(texts)
        kept = index.backgrounds()["auto"]
        assert (set(kept.texts), kept.origin) == (set(translated_questions("german")), ORIGIN)
        strict = index.pipeline(min_percentile=0.95)
        assert strict.search("Warum schläft die Waschmaschine so tief?").verdict.status == "off-topic"
        answered = strict.search(texts[0].text).verdict
        assert answered.status == "answered"
        # Others are of no use for these documents.
        index.measure_background(questions=varied_questions(65))
        told = "the documents are in German, and the background questions are in English; give questions in"
        verdict = index.pipeline().search("wo ist der Hund?").verdict
        assert verdict.status == "unknown"
        assert verdict.reason.startswith(told)
        with pytest.raises(DataError, match=told):
            index.pipeline(min_percentile=0.5)


LANGUAGES = ("german", "spanish", "french", "italian", "portuguese", "russian", "chinese", "arabic")


@pytest.mark.parametrize("language", LANGUAGES)
def test_there_are_enough_questions_in_each_language_for_a_verdict(language):
    questions = translated_questions(language)
    assert question_shares(questions).sum() == 60  # all are different
    assert not backgrounds._doubt("multilingual-e5-small", questions, questions)
    assert translated_questions("klingon") == ()


def test_documents_that_the_model_does_not_read_are_told(few, tmp_path):
    texts = [Document(f"d{i}", f"第{i}条: 我们看到的房子在山上") for i in range(120)]
    with DocumentIndex.open(tmp_path / "index", WordEncoder(name="hub/all-MiniLM-L6-v2")) as index:
        index.sync(texts)
        verdict = index.pipeline().search("what is a house").verdict
        assert (verdict.status, verdict.reason) == ("unknown", unread(index.corpus.model, "chinese"))
        assert "all-MiniLM-L6-v2 reads English only" in verdict.reason
        assert dict(index.status().facts())["language"] == verdict.reason


@pytest.mark.parametrize(
    ("model", "count", "question", "reason"),
    [
        ("all-MiniLM-L6-v2", 120, "wo ist der Hund?", "the question is in German, and all-MiniLM-L6-v2 re"),
        # Before what cannot be mended by asking otherwise.
        ("all-MiniLM-L6-v2", 12, "wo ist der Hund?", "the question is in German, and all-MiniLM-L6-v2 re"),
        ("all-MiniLM-L6-v2", 120, "where is the dog?", ""),
        ("all-MiniLM-L6-v2", 120, "Hund number0", ""),  # too little to tell
        ("multilingual-e5-small", 120, "wo ist der Hund?", ""),
    ],
)
def test_a_question_that_the_model_does_not_read_is_told(model, count, question, reason, tmp_path):
    with DocumentIndex.open(tmp_path / "index", WordEncoder(name=model)) as index:
        index.sync(documents(count), background=False)
        index.measure_background(questions=varied_questions(65))
        verdict = index.pipeline().search(question).verdict
        assert (verdict.status == "unknown") == bool(reason)
        assert not reason or verdict.reason.startswith(reason)
        verdict = index.pipeline("bm25").search(question).verdict  # by words alone no model is asked
        assert verdict is None or "reads English" not in verdict.reason


@pytest.mark.parametrize(
    ("model", "language", "is_told"),
    [
        ("all-MiniLM-L6-v2", "german", True),
        ("BAAI/bge-small-en-v1.5", "cyrillic script", True),
        ("glove-6b-50d", "mixed", True),
        ("all-MiniLM-L6-v2", "english", False),
        ("all-MiniLM-L6-v2", "unknown", False),
        ("all-MiniLM-L6-v2", "", False),
        ("multilingual-e5-small", "chinese", False),
        ("paraphrase-multilingual-MiniLM-L12-v2", "chinese", False),
    ],
)
def test_models_of_english_are_known_by_name(model, language, is_told):
    assert bool(unread(model, language)) == is_told


def test_titles_of_another_corpus_stand_for_questions():
    own = [Document("1", "A text.", title="Heat"), Document("2", "First one. Second one."), Document("3", "")]
    assert title_questions(own) == ["Heat", "First one."]
    many = [Document(str(i), "", title=f"title {i}") for i in range(100)]
    assert len(set(title_questions(many, 10))) == 10


def test_in_memory_and_on_servers_a_file_is_there_whole_or_the_old_one(monkeypatch):
    monkeypatch.setattr(storage_files, "_PART_BYTES", 256)
    old, new = bytes(range(200)) * 4, bytes(range(100)) * 8
    with DocumentIndex.open(":memory:", WordEncoder()) as index:
        index.sync(documents(1), background=False)
        index.corpus.storage.write_file("x", old)
        client = index.corpus.storage._nodes.nodes[0].client
        upsert, sent = client.upsert, iter([True])

        def interrupted(*arguments, **more):
            if not next(sent, False):
                raise KeyboardInterrupt
            return upsert(*arguments, **more)

        monkeypatch.setattr(client, "upsert", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.corpus.storage.write_file("x", new)
        assert index.corpus.storage.read_file("x") == old
        monkeypatch.setattr(client, "upsert", upsert)
        index.corpus.storage.write_file("x", new)
        assert index.corpus.storage.read_file("x") == new
