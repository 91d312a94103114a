"""Judged pages and passages: what the lines of a ranking of passages stand for."""

from __future__ import annotations

from collections.abc import Mapping

from surprise_rerank.candidates import Ranking
from surprise_rerank.documents import Document, Passage
from surprise_rerank.eval.retrieval.settings import Judged
from surprise_rerank.places import Place
from surprise_rerank.rerank.grouping import merged_neighbours


def judged_ranking(
    ranking: Ranking, gains: Mapping[str, int], documents: Mapping[str, Document], judged: Judged
) -> Ranking:
    """A ranking of passages whose ids are those of judgements: `handbook.pdf#12`.

    Args:
        ranking: of passages; where pages are judged, neighbours that overlap are one, as a search shows them.
        gains: judged id -> relevance of this question.
        documents: by id; they know the pages.
        judged: `pages` or `passages`. A passage on several pages stands for the most relevant of them that no
            better passage stands for; one that adds no page takes up its rank, and is not relevant.
    """
    if ranking.passages is None:  # of no candidate
        return ranking
    lines = merged_neighbours(ranking) if judged == "pages" else ranking
    assert lines.passages is not None
    ids: dict[str, None] = {}
    for name, passage in zip(lines.ids, lines.passages, strict=True):
        parts = [passage.number] if judged == "passages" else _pages(documents[name], passage)
        new = [part_id for part in parts if (part_id := f"{name}#{part}") not in ids]
        ids[max(new, key=lambda part_id: gains.get(part_id, 0), default=f"{name}#{passage.number}~")] = None
    return Ranking(tuple(ids), lines.scores, notes=lines.notes)


def evidence_run(
    run: Mapping[str, Ranking],
    qrels: Mapping[str, Mapping[str, int]],
    documents: Mapping[str, Document],
    judged: Judged,
) -> dict[str, Ranking]:
    """The rankings of a system, by question id, with the ids of judgements."""
    return {name: judged_ranking(ranking, qrels[name], documents, judged) for name, ranking in run.items()}


def pages_of(document: Document) -> frozenset[int]:
    """The pages, or slides, that have text in a document."""
    numbers = (place.page or place.slide for _, place in document.places)
    return frozenset(number for number in numbers if number is not None)


def _pages(document: Document, passage: Passage) -> list[int]:
    """The pages, or slides, that a passage is on; none where nobody knows."""
    place = document.place(passage.start, passage.end) or Place()
    first = place.page or place.slide
    return [] if first is None else list(range(first, (place.last_page or place.last_slide or first) + 1))
