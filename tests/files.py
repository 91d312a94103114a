"""Small files of tests: lines, rows of JSON, word vectors, and data sets in BEIR's layout."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def write_lines(path: Path, *lines: str, end: str = "\n", encoding: str = "utf-8") -> Path:
    """A file of lines, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode(encoding))
    return path


def write_rows(path: Path, rows: Iterable[Any]) -> Path:
    """A file of JSON lines."""
    return write_lines(path, *map(json.dumps, rows))


def write_vectors(
    path: Path, words: Iterable[str] | Mapping[str, np.ndarray], dimension: int = 8, seed: int = 0
) -> Path:
    """A file of word vectors, which is a model that loads at once; random ones for mere words."""
    rng = np.random.default_rng(seed)
    if not isinstance(words, Mapping):
        words = {word: rng.normal(size=dimension) for word in words}
    lines = (f"{word} {' '.join(f'{x:.4f}' for x in vector)}" for word, vector in words.items())
    return write_lines(path, *lines)


def write_beir(
    folder: Path,
    documents: Mapping[str, str],
    questions: Mapping[str, str],
    judged: Sequence[tuple[str, str, int]],
    split: str = "test",
) -> Path:
    """A data set in BEIR's layout: texts by id, and question, document and relevance of judgements."""
    rows = [{"_id": name, "title": "", "text": text} for name, text in documents.items()]
    write_rows(folder / "corpus.jsonl", rows)
    write_rows(folder / "queries.jsonl", [{"_id": name, "text": text} for name, text in questions.items()])
    qrels = ("\t".join(map(str, row)) for row in (("query-id", "corpus-id", "score"), *judged))
    write_lines(folder / "qrels" / f"{split}.tsv", *qrels)
    return folder
