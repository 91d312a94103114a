"""Verdicts: one chance and the word that follows from it, or why nobody can tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from qdrant_client import models
from words import WordEncoder

from surprise_rerank.candidates import Verdict, verdict_json
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.surprise_rerank.showing import in_words
from surprise_rerank.thresholds import verdicts
from surprise_rerank.thresholds.chance import AnswerChance
from surprise_rerank.thresholds.varied_questions import varied_questions

LATIN = frozenset({"LATIN"})
TOPICS = ("bread", "chain", "tyre", "brake", "lamp", "saddle", "pedal", "wheel", "frame", "basket")
GOOD = "bread number20 needs oil6 and care2"


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
        opened.store_background(varied_questions(60))
        yield opened


@pytest.mark.parametrize("percent", range(101))
def test_the_word_follows_from_the_chance_and_is_never_beside_another_one(percent: int) -> None:
    for chance in (percent / 100, min(percent / 100 + 0.0099, 1.0)):
        found = verdicts.of_chance(chance)
        expected = "answered" if chance >= 0.5 else "weak" if chance >= 0.2 else "off-topic"
        assert (found.status, found.chance) == (expected, chance)
        assert f"{percent} %" in found.reason or (percent == 0 and "less than 1 %" in found.reason)


@pytest.mark.parametrize("share", [0.0, 0.1234, 0.95, 300 / 301, 3000 / 3001])
def test_no_reason_is_long_and_none_says_that_a_document_is_above_all_questions(share: float) -> None:
    said = [verdicts.of_chance(share), verdicts.refused(share, 0.9995), verdicts.not_measured()]
    said += [verdicts.no_match(), verdicts.unknown(verdicts.wordless("Что это такое? 什么", LATIN))]
    assert all(len(own.reason.split()) <= 20 for own in said)
    assert not any("100 %" in own.reason for own in said)


@pytest.mark.parametrize(
    "question",
    [
        "",
        " ",
        "🎉🎉🎉",
        "?",
        "a",
        "x y z",
        "42",
        "3.14159",
        "<br/>",
        "<script>alert(1)</script>",
        "f(x)=2",
        "%&§$",
        "-",
    ],
)
def test_what_has_no_word_is_not_compared(question: str) -> None:
    assert verdicts.wordless(question, LATIN) == "the question has no words"


@pytest.mark.parametrize(
    ("question", "script"),
    [
        ("как испечь хлеб?", "Cyrillic"),
        ("如何烤面包", "CJK"),
        ("हिन्दी में क्या है", "Devanagari"),
        ("שלום עולם", "Hebrew"),
    ],
)
def test_letters_that_nobody_used_are_not_compared_and_others_are(question: str, script: str) -> None:
    said = verdicts.wordless(question, LATIN)
    assert said == f"the question is written in {script}, and neither the documents nor the background are"
    assert verdicts.wordless(question, verdicts.scripts_of([question]) | LATIN) == ""


@pytest.mark.parametrize(
    "question",
    ["brot", "Wie backe ich ein Brötchen?", "covid-19", "node.js and C++", "don't <b>panic</b>!", "café"],
)
def test_words_are_words_with_marks_and_hyphens(question: str) -> None:
    assert verdicts.wordless(question, LATIN) == ""


def test_a_search_of_an_index_tells_answers_from_other_questions(index: DocumentIndex) -> None:
    pipeline = index.pipeline()
    good = pipeline.search(GOOD).verdict
    assert good.status == "answered"
    assert good.chance > 0.5
    others = [pipeline.search(question).verdict for question in varied_questions(120)[60:]]
    assert sum(own.status == "answered" for own in others) <= 3
    assert all((own.status == "answered") == (own.chance >= 0.5) for own in others)
    for odd in ("🎉🎉🎉", "<script>alert(1)</script>", "x", "Где мой велосипед?"):
        found = pipeline.search(odd)
        assert (found.verdict.status, found.verdict.chance) == ("unknown", None)
        assert found.surprise is not None


def test_a_threshold_of_the_user_refuses_and_says_so_without_a_chance(index: DocumentIndex) -> None:
    strict = index.pipeline(min_surprise=0.95)
    assert strict.search(GOOD).verdict.status == "answered"
    refused = strict.search("how do I bake a cake?")
    assert (len(refused), refused.verdict.status, refused.verdict.chance) == (0, "off-topic", None)
    assert refused.verdict.reason.endswith("of unrelated questions; 95 % are asked for")


def test_a_filter_may_leave_nothing_or_too_little_to_tell(index: DocumentIndex) -> None:
    def among(most: int) -> models.Filter:
        return models.Filter(must=[models.FieldCondition(key="metadata.n", range=models.Range(lt=most))])

    pipeline = index.pipeline()
    none = pipeline.search(GOOD, filter=among(0)).verdict
    assert (none.status, none.chance) == ("no match", None)
    few = pipeline.search(GOOD, filter=among(30)).verdict
    assert (few.status, few.reason) == ("unknown", "30 documents were compared; to tell, it takes 50")
    assert pipeline.search(GOOD, filter=among(110)).verdict.status == "answered"


def test_what_is_too_small_or_of_another_kind_is_not_told(index: DocumentIndex) -> None:
    pipeline = index.pipeline()
    background = pipeline.background

    def said(**changes: Any) -> str:
        verdict = replace(pipeline, background=replace(background, **changes)).search(GOOD).verdict
        assert (verdict.status, verdict.chance) == ("unknown", None)
        assert len(verdict.reason.split()) <= 20
        return verdict.reason

    assert said(documents=99) == "99 documents are too few to tell; it takes 100"
    few = replace(background, totals=background.totals[:40], shares=background.shares[:40])
    assert said(totals=few.totals, shares=few.shares).startswith("40 background questions are too few")
    calibrated = AnswerChance(0.0, 1.0, 1.0, judged=20, longest=2)
    assert said(chance=calibrated) == "the chance is of questions of up to 2 words, and this one has 6"
    plain = replace(pipeline, background=None).search(GOOD).verdict
    assert plain == verdicts.not_measured()


def test_texts_from_elsewhere_are_not_judged_by_the_background_of_an_index(index: DocumentIndex) -> None:
    reranker = index.text_reranker()
    stored = [(f"d{i}", f"{TOPICS[i % 10]} number{i} needs oil{i % 7} and care{i % 3}") for i in range(60)]
    names, texts = zip(*stored, strict=True)
    assert reranker.rank(GOOD, texts, ids=names).verdict.status == "answered"
    foreign = reranker.rank(GOOD, [*texts, "a new text"], ids=[*names, None])
    assert foreign.verdict.status == "unknown"
    assert foreign[0].surprise is None
    with pytest.raises(DataError, match=r"min_surprise=0.9 cannot be told: some of the texts"):
        reranker.rank(GOOD, [*texts, "a new text"], ids=[*names, None], min_surprise=0.9)
    assert len(reranker.rank(GOOD, [*texts, "a new text"], ids=[*names, None], min_surprise=0)) == 61
    own = reranker.with_background(varied_questions(60), lambda question: [*texts, "a new text"])
    assert own.rank(GOOD, [*texts, "a new text"], min_surprise=0.9)[0].surprise > 0.9
    assert reranker.rank(GOOD, []).verdict.status == "no match"


def test_all_interfaces_write_the_same_fields() -> None:
    written = verdict_json(verdicts.of_chance(0.3))
    reason = "the chance of an answer among the first ten is only 30 %"
    assert written == {"status": "weak", "chance": 0.3, "reason": reason}
    assert verdict_json(None) is None


@pytest.mark.parametrize(
    ("verdict", "hits", "told"),
    [
        (("answered", 0.8), 1, "answered: because"),
        (("unknown", None), 1, "unknown: because"),
        (("weak", 0.3), 1, "weak: because. Ask in other words, or look further down"),
        (("off-topic", 0.1), 0, "off-topic: because. Ask about what the documents hold (nothing is shown"),
        (("off-topic", None), 1, "off-topic: because. Ask about what the documents hold (what is shown"),
    ],
)
def test_a_line_of_the_terminal_says_what_to_do(verdict: tuple[Any, ...], hits: int, told: str) -> None:
    said = in_words(Verdict(*verdict, "because"), anything=hits > 0)
    assert said.startswith(told)
    if verdict[0] != "off-topic":
        assert said == told
