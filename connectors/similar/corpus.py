"""Encoded documents in a folder, in chunks. Every stage and every worker of a job reads them.

    corpus.json                   what it is made of; a complete one also has its chunks and what was skipped
    chunk-00000-0000000/          the first thousand documents of the first source
        chunk.json ids.arrow vectors.npy [tokens.npy and what belongs to them, see `_TOKENS`]
    moments/                      of blocks of rows, over the ensemble of the whole corpus

A chunk is complete or absent, and depends on its documents and the model alone. After a kill, the next run
continues with the chunks that are missing. Workers on other machines need the folder on a shared file system.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from surprise_rerank.core.arrays import Float32Array, Float64Array, IntArray
from surprise_rerank.core.extras import import_extra
from surprise_rerank.core.files import disk_errors, whole_file, whole_folder
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.tokens import TokenBatch, TokenForm
from surprise_rerank.core.tokens.members import Members, offsets_of, rows_of
from surprise_rerank.errors import DataError, StoreError
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.neighbours import KEY_BLOCK, Keys

EXTRA = "similar"  # the extra with pyarrow
NAMES = ("documents", "against")  # of a job's corpora
CORPUS_FILE, CHUNK_FILE = "corpus.json", "chunk.json"
_FORM = "token form"
_IDS, _VECTORS = "ids.arrow", "vectors.npy"
# Token vectors in int8, what scales them to length 1, where those of each document begin, and, where tokens
# were merged, the vector of each token and where those of each document begin.
_TOKENS = ("tokens", "token-scales", "token-offsets", "token-owners", "token-members")
# Rows whose moments are merged before they are merged with others, always in the same order.
ENSEMBLE_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some consecutive documents.

    Attributes:
        name: of its folder.
        first: the row of the first one.
        rows: how many there are.
    """

    name: str
    first: int
    rows: int


def store_chunk(
    folder: Path,
    name: str,
    digest: str,
    ids: Sequence[str],
    vectors: Float32Array,
    tokens: TokenBatch | None = None,
) -> None:
    """Write a chunk, completely or not at all. If another worker has written it meanwhile, that one stays.

    Args:
        folder: of the corpus.
        name: of the chunk.
        digest: of what it is made of; see `is_stored`.
        ids: n of them.
        vectors: (n, d) unit vectors.
        tokens: of n texts, where token vectors are compared.

    Raises:
        StoreError: if the disk is full, or cannot be written.
    """
    pyarrow = import_extra("pyarrow", EXTRA)
    ipc = import_extra("pyarrow.ipc", EXTRA)
    if is_stored(folder, name, digest):
        return
    with disk_errors(str(folder)), _ignored_if_stored(folder, name, digest):
        shutil.rmtree(folder / name, ignore_errors=True)  # made of something else
        with whole_folder(folder / name) as draft:
            np.save(draft / _VECTORS, np.ascontiguousarray(vectors, np.float32))
            column = pyarrow.array(list(ids), pyarrow.large_string())
            batch = pyarrow.record_batch([column], names=["id"])
            with pyarrow.OSFile(str(draft / _IDS), "wb") as sink, ipc.new_file(sink, batch.schema) as writer:
                writer.write_batch(batch)
            if tokens is not None:
                for kind, values in zip(_TOKENS, token_arrays(tokens), strict=False):
                    np.save(draft / f"{kind}.npy", values)
            about = {"digest": digest, "rows": len(ids)}
            (draft / CHUNK_FILE).write_text(json.dumps(about), encoding="utf-8")


def token_arrays(tokens: TokenBatch) -> tuple[npt.NDArray[Any], ...]:
    """What is stored of token vectors; see `_TOKENS`."""
    own = tokens.stored("int8")
    kept = (own.directions, own.scales, own.offsets)
    if own.members is None:
        return kept
    return (*kept, own.members.owners.astype(np.uint16), own.members.offsets)


@contextmanager
def _ignored_if_stored(folder: Path, name: str, digest: str) -> Iterator[None]:
    """Ignore an error where another worker has stored the same chunk meanwhile."""
    try:
        yield
    except OSError:
        if not is_stored(folder, name, digest):
            raise


def is_stored(folder: Path, name: str, digest: str) -> bool:
    """Whether a chunk of the same content is stored."""
    try:
        return bool(json.loads((folder / name / CHUNK_FILE).read_text(encoding="utf-8"))["digest"] == digest)
    except (OSError, ValueError, LookupError):
        return False


def begin(folder: Path, made_of: Mapping[str, Any]) -> None:
    """Make the folder of a corpus, or continue one that is made of the same.

    Args:
        folder: where.
        made_of: JSON: sources, model, chunk size.

    Raises:
        DataError: if it holds another corpus.
        StoreError: if it cannot be written.
    """
    found = read_metadata(folder)
    if found is not None and found["made_of"] != dict(made_of):
        before = found["made_of"]
        differing = sorted(key for key in {**before, **made_of} if before.get(key) != made_of.get(key))
        raise DataError(
            f"{folder} holds the corpus of another job (not the same {', '.join(differing)}); delete it, or "
            "choose another work folder"
        )
    if found is None:
        with disk_errors(str(folder)):
            if folder.exists() and any(not path.name.startswith(".") for path in folder.iterdir()):
                raise StoreError(
                    f"{folder} holds other files than those of a job; choose another work folder"
                )
            folder.mkdir(parents=True, exist_ok=True)
            _write_metadata(folder, {"made_of": dict(made_of)})


def complete(folder: Path, skipped: Sequence[Mapping[str, Any]], names: Sequence[str]) -> EncodedCorpus:
    """Mark a corpus as complete.

    Args:
        folder: of the corpus.
        skipped: what was left out of the sources, as `surprise-rerank index` reports it.
        names: of the chunks, in the order of the documents.

    Raises:
        DataError: if there are no documents, or an id is a duplicate.
        StoreError: if a chunk is missing, or the disk is full.
    """
    about = read_metadata(folder) or {}
    with disk_errors(str(folder)):
        chunks = [json.loads((folder / name / CHUNK_FILE).read_text(encoding="utf-8")) for name in names]
        rows = [int(chunk["rows"]) for chunk in chunks]
        content = hashlib.sha256("".join(chunk["digest"] for chunk in chunks).encode()).hexdigest()[:12]
        if not sum(rows):
            raise DataError(f"there are no documents in {', '.join(about['made_of']['sources'])}")
        listed = list(zip(names, rows, strict=True))
        done = {**about, "skipped": list(skipped), "chunks": listed, "content": content}
        corpus = EncodedCorpus(folder, done)
        corpus.require_unique()
        _write_metadata(folder, done)
    return corpus


def read_metadata(folder: Path) -> dict[str, Any] | None:
    """The content of a corpus's `corpus.json`; None where there is none."""
    path = folder / CORPUS_FILE
    with disk_errors(str(folder)):
        if not path.exists():
            return None
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            _ = about["made_of"]
        except (ValueError, LookupError, TypeError) as error:
            raise StoreError(
                f"{path} is damaged, or not surprise-rerank's; choose another work folder"
            ) from error
    return dict(about)


def made_in(form: TokenForm | None) -> dict[str, Any]:
    """What a corpus is made of besides, by the form of its token vectors."""
    return {} if form is None else {_FORM: form.to_json()}


def form_of(made_of: Mapping[str, Any]) -> TokenForm | None:
    """The form that `made_in` told; None without token vectors, or where it is not known."""
    return TokenForm.from_json(made_of[_FORM]) if _FORM in made_of else None


class EncodedCorpus:
    """A complete corpus; workers open it by its folder.

    Args:
        folder: where it is.
        about: what `corpus.json` holds.

    Attributes:
        folder: where it is.
        chunks: in the order of the documents.
        skipped: what was left out of the sources.
        made_of: what it was made of.
        content: digits that differ where its documents, their order or the model do.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self.folder = folder
        self.made_of: Mapping[str, Any] = about["made_of"]
        self.content: str = about["content"]
        self.skipped: list[dict[str, Any]] = about["skipped"]
        firsts = np.cumsum([0, *(rows for _, rows in about["chunks"])]).tolist()
        self.chunks = tuple(
            Chunk(name, first, rows) for (name, rows), first in zip(about["chunks"], firsts, strict=False)
        )
        self._starts = np.array(firsts, np.int64)

    @classmethod
    def open(cls, folder: Path) -> EncodedCorpus:
        """A complete corpus.

        Raises:
            StoreError: if it is not there, or not complete.
        """
        about = read_metadata(folder)
        if about is None or "chunks" not in about:
            raise StoreError(f"{folder} holds no complete corpus; run the job again, it continues")
        return cls(folder, about)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def token_form(self) -> TokenForm | None:
        """The form of its token vectors; None without any."""
        return form_of(self.made_of)

    @cached_property
    def dimension(self) -> int:
        """Dimension d of the vectors."""
        return int(np.load(self.folder / self.chunks[0].name / _VECTORS, mmap_mode="r").shape[1])

    def vectors(self, first: int, last: int) -> Float32Array:
        """(last - first, d) the vectors of some consecutive rows, as a copy."""
        out = np.empty((max(min(last, len(self)) - first, 0), self.dimension), np.float32)
        for chunk in self.chunks[self._chunk_of(first) :]:
            if chunk.first >= last:
                break
            start, stop = max(first, chunk.first), min(last, chunk.first + chunk.rows)
            out[start - first : stop - first] = self._mapped(chunk)[start - chunk.first : stop - chunk.first]
        return out

    def vectors_of(self, rows: IntArray) -> Float32Array:
        """(n, d) the vectors of any rows; only the pages that hold them are read."""
        out = np.empty((len(rows), self.dimension), np.float32)
        for chunk, places in self._by_chunk(rows):
            out[places] = self._mapped(chunk)[rows[places] - chunk.first]
        return out

    def ids(self, rows: IntArray) -> Any:
        """The ids of any rows, as an Arrow array of strings."""
        pyarrow = import_extra("pyarrow", EXTRA)
        ipc = import_extra("pyarrow.ipc", EXTRA)
        parts, places_of = [], []
        for chunk, places in self._by_chunk(rows):
            with pyarrow.memory_map(str(self.folder / chunk.name / _IDS)) as source:
                column = ipc.open_file(source).read_all().column("id").combine_chunks()
                parts.append(column.take(pyarrow.array(rows[places] - chunk.first)))
            places_of.append(places)
        if not parts:
            return pyarrow.array([], pyarrow.large_string())
        order = np.argsort(np.concatenate(places_of), kind="stable")
        return pyarrow.concat_arrays(parts).take(pyarrow.array(order))

    def tokens_of(self, rows: IntArray) -> TokenBatch:
        """The token vectors of any rows, in int8, in which they are compared.

        Raises:
            DataError: if some are damaged; names the folder.
        """
        if not len(rows):
            return TokenBatch.from_arrays([]).stored("int8")
        parts, places_of = [], []
        for chunk, places in self._by_chunk(rows):
            folder = self.folder / chunk.name
            try:
                parts.append(_tokens(folder, rows[places] - chunk.first))
            except (OSError, ValueError, IndexError) as error:
                raise DataError(
                    f"the token vectors in {folder} are damaged ({error}); delete the work folder, and run "
                    "the job again"
                ) from error
            places_of.append(places)
        return TokenBatch.concatenate(parts).take(np.argsort(np.concatenate(places_of), kind="stable"))

    def keys(self, ensemble: Ensemble, first: int, device: str = "cpu") -> Keys:
        """The block of rows that begins at a multiple of `KEY_BLOCK`, with their moments.

        Moments are computed once and stored, so that all workers use the same.
        """
        last = min(first + KEY_BLOCK, len(self))
        vectors = self.vectors(first, last)
        path = self._moments_path(first)
        with disk_errors(str(self.folder)):
            if not path.exists():
                with _one_thread():
                    own = ensemble.moments(vectors, device=device)
                path.parent.mkdir(exist_ok=True)
                with whole_file(path) as file:
                    np.save(file, np.stack([own.mean, own.deviation]))
                return Keys(vectors, own, first)
            mean, deviation = np.load(path)
        return Keys(vectors, Moments(mean, deviation), first)

    def moments_of(self, ensemble: Ensemble, rows: IntArray) -> Moments:
        """(n,) the moments of any rows; only the pages that hold them are read.

        Raises:
            StoreError: if the disk cannot be read or written.
        """

        def block(first: int) -> Float64Array:
            path = self._moments_path(first)
            if not path.exists():
                self.keys(ensemble, first)  # stores them
            stored: Float64Array = np.load(path, mmap_mode="r")
            return stored

        with disk_errors(str(self.folder)):
            return moments_of_blocks(rows, KEY_BLOCK, block)

    def _moments_path(self, first: int) -> Path:
        """The file of the moments of a block of rows: (2, n) means and deviations."""
        return self.folder / "moments" / f"{self.content}-{first:012d}.npy"

    def key_blocks(self) -> range:
        """The first rows of all blocks."""
        return range(0, len(self), KEY_BLOCK)

    def partial_ensemble(self, first: int, device: str = "cpu") -> Ensemble:
        """The ensemble of `ENSEMBLE_ROWS` rows from one on; merged in their order they are the whole."""
        last = min(first + ENSEMBLE_ROWS, len(self))
        blocks = (self.vectors(i, min(i + KEY_BLOCK, last)) for i in range(first, last, KEY_BLOCK))
        with _one_thread():
            return Ensemble.from_batches(blocks, sample_size=0, device=device)

    def ensemble_parts(self) -> range:
        """The first rows of all partial ensembles."""
        return range(0, len(self), ENSEMBLE_ROWS)

    def require_unique(self) -> None:
        """Refuse duplicate ids; this takes 17 bytes a document.

        Raises:
            DataError: if there is one; names it and its documents.
        """
        hashes = np.empty(len(self), np.int64)
        for chunk in self.chunks:
            rows = np.arange(chunk.first, chunk.first + chunk.rows)
            hashes[rows] = [hash_of(name) for name in self.ids(rows).to_pylist()]
        for value in duplicates(hashes):
            rows = np.flatnonzero(hashes == value)[:2]
            one, other = self.ids(rows).to_pylist()
            if one == other:
                raise duplicate_id(one, int(rows[0]) + 1, int(rows[1]) + 1)

    def _chunk_of(self, row: int) -> int:
        return int(np.searchsorted(self._starts, row, side="right")) - 1

    def _by_chunk(self, rows: IntArray) -> list[tuple[Chunk, IntArray]]:
        """Each chunk that has some of the rows, with their places in the list."""
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(owners, kind="stable")
        found, starts = np.unique(owners[order], return_index=True)
        return [
            (self.chunks[owner], places)
            for owner, places in zip(found.tolist(), np.split(order, starts[1:]), strict=bool(len(found)))
        ]

    def _mapped(self, chunk: Chunk) -> Float32Array:
        mapped: Float32Array = np.load(self.folder / chunk.name / _VECTORS, mmap_mode="r")
        return mapped


def moments_of_blocks(rows: IntArray, size: int, block: Callable[[int], Float64Array]) -> Moments:
    """(n,) the moments of any rows.

    Args:
        rows: (n,) of them.
        size: rows of a block.
        block: first row of a block -> (2, size) means and deviations of its rows.
    """
    found = np.empty((2, len(rows)))
    owners = rows // size
    for number in np.unique(owners).tolist():
        places = np.flatnonzero(owners == number)
        found[:, places] = block(number * size)[:, rows[places] - number * size]
    return Moments(*found)


def hash_of(name: str) -> int:
    """64 bits of an id."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little", signed=True)


def duplicate_id(name: str, one: int, other: int, how: str = "") -> DataError:
    """The error of two documents, by their numbers, that have one id."""
    return DataError(
        f"the document id {name!r} is a duplicate: documents {one} and {other} have it{how}; "
        "ids must be unique"
    )


def duplicates(hashes: IntArray) -> list[int]:
    """The values that occur more than once."""
    ascending = np.sort(hashes)
    repeated: list[int] = np.unique(ascending[1:][ascending[1:] == ascending[:-1]]).tolist()
    return repeated


def _one_thread() -> threadpool_limits:
    """Keep the order of sums, and so their last bits, independent of the number of threads."""
    return threadpool_limits(1, user_api="blas")


def _write_metadata(folder: Path, about: Mapping[str, Any]) -> None:
    with whole_file(folder / CORPUS_FILE) as file:
        file.write(json.dumps(about).encode())


def _tokens(folder: Path, rows: IntArray) -> TokenBatch:
    """The token vectors of some documents of a chunk; only the pages that hold them are read."""
    paths = [folder / f"{kind}.npy" for kind in _TOKENS]
    is_merged = paths[-1].exists() or paths[-2].exists()
    arrays = [np.load(path, mmap_mode="r") for path in (paths if is_merged else paths[:3])]
    directions, scales, offsets, *merged = arrays
    own = rows_of(offsets, rows)
    lengths = np.diff(offsets)[rows]
    members = None if not merged else Members(*merged).take(rows)
    factors = scales[own]
    return TokenBatch(
        directions[own], factors, (factors > 0).astype(np.float32), offsets_of(lengths), members=members
    )
