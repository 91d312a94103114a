"""A model in ONNX that looks up a vector for every token, written without the package `onnx`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

# Kinds of Protocol Buffers' fields, and of ONNX's numbers.
_VARINT, _BYTES = 0, 2
_FLOAT, _INT64 = 1, 7


def _varint(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    raw = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _BYTES) + _varint(len(raw)) + raw


def _tensor_type(name: str, kind: int, dimensions: Sequence[str | int]) -> bytes:
    """ValueInfoProto."""
    sizes = b"".join(_field(1, _field(1 if isinstance(d, int) else 2, d)) for d in dimensions)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, sizes)))


def lookup_model(folder: Path, words: Sequence[str], vectors: np.ndarray) -> None:
    """A folder as fastembed loads it: `model.onnx` gathers rows of (v, d) vectors, a word a token."""
    rows = vectors.astype("<f4")
    weights = b"".join(_field(1, size) for size in rows.shape) + _field(2, _FLOAT) + _field(8, "W")
    gather = _field(1, "W") + _field(1, "input_ids") + _field(2, "out") + _field(4, "Gather")
    graph = [
        _field(1, gather),
        _field(2, "lookup"),
        _field(5, weights + _field(9, rows.tobytes())),
        _field(11, _tensor_type("input_ids", _INT64, ["n", "t"])),
        _field(12, _tensor_type("out", _FLOAT, ["n", "t", rows.shape[1]])),
    ]
    model = _field(1, 8) + _field(8, _field(2, 13)) + _field(7, b"".join(graph))
    (folder / "model.onnx").write_bytes(model)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, words[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    settings = {"model_max_length": 32, "pad_token": words[0]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
