"""Vectors of texts, kept so that no text is encoded twice and an interrupted encoding goes on."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.files import disk_errors, whole_file
from surprise_rerank.encoders.base import Encoder, Kind, precision_of
from surprise_rerank.encoders.text_vectors import dense_vectors

# Part of every key: vectors that were made another way are not read.
_VERSION = 1
# An interruption loses the work on at most this many.
_PART = 1024


class VectorFolder:
    """Dense vectors by model and texts.

    A file holds the vectors of one list of texts; it is there whole or not at all. While they are being made,
    parts of it are in a folder next to it.

    Args:
        cache: the folder that they are kept under.

    Raises:
        StoreError: if it cannot be made.
    """

    def __init__(self, cache: Path) -> None:
        self.path = cache / "labelled"
        with disk_errors(f"the vectors in {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)

    def vectors(
        self,
        encoder: Encoder,
        data_digest: str,
        texts: Sequence[str],
        kind: Kind,
        terminal: Terminal,
        title: str,
    ) -> Float32Array:
        """(n, d) unit vectors of n texts: read where they are kept, made and kept where not.

        Args:
            encoder: of the model.
            data_digest: of the data set, the first part of the file's name.
            texts: in their order; what is kept for others is never read for them.
            kind: picks the model's prompt, where it has one.
            terminal: for progress.
            title: of the bar.

        Raises:
            StoreError: if they cannot be written.
        """
        path = self.path / f"{data_digest}-{_key(encoder, texts, kind)}.npy"
        shape = (len(texts), encoder.dimension)
        found = _read(path, shape)
        if found is not None:
            return found
        parts = path.with_suffix(".parts")
        vectors = np.zeros(shape, dtype=np.float32)
        with disk_errors(f"the vectors {path}"):
            parts.mkdir(exist_ok=True)
        with terminal.bar(title, len(texts), "texts") as advance:
            for start in range(0, len(texts), _PART):
                rows = slice(start, start + _PART)
                part = parts / f"{start}.npy"
                kept = _read(part, vectors[rows].shape)
                if kept is not None:
                    vectors[rows] = kept
                    advance(len(kept))
                    continue
                vectors[rows] = dense_vectors(encoder, texts[rows], kind, advance)
                _write(part, vectors[rows])
        _write(path, vectors)
        shutil.rmtree(parts, ignore_errors=True)
        return vectors


def _key(encoder: Encoder, texts: Sequence[str], kind: Kind) -> str:
    # The fingerprint is that of the weights; a model's name identifies its prompts.
    # Vectors of float32 were stored before there were others.
    name = encoder.name if precision_of(encoder) == "float32" else [encoder.name, precision_of(encoder)]
    parts = [_VERSION, name, encoder.fingerprint, encoder.dimension, kind, list(texts)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _read(path: Path, shape: tuple[int, int]) -> Float32Array | None:
    """The vectors of a file; None where there is none, or one that is damaged."""
    try:
        vectors = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if not isinstance(vectors, np.ndarray) or vectors.shape != shape or vectors.dtype != np.float32:
        return None
    return vectors


def _write(path: Path, vectors: Float32Array) -> None:
    with disk_errors(f"the vectors {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)  # another process may have finished, and tidied up
        with whole_file(path) as file:
            np.save(file, vectors, allow_pickle=False)
