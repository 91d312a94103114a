"""Questions by where they come from: those of data sets, and files of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surprise_rerank.connectors.datasets.sources import open_source
from surprise_rerank.connectors.readers import Fields, open_documents
from surprise_rerank.errors import DatasetError
from surprise_rerank.eval.line_files import read_lines

_SEED = 0


@dataclass(frozen=True, slots=True)
class QuestionSource:
    """Questions that come from one place.

    Attributes:
        name: of the data set or file.
        texts: n questions, each once.
    """

    name: str
    texts: tuple[str, ...]

    def sample(self, limit: int) -> QuestionSource:
        """So many at random, always the same, in their order."""
        if limit >= len(self.texts):
            return self
        rows = np.sort(np.random.default_rng(_SEED).permutation(len(self.texts))[:limit])
        return QuestionSource(self.name, tuple(self.texts[i] for i in rows))


def of_dataset(spec: str) -> QuestionSource:
    """All questions of a data set, judged or not.

    Raises:
        DatasetError: if there is no such data set.
    """
    source = open_source(spec)
    return _source(source.name, list(source.queries().values()))


def of_file(path: Path) -> QuestionSource:
    """The questions of a file: the column `text` or `question` of a table, or the lines of a text.

    Raises:
        DatasetError: if it cannot be read, or holds none.
    """
    if path.suffix in (".txt", ""):
        return _source(path.stem, [line.text for line in read_lines(path)])
    documents = open_documents(path, fields=Fields(id="row"))
    return _source(path.name.partition(".")[0], [document.text for document in documents])


def _source(name: str, texts: Sequence[str]) -> QuestionSource:
    questions = tuple(dict.fromkeys(" ".join(text.split()) for text in texts if text.strip()))
    if not questions:
        raise DatasetError(f"{name} holds no questions")
    return QuestionSource(name, questions)
