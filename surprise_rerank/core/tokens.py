"""Ragged batches of token vectors: one array for a whole pool.

A batch keeps the *direction* of every vector apart from its length. The scores of unit tokens need only the
directions, those of raw dot products both.

Tokens of a text that say the same are merged: they are clustered by Ward's method over their directions, and
each cluster becomes one vector, the mean of its members (Clavie, Chaffin and Adams 2024, 'Reducing the
Footprint of Multi-Vector Retrieval with Minimal Performance Impact via Token Pooling', arXiv:2409.14683). The
vector knows its members, so that it counts as many tokens as it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank.core._ragged import Ragged, offsets_of
from surprise_rerank.core.arrays import Float32Array, FloatArray, IntArray, row_norms, unit_rows

POOLING = 3.5  # see docs/encoders.md
# Vectors that a text keeps: short texts have little to save, and little that is said twice.
_LEAST = 64
# Tokens that are clustered together: the time grows with the square, and neighbours in a text are alike.
_TOGETHER = 512


@dataclass(frozen=True, slots=True, eq=False)
class Members(Ragged):
    """The tokens of n texts, each of which was merged into one of its text's vectors.

    Attributes:
        owners: (tokens,) the number of the vector, among those of the text.
        offsets: (n + 1,) int64; text i owns the entries offsets[i] to offsets[i + 1].
    """

    owners: npt.NDArray[np.integer]
    offsets: IntArray

    def text(self, i: int) -> npt.NDArray[np.integer]:
        """(tokens,) the vector of each token of text i."""
        return self.owners[self.rows_between(i, i + 1)]

    def rows(self, vectors: IntArray) -> IntArray:
        """(tokens,) the row of each token's vector; `vectors` are (n + 1,) where those of a text begin."""
        return np.repeat(vectors[:-1], self.lengths) + self.owners


@dataclass(frozen=True, slots=True, eq=False)
class TokenBatch(Ragged):
    """Token vectors of n texts, stacked.

    Attributes:
        directions: (total, d) float32 vectors of length 1, or 0.
        norms: (total,) float32 lengths of the tokens.
        offsets: (n + 1,) int64; text i owns the rows offsets[i] to offsets[i + 1].
        own: (total,) float32, where known: each token's membership in its own text's fuzzy set, max(0, max
            over the text's tokens y of <t, y>), computed once (`kernels.own_memberships`).
        members: the tokens that the vectors stand for, where some were merged.
    """

    directions: Float32Array
    norms: Float32Array
    offsets: IntArray
    own: Float32Array | None = None
    members: Members | None = None

    @classmethod
    def from_arrays(cls, texts: Sequence[FloatArray], dimension: int | None = None) -> TokenBatch:
        """A batch of n arrays (tokens, d); a text without tokens is one of shape (0, d).

        `dimension` is d, needed where there are no texts. A DataError if dimensions differ or a value is NaN
        or infinite.
        """
        d = dimension if dimension is not None else (texts[0].shape[1] if len(texts) else 0)
        for i, text in enumerate(texts):
            border.equal(f"the shape of text {i} behind its tokens", text.shape[1:], (d,), "use one encoder")
        raw = np.concatenate([np.zeros((0, d), np.float32), *texts], dtype=np.float32)
        return cls.from_rows(raw, np.array([len(t) for t in texts], dtype=np.int64))

    @classmethod
    def from_rows(cls, raw: Float32Array, lengths: IntArray) -> TokenBatch:
        """A batch of (total, d) vectors, stacked already, of texts of (n,) lengths that sum to total.

        A DataError if a value is NaN or infinite.
        """
        if not np.isfinite(raw).all():
            row = np.flatnonzero(~np.isfinite(raw).all(axis=1))[0]
            bad = int(np.searchsorted(np.cumsum(lengths), row, side="right"))
            raise DataError(f"token vectors of text {bad} must be finite, got NaN or infinity; replace them")
        with np.errstate(over="ignore"):  # the next lines refuse these
            exact = row_norms(raw)
            norms = exact.astype(np.float32)
        if not np.isfinite(norms).all():
            raise DataError("token vectors are too long for float32 (3e38); scale them down")
        return cls(unit_rows(raw, exact), norms, offsets_of(lengths))

    @classmethod
    def concatenate(cls, batches: Sequence[TokenBatch]) -> TokenBatch:
        """Several batches of one dimension as one; a DataError if there are none, or some are merged only."""
        border.some("batches", batches, "give a TokenBatch")
        batches = [b for b in batches if len(b)] or batches[:1]
        kinds = sorted({f"of dimension {b.dimension}{', merged' if b.members else ''}" for b in batches})
        if len(kinds) > 1:
            raise DataError(f"token batches {' and '.join(kinds)} cannot be concatenated")
        owns = [b.own for b in batches if b.own is not None]
        members = [b.members for b in batches if b.members is not None]
        tokens = offsets_of(np.concatenate([b.token_counts for b in batches]))
        return cls(
            np.concatenate([b.directions for b in batches]),
            np.concatenate([b.norms for b in batches]),
            offsets_of(np.concatenate([b.lengths for b in batches])),
            np.concatenate(owns) if len(owns) == len(batches) else None,
            Members(np.concatenate([m.owners for m in members]), tokens) if members else None,
        )

    @property
    def dimension(self) -> int:
        """Dimension d of the token vectors."""
        return int(self.directions.shape[1])

    @property
    def token_counts(self) -> IntArray:
        """(n,) number of tokens of each text, merged ones counted one by one."""
        return self.lengths if self.members is None else self.members.lengths

    @property
    def weights(self) -> IntArray:
        """(total,) how many tokens each vector stands for."""
        if self.members is None:
            return np.ones(len(self.norms), np.int64)
        return np.bincount(self.members.rows(self.offsets), minlength=len(self.norms))

    def __getitem__(self, i: int) -> Float32Array:
        """(tokens, d) float32: the token vectors of text i, with their lengths."""
        return self.text(i)

    def text(self, i: int, *, unit: bool = False) -> Float32Array:
        """(tokens, d) float32: the token vectors of text i, with length 1 or with their own."""
        tokens = self.between(start := range(len(self))[i], start + 1)  # from the end, as sequences count
        return tokens.directions if unit else tokens.directions * tokens.norms[:, None]

    def take(self, index: npt.ArrayLike) -> TokenBatch:
        """The texts at these positions, in this order."""
        chosen = np.arange(len(self))[np.asarray(index, dtype=np.int64)]
        batch = self._with_rows(self.rows_of(chosen), offsets_of(self.lengths[chosen]))
        if self.members is None:
            return batch
        owners = self.members.owners[self.members.rows_of(chosen)]
        return replace(batch, members=Members(owners, offsets_of(self.token_counts[chosen])))

    def between(self, start: int, stop: int) -> TokenBatch:
        """Texts start to stop, without copying their vectors; 0 <= start <= stop <= n."""
        offsets = self.offsets[start : stop + 1] - self.offsets[start]
        batch = self._with_rows(self.rows_between(start, stop), offsets)
        if self.members is None:
            return batch
        tokens = self.members.offsets[start : stop + 1]
        owners = self.members.owners[self.members.rows_between(start, stop)]
        return replace(batch, members=Members(owners, tokens - tokens[0]))

    def expanded(self) -> TokenBatch:
        """A vector for every token again: that of the cluster which it was merged into."""
        if self.members is None:
            return self
        return self._with_rows(self.members.rows(self.offsets), self.members.offsets)

    def _with_rows(self, rows: slice | IntArray, offsets: IntArray) -> TokenBatch:
        """The vectors at these rows, each a token of its own, of texts that begin at these offsets."""
        return TokenBatch(
            self.directions[rows], self.norms[rows], offsets, None if self.own is None else self.own[rows]
        )


def pooled_tokens(tokens: TokenBatch, pooling: float = POOLING, least: int = _LEAST) -> TokenBatch:
    """A batch with n / pooling vectors for a text of n tokens, but at least `least`, where it has as many.

    Every text is merged alone, so that the result does not depend on the batch. Tokens of zeros, which no
    similarity counts, share one vector of zeros. What is merged already stays, and 1 changes nothing.
    """
    if pooling == 1 or tokens.members is not None:
        return tokens
    owners = [clusters(tokens.text(i, unit=True), pooling, least) for i in range(len(tokens))]
    counts = np.array([labels.max(initial=-1) + 1 for labels in owners], np.int64)
    members = Members(np.concatenate([np.zeros(0, np.int64), *owners]), tokens.offsets)
    means = [np.zeros((0, tokens.dimension), np.float32)]
    for text, (labels, count) in enumerate(zip(owners, counts, strict=True)):
        if count:
            order = np.argsort(labels, kind="stable")
            starts = np.searchsorted(labels[order], np.arange(count))
            sizes = np.diff(np.append(starts, len(labels)))
            sums = np.add.reduceat(tokens[text][order], starts, dtype=np.float64)  # too large for float32
            means.append((sums / sizes[:, None]).astype(np.float32))
    vectors = np.concatenate(means)
    norms = row_norms(vectors)
    return TokenBatch(
        unit_rows(vectors, norms), norms.astype(np.float32), offsets_of(counts), members=members
    )


def clusters(unit: Float32Array, pooling: float, least: int = 1) -> IntArray:
    """(n,) the cluster of each of (n, d) vectors, numbered in the order of their first members.

    Ward's method merges the two clusters that add least to the squared distances from the clusters' means,
    until max(ceil(n / pooling), least) are left. Long texts are clustered in stretches.
    """
    nonzero = np.flatnonzero(unit.any(axis=1))
    labels = np.full(len(unit), -1, np.int64)
    first, stretches = 0, max(math.ceil(len(nonzero) / _TOGETHER), 1)
    wanted = max(math.ceil(len(nonzero) / pooling), min(len(nonzero), least))
    for i, stretch in enumerate(np.array_split(nonzero, stretches)):
        # The remainder goes to the first ones.
        count = wanted * (i + 1) // stretches - wanted * i // stretches
        labels[stretch] = first + _ward(unit[stretch], max(count, 1))
        first = int(labels.max(initial=-1)) + 1
    labels[labels < 0] = first
    # Numbered anew, in the order in which they occur.
    _, firsts, inverse = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(firsts), np.int64)
    number[np.argsort(firsts)] = np.arange(len(firsts))
    return number[inverse]


def _ward(unit: Float32Array, count: int) -> IntArray:
    """(n,) the cluster of each vector of length 1, `count` of them."""
    from scipy.cluster.hierarchy import linkage

    n = len(unit)
    if count >= n:
        return np.arange(n)
    products = unit @ unit.T
    distances = np.sqrt(np.maximum(2.0 - 2.0 * products[np.triu_indices(n, 1)].astype(np.float64), 0.0))
    merged = linkage(distances, "ward")[: n - count, :2].astype(np.int64)
    # Cluster n + i is what step i merged; going back, each takes the name of the one that it went into.
    name = np.arange(2 * n - count)
    for i in range(len(merged) - 1, -1, -1):
        name[merged[i]] = name[n + i]
    return name[:n]
