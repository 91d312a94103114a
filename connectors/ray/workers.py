"""Ray: the stages of a similarity job as pipelines of Ray Data, on this machine or on a cluster.

A worker calls the same functions as a thread of this process (`similar/threads.py`), and writes the same
files, each complete or absent, into a folder that all workers see. So the result is the same, whatever worker
makes it, and whatever worker fails.

Only texts, numbers and moments pass between processes; vectors stay in the folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial, reduce
from pathlib import Path
from types import TracebackType
from typing import Any

from surprise_rerank.connectors.progress import Advance
from surprise_rerank.connectors.ray import pipeline as ray_pipeline
from surprise_rerank.connectors.ray.pipeline import Actors, Row, SharedObject, map_rows, number_rows, table_of
from surprise_rerank.connectors.similar.corpus import EncodedCorpus
from surprise_rerank.connectors.similar.encoding import (
    Model,
    chunk_name,
    chunks_of,
    skipped_by,
    store_documents,
)
from surprise_rerank.connectors.similar.index.location import IndexLocation
from surprise_rerank.connectors.similar.scoring import PartScorer, moments_of
from surprise_rerank.connectors.similar.workers import ScoringTask, Sources
from surprise_rerank.core.tokens import TokenForm
from surprise_rerank.documents import Document
from surprise_rerank.surprise.ensemble import Ensemble


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

    def count(self, documents: Sources, advance: Advance) -> tuple[int | None, Sources]:
        """See `Workers`. Each source is counted by one task, and nothing is left out of it.

        Raises:
            DataError: if a source cannot pass to the workers, or a row is malformed.
            StoreError: if Ray cannot be reached.
        """
        self.connect()
        reads = [partial(_count_documents, source) for _, source in _shared(documents)]
        return sum(int(row["count"]) for row in map_rows(reads, self._actors)), documents

    def encode(
        self, folder: Path, documents: Sources, model: Model, tokens: TokenForm | None, advance: Advance
    ) -> tuple[list[str], list[dict[str, Any]]]:
        """See `Workers`. Each source is read by one task, and its chunks are encoded by all workers.

        Raises:
            DataError: if a source cannot pass to the workers, or as the source and `store_documents`.
            StoreError: if Ray cannot be reached or gives up, or as `store_documents`.
        """
        self.connect()
        names, skipped = list[str](), dict[int, list[dict[str, Any]]]()
        reads = [partial(_read_chunks, i, *source) for i, source in enumerate(_shared(documents))]
        arguments = (folder.absolute(), SharedObject(model, f"the model {model.name!r}"), tokens)
        for row in map_rows(reads, self._actors, encode_chunks, arguments):
            if row["skipped"] is not None:
                skipped[row["number"]] = json.loads(row["skipped"])
            else:
                names.append(row["name"])
                advance(row["count"])
        # Names are ordered as the documents are.
        return sorted(names), [line for number in sorted(skipped) for line in skipped[number]]

    def ensemble(self, corpus: EncodedCorpus, device: str) -> Ensemble:
        """See `Workers`.

        Raises:
            StoreError: if the corpus cannot be read, or Ray cannot be reached or gives up.
        """
        self.connect()
        reads = [partial(number_rows, corpus.ensemble_parts())]
        arguments = (corpus.folder.absolute(), device)
        parts = map_rows(reads, self._actors, partial_ensembles, arguments, ordered=True)
        return reduce(Ensemble.merge, (Ensemble.from_bytes(p["content"], "a worker's part") for p in parts))

    def measure(self, task: ScoringTask, advance: Advance) -> None:
        """See `Workers`.

        Raises:
            StoreError: if Ray cannot be reached or gives up, or as `DynaMaxMoments.compute`.
        """
        self.connect()
        blocks = partial(number_rows, moments_of(task).blocks())
        for row in map_rows([blocks], self._actors, measure_moments, (_absolute(task),)):
            advance(row["count"])

    def score(self, task: ScoringTask, parts: Sequence[int], advance: Advance) -> Iterator[int]:
        """See `Workers`.

        Raises:
            StoreError: if Ray cannot be reached or gives up, or as `PartScorer`.
        """
        self.connect()
        for row in map_rows([partial(number_rows, parts)], self._actors, score_parts, (_absolute(task),)):
            advance(row["count"])
            yield row["number"]

    def fill_index(self, location: IndexLocation, corpus: EncodedCorpus, ensemble: Path) -> None:
        """Store the augmented vectors that are missing in the collection of a job; see `augmented.fill`.

        Raises:
            MissingExtraError: if ray_qdrant is not installed.
            StoreError: if Ray or the server cannot be reached, or as `sinks.fill`.
        """
        from surprise_rerank.connectors.ray.sinks import fill  # which needs ray_qdrant

        self.connect()
        fill(location, corpus, ensemble, self._actors)

    def connect(self) -> None:
        """Start Ray, or connect to it, unless this process has done so.

        Raises:
            StoreError: if there is no cluster at the address.
        """
        self._is_ours = ray_pipeline.connect(self._address, self._init) or self._is_ours


def encode_chunks(
    folder: Path, shared: SharedObject[Model], tokens: TokenForm | None
) -> Callable[[Row], Row]:
    """Encodes chunks and stores them; loads the model when the first chunk needs it."""
    model = shared.get()
    load = cache(model.load)

    def encode(row: Row) -> Row:
        if row["skipped"] is not None:
            return row
        columns = zip(row["ids"], row["titles"], row["texts"], strict=True)
        chunk = [Document(name, text, title) for name, title, text in columns]
        store_documents(folder, row["name"], chunk, load, model=model.name, tokens=tokens)
        return {"name": row["name"], "count": len(chunk)}

    return encode


def partial_ensembles(folder: Path, device: str) -> Callable[[Row], Row]:
    """Computes partial ensembles."""
    corpus = EncodedCorpus.open(folder)
    return lambda row: {"content": corpus.partial_ensemble(row["number"], device).to_bytes()}


def measure_moments(task: ScoringTask) -> Callable[[Row], Row]:
    """Computes blocks of DynaMax's moments."""
    moments = moments_of(task)
    return lambda row: {"count": moments.compute(row["number"])}


def score_parts(task: ScoringTask) -> Callable[[Row], Row]:
    """Computes parts of a result and writes them."""
    scorer = PartScorer(task)
    return lambda row: {"number": row["number"], "count": scorer(row["number"])}


def _shared(documents: Sources) -> list[tuple[str, SharedObject[Iterable[Document]]]]:
    """Name and object of each source.

    Raises:
        DataError: if a source cannot be sent to the workers.
    """
    named = zip(documents.names, documents.sources, strict=True)
    return [(name, SharedObject(source, f"the source {name!r}")) for name, source in named]


def _count_documents(source: SharedObject[Iterable[Document]]) -> Iterator[Any]:
    yield table_of(count=sum(1 for _ in source.get()))


def _read_chunks(number: int, name: str, shared: SharedObject[Iterable[Document]]) -> Iterator[Any]:
    """A row for each chunk, and a last one with what the source has skipped."""
    source = shared.get()
    for place, chunk in enumerate(chunks_of(source)):
        yield table_of(
            name=chunk_name(number, place),
            ids=[d.id for d in chunk],
            titles=[d.title for d in chunk],
            texts=[d.text for d in chunk],
        )
    yield table_of(number=number, skipped=json.dumps(skipped_by([name], [source])))


def _absolute(task: ScoringTask) -> ScoringTask:
    """The same with paths that do not depend on where a worker was started."""
    paths = ("queries", "keys", "ensemble", "parts")
    return replace(task, **{name: getattr(task, name).absolute() for name in paths})
