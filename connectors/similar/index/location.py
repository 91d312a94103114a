"""Where the index of a job is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.connectors.similar.corpus import EncodedCorpus
from surprise_rerank.errors import DataError


@dataclass(frozen=True, slots=True, repr=False)
class IndexLocation(Location):
    """Where the index of a job is: a folder, by Qdrant Edge, or a Qdrant server or cluster.

    It passes from process to process. A folder is for one process at a time.

    Attributes (the others are those of `Location`):
        folder: in which the shard is made; the job's own where neither this nor a url is given.
        collection: what the name of the collection begins with.
        patience: seconds that the server may build its graph without another vector in it.
        settings: more for `QdrantClient.create_collection`, such as `shard_number`.

    Raises:
        DataError: if both a folder and a url are given.
    """

    collection: str = "similar"
    patience: float = 3600.0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Location.__post_init__(self)
        if self.url is None and self.settings:
            raise DataError(
                f"settings of a collection ({', '.join(self.settings)}) are for a server; give its url"
            )

    def of_job(self, folder: Path) -> IndexLocation:
        """This location for a job of that folder and for its workers, who may have another environment."""
        if self.url is not None:
            return self.with_key()
        return replace(self, folder=self.folder or folder / "index")

    def name(self, corpus: EncodedCorpus) -> str:
        """What the collection of a corpus is called."""
        return f"{self.collection}-{corpus.content}"
