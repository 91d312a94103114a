"""What indexing adds to encoding, and how fast given vectors are stored beside `upload_points`.

python benchmarks/indexing.py --dataset beir/scifact --documents 512
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from qdrant_client import QdrantClient, models

from surprise_rerank import Document, FunctionEncoder
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant.schema import document_payload, point_id
from surprise_rerank.encoders.base import Encoded, Encoder
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.retrieval.datasets import load_dataset


def seconds(action: Callable[[], object]) -> float:
    """How long it takes."""
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def encoded_and_stored(documents: list[Document], encoder: Encoder, rounds: int) -> None:
    """Print indexing from texts as a multiple of encoding alone: the same texts in the same batches, in turn.

    Without passages: they are more text than what is left of documents that are cut.
    """
    options = IndexOptions(passages=None, bm25=None)
    texts = sorted((document.content for document in documents), key=len, reverse=True)
    windows = [texts[i : i + 128] for i in range(0, len(texts), 128)]
    encoder.encode(windows[-1])
    bare, indexed = [], []
    for _ in range(rounds):
        bare.append(seconds(lambda: [encoder.encode(window) for window in windows]))
        with (
            tempfile.TemporaryDirectory() as folder,
            DocumentIndex.open(Path(folder) / "index", encoder, options=options) as index,
        ):
            indexed.append(seconds(lambda index=index: index.sync(documents, background=False)))  # type: ignore[misc]
    ratios = [b / a for a, b in zip(bare, indexed, strict=True)]
    print(
        f"{len(documents)} documents encoded in {np.median(bare):.1f} s, indexed with tokens in "
        f"{np.median(indexed):.1f} s; ratio {np.median(ratios):.3f} (of {rounds} rounds: "
        f"{', '.join(f'{ratio:.3f}' for ratio in ratios)})",
        flush=True,
    )


def given_vectors(documents: list[Document], dimension: int, url: str | None, rounds: int) -> None:
    """Print the rate of `sync` with vectors given, beside `upload_points` of the same points."""
    dense = np.random.default_rng(0).normal(size=(len(documents), dimension)).astype(np.float32)
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    encoded = Encoded(dense)
    options = IndexOptions(passages=None, tokens=False, bm25=None)
    ours, theirs = [], []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            client = QdrantClient(url) if url else QdrantClient(path=f"{folder}/client")
            name = f"upload-{number}-{time.time_ns()}"
            params = models.VectorParams(size=dimension, distance=models.Distance.DOT)
            client.create_collection(name, vectors_config={"dense": params})

            def upload(client: QdrantClient = client, name: str = name) -> None:
                points = (
                    models.PointStruct(
                        id=point_id(d.id), vector={"dense": row.tolist()}, payload=document_payload(d)
                    )
                    for d, row in zip(documents, dense, strict=True)
                )
                client.upload_points(name, points, batch_size=64, wait=True)

            theirs.append(seconds(upload))
            client.delete_collection(name)
            client.close()
            place = None if url else Path(folder) / "index"
            # It is never called: the vectors are given.
            encoder = FunctionEncoder(list, name="given", dimension=dimension)
            with DocumentIndex.open(place, encoder, url=url, collection=name, options=options) as index:
                ours.append(
                    seconds(lambda index=index: index.sync(documents, encoded=encoded, background=False))
                )  # type: ignore[misc]
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    print(
        f"{url or 'local mode'}: {len(documents) / np.median(theirs):.0f} documents/s by upload_points, "
        f"{len(documents) / np.median(ours):.0f} by sync with vectors given; {100 * np.median(ratios):.0f} % "
        f"(of {rounds} rounds: {', '.join(f'{100 * ratio:.0f}' for ratio in ratios)})",
        flush=True,
    )


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", default="beir/scifact")
    parser.add_argument("--documents", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--url", help="of a server, for the vectors that are given")
    given = parser.parse_args()
    documents = list(load_dataset(given.dataset, None).documents)
    given_vectors(documents, 384, None, given.rounds)
    if given.url:
        given_vectors(documents, 384, given.url, given.rounds)
    encoder = load_encoder()
    encoded_and_stored(documents[: given.documents], encoder, given.rounds)


if __name__ == "__main__":
    main()
