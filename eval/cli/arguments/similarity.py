"""The options of `surprise-rerank similar`: what it computes, and who computes it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import click

from surprise_rerank.core.settings import option

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant import DocumentIndex
    from surprise_rerank.connectors.similar.index.location import IndexLocation
    from surprise_rerank.connectors.similar.settings import Mode, SimilaritySettings
    from surprise_rerank.connectors.similar.workers import Workers

_K = 10  # neighbours of a document by default
_RAY_WORKERS = 2
_COLLECTION = re.compile(r"(?P<url>https?://.+?)/collections/(?P<name>[^/]+)/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityArguments:
    """What is computed of every document."""

    k: int | None = option(
        None, flag="-k", low=1, metavar="K", help="Neighbours of a document.  [default: 10]"
    )
    above: float | None = option(
        None,
        metavar="Z",
        help="Only pairs of at least this surprise; all of them, unless -k is given, too.",
    )
    similarity: Literal["cosine", "dynamax", "both"] = option(
        "cosine",
        help="What surprise is over; `both`: candidates by the cosine, scored again by DynaMax.",
    )
    pool: int | None = option(
        None,
        low=1,
        metavar="N",
        help="For `both`: how many candidates are scored again.  [default: 100]",
    )
    pooling: float | None = option(
        None,
        low=1,
        metavar="N",
        help="For DynaMax: tokens that are merged into one vector, on average.  [default: 3.5, or as stored]",
    )
    mode: Literal["exact", "index"] = option(
        "exact", help="Compare with every document, or search an index in Qdrant."
    )
    ef: int | None = option(
        None,
        low=1,
        metavar="N",
        help="For `index`: nodes of the graph that a search keeps; more find more, in more time.",
    )
    sample_check: int | None = option(
        None,
        low=1,
        metavar="N",
        help="For `index`: compare N documents exactly, and report what share was found.",
    )
    groups: str | None = option(
        None, metavar="FILE", help="Write groups of near-duplicates, too: .parquet, .csv or .jsonl."
    )
    duplicate: float | None = option(
        None,
        low=0,
        high=1,
        above=True,
        metavar="S",
        help="From which similarity on.  [default: cosine .95, or DynaMax .9]",
    )

    def settings(self) -> SimilaritySettings:
        """The job's settings.

        Raises:
            SurpriseRerankError: if they do not fit together.
        """
        from surprise_rerank.connectors.similar.settings import SimilaritySettings

        self._require(self.similarity == "both", "--similarity both", pool=self.pool)
        self._require(self.mode == "index", "--mode index", ef=self.ef, sample_check=self.sample_check)
        self._require(self.groups is not None, "--groups FILE", duplicate=self.duplicate)
        self._require(self.similarity != "cosine", "--similarity dynamax or both", pooling=self.pooling)
        asked: dict[str, Any] = {"pool": self.pool, "ef": self.ef, "pooling": self.pooling}
        given = {name: value for name, value in asked.items() if value is not None}
        if self.duplicate is not None:
            from surprise_rerank.connectors.similar.groups import require_threshold

            require_threshold(self.duplicate)  # click lets NaN pass
        k = _K if self.k is None and self.above is None else self.k
        return SimilaritySettings(k=k, above=self.above, similarity=self.similarity, mode=self.mode, **given)

    @staticmethod
    def _require(holds: bool, what: str, **options: object) -> None:
        for name, value in options.items():
            if value is not None and not holds:
                raise click.UsageError(f"--{name.replace('_', '-')} belongs to {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerArguments:
    """Who computes it, and where an index for it is."""

    workers: int | None = option(
        None,
        low=1,
        metavar="N",
        help="Threads that compare, or Ray's workers.  [default: one a core; 2 of Ray's]",
    )
    device: str | None = option(
        None, metavar="NAME", help="cpu, cuda, ...  [default: a GPU where there is one]"
    )
    ray: str | None = option(
        None,
        metavar="[ADDRESS]",
        sets="",
        help="Let Ray's workers do it: of a cluster ($RAY_ADDRESS), or of this machine; after the sources.",
    )
    url: str | None = option(
        None,
        flag="--qdrant-url",
        metavar="URL",
        joined=",",
        help="For `index`: a Qdrant server; its key from $QDRANT_API_KEY. Several times for the nodes of a "
        "cluster.  [default: embedded]",
    )
    collection: str | None = option(
        None,
        metavar="NAME",
        help="For `index`: the name of the collection begins with this.  [default: similar]",
    )
    grpc: bool = option(False, help="Talk to the server by gRPC instead of REST.")

    def best_device(self) -> str:
        """The device.

        Raises:
            DataError: if it cannot be used here, where Ray's workers are not elsewhere.
        """
        from surprise_rerank.connectors.similar.neighbour_batches import best_device
        from surprise_rerank.core.device import device_of

        if self.device and self.ray is None:
            device_of(self.device)
        return self.device or best_device()

    @contextmanager
    def start(self) -> Iterator[Workers]:
        """The workers; a Ray that was started for them ends with the block.

        Raises:
            MissingExtraError: if Ray is not installed.
        """
        if self.ray is None:
            from surprise_rerank.connectors.similar.threads import Threads

            yield Threads(self.workers)
            return
        from surprise_rerank.connectors.ray.workers import RayWorkers

        # One for each, also where the device was not named: without, all would share the first.
        gpus = 1 if self.best_device().startswith("cuda") else 0
        with RayWorkers(self.ray or None, concurrency=self.workers or _RAY_WORKERS, num_gpus=gpus) as workers:
            yield workers

    def index(self, mode: Mode) -> IndexLocation | None:
        """Where the index is; None for the job's own folder.

        Raises:
            UsageError: if there is to be none, or no server.
        """
        for name, value in (("qdrant-url", self.url), ("collection", self.collection), ("grpc", self.grpc)):
            if value and mode != "index":
                raise click.UsageError(f"--{name} belongs to --mode index")
            if value and not self.url:
                raise click.UsageError(f"--{name} belongs to --qdrant-url")
        if not self.url:
            return None
        from surprise_rerank.connectors.similar.index.location import IndexLocation

        place = IndexLocation(url=self.url, prefer_grpc=self.grpc)
        return place if self.collection is None else replace(place, collection=self.collection)


def open_stored(where: str) -> DocumentIndex:
    """An index whose vectors are taken: a folder, or a collection by its url.

    Raises:
        StoreError: if it cannot be opened.
        DataError: if a url names no collection.
    """
    from surprise_rerank.connectors.qdrant import DocumentIndex
    from surprise_rerank.connectors.qdrant.location import shown_url

    if not where.startswith(("http://", "https://")):
        return DocumentIndex.open(where, None)
    found = _COLLECTION.fullmatch(where)
    if found is None:
        raise click.UsageError(
            f"--from-index {shown_url(where)} names no collection; "
            "give a folder, or URL/collections/NAME of a server"
        )
    key = os.environ.get("QDRANT_FROM_API_KEY")  # or QDRANT_API_KEY
    return DocumentIndex.open(None, None, url=found["url"], collection=found["name"], api_key=key)
