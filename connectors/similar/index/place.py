"""Where the index of a job is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from surprise_rerank.connectors.qdrant.engines.base import shown_url
from surprise_rerank.connectors.similar.corpus import EncodedCorpus
from surprise_rerank.errors import DataError


@dataclass(frozen=True, slots=True, repr=False)
class IndexPlace:
    """Where the index of a job is: a folder, by Qdrant Edge, or a Qdrant server or cluster.

    It passes from process to process. A folder is for one process at a time.

    Attributes:
        folder: in which the shard is made; the job's own where neither this nor a url is given.
        url: of the server, such as http://localhost:6333.
        api_key: for the server; that of the environment, QDRANT_API_KEY, where None.
        collection: what the name of the collection begins with.
        prefer_grpc: send requests by gRPC instead of REST.
        grpc_port: where gRPC listens.
        timeout: seconds until a request counts as failed.
        patience: seconds that the server may build its graph without another vector in it.
        settings: more for `QdrantClient.create_collection`, such as `shard_number`.

    Raises:
        DataError: if both a folder and a url are given.
    """

    folder: Path | None = None
    url: str | None = None
    api_key: str | None = None
    collection: str = "similar"
    prefer_grpc: bool = False
    grpc_port: int = 6334
    timeout: float = 60.0
    patience: float = 3600.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.folder is not None and self.url is not None:
            raise DataError(
                f"an index is in a folder or on a server, got both {self.folder} and {shown_url(self.url)}"
            )
        if self.url is None and self.settings:
            raise DataError(
                f"settings of a collection ({', '.join(self.settings)}) are for a server; give its url"
            )

    def __repr__(self) -> str:  # without the key, or a password in the url
        place = repr(str(self.folder)) if self.url is None else repr(shown_url(self.url))
        return f"IndexPlace({place}, collection={self.collection!r})"

    def of_job(self, folder: Path) -> IndexPlace:
        """This place for a job of that folder and for its workers, who may have another environment."""
        if self.url is not None:
            return replace(self, api_key=self.api_key or os.environ.get("QDRANT_API_KEY"))
        return replace(self, folder=self.folder or folder / "index")

    def name(self, corpus: EncodedCorpus) -> str:
        """What the collection of a corpus is called."""
        return f"{self.collection}-{corpus.content}"
