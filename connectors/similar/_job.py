"""A job: read, encode once, and compare part by part; what is done stays done."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError
from surprise_rerank.connectors._document_index import DocumentIndex
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.connectors.qdrant._location import shown_url
from surprise_rerank.connectors.readers import DocumentSource, from_iterable
from surprise_rerank.connectors.similar import _corpus as corpus
from surprise_rerank.connectors.similar import _results as results
from surprise_rerank.connectors.similar._comparing import MOMENTS, PartComparison
from surprise_rerank.connectors.similar._corpus import Batch, Corpus, Encoding
from surprise_rerank.connectors.similar._folder import (
    EXTRA,
    Run,
    close_folder,
    no_empty_folder,
    open_folder,
    run_here,
    write_array,
)
from surprise_rerank.connectors.similar._settings import DUPLICATE, SimilaritySettings
from surprise_rerank.core._computing import available_devices, device_of
from surprise_rerank.core._extras import import_extra
from surprise_rerank.encoders._adapting import as_encoder
from surprise_rerank.encoders._loading import DEFAULT_MODEL, load_encoder
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.surprise._ensemble import Ensemble

# Documents, rows of a table, pairs of id and text; or (ids, (n, d) vectors).
Documents: TypeAlias = DocumentSource | Iterable[Any] | tuple[Any, Any]

_DEFAULTS = SimilaritySettings()


def similar_documents(
    documents: Documents | None,
    settings: SimilaritySettings = _DEFAULTS,
    *,
    against: Documents | None = None,
    index: str | None = None,
    encoder: Encoder | str | None = None,
    folder: str | os.PathLike[str] | None = None,
    run: Run = run_here,
    device: str | None = None,
    show_progress: bool = False,
) -> SimilarDocuments:
    """Find the nearest neighbours of every document.

    >>> vectors = np.eye(4, 3) + np.eye(4, 3, -1) / 2
    >>> found = similar_documents((["a", "b", "c", "d"], vectors), SimilaritySettings(k=1))
    >>> [(row["document"], row["neighbour"]) for row in found.table().to_pylist()]
    [('a', 'b'), ('b', 'a'), ('c', 'd'), ('d', 'c')]

    Args:
        documents: whose neighbours are looked for: `Document`s (or mappings, or pairs of id and text), what
            `open_documents` opens, or (ids, (n, d) vectors); None for those of the index.
        settings: how many neighbours, by what, found how.
        against: the documents that may be neighbours; the same where None, or those of the index.
        index: a folder, or `http://host:6333/NAME`: its documents may be neighbours.
        encoder: the model, or its name; not used where vectors are given.
        folder: keeps what is done, so that the same call goes on after a kill; a temporary one where None.
            Workers of other machines must see it.
        run: does the parts: a loop of this process, or `RayCluster(...).run`.
        device: `cpu`, `cuda`, ...; a GPU where there is one.
        show_progress: bars on the error stream.

    Raises:
        DataError: if there are no documents, an id is of two texts, or arguments do not fit together.
        StoreError: if the folder is another job's, or a disk or server cannot be used.
        ModelError: if the model cannot be loaded.
    """
    border.instance("settings", settings, SimilaritySettings)
    border.optional(border.path, "folder", folder)
    border.optional(border.text, "device", device)
    border.function("run", run)
    border.flags(show_progress=show_progress)
    if documents is None or settings.search == "graph":
        border.present("index", index, "give one, or documents without search='graph'")
    border.not_both("give the documents that may be neighbours once", against=against, index=index)
    place = device or next((name for name in available_devices() if name.startswith("cuda")), "cpu")
    if run is run_here:
        device_of(place)
    temporary = tempfile.TemporaryDirectory(prefix="similar-") if folder is None else None
    work = Path(temporary.name if temporary else os.fspath(folder or "")).absolute()
    job = _Job(work, settings, encoder, run, place, Terminal(quiet=not show_progress))
    return job.done(documents, against, index, temporary)


class SimilarDocuments:
    """The pairs that `similar_documents` has found, in parts in a folder.

    Args:
        task: what was computed.
        temporary: a folder that goes with this object.
    """

    def __init__(self, task: PartComparison, temporary: tempfile.TemporaryDirectory[str] | None) -> None:
        self._task, self._temporary = task, temporary
        self.documents = Corpus(task.folder / "documents")
        self.against = None if task.keys == "documents" else Corpus(task.folder / task.keys)

    def tables(self) -> Iterator[Any]:
        """The pairs as Arrow tables, a part each, and those of copies: the first document of the text."""
        yield from results.pairs(self._task.paths())
        if self.documents.copies:
            yield self._copies()

    def table(self) -> Any:
        """The pairs as one Arrow table: document, neighbour, rank, surprise, cosine, and dynamax."""
        return import_extra("pyarrow", EXTRA).concat_tables(self.tables())

    def write(self, path: str | os.PathLike[str]) -> int:
        """Write the pairs as .parquet, .csv or .jsonl; returns how many there are."""
        return results.write(Path(path), self.tables())

    def groups(self, least: float | None = None) -> Any:
        """Groups of near-duplicates as an Arrow table; see `results.groups`.

        Args:
            least: the similarity from which on two documents are near-duplicates; .95 for the cosine, .9 for
                DynaMax where None.
        """
        similarity = self._task.settings.similarity
        column = "dynamax" if similarity == "dynamax" else "cosine"
        threshold = DUPLICATE[similarity] if least is None else least
        return results.groups(self._task.paths(), self.documents, self.against, column, threshold)

    def forget(self) -> None:
        """Delete the folder, when the result is written elsewhere."""
        close_folder(self._task.folder)

    def _copies(self) -> Any:
        pyarrow = import_extra("pyarrow", EXTRA)
        names, rows = zip(*self.documents.copies, strict=True)
        schema = next(results.pairs(self._task.paths())).schema
        count = len(names)
        values = {
            "document": list(names),
            "neighbour": self.documents.ids.take(pyarrow.array(rows)),
            "rank": [1] * count,
            "surprise": [None] * count,
            "cosine": [1.0] * count,
            "dynamax": [1.0] * count,
        }
        return pyarrow.table([pyarrow.array(values[f.name], f.type) for f in schema], schema=schema)


class _Job:
    """The stages of a job in its folder."""

    def __init__(
        self,
        folder: Path,
        settings: SimilaritySettings,
        encoder: Encoder | str | None,
        run: Run,
        device: str,
        terminal: Terminal,
    ) -> None:
        self._folder, self._settings, self._run, self._device = folder, settings, run, device
        self._encoder, self._terminal = encoder, terminal
        self._tokens = settings.similarity == "dynamax"

    def done(
        self,
        documents: Documents | None,
        against: Documents | None,
        index: str | None,
        temporary: tempfile.TemporaryDirectory[str] | None,
    ) -> SimilarDocuments:
        """Do what is missing."""
        sources = {"documents": documents, "against": against}
        encodes = any(value is not None and not _is_vectors(value) for value in sources.values())
        load = self._model(index) if encodes else None
        job = {**asdict(self._settings), "model": _identity(load), "index": index and shown_url(index)}
        open_folder(self._folder, job)
        keys = "documents" if against is None and (index is None or documents is None) else "against"
        with no_empty_folder(self._folder):
            if index is not None:
                with closing(DocumentIndex.open(index, None)) as opened:
                    self._read(keys, corpus.of_index(opened, self._tokens, self._settings.tenant))
            for name, value in sources.items():
                if value is not None:
                    self._read(name, _batches(value, name, self._tokens))
            for name in dict.fromkeys(("documents", keys)):
                self._encode(name, load)
        task = PartComparison(self._folder, self._settings, keys, self._device, index)
        self._measure(keys)
        paths = task.paths()
        missing = [number for number, path in enumerate(paths) if not path.exists()]
        with self._terminal.bar("comparing", len(paths), "parts") as advance:
            advance(len(paths) - len(missing))
            if missing:
                self._run(task, missing, advance)
        return SimilarDocuments(task, temporary)

    def _model(self, index: str | None) -> Callable[[], Encoder]:
        encoder = self._encoder
        if encoder is None and index is not None:
            with closing(DocumentIndex.open(index, None)) as opened:
                encoder = opened.manifest.model
        if encoder is None or isinstance(encoder, str):
            name = encoder or DEFAULT_MODEL
            place = os.path.abspath(name) if os.path.exists(name) else name
            if self._run is not run_here:
                return partial(load_encoder, place, None)
            encoder = load_encoder(place, self._device)
        return partial(_same, as_encoder(encoder))

    def _read(self, name: str, batches: Iterable[Batch]) -> None:
        with self._terminal.bar("reading", None, "documents") as advance:
            corpus.store(self._folder / name, _counted(batches, advance))

    def _encode(self, name: str, load: Callable[[], Encoder] | None) -> None:
        folder = self._folder / name
        missing = Corpus.missing(folder)
        if missing and load is not None:
            with self._terminal.bar("encoding", len(missing), "parts") as advance:
                self._run(Encoding(folder, load, self._tokens), missing, advance)

    def _measure(self, keys: str) -> None:
        """Mean and deviation of the similarity of each document that may be a neighbour to all of them."""
        searched, queries = Corpus(self._folder / keys), Corpus(self._folder / "documents")
        dimension = queries.dense.shape[1]
        border.equal("the dimension of the documents", dimension, searched.dense.shape[1], "use one model")
        if not (self._folder / MOMENTS).exists():
            ensemble = Ensemble.from_vectors(searched.dense, sample_size=0)
            moments = ensemble.moments(searched.dense)
            write_array(self._folder / MOMENTS, np.stack([moments.mean, moments.deviation]))


def _same(encoder: Encoder) -> Encoder:
    return encoder


def _identity(load: Callable[[], Encoder] | None) -> str | None:
    if load is None:
        return None
    encoder = load()
    return f"{encoder.name} ({encoder.fingerprint[:12]})"


def _is_vectors(documents: Documents) -> bool:
    if not isinstance(documents, tuple) or len(documents) != 2:
        return False
    return not isinstance(documents[1], str | dict | Document | tuple)


def _batches(documents: Documents, name: str, tokens: bool) -> Iterator[Batch]:
    if _is_vectors(documents):
        if tokens:
            raise DataError("dynamax compares token vectors, and (ids, vectors) have none; give the texts")
        ids, vectors = cast(tuple[Any, Any], documents)
        return corpus.of_vectors(ids, vectors)
    return corpus.of_documents(
        documents if isinstance(documents, DocumentSource) else from_iterable(documents, name=name)
    )


def _counted(batches: Iterable[Batch], advance: Callable[[int], None]) -> Iterator[Batch]:
    for batch in batches:
        yield batch
        advance(len(batch[0]))
