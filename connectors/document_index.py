"""The index that users open: documents in Qdrant, and what ranks them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from surprise_rerank.connectors.qdrant.index import QdrantIndex

# What ranks needs torch, which takes seconds that a look at an index's status can do without.
if TYPE_CHECKING:
    from surprise_rerank.pipeline import Pipeline
    from surprise_rerank.text_reranker import TextReranker
    from surprise_rerank.thresholds.background import QuestionBackground


class DocumentIndex(QdrantIndex):
    """Documents with their dense vectors and token vectors, in one collection of Qdrant.

    Use `DocumentIndex.open`; the index is a context manager. Methods whose names have an `a` before them are
    for event loops: the same in a thread. `docs/qdrant.md` has examples.
    """

    def pipeline(
        self, system: str | None = None, *, depth: int = 100, min_surprise: float | None = None
    ) -> Pipeline:
        """Search by a system: a question in, a ranking out.

        Args:
            system: `auto`, `cosine`, `surprise`, `dynamax`, `fusion`, `bm25`, `maxsim`, or one of
                `register_system`; the best that the index stores enough for by default.
            depth: size of the candidate pool.
            min_surprise: leave out what is less surprising; needs `store_background`.

        Raises:
            DataError: if the index lacks what the system needs, or min_surprise is given and it has no
                background for the system.
        """
        from surprise_rerank.connectors.systems.loading import pipeline_of

        return pipeline_of(self, system, depth=depth, min_surprise=min_surprise)

    def text_reranker(self, system: str | None = None, *, min_surprise: float | None = None) -> TextReranker:
        """Re-rank texts that were retrieved elsewhere; vectors of stored ones are fetched by their ids.

        Args:
            system: one that ranks texts; the best that the index stores enough for by default.
            min_surprise: leave out what is less surprising; needs `store_background`.

        Raises:
            DataError: if the system cannot rank given texts, the index lacks what it needs, or min_surprise
                is given and it has no background for the system.
        """
        from surprise_rerank.connectors.systems.loading import text_reranker_of

        return text_reranker_of(self, system, min_surprise=min_surprise)

    def store_background(
        self,
        questions: Sequence[str],
        system: str | None = None,
        *,
        depth: int = 100,
        on_progress: Callable[[int], None] | None = None,
    ) -> QuestionBackground:
        """Measure what these questions' best candidates score, and keep it for `min_surprise`.

        Args:
            questions: that have nothing to do with the corpus: logged ones, or titles of another corpus.
            system: whose candidates; the default of `pipeline` where None.
            depth: size of the candidate pool.
            on_progress: called with the number of questions of every finished part.

        Returns:
            The background that is stored, in place of an earlier one of the system.

        Raises:
            DataError: if there are too few questions, or the index lacks what the system needs.
        """
        from surprise_rerank.connectors.systems.backgrounds import store_background
        from surprise_rerank.connectors.systems.index_systems import default_system

        name = system or default_system(self)
        pipeline = self.pipeline(name, depth=depth).with_background(
            questions,
            scorer=f"{name} of {self.manifest.model}, pools of {depth}",
            documents=len(self),
            on_progress=on_progress,
        )
        assert pipeline.background is not None
        store_background(self, name, pipeline.background)
        return pipeline.background
