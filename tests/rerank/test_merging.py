"""Passages as lines of a ranking: neighbours that overlap are one, and a document has so many at most."""

from __future__ import annotations

import numpy as np

from surprise_rerank.candidates import Candidates, Ranking
from surprise_rerank.documents import Document, Passage
from surprise_rerank.rerank.grouping import at_most_of_each, merged_neighbours, parent_of

TEXT = "abcdefghijklmnopqrstuvwxyz"
# Passages of ten letters, of which neighbours share four.
ROWS = [("long", i, 6 * i, 6 * i + 10) for i in range(4)] + [("other", 0, 0, 26)]


def ranking(scores: list[float], unit: str = "passage") -> Ranking:
    pool = Candidates(
        tuple(row[0] for row in ROWS),
        documents=tuple(Document(row[0], TEXT) for row in ROWS),
        passages=tuple(Passage(*row[1:]) for row in ROWS),
        unit=unit,  # type: ignore[arg-type]
    )
    return Ranking.order(pool, np.array(scores), {"cosine": np.array(scores)})


def test_every_passage_is_a_line_and_ties_go_by_id_and_number() -> None:
    lines = ranking([1.0, 3.0, 1.0, 2.0, 1.0])
    assert lines.line_ids == ["long#1", "long#3", "long", "long#2", "other"]
    assert ranking([1.0, 3.0, 1.0, 2.0, 1.0], "document").ids == ("long", "other")


def test_a_passage_that_overlaps_with_a_better_one_lengthens_it() -> None:
    merged = merged_neighbours(ranking([1.0, 3.0, 2.0, 0.5, 0.0]))
    assert merged.line_ids == ["long#1", "long#3", "other"]
    assert [hit.text for hit in merged] == [TEXT[0:18], TEXT[18:26], TEXT]
    assert merged.scores.tolist() == [3.0, 0.5, 0.0]
    assert merged[0].parts == {"cosine": 3.0}


def test_lines_of_documents_are_left_as_they_are() -> None:
    lines = ranking([1.0, 3.0, 2.0, 0.5, 0.0], "document")
    assert merged_neighbours(lines) is lines


def test_a_document_has_so_many_lines_at_most() -> None:
    lines = ranking([1.0, 3.0, 2.0, 0.5, 0.0])
    assert at_most_of_each(lines, 2).line_ids == ["long#1", "long#2", "other"]
    assert at_most_of_each(lines, 1).line_ids == ["long#1", "other"]
    assert at_most_of_each(lines, 1, {"other": "long"}).line_ids == ["long#1"]


def test_a_chunk_tells_what_it_is_of() -> None:
    def parent(**metadata: object) -> str:
        return parent_of(Document("chunk", TEXT, metadata=metadata), "chunk")

    assert [parent(parent="book"), parent(ref_doc_id="b"), parent(source_id="c")] == ["book", "b", "c"]
    assert [parent(source="a.pdf", page=0), parent(source="a.txt", start_index=9)] == ["a.pdf", "a.txt"]
    # Of a whole document the source is where it comes from, which others do, too.
    assert [parent(source="a newspaper"), parent(), parent(parent=7)] == ["chunk"] * 3
