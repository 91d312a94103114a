"""Questions about everything, which come with the package, and how many different ones a list has.

Forty questions of one template ('who won the game of 1980?', 'who won the game of 1981?') are one question
asked forty times. What they find says little about what others find.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank.core.arrays import Float64Array

# Of the questions of a background that is made without being asked for. Known from 300: 5 % +- 1.3.
USUAL = 300
ORIGIN = "varied questions of the package"
_FILE, _TRANSLATED = "varied_questions.tsv", "questions_in_languages.tsv"
# Questions whose sets of trigrams have at least this Jaccard similarity are one question.
NEAR = 0.5
_GRAM = 3


def varied_questions(count: int = USUAL) -> tuple[str, ...]:
    """Return so many background questions, equally many of each topic; more begin with fewer.

    They are questions, key words, claims and longer requests about 42 topics, written for this package. A
    DataError if there are not so many.
    """
    questions = [question for _, question in _lines(_FILE)]
    return tuple(questions[: border.count("count", count, 1, len(questions))])


def translated_questions(language: str) -> tuple[str, ...]:
    """Return 60 questions about everything in a language, such as `german`; none where there are none."""
    return tuple(question for name, question in _lines(_TRANSLATED) if name == language)


def _lines(file: str) -> list[tuple[str, str]]:
    """Return the topic or language, and the question, of every line of a file of the package."""
    lines = resources.files(__package__).joinpath(file).read_text("utf-8").splitlines()
    pairs = (line.partition("\t") for line in lines if not line.startswith("#"))
    return [(head, question) for head, _, question in pairs]


def question_shares(questions: Sequence[str]) -> Float64Array:
    """(n,) what each question counts: 1 / the number of those that it nearly equals, with itself.

    Their sum is the effective number of questions. Two are near-duplicates if the Jaccard similarity of their
    sets of three letters in a row (case and punctuation do not count) is at least `NEAR`.

    >>> question_shares(["Who won in 1990?", "who won in 1991", "How deep is the sea?"]).tolist()
    [0.5, 0.5, 1.0]
    """
    from scipy import sparse  # a search by words alone does without it

    grams: list[set[str]] = []
    for question in questions:
        letters = "".join(letter if letter.isalnum() else " " for letter in question.lower())
        spaced = f" {' '.join(letters.split())} "
        grams.append({spaced[i : i + _GRAM] for i in range(len(spaced) - _GRAM + 1)} or {spaced})
    places: dict[str, int] = {}
    columns = [places.setdefault(gram, len(places)) for members in grams for gram in sorted(members)]
    sizes = np.array([len(members) for members in grams], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    table = sparse.csr_array((np.ones(len(columns)), columns, offsets), (len(grams), len(places)))
    common = (table @ table.T).tocoo()
    rows, others = common.coords
    near = common.data >= NEAR * (sizes[rows] + sizes[others] - common.data)
    return np.asarray(1.0 / np.bincount(rows[near], minlength=len(questions)))
