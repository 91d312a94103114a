"""Opening a service in the background, while the server answers already that it is not ready."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from surprise_rerank.connectors.attached import Collection
from surprise_rerank.connectors.attached.settings import PipelineSettings
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.server.service import Service
from surprise_rerank.connectors.systems.loading import text_reranker_of
from surprise_rerank.connectors.systems.pipelines import IndexPipelines
from surprise_rerank.connectors.systems.register import find_system
from surprise_rerank.errors import DataError
from surprise_rerank.rerank.diversity import Diversity
from surprise_rerank.text_reranker import TextReranker

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class Loading:
    """A thread that loads what is served; a context, at whose end the index is closed.

    Args:
        service: what to open.
        settings: what to open it with.
        stop: called if that fails.
        logger: of the server.
    """

    def __init__(
        self,
        service: Service,
        settings: PipelineSettings,
        stop: Callable[[], object],
        logger: FilteringBoundLogger,
    ) -> None:
        self._service = service
        self._settings = settings
        self._stop = stop
        self._logger = logger
        self._index: DocumentIndex | Collection | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="surprise-rerank-load")

    def __enter__(self) -> Loading:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.join()  # a library that loads cannot be stopped
        if self._index is not None:
            self._index.close()

    def require_loaded(self) -> None:
        """Raise what loading has failed with, if it has.

        Raises:
            SurpriseRerankError: if the model or the index cannot be opened.
        """
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._load()
        except Exception as error:  # noqa: BLE001 - raised by the thread that serves
            self._error = error
            self._stop()
        else:
            self._logger.info("ready")

    def _load(self) -> None:
        settings = self._settings
        if not settings.location.is_given:
            reranker = settings.text_reranker()
            reranker.rank("first", ["the first one takes longest"])
            self._service.open(reranker, system=settings.system or "dynamax")
            return
        index = self._index = settings.open_index()
        least = settings.min_surprise
        shown = settings.variety
        pipelines = IndexPipelines(
            index, settings.system, depth=settings.depth, min_surprise=least, diversity=shown
        )
        name = pipelines.first
        if "cosine" in pipelines:  # what the page shows beside: it is measured before anybody waits for it
            _ = pipelines["cosine"]
        reranker = _of_texts(index, name, least, shown)
        reranker.rank("first", ["the first one takes longest"])
        self._service.open(reranker, pipelines[name], name, pipelines)


def _of_texts(
    index: DocumentIndex | Collection, system: str, least: float | None, shown: Diversity
) -> TextReranker:
    """What ranks given texts, beside a system that searches.

    Raises:
        DataError: as `text_reranker_of`, naming both systems.
    """
    if find_system(system).ranks_texts:
        return text_reranker_of(index, system, min_surprise=least, diversity=shown)
    try:
        return text_reranker_of(index, min_surprise=least, diversity=shown)
    except DataError as error:
        raise DataError(
            f"the system {system!r} ranks inside Qdrant, so that given texts need another one, and {error}; "
            "or choose a system that ranks both"
        ) from error
