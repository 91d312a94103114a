"""The ensemble: what a similarity is compared with.

`Ensemble` keeps the exact mean and covariance of its members, so that the mean and deviation of a dot-product
similarity to any anchor q follow without a scan: mu_q = q.m and sigma_q^2 = q' C q. Moments merge (Chan,
Golub and LeVeque, 1979), so ensembles are built in a stream, updated, and reduced over machines. A bounded
sample of the members serves the models that need the distribution itself.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import special

from surprise_rerank.arrays import Float32Array, Float64Array, FloatArray, matrix
from surprise_rerank.candidates import Moments
from surprise_rerank.errors import DataError
from surprise_rerank.files import whole_file

UPPER_PERCENTILE = float(100 * special.ndtr(1.0))  # 84.134...: one sigma above the median of a Gaussian
_FORMAT = 1
# What numpy and zipfile raise for files that are damaged or something else.
_UNREADABLE = (
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Members of an ensemble, as moments and a sample.

    Attributes:
        count: number of members.
        mean: (d,) float64 mean m of the members.
        scatter: (d, d) float64 sum of (e - m)(e - m)' over the members; the covariance is scatter / count.
        sample: (s, d) float32, a uniform sample without replacement; all members where there are few.
        priorities: (s,) uint64 the members' sampling keys, ascending; merging keeps the smallest.
        sample_size: the largest s.
        checksum: sum of all members' sampling keys modulo 2^64.
        model: name of the encoder that made the vectors; empty where unknown.
    """

    count: int
    mean: Float64Array
    scatter: Float64Array
    sample: Float32Array
    priorities: npt.NDArray[np.uint64]
    sample_size: int
    checksum: int = 0
    model: str = ""

    def __post_init__(self) -> None:
        if self.sample_size < 0:
            raise DataError(f"sample_size must not be negative, got {self.sample_size}")

    @classmethod
    def empty(cls, dimension: int, *, sample_size: int = 4096, model: str = "") -> Ensemble:
        """An ensemble without members."""
        return cls(
            count=0,
            mean=np.zeros(dimension),
            scatter=np.zeros((dimension, dimension)),
            sample=np.zeros((0, dimension), np.float32),
            priorities=np.zeros(0, np.uint64),
            sample_size=sample_size,
            model=model,
        )

    @classmethod
    def from_vectors(cls, vectors: npt.ArrayLike, *, sample_size: int = 4096, model: str = "") -> Ensemble:
        """The ensemble of these members.

        Args:
            vectors: (n, d) members.
            sample_size: how many members are kept for the percentile and empirical models.
            model: name of the encoder that made them.

        Raises:
            DataError: if the shape is not (n, d) or a value is NaN or infinite.
        """
        members = matrix(vectors, "ensemble vectors")
        mean = members.sum(axis=0, dtype=np.float64) / max(len(members), 1)
        centred = members - mean
        priorities = _priorities(members)
        kept = np.argsort(priorities, kind="stable")[:sample_size]
        return cls(
            count=len(members),
            mean=mean,
            scatter=centred.T @ centred,
            sample=members[kept],
            priorities=priorities[kept],
            sample_size=sample_size,
            checksum=int(priorities.sum(dtype=np.uint64)),
            model=model,
        )

    @classmethod
    def from_batches(
        cls, batches: Iterable[npt.ArrayLike], *, sample_size: int = 4096, model: str = ""
    ) -> Ensemble:
        """The ensemble of a stream of (n_i, d) batches; only one batch is in memory at a time.

        Raises:
            DataError: if there is no batch, or the batches differ in dimension.
        """
        total: Ensemble | None = None
        for batch in batches:
            part = cls.from_vectors(batch, sample_size=sample_size, model=model)
            total = part if total is None else total.merge(part)
        if total is None:
            raise DataError("an ensemble needs at least one batch of vectors; got none")
        return total

    @property
    def dimension(self) -> int:
        """Dimension d of the members."""
        return len(self.mean)

    @property
    def covariance(self) -> Float64Array:
        """(d, d) population covariance; zeros for an empty ensemble."""
        return self.scatter / max(self.count, 1)

    @property
    def identity(self) -> str:
        """16 hexadecimal digits that tell this ensemble from others; they do not depend on order or batches.

        They come from the members' keys: the moments' last bits depend on the order of summation.
        """
        parts = f"{self.model}\0{self.count}\0{self.dimension}\0{self.checksum}"
        return hashlib.sha256(parts.encode()).hexdigest()[:16]

    def merge(self, other: Ensemble) -> Ensemble:
        """The union of two disjoint ensembles, exact up to rounding.

        Raises:
            DataError: if dimension or model differ.
        """
        if other.dimension != self.dimension:
            raise DataError(f"ensembles of dimension {self.dimension} and {other.dimension} cannot be merged")
        if other.model != self.model:
            raise DataError(f"ensembles of models {self.model!r} and {other.model!r} cannot be merged")
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
        )

    def update(self, vectors: npt.ArrayLike) -> Ensemble:
        """The ensemble with these (n, d) members added; the old one stays as it is."""
        return self.merge(Ensemble.from_vectors(vectors, sample_size=self.sample_size, model=self.model))

    def moments(self, anchors: npt.ArrayLike) -> Moments:
        """Mean and deviation of <e, q> over the members e, for every anchor q: exact, without a scan.

        Args:
            anchors: (n, d) vectors q.

        Returns:
            (n,) means q.m and (n,) deviations sqrt(q' C q); zeros for an empty ensemble.

        Raises:
            DataError: if the dimension differs.
        """
        q = matrix(anchors, "anchors", self.dimension).astype(np.float64)
        variance = np.einsum("nd,nd->n", q @ self.covariance, q)
        # Rounding can leave a tiny negative number where the variance is 0.
        return Moments(q @ self.mean, np.sqrt(np.maximum(variance, 0.0)))

    def moments_by_scan(self, anchors: npt.ArrayLike) -> Moments:
        """`moments` by computing every similarity to the sample: the reference form.

        Equal to `moments` where the sample holds all members, an estimate of it otherwise.
        """
        similarities = self.similarities(anchors)
        if not similarities.shape[1]:
            return Moments(np.zeros(len(similarities)), np.zeros(len(similarities)))
        return Moments(similarities.mean(axis=1), similarities.std(axis=1))

    def percentiles(self, anchors: npt.ArrayLike) -> Moments:
        """(n,) medians and (n,) distances from the median to the 84.134th percentile, over the sample."""
        similarities = self.similarities(anchors)
        if not similarities.shape[1]:
            return Moments(np.zeros(len(similarities)), np.zeros(len(similarities)))
        median, upper = np.percentile(similarities, [50.0, UPPER_PERCENTILE], axis=1)
        return Moments(median, upper - median)

    def similarities(self, anchors: npt.ArrayLike) -> Float64Array:
        """(n, s) dot products of (n, d) anchors with the sampled members."""
        q = matrix(anchors, "anchors", self.dimension)
        return q.astype(np.float64) @ self.sample.T.astype(np.float64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a .npz file, whole or not at all."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as file:
            np.savez(
                file,
                format=np.int64(_FORMAT),
                count=np.int64(self.count),
                mean=self.mean,
                scatter=self.scatter,
                sample=self.sample,
                priorities=self.priorities,
                sample_size=np.int64(self.sample_size),
                checksum=np.uint64(self.checksum),
                model=np.str_(self.model),
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ensemble:
        """Read what `save` wrote; nothing in the file is executed.

        Raises:
            DataError: if the file is not an ensemble, is damaged, or is of another format.
        """
        try:
            with np.load(path, allow_pickle=False) as stored:
                if int(stored["format"]) != _FORMAT:
                    raise DataError(f"{path}: ensemble of another format; make it again with Ensemble.save")
                ensemble = cls(
                    count=int(stored["count"]),
                    mean=stored["mean"],
                    scatter=stored["scatter"],
                    sample=stored["sample"],
                    priorities=stored["priorities"],
                    sample_size=int(stored["sample_size"]),
                    checksum=int(stored["checksum"]),
                    model=str(stored["model"]),
                )
            d, s = ensemble.dimension, len(ensemble.priorities)
            if ensemble.scatter.shape != (d, d) or ensemble.sample.shape != (s, d):
                raise DataError(f"{path}: its arrays do not fit together; make it again with Ensemble.save")
            return ensemble
        except FileNotFoundError:
            raise DataError(f"{path}: no such ensemble file") from None
        except DataError:
            raise
        except _UNREADABLE as error:
            raise DataError(f"{path}: not an ensemble file; make one with Ensemble.save") from error


def _priorities(members: FloatArray) -> npt.NDArray[np.uint64]:
    """(n,) sampling keys that depend on a member alone, so that samples do not depend on batches or machines.

    The members of smallest key are a uniform sample of the distinct members (bottom-k sampling).
    """
    rows = np.ascontiguousarray(members, dtype="<f4")
    keys = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
    return np.frombuffer(b"".join(keys), dtype="<u8").astype(np.uint64)
