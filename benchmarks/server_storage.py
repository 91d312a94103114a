"""What a document takes on a Qdrant server's disk.

    python benchmarks/server_storage.py --url http://localhost:6333 --files FOLDER

FOLDER is the storage folder of that server, which is on this machine. Documents are stored again and again
under other ids. What is printed is the growth from the first half of the copies to all of them, divided by
its documents, when the server rests: what each segment and shard takes once is left out, and so is the
write-ahead log, whose size is bounded. Bytes are those of blocks, as files have holes.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from machine import describe
from qdrant_client import QdrantClient
from served import drop, settle

from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.surprise.ensemble import Ensemble

_WHOLE = IndexOptions(passages=None)
FORMS = {
    "dense vectors and texts": replace(_WHOLE, tokens=False, bm25=None),
    "and BM25": replace(_WHOLE, tokens=False),
    "and tokens (the default)": _WHOLE,
    "the default, with augmented vectors": replace(_WHOLE, surprise_vector=True),
    "the default, dense vectors in int8 and on disk": replace(_WHOLE, quantization="int8", on_disk=True),
}
_COLLECTION = "benchmark-storage"
_REMOVED = 10.0  # seconds until segments that were replaced are removed


def disk(folder: Path) -> int:
    """Bytes that the blocks of a collection's files take, without the write-ahead log."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # a segment that was just replaced
            total += 512 * path.stat().st_blocks if path.is_file() and "wal" not in path.parts else 0
    return total


@click.command()
@click.option("--dataset", default="beir/scifact", show_default=True)
@click.option("--url", required=True)
@click.option("--files", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--documents", type=int, help="How many of the data set.  [default: all]")
@click.option("--copies", default=8, show_default=True, help="Of each document; an even number.")
@click.option("--form", "forms", multiple=True, type=click.Choice(list(FORMS)), default=list(FORMS))
def main(
    dataset: str, url: str, files: Path, documents: int | None, copies: int, forms: tuple[str, ...]
) -> None:
    """Print a line for each form of storage."""
    print(describe("qdrant-client"))
    encoder, client = load_encoder(), QdrantClient(url, check_compatibility=False, timeout=60)
    chosen = list(load_dataset(dataset, None).documents)[:documents]
    encoded = encoder.encode([document.content for document in chosen])
    characters = np.mean([len(document.content) for document in chosen])
    print(f"{len(chosen):,} documents of {characters:.0f} characters, {copies} times", flush=True)
    for form in forms:
        sizes = []
        try:
            options = FORMS[form]
            with DocumentIndex.open(None, encoder, url=url, collection=_COLLECTION, options=options) as index:
                if options.surprise_vector:
                    index.sync([chosen[0]], encoded=encoded.take([0]), background=False)
                    index.set_ensemble(Ensemble.from_vectors(encoded.dense, model=encoder.name))
                for copy in range(copies):
                    own = [replace(document, id=f"{copy}-{document.id}") for document in chosen]
                    index.sync(own, encoded=encoded, background=False)
                    if copy + 1 in (copies // 2, copies):
                        settle(client, f"{_COLLECTION}@1")
                        time.sleep(_REMOVED)
                        sizes.append(disk(files / "collections" / f"{_COLLECTION}@1"))
        finally:
            drop(client, _COLLECTION)
        half, whole = sizes
        count = len(chosen) * (copies - copies // 2)
        print(f"{form}: {(whole - half) / count:,.0f} bytes of disk a document", flush=True)


if __name__ == "__main__":
    main()
