"""The sentence of a text that has most of a question's words, and where they are: for readers of results.

Words are the same where lexical search counts them as the same: stemmed, without stop words. Rare ones count
more. With n texts, n_t of which have term t, the sentence is the one with the largest

    sum over the question's terms t that it has of ln(1 + (n - n_t + .5) / (n_t + .5))

and the first of equals. A heading, a question, a line of dashes, code or markup answers nothing: it is shown
where there is no sentence. It is a picture for readers, and no score is made of it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from surprise_rerank import _border as border
from surprise_rerank.connectors.qdrant._lexical import AUTO, Bm25, term_hashes, words
from surprise_rerank.core._terms import inverse_frequencies
from surprise_rerank.encoders._sentence_boundaries import sentence_starts, within_character

# What a sentence is looked for in: a text without passages may be a book.
_READ = 20_000
_CUT = "…"
# What no sentence begins with, or has as a line: headings, tables, code, and rules of signs.
_BEGUN = re.compile(r"#|\||<|```|\.\. |=")
_QUOTED = re.compile(r"[\s>]*")  # before a line of somebody else in a mail, which may well be the answer
_RULE = re.compile(r"^[^\w\n]{3,}$", re.MULTILINE)
_STOP = re.compile(r"[.!…。．！｡۔।॥።][\"')\]}»”’」』）]*$")  # noqa: RUF001
_WORDS = 12  # more, without a stop, are no heading either

# Where a word is, and what it is counted as.
_Word: TypeAlias = tuple[int, int, frozenset[object]]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a text, with the words of it that a question has too."""

    text: str  # a sentence, or what fits of it between two `…`
    marks: tuple[tuple[int, int], ...] = ()  # (start, end) of every such word, ascending

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"text": self.text, "marks": [list(mark) for mark in self.marks]}


def excerpts(question: str, texts: Sequence[str], language: str = AUTO, most: int = 300) -> list[Excerpt]:
    """The best sentence of each text, with the question's words in it.

    A text without any of the words gives its first sentence. Only the first 20,000 characters are read.

    Args:
        question: in words.
        texts: n of them, such as the results of a search; how rare a word is, is counted among them.
        language: of stop words and stems, as `Bm25` takes it.
        most: characters of an excerpt, 20 or more.
    """
    border.count("most", most, 20)
    hashes = term_hashes(Bm25(language=language))
    terms_of = cache(lambda word: frozenset[object](hashes(word)))
    wanted = _terms(_words(question[:_READ], terms_of))
    read = [text[:_READ] for text in texts]
    words_of_texts = [[word for word in _words(text, terms_of) if word[2] & wanted] for text in read]
    counts = Counter(term for words in words_of_texts for term in _terms(words) & wanted)
    rarity = inverse_frequencies(len(read), list(counts.values()))
    weights = dict(zip(counts, rarity.tolist(), strict=True))
    return [_best(text, words, weights, most) for text, words in zip(read, words_of_texts, strict=True)]


def _words(text: str, terms_of: Callable[[str], frozenset[object]]) -> Iterator[_Word]:
    return ((start, end, terms_of(text[start:end])) for start, end in words(text))


def _terms(words: Iterator[_Word] | Sequence[_Word]) -> frozenset[object]:
    return frozenset(itertools.chain.from_iterable(terms for _, _, terms in words))


def _best(text: str, words: Sequence[_Word], weights: Mapping[object, float], most: int) -> Excerpt:
    """The first of the sentences with the heaviest terms, cut to size."""
    edges = [0, *sentence_starts(text), len(text)]
    parts = [*itertools.pairwise(edges)]
    parts = [part for part in parts if _is_sentence(text[slice(*part)])] or parts
    best, heaviest, inside = parts[0], 0.0, list[_Word]()
    for start, end in parts:
        inside_words = [word for word in words if start <= word[0] and word[1] <= end]
        weight = math.fsum(weights.get(term, 0.0) for term in _terms(inside_words))
        if weight > heaviest:
            best, heaviest, inside = (start, end), weight, inside_words
    start, end = best
    if quote := _QUOTED.match(text, start, end):
        start = quote.end() if quote.end() < end else start
    end = start + len(text[start:end].rstrip())
    return _cut(text, start, end, inside, most)


def _is_sentence(part: str) -> bool:
    part = part.lstrip("> \t\n\r").rstrip()
    is_written = bool(_STOP.search(part)) or len(part.split()) > _WORDS
    return is_written and not _BEGUN.match(part) and not _RULE.search(part)


def _cut(text: str, start: int, end: int, words: Sequence[_Word], most: int) -> Excerpt:
    """What fits of a sentence, from a little before the first of the words on."""
    first, last = start, end
    if end - start > most:
        room = most - 2 * len(_CUT)
        near = words[0][0] if words else start
        first = max(start, min(near - room // 5, end - room))
        last = min(end, first + room)
        first, last = _between_words(text, start, first, 1), _between_words(text, end, last, -1)
    before, after = _CUT * (first > start), _CUT * (last < end)
    shift = len(before) - first
    marks: list[tuple[int, int]] = []
    for begins, ends, _ in words:
        if begins < first or ends > last:
            continue
        if marks and begins + shift <= marks[-1][1]:  # pairs of characters overlap
            begins = marks.pop()[0] - shift
        marks.append((begins + shift, ends + shift))
    return Excerpt(f"{before}{text[first:last]}{after}", tuple(marks))


def _between_words(text: str, edge: int, position: int, step: int) -> int:
    """A place to cut near a position, away from an edge: a space, or at least between two characters."""
    if position == edge:
        return position
    for i in range(position, position + step * 20, step):
        if 0 < i < len(text) and text[i - (step > 0)].isspace():
            return i
    while 0 < position < len(text) and within_character(text, position):
        position += step
    return position
