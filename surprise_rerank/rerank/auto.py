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

    score = b + 3/4 z(<u_i, sum_j p_j u_j>).

What is not there is left out, and the ranking's notes say so: inclusion without token vectors, BM25 and
feedback by words without these, the cosine without dense vectors. One scorer is enough.

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
from surprise_rerank.core.arrays import Float32Array, Float64Array, FloatArray, is_linear, prepared, row_norms
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.terms import TermSpace
from surprise_rerank.core.threads import row_products
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.feedback import agreement, shares
from surprise_rerank.rerank.fusion import surprise_normalized, weighted_sum, without_length
from surprise_rerank.rerank.scorers import (
    MEAN_SIMILARITY,
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
PARTS = (*SCORERS, "words")
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
        words: weight of the similarity to the first ranking's best documents, by words.
        rarity: whether tokens have weights (`token_weights`); all count the same otherwise.
        hubs: the largest share, from 0 to 1, of a document's mean similarity to the corpus that its cosine
            loses. It lowers hubs, which are near to many questions.
        long: between these two numbers of question tokens the share grows from 0 to `hubs`. None subtracts
            it for any length. Without token vectors the words are counted, which are somewhat fewer.
        lengths: the share, from 0 to 1, of what a document's length predicts that its inclusion loses.
        trust: the cosine's weight grows from 0 to its own between these two values of `agreement`. None
            trusts it always.

    Raises:
        DataError: if a number is out of its range.
    """

    bm25: float = 0.5
    cosine: float = 1.0
    dynamax: float = 1.0
    words: float = 0.75
    rarity: bool = True
    hubs: float = 1.0
    long: tuple[int, int] | None = (15, 60)
    lengths: float = 0.5
    trust: tuple[float, float] | None = (0.35, 0.55)

    def __post_init__(self) -> None:
        for name in PARTS:
            _require_in_range(name, getattr(self, name), np.inf, "a number, 0 or more")
        for name in ("hubs", "lengths"):
            _require_in_range(name, getattr(self, name), 1, "a share from 0 to 1")
        if not any(getattr(self, name) for name in SCORERS):
            raise DataError(f"{', '.join(SCORERS)} are all 0; give one of them a weight")
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


def _is_in_range(value: object, high: float) -> bool:
    """Whether it is a finite number from 0 to `high`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= high and value < np.inf


def _ascending(pair: Sequence[object], high: float) -> bool:
    """Whether it is a pair of ascending numbers from 0 to `high`."""
    return len(pair) == 2 and all(_is_in_range(own, high) for own in pair) and pair[0] < pair[1]  # type: ignore[operator]


def _require_in_range(name: str, value: object, high: float, expected: str) -> None:
    if not _is_in_range(value, high):
        raise DataError(f"{name}={value!r} is out of range; give {expected}")


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
        cosines: whether they come with the cosine and `MEAN_SIMILARITY`, so that no dense vectors are needed.

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
    cosines: bool = False

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
            _require_in_range(f"the weight of {name}", weight, np.inf, "a number, 0 or more")

    @property
    def needs(self) -> frozenset[Field]:
        """Dense vectors, token vectors and terms, as far as there is a corpus to compare them with."""
        numbers = self.settings
        used: dict[Field, bool] = {
            "dense": self.corpus is not None and bool(numbers.cosine) and not self.cosines,
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
        return replace(self, weights=dict(weights))

    def _absences(self, query: Query, candidates: Candidates) -> dict[str, str]:
        """What is not there -> a sentence that says what is left out for it, where that has a weight."""
        own, found = self.settings, {}
        who = "" if self.cosines else who_lacks("dense", query, candidates)
        who = "the corpus has" if self.corpus is None else who
        if who and own.cosine:
            found["dense"] = f"without dense vectors: {who} none, so {_left_out(['cosine'])}"
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
        own = {name: z[name] for name in SCORERS if name in z}
        trust = self._trust(own, order)
        notes = list(absent.values())
        if trust < 1:
            others = " and ".join(name for name in own if name != "cosine")
            notes.insert(
                0,
                "the dense vectors were trusted less than usual here: their best documents are not those of "
                f"{others}",
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
            found["cosine"] = self._similarity(query, candidates, self.corpus)
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

    def _similarity(
        self, query: Query, candidates: Candidates, corpus: Ensemble
    ) -> tuple[Float64Array, Float64Array]:
        share = self.settings.hub_share(_question_length(query))
        cosine = CosineScorer(corpus, retrieved=self.cosines)
        if not share:
            return _normalized(cosine, query, candidates)
        raw = np.asarray(cosine.scores(query, candidates), np.float64)
        # <q, v> - h <m, v> is a product with another question, so its moments are exact as well.
        asked = prepared(query.require_dense()[None], corpus.similarity)[0]
        subtracted = share * _relative_length(asked, corpus)
        shifted = asked - subtracted * corpus.mean
        if self.cosines:
            own = raw - subtracted * candidates.scores[MEAN_SIMILARITY]
        else:
            own = row_products(prepared(candidates.require_dense(), corpus.similarity), shifted)
        return raw, surprise_normalized(own, _moments_of(shifted, corpus))

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

    def _trust(self, z: Mapping[str, Float64Array], order: list[int]) -> float:
        """How far the dense vectors are to be trusted: their agreement with the other scorers."""
        if self.settings.trust is None or "cosine" not in z or len(z) < 2:
            return 1.0
        low, high = self.settings.trust
        agreed = agreement(z["cosine"][order], [own[order] for name, own in z.items() if name != "cosine"])
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
            "bm25": own.bm25 + (1 - trust),
            "cosine": own.cosine * trust,
            "dynamax": own.dynamax * (1 + trust) / 2,
        }
        parts = {name: factor * z[name] for name, factor in factors.items() if name in z}
        is_flat = np.ptp(_total(parts, candidates)) == 0 if order else True
        if own.words and self.words is not None and candidates.terms is not None:
            share = np.empty(len(order))
            share[order] = shares(_total(parts, candidates)[order], ids)
            parts["words"] = own.words * surprise_normalized(*self.words.to_mixture(candidates.terms, share))
        if is_flat:
            # All candidates have the same score: there is nothing to feed back.
            parts |= {name: np.zeros(len(order)) for name in parts if name not in z}
        return parts | {name: scores for name, scores in z.items() if name not in factors}


@dataclass(frozen=True, slots=True)
class PoolAutoReranker:
    """`auto` without an index: cosine and inclusion in deviations above their mean over the texts at hand.

    These stand for a sample of the corpus. Their scores are higher than the corpus', so z is lower; but each
    scorer still counts by its own spread, and rare tokens are those that few of these texts have. Words are
    left out: their weights would come from the few texts. With one text all z are 0. docs/defaults.md reports
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
        auto = AutoReranker(corpus, candidates.tokens, settings=self.settings, more=self.more)
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


def _question_length(query: Query) -> int:
    """Its tokens; without their vectors its words, of which most models make one token or two."""
    return len(_WORD.findall(query.text)) if query.tokens is None else len(query.tokens)


def _moments_of(vector: Float64Array, corpus: Ensemble) -> Moments:
    """The moments of dot products with a vector; an ensemble under the cosine scales it to length 1."""
    length = float(np.linalg.norm(vector)) if corpus.similarity == "cosine" else 1.0
    moments = corpus.moments(vector[None])
    return replace(moments, mean=moments.mean[0] * length, deviation=moments.deviation[0] * length)


def _relative_length(asked: Float32Array, corpus: Ensemble) -> float:
    """The question's length over that of the corpus' vectors, so that units of products do not matter."""
    own = float(row_norms(asked))
    usual = corpus.usual_length
    if not usual > 0 or max(abs(own - 1), abs(usual - 1)) < _UNIT:
        return 1.0
    return own / usual


def _order(candidates: Candidates) -> list[int]:
    """The candidates by id and passage, which does not depend on where they stand in the pool."""
    numbers = [p.number for p in candidates.passages] if candidates.passages else [0] * len(candidates)
    keys = list(zip(candidates.ids, numbers, strict=True))
    return sorted(range(len(candidates)), key=keys.__getitem__)
