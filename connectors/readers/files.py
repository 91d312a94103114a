"""One file as a document: plain text, Markdown, HTML or PDF."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from surprise_rerank.connectors.readers.html_text import html_text
from surprise_rerank.connectors.readers.markdown_text import markdown_text
from surprise_rerank.connectors.readers.pdf_text import pdf_text
from surprise_rerank.connectors.readers.plain_text import Extracted, plain_text
from surprise_rerank.connectors.readers.source import RefusedError
from surprise_rerank.documents import Document, encodable

MAX_BYTES = 32 * 2**20

_PLAIN = (".txt", ".text", ".rst")
_READERS: dict[str, Callable[[bytes, str | None], Extracted]] = {
    **dict.fromkeys(_PLAIN, plain_text),
    **dict.fromkeys((".md", ".markdown"), markdown_text),
    **dict.fromkeys((".html", ".htm", ".xhtml"), html_text),
    ".pdf": lambda raw, _: pdf_text(raw),
}


def is_document(name: str) -> bool:
    """Whether a file's name says that it is a text, Markdown, HTML or PDF file."""
    return PurePosixPath(name).suffix.lower() in _READERS


def read_file(path: Path, name: str, *, max_bytes: int = MAX_BYTES, encoding: str | None = None) -> Document:
    """A file as a document. What is of no known kind by its name is taken for plain text.

    Args:
        path: where it is.
        name: its id.
        max_bytes: larger files are refused.
        encoding: of text that is not UTF-8; guessed by default.

    Returns:
        Its text; its own title, or else its name without the ending; as metadata `path` (the id), `bytes`,
        `modified` (in UTC), `encoding` where it is text other than UTF-8, and `pages` of a PDF.

    Raises:
        RefusedError: if it cannot be read, is too large, holds no text, or is not what its name says.
        MissingExtraError: if its reader is not installed.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(max_bytes + 1)
        modified = datetime.fromtimestamp(int(path.stat().st_mtime), UTC)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RefusedError(reason, f"cannot be read: {reason}", unreadable=True) from error
    except (ValueError, OverflowError):
        modified = datetime.fromtimestamp(0, UTC)  # a date that no calendar has
    if len(raw) > max_bytes:
        raise RefusedError(f"larger than {_size(max_bytes)}", f"is larger than {_size(max_bytes)}")
    extracted = _READERS.get(path.suffix.lower(), plain_text)(raw, encoding)
    if not extracted.text.strip():
        raise RefusedError("no text", "holds no text")
    metadata: dict[str, Any] = {
        "path": name,
        "bytes": len(raw),
        "modified": modified.isoformat(),
        **extracted.metadata,
    }
    title = " ".join(extracted.title.split()) or encodable(path.stem)
    return Document(id=name, text=extracted.text, title=title, metadata=metadata)


def _size(count: int) -> str:
    return f"{count // 2**20} MiB" if count >= 2**20 else f"{count} bytes"
