"""`auto` without an index: what a usual score is comes from the texts at hand.

`AutoReranker` compares scores with those of a sample of the corpus. Where only the retrieved texts are known,
they are that sample. Their scores are higher than the corpus', so z is lower; but each scorer still counts by
its own spread, and rare words and tokens are those that few of these texts have. With one text all z are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from surprise_rerank.candidates import Candidates, Field, Query, Ranking
from surprise_rerank.rerank.auto import AUTO_DEFAULTS, AutoReranker, AutoSettings
from surprise_rerank.rerank.scorers import Scorer
from surprise_rerank.surprise.ensemble import Ensemble


@dataclass(frozen=True, slots=True)
class PoolAutoReranker:
    """Orders texts by cosine and inclusion, in deviations above their own mean, with feedback by neighbours.

    Words are left out: their weights would come from the few texts at hand. docs/defaults.md reports what the
    order is worth beside that of cosine and of inclusion alone.

    Attributes:
        settings: the numbers, as of `AutoReranker`.
        threads: how many to multiply tokens with; see `pool_maxima`.
        more: further scorers, as of `AutoReranker`.
    """

    settings: AutoSettings = AUTO_DEFAULTS
    threads: int | None = None
    more: Sequence[Scorer] = ()

    @property
    def needs(self) -> frozenset[Field]:
        """Dense vectors, token vectors where the encoder makes them, and what further scorers need."""
        own: frozenset[Field] = frozenset({"dense", "tokens"})
        return own.union(*(scorer.needs for scorer in self.more))

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool in order; `notes` say over how many texts means were taken, and what was left out.

        Raises:
            DataError: if the candidates have neither dense vectors nor tokens.
        """
        dense = candidates.dense
        corpus = None if dense is None else Ensemble.from_vectors(dense, sample_size=0, similarity="cosine")
        auto = AutoReranker(
            corpus, candidates.tokens, settings=self.settings, threads=self.threads, more=self.more
        )
        ranking = auto.rerank(query, candidates)
        n = len(set(candidates.ids))
        note = f"a usual score is the mean over the {n} texts at hand, as there is no index"
        return replace(ranking, notes=(note, *ranking.notes))
