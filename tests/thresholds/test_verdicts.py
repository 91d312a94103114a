"""Verdicts: one chance and the word that follows from it, or why nobody can tell."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.words import WordEncoder
from qdrant_client import models

from surprise_rerank import DataError, Document, Verdict
from surprise_rerank._candidates import verdict_json
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.encoders.base import Kind
from surprise_rerank.thresholds import AnswerChance
from surprise_rerank.thresholds import _verdicts as verdicts
from surprise_rerank.thresholds._verdicts import USUAL_CHANCE
from surprise_rerank.thresholds.varied_questions import varied_questions

LATIN = frozenset({"LATIN"})
TOPICS = ("bread", "chain", "tyre", "brake", "lamp", "saddle", "pedal", "wheel", "frame", "basket")
GOOD = "bread number20 needs oil6 and care2"
WORDLESS = (
    *("", " ", "🎉🎉🎉", "?", "a", "x y z", "42", "3.14159", "<br/>", "<script>alert(1)</script>", "f(x)=2"),
    *("%&§$", "-"),
)
WORDS = ("brot", "Wie backe ich ein Brötchen?", "covid-19", "node.js and C++", "don't <b>panic</b>!", "café")
FOREIGN = {
    "как испечь хлеб?": "Cyrillic",
    "如何烤面包": "CJK",
    "हिन्दी में क्या है": "Devanagari",
    "שלום עולם": "Hebrew",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentIndex]:
    """120 documents, and a background of 60 questions."""
    with DocumentIndex.open(tmp_path_factory.mktemp("verdicts") / "index", WordEncoder()) as opened:
        opened.sync(
            Document(
                f"d{i}", f"{TOPICS[i % 10]} number{i} needs oil{i % 7} and care{i % 3}", metadata={"n": i}
            )
            for i in range(120)
        )
        opened.measure_background(questions=varied_questions(60))
        yield opened


def test_the_word_follows_from_the_chance_and_no_reason_is_long():
    for chance in np.arange(0, 1.0001, 0.0033):
        verdict, percent = verdicts.of_chance(chance), int(100 * chance + 1e-9)
        expected = "answered" if chance >= 0.5 else "weak" if chance >= 0.2 else "off-topic"
        assert (verdict.status, verdict.chance) == (expected, chance)
        assert verdict.reason.endswith(f" {percent} %" if percent else " is less than 1 %")
    said = [verdicts.refused(share, 0.9995) for share in (0.0, 0.1234, 300 / 301, 3000 / 3001)]
    said += [verdicts.of_chance(0.3), verdicts.NOT_MEASURED, verdicts.NO_MATCH]
    assert all(len(verdict.reason.split()) <= 20 for verdict in said)
    assert len(verdicts.wordless("Что это такое? 什么", LATIN).split()) <= 20
    assert not any("100 %" in verdict.reason for verdict in said)
    written = {
        "status": "weak",
        "chance": 0.3,
        "reason": "the chance of an answer among the first ten is only 30 %",
    }
    assert (verdict_json(verdicts.of_chance(0.3)), verdict_json(None)) == (written, None)


def test_what_has_no_word_or_only_letters_that_nobody_used_is_not_compared():
    assert {verdicts.wordless(question, LATIN) for question in WORDLESS} == {"the question has no words"}
    assert {verdicts.wordless(question, LATIN) for question in WORDS} == {""}
    for question, script in FOREIGN.items():
        said = f"the question is written in {script}, and neither the documents nor the background are"
        assert verdicts.wordless(question, LATIN) == said
        assert verdicts.wordless(question, verdicts.scripts_of([question]) | LATIN) == ""


def test_a_search_tells_answers_from_other_questions_and_a_threshold_refuses_these(index):
    pipeline, strict = index.pipeline(), index.pipeline(min_percentile=0.95)
    assert pipeline.search(GOOD).verdict.status == strict.search(GOOD).verdict.status == "answered"
    others = [pipeline.search(question).verdict for question in varied_questions(120)[60:]]
    assert sum(verdict.status == "answered" for verdict in others) <= 3
    for odd in ("🎉🎉🎉", "<script>alert(1)</script>", "x", "Где мой велосипед?"):
        ranking = pipeline.search(odd)
        assert (ranking.verdict.status, ranking.verdict.chance) == ("unknown", None)
        assert ranking.percentile is not None
    refused = strict.search("how do I bake a cake?")
    assert (len(refused), refused.verdict.status, refused.verdict.chance) == (0, "off-topic", None)
    assert refused.verdict.reason.endswith("of unrelated questions; 95 % are asked for")


def test_a_filter_may_leave_nothing_or_too_little_to_tell(index):
    def among(most: int) -> tuple[str, str]:
        narrow = models.Filter(must=[models.FieldCondition(key="metadata.n", range=models.Range(lt=most))])
        verdict = index.pipeline().search(GOOD, filter=narrow).verdict
        return verdict.status, verdict.reason

    assert among(0)[0] == "no match"
    assert among(30) == ("unknown", "30 documents were compared; to tell, it takes 50")
    assert among(110)[0] == "answered"


def test_what_is_too_small_or_of_another_kind_is_not_told(index):
    pipeline = index.pipeline()
    background = pipeline.current_background()
    calibrated = AnswerChance(0.0, 1.0, 1.0, judged=20, longest=2)
    cases: dict[str, dict[str, Any]] = {
        "99 documents are too few to tell; it takes 100": {"documents": 99},
        "1 document is too few to tell; it takes 100": {"documents": 1},
        "40 background questions are too few to tell; it takes 50": {
            "totals": background.totals[:40],
            "shares": background.shares[:40],
        },
        "the chance is of questions of up to 2 words, and this one has 6": {"chance": calibrated},
    }
    for reason, changes in cases.items():
        changed = replace(pipeline, background=replace(background, **changes))
        assert changed.search(GOOD).verdict == Verdict("unknown", None, reason)
    assert replace(pipeline, background=None).search(GOOD).verdict == verdicts.NOT_MEASURED


def test_texts_from_elsewhere_are_not_judged_by_the_background_of_an_index(index):
    reranker = index.text_reranker()
    texts = [f"{TOPICS[i % 10]} number{i} needs oil{i % 7} and care{i % 3}" for i in range(60)]
    names = [f"d{i}" for i in range(60)]
    assert reranker.rank(GOOD, texts, ids=names).verdict.status == "answered"
    mixed: dict[str, Any] = {"texts": [*texts, "a new text"], "ids": [*names, None]}
    foreign = reranker.rank(GOOD, **mixed)
    assert (foreign.verdict.status, foreign[0].percentile) == ("unknown", None)
    with pytest.raises(DataError, match=r"min_percentile=0.9 cannot be told: some of the texts"):
        reranker.rank(GOOD, **mixed, min_percentile=0.9)
    assert len(reranker.rank(GOOD, **mixed, min_percentile=0)) == 61
    measured = reranker.with_background(varied_questions(60), lambda question: mixed["texts"])
    assert measured.rank(GOOD, mixed["texts"], min_percentile=0.9)[0].percentile > 0.9
    assert reranker.rank(GOOD, []).verdict.status == "no match"


def test_a_chance_grows_with_what_stands_out_and_follows_judged_questions():
    assert USUAL_CHANCE.of(8.0, 6.0) > USUAL_CHANCE.of(3.0, 2.0) > USUAL_CHANCE.of(0.0, 0.0) > 0
    rng = np.random.default_rng(0)
    best, gaps = rng.normal(2, 2, 400), rng.normal(3, 1, 400)
    usual = USUAL_CHANCE.of(best, gaps)
    harder = replace(USUAL_CHANCE, intercept=USUAL_CHANCE.intercept - 1)
    answered = rng.random(400) < harder.of(best, gaps)
    calibrated = USUAL_CHANCE.calibrated(best, gaps, answered)
    np.testing.assert_allclose(calibrated.of(best, gaps), harder.of(best, gaps), atol=0.1)
    # Ten coins of which all good ones stand out most are not enough to be certain.
    few = USUAL_CHANCE.calibrated(best[:10], gaps[:10], usual[:10] > np.median(usual[:10]))
    assert 0.02 < few.of(best[:10], gaps[:10]).min() < few.of(best[:10], gaps[:10]).max() < 0.98
    # A better score is no reason for doubt.
    assert USUAL_CHANCE.calibrated(best, gaps, usual < np.median(usual)).best == 0
    with pytest.raises(DataError, match="9 judged questions; give at least 10"):
        USUAL_CHANCE.calibrated(best[:9], gaps[:9], answered[:9])
    with pytest.raises(DataError, match="10 of 10 judged questions found an answer; both kinds are needed"):
        USUAL_CHANCE.calibrated(best[:10], gaps[:10], [True] * 10)


class PieceEncoder(WordEncoder):
    """A model that knows some words, and reads others letter by letter."""

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[Any]:
        pattern = re.compile(r"\b(?:how|do|you|bake|bread|needs)\b|\S")
        return [np.array([piece.span() for piece in pattern.finditer(text)]).reshape(-1, 2) for text in texts]


def test_nothing_is_told_of_words_that_neither_the_model_nor_a_document_knows(tmp_path):
    with DocumentIndex.open(tmp_path / "index", PieceEncoder()) as index:
        index.sync(Document(f"d{i}", f"{TOPICS[i % 10]} number{i} needs oil{i % 7}") for i in range(120))
        for system in ("auto", "cosine"):
            index.measure_background(system, varied_questions(60))
            pipeline = index.pipeline(system)
            for question in ("asdf qwer zxcv", "qwer"):
                assert pipeline.search(question).verdict == verdicts.NO_WORD
            # The model knows a word of the first, a document one of the second.
            for question in ("how qwer", "oil3 qwer"):
                assert pipeline.search(question).verdict != verdicts.NO_WORD


def test_passages_are_what_is_compared_where_documents_are_few(index):
    background = index.pipeline().current_background()
    assert background is not None
    of_few = replace(
        index.pipeline(unit="passage"), background=replace(background, documents=3, unit="passage")
    )
    enough = of_few.search(GOOD, depth=100).verdict
    assert enough.status == "answered"
    narrow = models.Filter(must=[models.FieldCondition(key="metadata.n", range=models.Range(lt=60))])
    reason = "60 passages of 3 documents are too few to tell; it takes 100 passages"
    assert of_few.search(GOOD, filter=narrow).verdict == Verdict("unknown", None, reason)
