"""The sentence of a text that has most of a question's words, and where they are: for readers of results.

Words are the same where lexical search counts them as the same: stemmed, without stop words. Rare ones count
more. With n texts, n_t of which have term t, the sentence is the one with the largest

    sum over the question's terms t that it has of ln(1 + (n - n_t + .5) / (n_t + .5))

and the first of equals. It is a picture for readers, and no score is made of it.
"""

from __future__ import annotations

import bisect
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surprise_rerank.connectors.qdrant.lexical import Bm25, term_hashes
from surprise_rerank.encoders.sentence_boundaries import sentence_starts, within_character
from surprise_rerank.errors import DataError

# Scripts without spaces between words: a term is two characters of them in a row.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
# What a sentence is looked for in: a text without passages may be a book.
_READ = 20_000
_CUT = "…"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a text, with the words of it that a question has too.

    Attributes:
        text: a sentence, or what fits of it between two `…`.
        marks: (start, end) of every such word in it, ascending; the end is behind the last character.
    """

    text: str
    marks: tuple[tuple[int, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"text": self.text, "marks": [list(mark) for mark in self.marks]}


@dataclass(frozen=True, slots=True)
class _Found:
    """A word of the question in a text: where, and which terms."""

    start: int
    end: int
    terms: frozenset[object]


def excerpts(
    question: str, texts: Sequence[str], language: str = "english", most: int = 300
) -> list[Excerpt]:
    """The best sentence of each text, with the question's words in it.

    A text without any of the words gives its first sentence. Only the first 20,000 characters are read.

    Args:
        question: in words.
        texts: n of them, such as the results of a search; how rare a word is, is counted among them.
        language: of stop words and stems; one of `lexical.LANGUAGES`.
        most: characters of an excerpt, 20 or more.

    Raises:
        DataError: if the language is not known, or `most` is less than 20.
    """
    if most < 20:
        raise DataError(f"most={most} characters hold no excerpt; give 20 or more")
    terms_of = _terms(language)
    wanted = frozenset(
        itertools.chain.from_iterable(terms for _, _, terms in _words(question[:_READ], terms_of))
    )
    read = [text[:_READ] for text in texts]
    found = [
        [_Found(start, end, terms & wanted) for start, end, terms in _words(text, terms_of) if terms & wanted]
        for text in read
    ]
    counts = Counter(term for own in found for term in frozenset().union(*(word.terms for word in own)))
    weights = {term: math.log1p((len(read) - n + 0.5) / (n + 0.5)) for term, n in counts.items()}
    return [_best(text, own, weights, most) for text, own in zip(read, found, strict=True)]


def _terms(language: str) -> Callable[[str], frozenset[object]]:
    """What a word is counted as; nothing for a stop word."""
    hashes = term_hashes(Bm25(language=language))
    return lambda word: frozenset(hashes(word))


def _words(
    text: str, terms_of: Callable[[str], frozenset[object]]
) -> Iterator[tuple[int, int, frozenset[object]]]:
    """Start, end and terms of every word."""
    known: dict[str, frozenset[object]] = {}
    for match in _WORD.finditer(text):
        word, start = match[0], match.start()
        if _IS_UNSPACED.match(word):
            pairs = [word[i : i + 2] for i in range(len(word) - 1)] or [word]
            yield from (
                (start + i, start + i + len(pair), frozenset((pair,))) for i, pair in enumerate(pairs)
            )
            continue
        if word not in known:
            known[word] = terms_of(word)
        yield start, match.end(), known[word]


def _best(text: str, found: Sequence[_Found], weights: Mapping[object, float], most: int) -> Excerpt:
    """The sentence with the heaviest terms, cut to size."""
    edges = [0, *sentence_starts(text), len(text)]
    best, heaviest, row = (edges[0], edges[1]), 0.0, 0
    for start, end in itertools.pairwise(edges):
        terms: set[object] = set()
        while row < len(found) and found[row].start < end:
            terms |= found[row].terms
            row += 1
        weight = math.fsum(weights[term] for term in terms)
        if weight > heaviest:
            best, heaviest = (start, end), weight
    start, end = best
    inside = [word for word in found if start <= word.start and word.end <= end]
    start += len(text[start:end]) - len(text[start:end].lstrip())
    end = start + len(text[start:end].rstrip())
    return _cut(text, start, end, inside, weights, most)


def _cut(
    text: str, start: int, end: int, found: Sequence[_Found], weights: Mapping[object, float], most: int
) -> Excerpt:
    """What fits of a sentence around its heaviest words."""
    first, last = start, end
    if end - start > most:
        room = most - 2 * len(_CUT)
        first = max(start, min(_heaviest(found, weights, room, start) - room // 5, end - room))
        last = min(end, first + room)
        first, last = _between_words(text, start, first, 1), _between_words(text, end, last, -1)
    before, after = _CUT * (first > start), _CUT * (last < end)
    shift = len(before) - first
    marks = [
        (word.start + shift, word.end + shift) for word in found if first <= word.start and word.end <= last
    ]
    return Excerpt(f"{before}{text[first:last]}{after}", tuple(_joined(marks)))


def _heaviest(found: Sequence[_Found], weights: Mapping[object, float], room: int, start: int) -> int:
    """Where the stretch of this length begins that has the heaviest terms."""
    best, heaviest = start, 0.0
    ends = [word.end for word in found]
    for row, word in enumerate(found):
        near = found[row : bisect.bisect_right(ends, word.start + room * 4 // 5)]
        terms: frozenset[object] = frozenset().union(*(other.terms for other in near))
        weight = math.fsum(weights[term] for term in terms)
        if weight > heaviest:
            best, heaviest = word.start, weight
    return best


def _between_words(text: str, edge: int, position: int, step: int) -> int:
    """A place to cut near a position, away from an edge: a space, or at least between two characters."""
    if position == edge:
        return position
    near = range(position, position + step * 20, step)
    space = next((i for i in near if 0 < i < len(text) and text[i - (step > 0)].isspace()), None)
    if space is not None:
        return space
    while 0 < position < len(text) and within_character(text, position):
        position += step
    return position


def _joined(marks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Marks that touch or overlap as one."""
    joined: list[tuple[int, int]] = []
    for start, end in marks:
        if joined and start <= joined[-1][1]:
            start, end = joined[-1][0], max(end, joined.pop()[1])
        joined.append((start, end))
    return joined
