"""How many different questions a list has: near-duplicates count as one.

Forty questions of one template ('who won the game of 1980?', 'who won the game of 1981?') are one question
asked forty times. What they find says little about what others find.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surprise_rerank.core.arrays import Float64Array

# Questions whose sets of trigrams have at least this Jaccard similarity are one question.
NEAR = 0.5
_GRAM = 3


def question_shares(questions: Sequence[str]) -> Float64Array:
    """(n,) what each question counts: 1 / the number of those that it nearly equals, with itself.

    Their sum is the effective number of questions. Two are near-duplicates if the Jaccard similarity of their
    sets of three letters in a row (case and punctuation do not count) is at least `NEAR`.

    >>> question_shares(["Who won in 1990?", "who won in 1991", "How deep is the sea?"]).tolist()
    [0.5, 0.5, 1.0]
    """
    return 1.0 / np.bincount(_near_pairs(questions)[0], minlength=len(questions))


def nearest_pair(questions: Sequence[str]) -> tuple[str, str] | None:
    """The first two that are near-duplicates, to show them; None without any."""
    rows, others = _near_pairs(questions)
    found = np.flatnonzero(rows < others)
    return (questions[rows[found[0]]], questions[others[found[0]]]) if len(found) else None


def _near_pairs(questions: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Positions of all pairs of near-duplicates, both ways, each with itself as well; by the first."""
    from scipy import sparse  # a search by words alone does without it

    grams = [_grams(question) for question in questions]
    places: dict[str, int] = {}
    columns = [places.setdefault(gram, len(places)) for own in grams for gram in sorted(own)]
    sizes = np.array([len(own) for own in grams], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    table = sparse.csr_array((np.ones(len(columns)), columns, offsets), (len(grams), len(places)))
    common = (table @ table.T).tocoo()
    rows, others = common.coords
    near = common.data >= NEAR * (sizes[rows] + sizes[others] - common.data)
    order = np.lexsort((others[near], rows[near]))
    return rows[near][order], others[near][order]


def _grams(question: str) -> frozenset[str]:
    letters = "".join(letter if letter.isalnum() else " " for letter in question.lower())
    spaced = f" {' '.join(letters.split())} "
    return frozenset(spaced[i : i + _GRAM] for i in range(len(spaced) - _GRAM + 1)) or frozenset({spaced})
