"""The text of PDF files."""

from __future__ import annotations

import io
import logging
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from surprise_rerank.connectors.readers.source import EXTRA, RefusedError
from surprise_rerank.connectors.readers.text_streams import Extracted
from surprise_rerank.core.extras import import_extra

# Small files can unfold to endless work, one form that draws another many times for example. pypdf bounds
# every stream and the forms of every page; these are bounds of the whole file.
_MAX_SECONDS = 120.0
_MAX_CHARACTERS = 32 * 2**20

# What pypdf raises where a file is not what it expects.
_DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)


def pdf_text(
    raw: bytes, *, max_seconds: float = _MAX_SECONDS, max_characters: int = _MAX_CHARACTERS
) -> Extracted:
    """The text of a PDF file, pages apart; its own title and number of pages.

    Args:
        raw: the file.
        max_seconds: to spend on it; looked at with every operation of every page.
        max_characters: of its text.

    Raises:
        RefusedError: if it is encrypted, damaged, unfolds to too much, or holds no text.
        MissingExtraError: if pypdf is not installed.
    """
    pypdf = import_extra("pypdf", EXTRA)
    errors = import_extra("pypdf.errors", EXTRA)
    budget = _Budget(time.monotonic() + max_seconds, max_characters)
    try:
        with _silent():
            reader = pypdf.PdfReader(io.BytesIO(raw), strict=False)
            title = reader.metadata.title if reader.metadata else None
            pages = [budget.text_of(page) for page in reader.pages]
    except (errors.FileNotDecryptedError, errors.DependencyError) as error:
        raise RefusedError("encrypted", "is encrypted; save it without a password") from error
    except errors.LimitReachedError as error:
        raise RefusedError("too complex", "unfolds to more than is read of a PDF") from error
    except (errors.PyPdfError, *_DAMAGE) as error:
        raise RefusedError("damaged", f"is damaged, or no PDF: {_one_line(error)}") from error
    text = "\n\n".join(filter(None, pages))
    if not text:
        raise RefusedError("no text", "holds no text: scanned pages need OCR first")
    return Extracted(text, str(title or ""), {"pages": len(pages)})


class _Budget:
    """What may still be spent on a file."""

    def __init__(self, deadline: float, characters: int) -> None:
        self._deadline = deadline
        self._characters = characters

    def text_of(self, page: Any) -> str:
        text = str(page.extract_text(visitor_operand_before=self._operation, visitor_text=self._text))
        # pypdf goes on after an error that is raised inside a form.
        self._check()
        return text.strip()

    def _operation(self, *_: Any) -> None:
        self._check()

    def _text(self, text: str, *_: Any) -> None:
        self._characters -= len(text)

    def _check(self) -> None:
        if self._characters < 0 or time.monotonic() > self._deadline:
            raise RefusedError("too complex", "unfolds to more than is read of a PDF")


@contextmanager
def _silent() -> Iterator[None]:
    """Without pypdf's log, which has every oddity of files that it can read nevertheless."""
    logger = logging.getLogger("pypdf")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]
