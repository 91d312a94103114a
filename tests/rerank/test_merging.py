"""Passages as lines of a ranking: neighbours that overlap are one, and a document has so many at most."""

from dataclasses import replace

import numpy as np

from surprise_rerank import Candidates, Document, Passage, Ranking
from surprise_rerank.rerank._grouping import at_most_of_each, merged_chunks, merged_neighbours, parent_of

TEXT = "abcdefghijklmnopqrstuvwxyz"
# Passages of ten letters, of which neighbours share four.
ROWS = [("long", i, 6 * i, 6 * i + 10) for i in range(4)] + [("other", 0, 0, 26)]


def ranking(scores: list[float], unit: str = "passage") -> Ranking:
    pool = Candidates(
        tuple(row[0] for row in ROWS),
        documents=tuple(Document(row[0], TEXT) for row in ROWS),
        passages=tuple(Passage(*row[1:]) for row in ROWS),
        unit=unit,
    )
    return Ranking.order(pool, np.array(scores), {"cosine": np.array(scores)})


def test_every_passage_is_a_line_and_ties_go_by_id_and_number():
    lines = ranking([1.0, 3.0, 1.0, 2.0, 1.0])
    assert lines.line_ids == ["long#1", "long#3", "long", "long#2", "other"]
    named_so = replace(lines, ids=("long", "long", "long#3", "long", "page#top"))
    assert named_so.line_ids == ["long#1", "long#3", "long#3#0", "long#2", "page#top"]
    assert ranking([1.0, 3.0, 1.0, 2.0, 1.0], "document").ids == ("long", "other")


def test_a_passage_that_overlaps_with_a_better_one_lengthens_it():
    merged = merged_neighbours(ranking([1.0, 3.0, 2.0, 0.5, 0.0]))
    assert merged.line_ids == ["long#1", "long#3", "other"]
    assert [hit.text for hit in merged] == [TEXT[0:18], TEXT[18:26], TEXT]
    assert merged.scores.tolist() == [3.0, 0.5, 0.0]
    assert merged[0].parts == {"cosine": 3.0}


def test_two_lines_share_nothing_of_what_they_take_in():
    merged = merged_neighbours(ranking([3.0, 1.0, 0.5, 2.0, 0.0]))
    assert merged.line_ids == ["long", "long#3", "other"]
    assert [hit.text for hit in merged] == [TEXT[0:16], TEXT[16:26], TEXT]


def test_lines_of_documents_are_left_as_they_are():
    lines = ranking([1.0, 3.0, 2.0, 0.5, 0.0], "document")
    assert merged_neighbours(lines) is lines


def test_a_document_has_so_many_lines_at_most():
    lines = ranking([1.0, 3.0, 2.0, 0.5, 0.0])
    assert at_most_of_each(lines, 2).line_ids == ["long#1", "long#2", "other"]
    assert at_most_of_each(lines, 1).line_ids == ["long#1", "other"]


def test_a_chunk_tells_what_it_is_of():
    def parent(**metadata: object) -> str:
        return parent_of(Document("chunk", TEXT, metadata=metadata), "chunk")

    assert [parent(parent="book"), parent(ref_doc_id="b"), parent(source_id="c")] == ["book", "b", "c"]
    assert [parent(source="a.pdf", page=0), parent(source="a.txt", start_index=9)] == ["a.pdf", "a.txt"]
    # Of a whole document the source is where it comes from, which others do, too.
    assert [parent(source="a newspaper"), parent(), parent(parent=7)] == ["chunk"] * 3


WORDS = " ".join(f"word{i}" for i in range(40))


def chunks(*stretches: tuple[int, int], parent: str = "book") -> tuple[Document, ...]:
    """Chunks of a document, as others split it, with a name of each."""
    return tuple(
        Document(f"{parent}-{start}", WORDS[start:end], "Words", {"parent": parent})
        for start, end in stretches
    )


def test_chunks_of_others_that_overlap_are_one_hit_with_the_text_of_both():
    """No positions are stored with them: each begins with the end of the one before."""
    pieces = chunks((60, 150), (0, 80), (200, 270), (120, 180)) + chunks((0, 80), parent="copy")
    scores = np.array([3.0, 2.0, 1.5, 1.0, 0.5])
    pool = Candidates(tuple(piece.id for piece in pieces), documents=pieces, unit="passage")
    lines = merged_chunks(Ranking.order(pool, scores, {"cosine": scores}))
    assert lines.ids == ("book-60", "book-200", "copy-0")
    assert [hit.document.text for hit in lines] == [WORDS[0:180], WORDS[200:270], WORDS[0:80]]
    assert lines[0].title == "Words"
    assert lines.scores.tolist() == [3.0, 1.5, 0.5]
    assert at_most_of_each(lines, 1).ids == ("book-60", "copy-0")
    # Another line's text is not repeated: what a hit takes in ends where that begins.
    apart = merged_chunks(Ranking.order(pool.take([0, 3, 1]), np.array([1.0, 3.0, 2.0])))
    assert [hit.document.text for hit in apart] == [WORDS[80:180], WORDS[0:80]]
