"""Judgements of pages and of passages: what counts, what is refused, and the figures that come of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.files import ANIMALS, handbook, write_lines, write_rows, write_vectors
from helpers.words import WordEncoder

from surprise_rerank import DataError, DatasetError, Document, Passage, Place, Ranking
from surprise_rerank.eval.retrieval.evaluation import Evaluation, evaluate
from surprise_rerank.eval.retrieval.runs import judged_ranking
from surprise_rerank.eval.retrieval.settings import EVIDENCE_MEASURES, RetrievalSettings

BOOK = Document("book", "abcdefghij" * 3, places=tuple((10 * i, Place(page=i + 1)) for i in range(3)))


def found(*stretches: tuple[int, int]) -> Ranking:
    """A ranking of stretches of the book, best first."""
    passages = tuple(Passage(i, *stretch) for i, stretch in enumerate(stretches))
    n = len(passages)
    return Ranking(("book",) * n, np.arange(n, 0.0, -1.0), passages=passages, unit="passage")


def ids(ranking: Ranking, gains: dict[str, int], judged: str = "pages") -> tuple[str, ...]:
    return judged_ranking(ranking, gains, {"book": BOOK}, judged).ids


def test_a_passage_on_two_pages_stands_for_the_more_relevant_one():
    assert ids(found((5, 15)), {"book#2": 1}) == ("book#2",)
    assert ids(found((5, 15)), {"book#1": 1, "book#2": 2}) == ("book#2",)
    assert ids(found((5, 15)), {}) == ("book#1",)


def test_a_page_counts_once_and_what_adds_no_page_keeps_its_rank():
    ranking = found((0, 4), (6, 10), (20, 30))
    assert ids(ranking, {"book#1": 1, "book#3": 1}) == ("book#1", "book#1~", "book#3")
    # Of a page that is found already a passage stands for the other one.
    assert ids(found((0, 4), (6, 14)), {"book#1": 1}) == ("book#1", "book#2")


def test_neighbours_that_overlap_are_one_line_where_pages_are_judged():
    assert ids(found((20, 26), (24, 30), (0, 4)), {"book#3": 1}) == ("book#3", "book#1")
    overlapping = ids(found((20, 26), (24, 30)), {"book#1": 1}, "passages")
    assert overlapping == ("book#0", "book#1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with a handbook of six pages, a question for each, and below it the index of all tests."""
    folder = tmp_path_factory.mktemp("own")
    handbook(folder / "documents")
    write_lines(folder / "documents" / "note.txt", "Nothing is said here of animals.")
    questions = [{"_id": animal, "text": f"what do {animal} do?"} for animal in ANIMALS]
    write_rows(folder / "queries.jsonl", questions)
    return folder


@pytest.fixture
def settings(folder: Path) -> RetrievalSettings:
    """Judged by pages."""
    judged = [f"{animal}\thandbook.pdf#{page}\t1" for page, animal in enumerate(ANIMALS, start=1)]
    write_lines(folder / "qrels" / "test.tsv", *judged)
    systems, cache = ("bm25", "cosine", "auto"), folder / "cache"
    return RetrievalSettings(dataset=str(folder), systems=systems, cache=cache, judged="pages")


def measured(settings: RetrievalSettings) -> Evaluation:
    return evaluate(settings, encoder=WordEncoder(window=40))


def test_pages_of_files_are_judged_as_rag_people_count(settings):
    evaluation = measured(replace(settings, systems=(*settings.systems, "bm25-lucene")))
    assert evaluation.measures == EVIDENCE_MEASURES
    results = {result.name: result for result in evaluation.results}
    # Every word is on one page alone, so BM25 finds each first.
    assert results["bm25"].values == dict.fromkeys(EVIDENCE_MEASURES, 1.0)
    assert {len(ranking) > 6 for ranking in results["auto"].run.values()} == {True}
    assert any("counts for the best judged page" in note for note in evaluation.notes)
    assert any(note.startswith("bm25-lucene: not measured, it ranks documents") for note in evaluation.notes)


def test_passages_are_judged_by_their_numbers(settings):
    pages = {result.name: result.run for result in measured(settings).results}["bm25"]
    passages = {
        result.name: result.run for result in measured(with_judged(settings, "passages", "0")).results
    }["bm25"]
    assert pages["owls"].ids[0] == "handbook.pdf#3"
    assert len(set(passages["owls"].ids)) == len(passages["owls"].ids)
    best = passages["owls"].ids[0].rpartition("#")[2]
    values = measured(with_judged(settings, "passages", best)).results[0].per_query
    assert values["RR@5"]["owls"] == 1.0
    assert values["R@10"]["owls"] == 1.0


def with_judged(settings: RetrievalSettings, judged: str, part: str) -> RetrievalSettings:
    """The settings with one judgement alone: of owls, of a part of the handbook, or of the whole."""
    path = Path(settings.dataset) / "qrels" / "test.tsv"
    write_lines(path, f"owls\thandbook.pdf{'#' if part else ''}{part}\t1")
    return replace(settings, judged=judged)


def test_what_no_page_says_is_missing(settings):
    path = Path(settings.dataset) / "qrels" / "test.tsv"
    write_lines(path, "owls\thandbook.pdf#3\t1", "owls\thandbook.pdf#77\t1", "owls\tnote.txt#1\t1")
    evaluation = measured(settings)
    assert "2 judged pages are not in the corpus, and not found" in evaluation.notes
    assert evaluation.results[0].values["R@20"] == pytest.approx(1 / 3)


def test_judgements_of_something_else_are_refused(settings, tmp_path):
    with pytest.raises(DatasetError, match=r"none of the 6 judged documents.*judged=pages"):
        measured(replace(settings, judged="documents"))
    with pytest.raises(DatasetError, match=r"none of the 1 judged pages, say 'handbook.pdf#77'"):
        measured(with_judged(settings, "pages", "77"))
    with pytest.raises(DataError, match=r"'handbook.pdf' names none of its passages; write it as handbook"):
        measured(with_judged(settings, "passages", ""))
    whole = write_vectors(tmp_path / "tiny.txt", ANIMALS)
    with pytest.raises(DataError, match="the model's window, by which pages are made"):
        evaluate(replace(with_judged(settings, "pages", "3"), model=str(whole)))


def test_a_run_of_another_program_names_pages_itself(settings, tmp_path):
    run = tmp_path / "theirs.trec"
    run.write_text("owls Q0 handbook.pdf#1 1 3 x\nowls Q0 handbook.pdf#3 2 2 x\n")
    evaluation = measured(replace(settings, runs=(f"theirs={run}",)))
    results = {result.name: result for result in evaluation.results}
    assert results["theirs"].per_query["RR@5"]["owls"] == 0.5
    with pytest.raises(DataError, match="which has documents alone, and pages are judged"):
        measured(replace(settings, candidates=str(run)))
