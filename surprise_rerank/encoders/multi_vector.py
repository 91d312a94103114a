"""Multi-vector models of sentence-transformers: ColBERT, PyLate's and Stanford's checkpoints, LateOn."""

from __future__ import annotations

import functools
import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._documents import encodable
from surprise_rerank.core._process import PerProcess, limit_torch
from surprise_rerank.core.arrays import Float32Array, IntArray, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoded, Kind, PortableEncoder, Progress
from surprise_rerank.encoders.transformer import (
    fingerprint_of,
    longest_of,
    own_tokenizer,
    prompt_of,
    token_spans,
)

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder as MultiVectorModel

# Texts of one call of the model, which sorts them by length; a sign of progress after each.
_AT_ONCE = 256
POOLED = "[pooled]"


class MultiVectorEncoder(PortableEncoder):
    """A `sentence_transformers.MultiVectorEncoder`. Threads may share one; they take turns.

    Token vectors are what the model's own MaxSim compares (Khattab and Zaharia 2020, arXiv:2004.12832): both
    sides with their markers and special tokens, questions with their expansion, documents without the tokens
    that the model skips. So, for tokens of length 1 of which each of the question's m has some token of the
    document at a positive cosine,

        DynaMax("inclusion", universe="query") = 1/m sum over q of max over t of <q, t> = MaxSim / m.

    The model has no dense vector. In its place is the mean of the text's token vectors, at length 1, which is
    a poor one: take the dense vectors of another model (`PairedEncoder`, or `DocumentIndex.open(...,
    encoder=other, token_encoder=this)`). A tokenizer that is written in Python is a ModelError.
    """

    def __init__(self, model: MultiVectorModel, name: str) -> None:
        self.model = border.able("model", model, "eval", "a MultiVectorEncoder").eval()
        self.name = name
        self.dimension = self.token_dimension = int(model.get_embedding_dimension() or 0)
        self._tokenizer = own_tokenizer(model, name)
        # The lengths of the two sides are settings of the model's own tokenizer.
        self._turn = PerProcess(threading.Lock)

    @functools.cached_property
    def fingerprint(self) -> str:
        """16 digits of the weights, the prompts, and how either side is read."""
        modules: list[Any] = list(self.model)
        reading = [
            {k: getattr(module, k, None) for k in getattr(module, "config_keys", ())} for module in modules
        ]
        parts = json.dumps([self.model.prompts, reading], sort_keys=True, default=str)
        return hashlib.sha256(f"{fingerprint_of(self.model)}{parts}".encode()).hexdigest()[:16]

    @functools.cached_property
    def window(self) -> int | None:
        """Most tokens of a document, without the marker and the special tokens; None for any number."""
        longest = getattr(self.model[0], "document_length", None) or longest_of(self.model)
        before = self._tokenizer.encode(prompt_of(self.model.prompts, "document"))
        return None if longest is None else int(longest) - len(before)

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """Token vectors by `encode_query` or `encode_document`, and their mean at length 1."""
        encode = self.model.encode_query if kind == "query" else self.model.encode_document
        tokens: list[Float32Array] = []
        for part in _parts(texts):
            limit_torch()
            with self._turn.get():
                of_part: Any = encode(part, convert_to_numpy=True, show_progress_bar=False)
            tokens += [np.asarray(vectors, np.float32) for vectors in of_part]
            if on_progress is not None:
                on_progress(len(part))
        sums = np.zeros((len(texts), self.dimension))
        for i, vectors in enumerate(tokens):
            sums[i] = vectors.sum(axis=0, dtype=np.float64)
        return Encoded(unit_rows(sums), TokenBatch.from_arrays(tokens, self.token_dimension))

    def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
        """The tokenizer's piece of each token vector, markers, too; `[pooled]` where tokens were merged."""
        from sentence_transformers.multi_vector_encoder.modules import BaseTokenPooling, MultiVectorMask

        modules = list(self.model)
        if any(isinstance(module, BaseTokenPooling) and module.applies_to(kind) for module in modules):
            lengths = self.encode(texts, kind).require_tokens().lengths
            return [[POOLED] * int(length) for length in lengths]
        masks = [module for module in modules if isinstance(module, MultiVectorMask)]
        prompt = prompt_of(self.model.prompts, kind) or None
        pieces: list[list[str]] = []
        for part in _parts(texts):
            with self._turn.get():
                features = self.model.preprocess(part, prompt=prompt, task=kind)
            for mask in masks:
                features = mask(features, task=kind)
            kept = features["attention_mask"].bool()
            ids = (row[mask].tolist() for row, mask in zip(features["input_ids"], kept, strict=True))
            pieces += [[self._tokenizer.id_to_token(i) or "" for i in row] for row in ids]
        return pieces

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Where the tokens of each text lie, of any length, those that the model skips as well."""
        return token_spans(self._tokenizer, texts)


def is_multi_vector(folder: Path) -> bool:
    """Whether a folder holds a multi-vector model: of sentence-transformers, PyLate or Stanford's ColBERT."""
    kinds = _json(folder / "config_sentence_transformers.json").get("model_type")
    if kinds is not None:
        return kinds in ("MultiVectorEncoder", "ColBERT")
    return "HF_ColBERT" in (_json(folder / "config.json").get("architectures") or [])


def _json(path: Path) -> dict[str, Any]:
    """A file's object; empty where there is none, which is for the library to complain about."""
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _parts(texts: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(texts), _AT_ONCE):
        yield [encodable(text) for text in texts[start : start + _AT_ONCE]]
