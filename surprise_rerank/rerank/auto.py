"""The default re-ranker: scorers on one scale, less weight for an unreliable one, feedback from the pool.

Three scorers are measured in deviations z above this question's mean over the corpus: BM25, the cosine, and
inclusion of the question's tokens, less half of what a document's length predicts. They are added,

    b = 3/5 (2 - t) z_bm25 + t z_cosine + z_dynamax,

where t, from 0 to 1, is the trust in the dense vectors for this question: whether BM25 rates their ten best
documents well, too. What the cosine loses goes to BM25. Then the pool of n candidates gives feedback: what
its best documents have, and the others have not. With p_j proportional to 1 / rank_j^2 in the order of b,

    score = b + 1/2 z(<u_i, sum_j (p_j - 1/n) u_j>) + 1/4 z(<v_i, sum_j (p_j - 1/n) v_j>)

for words u and dense vectors v, and z over the corpus again; fewer than 20 give none. (It is Rocchio's
classifier, 'Relevance feedback in information retrieval', 1971, with the whole pool as what is not relevant.)

What is not there is left out, and the ranking's notes say so: inclusion without token vectors, BM25 and
feedback by words without these, the cosine and feedback by vectors without dense vectors. One scorer is
enough.

Where every scorer gives all candidates the same score, or there is only one candidate, b is the score.
Scores depend on the pool. Nothing is trained. docs/results.md reports where the numbers come from, what each
part is worth on collections that they were not chosen on, and what else was tried.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from surprise_rerank import border
from surprise_rerank.candidates import Candidates, Field, Inclusion, Query, Ranking
from surprise_rerank.core.arrays import Float32Array, Float64Array, FloatArray, is_linear, prepared
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.terms import TermSpace
from surprise_rerank.core.threads import row_products
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.feedback import agreement, contrast
from surprise_rerank.rerank.fusion import surprise_normalized, weighted_sum, without_length
from surprise_rerank.rerank.scorers import (
    CosineScorer,
    RetrievedScorer,
    Scorer,
    absence,
    who_lacks,
    who_lacks_inclusion,
)
from surprise_rerank.similarities.dynamax import DynaMax
from surprise_rerank.surprise.ensemble import Ensemble

# What scores a candidate by itself, and what the pool adds.
SCORERS = ("bm25", "cosine", "dynamax")
PARTS = (*SCORERS, "words", "vectors")


@dataclass(frozen=True, slots=True)
class AutoSettings:
    """The numbers of `AutoReranker`. docs/results.md reports how the defaults were chosen. 0 omits a part.

    Attributes:
        bm25: weight of BM25 where dense vectors are trusted. It is twice as much where they are not at all.
        cosine: weight of the cosine where it is trusted.
        dynamax: weight of inclusion.
        words: weight of feedback by words.
        vectors: weight of feedback by dense vectors.
        lengths: the share, from 0 to 1, of what a document's length predicts that its inclusion loses.
        trust: the cosine's weight grows from 0 to its own between these two values of `agreement`. None
            trusts it always.

    Raises:
        DataError: if a number is out of its range.
    """

    bm25: float = 0.6
    cosine: float = 1.0
    dynamax: float = 1.0
    words: float = 0.5
    vectors: float = 0.25
    lengths: float = 0.5
    trust: tuple[float, float] | None = (0.25, 0.4)

    def __post_init__(self) -> None:
        for name in PARTS:
            border.number(name, getattr(self, name), 0)
        border.share("lengths", self.lengths)
        if not any(getattr(self, name) for name in SCORERS):
            raise DataError(f"{', '.join(SCORERS)} are all 0; give one of them a weight")
        if self.trust is not None:
            shares = [border.share(f"trust[{i}]", own) for i, own in enumerate(self.trust)]
            if len(shares) != 2 or shares[0] >= shares[1]:
                border.refuse("trust", self.trust, "two ascending shares", "give some such as (.2, .4)")


AUTO_DEFAULTS = AutoSettings()


@dataclass(frozen=True)
class AutoReranker:
    """Orders documents by BM25, cosine and inclusion, with feedback from the pool; the module has equations.

    BM25's scores and their moments come from the retriever (`HybridRetriever`). What the question, the
    candidates or the corpus lack is left out, and a note in the ranking says so.

    Attributes:
        corpus: the ensemble of documents, for the moments of cosines; None omits the cosine.
        sample: token vectors of a uniform sample of the corpus, for the moments of inclusion; None omits it.
        words: the space that words are compared in; None omits feedback by words.
        settings: the numbers.
        weights: part -> factor of what it adds to the score; 1 where not given. `Pipeline.fit` learns them.
        threads: how many to multiply tokens with; see `pool_maxima`.
        more: further scorers on the surprise scale, such as a `CrossEncoderScorer`, of names of their own.
            They are added at the end: trust and feedback are of the other parts.
        retrieved: whether the candidates come with inclusion that their store has computed, so that no token
            vectors are needed here.

    Raises:
        DataError: if the ensemble's similarity is not linear, or a weight is for no part.
    """

    corpus: Ensemble | None
    sample: TokenBatch | None = None
    words: TermSpace | None = None
    settings: AutoSettings = AUTO_DEFAULTS
    weights: Mapping[str, float] = field(default_factory=dict)
    threads: int | None = None
    more: Sequence[Scorer] = ()
    retrieved: bool = False

    def __post_init__(self) -> None:
        names = [*PARTS, *(scorer.name for scorer in self.more)]
        border.distinct("the names of the parts of a score", names, "rename one of `more`")
        if self.corpus is not None and not is_linear(self.corpus.similarity):
            raise DataError(f"the ensemble compares by {self.corpus.similarity!r}; give one of dot or cosine")
        border.choices("weights", list(self.weights), names)
        for name, weight in self.weights.items():
            border.number(f"weights[{name!r}]", weight, 0)

    @property
    def needs(self) -> frozenset[Field]:
        """Dense vectors, token vectors and terms, as far as there is a corpus to compare them with."""
        numbers = self.settings
        used: dict[Field, bool] = {
            "dense": self.corpus is not None and bool(numbers.cosine or numbers.vectors),
            "tokens": self.sample is not None and bool(numbers.dynamax) and not self.retrieved,
            "terms": self.words is not None and bool(numbers.words),
        }
        own = frozenset(name for name, is_used in used.items() if is_used)
        return own.union(*(scorer.needs for scorer in self.more))

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool in order. `parts` add up to the score.

        `raw` holds each scorer's own scores, from which nothing is taken off. `notes` say what was left out.

        Raises:
            DataError: if nothing is there that scores the candidates.
        """
        raw, parts, notes = self._scored(query, candidates)
        own = {name: self.weights.get(name, 1.0) * part for name, part in parts.items()}
        return Ranking.order(candidates, _total(own, candidates), own, notes, raw=raw)

    def parts(self, query: Query, candidates: Candidates) -> dict[str, Float64Array]:
        """Part -> (n,) what it adds to the score, before `weights`."""
        return self._scored(query, candidates)[1]

    def weighted(self, weights: Mapping[str, float]) -> AutoReranker:
        """The same with other factors."""
        return replace(self, weights=border.mapping("weights", weights, border.number))

    def _absences(self, query: Query, candidates: Candidates) -> dict[str, str]:
        """What is not there -> a sentence that says what is left out for it, where that has a weight."""
        own, found = self.settings, {}
        who = "the corpus has" if self.corpus is None else who_lacks("dense", query, candidates)
        lost = ["cosine"] if own.cosine else []
        # Feedback compares the candidates with each other.
        lost += ["feedback by vectors"] if own.vectors and who != "the question has" else []
        if who and lost:
            found["dense"] = f"without dense vectors: {who} none, so {_left_out(lost)}"
        if self.retrieved:
            who = who_lacks_inclusion(query, candidates)
        else:
            who = "the corpus has" if self.sample is None else who_lacks("tokens", query, candidates)
        if who and own.dynamax:
            found["tokens"] = f"without token vectors: {who} none, so {_left_out(['inclusion'])}"
        lacking = {}
        if own.bm25 and "bm25" not in candidates.scores:
            lacking["BM25 scores"] = "BM25"
        if own.words and (self.words is None or candidates.terms is None):
            lacking["terms"] = "feedback by words"
        if lacking:
            names = " and ".join(lacking)
            found["words"] = f"without words: {names} are not there, so {_left_out(lacking.values())}"
        notes = {scorer.name: absence(scorer, query, candidates) for scorer in self.more}
        return found | {name: note for name, note in notes.items() if note}

    def _scored(
        self, query: Query, candidates: Candidates
    ) -> tuple[dict[str, Float64Array], dict[str, Float64Array], list[str]]:
        """Each scorer's own scores, what each part adds to the score, and notes on what was left out."""
        absent, order = self._absences(query, candidates), _order(candidates)
        found = self._scorer_results(query, candidates, absent)
        if len(candidates) and not found:
            raise DataError(
                f"nothing is there to rank {len(candidates)} candidates by: {'; '.join(absent.values())}; "
                "give an ensemble of the corpus, a sample of its token vectors, or BM25 scores"
            )
        z = {name: own for name, (_, own) in found.items()}
        trust = self._trust(z, order)
        notes = list(absent.values())
        if trust < 1:
            notes.insert(
                0,
                "the dense vectors were trusted less than usual here: their best documents are not those of "
                "bm25",
            )
        raw = {name: own for name, (own, _) in found.items()}
        return raw, self._parts(z, trust, query, candidates, order), notes

    def _scorer_results(
        self, query: Query, candidates: Candidates, absent: Collection[str]
    ) -> dict[str, tuple[Float64Array, Float64Array]]:
        """Scorer -> (n,) its scores, and z of what is left of them, above this question's corpus mean."""
        found = {}
        if self.settings.bm25 and "bm25" in candidates.scores:
            found["bm25"] = _normalized(RetrievedScorer("bm25"), query, candidates)
        if self.settings.cosine and self.corpus is not None and "dense" not in absent:
            found["cosine"] = _normalized(CosineScorer(self.corpus), query, candidates)
        if self.settings.dynamax and "tokens" not in absent:
            inclusion = candidates.inclusion if self.retrieved else self._inclusion(query, candidates)
            assert inclusion is not None
            own, usual = without_length(
                inclusion.scores,
                inclusion.lengths,
                inclusion.usual,
                inclusion.usual_lengths,
                self.settings.lengths,
            )
            found["dynamax"] = inclusion.scores, surprise_normalized(own, Moments.of(usual))
        for scorer in self.more:
            if scorer.name not in absent:
                found[scorer.name] = _normalized(scorer, query, candidates)
        return found

    def _inclusion(self, query: Query, candidates: Candidates) -> Inclusion:
        tokens, documents, sample = query.require_tokens(), candidates.require_tokens(), self.sample
        assert sample is not None
        scores, usual = (DynaMax().pool(tokens, batch, threads=self.threads) for batch in (documents, sample))
        return Inclusion(scores, documents.token_counts, usual, sample.token_counts)

    def _trust(self, z: Mapping[str, Float64Array], order: list[int]) -> float:
        """How far the dense vectors are to be trusted: BM25's agreement with them.

        The token vectors are of the same model, so that their agreement is no evidence.
        """
        if self.settings.trust is None or "cosine" not in z or "bm25" not in z:
            return 1.0
        low, high = self.settings.trust
        agreed = agreement(z["cosine"][order], z["bm25"][order])
        return float(np.clip((agreed - low) / (high - low), 0.0, 1.0))

    def _parts(
        self,
        z: Mapping[str, Float64Array],
        trust: float,
        query: Query,
        candidates: Candidates,
        order: list[int],
    ) -> dict[str, Float64Array]:
        own, ids = self.settings, [candidates.ids[i] for i in order]
        factors = {
            "bm25": own.bm25 * (2 - trust),
            "cosine": own.cosine * trust,
            "dynamax": own.dynamax,
        }
        parts = {name: factor * z[name] for name, factor in factors.items() if name in z}
        first = _total(parts, candidates)
        if order and np.ptp(first) > 0:
            against = np.empty(len(order))
            against[order] = contrast(first[order], ids)
        else:  # all candidates have the same score: there is nothing to feed back
            against = np.zeros(len(order))
        if own.words and self.words is not None and candidates.terms is not None:
            by_words = surprise_normalized(*self.words.to_mixture(candidates.terms, against))
            parts["words"] = own.words * by_words
        if own.vectors and self.corpus is not None and candidates.dense is not None:
            parts["vectors"] = own.vectors * _by_vectors(candidates.dense, against, self.corpus)
        return parts | {name: scores for name, scores in z.items() if name not in factors}


def _by_vectors(vectors: Float32Array, against: Float64Array, corpus: Ensemble) -> Float64Array:
    """(n,) z of products of the candidates' vectors with a sum of them, over the corpus."""
    known = prepared(vectors, corpus.similarity)
    asked = row_products(known.T, against)
    length = float(np.linalg.norm(asked))
    if not length > 0:
        return np.zeros(len(known))
    asked /= length
    return surprise_normalized(row_products(known, asked), corpus.moments(asked[None]))


@dataclass(frozen=True, slots=True)
class PoolAutoReranker:
    """`auto` without an index: cosine and inclusion in deviations above their mean over the texts at hand.

    These stand for a sample of the corpus. Their scores are higher than the corpus', so z is lower; but each
    scorer still counts by its own spread. Words and lengths are left out: what they weigh would come from the
    few texts. With one text all z are 0. docs/results.md reports
    what the order is worth. Attributes are as of `AutoReranker`.
    """

    settings: AutoSettings = AUTO_DEFAULTS
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
        settings = replace(self.settings, lengths=0)
        auto = AutoReranker(corpus, candidates.tokens, settings=settings, more=self.more)
        ranking = auto.rerank(query, candidates)
        n = len(set(candidates.ids))
        note = f"a usual score is the mean over the {n} texts at hand, as there is no index"
        return replace(ranking, notes=(note, *ranking.notes))


def _normalized(scorer: Scorer, query: Query, candidates: Candidates) -> tuple[Float64Array, Float64Array]:
    """(n,) a scorer's scores, and their z."""
    raw = np.asarray(scorer.scores(query, candidates), dtype=np.float64)
    return raw, surprise_normalized(raw, scorer.moments(query, candidates))


def _total(parts: Mapping[str, FloatArray], candidates: Candidates) -> Float64Array:
    return weighted_sum(parts, {}) + np.zeros(len(candidates))


def _left_out(parts: Collection[str]) -> str:
    return f"{' and '.join(parts)} {'were' if len(parts) > 1 else 'was'} left out"


def _order(candidates: Candidates) -> list[int]:
    """The candidates by id and passage, which does not depend on where they stand in the pool."""
    numbers = [p.number for p in candidates.passages] if candidates.passages else [0] * len(candidates)
    keys = list(zip(candidates.ids, numbers, strict=True))
    return sorted(range(len(candidates)), key=keys.__getitem__)
