"""BEIR folders: `corpus.jsonl[.gz]`, `queries.jsonl[.gz]` and `qrels/<split>.tsv` or `qrels.jsonl[.gz]`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from surprise_rerank._documents import Document, encodable
from surprise_rerank._errors import DataError, DatasetError
from surprise_rerank.connectors.readers._fields import Columns, Fields, Row, documents_of
from surprise_rerank.connectors.readers._lines import check_decoded, count_lines, read_lines, read_objects
from surprise_rerank.connectors.readers._source import DocumentSource, RefusedError, Skipped

DEFAULT_SPLIT = "test"

_LAYOUT = "a BEIR folder holds corpus.jsonl[.gz], queries.jsonl[.gz] and qrels/<split>.tsv or qrels.jsonl"
_HEADER = ["query-id", "corpus-id", "score"]
_COLUMNS = Columns("_id", "", ["text"], "title", frozenset({"metadata"}))
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")


def jsonl_in(folder: Path, name: str) -> Path | None:
    """`<name>.jsonl` of a folder, or `<name>.jsonl.gz`; None where there is neither."""
    paths = (folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz")
    return next((path for path in paths if path.is_file()), None)


def chosen_split(name: str, wanted: str | None, splits: Sequence[str], otherwise: str) -> str:
    """Return the split to judge by: the one that is named, or else `test`, or the only one.

    Raises:
        DatasetError: if a data set has no such split; says which ones there are, or else what is expected.
    """
    if wanted is None and len(splits) == 1:
        return splits[0]
    split = DEFAULT_SPLIT if wanted is None else wanted
    if split not in splits:
        instead = f"choose one of {', '.join(splits)}" if splits else otherwise
        raise DatasetError(f"{name!r} has no judgements for the split {split!r}; {instead}")
    return split


@dataclass(frozen=True)
class BeirFolder:
    """A data set in a BEIR folder, a `Source`; without judgements it serves for indexing."""

    path: Path
    named_split: str | None = None  # to judge by; None means `test`, or the only split that there is

    @property
    def name(self) -> str:
        """The folder's own name."""
        return encodable(self.path.resolve().name)

    def splits(self) -> tuple[str, ...]:
        """The splits that have judgements; those of `qrels.jsonl` are `test`."""
        names = {file.stem for file in (self.path / "qrels").glob("*.tsv")}
        return tuple(sorted(names | ({DEFAULT_SPLIT} if jsonl_in(self.path, "qrels") else set())))

    @cached_property
    def split(self) -> str:
        """The split that is judged by; DatasetError if it is missing, or was not named among several."""
        unjudged = f"{_LAYOUT} (without judgements, rerank-eval ranks with --set judged=nothing)"
        otherwise = unjudged if self.path.is_dir() else f"no such folder; {_LAYOUT}"
        return chosen_split(str(self.path), self.named_split, self.splits(), otherwise)

    def at(self, split: str) -> BeirFolder:
        """The same documents with the questions of another split."""
        return BeirFolder(self.path, split)

    def documents(self) -> Iterator[Document]:
        """The corpus, in the file's order; DataError names the line that is no document."""
        path = self._find("corpus")
        read = partial(read_corpus, path)
        return iter(DocumentSource(f"{path}: the corpus", read, may_be_empty=False))

    def count(self) -> int:
        """How many lines the corpus has."""
        return count_lines(self._find("corpus"))

    def queries(self) -> dict[str, str]:
        """All questions, judged in this split or not."""
        return read_queries(self._find("queries"))

    def qrels(self) -> dict[str, dict[str, int]]:
        """The split's judgements."""
        path = self.path / "qrels" / f"{self.split}.tsv"
        return read_qrels(path if path.exists() else self._find("qrels"))

    def _find(self, name: str) -> Path:
        file = jsonl_in(self.path, name)
        if file is None:
            problem = f"no {name}.jsonl and no {name}.jsonl.gz" if self.path.is_dir() else "no such folder"
            raise DatasetError(f"{self.path}: {problem}; {_LAYOUT}")
        return file


def read_corpus(path: Path, skipped: Skipped) -> Iterator[Document]:
    """The documents of a file of JSON lines with `_id`, `text`, `title` and `metadata`."""
    rows = (Row(f"{path}:{n}", "", values) for n, values in read_objects(path, skipped))
    return documents_of(rows, Fields(), skipped, columns=_COLUMNS)


def read_queries(path: Path) -> dict[str, str]:
    """The questions of a file of JSON lines with `_id` and `text`: id -> text, in the file's order."""
    queries: dict[str, str] = {}
    for question in read_corpus(path, Skipped("raise")):
        if question.id in queries:
            raise DataError(f"{path}: `_id` {question.id!r} comes twice; ids must be unique")
        queries[question.id] = question.text
    return queries


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Judgements: question id -> document id -> relevance.

    Three columns between tabs, JSON lines with these names, or TREC's four (question, iteration, document,
    relevance) with white space between.
    """
    qrels: dict[str, dict[str, int]] = {}
    for number, columns in _judgements(path):
        where, shown = f"{path}:{number}", " | ".join(columns)[:60]
        if len(columns) != 3 or not columns[0] or not columns[1] or not _INTEGER.fullmatch(columns[2]):
            expected = f"{', '.join(_HEADER)}, 3 columns between tabs, the score an integer"
            raise DataError(f"{where}: expected {expected}, got {shown!r}")
        query, document, relevance = columns[0], columns[1], int(columns[2])
        earlier = qrels.setdefault(query, {}).setdefault(document, relevance)
        if earlier != relevance:
            said = f"are judged {relevance} here and {earlier} before"
            raise DataError(f"{where}: question {query!r} and document {document!r} {said}")
    return qrels


def _judgements(path: Path) -> Iterator[tuple[int, list[str]]]:
    if ".jsonl" in path.suffixes:
        for number, record in read_objects(path, Skipped("raise")):
            yield number, [str(record.get(name, "")) for name in _HEADER]
        return
    for number, line in enumerate(read_lines(path), start=1):
        try:
            check_decoded(line)
        except RefusedError as refused:
            raise refused.at(f"{path}:{number}") from None
        columns = line.rstrip("\r\n").removeprefix("\ufeff").split("\t")
        columns[-1] = columns[-1].strip()
        if path.suffix != ".tsv" and len(words := line.split()) == 4 and len(columns) != 3:
            columns = [words[0], *words[2:]]
        if line.strip() and not (number == 1 and [column.strip() for column in columns] == _HEADER):
            yield number, columns
