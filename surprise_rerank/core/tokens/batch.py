"""Ragged batches of token vectors: one array for a whole pool.

A batch keeps the *direction* of every vector apart from its length. The scores of unit tokens need only the
directions, those of raw dot products both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import Float32Array, FloatArray, IntArray, row_norms, unit_rows
from surprise_rerank.core.tokens.members import Members, offsets_of, rows_of
from surprise_rerank.errors import DataError


@dataclass(frozen=True, slots=True, eq=False)
class TokenBatch:
    """Token vectors of n texts, stacked.

    Attributes:
        directions: (total, d) float32 vectors of length 1, or 0.
        norms: (total,) float32 lengths of the tokens.
        offsets: (n + 1,) int64; text i owns the rows offsets[i] to offsets[i + 1].
        own: (total,) float32, where known: each token's membership in its own text's fuzzy set, max(0, max
            over the text's tokens y of <t, y>). It depends on one side of a comparison only, so it is
            computed once, at indexing (`kernels.with_own_memberships`).
        members: the tokens that the vectors stand for, where some were merged (`pooling.py`).
    """

    directions: Float32Array
    norms: Float32Array
    offsets: IntArray
    own: Float32Array | None = None
    members: Members | None = None

    @classmethod
    def from_arrays(cls, texts: Sequence[FloatArray], dimension: int | None = None) -> TokenBatch:
        """A float32 batch of token vectors.

        Args:
            texts: n arrays (tokens, d); a text without tokens is an array of shape (0, d).
            dimension: d; needed only where there are no texts.

        Raises:
            DataError: if dimensions differ or a value is NaN or infinite.
        """
        d = dimension if dimension is not None else (texts[0].shape[1] if len(texts) else 0)
        for i, text in enumerate(texts):
            if text.ndim != 2 or text.shape[1] != d:
                raise DataError(f"token vectors of text {i} have shape {text.shape}, expected (tokens, {d})")
        raw = np.concatenate([np.zeros((0, d), np.float32), *texts], dtype=np.float32)
        return cls.from_rows(raw, np.array([len(t) for t in texts], dtype=np.int64))

    @classmethod
    def from_rows(cls, raw: Float32Array, lengths: IntArray) -> TokenBatch:
        """A float32 batch of token vectors that are stacked already.

        Args:
            raw: (total, d) vectors, those of one text after those of another.
            lengths: (n,) numbers of tokens; their sum is total.

        Raises:
            DataError: if a value is NaN or infinite.
        """
        if not np.isfinite(raw).all():
            row = np.flatnonzero(~np.isfinite(raw).all(axis=1))[0]
            bad = int(np.searchsorted(np.cumsum(lengths), row, side="right"))
            raise DataError(f"token vectors of text {bad} hold NaN or infinite values")
        with np.errstate(over="ignore"):  # the next lines refuse these
            exact = row_norms(raw)
            norms = exact.astype(np.float32)
        if not np.isfinite(norms).all():
            raise DataError("token vectors are too long for float32 (3e38); scale them down")
        return cls(unit_rows(raw, exact), norms, offsets_of(lengths))

    @classmethod
    def concatenate(cls, batches: Sequence[TokenBatch]) -> TokenBatch:
        """Several batches of one dimension as one; a DataError if there are none, or some are merged only."""
        if not batches:
            raise DataError("nothing to concatenate: give at least one TokenBatch")
        batches = [b for b in batches if len(b)] or batches[:1]
        kinds = sorted({b._kind for b in batches})
        if len(kinds) > 1:
            raise DataError(f"token batches {' and '.join(kinds)} cannot be concatenated")
        owns = [b.own for b in batches if b.own is not None]
        members = [b.members for b in batches if b.members is not None]
        return cls(
            np.concatenate([b.directions for b in batches]),
            np.concatenate([b.norms for b in batches]),
            offsets_of(np.concatenate([b.lengths for b in batches])),
            np.concatenate(owns) if len(owns) == len(batches) else None,
            Members.concatenate(members) if members else None,
        )

    @property
    def dimension(self) -> int:
        """Dimension d of the token vectors."""
        return int(self.directions.shape[1])

    @property
    def lengths(self) -> IntArray:
        """(n,) number of vectors of each text."""
        return np.diff(self.offsets)

    @property
    def token_counts(self) -> IntArray:
        """(n,) number of tokens of each text, merged ones counted one by one."""
        return self.lengths if self.members is None else self.members.lengths

    @property
    def weights(self) -> IntArray:
        """(total,) how many tokens each vector stands for."""
        if self.members is None:
            return np.ones(len(self.norms), np.int64)
        return self.members.counts(self.offsets)

    @property
    def _kind(self) -> str:
        merged = "" if self.members is None else ", merged"
        return f"of dimension {self.dimension}{merged}"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Float32Array:
        """(tokens, d) float32: the token vectors of text i, with their lengths."""
        return self.text(i)

    def text(self, i: int, *, unit: bool = False) -> Float32Array:
        """(tokens, d) float32: the token vectors of text i, with length 1 or with their own."""
        own = self.between(start := range(len(self))[i], start + 1)  # from the end, as sequences count
        return own.directions if unit else own.directions * own.norms[:, None]

    def take(self, index: npt.ArrayLike) -> TokenBatch:
        """The texts at these positions, in this order."""
        chosen = np.arange(len(self))[np.asarray(index, dtype=np.int64)]
        members = None if self.members is None else self.members.take(chosen)
        batch = self.with_rows(rows_of(self.offsets, chosen), offsets_of(self.lengths[chosen]))
        return replace(batch, members=members)

    def between(self, start: int, stop: int) -> TokenBatch:
        """Texts start to stop, without copying their vectors; 0 <= start <= stop <= n."""
        rows = slice(int(self.offsets[start]), int(self.offsets[stop]))
        offsets = self.offsets[start : stop + 1] - self.offsets[start]
        members = None if self.members is None else self.members.between(start, stop)
        return replace(self.with_rows(rows, offsets), members=members)

    def expanded(self) -> TokenBatch:
        """A vector for every token again: that of the cluster which it was merged into."""
        if self.members is None:
            return self
        return self.with_rows(self.members.rows(self.offsets), self.members.offsets)

    def with_rows(self, rows: slice | IntArray | npt.NDArray[np.bool_], offsets: IntArray) -> TokenBatch:
        """The same texts with the vectors at these rows, each a token of its own.

        Args:
            rows: which, in the order of the texts; their memberships stay as they are.
            offsets: (n + 1,) where each text's begin.
        """
        return replace(
            self,
            directions=self.directions[rows],
            norms=self.norms[rows],
            offsets=offsets,
            own=None if self.own is None else self.own[rows],
            members=None,
        )
