"""Questions of files and of the standard input; judged ones, and their judgements."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from surprise_rerank.errors import DataError
from surprise_rerank.eval.line_files import read_rows

STANDARD_INPUT = "-"


def read_questions(path: str) -> Iterator[str]:
    """The questions of a file, or of the standard input for `-`; blank lines are passed over.

    Raises:
        DataError: if the file cannot be read as UTF-8, or holds no question.
    """
    where = "the standard input" if path == STANDARD_INPUT else path
    is_empty = True
    try:
        with _open(path) as file:
            for question in _lines(file, where):
                is_empty = False
                yield question
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file of questions") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder; give a file with a question a line") from error
    if is_empty:
        raise DataError(f"{where} holds no questions; write one a line")


def read_judged_questions(path: Path) -> dict[str, str]:
    """Questions: id -> text. JSON lines with `_id` and `text` (BEIR), or id and text with a tab between.

    Raises:
        DatasetError: if the file is unreadable.
        DataError: if a line is no question, an id comes twice, or there is none; names file and line.
    """
    from surprise_rerank.connectors.readers.beir import read_queries

    questions = _from_table(path) if path.suffix in (".tsv", ".txt") else read_queries(path)
    if not questions:
        raise DataError(f"{path} holds no question; expected lines of JSON with `_id` and `text`")
    return questions


def read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """Judgements of BEIR or TREC: question id -> document id -> relevance; see `read_qrels`."""
    from surprise_rerank.connectors.readers.beir import read_qrels

    judgements = read_qrels(path)
    if not judgements:
        raise DataError(f"{path} holds no judgement; expected lines of question, document and relevance")
    return judgements


def _open(path: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if path == STANDARD_INPUT:
        return contextlib.nullcontext(sys.stdin.buffer)
    return open(path, "rb")


def _lines(file: BinaryIO, where: str) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            raise DataError(f"{where}:{number} is not UTF-8 ({error.reason}); convert it first") from error
        if text:
            yield text


def _from_table(path: Path) -> dict[str, str]:
    questions: dict[str, str] = {}

    def add(line: str) -> bool:
        name, text = line.split("\t")
        if name in questions:
            raise ValueError(f"the question {name!r} comes twice")
        questions[name] = text
        return True

    all(read_rows(path, add, "id and question with a tab between", blank=False))
    return questions
