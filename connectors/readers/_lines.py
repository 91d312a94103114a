"""Lines of text files: compressed or not, in any encoding; JSON objects, a line each."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath
from typing import IO, Any, cast

from surprise_rerank._documents import encodable
from surprise_rerank.connectors.readers._source import BINARY, RefusedError, Skipped
from surprise_rerank.core._extras import import_extra

EXTRA = "files"  # the extra that the readers of files are in

LONGEST = 32 * 2**20  # characters of a line; a small compressed file can have one that fills the memory
_SAMPLE = 64 * 2**10
_PART = 2**20
# UTF-32 goes first: its mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN = "cp1252"
_TOLERANCE = 0.15  # of charset-normalizer's "chaos": enough for French, too little for Polish and Czech
_UNDECODED = re.compile("[\udc80-\udcff]")  # what surrogateescape makes of bytes


def decoded(raw: bytes, declared: str | None = None) -> tuple[str, str]:
    """A file's text and its encoding: by a byte order mark, else UTF-8, what it declares, or a guess."""
    marked = _marked(raw)
    is_binary = marked is None and b"\0" in raw[:8000]  # where git looks for one
    for encoding in () if is_binary else [marked] if marked else ["utf-8", declared]:
        try:
            if encoding:
                return raw.decode(encoding), encoding
        except (UnicodeDecodeError, LookupError):
            continue
    guess = None if marked or is_binary else _guessed(raw[:_SAMPLE])
    if guess is None:
        raise RefusedError(BINARY, "is binary, or in no encoding that is known; save it as UTF-8")
    return raw.decode(guess, "replace"), guess


def _marked(raw: bytes) -> str | None:
    """The encoding of a byte order mark."""
    return next((encoding for mark, encoding in _MARKS if raw.startswith(mark)), None)


def _guessed(sample: bytes) -> str | None:
    """The likeliest encoding of a text that is not UTF-8, None for what is no text."""
    normalizer = import_extra("charset_normalizer", EXTRA)
    utils = import_extra("charset_normalizer.utils", EXTRA)
    # Half a character at the end would rule its encoding out; no character but a line's end has that byte.
    sample = sample[: sample.rfind(b"\n") + 1] or sample
    # Without a mark and without a NUL it is not UTF-16, which short texts are taken for.
    matches = normalizer.from_bytes(sample, cp_exclusion=["utf_16", "utf_16_le", "utf_16_be"])
    best = matches.best()
    if best is None:
        return None
    # Languages of western Europe come out as Central European or Baltic by chance. That is rarer by far.
    is_western = not utils.is_multi_byte_encoding(best.encoding) and any(
        _WESTERN in match.could_be_from_charset and match.chaos <= best.chaos + _TOLERANCE
        for match in matches
    )
    return _WESTERN if is_western else str(best.encoding)


def uncompressed_name(name: str) -> str:
    """A file's name without the ending of a compression."""
    return name[: -len(suffix)] if (suffix := PurePath(name).suffix).lower() in (".gz", ".zst") else name


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """A file's bytes, decompressed if its name ends in `.gz` or `.zst`; a RefusedError names the file.

    A pipe or a device in its place is not waited for.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                detail = "is a pipe, a device or a folder; write it to a file first"
                raise RefusedError("not a regular file", detail, where=path, is_gone=True)
            stream: Any = file
            match path.suffix.lower():
                case ".gz":
                    stream = gzip.GzipFile(fileobj=file)
                case ".zst":
                    stream = import_extra("pyarrow", EXTRA).CompressedInputStream(file, "zstd")
            with stream:
                yield stream
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> RefusedError:
    """Why a file cannot be used: the operating system's reason, or what a library says of its content."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, OSError) and error.errno is not None:
        reason = (error.strerror or str(error)).lower()
        return RefusedError(reason, f"cannot be read: {reason}", where=path)
    detail = f"damaged, cut short, or of another format: {' '.join(str(error).split())[:160]}"
    return RefusedError("damaged", detail, where=path)


def read_lines(path: Path, *, newline: str = "\n", guess: bool = False) -> Iterator[str]:
    """The lines of a file; bytes that are none of its encoding come as lone surrogates, see `check_decoded`.

    Of a line of more than `LONGEST` characters only so many come, and one more; see `check_length`.
    `guess` is whether the encoding may be another one than that of the mark, or UTF-8.
    """
    number = 0
    with open_bytes(path) as raw:
        stream = io.BufferedReader(cast(Any, raw), _SAMPLE)
        sample = stream.peek()
        encoding = _marked(sample) or "utf-8"
        try:
            codecs.getincrementaldecoder("utf-8")().decode(sample)
        except UnicodeDecodeError:
            encoding = (_guessed(sample) or encoding) if guess and encoding == "utf-8" else encoding
        try:
            text = io.TextIOWrapper(stream, encoding, "surrogateescape", newline)
            for line in iter(partial(text.readline, LONGEST + 1), ""):
                number += 1
                yield line
                is_cut = len(line) > LONGEST and line[-1] not in "\r\n"
                while is_cut and (more := text.readline(LONGEST)):  # its end is of no use
                    is_cut = more[-1] not in "\r\n"
        except UnicodeDecodeError as error:
            where, detail = f"{path}:{number + 1}", f"not valid {error.encoding}; save it as UTF-8"
            raise RefusedError("damaged", detail, where=where) from error


def count_lines(path: Path) -> int:
    """How many lines a file has."""
    count, last = 0, b"\n"
    with open_bytes(path) as stream:
        for part in iter(partial(stream.read, _PART), b""):  # a line may be of any size
            count, last = count + part.count(b"\n"), part[-1:]
    return count + (last != b"\n")


def check_length(line: str) -> str:
    """Return a line, which must not be cut."""
    if len(line) > LONGEST:
        most = f"{LONGEST // 2**20} Mi characters"
        raise RefusedError("a line too long", f"the line has more than {most}; split it")
    return line


def check_decoded(text: str) -> None:
    """Refuse a text in which a byte was no character."""
    if not text.isascii() and _UNDECODED.search(text):
        raise RefusedError("not valid UTF-8", "not valid UTF-8; save the file as UTF-8")


def read_objects(path: Path, skipped: Skipped) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and object of every line that has one."""
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            try:
                check_decoded(check_length(line))
                record = parsed_json(line)
                if not isinstance(record, dict):
                    detail = f"must be a JSON object, got {line.strip()[:40]}"
                    raise RefusedError("not an object", detail)
            except RefusedError as refused:
                skipped.refuse(f"{path}:{number}", refused)
            else:
                yield number, record


def parsed_json(text: str) -> Any:
    """What a text of JSON holds."""
    try:
        # Not strict: control characters inside strings are bad JSON, but they do no harm and they do occur.
        values = json.loads(text, strict=False)
        # A lone surrogate can only come from an escape, so most lines are spared the second pass.
        if "\\ud" in text.lower():
            values = json.loads(encodable(json.dumps(values, ensure_ascii=False)))
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, deep nesting
        raise RefusedError("not valid JSON", f"not valid JSON: {error}") from error
    return values
