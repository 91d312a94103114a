"""What is searched by questions: an index, or a collection that somebody else made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qdrant_client import models

from surprise_rerank.candidates import Candidates, Field, Query
from surprise_rerank.connectors.qdrant.lexical import SparseVector
from surprise_rerank.connectors.qdrant.location import EngineKind
from surprise_rerank.connectors.qdrant.schema import PointId
from surprise_rerank.connectors.qdrant.search.inclusion import AskedInclusion
from surprise_rerank.connectors.qdrant.search.pools import Pools
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.connectors.qdrant.storage.files import Files
from surprise_rerank.connectors.qdrant.writing.term_statistics import TermStatistics
from surprise_rerank.core.arrays import VectorSimilarity
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoder


@dataclass(frozen=True, slots=True)
class Words:
    """The sparse vectors of a collection: their name, what makes a question's, and all terms' statistics.

    `idf` says whether Qdrant multiplies with the IDF, and `kind` what they are compared by, in words.
    """

    vector: str
    embed: Callable[[str], SparseVector]
    statistics: Callable[[], TermStatistics]
    idf: bool = False
    kind: str = "BM25"


class Searched(ABC):
    """Documents with dense vectors in Qdrant; retrievers are made of it."""

    @property
    @abstractmethod
    def engine(self) -> EngineKind:
        """Which engine it has: `edge`, `local` or `server`."""

    @property
    @abstractmethod
    def id_key(self) -> str:
        """The key of a document's id in the payload, for filters; empty where the point's own id is it."""

    @property
    @abstractmethod
    def metadata_key(self) -> str:
        """The key of the metadata in the payload, for filters; empty where they are the payload."""

    @property
    def has_dense(self) -> bool:
        """Whether documents have one dense vector each; else they are found by MaxSim of token vectors."""
        return True

    @property
    def measures_first(self) -> bool:
        """Whether the first system measures a background, where there is none; `sync` did it otherwise."""
        return False

    @property
    @abstractmethod
    def pooling(self) -> float:
        """Tokens that are merged into one of the vectors that are fetched, on average."""

    @property
    @abstractmethod
    def where(self) -> str:
        """The place, for messages."""

    @property
    @abstractmethod
    def encoder(self) -> Encoder:
        """The model of questions.

        Raises:
            StoreError: if it was opened without one.
        """

    @property
    @abstractmethod
    def model(self) -> str:
        """The name of the model of the dense vectors; empty where it is not known."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """What tells the model's weights apart; empty where it is not known."""

    @property
    @abstractmethod
    def similarity(self) -> VectorSimilarity:
        """How dense vectors are compared."""

    @property
    @abstractmethod
    def language(self) -> str:
        """Of the documents' words."""

    @property
    @abstractmethod
    def files(self) -> Files:
        """What is kept beside the points: backgrounds, fitted weights."""

    @property
    @abstractmethod
    def ensemble_version(self) -> str:
        """What tells apart the ensembles that surprise is measured against; empty without one."""

    @property
    @abstractmethod
    def pools(self) -> Pools:
        """Candidates from requests to the engine; what retrievers are made of."""

    @property
    @abstractmethod
    def words(self) -> Words | None:
        """Its sparse vectors; None without them, or where it is not known how a question becomes one."""

    @abstractmethod
    def __len__(self) -> int: ...

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.where}>"

    @abstractmethod
    def sample_ids(self, size: int) -> tuple[str, ...]:
        """Ids of a uniform sample of so many documents, the same in every run; all where there are fewer."""

    @abstractmethod
    def sample_documents(self, size: int) -> tuple[Document, ...]:
        """A uniform sample of so many documents, the same in every run; all where there are fewer."""

    @abstractmethod
    def token_sample(self, size: int) -> tuple[tuple[str, ...], TokenBatch]:
        """Ids and token vectors of a uniform sample of documents, or passages; all where there are fewer.

        Raises:
            DataError: if none are stored.
        """

    @abstractmethod
    def there(self, pool: Candidates) -> tuple[Candidates, list[PointId]]:
        """The candidates that are not known to be deleted, and their points."""

    def notes_of_words(self, pool: Candidates) -> tuple[str, ...]:
        """What a reader of a ranking by words must know of these candidates."""
        return ()

    def with_inclusion(self, pool: Candidates, asked: AskedInclusion) -> Candidates:
        """Candidates of this collection with inclusion of a question's tokens, which Qdrant computes."""
        pools, (pool, points) = self.pools, self.there(pool)
        wanted = models.Filter(must=[models.HasIdCondition(has_id=list(points))])
        asks = {"inclusion": (lambda limit: pools.inclusion(asked, wanted, limit), len(points))}
        found = pools.every(asks)["inclusion"]
        return pools.included(pool, [str(point) for point in points], asked, found)

    @abstractmethod
    def search(
        self,
        query: Query,
        depth: int,
        fields: frozenset[Field] = frozenset(),
        *,
        exact: bool = False,
        options: SearchOptions = NO_OPTIONS,
    ) -> Candidates:
        """The documents nearest to a query with its dense vector, as the vectors are compared.

        Fields are `dense`, `tokens`, `terms`, `documents`. An exact search leaves the approximate index out.
        """

    @property
    def documents(self) -> Callable[[Sequence[str]], dict[str, Document]] | None:
        """Reads documents by id, those that are there; None where the pool's texts tell what is behind."""
        return None

    @abstractmethod
    def fetch(
        self, ids: Sequence[str], fields: frozenset[Field], *, skip_missing: bool = False
    ) -> Candidates:
        """Documents by id with these fields, in this order; all passages of each.

        Raises:
            DataError: if one is not there, and missing ones are not to be skipped.
        """
