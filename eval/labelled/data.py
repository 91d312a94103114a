"""Texts with a label each, from JSONL, CSV, TSV and Parquet files."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from surprise_rerank.connectors.readers import Fields, open_documents
from surprise_rerank.connectors.readers.fields import TITLE_NAMES
from surprise_rerank.connectors.readers.source import OnError
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, DatasetError
from surprise_rerank.eval.line_files import read_lines

_SAMPLE_SEED = 0


@dataclass(frozen=True, slots=True, eq=False)
class LabelledTexts:
    """Texts with a label each.

    Attributes:
        name: the file's, without its folder.
        texts: n texts, in the file's order; a text may be empty.
        labels: (n,) the class of each, never empty.
        digest: 16 digits that differ where a text, a label or the order does.
        left_out: how many rows were malformed and skipped.
    """

    name: str
    texts: tuple[str, ...]
    labels: tuple[str, ...]
    digest: str
    left_out: int = 0

    @classmethod
    def of(cls, name: str, texts: list[str], labels: list[str], left_out: int = 0) -> LabelledTexts:
        """Labelled texts with their digest."""
        content = json.dumps([texts, labels]).encode()
        return cls(name, tuple(texts), tuple(labels), hashlib.sha256(content).hexdigest()[:16], left_out)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels that occur, once each, in the order of their characters."""
        return tuple(sorted(set(self.labels)))

    def sample(self, limit: int | None) -> LabelledTexts:
        """So many at random, always the same, or all of them: files are often sorted by label."""
        if limit is None or limit >= len(self):
            return self
        rows = np.sort(np.random.default_rng(_SAMPLE_SEED).permutation(len(self))[:limit])
        texts, labels = [self.texts[i] for i in rows], [self.labels[i] for i in rows]
        return LabelledTexts.of(self.name, texts, labels, self.left_out)


def read_labelled(
    path: Path, *, text: str | None = None, label: str = "label", on_error: OnError = "raise"
) -> LabelledTexts:
    """Read a file of labelled texts.

    Args:
        path: JSONL, CSV, TSV (each may end in `.gz`) or Parquet, by its name's ending.
        text: the column of the text; found by its usual names by default (`text`, `content`, `body`, ...).
        label: the column of the label: strings, whole numbers, or true and false.
        on_error: whether a row without a text or a label is an error, or skipped and counted.

    Raises:
        DataError: if a column does not exist, or a row has no text or no label; names the file and the row.
        DatasetError: if there is no such file, or no row in it.
        MissingExtraError: if Parquet files cannot be read, as pyarrow is not installed.
    """
    if text == label:
        raise DataError(f"{path}: text and label are both the column {label!r}; name two different ones")
    if not path.exists():
        raise DatasetError(f"{path}: no such file; labelled texts are read from JSONL, CSV, TSV and Parquet")
    # Ids are not looked at; a hash needs no column for them.
    fields = Fields(id="content", text=text, metadata=[label])
    source = open_documents(path, fields=fields, on_error=on_error)
    texts: list[str] = []
    labels: list[str] = []
    missing = 0
    for number, document in enumerate(source, start=1):
        found = _label(document, label)
        if found is not None:
            texts.append(document.text)
            labels.append(found)
        elif on_error == "skip":
            missing += 1
        else:
            raise DataError(
                f"{path}, row {number}: no label in the column {label!r} (--label), expected a word or a "
                f"whole number; the text is {document.text[:40]!r}"
            )
    if not texts:
        raise DataError(
            f"{path}: no row has a label in the column {label!r}; name the one that has (--label)"
        )
    return LabelledTexts.of(source.name, texts, labels, source.skipped.total + missing)


def read_texts(path: Path, *, text: str | None = None) -> tuple[str, ...]:
    """Read texts without labels.

    Args:
        path: a table, as for `read_labelled`; or a file that ends in `.txt`, of a text a line.
        text: the column of a table; found by its usual names by default.

    Raises:
        DataError: if the column does not exist, or a row has no text.
        DatasetError: if there is no such file, or nothing in it.
    """
    if not path.exists():
        raise DatasetError(f"there is no file {path} of texts")
    if path.suffix.lower() == ".txt":
        texts = tuple(line.text for line in read_lines(path) if line.text.strip())
        if not texts:
            raise DatasetError(f"{path} holds no text; expected one a line")
        return texts
    fields = Fields(id="content", text=text, metadata=[])
    return tuple(document.text for document in open_documents(path, fields=fields))


def _label(document: Document, column: str) -> str | None:
    value = _value(document, column)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # what a table of numbers makes of whole ones where some rows have none
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int):
        return None
    return str(value).strip() or None


def _value(document: Document, column: str) -> Any:
    """A row's value; readers take a column `title` for the title, and open what `metadata` holds."""
    if column in document.metadata:
        return document.metadata[column]
    return document.title if column.strip().lower() in TITLE_NAMES else None
