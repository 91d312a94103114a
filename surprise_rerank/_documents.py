"""What is indexed and found: documents, and the passages that long ones are split into."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank._places import Place, Places, checked_places, place_of


def encodable(text: str) -> str:
    r"""The text with every lone surrogate, which nothing can carry, replaced by U+FFFD; pairs are joined.

    >>> encodable("caf\u00e9 \ud800!") == "caf\u00e9 \ufffd!"
    True
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def stripped_question(text: str) -> str:
    """A question without white space around it, encodable."""
    if not text.strip():
        raise DataError("the question is empty; ask in words")
    return encodable(text.strip())


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a collection; a DataError if a part of it cannot be stored.

    Attributes:
        id: its name in the collection; any non-empty string, unique in the collection.
        text: the body.
        title: the heading, empty where there is none.
        metadata: anything else, as JSON values; stored and returned, never read.
        source: what it was read from; stored, and no part of what the document says.
        places: where its text stands in that: offsets, ascending, and the `Place` from each on.
    """

    id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: str = field(default="", compare=False, repr=False, kw_only=True)
    places: Places = field(default=(), compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("id", "text", "title"):
            value = border.text(f"Document.{name}", getattr(self, name), advice="make it one with str()")
            object.__setattr__(self, name, encodable(value))
        border.text("Document.source", self.source)
        object.__setattr__(self, "places", checked_places("Document.places", self.places))
        name = f"document {self.id!r}: metadata"
        object.__setattr__(self, "metadata", border.json_value(name, border.mapping(name, self.metadata)))

    @property
    def content(self) -> str:
        """Title and text in one string: what is encoded and what BM25 indexes."""
        return f"{self.title} {self.text}".strip()

    @property
    def text_start(self) -> int:
        """Where the text begins in `content`; below 0 where white space before it is left out there."""
        head = f"{self.title} "
        return len(head.lstrip()) if self.title.strip() else len(self.text.lstrip()) - len(self.text)

    def place(self, start: int, end: int) -> Place | None:
        """The place of characters start..end of `content`; None where its reader knew none."""
        if not self.places:
            return None
        first = max(start - self.text_start, 0)
        return place_of(self.text, self.places, first, max(end - self.text_start, first))

    @property
    def content_hash(self) -> str:
        """SHA-256 of title and text, hexadecimal: a stored copy with another one is out of date."""
        return hashlib.sha256(f"{self.title}\0{self.text}".encode()).hexdigest()


def without_title(text: str, title: str, start: int = 0) -> str:
    """A document's content, or a passage that begins at `start`, without the title it may begin with.

    >>> without_title("Dogs Dogs bark.", "Dogs"), without_title("Dogs bark.", "Dog")
    ('Dogs bark.', 'Dogs bark.')
    """
    remainder = text.removeprefix(title)
    return remainder.lstrip() if title and not start and remainder[:1].strip() == "" else text


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a document, numbered from 0: characters start..end of `Document.content`."""

    number: int
    start: int
    end: int
