"""EvalRank: how far a model ranks the similar item before others, over words and over sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from surprise_rerank import border
from surprise_rerank.core.arrays import BoolArray, IntArray, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.eval.reports.report import Plot, Series, Table
from surprise_rerank.eval.stats.correlations import correlations
from surprise_rerank.eval.studies.evalrank.data import (
    RankingTask,
    read_sentence_ranking,
    read_word_ranking,
    read_word_similarity,
)
from surprise_rerank.eval.studies.evalrank.measures import DENSE_MEASURES, TokenMeasure, dense_measure
from surprise_rerank.eval.studies.evalrank.ranks import Items, Measure, hits, ranks
from surprise_rerank.eval.studies.evalrank.vocabulary import Vocabulary
from surprise_rerank.eval.studies.measurements import Measurements, Shown
from surprise_rerank.eval.studies.sentence_models import (
    POST_PROCESSED,
    WHITENED,
    SentenceBenchmark,
    SentenceModel,
    post_processed,
    whitened,
)
from surprise_rerank.eval.studies.settings import RankSettings, WordSettings
from surprise_rerank.similarities.bags import Texts, word_lists
from surprise_rerank.similarities.definitions import WordStatistics
from surprise_rerank.similarities.kernels import own_memberships
from surprise_rerank.similarities.table import CorpusStatistics, embedding_words, find_similarity, with_raw

HITS_AT = tuple(range(1, 16))
_SHOWN = (
    *(Shown("MR", 1, "min"), Shown("MRR", 4, "max"), Shown("Hits@1", 4, "max")),
    *(Shown("Hits@3", 4, "max"), Shown("known %", 1)),
)
_PUBLISHED = (
    "As published: the last bits of cosine and l2 decide, so that the second item of one pair in four, or in "
    "two, counts against itself, and words without a vector, which are equal, do not stand before each other."
)
_LEGEND = (
    "MR: mean rank of the second item; MRR: mean of 1 / rank; Hits@k: share of pairs of rank k or better; "
    "known: pairs of which the model has both vectors"
)

Settings = TypeVar("Settings", bound=RankSettings)


class RankStudy(SentenceBenchmark[Settings, RankingTask]):
    """The ranks of pairs' second items, given the first, by every model and measure."""

    items: ClassVar[str]
    similarities: ClassVar[tuple[str, ...]] = DENSE_MEASURES

    @property
    def title(self) -> str:
        """What is ranked."""
        return f"EvalRank of {self.items}"

    def prepare(self) -> None:
        """Refuse unknown similarities, and none."""
        border.some("similarities", self.settings.similarities, "name one")
        border.choices("similarities", self.settings.similarities, self.similarities)
        self._hits: dict[tuple[str, str], list[float]] = {}

    @property
    def variants(self) -> tuple[str, ...]:
        """What is measured of a model's vectors: as they are, and what the settings ask for."""
        processed, white = POST_PROCESSED * self.settings.post_process, WHITENED * self.settings.whiten
        return tuple(dict.fromkeys(("", processed, white)))

    def rank(
        self, model: str, name: str, measure: Measure, pairs: IntArray, counts: IntArray, share_known: float
    ) -> None:
        """Add the ranks of pairs under a measure of this name, of which a model knows a share."""
        with self.terminal.bar(f"{model}: {name}", len(pairs), "pairs") as advance:
            places = ranks(measure, pairs, counts, advance)
        self._hits[model, name] = [hits(places, k) for k in HITS_AT]
        values = {"MR": places.mean(), "MRR": (1 / places).mean(), "known %": 100 * share_known}
        self.measurements.add((model, name), {**values, "Hits@1": hits(places, 1), "Hits@3": hits(places, 3)})

    def tables(self) -> Iterator[Table]:
        """MR, MRR and hits of every model and measure."""
        sizes = f"{len(self.data.pairs)} pairs among {len(self.data.background)} {self.items}"
        title = f"EvalRank, {self.items}: {sizes}"
        yield self.measurements.table(f"evalrank-{self.items}", title, _SHOWN, (_LEGEND,))

    def plots(self) -> Iterator[Plot]:
        """Hits@k over k, a picture for each model."""
        for model in dict.fromkeys(model for model, _ in self._hits):
            shares = {name: values for (of, name), values in self._hits.items() if of == model}
            reciprocal = {name: self.measurements.mean((model, name), "MRR") or 0.0 for name in shares}
            best = max(shares, key=lambda name: reciprocal[name])
            series = [
                Series(name, tuple(map(float, HITS_AT)), tuple(values)) for name, values in shares.items()
            ]
            seen = f"The largest MRR has {best}, {reciprocal[best]:.4f}."
            yield Plot("line", f"Hits@k of {model}", "k", "Hits@k", tuple(series), finding=seen)

    def notes(self) -> Iterator[str]:
        """Whether the ranks are those of the published program."""
        if self.settings.as_published:
            yield _PUBLISHED

    def facts(self) -> dict[str, Any]:
        """Settings, sizes, and hits of every depth."""
        return {
            "settings": {
                "post_process": self.settings.post_process,
                "as_published": self.settings.as_published,
                "pairs": len(self.data.pairs),
                "background": len(self.data.background),
            },
            "hits": {f"{model} / {name}": shares for (model, name), shares in self._hits.items()},
        }


class WordStudy(RankStudy[WordSettings]):
    """EvalRank of words, and how similarities of words agree with people's.

    Vectors are centred over the vocabulary, and for all measures but `l2` scaled to length 1; an unknown word
    has the mean of the processed vectors. An encoder's vocabulary is the words of pairs and sets.
    """

    items = "words"

    def read(self) -> RankingTask:
        """Pairs, the vocabulary of the settings, and the judged sets."""
        task = read_word_ranking(self.settings.data, self.settings.vocabulary)
        return replace(task, judged=read_word_similarity(self.settings.data))

    def prepare(self) -> None:
        """Refuse unknown similarities, and none."""
        super().prepare()
        self._agreements = Measurements("model", "similarity", "data set")

    def measure(self, model: SentenceModel) -> None:
        """Rank the pairs, and correlate with the judged sets."""
        task = self.data
        judged_words = (word for judged in task.judged for pair in judged.pairs for word in pair)
        words = list(dict.fromkeys([*task.background, *judged_words]))
        row = {word: i for i, word in enumerate(words)}

        def rows_of(pairs: Sequence[tuple[str, str]]) -> IntArray:
            return np.array([[row[first], row[second]] for first, second in pairs])

        pairs = rows_of(task.pairs)
        vocabulary = Vocabulary.of(model, words, self.terminal)
        is_known = vocabulary.rows >= 0
        self._remark_unknown(model.name, int((~is_known[: len(task.background)]).sum()), ~is_known[pairs])
        for variant in self.variants:
            name, vectors = model.name + variant, vocabulary.processed(variant)
            items, item_of = Items.of(vectors.plain, vectors.unit, len(task.background))
            for kind in dict.fromkeys(self.settings.similarities):
                measure = dense_measure(kind, items, as_published=self.settings.as_published)
                share_known = float(is_known[pairs].all(axis=1).mean())
                self.rank(name, kind, measure, item_of[pairs], items.counts, share_known)
                for judged in task.judged:
                    coefficients = correlations(
                        measure.scores(*item_of[rows_of(judged.pairs)].T), judged.scores
                    )
                    values = {**coefficients.by_name(), "pairs": len(judged.pairs)}
                    self._agreements.add((name, kind, judged.name), values)

    def _remark_unknown(self, name: str, words: int, lacks: BoolArray) -> None:
        if words:
            task = self.data
            self.remarks[
                f"{name} lacks {words} of {len(task.background)} words, and both words of "
                f"{int(lacks.all(axis=1).sum())} of {len(task.pairs)} pairs. They share one vector, the "
                "mean: none is more similar than another, and a pair's second word stands in the middle of "
                "them."
            ] = None

    def tables(self) -> Iterator[Table]:
        """Ranks, and agreement with people."""
        yield from super().tables()
        if self.data.judged:
            shown = [*map(Shown, ("Pearson", "Spearman", "Kendall")), Shown("pairs", 0)]
            yield self._agreements.table("word-similarity", "Word similarity", shown)


class SentenceStudy(RankStudy[RankSettings]):
    """EvalRank of sentences.

    Sentence vectors are centred over the background, and for all measures but `l2` scaled to length 1.
    Similarities of token vectors compare tokens as the model gives them. What has to be fitted, IDF for one,
    is fitted on the background.
    """

    items = "sentences"
    similarities = (*DENSE_MEASURES, *with_raw())

    def read(self) -> RankingTask:
        """Pairs and their background."""
        return read_sentence_ranking(self.settings.data)

    def measure(self, model: SentenceModel) -> None:
        """Rank the pairs by sentence vectors, and by token vectors."""
        background = self.data.background
        row = {sentence: i for i, sentence in enumerate(background)}
        pairs = np.array([[row[first], row[second]] for first, second in self.data.pairs])
        with self.terminal.bar(f"encoding with {model.name}", len(row), "sentences") as advance:
            encoded = model.encoder.encode(background, on_progress=advance)
        tokens = encoded.require_tokens()
        # Word vectors are looked up again for their mean, which takes no time.
        vectors = encoded.dense if model.word_vectors is None else model.vectors(background)
        is_known = tokens.lengths > 0
        share_known = float(is_known[pairs].all(axis=1).mean())
        # Where a sentence has no known word, the published program computes in float64, and `l2` has no two
        # precisions that would decide anything.
        published = {"cosine", "l2"} if is_known.all() else {"cosine"}
        if not is_known.all():
            self.remarks[f"{model.name} knows no word of {(~is_known).sum()} of {len(row)} sentences."] = None
        processing = {"": lambda plain: plain, POST_PROCESSED: post_processed, WHITENED: whitened}
        for variant in self.variants:
            processed = processing[variant](vectors)
            centred = (processed - processed.mean(axis=0, dtype=np.float64)).astype(np.float32)
            items, item_of = Items.of(centred, unit_rows(centred), len(centred))
            for name in dict.fromkeys(self.settings.similarities):
                if name in DENSE_MEASURES:
                    as_published = self.settings.as_published and name in published
                    measure = dense_measure(name, items, as_published=as_published)
                    self.rank(model.name + variant, name, measure, item_of[pairs], items.counts, share_known)
        self._rank_tokens(model, tokens, pairs, share_known)

    def _rank_tokens(
        self, model: SentenceModel, tokens: TokenBatch, pairs: IntArray, share_known: float
    ) -> None:
        names = [name for name in dict.fromkeys(self.settings.similarities) if name not in DENSE_MEASURES]
        if not names:
            return
        words = word_lists(model.encoder, self.data.background)
        texts = Texts(replace(tokens, own=own_memberships(tokens)), words)
        needs = frozenset().union(*(find_similarity(name).fitted_on for name in names))
        embedding = embedding_words(model.encoder) if "embedding" in needs else None
        corpus = CorpusStatistics(tokens.dimension, texts, WordStatistics.of(words), embedding)
        once = np.ones(len(texts), dtype=np.int64)
        for name in names:
            measure = TokenMeasure(find_similarity(name).build(corpus), texts)
            self.rank(model.name, name, measure, pairs, once, share_known)
