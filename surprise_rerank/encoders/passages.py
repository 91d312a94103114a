"""Passages: documents that are longer than the model's window are split, so that no part is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from surprise_rerank.core.batches import in_batches
from surprise_rerank.documents import Document, Passage
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.cutting import (
    CALL_CHARACTERS,
    Cutter,
    PassageSize,
    cut_all,
    encoded_stretch,
    is_exact,
    token_starts,
)
from surprise_rerank.errors import DataError


@dataclass(frozen=True, slots=True)
class Passages:
    """How documents are split.

    A document of at most `tokens` tokens is one passage. Of a longer one,

    - every passage has at most `tokens` tokens as it is encoded, the repeated title included;
    - together they cover the content without a gap, white space included;
    - each ends at the last sentence boundary (`sentence_boundaries`) within reach that leaves it longer
      than the overlap; at white space in its second half where there is none; or between two tokens, and
      within no character of several code points where that can be helped;
    - neighbours share at least `overlap` tokens, as the whole document was tokenised: whole sentences
      where those take no more than half of `tokens`, or else what begins at the nearest word. Passages that
      are too small for that (a handful of tokens, in a script that takes several for a character) share less.

    Later passages have the title before them if it takes at most a quarter of `tokens` and leaves room for
    more than the overlap. The first begins with it anyway.

    Attributes:
        tokens: most tokens of a passage; what the encoder reads at once where None.
        overlap: least number of tokens that neighbours share.
        best: a document's score is the mean of its `best` best passages'.

    Raises:
        DataError: if `tokens` or `best` is not positive, or the overlap is negative or not below `tokens`.
    """

    tokens: int | None = None
    overlap: int = 32
    best: int = 1

    def __post_init__(self) -> None:
        given = (("tokens", self.tokens, 1), ("overlap", self.overlap, 0), ("best", self.best, 1))
        for name, value, least in given:
            if value is not None and value < least:
                raise DataError(f"Passages.{name} must be at least {least}, got {value}")
        if self.tokens is not None:
            self._check_overlap(self.tokens)

    def split(self, documents: Sequence[Document], encoder: Encoder) -> list[tuple[Passage, ...]]:
        """Every document's passages, in order; takes time in proportion to the text.

        Args:
            documents: n documents.
            encoder: what will encode them. Where neither it nor `tokens` sets a limit, nothing is split.

        Returns:
            n tuples of one or more passages. An empty document has one empty passage.

        Raises:
            DataError: if `tokens` is more than the encoder reads, the overlap is not below what it reads, or
                a single character takes more tokens than a passage may have.
        """
        limit = self._limit(encoder)
        if limit is None:
            return [(Passage(0, 0, len(document.content)),) for document in documents]
        groups = in_batches(documents, lambda own: len(own.title) + len(own.text), CALL_CHARACTERS)
        return [passages for group in groups for passages in self._split(group, encoder, limit)]

    def titled(self, documents: Sequence[Document], encoder: Encoder) -> list[bool]:
        """Whether later passages of each document, if it has any, repeat its title.

        Raises:
            DataError: as `split`.
        """
        limit = self._limit(encoder)
        if limit is None:
            return [False] * len(documents)
        titles = [document.title.strip() for document in documents]
        counts = [len(starts) for starts in token_starts(titles, encoder)]
        return [bool(title) and self._title_fits(n, limit) for title, n in zip(titles, counts, strict=True)]

    def texts(
        self, documents: Sequence[Document], passages: Sequence[Sequence[Passage]], encoder: Encoder
    ) -> list[list[str]]:
        """What is encoded for every passage of every document.

        Args:
            documents: n documents.
            passages: n lists of passages, which `split` gave for these documents and this encoder.
            encoder: what will encode them.

        Raises:
            DataError: as `split`.
        """
        long = [document for document, own in zip(documents, passages, strict=True) if len(own) > 1]
        titled = iter(self.titled(long, encoder))
        return [
            passage_texts(document, own, len(own) > 1 and next(titled))
            for document, own in zip(documents, passages, strict=True)
        ]

    def _check_overlap(self, limit: int) -> None:
        if self.overlap >= limit:
            raise DataError(
                f"passages of {limit} tokens that share {self.overlap} hold nothing new; choose an overlap "
                f"below {limit}"
            )

    def _limit(self, encoder: Encoder) -> int | None:
        """Most tokens of a passage; None for any number."""
        window = encoder.window
        if window is None:
            return self.tokens
        if window < 1:
            raise DataError(
                f"the prompt of the model {encoder.name!r} fills its window; choose a shorter one"
            )
        if self.tokens is not None and self.tokens > window:
            raise DataError(
                f"passages of {self.tokens} tokens are too long for the model {encoder.name!r}, which reads "
                f"{window}; choose at most that many, or none for its window"
            )
        limit = window if self.tokens is None else self.tokens
        self._check_overlap(limit)
        return limit

    def _title_fits(self, title: int, limit: int) -> bool:
        return title <= limit // 4 and title + self.overlap < limit

    def _split(
        self, documents: Sequence[Document], encoder: Encoder, limit: int
    ) -> list[tuple[Passage, ...]]:
        contents = [document.content for document in documents]
        starts = token_starts(contents, encoder)
        long = [i for i, content in enumerate(contents) if len(starts[i]) > limit or not is_exact(content)]
        titles = [documents[i].title.strip() for i in long]
        cutters = {}
        for i, title, tokens in zip(long, titles, token_starts(titles, encoder), strict=True):
            repeated = bool(title) and self._title_fits(len(tokens), limit)
            size = PassageSize(limit, limit - len(tokens) * repeated, self.overlap)
            prefix = f"{title} " if repeated else ""
            cutters[i] = Cutter(documents[i].id, contents[i], starts[i], prefix, size)
        cut_all(list(cutters.values()), encoder)
        return [
            _numbered(cutters[i].stretches if i in cutters else [(0, len(content))])
            for i, content in enumerate(contents)
        ]


def passage_text(document: Document, passage: Passage, titled: bool) -> str:
    """What is encoded for a passage; the whole content for a document's only one.

    Args:
        document: the whole.
        passage: of this document.
        titled: whether its later passages repeat the title (`Passages.titled`).
    """
    return passage_texts(document, [passage], titled)[0]


def passage_texts(document: Document, passages: Sequence[Passage], titled: bool) -> list[str]:
    """`passage_text` of several passages of one document, whose content is put together only once."""
    content = document.content
    prefix = f"{document.title.strip()} " if titled else ""
    return [encoded_stretch(content, p.start, p.end, prefix)[0] for p in passages]


def _numbered(stretches: Sequence[tuple[int, int]]) -> tuple[Passage, ...]:
    return tuple(Passage(number, start, end) for number, (start, end) in enumerate(stretches))
