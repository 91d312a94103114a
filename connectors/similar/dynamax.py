"""Surprise over DynaMax: of all pairs, or of the candidates that the surprise over the cosine finds.

    z(d, n) = (J(d, n) - mu_n) / sigma_n

J is DynaMax-Jaccard over the joint universe (`int8_jaccard.py`). Its moments have no closed form: mu_n and
sigma_n are those of J(e, n) over a sample of the other documents e of the neighbour's corpus, chosen by a
hash of their ids. A document is no member of its own ensemble: J(n, n) = 1 among some hundred would double
the deviation of the documents that happen to be drawn. Where n is drawn, one more takes its place, so that
every document has as many members.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np

from surprise_rerank.connectors.similar.corpus import EncodedCorpus, hash_of, moments_of_blocks
from surprise_rerank.connectors.similar.scorers import Rescored, Scorer
from surprise_rerank.connectors.similar.settings import SimilaritySettings
from surprise_rerank.core.arrays import Float64Array, IntArray
from surprise_rerank.core.files import disk_errors, whole_file
from surprise_rerank.core.moments import Moments, MomentStream
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.similarities.int8_jaccard import joint_jaccard
from surprise_rerank.surprise.linear_form import LinearForm
from surprise_rerank.surprise.neighbours import Neighbours, require_few

# Documents whose moments are one file, which one worker computes; a kill loses less than one file.
MOMENT_ROWS = 1024
# Documents whose token vectors are in memory at a time: 25 MB for 250 tokens each of 384 components.
_TOKEN_ROWS = 256


class DynaMaxMoments:
    """Moments of DynaMax between every document of a corpus and a sample of the others.

    They are stored beside the corpus in blocks, each complete or absent. Any worker may compute any block, as
    its content depends on the corpus and the size of the sample alone.

    Args:
        corpus: with token vectors.
        sample: how many other documents stand for the ensemble; all of them where there are no more.
        device: where to multiply: `cpu`, `cuda`, ...
    """

    def __init__(self, corpus: EncodedCorpus, sample: int, device: str = "cpu") -> None:
        self._corpus, self._sample, self._device = corpus, sample, device
        self._folder = corpus.folder / "moments"

    def blocks(self) -> range:
        """The first rows of all blocks."""
        return range(0, len(self._corpus), MOMENT_ROWS)

    def missing(self) -> list[int]:
        """The first rows of the blocks that are not there yet."""
        return [first for first in self.blocks() if not self._is_stored(first)]

    def compute(self, first: int) -> int:
        """Compute a block and store it, unless it is there; returns how many documents it is about.

        Raises:
            StoreError: if the disk is full, or cannot be read or written.
        """
        last = min(first + MOMENT_ROWS, len(self._corpus))
        with disk_errors(str(self._folder)):
            if not self._is_stored(first):
                parts = [self._measured(rows) for rows in _runs(first, last)]
                self._store(f"{first:012d}", np.concatenate(parts, axis=1))
        return last - first

    def of(self, rows: IntArray) -> Moments:
        """(n,) the moments of any rows.

        Raises:
            StoreError: if the disk cannot be read, or a block is not there.
        """
        with disk_errors(str(self._folder)):
            return moments_of_blocks(rows, MOMENT_ROWS, lambda first: np.load(self._path(f"{first:012d}")))

    @cached_property
    def members(self) -> IntArray:
        """The rows of the documents that were drawn, and one more for those that are drawn themselves."""
        with disk_errors(str(self._folder)):
            if not self._path("members").exists():
                self._store("members", sample_rows(self._corpus, self._sample + 1))
            rows: IntArray = np.load(self._path("members"))
        return rows

    @cached_property
    def _tokens(self) -> TokenBatch:
        """Of the members."""
        return self._corpus.tokens_of(self.members)

    def _measured(self, rows: IntArray) -> Float64Array:
        """(2, n) means and deviations."""
        similarity = joint_jaccard(self._corpus.tokens_of(rows), self._tokens, device=self._device)
        others = rows[:, None] != self.members
        # Each document omits one member: itself, or the last one if it was not drawn.
        others[others.all(axis=1), -1] = False
        measured = MomentStream.of(similarity[others].reshape(len(rows), len(self.members) - 1)).moments()
        return np.stack([measured.mean, measured.deviation])

    def _is_stored(self, first: int) -> bool:
        return self._path(f"{first:012d}").exists()

    def _path(self, name: str) -> Path:
        return self._folder / f"dynamax-{self._sample}-{self._corpus.content}-{name}.npy"

    def _store(self, name: str, values: IntArray | Float64Array) -> None:
        self._folder.mkdir(exist_ok=True)
        with whole_file(self._path(name)) as file:
            np.save(file, values)


class DynaMaxScorer:
    """Surprise over DynaMax, against every document.

    Args:
        queries: the documents whose neighbours are looked for.
        keys: the documents that may be neighbours, and the ensemble; the same corpus, or another.
        settings: k, the threshold and the size of the sample.
        device: where to multiply: `cpu`, `cuda`, ...
    """

    def __init__(
        self, queries: EncodedCorpus, keys: EncodedCorpus, settings: SimilaritySettings, device: str = "cpu"
    ) -> None:
        self._queries, self._keys, self._settings, self._device = queries, keys, settings, device
        self._moments = DynaMaxMoments(keys, settings.ensemble_sample, device)
        self._same = queries.folder == keys.folder

    def neighbours(self, rows: IntArray) -> Neighbours:
        """See `Scorer`.

        Raises:
            DataError: if the threshold lets through more pairs than can be held.
        """
        tokens, k = self._queries.tokens_of(rows), self._settings.k
        found: list[Neighbours] = []
        pairs = 0
        for keys in _runs(0, len(self._keys)):
            added = self._scored(tokens, rows, keys)
            if k is not None:
                found = [Neighbours.joined([*found, added]).best(k)]
                continue
            pairs += len(added)
            require_few(pairs, self._settings.above, len(rows))
            found.append(added)
        return Neighbours.joined(found)

    def close(self) -> None:
        """See `Scorer`; nothing is open."""

    def _scored(self, tokens: TokenBatch, rows: IntArray, keys: IntArray) -> Neighbours:
        """The pairs of a block of keys that may be among the best."""
        similarity = joint_jaccard(tokens, self._keys.tokens_of(keys), device=self._device)
        z = LinearForm.of(self._moments.of(keys)).scores(similarity)
        if self._same:
            z[rows[:, None] == keys] = -np.inf
        least = np.full(len(rows), -np.inf if self._settings.above is None else self._settings.above)
        if self._settings.k is not None and self._settings.k < len(keys):
            place = len(keys) - self._settings.k
            least = np.maximum(least, np.partition(z, place, axis=1)[:, place])
        query, column = np.nonzero((z >= least[:, None]) & (z > -np.inf))
        return Neighbours(query, keys[column], similarity[query, column], z[query, column])


class RescoringScorer:
    """Candidates by the surprise of the cosine, scored again by that of DynaMax.

    Args:
        candidates: finds them.
        queries: the documents whose neighbours are looked for.
        keys: the documents that may be neighbours, and the ensemble; the same corpus, or another.
        settings: k, the threshold and the size of the sample.
        device: where to multiply: `cpu`, `cuda`, ...
    """

    def __init__(
        self,
        candidates: Scorer,
        queries: EncodedCorpus,
        keys: EncodedCorpus,
        settings: SimilaritySettings,
        device: str = "cpu",
    ) -> None:
        self._candidates, self._device = candidates, device
        self._queries, self._keys, self._settings = queries, keys, settings
        self._moments = DynaMaxMoments(keys, settings.ensemble_sample, device)

    def neighbours(self, rows: IntArray) -> Rescored:
        """See `Scorer`; with the cosine of each pair."""
        pairs = self._candidates.neighbours(rows)
        tokens = self._queries.tokens_of(rows)
        similarity, z = np.empty(len(pairs)), np.empty(len(pairs))
        for places in _runs(0, len(pairs)):
            similarity[places], z[places] = self._scored(tokens, pairs.query[places], pairs.key[places])
        found = Rescored(pairs.query, pairs.key, similarity, z, pairs.similarity)
        if self._settings.above is not None:
            found = found.take(z >= self._settings.above)
        order = np.lexsort((found.key, -found.z, found.query))
        found = found.take(order)
        return found if self._settings.k is None else found.take(found.ranks <= self._settings.k)

    def close(self) -> None:
        """See `Scorer`."""
        self._candidates.close()

    def _scored(
        self, tokens: TokenBatch, query: IntArray, key: IntArray
    ) -> tuple[Float64Array, Float64Array]:
        """Similarity and z of some pairs, ordered by query."""
        keys, columns = np.unique(key, return_inverse=True)
        texts, similarity = self._keys.tokens_of(keys), np.empty(len(key))
        for text in np.unique(query).tolist():
            own = query == text
            similarity[own] = joint_jaccard(
                tokens.between(text, text + 1), texts.take(columns[own]), device=self._device
            )[0]
        form = LinearForm.of(self._moments.of(keys))
        return similarity, form.take(columns).scores(similarity)


def sample_rows(corpus: EncodedCorpus, size: int) -> IntArray:
    """The rows of a sample of documents, chosen by a hash of their ids.

    The order of the documents does not matter to it, and it changes little where the corpus does.

    Args:
        corpus: of documents with different ids.
        size: of the sample; all are taken where there are no more.

    Returns:
        (min(size, n),) rows, the smallest hash first.
    """
    rows, hashes = np.zeros(0, np.int64), np.zeros(0, np.uint64)
    for chunk in corpus.chunks:
        own = np.arange(chunk.first, chunk.first + chunk.rows, dtype=np.int64)
        rows = np.concatenate([rows, own])
        new = np.array([hash_of(name) for name in corpus.ids(own).to_pylist()], np.int64)
        hashes = np.concatenate([hashes, new.view(np.uint64)])
        best = np.argsort(hashes, kind="stable")[:size]
        rows, hashes = rows[best], hashes[best]
    return rows


def _runs(first: int, last: int) -> list[IntArray]:
    """Consecutive numbers, as many at a time as texts may be in memory."""
    return [
        np.arange(start, min(start + _TOKEN_ROWS, last), dtype=np.int64)
        for start in range(first, last, _TOKEN_ROWS)
    ]
