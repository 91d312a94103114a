"""Ray: the stages of a similarity job as pipelines of Ray Data, on this machine or on a cluster.

What a worker calls is what a thread of this process would call (`similar/threads.py`), and what it makes are
the same files, whole or not there, in a folder that all workers see. So the result is the same, whoever makes
it, and whoever dies on the way.

A pipeline is a stream of rows: a task reads them, actors answer them, the driver takes the answers. Between
processes only texts, numbers and moments pass; vectors stay in the folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, reduce
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from surprise_rerank.connectors.progress import Advance
from surprise_rerank.connectors.ray import pipeline as ray_pipeline
from surprise_rerank.connectors.ray.pipeline import (
    Actors,
    Numbers,
    Row,
    RowWorker,
    SharedObject,
    map_rows,
    table_of,
)
from surprise_rerank.connectors.similar.corpus import EncodedCorpus
from surprise_rerank.connectors.similar.encoding import (
    Model,
    accounts,
    chunk_name,
    chunks_of,
    store_documents,
)
from surprise_rerank.connectors.similar.scoring import PartScorer, moments_of
from surprise_rerank.connectors.similar.workers import ScoringTask, Sources
from surprise_rerank.documents import Document
from surprise_rerank.errors import SurpriseRerankError
from surprise_rerank.surprise.ensemble import Ensemble

if TYPE_CHECKING:
    from surprise_rerank.connectors.similar.index.place import IndexPlace


class RayWorkers:
    """Ray's workers, for `SimilarityJob(workers=...)`.

    Where Ray does not run in this process yet, it is started, or connected to, by the first stage. As a
    context manager it is shut down again at the end; otherwise it lives as long as the process.

    Args:
        address: of a cluster, such as `auto` or `head:6379`; `local` for one of this machine's own.
            None means the cluster that RAY_ADDRESS names, and one of this machine's own where it names none.
        concurrency: how many workers encode, or score, at the same time.
        num_cpus: cores of a worker; it multiplies in as many threads.
        num_gpus: graphics processors of a worker, or parts of one; cores are not counted then.
        init: more for `ray.init`, such as `runtime_env`, or `num_cpus` of a local Ray.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        concurrency: int = 2,
        num_cpus: float = 1,
        num_gpus: float = 0,
        init: Mapping[str, Any] | None = None,
    ) -> None:
        self._actors = Actors(concurrency, num_cpus, num_gpus)
        self._address, self._init = address, dict(init or {})
        self._is_ours = False

    def __enter__(self) -> RayWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Shut Ray down, if these workers have started it."""
        if self._is_ours:
            ray_pipeline.disconnect()
            self._is_ours = False

    def count(self, documents: Sources) -> int | None:
        """See `Workers`. Each source is counted by one task.

        Raises:
            DataError: if a source cannot pass to the workers, or a row is malformed.
            StoreError: if Ray cannot be reached.
        """
        self.connect()
        return sum(int(row["count"]) for row in map_rows(_reads(_CountSource, documents), self._actors))

    def encode(
        self, folder: Path, documents: Sources, model: Model, tokens: bool, advance: Advance
    ) -> tuple[list[str], list[dict[str, Any]]]:
        """See `Workers`. Each source is read by one task, and its chunks are encoded by all workers.

        Raises:
            DataError: if a source cannot pass to the workers, or as the source and `store_documents`.
            StoreError: if Ray cannot be reached or gives up, or as `store_documents`.
        """
        self.connect()
        names, left_out = list[str](), dict[int, list[dict[str, Any]]]()
        arguments = (folder.absolute(), SharedObject(model, f"the model {model.name!r}"), tokens)
        for answer in map_rows(_reads(_ReadSource, documents), self._actors, _Encoding, arguments):
            if answer["account"] is not None:
                left_out[answer["number"]] = json.loads(answer["account"])
            else:
                names.append(answer["name"])
                advance(answer["count"])
        # Names are ordered as the documents are.
        return sorted(names), [line for number in sorted(left_out) for line in left_out[number]]

    def ensemble(self, corpus: EncodedCorpus, device: str) -> Ensemble:
        """See `Workers`.

        Raises:
            StoreError: if the corpus cannot be read, or Ray cannot be reached or gives up.
        """
        self.connect()
        numbers, arguments = Numbers(corpus.ensemble_parts()), (corpus.folder.absolute(), device)
        parts = map_rows([numbers], self._actors, _Moments, arguments, ordered=True)
        return reduce(Ensemble.merge, (Ensemble.from_bytes(p["content"], "a worker's part") for p in parts))

    def measure(self, task: ScoringTask, advance: Advance) -> None:
        """See `Workers`.

        Raises:
            StoreError: if Ray cannot be reached or gives up, or as `DynaMaxMoments.compute`.
        """
        self.connect()
        blocks = Numbers(moments_of(task).blocks())
        for answer in map_rows([blocks], self._actors, _Measuring, (_absolute(task),)):
            advance(answer["count"])

    def score(self, task: ScoringTask, parts: Sequence[int], advance: Advance) -> Iterator[int]:
        """See `Workers`.

        Raises:
            StoreError: if Ray cannot be reached or gives up, or as `PartScorer`.
        """
        self.connect()
        for answer in map_rows([Numbers(parts)], self._actors, _Scoring, (_absolute(task),)):
            advance(answer["count"])
            yield answer["number"]

    def fill_index(self, place: IndexPlace, corpus: EncodedCorpus, ensemble: Path) -> None:
        """Store the augmented vectors that are missing in the collection of a job; see `augmented.fill`.

        Raises:
            MissingExtraError: if ray_qdrant is not installed.
            StoreError: if Ray or the server cannot be reached, or as `ray_sinks.fill`.
        """
        from surprise_rerank.connectors.ray.sinks import fill  # which needs ray_qdrant

        self.connect()
        fill(place, corpus, ensemble, self._actors)

    def connect(self) -> None:
        """Start Ray, or connect to it, unless this process has done so.

        Raises:
            StoreError: if there is no cluster at the address.
        """
        self._is_ours = ray_pipeline.connect(self._address, self._init) or self._is_ours


class _Encoding(RowWorker):
    """Encodes chunks and stores them; loads the model when the first chunk needs it."""

    def __init__(self, folder: Path, model: SharedObject[Model], tokens: bool) -> None:
        self._folder, self._tokens = folder, tokens
        self._model = cache(model.get)
        self._load = cache(lambda: self._model().load())

    def process(self, row: Row) -> Row:
        if row["account"] is not None:
            return row
        columns = zip(row["ids"], row["titles"], row["texts"], strict=True)
        chunk = [Document(name, text, title) for name, title, text in columns]
        model = self._model().name
        store_documents(self._folder, row["name"], chunk, self._load, model=model, tokens=self._tokens)
        return {"name": row["name"], "count": len(chunk)}


class _Moments(RowWorker):
    """Computes partial ensembles."""

    def __init__(self, folder: Path, device: str) -> None:
        self._corpus, self._device = cache(lambda: EncodedCorpus.open(folder)), device

    def process(self, row: Row) -> Row:
        return {"content": self._corpus().partial_ensemble(row["number"], self._device).to_bytes()}


class _Measuring(RowWorker):
    """Computes blocks of DynaMax's moments."""

    def __init__(self, task: ScoringTask) -> None:
        self._moments = cache(lambda: moments_of(task))

    def process(self, row: Row) -> Row:
        return {"count": self._moments().compute(row["number"])}


class _Scoring(RowWorker):
    """Computes parts of a result and writes them."""

    def __init__(self, task: ScoringTask) -> None:
        self._scorer = cache(lambda: PartScorer(task))

    def process(self, row: Row) -> Row:
        return {"number": row["number"], "count": self._scorer()(row["number"])}


class _OfSource:
    """Rows of a source.

    Args:
        number: which source it is.
        name: what the user called it.
        source: passes it to the task.
    """

    def __init__(self, number: int, name: str, source: SharedObject[Iterable[Document]]) -> None:
        self._number, self._name, self._source = number, name, source
        self.__name__ = "read"

    def __call__(self) -> Iterator[Any]:
        try:
            yield from self.rows(self._source.get())
        except SurpriseRerankError as error:
            yield table_of(**ray_pipeline.error_row(error))

    def rows(self, source: Iterable[Document]) -> Iterator[Any]:
        """Tables of one row."""
        raise NotImplementedError


class _CountSource(_OfSource):
    """How many documents there are."""

    def rows(self, source: Iterable[Document]) -> Iterator[Any]:
        yield table_of(count=sum(1 for _ in source))


class _ReadSource(_OfSource):
    """A row for each chunk, and a last one with the account of what was left out."""

    def rows(self, source: Iterable[Document]) -> Iterator[Any]:
        for place, chunk in enumerate(chunks_of(source)):
            yield table_of(
                name=chunk_name(self._number, place),
                ids=[d.id for d in chunk],
                titles=[d.title for d in chunk],
                texts=[d.text for d in chunk],
            )
        yield table_of(number=self._number, account=json.dumps(accounts([self._name], [source])))


def _reads(kind: type[_OfSource], documents: Sources) -> list[_OfSource]:
    """One for each source.

    Raises:
        DataError: if a source cannot pass to the workers.
    """
    named = zip(documents.names, documents.sources, strict=True)
    return [
        kind(i, name, SharedObject(source, f"the source {name!r}")) for i, (name, source) in enumerate(named)
    ]


def _absolute(task: ScoringTask) -> ScoringTask:
    """The same with paths that do not depend on where a worker was started."""
    return replace(
        task,
        queries=task.queries.absolute(),
        keys=task.keys.absolute(),
        ensemble=task.ensemble.absolute(),
        parts=task.parts.absolute(),
    )
