"""Retrieve and re-rank: a retriever and a re-ranker in a row; every interface asks `Pipeline.answer`."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias, Unpack

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._answers import Answer, SearchOptions, SearchSettings
from surprise_rerank._candidates import Candidates, Field, Query, Ranking, Verdict
from surprise_rerank._documents import Document, stripped_question
from surprise_rerank._errors import DataError
from surprise_rerank.core._computing import using_threads
from surprise_rerank.core._tracing import Known, span
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.rerank import _grouping as grouping
from surprise_rerank.rerank._fusion import FusionReranker
from surprise_rerank.rerank._scorers import Reranker
from surprise_rerank.rerank._weight_fitting import WeightFit, fit_guarded
from surprise_rerank.thresholds._background import (
    ROUNDING,
    QuestionBackground,
    require_background,
)
from surprise_rerank.thresholds._verdicts import (
    EMPTY,
    NO_MATCH,
    NO_WORD,
    NOT_MEASURED,
    NOT_MEASURED_PASSAGES,
    USUAL_CHANCE,
)

# Judged questions whose vectors are held at a time.
_ENCODED = 256
# Questions of `search_many` that are ranked at a time.
_AT_ONCE = 4
# A chance of relevance is that of a relevant document among so many.
_SHOWN = 10
NO_NEIGHBOURS = "context= adds nothing: documents are not split here, or nobody knows which are neighbours"
NOT_SPLIT = (
    "these are whole documents: the model reads any length; split them by `passages.tokens=200` at `index`"
)
# A word of two letters at least.
_LETTERS = re.compile(r"[^\W\d_]{2,}")
# A background, or what gives the one of now: that of a collection changes with its documents.
_Read: TypeAlias = Callable[[Sequence[str]], dict[str, Document]]
Background: TypeAlias = QuestionBackground | Callable[[], QuestionBackground | None] | None


class Retriever(Protocol):
    """Anything that makes a candidate pool for a query.

    One that takes filters has `among(filter, tenant)`, one that gives passages `by_unit(unit)` and
    `passages(ids)`, all those of documents, and one that reads texts apart `documents(ids)`: most of a pool
    is never shown, and its texts take longer than its scores.
    """

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """At most `depth` candidates with these fields filled, best first by the first of their `scores`."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A question in, a ranking out. Threads and tasks may share one.

    Attributes:
        encoder: of the model that the documents were encoded with.
        retriever: makes the candidate pool.
        reranker: orders it. Without one, the retriever's own scores do: the first of `Candidates.scores`,
            where a candidate that has none of them (NaN) comes last, with minus infinity.
        options: of every search that does not say otherwise. Filter and tenant become the retriever's.
        background: other questions' best candidates, which documents' `percentile` is measured against, or
            a function that gives it; see `with_background`.
        encodes: whether questions are encoded: False where words alone rank, so that the model is not asked.
    """

    encoder: Encoder
    retriever: Retriever
    reranker: Reranker | None = None
    options: SearchOptions = field(default_factory=SearchOptions)
    background: Background = None
    encodes: bool = True

    def __post_init__(self) -> None:
        border.able("retriever", self.retriever, "retrieve", "a retriever")
        border.optional(border.able, "reranker", self.reranker, "rerank", "a re-ranker")
        border.flags(encodes=self.encodes)
        object.__setattr__(self, "encodes", self.encodes or bool(self._fields & {"dense", "tokens"}))
        options = border.instance("options", self.options, SearchOptions)
        if not callable(self.background):
            border.optional(border.instance, "background", self.background, QuestionBackground)
        if self.encodes:  # words alone rank without a model
            border.able("encoder", self.encoder, "token_spans", "an encoder")
        if options.filter is not None or options.tenant is not None:
            among = getattr(self.retriever, "among", None)
            if among is None:
                advice = "filter= and tenant= go to that; leave them out"
                border.refuse("retriever", self.retriever, "one of an index", advice)
            object.__setattr__(self, "retriever", among(options.filter, options.tenant))
            object.__setattr__(self, "options", replace(options, filter=None, tenant=None))
        by_unit = getattr(self.retriever, "by_unit", None)
        if by_unit is not None:
            object.__setattr__(self, "retriever", by_unit(options.unit))
        of_unit = getattr(self.background, "by_unit", None)
        if of_unit is not None:
            object.__setattr__(self, "background", of_unit(options.unit))
        if options.min_percentile:
            require_background(self.current_background(), options.min_percentile)

    def current_background(self) -> QuestionBackground | None:
        """The background that a search now is measured against; None without one."""
        background = self.background
        return background() if callable(background) else background

    def with_options(self, **settings: Unpack[SearchSettings]) -> Pipeline:
        """Return this pipeline with some options replaced; a filter comes beside that of the pipeline.

        Raises:
            DataError: if there is no such option, a value is out of its range, or there is no background.
        """
        return replace(self, options=self.options.changed(**settings)) if settings else self

    def search(self, question: str, top_k: int = 10, **settings: Unpack[SearchSettings]) -> Ranking:
        """The best documents for a question, with their text; none, where none reaches `min_percentile`.

        Args:
            question: in words.
            top_k: the most that are returned. With diversity they are chosen from the whole pool.
            settings: `filter=`, `tenant=`, `min_percentile=`, `depth=`, `diversity=`, `collapse=`,
                `offset=`, `unit=`, `max_per_document=`, `context=`; see `SearchOptions`.
        """
        return self.answer(question, border.count("top_k", top_k), **settings).shown

    async def asearch(self, question: str, top_k: int = 10, **settings: Unpack[SearchSettings]) -> Ranking:
        """`search` for an event loop: a thread searches, and the loop goes on meanwhile."""
        return await asyncio.to_thread(self.search, question, top_k, **settings)

    def search_groups(
        self,
        question: str,
        group_by: str,
        top_k: int = 10,
        group_size: int = 3,
        **settings: Unpack[SearchSettings],
    ) -> dict[str | int, Ranking]:
        """The best groups of documents with the same value, such as a document's chunks, best first.

        `group_by` says where the value is in the metadata, as `metadata.doc_id`; with `unit="passage"`
        `document` makes a group of each document. Groups are those of the candidate pool; a larger `depth=`
        finds more. Options are those of `search`.
        """
        return self.answer(question, None, **settings).groups(group_by, top_k, group_size)

    def search_many(
        self, questions: Sequence[str], top_k: int = 10, **settings: Unpack[SearchSettings]
    ) -> list[Ranking]:
        """`search` for each of several questions, encoded together and ranked some at once, in threads."""
        pipeline, most = self.with_options(**settings), border.count("top_k", top_k)
        # In contexts of the caller's, so that spans are children of its span.
        texts = map(stripped_question, border.texts("questions", questions))
        queries = ((copy_context(), query) for query in pipeline.encode(list(texts)))
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return list(threads.map(lambda pair: pair[0].run(pipeline.answer, pair[1], most).shown, queries))

    def answer(
        self,
        question: str | Query,
        top_k: int | None = 10,
        *,
        texts: bool = True,
        **settings: Unpack[SearchSettings],
    ) -> Answer:
        """Answer a question with its pool, the ranking of all of it, what is shown, and a verdict.

        Args:
            question: in words, or encoded.
            top_k: the most that are shown; the whole pool where None.
            texts: whether documents are read of what is shown.
            settings: as of `search`.
        """
        top_k = border.optional(border.count, "top_k", top_k)
        pipeline = self.with_options(**settings)
        options = pipeline.options
        last = options.depth if top_k is None else top_k + options.offset
        with span("CHAIN", "surprise_rerank.search", {"surprise_rerank.top_k": top_k}) as counts:
            started = time.perf_counter()
            query = (
                question
                if isinstance(question, Query)
                else pipeline.encode([stripped_question(border.text("question", question))])[0]
            )
            encoded = time.perf_counter()
            read = getattr(pipeline.retriever, "documents", None) if texts else None
            fields = pipeline._fields | options.variety.needs
            if texts and read is None:
                fields |= {"documents"}
            depth = max(options.depth, last)
            attributes: Known = {
                "surprise_rerank.retriever": type(pipeline.retriever).__name__,
                "surprise_rerank.depth": depth,
            }
            with span("RETRIEVER", "surprise_rerank.retrieve", attributes) as retrieved_counts:
                pool = pipeline.retriever.retrieve(query, depth, fields)
                retrieved_counts["surprise_rerank.candidates"] = len(pool)
            pool = replace(pool, unit=options.unit)
            retrieved = time.perf_counter()
            pool, background, least = pipeline._judge(pool, settings.get("min_percentile"))
            attributes = {
                "reranker.model_name": None if self.reranker is None else type(self.reranker).__name__,
                "reranker.top_k": top_k,
                "surprise_rerank.candidates": len(pool),
            }
            with span("RERANKER", "surprise_rerank.rerank", attributes):
                ranking = ranked(query, pool, self.reranker, background, least)
            if (
                ranking.verdict is not None
                and ranking.verdict.chance is not None
                and self._reads_no_word(query)
            ):
                ranking = replace(ranking, verdict=NO_WORD)
            if not len(pool) and getattr(self.retriever, "is_empty", False):
                ranking = replace(ranking, verdict=EMPTY)
            options = replace(options, min_percentile=least)
            of_each = options.max_per_document is not None
            chunks = getattr(pipeline.retriever, "documents", None) if of_each else read
            shown = _first_of(ranking, pool, options, last, chunks)
            if read is not None and shown.documents is None:
                shown = _with_texts(shown, read(shown.ids))
            if options.unit == "passage" and grouping.are_whole(shown):
                shown = replace(shown, notes=(*shown.notes, NOT_SPLIT))
            if options.context and len(shown):
                shown = _with_context(shown, pipeline.retriever, options.context)
            verdict = {} if shown.verdict is None else {"surprise_rerank.verdict": shown.verdict.status}
            counts.update({"surprise_rerank.documents": len(shown), **verdict})
        times = (encoded - started, retrieved - encoded, time.perf_counter() - retrieved)
        seconds = dict(zip(("encoding", "retrieval", "re-ranking"), times, strict=True))
        return Answer(query, pool, ranking, shown, background, seconds)

    def __repr__(self) -> str:
        parts = (self.retriever, self.reranker, self.encoder)
        retriever, reranker, encoder = (type(part).__name__ for part in parts)
        if self.reranker is None:
            reranker = "its own order"
        return f"<Pipeline: {retriever}, {reranker}, {encoder}, depth {self.options.depth}>"

    @property
    def _fields(self) -> frozenset[Field]:
        """The fields of candidates that the re-ranker and the options need."""
        return frozenset() if self.reranker is None else self.reranker.needs

    def encode(self, questions: Sequence[str], ids: Sequence[str] | None = None) -> list[Query]:
        """Questions with their vectors, where these are read; ids are their names in a data set."""
        questions = border.texts("questions", questions)
        names = [""] * len(questions) if ids is None else border.texts("ids", ids)
        border.equal("the number of ids", len(names), len(questions))
        if self.encodes:
            # One thread for one question: two take as long, ten times as long on a busy machine.
            with using_threads(1 if len(questions) == 1 else None):
                return encode_queries(self.encoder, questions, names)
        return [Query(text, id=name) for text, name in zip(questions, names, strict=True)]

    def _judge(
        self, pool: Candidates, requested: float | None
    ) -> tuple[Candidates, QuestionBackground | None, float | None]:
        """A pool, the background that says something of it, and the threshold that applies to it."""
        least = self.options.min_percentile or None  # 0 leaves nothing out
        background = None if pool.outside else self.current_background()
        if background is not None and background.unit != pool.unit and pool.passages is not None:
            outside = f"the background is of {background.unit}s, and {pool.unit}s are asked for"
            pool = replace(pool, outside=f"{outside}: measure one of {pool.unit}s")
        if not pool.outside:
            if least is not None:
                require_background(background, least)
            return pool, background, least
        if requested:
            raise DataError(f"min_percentile={requested!r} cannot be told: {pool.outside}; leave it out")
        return pool, None, None  # the verdict has the reason

    def _reads_no_word(self, query: Query) -> bool:
        """Whether neither the model nor a document knows a word of the question, such as `asdf qwer`.

        A word is known to a model that reads it as one token. Who types nonsense finds documents, too: those
        with the pieces of its words.
        """
        has_a_word_of = getattr(self.retriever, "has_a_word_of", None)
        if has_a_word_of is None or not self.encodes:
            return False
        (spans,) = self.encoder.token_spans([query.text], "query")
        tokens = {query.text[start:end].strip() for start, end in spans.tolist()}
        if query.tokens is None or len(query.tokens):
            words = _LETTERS.findall(query.text)
            if not words or not tokens.isdisjoint(words):
                return False
        return has_a_word_of(query.text) is False

    def with_background(
        self,
        questions: Sequence[str] | Sequence[Query],
        *,
        scorer: str = "",
        documents: int = 0,
        on_progress: Callable[[int], None] | None = None,
    ) -> Pipeline:
        """Return this pipeline with a background: the best scores that these questions get.

        Give some hundred questions that have nothing to do with the corpus: logged ones, or titles of another
        corpus; n of them measure a percentile of at most n / (n + 1). `scorer` is the name of the background,
        for readers; `documents` is the number of documents that are searched, 0 where unknown.
        """
        border.text("scorer", scorer)
        border.count("documents", documents, 0)
        border.optional(border.function, "on_progress", on_progress)
        queries = (
            [query for query in questions if isinstance(query, Query)] if isinstance(questions, list) else []
        )
        if not queries:
            queries = self.encode(border.texts("questions", questions))

        def rankings() -> Iterator[tuple[str, Ranking]]:
            for query in queries:
                pool = self.retriever.retrieve(query, self.options.depth, self._fields)
                yield query.text, ranked(query, replace(pool, unit=self.options.unit), self.reranker)
                if on_progress is not None:
                    on_progress(1)

        return replace(self, background=QuestionBackground.of(rankings(), scorer, documents))

    def calibrated(
        self,
        questions: Mapping[str, str],
        qrels: Mapping[str, Mapping[str, float]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> Pipeline:
        """Return this pipeline with a chance that is calibrated on judged questions, given as to `fit`.

        A question without a relevant document counts, too.
        """
        questions, qrels = border.judgements(questions, qrels)
        border.optional(border.function, "on_progress", on_progress)
        advice = "a chance of relevance needs one; make it with with_background(questions)"
        background = border.present("a background", self.current_background(), advice)
        names, standings, answered = list(qrels), [], []
        for query in self.encode([questions[name] for name in names], names):
            ranking = self.answer(query, texts=False).ranking
            if len(ranking):
                standings.append(background.standing(background.totals_of(ranking, query.text)))
                answered.append(any(qrels[query.id].get(name, 0) > 0 for name in ranking.ids[:_SHOWN]))
            if on_progress is not None:
                on_progress(1)
        best, gaps = np.array(standings).reshape(-1, 2).T
        longest = max((len(questions[name].split()) for name in names), default=0)
        chance = USUAL_CHANCE.calibrated(best, gaps, answered, longest)
        return replace(self, background=replace(background, chance=chance))

    def fit(
        self,
        questions: Mapping[str, str],
        qrels: Mapping[str, Mapping[str, float]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> FittedPipeline:
        """Return this pipeline with weights of judged questions, if they rank held-back ones better.

        Questions are id -> text, judged or not; qrels question's id -> document's id -> gain, 1 for relevant
        or more for more. Use training or development questions, never those of a test. A handful of weights
        wants a hundred or more; docs/scores.md has what to expect. This pipeline stays as it is.
        """
        questions, qrels = border.judgements(questions, qrels)
        border.optional(border.function, "on_progress", on_progress)
        reranker = self.reranker
        if not isinstance(reranker, FusionReranker):
            kind = "no re-ranker" if reranker is None else f"the re-ranker {type(reranker).__name__}"
            raise DataError(
                f"the pipeline has {kind}, which has no weights to fit; fit one with a "
                "FusionReranker (the systems auto and fusion)"
            )
        names = [name for name, gains in qrels.items() if any(gain > 0 for gain in gains.values())]

        def judged() -> Iterator[tuple[Query, Candidates, Mapping[str, float]]]:
            for start in range(0, len(names), _ENCODED):
                part = names[start : start + _ENCODED]
                queries = encode_queries(self.encoder, [questions[name] for name in part], part)
                for query in queries:
                    pool = self.retriever.retrieve(query, self.options.depth, reranker.needs)
                    yield query, pool, qrels[query.id]
                    if on_progress is not None:
                        on_progress(1)

        fitted = fit_guarded(reranker, judged())
        pipeline = replace(self, reranker=reranker.weighted(fitted.weights)) if fitted.accepted else self
        return FittedPipeline(**vars(fitted), pipeline=pipeline)


@dataclass(frozen=True)
class FittedPipeline(WeightFit):
    """The result of `Pipeline.fit`; as a string, a sentence that says it.

    Attributes:
        pipeline: with the fitted weights where they were accepted, else the one that there was.
    """

    pipeline: Pipeline = field(kw_only=True)


def ranked(
    query: Query,
    pool: Candidates,
    reranker: Reranker | None,
    background: QuestionBackground | None = None,
    min_percentile: float | None = None,
) -> Ranking:
    """A pool in order with a verdict, and with every document's percentile where there is a background."""
    if not len(pool):
        return Ranking((), np.zeros(0), notes=pool.notes, verdict=NO_MATCH)
    ranking = _as_retrieved(pool) if reranker is None else reranker.rerank(query, pool)
    if pool.outside:
        return replace(ranking, verdict=Verdict("unknown", None, pool.outside))
    if background is not None:
        return background.judged(ranking, query.text, min_percentile)
    has_passages = ranking.unit == "passage" and ranking.passages is not None
    return replace(ranking, verdict=NOT_MEASURED_PASSAGES if has_passages else NOT_MEASURED)


def _first_of(
    ranking: Ranking, pool: Candidates, options: SearchOptions, last: int, read: _Read | None
) -> Ranking:
    """Return the lines of a ranked pool that are shown: those from the offset up to `last`."""
    if not len(ranking):
        return ranking
    ranking = grouping.merged_neighbours(ranking)
    reach: list[int] | None = None
    if options.min_percentile is not None and not options.keep_refused:
        assert ranking.percentile is not None  # a threshold was refused without a background
        reach = np.flatnonzero(ranking.percentile >= options.min_percentile - ROUNDING).tolist()
    if options.max_per_document is None and options.unit == "document":
        return options.variety.applied(ranking, pool, reach, last)[options.offset : last]
    return _of_chunks(options.variety.applied(ranking, pool, reach), options, last, read)[options.offset :]


def _of_chunks(lines: Ranking, options: SearchOptions, last: int, read: _Read | None) -> Ranking:
    """The first lines, where documents may be chunks that somebody made of others.

    Of passages, chunks that overlap are one; of each document there are so many lines at most. Texts are
    read of as many lines as that takes.
    """
    most, size = options.max_per_document, last
    while True:
        kept = lines.top(size)
        if kept.documents is None and read is not None:
            kept = _with_texts(kept, read(kept.ids))
        if options.unit == "passage":
            kept = grouping.merged_chunks(kept)
        if most is not None:
            kept = grouping.at_most_of_each(kept, most)
        if len(kept) >= last or size >= len(lines):
            return kept.top(last)
        size *= 2


def _with_texts(shown: Ranking, documents: Mapping[str, Document]) -> Ranking:
    """The lines with their documents, without those of documents that were deleted meanwhile."""
    kept = shown.take([row for row, name in enumerate(shown.ids) if name in documents])
    return replace(kept, documents=tuple(documents[name] for name in kept.ids))


def _with_context(shown: Ranking, retriever: Retriever, count: int) -> Ranking:
    """The lines with so many neighbours of each: of passages the text between, of others' chunks theirs."""
    passages, texts_around = (getattr(retriever, name, None) for name in ("passages", "texts_around"))
    if passages is not None and shown.passages is not None:
        return grouping.with_neighbours(shown, passages(shown.ids), count)
    documents = dict(zip(shown.ids, shown.documents or (), strict=False))
    around = {} if texts_around is None else texts_around(documents, count)
    if around:
        return grouping.with_texts_around(shown, around)
    return replace(shown, notes=(*shown.notes, NO_NEIGHBOURS))


def _as_retrieved(pool: Candidates) -> Ranking:
    """A pool in the order of the first of its scores."""
    if not pool.scores and len(pool):
        raise DataError("the retriever gave no scores to order documents by; give the pipeline a re-ranker")
    name, scores = next(iter(pool.scores.items()), ("score", np.zeros(0)))
    values = np.where(np.isnan(scores), -np.inf, scores)
    return Ranking.order(pool, values, pool.scores, raw={name: values})
