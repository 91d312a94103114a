"""The index that users open: documents in Qdrant, and what ranks them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.manifest import IndexOptions
from surprise_rerank.connectors.qdrant.storage.files import Files
from surprise_rerank.connectors.qdrant.writing.indexing import SyncReport
from surprise_rerank.connectors.qdrant.writing.locking import exclusive
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoded

# What ranks needs torch, which takes seconds that a look at an index's status can do without.
if TYPE_CHECKING:
    from surprise_rerank.connectors.systems.built import Mode
    from surprise_rerank.pipeline import Pipeline
    from surprise_rerank.rerank.diversity import DiversityOptions
    from surprise_rerank.text_reranker import TextReranker
    from surprise_rerank.thresholds.background import QuestionBackground
    from surprise_rerank.thresholds.chance import AnswerChance


class DocumentIndex(QdrantIndex):
    """Documents with their dense vectors and token vectors, in one collection of Qdrant.

    Use `DocumentIndex.open`; the index is a context manager. Methods whose names have an `a` before them are
    for event loops: the same in a thread. `docs/qdrant.md` has examples.
    """

    @property
    def files(self) -> Files:
        """Where its backgrounds are kept."""
        return self.storage

    def pipeline(
        self,
        system: str | None = None,
        *,
        depth: int = 100,
        min_surprise: float | None = None,
        mode: Mode | None = None,
        **diversity: Unpack[DiversityOptions],
    ) -> Pipeline:
        """Search by a system: a question in, a ranking out.

        Args:
            system: `auto`, `cosine`, `surprise`, `dynamax`, `fusion`, `bm25`, `maxsim`, or one of
                `register_system`; the best that the index stores enough for by default.
            depth: size of the candidate pool.
            min_surprise: leave out what is less surprising than this share of other questions.
            mode: where scores are computed: `formula`, `vector` or `client` for `surprise`, `client` or
                `maxsim` for `auto`, `fusion` and `dynamax`. The system's usual place by default.
            diversity: `diversity=.3` (or `mmr=.7`) puts different documents first, `collapse=.95` folds
                near-duplicates into one; see `rerank/diversity.py`.

        Raises:
            DataError: if the index lacks what the system or the mode needs, or min_surprise is given and it
                has no background for the system; if an option of diversity is out of its range.
        """
        from surprise_rerank.connectors.systems.loading import pipeline_of
        from surprise_rerank.rerank.diversity import NO_DIVERSITY

        shown = NO_DIVERSITY.changed(**diversity)
        return pipeline_of(self, system, depth=depth, min_surprise=min_surprise, diversity=shown, mode=mode)

    def text_reranker(
        self,
        system: str | None = None,
        *,
        min_surprise: float | None = None,
        **diversity: Unpack[DiversityOptions],
    ) -> TextReranker:
        """Re-rank texts that were retrieved elsewhere; vectors of stored ones are fetched by their ids.

        Args:
            system: one that ranks texts; the best that the index stores enough for by default.
            min_surprise: leave out what is less surprising than this share of other questions.
            diversity: as for `pipeline`.

        Raises:
            DataError: if the system cannot rank given texts, the index lacks what it needs, or min_surprise
                is given and it has no background for the system; as `pipeline`.
        """
        from surprise_rerank.connectors.systems.loading import text_reranker_of
        from surprise_rerank.rerank.diversity import NO_DIVERSITY

        shown = NO_DIVERSITY.changed(**diversity)
        return text_reranker_of(self, system, min_surprise=min_surprise, diversity=shown)

    @exclusive
    def sync(
        self,
        documents: Iterable[Document],
        *,
        prune: bool = False,
        encoded: Encoded | None = None,
        on_progress: Callable[[int], None] | None = None,
        show_progress: bool = False,
        background: bool = True,
    ) -> SyncReport:
        """Bring the index up to date: only new and changed documents are encoded and stored.

        Documents may be a stream: some thousands are in memory at a time. After an interruption the next call
        continues; at most two windows of work are lost.

        Then the background is measured: the first one, of `varied_questions`, where there is none, and those
        that are stale because more than a fifth of the documents has come, changed or gone.

        Args:
            documents: the collection; ids must be unique.
            prune: remove stored documents that are not in `documents`.
            encoded: vectors of the n documents, if they exist already; no document is split then.
            on_progress: called with the number of documents of every finished part.
            show_progress: a bar with documents a second and the time left, on the error stream.
            background: False leaves the backgrounds as they are.

        Raises:
            DataError: if an id occurs twice or metadata is not JSON; what was stored before stays.
            IndexMismatchError: if the encoder computes in another precision than the index holds.
            IndexingError: if documents cannot be stored; names those that are not, the others are.
        """
        report = super().sync(
            documents, prune=prune, encoded=encoded, on_progress=on_progress, show_progress=show_progress
        )
        if background:
            from surprise_rerank.connectors.systems.backgrounds import look_after_backgrounds

            changed = report.added + report.updated + report.removed
            look_after_backgrounds(self, changed, show_progress=show_progress)
        return report

    @exclusive
    def rebuild(
        self,
        documents: Iterable[Document],
        *,
        encoder: object | None = None,
        token_encoder: object | None = None,
        options: IndexOptions | None = None,
        collection_settings: Mapping[str, Any] | None = None,
        encode_again: bool = False,
        show_progress: bool = False,
        background: bool = True,
    ) -> SyncReport:
        """Index everything again into a new version, and replace this one by it in one step.

        Until then this version answers. After an error it stays in use, and another call continues. The new
        version keeps the ensemble if the model is the same. Of documents that have not changed, it takes over
        the vectors, where they lose nothing by it: the model and the passages must be the same, and the token
        vectors in the same form, or int8 and to be merged or coded. Of a `FunctionEncoder` the name is all
        that is known of the model; if it gives other vectors now, let everything be encoded again.

        The questions of its backgrounds are asked again at the end; those of the package where it has none.

        Args:
            documents: the whole collection.
            encoder: another model, as for `open`, or the same.
            token_encoder: gives the token vectors in its place, as for `open`.
            options: others, or the same; token vectors of before schema 4 get their new default form.
            collection_settings: as for `open`; shards and copies stay as they are where it does not say.
            encode_again: take over no vectors.
            show_progress: as for `sync`.
            background: False makes none.

        Raises:
            IndexingError: if documents cannot be stored.
        """
        from surprise_rerank.connectors.systems.backgrounds import measure_again

        before = self.backgrounds() if background else {}
        report = super().rebuild(
            documents,
            encoder=encoder,
            token_encoder=token_encoder,
            options=options,
            collection_settings=collection_settings,
            encode_again=encode_again,
            show_progress=show_progress,
        )
        if background:
            measure_again(self, before, show_progress=show_progress)
        return report

    def backgrounds(self) -> dict[str, QuestionBackground]:
        """System -> its background, of those that have one.

        Raises:
            DataError: if one is damaged.
        """
        from surprise_rerank.connectors.systems.backgrounds import all_backgrounds

        return all_backgrounds(self)

    def store_background(
        self,
        questions: Sequence[str] | None = None,
        system: str | None = None,
        *,
        depth: int = 100,
        origin: str = "",
        chance: AnswerChance | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> QuestionBackground:
        """Measure what these questions' best candidates score, and keep it for `min_surprise`.

        Args:
            questions: that have nothing to do with the corpus: logged ones, or titles of another corpus.
                `varied_questions` where None.
            system: whose candidates; the default of `pipeline` where None.
            depth: size of the candidate pool.
            origin: where the questions come from, for readers.
            chance: of an answer, as it was calibrated before.
            on_progress: called with the number of questions of every finished part.

        Returns:
            The background that is stored, in place of an earlier one of the system.

        Raises:
            DataError: if there are too few questions, or the index lacks what the system needs.
        """
        from surprise_rerank.connectors.systems.backgrounds import measure_background

        return measure_background(
            self, system, questions, depth=depth, origin=origin, chance=chance, on_progress=on_progress
        )

    def calibrate_chance(
        self,
        questions: Mapping[str, str],
        qrels: Mapping[str, Mapping[str, float]],
        system: str | None = None,
    ) -> AnswerChance:
        """Learn from judged questions how often the first ten documents contain an answer, and keep it.

        Args:
            questions: id -> text.
            qrels: question's id -> document's id -> gain, above 0 for a relevant one; see `Pipeline.fit`.
            system: whose rankings; the default of `pipeline` where None. It must have a background.

        Raises:
            DataError: if there is no background, or there are too few questions; as `Pipeline.calibrated`.
        """
        from surprise_rerank.connectors.systems.backgrounds import store_background
        from surprise_rerank.connectors.systems.index_systems import default_system

        name = system or default_system(self)
        made = self.pipeline(name).calibrated(questions, qrels).background
        assert made is not None
        assert made.chance is not None
        store_background(self, name, made)
        return made.chance
