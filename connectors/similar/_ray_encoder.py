"""Ray's workers make the points of an index: they encode, merge token vectors, count words, give moments.

One process reads the documents, looks up which are stored already, and writes: so a pass goes on where the
one before it ended, and the index is that of one process, with its one table of words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from surprise_rerank import _border as border
from surprise_rerank._errors import StoreError, SurpriseRerankError
from surprise_rerank.connectors.qdrant._schema import Point
from surprise_rerank.connectors.qdrant._writing.indexing import Piece, PointMaker
from surprise_rerank.connectors.similar._cluster import connect
from surprise_rerank.encoders.base import Encoded, Encoder, Kind, Progress, token_dimension

_WINDOWS = 2  # of a worker: one that it encodes, and one that waits, so that it is never idle


class RayEncoder:
    """An encoder whose documents are encoded by Ray's workers, and its questions here.

    `DocumentIndex.open(place, RayEncoder(encoder, "head:6379", workers=8)).sync(documents)` indexes by them.
    What a worker had that dies is given to one that takes its place.

    Args:
        encoder: each worker gets a copy; one that was loaded by name is loaded again there.
        address: of a cluster, as for `RayCluster`.
        workers: how many there are.
        num_gpus: graphics processors of a worker, or parts of one.

    Raises:
        MissingExtraError: if Ray is not installed.
        StoreError: if Ray cannot be reached.
    """

    def __init__(
        self, encoder: Encoder, address: str | None = None, *, workers: int = 2, num_gpus: float = 0
    ) -> None:
        border.able("encoder", encoder, "token_spans", "an encoder")
        self.windows = _WINDOWS * border.count("workers", workers, 1)
        self._ray = connect(address)
        self._encoder = encoder
        self.name, self.fingerprint = encoder.name, encoder.fingerprint
        self.dimension, self.token_dimension = encoder.dimension, token_dimension(encoder)
        self.window, self.token_spans = encoder.window, encoder.token_spans
        needs = {"num_gpus": num_gpus} if num_gpus else {"num_cpus": 1}
        kind = self._ray.remote(max_restarts=-1, max_task_retries=-1, **needs)(_PointWorker)
        self._waiting: dict[Any, list[Any]] = {kind.remote(encoder): [] for _ in range(workers)}
        self._maker: tuple[PointMaker, Any] | None = None  # the last one, and where Ray has it

    def __getattr__(self, name: str) -> Any:
        """Return other attributes of the wrapped encoder, such as its precision."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._encoder, name)

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """The encoder's vectors, of this process."""
        return self._encoder.encode(texts, kind, on_progress)

    def begin(self, maker: PointMaker, pieces: Sequence[Piece]) -> Callable[[], list[Point]]:
        """Let a worker make the points of pieces; returns what waits for them.

        That raises the worker's own SurpriseRerankError, or a StoreError if Ray gives up.
        """
        if self._maker is None or self._maker[0] is not maker:
            self._maker = maker, self._ray.put((maker.options, maker.statistics, maker.words, maker.form))
        for worker, waiting in self._waiting.items():
            if waiting:
                _, self._waiting[worker] = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        idlest = min(self._waiting, key=lambda worker: len(self._waiting[worker]))
        points = idlest.points.remote(self._maker[1], pieces)
        self._waiting[idlest].append(points)
        return partial(self._received, points)

    def _received(self, points: Any) -> list[Point]:
        try:
            received: list[Point] = self._ray.get(points)
        except self._ray.exceptions.RayError as error:
            if isinstance(cause := getattr(error, "cause", None), SurpriseRerankError):
                raise cause from None
            first = str(error).strip().partition("\n")[0]
            raise StoreError(f"Ray gave up ({first}); what is stored stays, run the same again") from error
        return received


class _PointWorker:
    """An actor, which has the encoder."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def points(self, parts: tuple[Any, Any, Any, Any], pieces: Sequence[Piece]) -> list[Point]:
        options, *others = parts
        maker = PointMaker(options, self._encoder, *others)
        return maker.points(pieces, maker.encoded(pieces))
