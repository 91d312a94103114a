"""What is served, once it is loaded: a re-ranker of given texts, and a pipeline where there is an index."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.lexical import Bm25
from surprise_rerank.connectors.server.answers import RefusedError
from surprise_rerank.connectors.server.schemas import Varied
from surprise_rerank.connectors.server.work import RequestEncoder
from surprise_rerank.connectors.systems.backgrounds import title_questions
from surprise_rerank.connectors.systems.pipelines import IndexPipelines
from surprise_rerank.errors import DataError, did_you_mean
from surprise_rerank.pipeline import Pipeline
from surprise_rerank.rerank.diversity import Diversity
from surprise_rerank.text_reranker import RankedTexts, TextReranker
from surprise_rerank.thresholds.background import QuestionBackground, require_background
from surprise_rerank.thresholds.varied_questions import varied_questions

# Documents that examples of questions are made of.
_SAMPLED = 64


@dataclass(frozen=True)
class Opened:
    """A model that is loaded, and an index that is open.

    Attributes:
        reranker: of given texts; its min_surprise and diversity are those of requests in Cohere's form that
            do not say otherwise.
        pipeline: over the index; its own are those of searches.
        system: what readers call the two.
        index: the systems of the same index; None where the pipeline is all that there is.
    """

    reranker: TextReranker
    pipeline: Pipeline | None
    system: str
    index: IndexPipelines | None = None

    def rerank(
        self,
        question: str,
        texts: Sequence[str],
        ids: Sequence[str | None] | None,
        top_n: int | None,
        min_surprise: float | None,
        diversity: Diversity,
        encoder: RequestEncoder,
    ) -> RankedTexts:
        """`TextReranker.rank`, for one request."""
        reranker = replace(self.reranker, encoder=encoder, min_surprise=min_surprise, diversity=diversity)
        return reranker.rank(question, texts, ids=ids, top_k=top_n)

    def written(self) -> QdrantIndex:
        """The index, to be changed.

        Raises:
            RefusedError: if there is none, or it is somebody else's collection.
        """
        index = None if self.index is None else self.index.index
        if not isinstance(index, QdrantIndex):
            raise RefusedError(404, "the server has no index of its own; start it with --index FOLDER")
        return index

    def pipeline_of(self, system: str | None = None) -> Pipeline:
        """The pipeline of a system; the first one by default.

        Raises:
            RefusedError: if there is no index, or it has no such system.
        """
        if self.pipeline is None:
            raise RefusedError(404, "the server has no index to search; start it with one")
        if system in (None, self.system):
            return self.pipeline
        assert system is not None
        if system not in self.systems or self.index is None:
            hint = did_you_mean(system, self.systems)
            raise RefusedError(
                422, f"system: the index has none of that name; {hint}there are {', '.join(self.systems)}"
            )
        try:
            return self.index[system]
        except TimeoutError as error:
            said = f"the system {system} is being made ready; try again in some seconds"
            raise RefusedError(503, said, {"Retry-After": "2"}) from error
        except DataError as error:
            raise RefusedError(422, f"system: {error}") from error

    @property
    def systems(self) -> dict[str, str]:
        """What searches can rank by, the first by default, and what each does."""
        if self.index is not None:
            return {self.system: "", **self.index.summaries()}
        return {} if self.pipeline is None else {self.system: ""}

    @functools.cached_property
    def examples(self) -> list[str]:
        """Questions that the index has something for, and a last one that it likely has nothing for."""
        if self.index is None:
            return []
        near = sorted(title_questions(self.index.index.sample_documents(_SAMPLED)), key=len)
        return [*near[len(near) // 2 :][:3], *varied_questions(1)]

    @property
    def measured(self) -> list[str]:
        """The systems whose documents have a surprise."""
        if self.index is not None:
            return [name for name in self.systems if self.index.is_measured(name)]
        has_one = self.pipeline is not None and self.pipeline.background is not None
        return [self.system] if has_one else []

    @property
    def language(self) -> str:
        """Of the documents' words."""
        return Bm25().language if self.index is None else self.index.index.language

    @property
    def documents(self) -> int | None:
        """How many there are to search; None where that is not known."""
        return None if self.index is None else len(self.index.index)


class Service:
    """A place for what is served, which may come later than the server.

    Args:
        searches: whether there will be a pipeline.
    """

    def __init__(self, *, searches: bool) -> None:
        self.searches = searches
        self._opened: Opened | None = None

    def open(
        self,
        reranker: TextReranker,
        pipeline: Pipeline | None = None,
        system: str = "",
        index: IndexPipelines | None = None,
    ) -> None:
        """Serve these from now on.

        Args:
            reranker: of given texts.
            pipeline: over an index.
            system: what readers call the two; by default the class of what orders the pipeline's hits, or of
                the re-ranker without a pipeline.
            index: the systems of the pipeline's index, which requests may name.

        Raises:
            DataError: if there is a pipeline and there should be none, or the other way round.
        """
        if self.searches != (pipeline is not None):
            raise DataError(
                f"the service was made with searches={self.searches} and gets "
                f"{'no' if pipeline is None else 'a'} pipeline; make both say the same"
            )
        orders = reranker.reranker if pipeline is None else pipeline.reranker or pipeline.retriever
        self._opened = Opened(reranker, pipeline, system or type(orders).__name__, index)

    def required(self) -> Opened:
        """What is served.

        Raises:
            RefusedError: if it is not loaded yet.
        """
        if self._opened is None:
            raise RefusedError(
                503, "the model is being loaded; try again in some seconds", {"Retry-After": "5"}
            )
        return self._opened


def threshold(
    asked: float | None, default: float | None, background: QuestionBackground | None
) -> float | None:
    """The min_surprise of a request; 0 is none.

    Args:
        asked: by the request, if it says any.
        default: the server's, which holds for all its systems.
        background: of the system that ranks.

    Raises:
        RefusedError: if there is one, and no background for it, or one that cannot measure it.
    """
    least = default if asked is None else asked
    if least is None or (background is None and least == 0):
        return None
    if background is None:
        raise RefusedError(
            422,
            f"min_surprise is {least:g}, and nothing tells how surprising a document is here: what ranks has "
            "no background of other questions; leave it out, or send 0, to see all documents",
        )
    try:
        require_background(background, least)
    except DataError as error:
        raise RefusedError(422, str(error)) from error
    return least


def varied(asked: Varied, default: Diversity) -> Diversity:
    """The diversity of a request.

    Raises:
        RefusedError: if it has both diversity and mmr.
    """
    try:
        return default.changed(diversity=asked.diversity, mmr=asked.mmr, collapse=asked.collapse)
    except DataError as error:
        raise RefusedError(422, str(error)) from error
