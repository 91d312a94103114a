"""A job: it encodes documents, makes their ensemble, and computes neighbours part by part.

The folder of a job holds everything that is done. The same job run again continues with what is missing:

    documents/  against/     the corpora (`corpus.py`)
    ensemble-DIGITS.npz      of the documents that may be neighbours
    parts-DIGITS/            the parts of the result, each complete or absent
"""

from __future__ import annotations

import errno
import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.similar import corpus as corpora
from surprise_rerank.connectors.similar.corpus import CHUNK_FILE, EncodedCorpus, form_of, made_in
from surprise_rerank.connectors.similar.encoding import CHUNK, Model, Vectors, store_vectors
from surprise_rerank.connectors.similar.folder import delete_stale_files
from surprise_rerank.connectors.similar.index import augmented
from surprise_rerank.connectors.similar.index.location import IndexLocation
from surprise_rerank.connectors.similar.outputs import part_batches
from surprise_rerank.connectors.similar.settings import USUAL, SimilaritySettings
from surprise_rerank.connectors.similar.threads import Threads
from surprise_rerank.connectors.similar.workers import ScoringTask, Sources, Workers
from surprise_rerank.core.files import disk_errors, whole_file
from surprise_rerank.core.tokens import TokenForm
from surprise_rerank.errors import DataError, StoreError
from surprise_rerank.surprise.ensemble import Ensemble

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class SimilarityJob:
    """The most surprising neighbours of every document.

    Args:
        folder: of the job; what it holds of the same job is not computed again.
        settings: what is computed.
        model: encodes documents; not needed where their vectors are given.
        workers: do the work; threads of this process by default.
        device: where products are computed: `cpu`, `cuda`, ...
        index: where the index of mode `index` is; in the job's folder by default.
        show_progress: bars on the error stream.

    Attributes:
        documents: the corpus whose neighbours are looked for; set by `prepare`.
        neighbours: the corpus of the documents that may be neighbours; set by `prepare`.
    """

    documents: EncodedCorpus
    neighbours: EncodedCorpus

    def __init__(
        self,
        folder: Path,
        settings: SimilaritySettings,
        *,
        model: Model | None = None,
        workers: Workers | None = None,
        device: str = "cpu",
        index: IndexLocation | None = None,
        show_progress: bool = False,
    ) -> None:
        self.folder, self.settings = folder, settings
        self._model, self._device = model, device
        self._index = index or IndexLocation()
        self._workers = workers or Threads()
        self._terminal = Terminal(quiet=not show_progress)
        self._task: ScoringTask | None = None

    def prepare(self, documents: Sources | Vectors, against: Sources | Vectors | None = None) -> None:
        """Encode what is not encoded yet, measure the ensemble, and fill the index where there is one.

        Args:
            documents: whose neighbours are looked for.
            against: which may be neighbours; the same documents where None.

        Raises:
            DataError: if there are none, an id is a duplicate, a row is malformed (unless such rows are
                skipped), or the folder holds another job.
            StoreError: if the disk is full, or cannot be used.
        """
        if self._device != "cpu":
            from surprise_rerank.core.device import device_of  # which needs torch

            device_of(self._device)  # before anything is encoded
        if self.settings.mode == "index":
            # Before anything is encoded.
            augmented.require_shared(self._index, self._workers)
            augmented.require_reachable(self._index)
        queries = self._corpus(documents, "documents", self.settings.token_form)
        keys = queries
        if against is not None:
            keys = self._corpus(against, "against", queries.token_form)
        if self.settings.needs_tokens:
            _require_alike(queries, keys, self.settings.token_form)
        if queries.dimension != keys.dimension:
            raise DataError(
                f"vectors of dimension {queries.dimension} cannot be compared with vectors of dimension "
                f"{keys.dimension}; use one model for both"
            )
        delete_stale_files(self.folder)
        ensemble = self._ensemble_file(keys)
        # A document is no neighbour of its own in one corpus, but of its copy in another one.
        compared = queries.content if against is None else f"{queries.content}-{keys.content}"
        parts = self.folder / f"parts-{self.settings.digest}-{compared}"
        with disk_errors(str(parts)):
            parts.mkdir(exist_ok=True)
        index = None
        if self.settings.mode == "index":
            index = self._index.of_job(self.folder)
            augmented.fill(index, keys, ensemble, self._workers, self._terminal, self._device)
        task = ScoringTask(queries.folder, keys.folder, ensemble, parts, self.settings, self._device, index)
        if self.settings.needs_tokens:
            with self._terminal.bar("measuring", len(keys), "documents") as advance:
                self._workers.measure(task, advance)
        self._task = task
        self.documents, self.neighbours = queries, keys

    @property
    def task(self) -> ScoringTask:
        """What is computed of what.

        Raises:
            DataError: before `prepare`.
        """
        if self._task is None:
            raise DataError("the job is not prepared yet; call prepare(documents) first")
        return self._task

    @property
    def ensemble(self) -> Ensemble:
        """Of the documents that may be neighbours."""
        return Ensemble.load(self.task.ensemble)

    def parts(self) -> Generator[Path, None, None]:
        """The parts of the result in the order of the documents, each when it is there; see `batches`.

        Raises:
            StoreError: if the disk is full, or cannot be used; what is there stays.
        """
        task, count = self.task, self.task.count(len(self.documents))
        missing = [number for number in range(count) if not task.path(number).exists()]
        done = set(range(count)) - set(missing)
        with self._terminal.bar("comparing", len(self.documents), "documents") as advance:
            advance(sum(len(task.rows(number, len(self.documents))) for number in done))
            computed = self._workers.score(task, missing, advance) if missing else iter(())
            for number in range(count):
                while number not in done:
                    done.add(next(computed))
                yield task.path(number)

    def batches(self) -> Iterator[Any]:
        """The result as `pyarrow.RecordBatch`es of one schema, in the order of the documents."""
        for path in self.parts():
            yield from part_batches(path)

    @contextmanager
    def full_disk_errors(self) -> Iterator[None]:
        """Add to the error of a full disk what of the job is done, and where it is.

        Raises:
            StoreError: if the block failed because the disk is full.
        """
        try:
            yield
        except (StoreError, OSError) as error:
            if not _is_full(error):
                raise
            raise StoreError(
                f"the disk is full: {self._progress()}; free some space and run the same again, it goes on "
                "from there"
            ) from error

    def _progress(self) -> str:
        """How far the job is, and in which folder."""
        if self._task is None:
            chunks = (json.loads(path.read_bytes()) for path in self.folder.glob(f"*/chunk-*/{CHUNK_FILE}"))
            return f"{sum(chunk['rows'] for chunk in chunks)} documents are encoded, in {self.folder}"
        task, total = self._task, len(self.documents)
        done = sum(len(task.rows(n, total)) for n in range(task.count(total)) if task.path(n).exists())
        return f"{done} of {total} documents are done, in Parquet files that can be read, in {task.parts}"

    def _ensemble_file(self, corpus: EncodedCorpus) -> Path:
        """The file of a corpus's ensemble, which is made if it is not there."""
        path = self.folder / f"ensemble-{corpus.content}.npz"
        with disk_errors(str(path)):
            if not path.exists():
                ensemble = self._workers.ensemble(corpus, self._device)
                with whole_file(path) as file:
                    file.write(ensemble.to_bytes())
        return path

    def _corpus(self, documents: Sources | Vectors, name: str, form: TokenForm | None) -> EncodedCorpus:
        """The corpus of a folder; encoded documents get the form of token vectors that is given, if any."""
        folder = self.folder / name
        if isinstance(documents, Vectors):
            if self.settings.needs_tokens and not documents.tokens:
                raise DataError(
                    f"{documents.name}: {self.settings.similarity!r} compares token vectors, and there are "
                    "none; give documents and a model, or choose similarity 'cosine'"
                )
            made = {"sources": [documents.name], "model": "", "tokens": documents.tokens, "chunk": 0}
            if documents.tokens:
                made |= made_in(documents.form)
            corpora.begin(folder, made)
            return corpora.complete(folder, [], store_vectors(folder, documents))
        if self._model is None:
            raise DataError("documents need a model that encodes them; give model=, or their vectors")
        # What was encoded with its tokens serves the cosine, too.
        before = (corpora.read_metadata(folder) or {}).get("made_of", {})
        tokens = None
        if self.settings.needs_tokens or before.get("tokens"):
            tokens = form or form_of(before) or USUAL
        made_of = {
            "sources": list(documents.names),
            "model": self._model.name,
            "tokens": tokens is not None,
            "chunk": CHUNK,
            **made_in(tokens),
        }
        corpora.begin(folder, made_of)
        with self._terminal.bar(f"reading {name}", documents.expected, "documents") as advance:
            total, documents = self._workers.count(documents, advance)
        with self._terminal.bar(f"encoding {name}", total, "documents") as advance:
            names, skipped = self._workers.encode(folder, documents, self._model, tokens, advance)
        return corpora.complete(folder, skipped, names)


def _require_alike(queries: EncodedCorpus, keys: EncodedCorpus, wanted: TokenForm | None) -> None:
    """Refuse token vectors of two forms, whose similarities would not be of one kind."""
    for corpus in (queries, keys):
        expected = wanted or queries.token_form
        if corpus.token_form != expected:
            where = ", ".join(corpus.made_of["sources"])
            raise DataError(
                f"the token vectors of {where} are stored as {corpus.token_form}, and {expected} was "
                "expected; leave out pooling (--pooling), or give "
                "documents that are encoded"
            )


def _is_full(error: BaseException | None) -> bool:
    while error is not None:
        # numpy gives no number for what a disk did not take, and an embedded index looks before it writes.
        if isinstance(error, OSError) and (error.errno in _FULL or " requested and " in str(error)):
            return True
        if isinstance(error, StoreError) and "the disk is full" in str(error):
            return True
        error = error.__cause__
    return False
