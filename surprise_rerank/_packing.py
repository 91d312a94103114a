"""What a language model is given to read: the best passages of a budget, with their citations.

A model reads what stands first and last better than what is in the middle (Liu et al., 'Lost in the Middle',
TACL 2024). So the best document comes first, the second best last, and so on to the middle; passages of one
document are in the order of the document, and those that touch are one.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from surprise_rerank._documents import Document, without_title
from surprise_rerank._places import Place
from surprise_rerank.encoders._sentence_boundaries import sentence_starts

# A passage is read already where this share of its runs of words is.
_ALIKE, _RUN = 0.8, 4
_WORD = re.compile(r"\w+")
# Letters of a token, about, where nobody counts: of English by the tokenizers of language models.
_LETTERS = 4


@dataclass(frozen=True, slots=True)
class CitedPassage:
    """A part of a document as a language model reads it, with the number that it cites."""

    number: int
    id: str
    citation: str
    text: str

    def __str__(self) -> str:
        return f"[{self.number}] {self.citation}\n{self.text}"


@dataclass(frozen=True, slots=True)
class PackedContext:
    """Passages for a language model; `str()` is the text that goes into the prompt.

    Attributes:
        passages: in the order in which they are read.
        tokens: how many they have, as they were counted.
        left_out: how many hits had no room, or said nothing new.
    """

    passages: tuple[CitedPassage, ...]
    tokens: int
    left_out: int

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.passages))


@dataclass(frozen=True, slots=True)
class Stretch:
    """Characters start..end of a document's content, and how they are cited."""

    document: Document
    start: int
    end: int
    cite: Callable[[Place | None], str]

    @property
    def text(self) -> str:
        """What is shown of it: not the title, which is cited."""
        document = self.document
        return without_title(document.content[self.start : self.end], document.title, self.start).strip()

    @property
    def citation(self) -> str:
        """The line that the stretch is cited by."""
        return self.cite(self.document.place(self.start, self.end))


def about_tokens(text: str) -> int:
    """How many tokens a text has, about."""
    return -(-len(text) // _LETTERS)


@dataclass(slots=True)
class _Packer:
    """Takes stretches as long as there is room, the best one first."""

    room: int
    count: Callable[[str], int]
    taken: dict[str, list[Stretch]] = field(default_factory=dict)  # document -> its stretches, apart
    runs: set[tuple[str, ...]] = field(default_factory=set)
    left_out: int = 0

    def offer(self, stretch: Stretch) -> None:
        runs = _runs(stretch.text)
        joined, others = self._joined(stretch)
        cost = self._cost(joined) - sum(map(self._cost, others))
        is_new = len(runs - self.runs) > (1 - _ALIKE) * len(runs) or not self.taken
        if is_new and cost > self.room and not self.taken:
            joined = self._cut(stretch)
            cost = self._cost(joined)
        if not is_new or cost > self.room or not joined.text:
            self.left_out += 1
            return
        apart = [old for old in self.taken.get(stretch.document.id, ()) if old not in others]
        self.taken[stretch.document.id] = sorted([*apart, joined], key=lambda old: old.start)
        self.runs |= runs
        self.room -= cost

    def _joined(self, stretch: Stretch) -> tuple[Stretch, list[Stretch]]:
        """The stretch with those that it touches, and these."""
        content = stretch.document.content
        start, end, others = stretch.start, stretch.end, []
        for old in self.taken.get(stretch.document.id, ()):
            if not content[old.end : start].strip() and not content[end : old.start].strip():
                start, end = min(start, old.start), max(end, old.end)
                others.append(old)
        return Stretch(stretch.document, start, end, stretch.cite), others

    def _cost(self, stretch: Stretch) -> int:
        return self.count(str(CitedPassage(1, "", stretch.citation, stretch.text)))

    def _cut(self, stretch: Stretch) -> Stretch:
        """As many of its first sentences and lines as there is room for; none where there is not."""
        content = stretch.document.content[stretch.start : stretch.end]
        lines = (match.end() for match in re.finditer("\n", content))  # rows of a table are no sentences
        ends = [0, *sorted({*map(int, sentence_starts(content)), *lines})]
        shorter = [replace(stretch, end=stretch.start + end) for end in ends]
        return shorter[max(bisect.bisect_right(shorter, self.room, key=self._cost) - 1, 0)]


def packed(
    stretches: Iterable[Stretch], tokens: int, count: Callable[[str], int] = about_tokens
) -> PackedContext:
    """The best of stretches that so many tokens hold, each text once.

    Args:
        stretches: best first.
        tokens: most that the whole may have, citations included.
        count: tells the number of tokens of a text; a quarter of its letters by default.
    """
    packer = _Packer(tokens, count)
    for stretch in stretches:
        packer.offer(stretch)
    documents = list(packer.taken.values())
    shown = [part for stretches in (*documents[::2], *documents[1::2][::-1]) for part in stretches]
    cited = tuple(
        CitedPassage(number, part.document.id, part.citation, part.text)
        for number, part in enumerate(shown, start=1)
    )
    return PackedContext(cited, tokens - packer.room, packer.left_out)


def _runs(text: str) -> set[tuple[str, ...]]:
    """Every run of some words of a text, in small letters; the whole where it has fewer."""
    words = _WORD.findall(text.casefold())
    return {tuple(words[i : i + _RUN]) for i in range(max(len(words) - _RUN + 1, 1))}
