"""Re-ranking of texts that somebody else retrieved: what the adapters of RAG frameworks are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from surprise_rerank.candidates import Candidates, Field, Query, Ranking
from surprise_rerank.core.terms import TermBatch
from surprise_rerank.core.workers import in_thread
from surprise_rerank.documents import Document, Passage
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import fields_for, ranked
from surprise_rerank.rerank.rerankers import DynaMaxReranker, Reranker
from surprise_rerank.thresholds.background import (
    QuestionBackground,
    above,
    checked_questions,
    require_background,
)


class StoredDocuments(Protocol):
    """What has vectors of documents by id, such as `connectors.stored.StoredCandidates`."""

    def candidates(self, query: Query, ids: Sequence[str], fields: frozenset[Field]) -> Candidates:
        """Those of these documents that are stored, in this order, with these fields and all scores."""
        ...


@dataclass(frozen=True, slots=True)
class RankedText:
    """One line of a re-ranked list.

    Attributes:
        position: where the text stood in the list that was given.
        score: the re-ranker's.
        surprise: the share of background questions whose best candidate has less for it; None without any.
        parts: what each scorer gave it.
    """

    position: int
    score: float
    surprise: float | None
    parts: Mapping[str, float]

    @property
    def relevance(self) -> float:
        """What a host shows as the score: the surprise where there is one, else the re-ranker's score."""
        return self.score if self.surprise is None else self.surprise


@dataclass(frozen=True, slots=True)
class TextReranker:
    """Texts and a question in, the texts in order out. Threads and tasks may share one.

    Texts are encoded on the fly, but for those whose id is stored: their vectors are fetched.

    Attributes:
        encoder: of questions and texts; the index's where documents are stored.
        reranker: orders them; DynaMax, which needs nothing but the texts, by default.
        stored: fetches vectors by id; nothing is stored where it is None.
        background: other questions' best candidates, which `surprise` is measured against.
        min_surprise: leave out what is less surprising; needs a background.

    Raises:
        DataError: if min_surprise is no share, or more than the background can measure.
    """

    encoder: Encoder
    reranker: Reranker = field(default_factory=DynaMaxReranker)
    stored: StoredDocuments | None = None
    background: QuestionBackground | None = None
    min_surprise: float | None = None

    def __post_init__(self) -> None:
        if self.min_surprise is not None:
            require_background(self.background, self.min_surprise)

    def rank(
        self,
        question: str,
        texts: Sequence[str],
        *,
        ids: Sequence[str | None] | None = None,
        top_n: int | None = None,
    ) -> list[RankedText]:
        """The texts in order, best first; equal ones stay in the order that they came in.

        Args:
            question: in words.
            texts: n of them; the same one may come twice, and there may be none.
            ids: n ids, for texts that may be stored; None for those that are not.
            top_n: the most that are returned; all by default.

        Raises:
            DataError: if ids are not as many as texts, top_n is not positive, or an input is no string.
        """
        names = _checked(question, texts, ids, top_n)
        if not texts:
            return []
        (query,) = encode_queries(self.encoder, [question])
        pool = self._candidates(query, texts, names, fields_for(self.reranker, self.background))
        ranking = ranked(query, pool, self.reranker, self.background)
        if self.min_surprise is not None:
            ranking = above(ranking, self.min_surprise)
        if top_n is not None:
            ranking = ranking.top(top_n)
        return [RankedText(int(hit.id), hit.score, hit.surprise, hit.parts) for hit in ranking]

    async def arank(
        self,
        question: str,
        texts: Sequence[str],
        *,
        ids: Sequence[str | None] | None = None,
        top_n: int | None = None,
    ) -> list[RankedText]:
        """`rank` in another thread, while the event loop goes on; see `workers.in_thread`.

        Raises:
            DataError: as `rank`.
        """
        return await in_thread(self.rank, question, texts, ids=ids, top_n=top_n)

    def with_background(
        self, questions: Sequence[str], retrieve: Callable[[str], Sequence[str]], *, scorer: str = ""
    ) -> TextReranker:
        """The same with these questions' best candidates as the background of `surprise`.

        Args:
            questions: that have nothing to do with the corpus: logged ones, or titles of another corpus.
            retrieve: question -> the texts that are re-ranked for it, as the application retrieves them.
            scorer: what the background is called, for readers.

        Raises:
            DataError: if there are too few.
        """

        def rank(query: Query) -> tuple[Candidates, Ranking]:
            texts = retrieve(query.text)
            names = _checked(query.text, texts, None, None)
            pool = self._candidates(query, texts, names, self.reranker.needs | {"dense"})
            return pool, self.reranker.rerank(query, pool)

        queries = encode_queries(self.encoder, checked_questions(questions))
        return replace(self, background=QuestionBackground.measured(queries, rank, scorer))

    def _candidates(
        self, query: Query, texts: Sequence[str], names: Sequence[str | None], needs: frozenset[Field]
    ) -> Candidates:
        """The pool, whose ids are the texts' positions, written so that they sort as numbers do."""
        width = len(str(len(texts)))
        positions = [f"{i:0{width}d}" for i in range(len(texts))]
        if self.stored is None:
            return self._encoded(positions, texts, needs)
        stored = _at_positions(self.stored.candidates(query, _distinct(names), needs), positions, names)
        known = frozenset(stored.ids)
        missing = [i for i, own in enumerate(positions) if own not in known]
        if not missing:
            return stored
        fresh = self._encoded([positions[i] for i in missing], [texts[i] for i in missing], needs)
        if stored.tokens is not None and fresh.tokens is not None:
            fresh = replace(fresh, tokens=fresh.tokens.stored(stored.tokens.storage))
        if stored.passages is not None:
            whole = tuple(Passage(0, 0, len(texts[i])) for i in missing)
            fresh = replace(fresh, passages=whole, best=stored.best)
        return stored.join(fresh)

    def _encoded(self, positions: Sequence[str], texts: Sequence[str], needs: frozenset[Field]) -> Candidates:
        encoded = self.encoder.encode(list(texts)) if needs & {"dense", "tokens"} else None
        documents = tuple(Document(own, text) for own, text in zip(positions, texts, strict=True))
        return Candidates(
            ids=tuple(positions),
            dense=encoded.dense if encoded is not None and "dense" in needs else None,
            tokens=encoded.tokens if encoded is not None and "tokens" in needs else None,
            # What words are is the index's to say, so nothing is known of those of other texts.
            terms=TermBatch.empty(len(texts)) if "terms" in needs else None,
            documents=documents if "documents" in needs else None,
        )


def _checked(
    question: str, texts: Sequence[str], ids: Sequence[str | None] | None, top_n: int | None
) -> Sequence[str | None]:
    """The ids, None for texts without one."""
    if not isinstance(question, str):
        raise DataError(f"the question must be a string, got {type(question).__name__}")
    if isinstance(texts, str):
        raise DataError("texts must be a list of strings, got one string; put it into a list")
    wrong = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
    if wrong is not None:
        raise DataError(f"texts[{wrong}] must be a string, got {type(texts[wrong]).__name__}")
    if ids is not None and len(ids) != len(texts):
        raise DataError(f"{len(ids)} ids for {len(texts)} texts; give one for each, None where there is none")
    if top_n is not None and not (isinstance(top_n, int) and top_n >= 1):
        raise DataError(f"top_n must be a whole number of at least 1, got {top_n!r}")
    return [None] * len(texts) if ids is None else ids


def _distinct(names: Sequence[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name is not None))


def _at_positions(found: Candidates, positions: Sequence[str], names: Sequence[str | None]) -> Candidates:
    """Stored documents under the positions that they were given at; a duplicate has a row for each."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(found.ids):
        rows.setdefault(name, []).append(row)
    pairs = [
        (position, row)
        for position, name in zip(positions, names, strict=True)
        if name is not None
        for row in rows.get(name, ())
    ]
    picked = found.take([row for _, row in pairs])
    return replace(picked, ids=tuple(position for position, _ in pairs))
