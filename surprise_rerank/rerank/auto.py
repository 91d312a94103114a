"""The default re-ranker: scorers on one scale, less weight for an unreliable one, feedback from the pool.

Three scorers are measured in deviations z above this question's mean over the corpus: BM25, the cosine, and
inclusion of the question's tokens. They are added,

    b = (3/2 - t) z_bm25 + t z_cosine + (1 + t)/2 z_dynamax,

where t, from 0 to 1, is the trust in the dense vectors for this question: whether the other scorers rate
their best documents well, too. Before that, two things that do not depend on the question are taken off: from
inclusion half of what a document's length predicts, and from the cosine a share of the document's mean
similarity to the corpus, as the surprise score does,

    <q, v> - h <m, v>,   h = min(1, max(0, (tokens of q - 15) / 45)),

because vectors of long questions lie near the corpus' mean m, where documents that are near to everything
come first. Then the pool gives feedback by words u: with p_j proportional to 1 / rank_j^2, and z over the
corpus again,

    c = b + 3/4 z(<u_i, sum_j p_j u_j>).

Last, scores are smoothed over neighbours in the pool,

    score_i = c_i + 1/5 * mean over the five nearest j of max(0, <v_i, v_j>) c_j.

What is not there is left out, and the ranking's notes say so: inclusion without token vectors, BM25 and
feedback by words without these, cosine and neighbours without dense vectors. One scorer is enough.

Where every scorer gives all candidates the same score, or there is only one candidate, b is the score.
Scores depend on the pool. Nothing is trained. docs/defaults.md reports where the numbers come from, what each
part is worth on collections that they were not chosen on, and what else was tried.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from surprise_rerank.candidates import Candidates, Field, Inclusion, Query, Ranking
from surprise_rerank.core.arrays import Float32Array, Float64Array, FloatArray, row_norms, unit_rows
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.terms import TermSpace
from surprise_rerank.core.threads import row_products
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.core.vectors import is_linear, prepared
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.feedback import agreement, neighbour_support, shares
from surprise_rerank.rerank.fusion import surprise_normalized, weighted_sum, without_length
from surprise_rerank.rerank.scorers import (
    CosineScorer,
    RetrievedScorer,
    Scorer,
    absence,
    who_lacks,
    who_lacks_inclusion,
)
from surprise_rerank.rerank.token_weights import weighted_inclusion
from surprise_rerank.similarities.dynamax import DynaMax
from surprise_rerank.surprise.ensemble import Ensemble

# What scores a candidate by itself, and what the pool adds.
SCORERS = ("bm25", "cosine", "dynamax")
PARTS = (*SCORERS, "words", "neighbours")
# Vectors whose length is so near to 1 are unit vectors, but for the rounding of their storage.
_UNIT = 1e-3
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class AutoSettings:
    """The numbers of `AutoReranker`. docs/defaults.md reports how the defaults were chosen. 0 omits a part.

    Attributes:
        bm25: weight of BM25 where dense vectors are trusted. It increases where they are not.
        cosine: weight of the cosine where it is trusted.
        dynamax: weight of inclusion.
        more: weight of each further scorer (`AutoReranker.more`).
        words: weight of the similarity to the first ranking's best documents, by words.
        neighbours: weight of what the nearest neighbours in the pool score.
        nearest: how many neighbours.
        rarity: whether tokens have weights (`token_weights`); all count the same otherwise.
        hubs: the largest share of a document's mean similarity to the corpus that is subtracted from its
            cosine, from 0 to 1. It lowers hubs, which are near to many questions.
        long: the share grows from 0 to `hubs` between these two numbers of question tokens. None subtracts
            it for questions of any length. Of a question without token vectors the words are counted, which
            are somewhat fewer.
        lengths: the share of what a document's length predicts that is subtracted from its inclusion, from 0
            to 1.
        trust: the cosine's weight grows from 0 to its own between these two values of `agreement`. None
            trusts it always.

    Raises:
        DataError: if a number is out of its range.
    """

    bm25: float = 0.5
    cosine: float = 1.0
    dynamax: float = 1.0
    more: float = 1.0
    words: float = 0.75
    neighbours: float = 0.2
    nearest: int = 5
    rarity: bool = True
    hubs: float = 1.0
    long: tuple[int, int] | None = (15, 60)
    lengths: float = 0.5
    trust: tuple[float, float] | None = (0.35, 0.55)

    def __post_init__(self) -> None:
        for name in (*PARTS, "more"):
            _require(name, getattr(self, name), 0, np.inf, "a number, 0 or more")
        for name in ("hubs", "lengths"):
            _require(name, getattr(self, name), 0, 1, "a share from 0 to 1")
        if not any(getattr(self, name) for name in SCORERS):
            raise DataError(f"{', '.join(SCORERS)} are all 0; give one of them a weight")
        if isinstance(self.nearest, bool) or not isinstance(self.nearest, int) or self.nearest < 1:
            raise DataError(f"nearest={self.nearest!r} is out of range; give at least 1 neighbour")
        if self.long is not None and not _ascending(self.long, np.inf):
            raise DataError(
                f"long={self.long!r} is out of range; give two ascending numbers of tokens, or None"
            )
        if self.trust is not None and not _ascending(self.trust, 1):
            raise DataError(f"trust={self.trust!r} is out of range; give two ascending numbers from 0 to 1")

    def hub_share(self, tokens: int) -> float:
        """The share of a document's mean similarity that is subtracted for a question of so many tokens."""
        if self.long is None:
            return self.hubs
        low, high = self.long
        return self.hubs * float(np.clip((tokens - low) / (high - low), 0.0, 1.0))


def _ascending(pair: object, high: float) -> bool:
    """Whether it is a pair of ascending numbers from 0 to `high`."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        return False
    numbers = [float(own) for own in pair if isinstance(own, int | float) and not isinstance(own, bool)]
    return len(numbers) == 2 and 0 <= numbers[0] < numbers[1] <= high and numbers[1] < np.inf


def _require(name: str, value: object, low: float, high: float, expected: str) -> None:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not low <= value <= high or value == np.inf:  # type: ignore[operator]
        raise DataError(f"{name}={value!r} is out of range; give {expected}")


AUTO_DEFAULTS = AutoSettings()
# Lowers hubs for short questions, too. docs/defaults.md reports what this gains and costs.
AUTO_ROBUST = AutoSettings(hubs=0.5, long=None)


@dataclass(frozen=True)
class AutoReranker:
    """Orders documents by BM25, cosine and inclusion, with feedback from the pool; the module has equations.

    BM25's scores and their moments come from the retriever (`HybridRetriever`). What the question, the
    candidates or the corpus lack is left out, and a note in the ranking says so.

    Attributes:
        corpus: the ensemble of documents, for the moments of cosines; None omits cosine and neighbours.
        sample: token vectors of a uniform sample of the corpus, for the moments of inclusion; None omits it.
        words: the space that words are compared in; None omits feedback by words.
        more: further scorers on the surprise scale, such as a `CrossEncoderScorer`, of names of their own.
        settings: the numbers.
        weights: part -> factor of what it adds to the score; 1 where not given. `Pipeline.fit` learns them.
        threads: how many to multiply tokens with; see `pool_maxima`.
        stored_inclusion: whether the candidates come with inclusion that their store computed, so that no
            token vectors are needed here.

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
    stored_inclusion: bool = False

    def __post_init__(self) -> None:
        names = [*PARTS, *(scorer.name for scorer in self.more)]
        if len(set(names)) < len(names):
            raise DataError(f"the parts of a score need different names, got {', '.join(names)}")
        if self.corpus is not None and not is_linear(self.corpus.similarity):
            raise DataError(f"the ensemble compares by {self.corpus.similarity!r}; give one of dot or cosine")
        unknown = sorted(set(self.weights) - set(names))
        if unknown:
            raise DataError(f"weights for {', '.join(unknown)}, but the parts are {', '.join(names)}")
        for name, weight in self.weights.items():
            _require(f"the weight of {name}", weight, 0, np.inf, "a number, 0 or more")

    @property
    def needs(self) -> frozenset[Field]:
        """Dense vectors, token vectors and terms, as far as there is a corpus to compare them with."""
        numbers = self.settings
        used: dict[Field, bool] = {
            "dense": self.corpus is not None and bool(numbers.cosine or numbers.neighbours),
            "tokens": self.sample is not None and bool(numbers.dynamax),
            "terms": self.words is not None and bool(numbers.words),
        }
        own = frozenset(name for name, is_used in used.items() if is_used)
        return own.union(*(scorer.needs for scorer in self._wanted()))

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool in order. `parts` add up to the score.

        `raw` holds each scorer's own scores, from which nothing is taken off. `notes` say what was left out.

        Raises:
            DataError: if nothing is there that scores the candidates.
        """
        results, order = self._scorer_results(query, candidates), _order(candidates)
        trust = self._trust(results, order)
        parts = self._parts(results, trust, query, candidates, order)
        own = {name: self.weights.get(name, 1.0) * part for name, part in parts.items()}
        notes = []
        if trust < 1:
            notes.append(
                "the dense vectors were trusted less than usual here: their best documents are not those of "
                f"{' and '.join(name for name in results if name != 'cosine')}"
            )
        notes += self._absences(query, candidates).values()
        raw = {name: result.raw for name, result in results.items()}
        return Ranking.order(candidates, self._total(own, candidates), own, notes, raw=raw)

    def parts(self, query: Query, candidates: Candidates) -> dict[str, Float64Array]:
        """Part -> (n,) what it adds to the score, before `weights`."""
        results, order = self._scorer_results(query, candidates), _order(candidates)
        return self._parts(results, self._trust(results, order), query, candidates, order)

    def weighted(self, weights: Mapping[str, float]) -> AutoReranker:
        """The same with other factors."""
        return replace(self, weights=dict(weights))

    def _absences(self, query: Query, candidates: Candidates) -> dict[str, str]:
        """What is not there -> a sentence that says what is left out for it, where that has a weight."""
        own, found = self.settings, {}
        who = "the corpus has" if self.corpus is None else who_lacks("dense", query, candidates)
        reads = [name for name in ("cosine", "neighbours") if getattr(own, name)]
        if who and reads:
            found["dense"] = f"without dense vectors: {who} none, so {_left_out(reads)}"
        if self.stored_inclusion:
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
        notes = {scorer.name: absence(scorer, query, candidates) for scorer in self._wanted()}
        return found | {name: note for name, note in notes.items() if note}

    def _wanted(self) -> Sequence[Scorer]:
        return self.more if self.settings.more else ()

    def _scorer_results(self, query: Query, candidates: Candidates) -> dict[str, _ScorerResult]:
        """Scorer -> its scores of every candidate."""
        results, absent = {}, self._absences(query, candidates)
        if self.settings.bm25 and "bm25" in candidates.scores:
            words = RetrievedScorer("bm25")
            results["bm25"] = _ScorerResult.of(
                words.scores(query, candidates), words.moments(query, candidates)
            )
        if self.settings.cosine and self.corpus is not None and "dense" not in absent:
            results["cosine"] = self._similarity(query, candidates, self.corpus)
        if self.settings.dynamax and "tokens" not in absent:
            found = candidates.inclusion if self.stored_inclusion else self._inclusion(query, candidates)
            assert found is not None
            results["dynamax"] = self._without_length(found)
        for scorer in self._wanted():
            if scorer.name not in absent:
                own = scorer.scores(query, candidates)
                results[scorer.name] = _ScorerResult.of(own, scorer.moments(query, candidates))
        if len(candidates) and not results:
            raise DataError(
                f"nothing is there to rank {len(candidates)} candidates by: {'; '.join(absent.values())}; "
                "give an ensemble of the corpus, a sample of its token vectors, or BM25 scores"
            )
        return results

    def _similarity(self, query: Query, candidates: Candidates, corpus: Ensemble) -> _ScorerResult:
        cosine = CosineScorer(corpus)
        scores = np.asarray(cosine.scores(query, candidates), np.float64)
        share = self.settings.hub_share(_question_length(query))
        if not share:
            return _ScorerResult.of(scores, cosine.moments(query, candidates))
        # <q, v> - h <m, v> is a product with another question, so its moments are exact as well.
        asked = prepared(query.require_dense()[None], corpus.similarity)[0]
        shifted = asked - share * _relative_length(asked, corpus) * corpus.mean
        own = row_products(prepared(candidates.require_dense(), corpus.similarity), shifted)
        return _ScorerResult(scores, surprise_normalized(own, _moments_of(shifted, corpus)))

    def _inclusion(self, query: Query, candidates: Candidates) -> Inclusion:
        tokens, documents, sample = query.require_tokens(), candidates.require_tokens(), self.sample
        assert sample is not None
        if self.settings.rarity:
            scores, usual = weighted_inclusion(tokens, documents, sample, threads=self.threads)
        else:
            scores, usual = (
                DynaMax().pool(tokens, batch, threads=self.threads) for batch in (documents, sample)
            )
        return Inclusion(scores, documents.token_counts, usual, sample.token_counts)

    def _without_length(self, found: Inclusion) -> _ScorerResult:
        share = self.settings.lengths
        own, usual = without_length(found.scores, found.lengths, found.usual, found.usual_lengths, share)
        return _ScorerResult(found.scores, surprise_normalized(own, Moments.of(usual)))

    def _trust(self, results: Mapping[str, _ScorerResult], order: list[int]) -> float:
        """How far the dense vectors are to be trusted: their agreement with the other scorers.

        `order` makes the result independent of the order of equal candidates in the pool.
        """
        if self.settings.trust is None or "cosine" not in results or len(results) < 2:
            return 1.0
        low, high = self.settings.trust
        others = [result.z[order] for name, result in results.items() if name != "cosine"]
        agreed = agreement(results["cosine"].z[order], others)
        return float(np.clip((agreed - low) / (high - low), 0.0, 1.0))

    def _parts(
        self,
        results: Mapping[str, _ScorerResult],
        trust: float,
        query: Query,
        candidates: Candidates,
        order: list[int],
    ) -> dict[str, Float64Array]:
        own = self.settings
        factors = {
            "bm25": own.bm25 + (1 - trust),
            "cosine": own.cosine * trust,
            "dynamax": own.dynamax * (1 + trust) / 2,
            **{scorer.name: own.more for scorer in self.more},
        }
        parts = {name: factors[name] * result.z for name, result in results.items()}
        if own.words and self.words is not None and candidates.terms is not None:
            share = self._shares(parts, candidates, order)
            near = self.words.to_mixture(candidates.terms, share)
            parts["words"] = own.words * surprise_normalized(*near)
        if own.neighbours and self.corpus is not None and not who_lacks("dense", query, candidates):
            # Of equally near neighbours the lower id counts, whatever their order in the pool.
            total, ids = self._total(parts, candidates)[order], [candidates.ids[i] for i in order]
            support = np.empty(len(order))
            support[order] = neighbour_support(
                total, _unit(candidates.require_dense()[order]), ids, own.nearest
            )
            parts["neighbours"] = own.neighbours * support
        if len(order) and np.ptp(self._total({n: parts[n] for n in results}, candidates)) == 0:
            # All candidates have the same score: there is nothing to feed back.
            parts |= {name: np.zeros(len(order)) for name in parts if name not in results}
        return parts

    def _shares(
        self, parts: Mapping[str, Float64Array], candidates: Candidates, order: list[int]
    ) -> Float64Array:
        share = np.empty(len(candidates))
        total = self._total(parts, candidates)[order]
        share[order] = shares(total, [candidates.ids[i] for i in order])
        return share

    def _total(self, parts: Mapping[str, Float64Array], candidates: Candidates) -> Float64Array:
        return weighted_sum(parts, {}) + np.zeros(len(candidates))


@dataclass(frozen=True, slots=True, eq=False)
class _ScorerResult:
    """A scorer's scores of every candidate.

    Attributes:
        raw: (n,) its scores.
        z: (n,) deviations above this question's mean over the corpus, of what is left of them.
    """

    raw: Float64Array
    z: Float64Array

    @classmethod
    def of(cls, scores: FloatArray, moments: Moments) -> _ScorerResult:
        raw = np.asarray(scores, dtype=np.float64)
        return cls(raw, surprise_normalized(raw, moments))


def _left_out(parts: Collection[str]) -> str:
    return f"{' and '.join(parts)} {'were' if len(parts) > 1 else 'was'} left out"


def _question_length(query: Query) -> int:
    """Its tokens; without their vectors its words, of which most models make one token or two."""
    return len(_WORD.findall(query.text)) if query.tokens is None else len(query.tokens)


def _moments_of(vector: Float64Array, corpus: Ensemble) -> Moments:
    """The moments of dot products with a vector; an ensemble under the cosine scales it to length 1."""
    length = float(np.linalg.norm(vector)) if corpus.similarity == "cosine" else 1.0
    moments = corpus.moments(vector[None])
    return replace(moments, mean=moments.mean[0] * length, deviation=moments.deviation[0] * length)


def _relative_length(asked: Float32Array, corpus: Ensemble) -> float:
    """The question's length over that of the corpus' vectors; 1 for unit vectors.

    The share of the corpus' mean that is taken off would depend on the units of dot products otherwise.
    """
    own = float(row_norms(asked))
    usual = corpus.usual_length
    if not usual > 0 or max(abs(own - 1), abs(usual - 1)) < _UNIT:
        return 1.0
    return own / usual


def _unit(vectors: Float32Array) -> Float32Array:
    """(n, d) vectors of length 1; unit vectors as they are."""
    lengths = row_norms(vectors)
    return vectors if (np.abs(lengths - 1) < _UNIT).all() else unit_rows(vectors, lengths)


def _order(candidates: Candidates) -> list[int]:
    """The candidates by id and passage, which does not depend on where they stand in the pool."""
    numbers = [p.number for p in candidates.passages] if candidates.passages else [0] * len(candidates)
    keys = list(zip(candidates.ids, numbers, strict=True))
    return sorted(range(len(candidates)), key=keys.__getitem__)
