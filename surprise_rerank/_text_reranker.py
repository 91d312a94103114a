"""Re-ranking of texts that somebody else retrieved: what the adapters of RAG frameworks are made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

from surprise_rerank import _border as border
from surprise_rerank._answers import Answer, SearchOptions, SearchSettings
from surprise_rerank._candidates import Ranking, Verdict
from surprise_rerank._documents import Document
from surprise_rerank._errors import refuse_unknown
from surprise_rerank._pipeline import Background, Pipeline
from surprise_rerank._text_pool import Ids, StoredDocuments, TextBatch, TextPools, TextRetriever, Vectors
from surprise_rerank.encoders._adapting import as_encoder
from surprise_rerank.encoders._passages import Passages
from surprise_rerank.encoders.base import Encoder, encode_queries, token_dimension
from surprise_rerank.rerank._scorers import CosineScorer, DynaMaxScorer, Reranker
from surprise_rerank.thresholds._background import QuestionBackground

# Texts that are given have no pool, and are of nobody's index.
_SETTINGS = SearchSettings.__annotations__.keys() - {"depth", "filter", "tenant"}


@dataclass(frozen=True, slots=True)
class TextReranker:
    """Texts and a question in, the texts in order out. Threads and tasks may share one.

    It is a `Pipeline` whose retriever holds the texts. They are encoded on the fly, but for those whose id is
    stored, whose vectors are fetched, and those that come with a vector. The logger `surprise_rerank` says at
    debug level how many of them were; it warns once when none is stored.

    Attributes:
        encoder: of questions and texts, the index's where documents are stored; or what `as_encoder` takes.
        reranker: orders them. By default DynaMax, which needs nothing but the texts, or the cosine where the
            encoder has no token vectors.
        stored: fetches vectors by id; nothing is stored where it is None.
        background: other questions' best candidates, which `percentile` is measured against; of an index it
            says nothing of texts that the index does not hold.
        options: of every call that does not say otherwise; there is no pool, so depth, filter and tenant do
            not apply.
        passages: how texts that are longer than the encoder reads are split; the best passage counts. None
            cuts them.
    """

    encoder: Encoder
    reranker: Reranker = None  # type: ignore[assignment]  # chosen by the encoder when it is made
    stored: StoredDocuments | None = None
    background: Background = None
    options: SearchOptions = field(default_factory=SearchOptions)
    passages: Passages | None = field(default_factory=Passages)
    # What was said or found out once, also of copies with another threshold.
    _known: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoder", as_encoder(self.encoder))
        border.optional(border.able, "stored", self.stored, "candidates", "what holds vectors by id")
        border.optional(border.instance, "passages", self.passages, Passages)
        reranker: Reranker | None = self.reranker
        if reranker is None:
            usual = CosineScorer() if token_dimension(self.encoder) is None else DynaMaxScorer()
            object.__setattr__(self, "reranker", usual)
        border.instance("options", self.options, SearchOptions)
        if not callable(self.background):
            border.optional(border.instance, "background", self.background, QuestionBackground)
        self._pipeline(TextBatch.checked([]))  # refuses options that cannot be kept

    def __repr__(self) -> str:
        stored = "nothing stored" if self.stored is None else "stored vectors"
        return f"<TextReranker: {type(self.reranker).__name__}, {type(self.encoder).__name__}, {stored}>"

    def current_background(self) -> QuestionBackground | None:
        """The background that texts are measured against now; None without one."""
        return self.background() if callable(self.background) else self.background

    def with_options(self, **settings: Unpack[SearchSettings]) -> TextReranker:
        """Return this re-ranker with some options replaced; see `Pipeline.with_options`."""
        return replace(self, options=self.options.changed(**settings)) if settings else self

    def rank(
        self,
        question: str,
        texts: Sequence[str],
        *,
        ids: Ids | None = None,
        vectors: Vectors | None = None,
        top_k: int | None = None,
        **settings: Unpack[SearchSettings],
    ) -> Ranking:
        """The texts in order, best first; equal ones stay in the order that they came in.

        Args:
            question: in words.
            texts: n of them; the same one may come twice, and there may be none.
            ids: n ids, None for texts that are not stored; of several in a tuple the first stored one counts.
            vectors: n dense vectors, None for texts that have none, taken instead of encoding where they are
                of the encoder's model; a note says where they are not.
            top_k: the most that are returned; all by default.
            settings: `min_percentile=`, `diversity=`, `collapse=`, `offset=`; see `SearchOptions`.
        """
        return self.answer(question, texts, ids=ids, vectors=vectors, top_k=top_k, **settings).shown

    def answer(
        self,
        question: str,
        texts: Sequence[str],
        *,
        ids: Ids | None = None,
        vectors: Vectors | None = None,
        top_k: int | None = None,
        **settings: Unpack[SearchSettings],
    ) -> Answer:
        """Rank texts, and return all that `Pipeline.answer` gives; ids are positions."""
        refuse_unknown(settings, _SETTINGS, "re-ranking of texts")
        batch = TextBatch.checked(texts, ids, vectors)
        answer = self._pipeline(batch).answer(question, top_k, texts=False, **settings)
        shown = _named(answer.shown, batch)
        if not batch.texts:
            shown = replace(shown, verdict=Verdict("no match", None, "there were no texts to rank"))
        return replace(answer, shown=shown)

    async def arank(self, question: str, texts: Sequence[str], **options: Any) -> Ranking:
        """`rank`, with its options, in another thread, while the event loop goes on."""
        return await asyncio.to_thread(self.rank, question, texts, **options)

    def with_background(
        self, questions: Sequence[str], retrieve: Callable[[str], Sequence[str]], *, scorer: str = ""
    ) -> TextReranker:
        """Return this re-ranker with these questions' best candidates as its background.

        Give questions that have nothing to do with the corpus: logged ones, or titles of another corpus.
        `retrieve` gives the texts that are re-ranked for one, as the application retrieves them; `scorer` is
        what the background is called, for readers. A DataError if there are too few.
        """
        border.function("retrieve", retrieve)
        border.text("scorer", scorer)

        def answers() -> Iterator[tuple[str, Ranking]]:
            for query in encode_queries(self.encoder, border.texts("questions", questions)):
                batch = TextBatch.checked(retrieve(query.text))
                yield query.text, unjudged._pipeline(batch).answer(query, None, texts=False).ranking

        unjudged = replace(self, background=None, options=replace(self.options, min_percentile=None))
        return replace(self, background=QuestionBackground.of(answers(), scorer))

    def _pipeline(self, batch: TextBatch) -> Pipeline:
        """The pipeline that ranks these texts."""
        background = self.current_background()
        is_of_index = self.stored is not None and (background is None or background.documents > 0)
        pools = TextPools(self.encoder, self.stored, self.passages, self._known)
        retriever = TextRetriever(pools, batch, judges_stored_alone=is_of_index)
        # Whoever gives texts wants texts back; `rank(unit="passage")` is for those who want their passages.
        options = replace(self.options, depth=max(len(batch.texts), 1), unit="document")
        return Pipeline(self.encoder, retriever, self.reranker, options, self.background)


def _named(shown: Ranking, batch: TextBatch) -> Ranking:
    """Lines by the ids that came with the texts, with their positions."""
    names = [ids[0] if ids else str(position) for position, ids in enumerate(batch.ids)]
    positions = tuple(map(int, shown.ids))
    folded = None
    if shown.duplicates is not None:
        folded = tuple(tuple(map(int, line)) for line in shown.duplicates)
    return replace(
        shown,
        ids=tuple(names[i] for i in positions),
        documents=tuple(Document(names[i], batch.texts[i]) for i in positions),
        positions=positions,
        duplicates=None if folded is None else tuple(tuple(names[i] for i in line) for line in folded),
        folded=folded,
    )
