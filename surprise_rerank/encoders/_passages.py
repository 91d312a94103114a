"""Passages: documents that are longer than the model's window are split, so that no part is lost."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, get_args

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._documents import Document, Passage
from surprise_rerank._errors import DataError
from surprise_rerank.core._batches import in_batches
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.encoders._adapting import as_encoder
from surprise_rerank.encoders._sentence_boundaries import sentence_starts, within_character
from surprise_rerank.encoders.base import Encoder

# Characters in one call of the tokenizer: enough for all its threads, and few enough for its memory.
_CALL_CHARACTERS = 1_000_000
# Pages and sections of less than this share of a passage are joined with the next one.
_SENSIBLE = 4

Follow: TypeAlias = Literal["structure", "tokens"]


@dataclass(frozen=True, slots=True)
class Passages:
    """How documents are split.

    A document of at most `tokens` tokens is one passage. The passages of a longer one cover its content
    without a gap, and each has at most `tokens` tokens as it is encoded. It ends at the last sentence
    boundary within reach that leaves it longer than the overlap, or else at white space, or else between two
    tokens. Neighbours share at least `overlap` tokens: whole sentences where those take no more than half of
    `tokens`, or else words; less where a passage has a handful of tokens. Later passages have the title
    before them if it takes at most a quarter of `tokens` and leaves room for more than the overlap.

    Where the places of a document are known, a passage ends where its page, slide, sheet or section does,
    and shares nothing with the next one, unless that leaves it shorter than a quarter of `tokens`. What is
    encoded before its text, behind the title, is the path of headings, and the head of a table that it is
    in the middle of. Where there is no sentence's end, it ends with a line: of a program, or a row.

    Attributes:
        tokens: most tokens of a passage; what the encoder reads at once where None.
        overlap: least number of tokens that neighbours share.
        best: of how many best passages a document's score is the mean.
        follow: what passages follow: the `structure` of the document as well, or `tokens` alone.
    """

    tokens: int | None = None
    overlap: int = 32
    best: int = 1
    follow: Follow = "structure"

    def __post_init__(self) -> None:
        overlap = partial(border.count, least=0)
        border.fields(self, tokens=border.or_none(border.count), overlap=overlap, best=border.count)
        border.choice("follow", self.follow, get_args(Follow))
        if self.tokens is not None:
            self._check_overlap(self.tokens)

    def split(self, documents: Sequence[Document], encoder: Encoder) -> list[tuple[Passage, ...]]:
        """Every document's passages, one or more; whole documents where nothing sets a limit.

        A DataError if the encoder reads less than `tokens`, or no more than the overlap, or if a character
        takes more tokens than a passage may have.
        """
        documents = list(border.instances("documents", documents, Document))
        limit = self._limit(as_encoder(encoder))
        if limit is None:
            return [(Passage(0, 0, len(document.content)),) for document in documents]
        passages = []
        for group in in_batches(
            documents, lambda document: len(document.title) + len(document.text), _CALL_CHARACTERS
        ):
            spans = encoder.token_spans([document.content for document in group])
            for document, tokens in zip(group, spans, strict=True):
                stretches = [(0, len(document.content))]
                if len(tokens) > limit:
                    stretches = self._fitting(document, np.maximum.accumulate(tokens[:, 0]), encoder, limit)
                passages.append(tuple(Passage(i, *stretch) for i, stretch in enumerate(stretches)))
        return passages

    def texts(
        self, documents: Sequence[Document], passages: Sequence[Sequence[Passage]], encoder: Encoder
    ) -> list[list[str]]:
        """What is encoded for every passage of every document, which `split` gave for this encoder."""
        limit = self._limit(encoder)
        return [
            self._texts(document, parts, len(parts) > 1 and self._title(document, encoder, limit) > 0, limit)
            for document, parts in zip(documents, passages, strict=True)
        ]

    def _texts(
        self, document: Document, passages: Sequence[Passage], titled: bool, limit: int | None
    ) -> list[str]:
        """Return the texts that are encoded: passages after the first begin with title and headings."""
        texts = passage_texts(document, passages, titled)
        if self.follow == "tokens" or not document.places or len(passages) < 2:
            return texts
        title = f"{document.title.strip()} " if titled else ""
        for row, passage in enumerate(passages):
            place, text = document.place(passage.start, passage.end), texts[row]
            lines = [] if place is None else [line for line in (place.heading, place.table) if line]
            # About a quarter of a passage: a token has some letters.
            if passage.start and lines and (limit is None or sum(map(len, lines)) <= limit):
                texts[row] = "\n".join([title + lines[0], *lines[1:], text.removeprefix(title)])
        return texts

    def _sections(self, document: Document, starts: IntArray, limit: int) -> list[tuple[int, int]]:
        """The stretches of a document that no passage crosses, each of at least a quarter of a passage."""
        end = len(document.content)
        places = document.places if self.follow == "structure" else ()
        parts = [(place.page, place.slide, place.sheet, place.heading) for _, place in places]
        edges = [
            offset + document.text_start
            for (offset, _), part, before in zip(places[1:], parts[1:], parts, strict=False)
            if part != before
        ]
        sections, begin = [], 0
        for edge in edges:
            tokens = np.searchsorted(starts, [begin, edge, end])
            if min(np.diff(tokens)) >= max(limit // _SENSIBLE, 1):
                sections.append((begin, edge))
                begin = edge
        return [*sections, (begin, end)]

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

    def _title(self, document: Document, encoder: Encoder, limit: int | None) -> int:
        """Tokens of the title that later passages repeat; 0 where they don't."""
        title = document.title.strip()
        if limit is None or not title:
            return 0
        tokens = len(encoder.token_spans([f"{title} "])[0])
        return tokens if tokens <= limit // 4 and tokens + self.overlap < limit else 0

    def _fitting(
        self, document: Document, starts: IntArray, encoder: Encoder, limit: int
    ) -> list[tuple[int, int]]:
        """Where passages begin and end that have at most so many tokens as they are encoded."""
        content, title = document.content, self._title(document, encoder, limit)
        sentences = sentence_starts(content)
        sections = self._sections(document, starts, limit)
        by_lines = self.follow == "structure" and bool(document.places)
        room = limit
        while True:
            overlap = min(self.overlap, room - 1)
            stretches = [
                stretch
                for section in sections
                for stretch in _cut(
                    content, starts, sentences, room, max(1, room - title), overlap, section, by_lines
                )
            ]
            passages = [Passage(i, *stretch) for i, stretch in enumerate(stretches)]
            # A stretch alone may have more tokens than in the whole document. Then all are made shorter.
            texts = self._texts(document, passages, title > 0, limit)
            groups = in_batches(texts, len, _CALL_CHARACTERS)
            lengths = [len(spans) for group in groups for spans in encoder.token_spans(group)]
            excess = max(lengths) - limit
            if excess <= 0:
                return stretches
            characters = np.arange(len(content))
            if room > 1:
                room = max(1, room - excess)
            elif not np.array_equal(starts, characters):
                starts, room = characters, limit  # parted between any two characters
            else:
                start = stretches[int(np.argmax(lengths))][0]
                raise DataError(
                    f"document {document.id!r}: the character {content[start]!r} at {start} takes more than "
                    f"the {limit} tokens of a passage; allow passages of more tokens"
                )


def passage_texts(document: Document, passages: Sequence[Passage], titled: bool) -> list[str]:
    """What is encoded for passages of a document; `titled` is whether the later ones repeat its title."""
    content = document.content
    prefix = f"{document.title.strip()} " if titled else ""
    return [(prefix if p.start else "") + content[p.start : p.end].strip() for p in passages]


def _cut(
    content: str,
    starts: IntArray,
    sentences: list[int],
    first: int,
    later: int,
    overlap: int,
    section: tuple[int, int],
    by_lines: bool,
) -> Iterator[tuple[int, int]]:
    """Passages of at most so many tokens of a section; tokens and sentences of the document begin there.

    By lines, a passage without a sentence's end ends with a line: a row of a table, or of a program.
    """
    begin, stop = section

    def token(position: int, steps: int) -> int:
        """Where the token begins that is `steps` after the first one at a position or later."""
        i = int(np.searchsorted(starts, position)) + steps
        return min(int(starts[max(i, 0)]), stop) if i < len(starts) else stop

    def border(low: int, high: int, middle: int) -> int:
        """The best place in low + 1..high: a sentence's, a line's or word's after the middle, or the last."""
        i = bisect.bisect_right(sentences, high)
        if i and sentences[i - 1] > low:
            return sentences[i - 1]
        spaces = [p for p in range(high, max(low, middle), -1) if content[p - 1].isspace()]
        if spaces:
            return next((p for p in spaces if by_lines and content[p - 1] == "\n"), spaces[0])
        return next((p for p in range(high, low, -1) if not within_character(content, p)), high)

    start = covered = begin
    while True:
        high = token(start, later if start else first)
        if high <= covered:  # a character of more tokens than there is room for
            start, high = covered, max(token(covered, later), covered + 1)
        while high < stop and content[high].isspace():
            high += 1
        if high == stop:
            yield start, high
            return
        least = max(covered, token(start, overlap))
        end = border(least if least < high else covered, high, (start + high) // 2)
        yield start, end
        latest, covered = token(end, -overlap), end
        if overlap and latest > start:
            earliest = max(start, token(end, -max(overlap, first // 2)) - 1)
            start = border(earliest, latest, earliest)
        else:
            start = end
