"""Data files of a line per item, whose errors name the file and the line; questions and judgements."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from surprise_rerank._errors import DataError, DatasetError
from surprise_rerank.core._files import disk_errors

T = TypeVar("T")


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[str]:
    """The lines of a file; only a line feed ends one, as texts hold U+0085 and the like."""
    if not path.is_file():
        raise DatasetError(f"there is no file {path}; is --data the folder that holds it?")
    with disk_errors(str(path)):
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
    for number, raw in enumerate(content.split(b"\n") if content else [], start=1):
        try:
            yield raw.decode(encoding).removesuffix("\r")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}, line {number}: not {encoding} ({error.reason})") from error


def read_rows(
    path: Path, parse: Callable[[str], T], expected: str, encoding: str = "utf-8", *, blank: bool = True
) -> Iterator[T]:
    """Yield each line as `parse` reads it; its errors become DataErrors with file, line and text."""
    for number, line in enumerate(read_lines(path, encoding), start=1):
        if not blank and not line.strip():
            continue
        try:
            yield parse(line)
        except (ValueError, LookupError) as error:
            raise DataError(f"{path}, line {number}: {error}, expected {expected}: {line[:80]!r}") from error


def number(text: str, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number of a range; a ValueError for everything else."""
    value = float(text)
    if not math.isfinite(value) or not low <= value <= high:
        raise ValueError(f"{text!r} is no finite number from {low:g} to {high:g}")
    return value


def place(label: str, labels: Sequence[str]) -> int:
    """The place of a label in a list; a ValueError where it is not among them."""
    if label not in labels:
        raise ValueError(f"unknown label {label[:40]!r}, not one of {', '.join(labels)}")
    return labels.index(label)


def data_folder(data: Path | None, *parts: str) -> Path:
    """A folder of what `--data` names: DATA/a/b, DATA/b, or DATA itself where its name is b already."""
    wanted = "/".join(parts)
    if data is None:
        raise DatasetError(f"where are the data? give --data FOLDER, or set SURPRISE_RERANK_DATA ({wanted})")
    places = [data.joinpath(*parts[i:]) for i in range(len(parts))]
    if data.name == parts[-1]:
        places.append(data)
    for folder in places:
        if folder.is_dir():
            return folder
    raise DatasetError(f"there is no folder {wanted} in {data}; looked for {', '.join(map(str, places))}")


STANDARD_INPUT = "-"


def read_questions(path: str) -> Iterator[str]:
    """The questions of a file, or of the standard input for `-`; blank lines are passed over."""
    where = "the standard input" if path == STANDARD_INPUT else path
    is_empty = True
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if path == STANDARD_INPUT else open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if text := line.decode("utf-8-sig" if number == 1 else "utf-8").strip():
                    is_empty = False
                    yield text
    except UnicodeDecodeError as error:
        raise DataError(f"{where}:{number} is not UTF-8 ({error.reason}); convert it first") from error
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file of questions") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder; give a file with a question a line") from error
    if is_empty:
        raise DataError(f"{where} holds no questions; write one a line")


def read_judged_questions(path: Path) -> dict[str, str]:
    """Questions: id -> text. JSON lines with `_id` and `text` (BEIR), or id and text with a tab between."""
    from surprise_rerank.connectors.readers._beir import read_queries

    questions = _from_table(path) if path.suffix in (".tsv", ".txt") else read_queries(path)
    if not questions:
        raise DataError(f"{path} holds no question; expected lines of JSON with `_id` and `text`")
    return questions


def read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """Judgements of BEIR or TREC: question id -> document id -> relevance; see `read_qrels`."""
    from surprise_rerank.connectors.readers._beir import read_qrels

    judgements = read_qrels(path)
    if not judgements:
        raise DataError(f"{path} holds no judgement; expected lines of question, document and relevance")
    return judgements


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
