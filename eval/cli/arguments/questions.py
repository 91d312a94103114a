"""Questions from a file or the standard input, one a line."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import BinaryIO

from surprise_rerank.documents import encodable
from surprise_rerank.errors import DataError

STANDARD_INPUT = "-"


def read_questions(path: str) -> Iterator[str]:
    """The questions of a file, or of the standard input for `-`; blank lines are passed over.

    Raises:
        DataError: if the file cannot be read as UTF-8, or holds no question.
    """
    where = "the standard input" if path == STANDARD_INPUT else path
    found = False
    try:
        with _open(path) as file:
            for question in _lines(file, where):
                found = True
                yield question
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file of questions") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder; give a file with a question a line") from error
    if not found:
        raise DataError(f"{where} holds no questions; write one a line")


def one_question(text: str) -> str:
    """A question from the command line.

    Raises:
        DataError: if it is empty.
    """
    if not text.strip():
        raise DataError("the question is empty; write it in quotes")
    return encodable(text.strip())


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
