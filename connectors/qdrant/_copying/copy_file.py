"""A copy of an index in one file, which does not depend on how an index stores its points.

Lines of JSON, with arrays of numbers in base64 (little-endian), in this order:

1. `copy`, the number of this form, with `manifest`: the model, the options, and the ensembles;
2. `file` and `content`, of each file beside the points;
3. of every document `id`, `text`, `title`, `metadata`, `source`, `places`, and `passages`: number, start and
   end of each, or null where it is whole. Behind it stands a line for each passage, or for the whole:
   `dense` (float32); `tokens` (float16, of length 1), their `norms` (float32) and, where some were merged,
   `owners` (uint16), the vector of every token; `terms` (uint32) and `values` (float32), of BM25;
4. `documents` and `points`, how many there are, and `sha256` of all lines before.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pybase64

from surprise_rerank._documents import Passage
from surprise_rerank._errors import DataError, IndexMismatchError
from surprise_rerank._places import places_from, places_json
from surprise_rerank.connectors._progress import Advance
from surprise_rerank.connectors.qdrant._copying.content import Address, Content, CopiedDocument, Vectors
from surprise_rerank.connectors.qdrant._lexical import SparseVector
from surprise_rerank.connectors.qdrant._location import COPY_ENDING
from surprise_rerank.connectors.qdrant._manifest import Manifest
from surprise_rerank.connectors.qdrant._schema import SCHEMA_VERSION
from surprise_rerank.core._batches import in_batches
from surprise_rerank.core._files import disk_errors, whole_file
from surprise_rerank.core._ragged import offsets_of
from surprise_rerank.core.tokens import Members, TokenBatch

FORM = 1
_TOGETHER = 64  # passages whose vectors are read together
_HEAD = 2**20  # bytes of the first line, at most
_OTHERS = ("schema", "files")  # of a manifest: how one version stores an index

Line = Mapping[str, Any]


def write_copy(content: Content, path: Path, advance: Advance) -> int:
    """Write a content to a file, whole or not at all, that its owner alone may read; returns its points."""
    digest, documents, points = hashlib.sha256(), 0, 0
    with disk_errors(str(path)), whole_file(path, private=True) as file:

        def write(line: Line) -> None:
            written = json.dumps(line).encode() + b"\n"
            digest.update(written)
            file.write(written)

        manifest = {key: value for key, value in content.manifest.to_json().items() if key not in _OTHERS}
        write({"copy": FORM, "manifest": manifest})
        for name, kept in content.files():
            write({"file": name, "content": _text(kept)})
        for group in in_batches(content.documents(), lambda document: len(document.addresses), _TOGETHER):
            vectors = _one_by_one(content, [address for d in group for address in d.addresses])
            for document in group:
                write(_document_line(document))
                for _ in document.addresses:
                    write(next(vectors))
                points += len(document.addresses)
            documents += len(group)
            advance(len(group))
        write({"documents": documents, "points": points, "sha256": digest.hexdigest()})
    return points


class CopyFile:
    """The content of a file that `write_copy` wrote; it is compared with its digest first.

    Raises:
        DataError: if it is something else, of another form, or not as it was written.
        StoreError: if it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.where, self._path = str(path), path
        with disk_errors(self.where), open(path, "rb") as file:
            head = self._parsed(file.readline(_HEAD))
            if "copy" not in head:
                raise DataError(
                    f"{path} is no copy of an index, expected a file that 'surprise-rerank index --copy-of "
                    f"INDEX --index FILE{COPY_ENDING}' wrote; give one, or index documents without --copy-of"
                )
            if head["copy"] != FORM:
                raise DataError(
                    f"{path} is a copy of form {head['copy']!r}, this version reads form {FORM}; read it by "
                    "the version of surprise-rerank that wrote it, or with a newer one"
                )
            file.seek(0)
            self._documents, self._points = self._verified(file)
        try:
            self.manifest = Manifest.from_json({**head["manifest"], "schema": SCHEMA_VERSION}, self.where)
        except (IndexMismatchError, KeyError, TypeError) as error:
            raise self._damaged("its first line tells of no index") from error
        self._vectors = open(path, "rb")  # noqa: SIM115 - closed with the content

    def __enter__(self) -> CopyFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._vectors.close()

    def __len__(self) -> int:
        return self._documents

    def count(self) -> int:
        """Return the number of points."""
        return self._points

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield names and contents of files beside the points; a DataError for a name with a path."""
        for line, _ in self._lines():
            if "file" in line:
                name = str(line["file"])
                if name != os.path.basename(name) or not name.endswith((".json", ".npz")):
                    raise self._damaged(f"{name!r} is no name of a file beside points")
                yield name, pybase64.b64decode(line["content"], validate=True)
            elif "id" in line:
                return

    def documents(self) -> Iterator[CopiedDocument]:
        """Yield all documents, with where their vectors stand in the file."""
        lines = self._lines()
        for line, _ in lines:
            if "id" not in line:
                continue
            try:
                passages = [None] if line["passages"] is None else [Passage(*p) for p in line["passages"]]
                addresses = tuple(position for _, position in islice(lines, len(passages)))
                if len(addresses) != len(passages):
                    raise ValueError(f"{len(passages)} passages have {len(addresses)} lines of vectors")
                yield CopiedDocument(
                    line["id"],
                    line["text"],
                    line["title"],
                    line["metadata"],
                    source=line["source"],
                    places=places_from(line["places"]),
                    passages=tuple(passages),
                    addresses=addresses,
                )
            except (KeyError, TypeError, ValueError) as error:
                raise self._damaged(f"a document is not as documents are: {error}") from error

    def vectors(self, addresses: Sequence[Address]) -> Vectors:
        """Read the vectors of some passages, by where their lines begin."""
        rows: list[Line] = []
        with disk_errors(self.where):
            for address in addresses:
                self._vectors.seek(int(address))
                rows.append(self._parsed(self._vectors.readline()))
        try:
            return _vectors_of(rows, self.manifest)
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(f"vectors are not as they are written: {error}") from error

    def _lines(self) -> Iterator[tuple[Line, int]]:
        """Yield every line, and where it begins; vectors unread."""
        with disk_errors(self.where), open(self._path, "rb") as file:
            position = 0
            for written in file:
                yield ({} if written.startswith(b'{"dense"') else self._parsed(written)), position
                position += len(written)

    def _verified(self, file: IO[bytes]) -> tuple[int, int]:
        """Compare a file with its last line, and return how many documents and points there are."""
        digest, before = hashlib.sha256(), b""
        for line in file:
            digest.update(before)
            before = line
        end = self._parsed(before)
        if end.get("sha256") != digest.hexdigest():
            raise self._damaged("its last line does not tell the digest of the others")
        return int(end["documents"]), int(end["points"])

    def _parsed(self, written: bytes) -> Line:
        try:
            line = json.loads(written)
        except (ValueError, RecursionError):
            line = None
        return line if isinstance(line, dict) else {}

    def _damaged(self, why: str) -> DataError:
        return DataError(
            f"{self.where} is not as it was written ({why}), expected a whole copy of an index; nothing was "
            "stored: copy the index again, or take another copy"
        )


def _document_line(document: CopiedDocument) -> Line:
    stretches = [(p.number, p.start, p.end) for p in document.passages if p is not None]
    return {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "metadata": document.metadata,
        "source": document.source,
        "places": places_json(document.places),
        "passages": stretches or None,
    }


def _one_by_one(content: Content, addresses: Sequence[Address]) -> Iterator[Line]:
    """Yield the line of each of some passages; some are read together."""
    for start in range(0, len(addresses), _TOGETHER):
        vectors = content.vectors(addresses[start : start + _TOGETHER])
        for row in range(len(vectors)):
            line = {"dense": _text(vectors.dense[row].astype("<f4"))}
            if vectors.tokens is not None:
                tokens = vectors.tokens.between(row, row + 1)
                line["tokens"] = _text(tokens.directions.astype("<f2"))
                line["norms"] = _text(tokens.norms.astype("<f4"))
                if tokens.members is not None:
                    line["owners"] = _text(tokens.members.owners.astype("<u2"))
            if vectors.terms:
                line["terms"] = _text(vectors.terms[row].indices.astype("<u4"))
                line["values"] = _text(vectors.terms[row].values.astype("<f4"))
            yield line


def _vectors_of(rows: Sequence[Line], manifest: Manifest) -> Vectors:
    """The vectors in n lines; a KeyError or ValueError where one has others."""
    options = manifest.options
    dense = [_numbers(row["dense"], "<f4").reshape(manifest.dimension) for row in rows]
    terms = [(_numbers(row["terms"], "<u4"), _numbers(row["values"], "<f4")) for row in rows if options.bm25]
    tokens = _tokens_of(rows, manifest.token_dimension) if options.tokens else None
    return Vectors(np.array(dense), tokens, tuple(SparseVector(*pair) for pair in terms))


def _tokens_of(rows: Sequence[Line], dimension: int) -> TokenBatch:
    norms = [_numbers(row["norms"], "<f4") for row in rows]
    vectors = [_numbers(row["tokens"], "<f2").reshape(-1, dimension) for row in rows]
    owners = [_numbers(row["owners"], "<u2") for row in rows if "owners" in row]
    if [len(array) for array in norms] != [len(array) for array in vectors]:
        raise ValueError("there is not one length for each token vector")
    # Of length 1 again: TurboQuant's numbers are the same then as those that they were read from.
    batch = TokenBatch.from_arrays(vectors, dimension)
    members = None
    if owners:
        counts = np.array([len(array) for array in owners], np.int64)
        members = Members(np.concatenate(owners), offsets_of(counts))
        if (
            len(owners) != len(rows)
            or (members.rows(batch.offsets) >= np.repeat(batch.offsets[1:], counts)).any()
        ):
            raise ValueError("tokens are of vectors that there are not")
    return replace(batch, norms=np.concatenate(norms), members=members)


def _text(array: npt.NDArray[Any] | bytes) -> str:
    """Numbers, or bytes, in base64."""
    content = array if isinstance(array, bytes) else array.tobytes()
    return pybase64.b64encode(content).decode("ascii")


def _numbers(text: str, kind: str) -> npt.NDArray[Any]:
    return np.frombuffer(pybase64.b64decode(text, validate=True), kind)
