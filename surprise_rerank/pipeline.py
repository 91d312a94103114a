"""Retrieve and re-rank: a retriever and a re-ranker in a row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Unpack, cast

import numpy as np

from surprise_rerank.candidates import Candidates, Field, Hit, Query, Ranking
from surprise_rerank.core.threads import using_threads
from surprise_rerank.core.tracing import Counts, Known, span
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.errors import DataError, refuse_unknown
from surprise_rerank.rerank.diversity import NO_DIVERSITY, Diversity, DiversityOptions
from surprise_rerank.rerank.grouping import group_path, grouped
from surprise_rerank.rerank.rerankers import Reranker
from surprise_rerank.rerank.weight_fitting import Weighted, WeightFit, fit_guarded
from surprise_rerank.thresholds.background import (
    ROUNDING,
    QuestionBackground,
    checked_questions,
    require_background,
)
from surprise_rerank.thresholds.chance import USUAL_CHANCE
from surprise_rerank.thresholds.verdicts import NO_MATCH, NOT_MEASURED

# Judged questions whose vectors are held at a time.
_ENCODED = 256
# Questions of `search_many` that are ranked at a time.
_AT_ONCE = 4
# A chance of relevance is that of a relevant document among so many.
_SHOWN = 10


class Retriever(Protocol):
    """Anything that makes a candidate pool for a query."""

    def retrieve(self, query: Query, depth: int, fields: frozenset[Field] = frozenset()) -> Candidates:
        """At most `depth` candidates with these fields filled, best first by the first of their `scores`."""


class CallOptions(DiversityOptions, total=False):
    """What one search may have in place of the pipeline's own; None is as left out.

    `filter` comes beside the pipeline's own filter, and is what its retriever takes: of Qdrant for ours.
    """

    filter: Any
    min_percentile: float | None
    depth: int | None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A question in, a ranking out. Threads and tasks may share one.

    Attributes:
        encoder: of the model that the documents were encoded with.
        retriever: makes the candidate pool.
        reranker: orders it. Without one, the retriever's own scores do: the first of `Candidates.scores`,
            where a candidate that has none of them (NaN) comes last, with minus infinity.
        depth: size of the candidate pool.
        background: other questions' best candidates, which documents' `percentile` is measured against; see
            `with_background`.
        min_percentile: leave out documents of a smaller percentile; .95 lets through one in twenty questions
            that have nothing to do with the corpus. Needs a background.
        diversity: different documents first, and near-duplicates in one line; neither by default.
        encodes: False where words alone rank, so that the model is not asked.
    """

    encoder: Encoder
    retriever: Retriever
    reranker: Reranker | None = None
    depth: int = 100
    background: QuestionBackground | None = None
    min_percentile: float | None = None
    diversity: Diversity = NO_DIVERSITY
    encodes: bool = True

    def __post_init__(self) -> None:
        if self.min_percentile is not None:
            require_background(self.background, self.min_percentile)

    def search(self, question: str, top_k: int = 10, **options: Unpack[CallOptions]) -> Ranking:
        """The best documents for a question, with their text; none, where none reaches `min_percentile`.

        Args:
            question: in words.
            top_k: the most that are returned. With diversity they are chosen from the whole pool.
            options: `filter=`, `min_percentile=`, `depth=`, `diversity=` and `collapse=`.
        """
        require_count("top_k", top_k)
        own = self.changed(**options)
        with searching(top_k) as counts:
            shown = own.shown(own.encoded(question), top_k)
            counts.update(outcome(shown))
        return shown

    async def asearch(self, question: str, top_k: int = 10, **options: Unpack[CallOptions]) -> Ranking:
        """`search` for an event loop: a thread searches, and the loop goes on meanwhile."""
        return await asyncio.to_thread(self.search, question, top_k, **options)

    def search_groups(
        self,
        question: str,
        group_by: str,
        top_k: int = 10,
        group_size: int = 3,
        **options: Unpack[CallOptions],
    ) -> list[tuple[str | int, list[Hit]]]:
        """The best groups of documents with the same value, such as a document's chunks, best hit first.

        `group_by` says where the value is in the metadata, as `metadata.doc_id`. Groups are those of the
        candidate pool; a larger `depth=` finds more. Options are those of `search`.
        """
        path = group_path(group_by)
        require_count("top_k", top_k)
        require_count("group_size", group_size)
        found = self.search(question, options.get("depth") or self.depth, **options)
        return grouped(found, path, top_k, group_size)

    def search_many(
        self, questions: Sequence[str], top_k: int = 10, **options: Unpack[CallOptions]
    ) -> list[Ranking]:
        """`search` for each of several questions, encoded together and ranked some at once, in threads."""
        require_count("top_k", top_k)
        if isinstance(questions, str):
            raise DataError("questions must be a list of strings, got one string; use search for it")
        own = self.changed(**options)

        def answer(query: Query) -> Ranking:
            with searching(top_k) as counts:
                found = own.shown(query, top_k)
                counts.update(outcome(found))
            return found

        # In contexts of the caller's, so that spans are children of its span.
        asked = ((copy_context(), query) for query in own._encoded_all(questions))
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return list(threads.map(lambda pair: pair[0].run(answer, pair[1]), asked))

    def changed(self, **options: Unpack[CallOptions]) -> Pipeline:
        """The same with these in place of its own, and with a filter beside its own."""
        refuse_unknown(options, CallOptions.__annotations__, "search")
        variety = DiversityOptions.__annotations__
        diversity = {name: own for name, own in options.items() if name in variety}
        condition, least, depth = options.get("filter"), options.get("min_percentile"), options.get("depth")
        retriever = self.retriever
        if condition is not None:
            among = getattr(retriever, "among", None)
            if among is None:
                raise DataError(
                    f"filters go to a retriever of an index, not to a {type(retriever).__name__}; "
                    "leave them out"
                )
            retriever = among(condition)
        if depth is not None:
            require_count("depth", depth)
        return replace(
            self,
            retriever=retriever,
            depth=self.depth if depth is None else depth,
            min_percentile=self.min_percentile if least is None else least,
            diversity=self.diversity.changed(**cast(DiversityOptions, diversity)),
        )

    def __repr__(self) -> str:
        parts = (self.retriever, self.reranker, self.encoder)
        retriever, reranker, encoder = (type(own).__name__ for own in parts)
        if self.reranker is None:
            reranker = "its own order"
        return f"<Pipeline: {retriever}, {reranker}, {encoder}, depth {self.depth}>"

    @property
    def reads_vectors(self) -> bool:
        """Whether the model is asked: not where words alone rank."""
        return self.encodes or bool(fields_for(self.reranker) & {"dense", "tokens"})

    def encoded(self, question: str) -> Query:
        """A question, with its vectors where these are read."""
        return encoded_question(self.encoder, question) if self.reads_vectors else Query(question)

    def _encoded_all(self, questions: Sequence[str], ids: Sequence[str] | None = None) -> list[Query]:
        if self.reads_vectors:
            return encode_queries(self.encoder, questions, ids)
        names = [""] * len(questions) if ids is None else ids
        return [Query(text, id=name) for text, name in zip(questions, names, strict=True)]

    def shown(self, query: Query, top_k: int) -> Ranking:
        """What `search` gives for an encoded question."""
        depth = max(self.depth, top_k)
        return self.listed(query, depth, self.diversity, top_k, self.min_percentile)[0]

    def listed(
        self, query: Query, depth: int, diversity: Diversity, top_k: int, min_percentile: float | None
    ) -> tuple[Ranking, Ranking]:
        """What is shown of a pool, with texts, and all of it in order.

        Texts are read of what is shown alone, where the retriever has `documents` to do so: most of a pool is
        never shown, and its texts take longer than its scores.
        """
        read = getattr(self.retriever, "documents", None)
        fields: frozenset[Field] = diversity.needs | ({"documents"} if read is None else frozenset())
        pool, ranking = self.pooled(query, depth, fields, top_k=top_k)
        shown = first_of(ranking, pool, diversity, top_k, min_percentile)
        if read is not None and shown.documents is None:
            shown = _with_texts(shown, read(shown.ids))
        return shown, ranking

    def rank(self, query: Query, depth: int | None = None, *, texts: bool = True) -> Ranking:
        """All candidates of an encoded question in order, with or without texts, whatever its percentile."""
        wanted: frozenset[Field] = frozenset({"documents"}) if texts else frozenset()
        return self.pooled(query, self.depth if depth is None else depth, wanted)[1]

    def pooled(
        self,
        query: Query,
        depth: int,
        beside: frozenset[Field] = frozenset(),
        *,
        top_k: int | None = None,
    ) -> tuple[Candidates, Ranking]:
        """The pool of an encoded question, and its ranking: all of it, with a verdict on it.

        It has the fields `beside` those that order it. A span says how many will be shown.
        """
        pool = retrieved(self.retriever, query, depth, fields_for(self.reranker) | beside)
        with reranking(self.reranker, pool, top_k):
            return pool, ranked(query, pool, self.reranker, self.background, self.min_percentile)

    def with_background(
        self,
        questions: Sequence[str],
        *,
        scorer: str = "",
        documents: int = 0,
        on_progress: Callable[[int], None] | None = None,
    ) -> Pipeline:
        """The same with these questions' best candidates as the background of `percentile`.

        Some hundred questions that have nothing to do with the corpus: logged ones, or titles of another
        corpus; n of them measure a percentile of at most n / (n + 1). `scorer` is what the background is
        called, for readers; `documents` is how many are searched, 0 where unknown.
        """
        queries = self._encoded_all(checked_questions(questions))
        measured = self.measured(queries, scorer=scorer, documents=documents, on_progress=on_progress)
        return replace(self, background=measured)

    def measured(
        self,
        queries: Sequence[Query],
        *,
        scorer: str = "",
        documents: int = 0,
        on_progress: Callable[[int], None] | None = None,
    ) -> QuestionBackground:
        """The background of encoded questions; see `with_background`."""

        def answers() -> Iterator[tuple[str, Ranking]]:
            fields = fields_for(self.reranker)
            for query in queries:
                pool = self.retriever.retrieve(query, self.depth, fields)
                yield query.text, ranked(query, pool, self.reranker)
                if on_progress is not None:
                    on_progress(1)

        return QuestionBackground.of(answers(), scorer, documents)

    def calibrated(
        self,
        questions: Mapping[str, str],
        qrels: Mapping[str, Mapping[str, float]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> Pipeline:
        """The same with a chance of relevance that is calibrated on judged questions, given as to `fit`.

        A question without a relevant document counts, too.
        """
        background = self.background
        if background is None:
            raise DataError(
                "a chance of relevance needs a background; make one with with_background(questions)"
            )
        _require_texts(questions, qrels)
        names, standings, found = list(qrels), [], []
        for query in self._encoded_all([questions[name] for name in names], names):
            _, ranking = self.pooled(query, self.depth)
            if len(ranking):
                standings.append(background.standing(background.totals_of(ranking, query.text)))
                found.append(any(qrels[query.id].get(name, 0) > 0 for name in ranking.ids[:_SHOWN]))
            if on_progress is not None:
                on_progress(1)
        best, gaps = np.array(standings).reshape(-1, 2).T
        longest = max((len(questions[name].split()) for name in names), default=0)
        chance = USUAL_CHANCE.calibrated(best, gaps, found, longest)
        return replace(self, background=replace(background, chance=chance))

    def fit(
        self,
        questions: Mapping[str, str],
        qrels: Mapping[str, Mapping[str, float]],
        *,
        on_progress: Callable[[int], None] | None = None,
    ) -> FittedPipeline:
        """The same with weights that are learned from judged questions, if they rank held-back ones better.

        Questions are id -> text, judged or not; qrels question's id -> document's id -> gain, 1 for relevant
        or more for more. Use training or development questions, never those of a test. A handful of weights
        wants a hundred or more; docs/scores.md has what to expect. This pipeline stays as it is.
        """
        reranker = self.reranker
        if not isinstance(reranker, Weighted):
            kind = "no re-ranker" if reranker is None else f"the re-ranker {type(reranker).__name__}"
            raise DataError(
                f"the pipeline has {kind}, which has no weights to fit; fit one with AutoReranker or "
                "FusionReranker (the systems auto and fusion)"
            )
        _require_texts(questions, qrels)
        names = [name for name, own in qrels.items() if any(gain > 0 for gain in own.values())]
        if not names:
            raise DataError(
                f"none of {len(qrels)} judged questions has a relevant document; give judgements above 0"
            )

        def judged() -> Iterator[tuple[Query, Candidates, Mapping[str, float]]]:
            for start in range(0, len(names), _ENCODED):
                part = names[start : start + _ENCODED]
                queries = encode_queries(self.encoder, [questions[name] for name in part], part)
                for query in queries:
                    yield query, self.retriever.retrieve(query, self.depth, reranker.needs), qrels[query.id]
                    if on_progress is not None:
                        on_progress(1)

        found = fit_guarded(reranker, judged())
        made = replace(self, reranker=reranker.weighted(found.weights)) if found.accepted else self
        return FittedPipeline(**vars(found), pipeline=made)


@dataclass(frozen=True)
class FittedPipeline(WeightFit):
    """What became of `Pipeline.fit`; as a string, a sentence that tells.

    Attributes:
        pipeline: with the fitted weights where they were accepted, else the one that there was.
    """

    pipeline: Pipeline = field(kw_only=True)


def searching(top_k: int | None = None) -> AbstractContextManager[Counts]:
    """A span around all that one question causes, to which `outcome` is added."""
    return span("CHAIN", "surprise_rerank.search", {"surprise_rerank.top_k": top_k})


def reranking(
    reranker: Reranker | None, pool: Candidates, top_k: int | None = None
) -> AbstractContextManager[Counts]:
    """A span of how a pool is ordered and measured, of which `top_k` are shown."""
    known: Known = {
        "reranker.model_name": None if reranker is None else type(reranker).__name__,
        "reranker.top_k": top_k,
        "surprise_rerank.candidates": len(pool),
    }
    return span("RERANKER", "surprise_rerank.rerank", known)


def outcome(shown: Ranking) -> Counts:
    """What a span says of a ranking that is shown."""
    verdict = {} if shown.verdict is None else {"surprise_rerank.verdict": shown.verdict.status}
    return {"surprise_rerank.documents": len(shown), **verdict}


def retrieved(retriever: Retriever, query: Query, depth: int, fields: frozenset[Field]) -> Candidates:
    """A retriever's candidates, and a span of how it found them."""
    known: Known = {"surprise_rerank.retriever": type(retriever).__name__, "surprise_rerank.depth": depth}
    with span("RETRIEVER", "surprise_rerank.retrieve", known) as counts:
        pool = retriever.retrieve(query, depth, fields)
        counts["surprise_rerank.candidates"] = len(pool)
    return pool


def encoded_question(encoder: Encoder, question: str) -> Query:
    """A question with its vectors, by one thread: two take as long, ten times as long on a busy machine."""
    with using_threads(1):
        return encode_queries(encoder, [question])[0]


def fields_for(reranker: Reranker | None, diversity: Diversity = NO_DIVERSITY) -> frozenset[Field]:
    """What is fetched with a pool, so that it can be ordered, and the shown ones be different."""
    return diversity.needs if reranker is None else diversity.needs | reranker.needs


def ranked(
    query: Query,
    pool: Candidates,
    reranker: Reranker | None,
    background: QuestionBackground | None = None,
    min_percentile: float | None = None,
) -> Ranking:
    """A pool in order with a verdict, and with every document's percentile where there is a background."""
    ranking = _as_retrieved(pool) if reranker is None else reranker.rerank(query, pool)
    if background is not None:
        return background.judged(ranking, query.text, min_percentile)
    return replace(ranking, verdict=NOT_MEASURED if len(ranking) else NO_MATCH)


def first_of(
    ranking: Ranking,
    pool: Candidates,
    diversity: Diversity,
    most: int | None = None,
    min_percentile: float | None = None,
) -> Ranking:
    """What is shown of a ranking of the whole pool: at most so many lines, all where None."""
    enough: list[int] | None = None
    if min_percentile is not None:
        assert ranking.percentile is not None  # a threshold was refused without a background
        enough = np.flatnonzero(ranking.percentile >= min_percentile - ROUNDING).tolist()
    shown = diversity.applied(ranking, pool, enough, most)
    return shown if most is None else shown.top(most)


def _with_texts(shown: Ranking, found: Mapping[str, Document]) -> Ranking:
    """The lines with their documents, without those of documents that were deleted meanwhile."""
    there = shown.take([row for row, name in enumerate(shown.ids) if name in found])
    return replace(there, documents=tuple(found[name] for name in there.ids))


def _as_retrieved(pool: Candidates) -> Ranking:
    """A pool in the order of the first of its scores."""
    if not pool.scores and len(pool):
        raise DataError("the retriever gave no scores to order documents by; give the pipeline a re-ranker")
    name, scores = next(iter(pool.scores.items()), ("score", np.zeros(0)))
    values = np.where(np.isnan(scores), -np.inf, scores)
    return Ranking.order(pool, values, pool.scores, raw={name: values})


def require_count(name: str, value: object) -> None:
    """Refuse what is no whole number of at least 1, by a DataError."""
    if not isinstance(value, int) or value < 1:
        raise DataError(f"{name} must be a whole number of at least 1, got {value!r}")


def _require_texts(questions: Mapping[str, str], qrels: Mapping[str, Mapping[str, float]]) -> None:
    """Refuse, by a DataError, judgements of questions that were not given."""
    unknown = [name for name in qrels if name not in questions]
    if unknown:
        raise DataError(
            f"{len(unknown)} of {len(qrels)} judged questions have no text, the first is {unknown[0]!r}; "
            "give the questions that the judgements are for"
        )
