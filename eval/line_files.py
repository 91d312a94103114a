"""Data files of a line per item, whose errors name the file and the line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from surprise_rerank.core.files import disk_errors
from surprise_rerank.errors import DataError, DatasetError


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file.

    Attributes:
        path: of the file.
        number: of the line, from 1.
        text: without its end.
    """

    path: Path
    number: int
    text: str

    def wrong(self, what: str) -> DataError:
        """The error that something is wrong with this line."""
        return DataError(f"{self.path}, line {self.number}: {what}")

    def fields(self, separator: str | None, names: Sequence[str], *, more: bool = False) -> list[str]:
        """The line's parts.

        Args:
            separator: between them; None for any white space.
            names: what they are, in order.
            more: whether further ones may follow.

        Raises:
            DataError: if there are fewer, or more.
        """
        parts = self.text.split(separator)
        if len(parts) < len(names) or (len(parts) > len(names) and not more):
            between = "white space" if separator is None else {"\t": "tabs", ",": "commas"}.get(separator)
            expected = f"{len(names)} columns ({', '.join(names)}) with {between or repr(separator)} between"
            raise self.wrong(f"{len(parts)} columns, expected {expected}: {self.text[:80]!r}")
        return parts

    def number_in(self, text: str, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A part as a number.

        Args:
            text: the part.
            name: what it is.
            low: the smallest that is allowed.
            high: the largest.

        Raises:
            DataError: if it is none, or out of range.
        """
        try:
            value = float(text)
        except ValueError:
            raise self.wrong(f"the {name} is {text[:40]!r}, expected a number") from None
        if not math.isfinite(value) or not low <= value <= high:
            span = "a finite number" if math.isinf(low) else f"a number from {low:g} to {high:g}"
            raise self.wrong(f"the {name} is {text[:40]!r}, expected {span}")
        return value

    def label(self, text: str, labels: Sequence[str]) -> int:
        """The place of a part in a list of labels.

        Raises:
            DataError: if it is not among them.
        """
        if text not in labels:
            raise self.wrong(f"unknown label {text[:40]!r}, expected one of {', '.join(labels)}")
        return labels.index(text)


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[Line]:
    """The lines of a file; only a line feed ends one, as texts hold U+0085 and the like.

    Args:
        path: of the file.
        encoding: of its bytes; a byte order mark is passed over.

    Raises:
        DatasetError: if there is no such file.
        StoreError: if it cannot be read.
        DataError: if a line is not in the encoding.
    """
    if not path.is_file():
        raise DatasetError(f"there is no file {path}; is --data the folder that holds it?")
    with disk_errors(str(path)):
        content = path.read_bytes().removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
    if not content:
        return
    for number, raw in enumerate(content.split(b"\n"), start=1):
        try:
            yield Line(path, number, raw.decode(encoding).removesuffix("\r"))
        except UnicodeDecodeError as error:
            raise DataError(f"{path}, line {number}: not {encoding} ({error.reason})") from error


def same_length(first: Sequence[Line], second: Sequence[Line]) -> None:
    """Refuse two files that should have a line each for every item.

    Raises:
        DataError: if one has more lines; names both files, and where the shorter one ends.
    """
    if len(first) != len(second):
        longer, shorter = sorted((first, second), key=len, reverse=True)
        if not shorter:
            raise DataError(f"the file beside {longer[0].path} is empty, expected {len(longer)} lines")
        raise DataError(
            f"{shorter[0].path} ends after line {len(shorter)}, {longer[0].path} has {len(longer)} lines; "
            "expected as many in both"
        )


def data_folder(data: Path | None, *parts: str) -> Path:
    """A folder of evaluation data: DATA/a/b, DATA/b, or DATA itself where its name is b already.

    Args:
        data: what `--data` names.
        parts: names of folders, the last one being the one that is wanted.

    Raises:
        DatasetError: if no data are named, or there is no such folder; names the places that were searched.
    """
    wanted = "/".join(parts)
    if data is None:
        raise DatasetError(f"where are the data? give --data FOLDER, or set SURPRISE_RERANK_DATA ({wanted})")
    places = [data.joinpath(*parts[i:]) for i in range(len(parts))]
    if data.name == parts[-1]:
        places.append(data)
    for place in places:
        if place.is_dir():
            return place
    raise DatasetError(f"there is no folder {wanted} in {data}; looked for {', '.join(map(str, places))}")
