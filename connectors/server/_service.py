"""What is served, once it is loaded: a re-ranker of given texts, and a pipeline where there is an index."""

from __future__ import annotations

import asyncio
import functools
import gc
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from surprise_rerank._errors import DataError, StoreError, did_you_mean
from surprise_rerank._pipeline import Pipeline
from surprise_rerank._text_reranker import TextReranker
from surprise_rerank.connectors._document_index import DocumentIndex
from surprise_rerank.connectors._searchable import CollectionPipelines, SearchableCollection, StoredCandidates
from surprise_rerank.connectors.attached._settings import PipelineSettings
from surprise_rerank.connectors.qdrant._engines.client import ClientEngine
from surprise_rerank.connectors.qdrant._storage.folder import optimize_grown
from surprise_rerank.connectors.server._answers import RefusedError, refusing
from surprise_rerank.connectors.server._logs import EventLog
from surprise_rerank.connectors.server._metrics import Metrics
from surprise_rerank.connectors.server._options import ServerOptions
from surprise_rerank.connectors.server._owners import Tokens
from surprise_rerank.connectors.server._work import DelayedWork, Jobs, Workers
from surprise_rerank.connectors.systems._backgrounds import look_after_backgrounds, title_questions
from surprise_rerank.connectors.systems._register import find_system
from surprise_rerank.core._process import PerProcess
from surprise_rerank.encoders.base import shown_model
from surprise_rerank.rerank._scorers import CosineScorer, DynaMaxScorer
from surprise_rerank.thresholds.varied_questions import varied_questions

if TYPE_CHECKING:
    from surprise_rerank.connectors.attached import Collection

_SOON, _FRESH = 2.0, 2.0  # seconds for which Qdrant is waited for, and for which its answer holds
_SAMPLED = 64  # documents that examples of questions are made of
_WARMS_UP = ("first", ["the first one takes longest"])


@dataclass(frozen=True)
class OpenedIndex:
    """A model that is loaded, and an index that is open.

    What a request does not say of min_percentile and diversity is the re-ranker's, and of a search the
    pipeline's.
    """

    reranker: TextReranker
    pipeline: Pipeline | None
    system: str  # what readers call the two
    index: CollectionPipelines | None = None  # its systems; None where the pipeline is all that there is
    tried: tuple[str, ...] = ()  # questions that the page offers; of the documents' titles by default

    @functools.cached_property
    def bounded(self) -> TextReranker:
        """What ranks texts that the index does not hold: by similarity alone, from 0 to 1.

        What an index's systems add is measured over its documents, and has no limit.
        """
        if self.reranker.stored is None:
            return self.reranker
        options = replace(self.reranker.options, min_percentile=None)
        ranks, encoder = self.reranker.reranker, self.reranker.encoder
        if isinstance(ranks, CosineScorer | DynaMaxScorer):
            return TextReranker(encoder, ranks, options=options)
        return TextReranker(encoder, options=options)

    def reranker_of(self, tenant: str | None) -> TextReranker:
        """Return what ranks texts that the index may hold, of a tenant's documents where it has tenants."""
        stored = self.reranker.stored
        if not isinstance(stored, StoredCandidates):
            return self.reranker
        if tenant is None:
            return self.bounded if self.has_tenants else self.reranker
        with refusing("tenant: "):
            return replace(self.reranker, stored=stored.of_tenant(tenant))

    def ask_store(self) -> None:
        """Ask the Qdrant server of the index whether it is there, if it is on one; a StoreError if not."""
        engine = None if self.index is None else self.index.collection.corpus.points
        if isinstance(engine, ClientEngine) and engine.kind == "server":
            engine.exists()

    def written(self) -> DocumentIndex:
        """The index, to be changed."""
        index = None if self.index is None else self.index.whole
        if not isinstance(index, DocumentIndex):
            raise RefusedError(404, "the server has no index of its own; start it with --index FOLDER")
        return index

    def pipeline_of(self, system: str | None = None, field: str = "system") -> Pipeline:
        """The pipeline of a system that a request's field asks for; the first one by default."""
        if self.pipeline is None:
            raise RefusedError(404, "the server has no index to search; start it with one")
        if system in (None, self.system):
            return self.pipeline
        assert system is not None
        if system not in self.systems or self.index is None:
            hint = did_you_mean(system, self.systems)
            raise RefusedError(
                422, f"{field}: the index has none of that name; {hint}there are {', '.join(self.systems)}"
            )
        try:
            with refusing(f"{field}: "):
                return self.index[system]
        except TimeoutError as error:
            said = f"the system {system} is being made ready; try again in some seconds"
            raise RefusedError(503, said, {"Retry-After": "2"}) from error

    @property
    def systems(self) -> dict[str, str]:
        """What searches can rank by, the first by default, and what each does."""
        if self.index is not None:
            return {self.system: "", **self.index.summaries()}
        return {} if self.pipeline is None else {self.system: ""}

    @property
    def has_tenants(self) -> bool:
        """Whether requests must say whose documents they are about."""
        return self.index is not None and self.index.collection.corpus.every_tenant is not None

    def documents_of(self, tenant: str | None) -> SearchableCollection | None:
        """Return the index, or a tenant's documents in it; None without one."""
        if self.index is None:
            return None
        with refusing("tenant: "):
            return self.index.collection if tenant is None else self.index.collection.of_tenant(tenant)

    @functools.cached_property
    def examples(self) -> list[str]:
        """Questions that the index has something for, and a last one that it likely has nothing for."""
        if self.index is None:
            return []
        if self.tried or self.has_tenants:  # titles are for nobody but their tenant
            return [*self.tried]
        sampled = self.index.collection.corpus.sample_documents(_SAMPLED)
        # A title of a word or two, such as a file's name, says less than the first sentence.
        named = (
            document if len(document.title.split()) > 2 else replace(document, title="")
            for document in sampled
        )
        texts = {text.casefold(): text for text in title_questions(named) if len(text.split()) > 2}
        near = sorted(texts.values(), key=len)
        return [*near[len(near) // 2 :][:3], *varied_questions(1)]

    @property
    def collection(self) -> str | None:
        """The name of what is searched, without its place; None without an index."""
        return (
            None if self.index is None else re.split(r"[/\\]", self.index.collection.where.rstrip("/\\"))[-1]
        )

    @property
    def measured(self) -> list[str]:
        """The systems whose documents have a percentile."""
        if self.index is not None:
            return [name for name in self.index.collection.backgrounds() if name in self.systems]
        has_one = self.pipeline is not None and self.pipeline.current_background() is not None
        return [self.system] if has_one else []


class Service:
    """What is served, which may come later than the server, with its limits, threads, log and metrics.

    `searches` says whether there will be a pipeline. The log is JSON on the error stream by default.
    """

    def __init__(
        self,
        *,
        searches: bool,
        options: ServerOptions | None = None,
        logger: EventLog | None = None,
    ) -> None:
        self.searches = searches
        self.options = ServerOptions() if options is None else options
        self.logger = EventLog(sys.stderr) if logger is None else logger
        self.tokens = Tokens(self.options, self.logger)
        self.metrics = Metrics()
        self.workers = Workers(self.options.workers)
        self.writer = Workers(1)  # changes wait for each other, and would keep the threads of searches
        self.jobs = Jobs(self.writer.begin)
        self.upkeep = DelayedWork(self._measure_stale, self.options.background_after)
        self.opened: OpenedIndex | None = None
        self._prober = PerProcess(lambda: ThreadPoolExecutor(1, thread_name_prefix="surprise-rerank-probe"))
        self._probe: Future[None] | None = None
        self._probed = 0.0

    def open(
        self,
        reranker: TextReranker,
        pipeline: Pipeline | None = None,
        system: str = "",
        index: CollectionPipelines | None = None,
    ) -> None:
        """Serve these from now on; see `OpenedIndex`.

        The system is by default the class of what orders the pipeline's hits, or else the re-ranker.
        """
        if self.searches != (pipeline is not None):
            raise DataError(
                f"the service was made with searches={self.searches} and gets "
                f"{'no' if pipeline is None else 'a'} pipeline; make both say the same"
            )
        orders = reranker.reranker if pipeline is None else pipeline.reranker or pipeline.retriever
        self.opened = OpenedIndex(
            reranker, pipeline, system or type(orders).__name__, index, self.options.tried
        )

    def required(self) -> OpenedIndex:
        """What is served; a RefusedError if it is not loaded yet."""
        if self.opened is None:
            raise RefusedError(
                503, "the model is being loaded; try again in some seconds", {"Retry-After": "5"}
            )
        return self.opened

    def end(self) -> None:
        """Finish what has begun; of a job the part."""
        for threads in (self.workers, self.writer):
            threads.close()

    @property
    def tenant(self) -> str | None:
        """Whose documents alone are served, if the settings say so."""
        return (
            None
            if self.opened is None or self.opened.index is None
            else self.opened.index.collection.corpus.tenant
        )

    def _measure_stale(self) -> None:
        """Measure the backgrounds that a change has made stale, beside the searches."""
        if self.opened is None or not self.options.background_after:
            return
        begun = time.perf_counter()
        try:
            look_after_backgrounds(self.opened.written().corpus)
        except Exception as error:  # noqa: BLE001 - searches go on, and say that the background is stale
            self.logger.fail("", error)
        else:
            self.logger.say("backgrounds", seconds=round(time.perf_counter() - begun, 1))

    async def require_store(self) -> None:
        """Refuse the request (503) if the model is not loaded, or the index's Qdrant does not answer soon."""
        opened = self.required()
        is_over = self._probe is None or self._probe.done()
        if is_over and time.monotonic() - self._probed > _FRESH:  # one at a time, whoever asks how often
            self._probe, self._probed = self._prober.get().submit(opened.ask_store), time.monotonic()
        assert self._probe is not None
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._probe)), _SOON)
        except (StoreError, TimeoutError) as error:
            said = "the Qdrant server of the index does not answer; see whether it runs"
            raise RefusedError(503, said, {"Retry-After": "5"}) from error

    def show_state(self, version: str) -> None:
        """Bring those metrics up to date that are looked at, rather than counted."""
        if self.opened is None:
            return
        model = shown_model(self.opened.reranker.encoder)
        self.metrics.model.labels(model, self.opened.system, version).set(1)
        if self.opened.index is None:
            return
        with suppress(StoreError):
            backgrounds = {
                name: pipeline.current_background() for name, pipeline in self.opened.index.opened.items()
            }
            self.metrics.show_backgrounds(
                {name: background for name, background in backgrounds.items() if background is not None}
            )

    @contextmanager
    def loading(self, settings: PipelineSettings, stop: Callable[[], object]) -> Iterator[None]:
        """Load in the background while the block serves; at its end the index is closed.

        `stop` is called if that fails, and at the end what it failed with is raised.
        """
        failed: list[Exception] = []
        opened: list[DocumentIndex | Collection] = []

        def load() -> None:
            try:
                self._load(settings, opened)
            except Exception as error:  # noqa: BLE001 - raised by the thread that serves
                failed.append(error)
                stop()
            else:
                # What is loaded stays: to look through it for rubbish would keep Python's lock for .3 s.
                gc.collect()
                gc.freeze()
                self.logger.say("ready")

        thread = threading.Thread(target=load, name="surprise-rerank-load")
        thread.start()
        try:
            yield
        finally:
            thread.join()  # a library that loads cannot be stopped
            self.upkeep.close()
            for index in opened:
                index.close()
        if failed:
            raise failed[0]

    def _load(self, settings: PipelineSettings, opened: list[DocumentIndex | Collection]) -> None:
        if not settings.location.is_given:
            reranker = settings.text_reranker()
            reranker.rank(*_WARMS_UP)
            self.open(reranker, system=settings.system or "dynamax")
            return
        if settings.location.folder is not None:
            optimize_grown(Path(settings.location.folder))
        index = settings.open_index()
        opened.append(index)
        if isinstance(index, DocumentIndex):
            index.corpus.points.leave_to_others()
        pipelines = CollectionPipelines(index, settings.system, **settings.search_settings)
        name = pipelines.first
        able = find_system(name).ranks_texts
        try:
            reranker = index.text_reranker(name if able else None, **settings.search_settings)
        except DataError as error:
            if able:
                raise
            raise DataError(
                f"the system {name!r} ranks inside Qdrant, so that given texts need another one, and "
                f"{error}; or choose a system that ranks both"
            ) from error
        reranker.rank(*_WARMS_UP)
        self.open(reranker, pipelines[name], name, pipelines)
