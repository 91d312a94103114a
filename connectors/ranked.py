"""What ranks the documents of any collection: one that we write, or one that somebody else made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Unpack

from surprise_rerank.connectors.qdrant.search.searched import Searched

# What ranks needs torch, which takes seconds that a look at an index's status can do without.
if TYPE_CHECKING:
    from qdrant_client import models

    from surprise_rerank.connectors.qdrant.retrievers.dense import SurpriseMode
    from surprise_rerank.pipeline import Pipeline
    from surprise_rerank.rerank.diversity import DiversityOptions
    from surprise_rerank.text_reranker import TextReranker
    from surprise_rerank.thresholds.background import QuestionBackground
    from surprise_rerank.thresholds.chance import AnswerChance


class Ranked(Searched):
    """A collection with its systems, and with their backgrounds of other questions."""

    def pipeline(
        self,
        system: str | None = None,
        *,
        depth: int = 100,
        min_surprise: float | None = None,
        filter: models.Filter | None = None,  # noqa: A002 - the option's name
        mode: SurpriseMode | None = None,
        scorers: Sequence[object] = (),
        weights: Mapping[str, float] = MappingProxyType({}),
        **diversity: Unpack[DiversityOptions],
    ) -> Pipeline:
        """Search by a system: a question in, a ranking out.

        Args:
            system: `auto`, `cosine`, `surprise`, `dynamax`, `fusion`, `bm25`, or one of `register_system`;
                the best that there is enough for by default.
            depth: size of the candidate pool.
            min_surprise: leave out what is less surprising than this share of other questions.
            filter: only documents that it lets through, of Qdrant on the payload.
            mode: where `surprise` is computed: `formula`, `vector` or `client`; its usual place by default.
            scorers: more scores for `auto` and `fusion`: a `CrossEncoder`, a function (question, texts) ->
                scores, a `PayloadScorer` or another `Scorer`. They move documents and leave `surprise` alone.
            weights: name of a part (`bm25`, `cosine`, `dynamax`, `words`, a scorer's) -> its factor.
            diversity: `diversity=.3` (or `mmr=.7`) puts different documents first, `collapse=.95` folds
                near-duplicates into one; see `rerank/diversity.py`.

        Raises:
            DataError: if what the system or the mode needs is not there, or min_surprise is given and there
                is no background for the system; if an option of diversity is out of its range.
        """
        from surprise_rerank.connectors.systems.loading import pipeline_of
        from surprise_rerank.rerank.diversity import NO_DIVERSITY

        return pipeline_of(
            self,
            system,
            depth=depth,
            min_surprise=min_surprise,
            filter=filter,
            mode=mode,
            scorers=scorers,
            weights=weights,
            diversity=NO_DIVERSITY.changed(**diversity),
        )

    def text_reranker(
        self,
        system: str | None = None,
        *,
        min_surprise: float | None = None,
        scorers: Sequence[object] = (),
        weights: Mapping[str, float] = MappingProxyType({}),
        **diversity: Unpack[DiversityOptions],
    ) -> TextReranker:
        """Re-rank texts that were retrieved elsewhere; vectors of stored ones are fetched by their ids.

        Args:
            system: one that ranks texts; the best that there is enough for by default.
            min_surprise: leave out what is less surprising than this share of other questions.
            scorers: as for `pipeline`, as weights and diversity.
            weights: of parts.
            diversity: of what it shows.

        Raises:
            DataError: if the system cannot rank given texts; as `pipeline`.
        """
        from surprise_rerank.connectors.systems.loading import text_reranker_of
        from surprise_rerank.rerank.diversity import NO_DIVERSITY

        shown = NO_DIVERSITY.changed(**diversity)
        return text_reranker_of(
            self,
            system,
            min_surprise=min_surprise,
            diversity=shown,
            scorers=scorers,
            weights=weights,
        )

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
        on_progress: Callable[[int], None] | None = None,
    ) -> QuestionBackground:
        """Measure what these questions' best candidates score, and keep it for `min_surprise`.

        Args:
            questions: that have nothing to do with the corpus: logged ones, or titles of another corpus.
                `varied_questions` where None.
            system: whose candidates; the default of `pipeline` where None.
            depth: size of the candidate pool.
            origin: where the questions come from, for readers.
            on_progress: called with the number of questions of every finished part.

        Returns:
            The background that is stored, in place of an earlier one of the system.

        Raises:
            DataError: if there are too few questions, or the system lacks what it needs.
        """
        from surprise_rerank.connectors.systems.backgrounds import measure_background
        from surprise_rerank.connectors.systems.inputs import inputs_of

        name = system or inputs_of(self).default
        return measure_background(self, name, questions, depth=depth, origin=origin, on_progress=on_progress)

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
        from surprise_rerank.connectors.systems.inputs import inputs_of

        name = system or inputs_of(self).default
        made = self.pipeline(name).calibrated(questions, qrels).background
        assert made is not None
        assert made.chance is not None
        store_background(self, name, made)
        return made.chance
