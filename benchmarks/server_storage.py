"""What a document takes on a Qdrant server's disk, by part.

    rerank-eval --dataset beir/scifact --systems cosine --set cache=CACHE
    python benchmarks/server_storage.py --cache CACHE --url http://localhost:6333 --files FOLDER

FOLDER is the storage folder of that server, which is on this machine. The documents of a collection are
stored again and again under other ids. What is printed is the growth from the first half of the copies to all
of them, divided by its documents, when the server's optimizers rest: what each segment and shard takes once
is left out, and so is the write-ahead log, whose size is bounded. Bytes are those of blocks, as files have
holes. The collection is deleted again.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from machine import describe
from qdrant_client import QdrantClient
from served import drop, settle
from stored import documents_of

from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.surprise.ensemble import Ensemble

_DENSE = IndexOptions(passages=None, tokens=False, bm25=None)
FORMS = {
    "dense vectors alone": _DENSE,
    "and BM25": replace(_DENSE, bm25=IndexOptions().bm25),
    "and tokens (the default)": replace(IndexOptions(), passages=None),
    "the default, with augmented vectors": replace(IndexOptions(), passages=None, surprise_vector=True),
    "the default, dense vectors in int8 and on disk": replace(
        IndexOptions(), passages=None, quantization="int8", on_disk=True
    ),
}
_WAL = "write-ahead log"
_REMOVED = 10.0  # seconds until segments that were replaced are removed
_PARTS = {  # how names of files and folders in a segment begin
    "vector_storage-dense": "dense vectors",
    "vector_storage-surprise": "augmented vectors",
    "vector_storage-tokens": "multivectors",
    "vector_index": "graphs, BM25",
    "vector_storage-bm25": "graphs, BM25",
    "payload_storage": "texts, lengths and members of tokens",
    "wal": _WAL,
}


def disk(folder: Path) -> Counter[str]:
    """Bytes that the blocks of a collection's files take, by part."""
    found: Counter[str] = Counter()
    for path in folder.rglob("*"):
        try:
            size = 512 * path.stat().st_blocks if path.is_file() else 0
        except FileNotFoundError:  # a segment that was just replaced
            continue
        names = path.relative_to(folder).parts
        part = next(
            (own for name in names for begin, own in _PARTS.items() if name.startswith(begin)), "other"
        )
        found[part] += size
    return found


def measured(files: Path, client: QdrantClient, name: str) -> Counter[str]:
    """Bytes on disk by part, when the server rests."""
    settle(client, name)
    time.sleep(_REMOVED)
    return disk(files / "collections" / name)


@click.command()
@click.option("--dataset", default="beir/scifact", show_default=True)
@click.option("--cache", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--url", required=True)
@click.option("--files", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--copies", default=8, show_default=True, help="Of each document; an even number.")
@click.option("--form", "forms", multiple=True, type=click.Choice(list(FORMS)), default=list(FORMS))
def main(dataset: str, cache: Path, url: str, files: Path, copies: int, forms: tuple[str, ...]) -> None:
    """Print a block of lines for each form of storage."""
    print(describe("qdrant-client"))
    encoder = load_encoder()
    documents, encoded = documents_of(dataset, cache, encoder)
    client = QdrantClient(url, check_compatibility=False, timeout=60)
    characters = np.mean([len(document.content) for document in documents])
    print(
        f"{len(documents):,} documents of {characters:.0f} characters on average, {copies} times", flush=True
    )
    for form in forms:
        name, sizes = f"storage-{uuid.uuid4().hex[:8]}", []
        try:
            with DocumentIndex.open(None, encoder, url=url, collection=name, options=FORMS[form]) as index:
                if FORMS[form].surprise_vector:
                    index.sync([documents[0]], encoded=encoded.take([0]), background=False)
                    index.set_ensemble(Ensemble.from_vectors(encoded.dense, model=encoder.name))
                for copy in range(copies):
                    own = [replace(document, id=f"{copy}-{document.id}") for document in documents]
                    index.sync(own, encoded=encoded, background=False)
                    if copy + 1 in (copies // 2, copies):
                        sizes.append(measured(files, client, f"{name}@1"))
        finally:
            drop(client, name)
        half, grown = sizes
        grown.subtract(half)
        count = len(documents) * (copies - copies // 2)
        whole = sum(size for part, size in grown.items() if part != _WAL)
        print(f"{form}: {whole / count:,.0f} bytes of disk a document", flush=True)
        for part, size in grown.most_common():
            print(f"    {part}: {size / count:,.0f}", flush=True)


if __name__ == "__main__":
    main()
