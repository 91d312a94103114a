"""Re-ranking of texts that somebody else retrieved: what the adapters of RAG frameworks are made of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

from surprise_rerank.candidates import Hit, Ranking, Verdict
from surprise_rerank.core.tracing import span
from surprise_rerank.documents import Document, Passage
from surprise_rerank.encoders.adapting import as_encoder
from surprise_rerank.encoders.base import Encoder, encode_queries, token_dimension
from surprise_rerank.encoders.passages import Passages
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import (
    encoded_question,
    fields_for,
    first_of,
    outcome,
    ranked,
    require_count,
    reranking,
)
from surprise_rerank.rerank.diversity import NO_DIVERSITY, Diversity, DiversityOptions
from surprise_rerank.rerank.rerankers import CosineReranker, DynaMaxReranker, Reranker
from surprise_rerank.text_pool import GivenTexts, Ids, StoredDocuments, TextPool, TextPools, Vectors
from surprise_rerank.thresholds.background import (
    QuestionBackground,
    checked_questions,
    require_background,
)

_ELSEWHERE = "some of the texts are not in the index that the background is of"
_logger = logging.getLogger("surprise_rerank")


@dataclass(frozen=True, slots=True)
class RankedText(Hit):
    """One line of a re-ranked list; its id is the one that was given, or the position.

    Attributes:
        position: where the text stood in the list that was given.
        folded: positions of its `duplicates`.
    """

    position: int = 0
    folded: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The text as it was given, or its best passage."""
        whole = "" if self.document is None else self.document.text
        return whole if self.passage is None else whole[self.passage.start : self.passage.end]


class RankedTexts(list[RankedText]):
    """A re-ranked list, best first; `notes` are for its reader, and the `verdict` is on all the texts."""

    def __init__(
        self, lines: Iterable[RankedText] = (), notes: Sequence[str] = (), verdict: Verdict | None = None
    ) -> None:
        super().__init__(lines)
        self.notes = tuple(notes)
        self.verdict = verdict


@dataclass(frozen=True, slots=True)
class TextReranker:
    """Texts and a question in, the texts in order out. Threads and tasks may share one.

    Texts are encoded on the fly, but for those whose id is stored, whose vectors are fetched, and those that
    come with a vector. The logger `surprise_rerank` says at debug level how many of them were; it warns once
    when none is stored.

    Attributes:
        encoder: of questions and texts, the index's where documents are stored; or what `as_encoder` takes.
        reranker: orders them. By default DynaMax, which needs nothing but the texts, or the cosine where the
            encoder has no token vectors.
        stored: fetches vectors by id; nothing is stored where it is None.
        background: other questions' best candidates, which `percentile` is measured against.
        min_percentile: leave out texts of a smaller percentile; needs a background, which can measure it.
        passages: how texts that are longer than the encoder reads are split; the best passage counts. None
            cuts them.
        diversity: different texts first, and near-duplicates in one line; neither by default.
    """

    encoder: Encoder
    reranker: Reranker = None  # type: ignore[assignment]  # chosen by the encoder when it is made
    stored: StoredDocuments | None = None
    background: QuestionBackground | None = None
    min_percentile: float | None = None
    passages: Passages | None = field(default_factory=Passages)
    diversity: Diversity = NO_DIVERSITY
    # What was said or found out once, also of copies with another threshold.
    _known: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)
    _pools: TextPools = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoder", as_encoder(self.encoder))
        given: Reranker | None = self.reranker
        if given is None:
            usual = CosineReranker() if token_dimension(self.encoder) is None else DynaMaxReranker()
            object.__setattr__(self, "reranker", usual)
        object.__setattr__(self, "_pools", TextPools(self.encoder, self.stored, self.passages, self._known))
        if self.min_percentile is not None:
            require_background(self.background, self.min_percentile)

    def __repr__(self) -> str:
        stored = "nothing stored" if self.stored is None else "stored vectors"
        return f"<TextReranker: {type(self.reranker).__name__}, {type(self.encoder).__name__}, {stored}>"

    def rank(
        self,
        question: str,
        texts: Sequence[str],
        *,
        ids: Ids | None = None,
        vectors: Vectors | None = None,
        top_k: int | None = None,
        min_percentile: float | None = None,
        **diversity: Unpack[DiversityOptions],
    ) -> RankedTexts:
        """The texts in order, best first; equal ones stay in the order that they came in.

        Args:
            question: in words.
            texts: n of them; the same one may come twice, and there may be none.
            ids: n ids, None for texts that are not stored; of several in a tuple the first stored one counts.
            vectors: n dense vectors, None for texts that have none, taken instead of encoding where they are
                of the encoder's model; a note says where they are not.
            top_k: the most that are returned; all by default.
            min_percentile: in place of the re-ranker's own, as are `diversity=` and `collapse=`.
            diversity: see there.
        """
        if not isinstance(question, str):
            raise DataError(f"the question must be a string, got {type(question).__name__}")
        if top_k is not None:
            require_count("top_k", top_k)
        least = self.min_percentile if min_percentile is None else min_percentile
        if min_percentile is not None:
            require_background(self.background, min_percentile)
        least = least or None  # 0 leaves nothing out
        wanted = self.diversity.changed(**diversity)
        own = GivenTexts.checked(texts, ids, vectors)
        if not texts:
            return RankedTexts(verdict=Verdict("no match", None, "there were no texts to rank"))
        with span("CHAIN", "surprise_rerank.rank_texts", {"surprise_rerank.texts": len(texts)}) as counts:
            query = encoded_question(self.encoder, question)
            pool = self._pools.pool(query, own, fields_for(self.reranker, wanted))
            is_measured = self._is_measured(pool)
            if not is_measured and min_percentile:
                raise DataError(f"min_percentile={min_percentile!r} cannot be told: {_ELSEWHERE}")
            with reranking(self.reranker, pool.candidates, top_k):
                background, least = (self.background, least) if is_measured else (None, None)
                ranking = ranked(query, pool.candidates, self.reranker, background, least)
            if not is_measured:
                ranking = replace(ranking, verdict=Verdict("unknown", None, _ELSEWHERE))
            shown = first_of(ranking, pool.candidates, wanted, top_k, least)
            counts.update(outcome(shown))
        return _ranked_texts(shown, pool, own)

    async def arank(self, question: str, texts: Sequence[str], **options: Any) -> RankedTexts:
        """`rank`, with its options, in another thread, while the event loop goes on."""
        return await asyncio.to_thread(self.rank, question, texts, **options)

    def with_background(
        self, questions: Sequence[str], retrieve: Callable[[str], Sequence[str]], *, scorer: str = ""
    ) -> TextReranker:
        """The same with these questions' best candidates as the background of `percentile`.

        Give questions that have nothing to do with the corpus: logged ones, or titles of another corpus.
        `retrieve` gives the texts that are re-ranked for one, as the application retrieves them; `scorer` is
        what the background is called, for readers. A DataError if there are too few.
        """

        def answers() -> Iterator[tuple[str, Ranking]]:
            for query in encode_queries(self.encoder, checked_questions(questions)):
                pool = self._pools.pool(query, GivenTexts.checked(retrieve(query.text)), self.reranker.needs)
                yield query.text, self.reranker.rerank(query, pool.candidates)

        return replace(self, background=QuestionBackground.of(answers(), scorer))

    def _is_measured(self, pool: TextPool) -> bool:
        """Whether the background says something of these texts: one of an index does of those in it."""
        background = self.background
        if background is None or not background.documents or not pool.elsewhere:
            return True
        if self.min_percentile and _ELSEWHERE not in self._known:
            self._known[_ELSEWHERE] = True
            _logger.warning("min_percentile=%r leaves no text out: %s", self.min_percentile, _ELSEWHERE)
        return False


def _ranked_texts(ranking: Ranking, pool: TextPool, given: GivenTexts) -> RankedTexts:
    names = [own[0] if own else str(position) for position, own in enumerate(given.ids)]
    lines = []
    for hit in ranking:
        position, folded = int(hit.id), tuple(map(int, hit.duplicates))
        own = RankedText(
            id=names[position],
            score=hit.score,
            parts=hit.parts,
            document=Document(names[position], given.texts[position]),
            passage=_place(hit, pool),
            percentile=hit.percentile,
            duplicates=tuple(names[i] for i in folded),
            position=position,
            folded=folded,
        )
        lines.append(own)
    return RankedTexts(lines, (*pool.notes, *ranking.notes), ranking.verdict)


def _place(hit: Hit, pool: TextPool) -> Passage | None:
    """Where the best passage is in a text that was split."""
    before = pool.split.get(hit.id)
    if before is None or hit.passage is None:
        return None
    return replace(hit.passage, start=hit.passage.start + before, end=hit.passage.end + before)
