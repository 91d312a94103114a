"""What `surprise-rerank similar` computes, and who computes it: its options, and what they come to."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.eval.cli.arguments.location import Command

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant import DocumentIndex
    from surprise_rerank.connectors.similar.index.place import IndexPlace
    from surprise_rerank.connectors.similar.settings import Mode, Similarity, SimilaritySettings
    from surprise_rerank.connectors.similar.workers import Workers

# As `settings.Similarity` and `settings.Mode`, which `--help` cannot wait for.
SIMILARITIES, MODES = ("cosine", "dynamax", "both"), ("exact", "index")

_K = 10  # neighbours of a document, where nothing is asked for
_RAY_WORKERS = 2
_COLLECTION = re.compile(r"(?P<url>https?://.+?)/collections/(?P<name>[^/]+)/?")

_COMPARISON = (
    click.option(
        "-k", type=click.IntRange(min=1), metavar="K", help="Neighbours of a document.  [default: 10]"
    ),
    click.option(
        "--above",
        type=float,
        metavar="Z",
        help="Only pairs of at least this surprise; all of them, unless -k is given, too.",
    ),
    click.option(
        "--similarity",
        type=click.Choice(SIMILARITIES),
        default="cosine",
        show_default=True,
        help="What surprise is over; `both`: candidates by the cosine, scored again by DynaMax.",
    ),
    click.option(
        "--pool",
        type=click.IntRange(min=1),
        metavar="N",
        help="For `both`: how many candidates are scored again.  [default: 100]",
    ),
    click.option(
        "--mode",
        type=click.Choice(MODES),
        default="exact",
        show_default=True,
        help="Compare with every document, or search an index in Qdrant.",
    ),
    click.option(
        "--ef",
        type=click.IntRange(min=1),
        metavar="N",
        help="For `index`: nodes that a search keeps at hand; more find more, in more time.",
    ),
    click.option(
        "--sample-check",
        type=click.IntRange(min=1),
        metavar="N",
        help="For `index`: compare N documents exactly, and tell what share was found.",
    ),
    click.option(
        "--groups",
        metavar="FILE",
        help="Write groups of near-duplicates, too: .parquet, .csv or .jsonl.",
    ),
    click.option(
        "--duplicate",
        type=click.FloatRange(0, 1, min_open=True),
        metavar="S",
        help="From which similarity on.  [default: cosine .95, or DynaMax .9]",
    ),
)
_LABOUR = (
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Threads that compare, or Ray's workers.  [default: one a core; 2 of Ray's]",
    ),
    click.option("--device", metavar="NAME", help="cpu, cuda, ...  [default: a GPU where there is one]"),
    click.option(
        "--ray",
        metavar="[ADDRESS]",
        is_flag=False,
        flag_value="",
        help="Let Ray's workers do it: of a cluster ($RAY_ADDRESS), or of this machine; after the sources.",
    ),
    click.option(
        "--qdrant-url",
        "url",
        metavar="URL",
        help="For `index`: a Qdrant server; its key from $QDRANT_API_KEY.  [default: embedded]",
    ),
    click.option(
        "--collection",
        metavar="NAME",
        help="What the name of the collection there begins with.  [default: similar]",
    ),
    click.option("--grpc", is_flag=True, help="Talk to the server by gRPC instead of REST."),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is computed.

    Attributes:
        k: neighbours of a document.
        above: the smallest surprise of a pair.
        similarity: what surprise is over.
        pool: candidates that are scored again.
        mode: exact, or by an index.
        ef: nodes that a search keeps.
        sample_check: documents that are compared exactly, too.
        groups: file of near-duplicate groups.
        duplicate: from which similarity on documents are near-duplicates.
    """

    k: int | None
    above: float | None
    similarity: Similarity
    pool: int | None
    mode: Mode
    ef: int | None
    sample_check: int | None
    groups: str | None
    duplicate: float | None

    def settings(self) -> SimilaritySettings:
        """The job's settings.

        Raises:
            SurpriseRerankError: if they do not fit together.
        """
        from surprise_rerank.connectors.similar.settings import SimilaritySettings

        self._require(self.similarity == "both", "--similarity both", pool=self.pool)
        self._require(self.mode == "index", "--mode index", ef=self.ef, sample_check=self.sample_check)
        self._require(self.groups is not None, "--groups FILE", duplicate=self.duplicate)
        given = {name: value for name, value in (("pool", self.pool), ("ef", self.ef)) if value is not None}
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


@dataclass(frozen=True, slots=True)
class Labour:
    """Who computes it.

    Attributes:
        workers: how many.
        device: where they multiply.
        ray: address of a Ray cluster; empty for the one that there is, None for no Ray.
        url: of a Qdrant server.
        collection: there.
        grpc: whether to talk gRPC.
    """

    workers: int | None
    device: str | None
    ray: str | None
    url: str | None
    collection: str | None
    grpc: bool

    def place(self) -> str:
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
    def hired(self) -> Iterator[Workers]:
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
        gpus = 1 if self.place().startswith("cuda") else 0
        with RayWorkers(self.ray or None, concurrency=self.workers or _RAY_WORKERS, num_gpus=gpus) as workers:
            yield workers

    def index(self, mode: Mode) -> IndexPlace | None:
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
        from surprise_rerank.connectors.similar.index.place import IndexPlace

        place = IndexPlace(url=self.url, prefer_grpc=self.grpc)
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


def takes_comparison(function: Command) -> Command:
    """Give a command the options of what is computed, and by whom: a `Comparison` and a `Labour`."""

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        comparison = Comparison(**{name: values.pop(name) for name in Comparison.__dataclass_fields__})
        labour = Labour(**{name: values.pop(name) for name in Labour.__dataclass_fields__})
        return function(comparison=comparison, labour=labour, **values)

    options = (*_COMPARISON, *_LABOUR)
    return functools.reduce(lambda inner, option: option(inner), reversed(options), command)
