"""Every document's most surprising neighbours as a stream of Arrow record batches."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from surprise_rerank.connectors.readers import DocumentSource, from_iterable
from surprise_rerank.connectors.readers.iterables import Item
from surprise_rerank.connectors.similar.encoding import Model, Vectors
from surprise_rerank.connectors.similar.index.location import IndexLocation
from surprise_rerank.connectors.similar.job import SimilarityJob
from surprise_rerank.connectors.similar.settings import SimilaritySettings
from surprise_rerank.connectors.similar.workers import Sources, Workers
from surprise_rerank.core.arrays import FloatArray
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.loading import DEFAULT_MODEL, load_encoder
from surprise_rerank.errors import DataError

# Documents, rows of a table, or pairs of id and text; or (ids, (n, d) vectors).
Documents: TypeAlias = DocumentSource | Iterable[Item] | tuple[Sequence[str], FloatArray] | Vectors

_DEFAULTS = SimilaritySettings()
_CHUNK = 8192  # vectors of a chunk


def neighbours(
    documents: Documents,
    settings: SimilaritySettings = _DEFAULTS,
    *,
    against: Documents | None = None,
    encoder: Encoder | str = DEFAULT_MODEL,
    work: str | os.PathLike[str] | None = None,
    workers: Workers | None = None,
    index: IndexLocation | None = None,
    device: str | None = None,
    show_progress: bool = False,
) -> Iterator[Any]:
    """The neighbours of every document, in the order of the documents, each document's best first.

    Work begins with the first batch that is asked for; batches come while others are computed. Documents are
    read once, and never held together in memory.

    >>> vectors = np.eye(4, 3) + np.eye(4, 3, -1) / 2
    >>> found = neighbours((["a", "b", "c", "d"], vectors), SimilaritySettings(k=1))
    >>> [(row["document"], row["neighbour"]) for batch in found for row in batch.to_pylist()]
    [('a', 'b'), ('b', 'a'), ('c', 'd'), ('d', 'c')]

    Args:
        documents: whose neighbours are looked for: an iterable of `Document`s (or mappings, or pairs of id
            and text; a generator will do), what `open_documents` opens, or (ids, (n, d) vectors).
        settings: how many neighbours, over which similarity, found how.
        against: the documents that may be neighbours; the same where None.
        encoder: the model, or its name; not used where vectors are given.
        work: a folder that keeps what is done, so that a later call continues, or computes something else
            of the same vectors; where None, a folder that is deleted at the end.
        workers: do the work; threads of this process where None.
        index: where the index of mode `index` is; embedded in the work folder where None.
        device: `cpu`, `cuda`, ...; a GPU where there is one.
        show_progress: bars on the error stream.

    Yields:
        `pyarrow.RecordBatch`es with the columns document, neighbour, rank, surprise (z), probability, and
        cosine or dynamax, or both.

    Raises:
        DataError: if there are no documents, an id is a duplicate, something is no document, or vectors do
            not fit.
        StoreError: if the disk is full, or cannot be used.
        ModelError: if the model cannot be loaded.
        MissingExtraError: if pyarrow is not installed.
    """
    place = device or best_device()
    queries = _given(documents, "documents")
    keys = None if against is None else _given(against, "against")
    encodes = isinstance(queries, Sources) or isinstance(keys, Sources)
    with ExitStack() as stack:
        folder = work or stack.enter_context(tempfile.TemporaryDirectory(prefix="similar-"))
        job = SimilarityJob(
            Path(folder),
            settings,
            model=model_of(encoder, place, remote=workers is not None) if encodes else None,
            workers=workers,
            device=place,
            show_progress=show_progress,
            index=index,
        )
        job.prepare(queries, keys)
        yield from job.batches()


def best_device() -> str:
    """`cuda` where torch finds a GPU, else `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def model_of(encoder: Encoder | str, device: str, *, remote: bool = False) -> Model:
    """A model for a job, known by its name and weights.

    Args:
        encoder: the model, or its name; it is loaded here, so that an error is raised at once.
        device: where a model of a name computes.
        remote: whether workers of other processes load it by its name, too; here it is loaded for its
            weights' digits only, without a device that only they may have.

    Raises:
        ModelError: if it cannot be loaded.
    """
    if not isinstance(encoder, str):
        return Model(_identity(encoder), partial(_the_same, encoder))
    name = os.path.abspath(encoder) if os.path.exists(encoder) else encoder
    loaded = load_encoder(name, "cpu" if remote else device, backend="auto")
    again = partial(load_encoder, name, device, backend="auto")
    return Model(_identity(loaded), again if remote else partial(_the_same, loaded))


def _identity(encoder: Encoder) -> str:
    return f"{encoder.name} ({encoder.fingerprint[:12]})"


def _the_same(encoder: Encoder) -> Encoder:
    return encoder


def _given(documents: Documents, name: str) -> Sources | Vectors:
    if isinstance(documents, Vectors):
        return documents
    if isinstance(documents, DocumentSource):
        return Sources([documents.name], [documents])
    vectors = _vectors(documents[1]) if isinstance(documents, tuple) and len(documents) == 2 else None
    if vectors is not None:
        ids = documents[0]  # type: ignore[index]  # a tuple
        if len(ids) != len(vectors):
            raise DataError(f"{name}: {len(ids)} ids for {len(vectors)} vectors; give one for each")
        return Vectors(name, _Slices(ids, vectors))
    source = from_iterable(documents, name=name)  # type: ignore[arg-type]  # vectors are no documents
    # A source that can be read only once stays an iterator, so that it is not counted first.
    return Sources([name], [iter(source) if isinstance(documents, Iterator) else source])


def _vectors(given: object) -> FloatArray | None:
    """The second of two as vectors; None where it is a document."""
    if isinstance(given, np.ndarray) or given is None:
        return given
    if isinstance(given, str | Mapping | Document):
        return None
    try:
        found = np.asarray(given)
    except (TypeError, ValueError):  # rows of several lengths
        return None
    return found if found.ndim == 2 and found.dtype.kind in "fiu" else None


class _Slices:
    """(ids, vectors) a chunk at a time, again and again."""

    def __init__(self, ids: Sequence[str], vectors: FloatArray) -> None:
        self._ids, self._vectors = ids, vectors

    def __iter__(self) -> Iterator[tuple[Sequence[str], Any]]:
        for start in range(0, len(self._ids), _CHUNK):
            part = slice(start, start + _CHUNK)
            yield self._ids[part], self._vectors[part]
