"""EvalRank: how far a model ranks the similar item before others, over words and over sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.core.arrays import Float32Array, Float64Array, FloatArray, IntArray, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.eval.line_files import data_folder, number, read_rows
from surprise_rerank.eval.reports.report import Plot, Series, Table
from surprise_rerank.eval.stats import correlations
from surprise_rerank.eval.studies.ranks import (
    DENSE_MEASURES,
    Items,
    Measure,
    TokenMeasure,
    dense_measure,
    hits,
    ranks,
)
from surprise_rerank.eval.studies.sentence_models import (
    POST_PROCESSED,
    WHITENED,
    SentenceBenchmark,
    SentenceModel,
    Whitening,
    post_processed,
    whitened,
)
from surprise_rerank.eval.studies.settings import RankSettings
from surprise_rerank.eval.studies.study import Measurements, Shown
from surprise_rerank.similarities._bags import Texts, word_lists
from surprise_rerank.similarities._kernels import own_memberships
from surprise_rerank.similarities.definitions import Removal, WordStatistics
from surprise_rerank.similarities.table import CorpusStatistics, embedding_words, find_similarity, with_raw

WORD_SIMILARITY_SETS = (
    *("WS-353-ALL", "WS-353-SIM", "WS-353-REL", "MC-30", "RG-65", "RW-STANFORD", "MEN-TR-3k"),
    *("MTurk-287", "MTurk-771", "YP-130", "SIMLEX-999", "VERB-143", "SimVerb-3500"),
)


@dataclass(frozen=True, slots=True)
class RankingTask:
    """Pairs whose second item is to be found among a background; of words, sets that people judged."""

    pairs: tuple[tuple[str, str], ...]
    background: tuple[str, ...]
    judged: tuple[WordSimilaritySet, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class WordSimilaritySet:
    """n pairs of words in lower case, and how similar people find them, on a scale of the set's own."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    scores: Float64Array


def read_word_ranking(data: Path | None) -> RankingTask:
    """The word pairs of what `--data` names, and the words among which the second one is to be found."""
    folder = data_folder(data, "evalrank", "word_evalrank")
    more = [read_rows(folder / name, _item, "a word") for name in ("basic_vocab.txt", "wiki_vocab.txt")]
    return _task(folder / "pos_pair_5514.txt", *more)


def read_sentence_ranking(data: Path | None) -> RankingTask:
    """The sentence pairs and their background in the folder that `--data` names."""
    folder = data_folder(data, "evalrank", "sent_evalrank")
    return _task(folder / "pos_pair.txt", read_rows(folder / "background_sent.txt", _item, "a sentence"))


def read_word_similarity(data: Path | None) -> tuple[WordSimilaritySet, ...]:
    """The 13 word-similarity sets in the folder that `--data` names."""

    def row(line: str) -> tuple[tuple[str, str], float]:
        first, second, score = line.split()
        return (first.lower(), second.lower()), number(score)

    folder, sets = data_folder(data, "evalrank", "word_similarity"), []
    for name in WORD_SIMILARITY_SETS:
        path = folder / f"EN-{name}.txt"
        rows = list(read_rows(path, row, "two words and their similarity"))
        border.some(f"pairs of {path}", rows, "give them with their similarity", 2)
        pairs, scores = zip(*rows, strict=True)
        sets.append(WordSimilaritySet(name, pairs, np.array(scores)))
    return tuple(sets)


def _task(path: Path, *more: Iterable[str]) -> RankingTask:
    def pair(line: str) -> tuple[str, str]:
        first, second = map(_item, line.split("\t"))
        return first, second

    pairs = tuple(read_rows(path, pair, "two items with a tab between"))
    border.some(f"pairs of {path}", pairs, "write one a line, with a tab between")
    background = dict.fromkeys(item for pair in pairs for item in pair)
    for items in more:
        background.update(dict.fromkeys(items))
    return RankingTask(pairs, tuple(background))


def _item(text: str) -> str:
    if not text.strip():
        raise ValueError("an item is empty")
    return text.strip()


_COMPONENTS = 2  # which post-processing takes off
_ROWS_AT_ONCE = 8192


class ProcessedWords(NamedTuple):
    """The (n, d) float32 vectors of n words, centred, and the same at length 1.

    An unknown word has the mean of the vocabulary: zeros, and a vector that is shorter than 1.
    """

    plain: Float32Array
    unit: Float32Array


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """A model's (v, d) vectors, and the (n,) rows of n words, -1 for the unknown; an encoder has these n."""

    vectors: FloatArray
    rows: IntArray

    @classmethod
    def of(cls, model: SentenceModel, words: Sequence[str], terminal: Terminal) -> Vocabulary:
        """A model's vocabulary, and the places of n words; word vectors are looked up in lower case."""
        vectors = model.word_vectors
        if vectors is not None:
            return cls(vectors.vectors, vectors.lookup(word.lower() for word in words))
        with terminal.bar(f"encoding words with {model.name}", len(words), "words") as advance:
            return cls(model.vectors(words, advance), np.arange(len(words)))

    def processed(self, variant: str = "") -> ProcessedWords:
        """The n words' vectors, by the variant without two components (Mu, Viswanath, 2018), or whitened."""
        taken = _fitted(self.vectors, variant)
        total = sum(unit_rows(taken(block)).sum(axis=0, dtype=np.float64) for block in _blocks(self.vectors))
        is_known = self.rows >= 0
        processed = taken(self.vectors[self.rows[is_known]])
        plain = np.zeros((len(self.rows), processed.shape[1]), dtype=np.float32)
        plain[is_known] = processed
        unit = unit_rows(plain)
        unit[~is_known] = total / len(self.vectors)
        return ProcessedWords(plain, unit)


def _fitted(vectors: FloatArray, variant: str) -> Removal | Whitening:
    """What takes the mean of a vocabulary off, and more by the variant; in blocks, for large ones."""
    centre = sum(block.sum(axis=0, dtype=np.float64) for block in _blocks(vectors)) / len(vectors)
    if not variant:
        return Removal(centre, np.zeros((0, vectors.shape[1])))
    scatter = sum((block - centre).T @ (block - centre) for block in _blocks(vectors))
    if variant == WHITENED:
        return Whitening.of(centre, scatter / len(vectors))
    return Removal(centre, np.linalg.eigh(scatter).eigenvectors[:, ::-1][:, :_COMPONENTS].T)


def _blocks(vectors: FloatArray) -> Iterator[FloatArray]:
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        yield vectors[start : start + _ROWS_AT_ONCE]


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


class RankStudy(SentenceBenchmark[RankSettings, RankingTask]):
    """The ranks of pairs' second items, given the first, by every model and measure."""

    items: ClassVar[str]
    similarities: ClassVar[tuple[str, ...]] = DENSE_MEASURES

    @property
    def title(self) -> str:
        return f"EvalRank of {self.items}"

    def prepare(self) -> None:
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
        sizes = f"{len(self.data.pairs)} pairs among {len(self.data.background)} {self.items}"
        title = f"EvalRank, {self.items}: {sizes}"
        yield self.measurements.table(f"evalrank-{self.items}", title, _SHOWN, (_LEGEND,))

    def plots(self) -> Iterator[Plot]:
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
        if self.settings.as_published:
            yield _PUBLISHED

    def facts(self) -> dict[str, Any]:
        return {
            "settings": {
                "post_process": self.settings.post_process,
                "as_published": self.settings.as_published,
                "pairs": len(self.data.pairs),
                "background": len(self.data.background),
            },
            "hits": {f"{model} / {name}": shares for (model, name), shares in self._hits.items()},
        }


class WordStudy(RankStudy):
    """EvalRank of words, and how similarities of words agree with people's.

    Vectors are centred over the vocabulary, of an encoder the words of pairs and sets, and for all measures
    but `l2` scaled to length 1; an unknown word has the mean of the processed vectors.
    """

    items = "words"

    def read(self) -> RankingTask:
        task = read_word_ranking(self.settings.data)
        return replace(task, judged=read_word_similarity(self.settings.data))

    def prepare(self) -> None:
        super().prepare()
        self._agreements = Measurements("model", "similarity", "data set")

    def measure(self, model: SentenceModel) -> None:
        task = self.data
        judged_words = (word for judged in task.judged for pair in judged.pairs for word in pair)
        row = {word: i for i, word in enumerate(dict.fromkeys([*task.background, *judged_words]))}

        def rows_of(pairs: Sequence[tuple[str, str]]) -> IntArray:
            return np.array([[row[first], row[second]] for first, second in pairs])

        pairs = rows_of(task.pairs)
        vocabulary = Vocabulary.of(model, [*row], self.terminal)
        is_known = vocabulary.rows >= 0
        if unknown := int((~is_known[: len(task.background)]).sum()):
            self.remarks[
                f"{model.name} lacks {unknown} of {len(task.background)} words, and both words of "
                f"{int((~is_known[pairs]).all(axis=1).sum())} of {len(task.pairs)} pairs. They share one "
                "vector, the mean: none is more similar than another, and a pair's second word stands in the "
                "middle of them."
            ] = None
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

    def tables(self) -> Iterator[Table]:
        yield from super().tables()
        if self.data.judged:
            shown = [*map(Shown, ("Pearson", "Spearman", "Kendall")), Shown("pairs", 0)]
            yield self._agreements.table("word-similarity", "Word similarity", shown)


class SentenceStudy(RankStudy):
    """EvalRank of sentences.

    Vectors are centred over the background, on which IDF and the like are fitted, and for all measures but
    `l2` scaled to length 1.
    """

    items = "sentences"
    similarities = (*DENSE_MEASURES, *with_raw())

    def read(self) -> RankingTask:
        return read_sentence_ranking(self.settings.data)

    def measure(self, model: SentenceModel) -> None:
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
