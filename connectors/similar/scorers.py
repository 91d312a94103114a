"""What finds the neighbours of some documents; the exact one, over the cosine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from surprise_rerank.connectors.similar.corpus import EncodedCorpus
from surprise_rerank.connectors.similar.settings import SimilaritySettings
from surprise_rerank.core.arrays import BoolArray, Float64Array, IntArray
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.neighbours import Neighbours, NeighbourSearch


@dataclass(frozen=True, slots=True, eq=False)
class Rescored(Neighbours):
    """Pairs whose surprise over DynaMax counts, found by that of the cosine.

    Attributes:
        cosine: (p,) the cosine of each pair.
    """

    cosine: Float64Array

    def take(self, index: IntArray | BoolArray) -> Rescored:
        """The pairs at these positions, or where a mask is set."""
        return Rescored(
            self.query[index], self.key[index], self.similarity[index], self.z[index], self.cosine[index]
        )


class Scorer(Protocol):
    """What finds the neighbours of some consecutive documents."""

    def neighbours(self, rows: IntArray) -> Neighbours:
        """The neighbours of the documents at these rows; `query` counts from 0 in them."""
        ...

    def close(self) -> None:
        """Close connections and files."""
        ...


class ExactScorer:
    """Surprise over the cosine, against every document.

    Args:
        queries: the documents whose neighbours are looked for.
        keys: the documents that may be neighbours, and the ensemble; the same corpus, or another.
        ensemble: of the keys.
        settings: k and the threshold.
        device: where to multiply: `cpu`, `cuda`, ...
    """

    def __init__(
        self,
        queries: EncodedCorpus,
        keys: EncodedCorpus,
        ensemble: Ensemble,
        settings: SimilaritySettings,
        device: str = "cpu",
    ) -> None:
        self._queries, self._keys, self._ensemble = queries, keys, ensemble
        self._settings, self._device = settings, device
        self._same = queries.folder == keys.folder

    def neighbours(self, rows: IntArray) -> Neighbours:
        """See `Scorer`."""
        search = NeighbourSearch(
            self._queries.vectors_of(rows),
            k=self._settings.k,
            above=self._settings.above,
            own=rows if self._same else None,
            device=self._device,
        )
        for first in self._keys.key_blocks():
            search.add(self._keys.keys(self._ensemble, first, self._device))
        return search.found()

    def close(self) -> None:
        """See `Scorer`; nothing is open."""
