"""Cuts long documents into passages that fit: they are planned, tokenised and shortened."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from surprise_rerank.core.arrays import IntArray
from surprise_rerank.core.batches import in_batches
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.sentence_boundaries import sentence_starts, within_character
from surprise_rerank.errors import DataError

T = TypeVar("T")

# Characters in one call of the tokenizer: enough for all its threads, and few enough for the memory of
# offsets.
CALL_CHARACTERS = 1_000_000
# Tokenizers take more time and memory per character of a long text, so it is read in blocks.
_BLOCK = 16_384
_BLOCK_END = re.compile(r"\s+|[。！？]")  # noqa: RUF001
# Passages of one document that are planned before they are checked.
_FIRST_PLANS, _MOST_PLANS = 8, 128
# Code points of one character as a reader sees it; a bound on the time for a text of marks.
_LONGEST_CHARACTER = 64


def token_starts(texts: Sequence[str], encoder: Encoder) -> list[IntArray]:
    """Where the tokens of each text begin, ascending."""
    block_starts = [_block_starts(text) for text in texts]
    blocks = [
        text[start:end]
        for text, own in zip(texts, block_starts, strict=True)
        for start, end in itertools.pairwise([*own, len(text)])
    ]
    spans = (
        span for group in in_batches(blocks, len, CALL_CHARACTERS) for span in encoder.token_spans(group)
    )
    found = []
    for own in block_starts:
        parts = [next(spans)[:, 0] + start for start in own]
        found.append(np.maximum.accumulate(np.concatenate(parts)))
    return found


def is_exact(text: str) -> bool:
    """Whether `token_starts` reads a text in one piece, and so as an encoder will."""
    return len(text) <= _BLOCK


def _block_starts(text: str) -> list[int]:
    """0 and, at least `_BLOCK` apart, positions after white space or a stop; a short text is one block."""
    blocks = [0]
    while (found := _BLOCK_END.search(text, blocks[-1] + _BLOCK)) is not None and found.end() < len(text):
        blocks.append(found.end())
    return blocks


def encoded_stretch(content: str, start: int, end: int, prefix: str) -> tuple[str, int]:
    """The text that is encoded for a stretch, and the position of its first character in the content."""
    stretch = content[start:end]
    text = stretch.lstrip()
    shift = start + len(stretch) - len(text)
    if start == 0:
        return text.rstrip(), shift
    return prefix + text.rstrip(), shift - len(prefix)


@dataclass(frozen=True, slots=True)
class PassageSize:
    """Tokens: of a first passage, of the content in a later one, and how many of those are shared."""

    first: int
    later: int
    overlap: int

    @property
    def most_shared(self) -> int:
        """How many tokens neighbours may share to begin with a whole sentence."""
        return max(self.overlap, self.first // 2)


class Cutter:
    """Cuts one long document into passages.

    Passages are planned by the tokens of the whole document. A stretch alone may have more tokens, so each is
    tokenised as it will be encoded, and shortened until it fits.

    Args:
        name: the document's id, for an error.
        content: what is split.
        starts: (n,) where its tokens begin, ascending.
        prefix: the text before later passages.
        size: tokens of a passage.
    """

    def __init__(self, name: str, content: str, starts: IntArray, prefix: str, size: PassageSize) -> None:
        self.stretches: list[tuple[int, int]] = []
        self._name = name
        self._content = content
        self._token_starts = starts
        self._prefix = prefix
        self._size = size
        self._sentences = sentence_starts(content)
        self._start = 0
        # The next passage's end where it is not planned by tokens: it was too long, or all of a text that was
        # read in blocks may fit.
        may_fit = not is_exact(content) and len(starts) < 2 * size.first
        self._end: int | None = len(content) if may_fit else None
        self._failures = 0
        self._ahead = _FIRST_PLANS

    @property
    def _covered(self) -> int:
        return self.stretches[-1][1] if self.stretches else 0

    @property
    def finished(self) -> bool:
        """Whether its passages cover the document."""
        return bool(self.stretches) and self._covered == len(self._content)

    def plan(self) -> list[tuple[int, int]]:
        """The next passages, if each of them fits."""
        planned: list[tuple[int, int]] = []
        start, covered, end = self._start, self._covered, self._end
        while len(planned) < self._ahead:
            if end is None:
                end = self._planned_end(start, covered)
            planned.append((start, end))
            if end == len(self._content):
                break
            start, covered, end = self._following(start, end), end, None
        return planned

    def text(self, stretch: tuple[int, int]) -> str:
        """What will be encoded."""
        return encoded_stretch(self._content, *stretch, self._prefix)[0]

    def check(self, planned: Sequence[tuple[int, int]], spans: Sequence[IntArray]) -> None:
        """Accept planned passages up to the first that does not fit, and change the plan of that one.

        Args:
            planned: n passages.
            spans: of the n texts that will be encoded for them.
        """
        for done, (stretch, tokens) in enumerate(zip(planned, spans, strict=True)):
            if len(tokens) > self._size.first:
                self._shorten(
                    *stretch, tokens[:, 0] + encoded_stretch(self._content, *stretch, self._prefix)[1]
                )
                self._ahead = 2 * done + 1  # the plans after it are lost
                return
            self.stretches.append(stretch)
            self._start, self._end, self._failures = self._following(*stretch), None, 0
        self._ahead = min(_MOST_PLANS, 2 * self._ahead)

    def _shorten(self, start: int, end: int, starts: IntArray) -> None:
        """A new plan for a passage whose tokens, which begin at `starts`, are too many."""
        self._failures += 1
        # Every failure doubles the margin, as a shorter stretch may again have other tokens.
        kept = max(1, self._size.first - 2 ** (self._failures - 1) + 1)
        covered, high = self._covered, int(starts[kept])
        if covered < high < end:
            self._end = min(self._cut(start, covered, high), end - 1)
        elif start < covered:
            self._start, self._end = covered - (covered - start) // 2, None
            self._failures = 0
        else:
            self._end = self._shortest(start, end)

    def _shortest(self, start: int, end: int) -> int:
        """The end of one character as a reader sees it, or of one code point where that is too much."""
        seen = self._character_end(start)
        if seen < end:
            return seen
        if start + 1 < end:
            return start + 1
        raise DataError(
            f"document {self._name!r}: the character {self._content[start]!r} at {start} takes more than the "
            f"{self._size.first} tokens of a passage; allow passages of more tokens"
        )

    def _token(self, position: int, steps: int) -> int:
        """Where the token begins that is `steps` after the first one at a position or later."""
        i = int(np.searchsorted(self._token_starts, position)) + steps
        return int(self._token_starts[max(i, 0)]) if i < len(self._token_starts) else len(self._content)

    def _planned_end(self, start: int, covered: int) -> int:
        high = self._token(start, self._size.later if start else self._size.first)
        if high <= covered:
            high = self._character_end(covered)
        return self._cut(start, covered, high)

    def _cut(self, start: int, covered: int, high: int) -> int:
        """The best end of a passage: after what is covered, and at `high` or before."""
        while high < len(self._content) and self._content[high].isspace():
            high += 1
        if high == len(self._content):
            return high
        least = max(covered, self._token(start, self._size.overlap))
        sentence = self._sentence_before(high)
        if sentence > least:
            return sentence
        word = self._word_before(high, max(least, (start + high) // 2))
        return self._before_character(high, covered) if word is None else word

    def _following(self, start: int, end: int) -> int:
        """Where the next passage begins."""
        overlap = self._size.overlap
        latest = self._token(end, -overlap) if overlap else end
        if latest <= start or not overlap:
            return end
        earliest = max(start + 1, self._token(end, -self._size.most_shared))
        sentence = self._sentence_before(latest)
        if sentence >= earliest:
            return sentence
        word = self._word_before(latest, earliest - 1)
        return self._before_character(latest, earliest - 1) if word is None else word

    def _sentence_before(self, high: int) -> int:
        """The last sentence start up to a position; 0 where none is."""
        i = bisect.bisect_right(self._sentences, high)
        return self._sentences[i - 1] if i else 0

    def _word_before(self, high: int, low: int) -> int | None:
        """The last position in low + 1..high with white space before it."""
        return next((p for p in range(high, low, -1) if self._content[p - 1].isspace()), None)

    def _before_character(self, high: int, low: int) -> int:
        """The last position in low + 1..high that is not within a character as readers see it, or `high`."""
        return next((p for p in range(high, low, -1) if not within_character(self._content, p)), high)

    def _character_end(self, start: int) -> int:
        end = start + 1
        last = min(len(self._content), start + _LONGEST_CHARACTER)
        while end < last and within_character(self._content, end):
            end += 1
        return end


def cut_all(cutters: Sequence[Cutter], encoder: Encoder) -> None:
    """Plan and check the passages of all documents, in rounds, with few calls of the tokenizer."""
    while cutters:
        plans = [cutter.plan() for cutter in cutters]
        texts = [
            cutter.text(stretch) for cutter, plan in zip(cutters, plans, strict=True) for stretch in plan
        ]
        groups = in_batches(texts, len, CALL_CHARACTERS)
        spans = (span for group in groups for span in encoder.token_spans(group))
        for cutter, plan in zip(cutters, plans, strict=True):
            cutter.check(plan, list(itertools.islice(spans, len(plan))))
        cutters = [cutter for cutter in cutters if not cutter.finished]
