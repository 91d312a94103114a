"""Backgrounds that are made without being asked for, and look after themselves."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from qdrant_client import QdrantClient, models
from words import WordEncoder

from surprise_rerank.candidates import Candidates, Ranking
from surprise_rerank.connectors.attached import Collection
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.systems import backgrounds
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, StoreError
from surprise_rerank.eval.cli.surprise_rerank.main import command
from surprise_rerank.thresholds.background import QuestionBackground
from surprise_rerank.thresholds.chance import BY_VECTORS, WITH_WORDS
from surprise_rerank.thresholds.varied_questions import ORIGIN, USUAL, varied_questions

TOPICS = ("bread", "chain", "tyre", "brake", "lamp", "saddle", "pedal", "wheel", "frame", "basket")
FEWER = list(varied_questions(40))


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
    monkeypatch.setattr(backgrounds, "varied_questions", lambda: tuple(FEWER))
    monkeypatch.setattr(backgrounds, "USUAL", len(FEWER))


@pytest.fixture
def index(few: None, tmp_path: Path) -> Iterator[DocumentIndex]:
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as opened:
        opened.sync(documents(30))
        yield opened


def test_the_first_search_has_a_surprise_and_a_verdict_of_300_questions(tmp_path: Path):
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync(documents(12))
        (made,) = index.backgrounds().values()
        assert (made.count, made.effective, made.origin, made.documents) == (USUAL, USUAL, ORIGIN, 12)
        assert set(made.texts) == set(varied_questions())
        assert len(made.made) == len("2026-11-23")
        found = index.pipeline().search("bread number0 needs oil0")
        assert found.surprise is not None
        assert found.verdict is not None
        assert found.verdict.reason == "12 documents are too few to tell; it takes 100"


def test_another_system_asks_the_same_questions_when_it_is_first_used(index: DocumentIndex):
    (first,) = index.backgrounds()
    assert first == "auto"
    assert index.pipeline("cosine", min_surprise=0.9).background is not None
    both = index.backgrounds()
    assert set(both["cosine"].texts) == set(both["auto"].texts) == set(FEWER)
    assert both["cosine"].names == ("cosine",)


def test_a_system_of_words_alone_gets_none_that_would_make_it_read_vectors(index: DocumentIndex):
    assert index.pipeline("bm25").background is None
    assert set(index.backgrounds()) == {"auto"}


def test_a_background_is_measured_again_when_the_corpus_has_doubled_or_is_another(index: DocumentIndex):
    def measured() -> int:
        return index.backgrounds()["auto"].documents

    index.sync(documents(59))
    assert measured() == 30
    index.sync(documents(60))
    assert measured() == 60
    index.sync(documents(30), prune=True)
    assert measured() == 30
    index.sync([Document(f"d{i}", f"something else {i}") for i in range(30)])
    assert index.backgrounds()["auto"].totals.tolist() != []
    before = index.backgrounds()["auto"].totals
    index.sync([Document(f"d{i}", f"a thing {i}") for i in range(29)])
    assert index.backgrounds()["auto"].totals.tolist() == before.tolist()


def test_a_model_encodes_the_questions_of_the_package_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path / "cache"))
    asked = []
    for name in ("one", "two"):
        encoder = WordEncoder(fingerprint="kept")
        with DocumentIndex.open(tmp_path / name, encoder) as index:
            index.sync(documents(12))
            asked.append((len(set(encoder.encoded_texts) & set(varied_questions())), index.backgrounds()))
    assert [count for count, _ in asked] == [USUAL, 0]
    first, second = (own["auto"].totals for _, own in asked)
    np.testing.assert_array_equal(first, second)
    (file,) = (tmp_path / "cache" / "questions").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    file.write_bytes(b"damaged")
    encoder = WordEncoder(fingerprint="kept")
    with DocumentIndex.open(tmp_path / "three", encoder) as index:
        index.sync(documents(12))
    assert set(varied_questions()) <= set(encoder.encoded_texts)
    encoder = WordEncoder(fingerprint="kept")
    with DocumentIndex.open(tmp_path / "four", encoder) as index:
        index.sync(documents(12), background=False)
        index.store_background(list(varied_questions(40, seed=3)))
    assert len(list((tmp_path / "cache" / "questions").iterdir())) == 1  # those of the caller are not kept


def test_questions_that_were_given_are_asked_again_and_their_calibration_is_kept(index: DocumentIndex):
    given = list(varied_questions(25, seed=3))
    index.store_background(given, "auto", origin="logs")
    asked = {f"q{i}": f"{TOPICS[i]} number{i}" for i in range(10)}
    asked |= {f"r{i}": question for i, question in enumerate(FEWER[:6])}
    qrels = {name: {f"d{name[1:]}": 1 if name[0] == "q" else 0} for name in asked}
    chance = index.calibrate_chance(asked, qrels, "auto")
    assert (chance.judged, chance.longest) == (16, max(len(own.split()) for own in asked.values()))
    index.sync(documents(60))
    again = index.backgrounds()["auto"]
    assert (set(again.texts), again.origin, again.documents) == (set(given), "logs", 60)
    assert again.chance == chance
    index.rebuild(documents(60))
    rebuilt = index.backgrounds()["auto"]
    assert (set(rebuilt.texts), rebuilt.origin, rebuilt.chance) == (set(given), "logs", chance)


def test_nothing_is_measured_where_it_is_switched_off(
    few: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with DocumentIndex.open(tmp_path / "one", WordEncoder()) as index:
        index.sync(documents(12), background=False)
        assert index.backgrounds() == {}
        assert index.pipeline("cosine").background is None
        monkeypatch.setenv("SURPRISE_RERANK_BACKGROUND", "off")
        index.sync(documents(13))
        assert index.backgrounds() == {}
        monkeypatch.setenv("SURPRISE_RERANK_BACKGROUND", "perhaps")
        with pytest.raises(DataError, match=r"SURPRISE_RERANK_BACKGROUND='perhaps' .* set it to on or off"):
            index.sync(documents(14))
    assert index.is_closed


def test_an_empty_index_has_no_background_yet(few: None, tmp_path: Path):
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync([])
        assert index.backgrounds() == {}
        index.sync(documents(5))
        assert index.backgrounds()["auto"].documents == 5


def test_a_question_that_equals_all_others_does_not_surprise_where_one_of_them_is_odd():
    """Scales without a question must not put it below a new one of the same scores."""
    pool = Candidates(ids=("d",))

    def ranking(value: float) -> Ranking:
        raw = {name: np.array([value]) for name in ("bm25", "dynamax")}
        return Ranking.order(pool, np.array([value]), raw=raw)

    answers = [(question, ranking(0.0)) for question in FEWER[:19]]
    made = QuestionBackground.of([*answers, (FEWER[19], ranking(5.0))])
    assert made.surprise(made.totals_of(ranking(0.0), FEWER[20]))[0] < 0.2


def test_a_chance_grows_with_what_stands_out_and_follows_judged_questions():
    assert WITH_WORDS.of(8.0, 6.0) > WITH_WORDS.of(3.0, 2.0) > WITH_WORDS.of(0.0, 0.0) > 0
    rng = np.random.default_rng(0)
    best, gaps = rng.normal(2, 2, 400), rng.normal(3, 1, 400)
    found = rng.random(400) < 0.2 + 0.2 * (best > 2)
    own = BY_VECTORS.calibrated(best, gaps, found)
    assert own.judged == 400
    assert own.of(best, gaps).mean() == pytest.approx(found.mean(), abs=0.01)
    with pytest.raises(DataError, match="9 judged questions; give at least 10"):
        BY_VECTORS.calibrated(best[:9], gaps[:9], found[:9])


def test_commands_make_show_and_leave_out_a_background(few: None, tmp_path: Path):
    rng = np.random.default_rng(0)
    words = sorted({word for own in documents(12) for word in own.content.lower().split()})
    (tmp_path / "words.txt").write_text(
        "\n".join(f"{word} {' '.join(f'{x:.3f}' for x in rng.normal(size=8))}" for word in words)
    )
    lines = [json.dumps({"id": own.id, "title": own.title, "text": own.text}) for own in documents(12)]
    (tmp_path / "docs.jsonl").write_text("\n".join(lines))
    given = ["index", str(tmp_path / "docs.jsonl"), "--model", str(tmp_path / "words.txt")]

    def run(*arguments: str, folder: str = "index") -> str:
        done = CliRunner().invoke(command, [*arguments, "--index", str(tmp_path / folder)])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.stdout

    run(*given)
    status = json.loads(run("status", "--json"))["backgrounds"]
    assert [(own["system"], own["questions"], own["documents"]) for own in status] == [("auto", 40, 12)]
    assert "background of auto" in run("status")
    assert "40 background questions" in run("status")
    (tmp_path / "asked.tsv").write_text("".join(f"q{i}\t{TOPICS[i % 10]} number{i}\n" for i in range(12)))
    (tmp_path / "judged.tsv").write_text(
        "".join(f"q{i}\t{'no' if i % 3 == 0 else 'd'}{i}\t1\n" for i in range(11))
    )
    asked = ("--questions", str(tmp_path / "asked.tsv"), "--qrels", str(tmp_path / "judged.tsv"))
    made = json.loads(run("tune", "background", *asked, "--json"))
    assert made["judged"] == 11
    assert "calibrated on 11 judged questions" in run("status")
    run(*given, "--set", "background=no", folder="bare")
    assert json.loads(run("status", "--json", folder="bare"))["backgrounds"] == []
    made = json.loads(run("tune", "background", "--json", folder="bare"))
    assert (made["questions"], made["origin"]) == (40, ORIGIN)


def test_who_may_only_read_searches_without_a_surprise(
    index: DocumentIndex, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def refused(name: str, content: bytes) -> None:
        raise StoreError(f"{name}: permission denied")

    monkeypatch.setattr(index.storage, "write_file", refused)
    with caplog.at_level(logging.WARNING):
        found = index.pipeline("cosine").search("bread number0")
    assert found.surprise is None
    assert "has no background of cosine: background-cosine.npz: permission denied" in caplog.text


@pytest.fixture
def collection(few: None) -> Iterator[Collection]:
    client = QdrantClient(":memory:")
    encoder = WordEncoder()
    client.create_collection(
        "pages", vectors_config=models.VectorParams(size=16, distance=models.Distance.COSINE)
    )
    texts = [own.content for own in documents(30)]
    vectors = encoder.encode(texts).dense.tolist()
    client.upload_points(
        "pages",
        [
            models.PointStruct(id=i, vector=vector, payload={"text": text})
            for i, (vector, text) in enumerate(zip(vectors, texts, strict=True))
        ],
    )
    yield Collection.attach(client, "pages", embed=encoder, keep="qdrant")
    client.close()


def test_the_first_pipeline_of_an_attached_collection_asks_the_questions(collection: Collection):
    assert collection.backgrounds() == {}
    found = collection.pipeline("cosine", min_surprise=0.9).search(documents(30)[0].content)
    assert found.surprise[0] > 0.9
    (made,) = collection.backgrounds().values()
    assert (set(made.texts), made.documents, made.origin) == (set(FEWER), 30, ORIGIN)
    assert collection.pipeline("cosine").background.made == made.made
    collection.enrich()
    before = collection.pipeline("auto").background
    assert set(before.names) == {"bm25", "cosine", "dynamax"}
    assert set(collection.backgrounds()) == {"cosine", "auto"}


def test_an_attached_collection_asks_again_when_its_scorers_have_changed(collection: Collection):
    given = list(varied_questions(30, seed=5))
    collection.store_background(given, "auto", origin="logs")
    collection.enrich()
    again = collection.pipeline("auto").background
    assert {"bm25", "dynamax"} <= set(again.names)
    assert (set(again.texts), again.origin) == (set(given), "logs")


def test_an_attached_collection_asks_nothing_when_it_is_told_so():
    client = QdrantClient(":memory:")
    client.create_collection(
        "a", vectors_config=models.VectorParams(size=16, distance=models.Distance.COSINE)
    )
    client.upload_points("a", [models.PointStruct(id=1, vector=[1.0] * 16, payload={"text": "x"})])
    plain = Collection.attach(client, "a", embed=WordEncoder(), background=False)
    assert plain.pipeline("cosine").background is None
    client.close()
