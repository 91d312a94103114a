"""Whether a question got an answer: a chance and the word that follows from it, or why nobody can tell.

A chance is one of questions in words. So a question without a word, or in letters that neither the corpus
nor the background has, gets none: its vector is the same for all of its kind, and near to some document.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable

from surprise_rerank.candidates import Status, Verdict

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
    letters = {own for text in texts for word in _words(text) for own in word if own.isalpha()}
    return frozenset(unicodedata.name(letter, "?").split()[0] for letter in letters)


def wordless(question: str, scripts: frozenset[str]) -> str:
    """Why a question cannot be compared with those in words of these scripts; empty where it can.

    >>> wordless("how do I bake bread?", frozenset({"LATIN"})), wordless("??", frozenset({"LATIN"}))
    ('', 'the question has no words')
    """
    own = scripts_of([question])
    if not own:
        return "the question has no words"
    foreign = own - scripts
    if len(foreign) < len(own):
        return ""
    names = " and ".join(own if own == "CJK" else own.title() for own in sorted(foreign))
    return f"the question is written in {names}, and neither the documents nor the background are"


def _words(text: str) -> list[str]:
    # Without marks, which would end a word in Devanagari, or in letters that are apart from their accents.
    plain = unicodedata.normalize("NFKD", _TAG.sub(" ", text))
    plain = "".join(own for own in plain if unicodedata.category(own)[0] != "M")
    pieces = (re.sub(r"^[\W_]+|[\W_]+$", "", own) for own in _BETWEEN.split(plain))
    return [own for own in pieces if _WORD.fullmatch(own)]


def _percent(share: float) -> str:
    shown = f"{100 * share:.3g}"
    return f"{'99.9' if shown == '100' and share < 1 else shown} %"  # n questions tell n / (n + 1) at most
