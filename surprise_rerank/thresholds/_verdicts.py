"""Whether a question got an answer: a chance and the word that follows from it, or why nobody can tell.

A chance is one of questions in words. So a question without a word, or in letters that neither the corpus
nor the background has, gets none: its vector is the same for all of its kind, and near to some document.

The chance is that the first ten documents contain an answer, whatever the question is about. Of the
predictors of weak retrieval (Carmel and Yom-Tov, 'Estimating the Query Difficulty for Information Retrieval',
2010) that were tried, each collection left out in turn, two predict as well as all:

    t = (T_1 - m) / s             how far the best document is above those of background questions
    g = (T_1 - mean T_i) / s      how far it is above its own pool, i = 1 ... 100
    P = 1 / (1 + exp(-(a + b min(t, 2.75) + c g)))

Beyond 2.75 deviations a question is of the corpus' kind, and only g tells whether it has an answer. T is the
total of `background.py`, m and s its mean and deviation over the background questions.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surprise_rerank._candidates import Status, Verdict
from surprise_rerank._errors import DataError
from surprise_rerank.core.arrays import BoolArray, Float64Array

# A chance of at least this is an answer; of less, but at least that, a weak one.
ANSWERED, WEAK = 0.5, 0.2
# A corpus of fewer documents has fewer than the pool that a chance was fitted on.
FEWEST_DOCUMENTS = 100
# Candidates of a question; fewer have another mean than those that a chance was fitted on.
FEWEST_COMPARED = 50
# Different questions of a background; fewer know their mean and deviation too badly.
FEWEST_QUESTIONS = 50
NOT_MEASURED = Verdict("unknown", None, "there is no background of other questions to compare with")
NOT_MEASURED_PASSAGES = Verdict(
    "unknown",
    None,
    "there is no background of passages to compare with; index again, or run 'surprise-rerank tune "
    "background --passages'",
)
NO_WORD = Verdict("unknown", None, "neither the model nor a document knows a word of the question")
NO_MATCH = Verdict("no match", None, "no document matches; a filter or a tenant may leave none")
EMPTY = Verdict("no match", None, "the index is empty: fill it, or run what was interrupted again")

_TAG = re.compile(r"<[^<>]*>")
_BETWEEN = re.compile(r"[\s,;:!?\u3001\u3002]+")
# Two letters in a row, in what may have hyphens and the like: no parts of code, addresses or formulas.
_WORD = re.compile(r"(?=.*[^\W\d_]{2})[^\W_]+(?:[-.'/\u2019][^\W_]+)*")
# Fewer judged questions say less about a corpus than those of others do.
FEWEST_JUDGED = 10
# More of t tells nothing.
ENOUGH = 2.75


@dataclass(frozen=True, slots=True)
class AnswerChance:
    """P(a relevant document among the first ten), with a, b and c of the equation of this module."""

    intercept: float
    best: float
    gap: float
    judged: int = 0  # questions of the corpus that it was calibrated on; 0 for those of others
    longest: int = 0  # words of the longest of these; 0 where any length will do

    def of(self, best: npt.ArrayLike, gap: npt.ArrayLike) -> Float64Array:
        """(n,) probabilities of (n,) t and g."""
        return np.asarray(np.exp(-np.logaddexp(0.0, -self._logits(best, gap))))

    def calibrated(
        self, best: npt.ArrayLike, gap: npt.ArrayLike, answered: npt.ArrayLike, longest: int = 0
    ) -> AnswerChance:
        """The same for a corpus with judged questions of at most so many words, by Platt's method.

        They have (n,) t and g, and (n,) whether their first ten documents contained a relevant one. A
        DataError if there are too few, or all or none of them found one.
        """
        usual = self._logits(best, gap)
        if len(usual) < FEWEST_JUDGED:
            raise DataError(
                f"{len(usual)} judged questions; give at least {FEWEST_JUDGED} to calibrate a chance on"
            )
        slope, shift = _platt(usual, np.asarray(answered, dtype=bool))
        moved = shift + slope * self.intercept
        return AnswerChance(moved, slope * self.best, slope * self.gap, len(usual), longest)

    def _logits(self, best: npt.ArrayLike, gap: npt.ArrayLike) -> Float64Array:
        capped = np.minimum(np.asarray(best, np.float64), ENOUGH)
        return np.asarray(self.intercept + self.best * capped + self.gap * np.asarray(gap, np.float64))


# Of the collections' own questions and of those about other subjects, by four systems; the command is among
# those of docs/results.md that measured once.
USUAL_CHANCE = AnswerChance(-5.12, 2.46, 0.1)


def of_chance(chance: float) -> Verdict:
    """The verdict that follows from a chance."""
    percent = math.floor(100 * chance + 1e-9)  # so that 49.9 % is not called 50, which would be another word
    status: Status = "answered" if chance >= ANSWERED else "weak" if chance >= WEAK else "off-topic"
    only = "" if status == "answered" else "only "
    shown = f"{only}{percent} %" if percent else "less than 1 %"
    return Verdict(status, chance, f"the chance of an answer among the first ten is {shown}")


def refused(percentile: float, least: float) -> Verdict:
    """The verdict where the best document has a smaller percentile than was asked for."""
    compared = f"the best document is above that of {_percent(percentile)} of unrelated questions"
    return Verdict("off-topic", None, f"{compared}; {_percent(least)} are asked for")


def scripts_of(texts: Iterable[str]) -> frozenset[str]:
    """The scripts that the words of texts are written in, as Unicode calls them: LATIN, CYRILLIC, ..."""
    letters = {letter for text in texts for word in _words(text) for letter in word if letter.isalpha()}
    return frozenset(unicodedata.name(letter, "?").split()[0] for letter in letters)


def wordless(question: str, scripts: frozenset[str]) -> str:
    """Why a question cannot be compared with those in words of these scripts; empty where it can.

    >>> wordless("how do I bake bread?", frozenset({"LATIN"})), wordless("??", frozenset({"LATIN"}))
    ('', 'the question has no words')
    """
    scripts_read = scripts_of([question])
    if not scripts_read:
        return "the question has no words"
    foreign = scripts_read - scripts
    if len(foreign) < len(scripts_read):
        return ""
    names = " and ".join(script if script == "CJK" else script.title() for script in sorted(foreign))
    return f"the question is written in {names}, and neither the documents nor the background are"


def _platt(logits: Float64Array, answered: BoolArray) -> tuple[float, float]:
    """Slope, 0 or more, and intercept of P(found | logit), fitted to targets that are never certain."""
    from sklearn.linear_model import LogisticRegression  # here: a search fits nothing

    good, bad = int(answered.sum()), int((~answered).sum())
    if not good or not bad:
        raise DataError(f"{good} of {len(answered)} judged questions found an answer; both kinds are needed")
    # Platt, 'Probabilistic Outputs for Support Vector Machines', 1999.
    targets = np.where(answered, (good + 1) / (good + 2), 1 / (bad + 2))
    # A target between 0 and 1 is both outcomes, with weights.
    outcomes, weights = np.repeat([True, False], len(answered)), np.concatenate([targets, 1 - targets])
    model = LogisticRegression(C=1e6).fit(np.tile(logits, 2)[:, None], outcomes, weights)
    slope, intercept = float(model.coef_[0, 0]), float(model.intercept_[0])
    if slope > 0:
        return slope, intercept
    share = float(targets.mean())  # a better score is no reason for doubt
    return 0.0, float(np.log(share / (1 - share)))


def _words(text: str) -> list[str]:
    # Without marks, which would end a word in Devanagari, or in letters that are apart from their accents.
    plain = unicodedata.normalize("NFKD", _TAG.sub(" ", text))
    plain = "".join(character for character in plain if unicodedata.category(character)[0] != "M")
    pieces = (re.sub(r"^[\W_]+|[\W_]+$", "", piece) for piece in _BETWEEN.split(plain))
    return [piece for piece in pieces if _WORD.fullmatch(piece)]


def _percent(share: float) -> str:
    shown = f"{100 * share:.3g}"
    return f"{'99.9' if shown == '100' and share < 1 else shown} %"  # n questions tell n / (n + 1) at most
