"""Workers of a job, and what they are given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from surprise_rerank.connectors.progress import Advance, Expected
from surprise_rerank.connectors.readers.source import expected_of
from surprise_rerank.connectors.similar.corpus import EncodedCorpus
from surprise_rerank.connectors.similar.encoding import Model
from surprise_rerank.connectors.similar.index.location import IndexLocation
from surprise_rerank.connectors.similar.settings import SimilaritySettings
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.core.tokens import TokenForm
from surprise_rerank.documents import Document
from surprise_rerank.surprise.ensemble import Ensemble


@dataclass(frozen=True, slots=True, eq=False)
class Sources:
    """Documents of several sources, one after another.

    Attributes:
        names: what the user called them.
        sources: in the same order; each is read anew by every iteration. Where workers of other
            processes read, they must pickle.
    """

    names: Sequence[str]
    sources: Sequence[Iterable[Document]]

    def expected(self) -> Expected | None:
        """How many documents there are; None while that cannot be told."""
        return expected_of(self.sources)


@dataclass(frozen=True, slots=True)
class ScoringTask:
    """What a worker needs to compute a part; it can be sent to another process.

    Attributes:
        queries: folder of the corpus whose neighbours are looked for.
        keys: folder of the corpus that may be neighbours.
        ensemble: file of the ensemble of the keys.
        parts: folder of the parts.
        settings: what is computed.
        device: where to multiply.
        index: where the augmented vectors are, for mode `index`.
    """

    queries: Path
    keys: Path
    ensemble: Path
    parts: Path
    settings: SimilaritySettings
    device: str = "cpu"
    index: IndexLocation | None = None

    def path(self, number: int) -> Path:
        """Where a part is."""
        return self.parts / f"part-{number:07d}.parquet"

    def rows(self, number: int, documents: int) -> IntArray:
        """The rows of the documents that a part is about."""
        size = self.settings.part_rows
        return np.arange(number * size, min((number + 1) * size, documents), dtype=np.int64)

    def count(self, documents: int) -> int:
        """How many parts there are."""
        return -(-documents // self.settings.part_rows)


class Workers(Protocol):
    """What does the work of a job: threads of this process, or workers of Ray (`connectors.ray`)."""

    def count(self, documents: Sources, advance: Advance) -> tuple[int | None, Sources]:
        """How many documents there are, None if counting would need too much; and those to be encoded.

        Documents that come again with the same id and text may be left out of these.

        Args:
            documents: to be read.
            advance: called with the number of documents that were read.

        Raises:
            DataError: if a row is malformed, before anything is encoded.
        """
        ...

    def encode(
        self, folder: Path, documents: Sources, model: Model, tokens: TokenForm | None, advance: Advance
    ) -> tuple[list[str], list[dict[str, Any]]]:
        """Store all chunks of a corpus; returns their names in order, and what sources left out.

        Args:
            folder: of the corpus.
            documents: to be read.
            model: encodes them.
            tokens: the form in which token vectors are kept; None for none.
            advance: called with the number of documents of every chunk that is stored.
        """
        ...

    def ensemble(self, corpus: EncodedCorpus, device: str) -> Ensemble:
        """The partial ensembles of a corpus, computed on a device and merged in their order."""
        ...

    def measure(self, task: ScoringTask, advance: Advance) -> None:
        """Compute the moments that no stage before has: DynaMax's, which take more time than encoding.

        Args:
            task: what is to be computed with them.
            advance: called with the number of documents of every block of moments.
        """
        ...

    def score(self, task: ScoringTask, parts: Sequence[int], advance: Advance) -> Iterator[int]:
        """Compute parts and write them; yields each part's number when it is there, in any order."""
        ...
