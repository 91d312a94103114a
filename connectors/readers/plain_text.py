"""Plain text, and what every reader of a file gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surprise_rerank.connectors.readers.text_streams import decoded


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a file says.

    Attributes:
        text: its text.
        title: its own title, empty where it has none.
        metadata: what else is known of it.
    """

    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


def plain_text(raw: bytes, encoding: str | None = None) -> Extracted:
    """A text file as it is.

    Args:
        raw: the file.
        encoding: of a file that is not UTF-8; guessed by default.

    Raises:
        RefusedError: if it is no text.
        MissingExtraError: if its encoding has to be guessed and that is not installed.
    """
    text, found = decoded(raw, encoding)
    return Extracted(text.replace("\r\n", "\n"), metadata=encoding_metadata(found))


def encoding_metadata(encoding: str) -> dict[str, str]:
    """An encoding that is worth telling, because it may be guessed."""
    return {} if encoding in ("utf-8", "utf-8-sig") else {"encoding": encoding}
