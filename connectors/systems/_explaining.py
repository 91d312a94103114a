"""Explain the ranking of an index by a sample of the corpus and by the documents' tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from surprise_rerank._candidates import Candidates, Query, Ranking
from surprise_rerank._documents import Passage
from surprise_rerank._explanation import RankingExplanation, ScoreDistribution, ScorerShare
from surprise_rerank.connectors.qdrant._hybrid import SparseRetriever
from surprise_rerank.connectors.qdrant._search.corpus import Corpus
from surprise_rerank.connectors.qdrant._writing.statistics import Statistics
from surprise_rerank.connectors.systems._inputs import SAMPLE_SIZE, BuiltSystem
from surprise_rerank.connectors.systems._register import find_system
from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray, pair_similarities
from surprise_rerank.core.moments import Moments
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.rerank._fusion import AS_THEY_ARE, FusionReranker, Share
from surprise_rerank.similarities._bags import word_lists
from surprise_rerank.similarities._dynamax import DynaMax
from surprise_rerank.similarities._token_matches import TokenMatch, token_matches
from surprise_rerank.surprise._ensemble import Ensemble
from surprise_rerank.thresholds._background import QuestionBackground

# Documents whose own distribution is shown, where documents are the anchors.
OWN_DISTRIBUTIONS = 3


def explain_ranking(
    system: BuiltSystem,
    encoder: Encoder | None,
    query: Query,
    candidates: Candidates,
    ranking: Ranking,
    shown: Sequence[int],
    background: QuestionBackground | None = None,
) -> RankingExplanation:
    """How a system's ranking of a question comes about.

    The ranking is of all candidates, with documents, and with `raw` as the re-ranker gave it; `shown` are the
    positions of those that are explained one by one. Reads what these do not hold: a sample of the documents,
    the candidates' vectors where one score ranks, and token vectors of those that are shown.

    Raises:
        DataError: if documents were deleted meanwhile, or the background is of other scorers.
    """
    corpus = cast(Any, system.retriever).corpus  # all of `systems` are from one
    pool = _Pool(corpus, query, ranking)
    sample = _Sample(corpus.whole, query)
    if isinstance(system.reranker, FusionReranker):
        rows = ranking.rows_in(candidates)
        shares = tuple(_of_sum(share, rows) for share in system.reranker.shares(query, candidates))
        names = tuple(share.name for share in shares)
    else:
        names = tuple(name for name in _scorers(system) if name != "cosine" or corpus.layout.has_dense)
        shares = tuple(_share(system, name, pool, sample) for name in names)
    distributions = tuple(
        ScoreDistribution(name, sample.described(name), sample.similarities(name), sample.moments(name))
        for name in names
        if name in _SIMILARITIES and len(sample.similarities(name))
    )
    if system.name == "surprise":
        anchored = _AnchoredScores(corpus, pool)
        shares = (*shares, anchored.share)
        distributions = (*distributions, *(anchored.distribution(row) for row in shown[:OWN_DISTRIBUTIONS]))
    # Of a system that leaves absent scorers out, tokens may be one of these.
    reads_tokens = find_system(system.name).reads_tokens and "dynamax" in (system.scorers or ("dynamax",))
    matched = encoder is not None and query.tokens is not None and reads_tokens
    return RankingExplanation(
        question=query.text,
        ranking=ranking,
        shown=tuple(shown),
        shares=shares,
        first_stage=tuple(name for name in find_system(system.name).first_stage if name in names),
        distributions=distributions,
        matches=_matches(corpus, encoder, query, ranking, shown) if encoder is not None and matched else {},
        background=background,
    )


def _of_sum(share: Share, rows: IntArray) -> ScorerShare:
    """What a scorer adds to a sum, in the order of a ranking."""
    measured = share.measured
    return ScorerShare(
        share.name, measured.raw[rows], measured.moments, share.weight, share.part[rows], share.z[rows]
    )


def _scorers(system: BuiltSystem) -> tuple[str, ...]:
    return (*find_system(system.name).first_stage, *((system.name,) if system.name != "surprise" else ()))


def _share(system: BuiltSystem, name: str, pool: _Pool, sample: _Sample) -> ScorerShare:
    ranking, weight = pool.ranking, float(name == system.name)
    contribution = ranking.scores if weight else np.zeros(len(ranking))
    if name not in _SIMILARITIES:  # a score of a registered system, which is not known over the sample
        return ScorerShare(name, contribution, AS_THEY_ARE, 1.0, contribution)
    return ScorerShare(name, pool.raw(name), sample.moments(name), weight, contribution)


@dataclass(frozen=True)
class _Pool:
    """The candidates, with the similarities that the ranking does not hold."""

    corpus: Corpus
    query: Query
    ranking: Ranking

    def raw(self, name: str) -> Float64Array:
        """(n,) similarities; those of the scorer where it has them, cosines of stored vectors elsewhere."""
        ranking = self.ranking
        if name in ranking.raw:
            return ranking.raw[name]
        if name == "cosine" and (name not in ranking.parts or np.isnan(ranking.parts[name]).any()):
            return pair_similarities(self.vectors, self.query.require_dense(), self.corpus.layout.similarity)
        return ranking.parts[name]

    @cached_property
    def vectors(self) -> Float32Array:
        """(n, d) dense vectors of the candidates (of their best passages, where there are any)."""
        stored = self.corpus.fetch(self.ranking.ids, frozenset({"dense"}))
        return stored.require_dense()[self.ranking.rows_in(stored)]


@dataclass(frozen=True)
class _Sample:
    """The similarities of a question to a uniform sample of the corpus, by every scorer, as in a fusion."""

    corpus: Corpus  # that is sampled
    query: Query  # encoded

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """As many documents, or fewer of many passages: those of the smallest point ids, which are hashes."""
        return self.corpus.sample_ids(SAMPLE_SIZE)

    @cached_property
    def _similarities(self) -> dict[str, Float64Array]:
        return {}

    def similarities(self, name: str) -> Float64Array:
        """(s,) the similarities by one scorer."""
        if name not in self._similarities:
            self._similarities[name] = _SIMILARITIES[name](self) if self.ids else np.zeros(0)
        return self._similarities[name]

    def moments(self, name: str) -> Moments:
        """Mean and deviation over the corpus: of all BM25 scores, and of `similarities` by other scorers."""
        if name == "bm25":
            return SparseRetriever(self.corpus).moments(self.query.text)
        return Moments.of(self.similarities(name))

    def described(self, name: str) -> str:
        """What the similarities are of, in words."""
        what = "passages" if name in _OF_PASSAGES and self.corpus.pools.density > 1 else "documents"
        return f"{len(self.similarities(name))} sampled {what}"

    def cosines(self) -> Float64Array:
        sampled = self.corpus.sample(SAMPLE_SIZE, frozenset({"dense"}))
        return pair_similarities(
            sampled.require_dense(), self.query.require_dense(), self.corpus.layout.similarity
        )

    def dynamax(self) -> Float64Array:
        return DynaMax().pool(self.query.require_tokens(), self.corpus.token_sample(SAMPLE_SIZE)[1])

    def bm25(self) -> Float64Array:
        return SparseRetriever(self.corpus).score(self.query.text, self.ids)


_SIMILARITIES: Mapping[str, Callable[[_Sample], Float64Array]] = {
    "cosine": _Sample.cosines,
    "dynamax": _Sample.dynamax,
    "bm25": _Sample.bm25,
}
_OF_PASSAGES = frozenset({"cosine", "dynamax"})


@dataclass(frozen=True)
class _AnchoredScores:
    """Every candidate as the anchor of surprise."""

    corpus: Corpus
    pool: _Pool

    @property
    def share(self) -> ScorerShare:
        """The score: z of the question's cosine among the ensemble's, to each document."""
        return ScorerShare("surprise", self.pool.raw("cosine"), self._moments, 1.0, self.pool.ranking.scores)

    def distribution(self, row: int) -> ScoreDistribution:
        """The ensemble's similarities to one candidate."""
        ensemble, stored = self._ensemble, self._stored
        source = f", {stored.record.source}" if stored is not None and stored.record.source else ""
        return ScoreDistribution(
            scorer="surprise",
            of=f"{ensemble.sampled} of {ensemble.count} members of the ensemble{source}",
            sample=ensemble.similarities(self.pool.vectors[row : row + 1])[0],
            moments=Moments(self._moments.mean[row], self._moments.deviation[row]),
            anchor=self.pool.ranking.ids[row],
        )

    @cached_property
    def _moments(self) -> Moments:
        vectors = self.pool.vectors
        return self._ensemble.moments(vectors) if self._stored is None else self._stored.moments(vectors)

    @cached_property
    def _ensemble(self) -> Ensemble:
        return self.corpus.surprise_reranker().ensemble if self._stored is None else self._stored.ensemble

    @cached_property
    def _stored(self) -> Statistics | None:
        """What documents of an index carry."""
        return self.corpus.statistics()


def _matches(
    corpus: Corpus,
    encoder: Encoder,
    query: Query,
    ranking: Ranking,
    shown: Sequence[int],
) -> dict[int, list[TokenMatch]]:
    """Which token matched which, of the shown candidates' best passages."""
    if not shown:
        return {}
    stored = corpus.fetch([ranking.ids[row] for row in shown], frozenset({"documents", "tokens"}))
    chosen = ranking.take(shown).rows_in(stored).tolist()
    encoded_texts = _encoded_texts(corpus, encoder, stored)
    texts = [encoded_texts[row] for row in chosen]
    (query_words,) = word_lists(encoder, [query.text], "query")
    words = word_lists(encoder, texts)
    tokens = stored.require_tokens().take(chosen)
    return {
        row: token_matches(query.require_tokens(), tokens.between(i, i + 1), query_words, words[i])
        for i, row in enumerate(shown)
    }


def _encoded_texts(corpus: Corpus, encoder: Encoder, stored: Candidates) -> list[str]:
    """Return the texts that were encoded for every row of documents, fetched with all their passages."""
    documents = stored.documents or ()
    splitting = None if corpus.storage is None else corpus.storage.manifest.options.passages
    if splitting is None or stored.passages is None:
        return [document.content for document in documents]
    whole = dict(zip(stored.ids, documents, strict=True))
    passages: dict[str, list[Passage]] = {name: [] for name in whole}
    for name, passage in zip(stored.ids, stored.passages, strict=True):
        passages[name].append(passage)
    texts = splitting.texts(list(whole.values()), list(passages.values()), encoder)
    return [text for parts in texts for text in parts]
