"""The ensemble that a similarity is compared with.

`Ensemble` keeps the exact mean and covariance of its members, so that the mean and deviation of a dot-product
similarity to any anchor q follow without a scan: mu_q = q.m and sigma_q^2 = q' C q. Moments merge (Chan,
Golub and LeVeque, 1979), so ensembles are built in a stream, updated, and reduced over machines. A bounded
sample of the members serves the models that need the distribution itself, and the similarities that are not
dot products. `SampledEnsemble` (`sampled.py`) is for members that are not vectors.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank.core._computing import row_products
from surprise_rerank.core._files import UNREADABLE_ARCHIVE, disk_errors, whole_file
from surprise_rerank.core.arrays import (
    Float32Array,
    Float64Array,
    FloatArray,
    VectorSimilarity,
    is_linear,
    matrix,
    prepared,
    row_norms,
    vector_similarities,
)
from surprise_rerank.core.moments import POOLED_ANCHORS, Moments

# Rows of a block; its float64 copies take little memory beside the vectors.
_BLOCK = 4096
# The rounding of a float32 similarity, as a share of its scale.
_ROUNDING = 1e-7
# Similarities in a block that is compared with the sample.
_BLOCK_SIMILARITIES = 1 << 22

_FORMAT = 2  # of the file: a .npz archive of plain arrays


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The vectors that a similarity is compared with, kept as exact moments and a sample.

    Attributes:
        count: number of members.
        mean: (d,) float64 mean m of the members.
        scatter: (d, d) float64 sum of (e - m)(e - m)' over the members; the covariance is scatter / count.
        sample: (s, d) float32, a uniform sample without replacement; all members where there are few. A
            member that occurs several times is drawn as often as a different one; of ensembles that are
            merged, only the copies within each count apart.
        priorities: (s,) uint64 the members' sampling keys, ascending; merging keeps the smallest.
        sample_size: the largest s.
        checksum: sum of all members' keys by content modulo 2^64.
        model: name of the encoder that made the vectors; empty where unknown.
        similarity: `dot`, `cosine` (members are scaled to length 1), `euclidean` or `manhattan`; the moments
            of the last two are estimates from the sample.
    """

    count: int
    mean: Float64Array
    scatter: Float64Array
    sample: Float32Array
    priorities: npt.NDArray[np.uint64]
    sample_size: int
    checksum: int = 0
    model: str = ""
    similarity: VectorSimilarity = "dot"

    def __post_init__(self) -> None:
        border.choice("similarity", self.similarity, get_args(VectorSimilarity))
        border.text("model", self.model)
        border.count("sample_size", self.sample_size, 0)

    @classmethod
    def empty(
        cls, dimension: int, *, sample_size: int = 4096, model: str = "", similarity: VectorSimilarity = "dot"
    ) -> Ensemble:
        """An ensemble without members."""
        none = np.zeros((0, border.count("dimension", dimension)), np.float32)
        return cls.from_vectors(none, sample_size=sample_size, model=model, similarity=similarity)

    @classmethod
    def from_vectors(
        cls,
        vectors: npt.ArrayLike,
        *,
        sample_size: int = 4096,
        model: str = "",
        similarity: VectorSimilarity = "dot",
        copies: Copies | None = None,
    ) -> Ensemble:
        """The ensemble of (n, d) members, of which so many are kept for what has no exact moments.

        The copies are those in earlier parts of the same ensemble, to which these are added.

        Memory beside the vectors stays small: they are read in blocks, and may be mapped from a float32 file.
        """
        border.choice("similarity", similarity, get_args(VectorSimilarity))
        border.count("sample_size", sample_size, 0)
        members = matrix(vectors, "ensemble vectors")
        count, d = members.shape
        mean, scatter, priorities = np.zeros(d), np.zeros((d, d)), np.zeros(count, np.uint64)
        buffer = np.empty((min(count, _BLOCK), d))  # new memory for every block would cost a tenth more
        for rows in _blocks(count, _BLOCK):
            block = prepared(members[rows], similarity)
            priorities[rows] = _priorities(block)
            block_mean = block.mean(axis=0, dtype=np.float64)
            centred = np.subtract(block, block_mean, out=buffer[: len(block)])
            delta, seen = block_mean - mean, rows.start + len(block)
            mean += delta * (len(block) / seen)
            scatter += centred.T @ centred + np.outer(delta, delta) * (rows.start * len(block) / seen)
        content_keys = priorities
        priorities = (copies or Copies()).keys_of(content_keys)
        kept = np.argsort(priorities, kind="stable")[:sample_size]
        return cls(
            count=count,
            mean=mean,
            scatter=scatter,
            sample=prepared(members[kept], similarity),
            priorities=priorities[kept],
            sample_size=sample_size,
            checksum=int(content_keys.sum(dtype=np.uint64)),
            model=model,
            similarity=similarity,
        )

    @classmethod
    def from_batches(
        cls,
        batches: Iterable[npt.ArrayLike],
        *,
        sample_size: int = 4096,
        model: str = "",
        similarity: VectorSimilarity = "dot",
    ) -> Ensemble:
        """The ensemble of a stream of (n_i, d) batches; only one batch is in memory at a time."""
        total: Ensemble | None = None
        copies = Copies()
        border.count("sample_size", sample_size, 0)
        if not isinstance(batches, Iterable) or isinstance(batches, str | bytes | Mapping):
            border.refuse("batches", batches, "a list of arrays of shape (n, d)", "give one after the other")
        for batch in batches:
            part = cls.from_vectors(
                batch, sample_size=sample_size, model=model, similarity=similarity, copies=copies
            )
            total = part if total is None else total.merge(part)
        return border.present("a batch of vectors", total, "give at least one")

    @property
    def dimension(self) -> int:
        """Dimension d of the members."""
        return len(self.mean)

    @property
    def sampled(self) -> int:
        """How many members the sample holds."""
        return len(self.sample)

    @cached_property
    def covariance(self) -> Float64Array:
        """(d, d) population covariance; zeros for an empty ensemble."""
        return self.scatter / max(self.count, 1)

    @cached_property
    def usual_length(self) -> float:
        """The root mean square length of the members; 1 under the cosine, 0 for an empty ensemble."""
        return float(np.sqrt(self.mean @ self.mean + np.trace(self.scatter) / max(self.count, 1)))

    @property
    def identity(self) -> str:
        """16 hexadecimal digits that identify the ensemble; they do not depend on order or batches.

        They come from the members' keys: the moments' last bits depend on the order of summation.
        """
        parts = f"{self.model}\0{self.similarity}\0{self.count}\0{self.dimension}\0{self.checksum}"
        return hashlib.sha256(parts.encode()).hexdigest()[:16]

    def merge(self, other: Ensemble) -> Ensemble:
        """The union of two disjoint ensembles, exact up to rounding."""
        border.instance("other", other, Ensemble)
        for what in ("dimension", "model", "similarity"):
            border.equal(
                f"the {what} of other", getattr(other, what), getattr(self, what), "merge equal ones"
            )
        count = self.count + other.count
        share = other.count / max(count, 1)
        delta = other.mean - self.mean
        priorities = np.concatenate([self.priorities, other.priorities])
        kept = np.argsort(priorities, kind="stable")[: min(self.sample_size, other.sample_size)]
        return Ensemble(
            count=count,
            mean=self.mean + share * delta,
            scatter=self.scatter + other.scatter + np.outer(delta, delta) * (self.count * share),
            sample=np.concatenate([self.sample, other.sample])[kept],
            priorities=priorities[kept],
            sample_size=min(self.sample_size, other.sample_size),
            checksum=(self.checksum + other.checksum) % 2**64,
            model=self.model,
            similarity=self.similarity,
        )

    def update(self, vectors: npt.ArrayLike) -> Ensemble:
        """The ensemble with these (n, d) members added; the old one stays as it is."""
        added = Ensemble.from_vectors(
            vectors, sample_size=self.sample_size, model=self.model, similarity=self.similarity
        )
        return self.merge(added)

    def moments(self, anchors: npt.ArrayLike) -> Moments:
        """(n,) means and deviations of the members' similarity to (n, d) anchors q; zeros without members.

        For dot and cosine exact and without a scan, q.m and sqrt(q' C q): d^2 multiplications an anchor,
        whatever the ensemble's size. For the others an estimate from the sample.
        """
        if not is_linear(self.similarity):
            return self.moments_by_scan(anchors)
        q = matrix(anchors, "anchors", self.dimension)
        mean, deviation, covariance = np.zeros(len(q)), np.zeros(len(q)), self.covariance
        wide, products = np.empty((2, min(len(q), _BLOCK), self.dimension))
        for rows in _blocks(len(q), _BLOCK):
            block = prepared(q[rows], self.similarity)
            x, xc = wide[: len(block)], products[: len(block)]
            x[:] = block
            mean[rows] = x @ self.mean
            # Rounding can leave a tiny negative number where the variance is 0.
            if len(x) == 1:  # of a question, by the thread that asks
                variance = row_products(row_products(covariance, x[0])[None], x[0])
            else:
                variance = np.einsum("nd,nd->n", np.matmul(x, covariance, out=xc), x)
            deviation[rows] = self._beyond_rounding(np.sqrt(np.maximum(variance, 0.0)), x)
        return Moments(mean, deviation, members=self.count)

    def moments_by_scan(self, anchors: npt.ArrayLike) -> Moments:
        """`moments` by computing every similarity to the sample: the reference form, for any similarity."""
        return self._scanned(anchors, Moments.of_rows)

    def percentiles(self, anchors: npt.ArrayLike) -> Moments:
        """(n,) medians and (n,) distances from the median to the 84.134th percentile, over the sample."""
        return self._scanned(anchors, Moments.percentiles)

    def pooled(self, anchors: Ensemble | None = None) -> Moments:
        """The moments that a population of anchors shares: the mean of mu_q, the root mean square of sigma_q.

        For dot and cosine exact and without a scan, from the anchors' own mean m_a and covariance C_a: m.m_a
        and sqrt(tr(C C_a) + m_a' C m_a). For the others over a sample of the anchors. The population that
        anchors come from are the members themselves if none is given.
        """
        population = self if anchors is None else anchors
        self.require_same_kind(population)
        if not is_linear(self.similarity):
            return population.pooled_over_sample(self.moments_by_scan)
        covariance, m = self.covariance, population.mean
        variance = float((covariance * population.covariance).sum() + m @ covariance @ m)
        return Moments(np.asarray(self.mean @ m), np.sqrt(np.maximum(variance, 0.0)))

    def pooled_over_sample(self, moments: Callable[[Float32Array], Moments]) -> Moments:
        """Scalar moments that these members share as anchors, over a sample of them."""
        return moments(self.sample[:POOLED_ANCHORS]).pooled()

    def require_same_kind(self, anchors: Ensemble) -> None:
        """Refuse a population of anchors that are compared otherwise than the members."""
        border.instance("anchors", anchors, Ensemble)
        for what in ("dimension", "similarity"):
            border.equal(
                f"the {what} of anchors", getattr(anchors, what), getattr(self, what), "use one model"
            )

    def similarities(self, anchors: npt.ArrayLike) -> Float64Array:
        """(n, s) similarities of (n, d) anchors to the sampled members."""
        return vector_similarities(matrix(anchors, "anchors", self.dimension), self.sample, self.similarity)

    def _scanned(self, anchors: npt.ArrayLike, of: Callable[[Float64Array], Moments]) -> Moments:
        """What a function makes of (b, s) similarities of anchors to the sample, block by block."""
        q = matrix(anchors, "anchors", self.dimension)
        parts = []
        for rows in _blocks(len(q), max(1, _BLOCK_SIMILARITIES // max(self.sampled, 1))):
            moments = of(vector_similarities(q[rows], self.sample, self.similarity))
            if is_linear(self.similarity):
                x = prepared(q[rows], self.similarity)
                moments = replace(moments, deviation=self._beyond_rounding(moments.deviation, x))
            parts.append(moments)
        mean, deviation = (
            np.concatenate([np.zeros(0), *(getattr(part, name) for part in parts)])
            for name in ("mean", "deviation")
        )
        return Moments(mean, deviation, self.sampled)

    def _beyond_rounding(self, deviation: Float64Array, anchors: FloatArray) -> Float64Array:
        """(n,) deviations, 0 where they are only the rounding of float32."""
        scale = self.usual_length * row_norms(anchors)
        return np.where(deviation > _ROUNDING * scale, deviation, 0.0)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a .npz file, whole or not at all."""
        target = border.path("path", path)
        with disk_errors(str(path)):
            target.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(target) as file:
                file.write(self.to_bytes())

    def to_bytes(self) -> bytes:
        """The content of the file that `save` writes, for stores that have no files."""
        file, values = io.BytesIO(), {field.name: getattr(self, field.name) for field in fields(self)}
        np.savez(file, format=np.int64(_FORMAT), **values)
        return file.getvalue()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ensemble:
        """Read what `save` wrote; nothing in the file is executed."""
        with disk_errors(str(path)):
            return cls.from_bytes(border.path("path", path).read_bytes(), str(path))

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> Ensemble:
        """Read what `to_bytes` gave; a DataError, which says where, if it is damaged or something else."""
        border.text("where", where)
        border.instance("content", content, bytes)
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                if int(stored["format"]) != _FORMAT:
                    raise DataError(f"{where}: ensemble of another format; make it again with Ensemble.save")
                values: dict[str, Any] = {field.name: stored[field.name] for field in fields(cls)}
            values |= {name: int(values[name]) for name in ("count", "sample_size", "checksum")}
            values |= {name: str(values[name]) for name in ("model", "similarity")}
            d, s = len(values["mean"]), len(values["priorities"])
            if values["scatter"].shape != (d, d) or values["sample"].shape != (s, d):
                raise DataError(f"{where}: its arrays do not fit together; make it again with Ensemble.save")
            return cls(**values)
        except DataError:
            raise
        except UNREADABLE_ARCHIVE as error:
            raise DataError(f"{where}: not an ensemble file; make one with Ensemble.save") from error


def _blocks(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, start + size)


class Copies:
    """How often each member of an ensemble has occurred, by the keys of its content; 8 bytes a member."""

    def __init__(self) -> None:
        self._many = self._few = np.zeros(0, np.uint64)  # all keys, each sorted; the few come into the many

    def keys_of(self, content_keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """(n,) sampling keys of further members, of their content and of which copy each is.

        The first copy has the key of its content, so that without copies nothing else counts.
        """
        order = np.argsort(content_keys, kind="stable")
        ordered = content_keys[order]
        numbers = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
        for keys in (self._many, self._few):
            numbers += np.searchsorted(keys, ordered, "right") - np.searchsorted(keys, ordered)
        sampling_keys = np.empty_like(content_keys)
        sampling_keys[order] = np.where(
            numbers, _splitmix(ordered ^ _splitmix(numbers.astype(np.uint64))), ordered
        )
        self._few = np.sort(np.concatenate([self._few, ordered]), kind="stable")
        if len(self._few) > max(_BLOCK, len(self._many) // 8):
            self._many = np.sort(np.concatenate([self._many, self._few]), kind="stable")
            self._few = self._few[:0]
        return sampling_keys


def _priorities(members: Float32Array) -> npt.NDArray[np.uint64]:
    """(n,) keys of members by content alone, so that samples do not depend on batches or machines.

    A multilinear hash of the member's bits (a pseudo-random multiplier for each pair of components), mixed by
    splitmix64's finaliser. The members of smallest key are a uniform sample of the distinct members
    (bottom-k sampling).
    """
    n, d = members.shape
    bits = np.zeros((n, d + d % 2), "<f4")
    bits[:, :d] = members
    words = bits.view("<u8")
    # A float of few digits ends in zeros, and so would a product: its upper bits are mixed in first.
    words = words ^ (words >> np.uint64(32))
    words ^= words >> np.uint64(17)
    multipliers = _splitmix(np.arange(1, words.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    return _splitmix((words * multipliers).sum(axis=1, dtype=np.uint64))


def _splitmix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Steele, Lea and Flood (OOPSLA 2014): every bit of the result depends on every bit given."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
