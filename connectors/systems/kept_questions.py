"""The package's background questions with their vectors: a model encodes them once, and a file keeps them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from surprise_rerank.candidates import Query
from surprise_rerank.core.files import UNREADABLE_ARCHIVE, cache_folder, whole_file
from surprise_rerank.encoders.base import Encoder, encode_queries, token_dimension
from surprise_rerank.thresholds.varied_questions import varied_questions

_log = logging.getLogger(__name__)


def encoded_questions(encoder: Encoder, questions: Sequence[str]) -> list[Query]:
    """Questions with their vectors; those of the package are encoded the first time only.

    Questions of the caller's own are nobody else's business, and are not kept.
    """
    own = varied_questions()
    if set(own) != set(questions) or not encoder.fingerprint:
        return encode_queries(encoder, questions)
    path = _path(encoder, own)
    kept = _read(path, own, encoder)
    if kept is None:
        kept = encode_queries(encoder, own)
        _write(path, kept)
    return kept


def _path(encoder: Encoder, questions: Sequence[str]) -> Path:
    made = (encoder.name, encoder.fingerprint, encoder.dimension, token_dimension(encoder))
    about = (*made, getattr(encoder, "precision", ""), getattr(encoder, "prompts", None), questions)
    return cache_folder() / "questions" / f"{hashlib.sha256(repr(about).encode()).hexdigest()[:32]}.npz"


def _read(path: Path, questions: Sequence[str], encoder: Encoder) -> list[Query] | None:
    """What the file keeps; None where there is none, or it is damaged."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as stored:
            dense, tokens, ends = stored["dense"], stored["tokens"], stored["ends"]
        size = token_dimension(encoder)
        if dense.shape != (len(questions), encoder.dimension) or dense.dtype != np.float32:
            raise ValueError("of another shape")
        if size is None:
            return [Query(text, own) for text, own in zip(questions, dense, strict=True)]
        if tokens.shape != (ends[-1], size) or len(ends) != len(questions):
            raise ValueError("of another shape")
        parts = np.split(tokens, ends[:-1])
        return [Query(*own) for own in zip(questions, dense, parts, strict=True)]
    except UNREADABLE_ARCHIVE as error:
        _log.warning("%s is damaged (%s); the background questions are encoded again", path, error)
        return None


def _write(path: Path, queries: Sequence[Query]) -> None:
    tokens = [np.zeros((0, 1), np.float32) if own.tokens is None else own.tokens for own in queries]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, private=True) as file:
            np.savez(
                file,
                dense=np.stack([own.require_dense() for own in queries]),
                tokens=np.concatenate(tokens),
                ends=np.cumsum([len(own) for own in tokens]),
            )
    except OSError as error:
        _log.warning("%s cannot be written (%s); the next index encodes the questions again", path, error)
