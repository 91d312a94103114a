"""Small files of tests: lines, rows of JSON, word vectors, and data sets in BEIR's layout."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ANIMALS = ("dogs", "cats", "owls", "frogs", "wolves", "mice")
SENTENCE = "The {} of this page sleep all day, bark at night and warn their owners of strangers. "


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


def pdf(path: Path, texts: list[list[str]]) -> Path:
    """A PDF of a page for each list of lines, with an outline; the first two are numbered i and ii."""
    pypdf = pytest.importorskip("pypdf")
    pytest.importorskip("kreuzberg")
    named, values = pypdf.generic.NameObject, pypdf.generic.DictionaryObject
    font = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    fonts = values({named("/F"): values({named(key): named(value) for key, value in font.items()})})
    writer = pypdf.PdfWriter()
    for lines in texts:
        shown = "".join(f"1 0 0 1 72 {740 - 14 * i} Tm ({line}) Tj " for i, line in enumerate(lines))
        stream = pypdf.generic.DecodedStreamObject()
        stream.set_data(f"BT /F 11 Tf {shown}ET".encode())
        page = writer.add_blank_page(600, 800)
        page[named("/Contents")] = writer._add_object(stream)
        page[named("/Resources")] = values({named("/Font"): fonts})
    writer.set_page_label(0, 1, "/r")
    writer.set_page_label(2, len(texts) - 1, "/D", start=1)
    part = writer.add_outline_item(title="Mammals", page_number=0)
    writer.add_outline_item(title="Cats", page_number=1, parent=part)
    writer.add_outline_item(title="Birds", page_number=2)
    writer.write(path)
    return path


def handbook(folder: Path) -> Path:
    """A folder with a PDF of a page for each animal."""
    folder.mkdir()
    pages = [
        [animal.title(), *[SENTENCE.format(animal)] * 4, f"page {i}"] for i, animal in enumerate(ANIMALS)
    ]
    return pdf(folder / "handbook.pdf", pages)
