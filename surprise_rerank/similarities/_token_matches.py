"""Which token of a question matched which token of a document, and how much each pair adds to the score.

DynaMax's inclusion over the question's universe is a sum over the question's tokens x_j, each with the
document's token that is nearest to it:

    score = sum over j of w_j min(mu_Q(x_j), mu_D(x_j)) / sum over j of w_j mu_Q(x_j)
    mu_D(x_j) = max(0, max over k of <x_j, y_k>)

so every term belongs to one token of each side. For unit tokens of equal weight this is ColBERT's MaxSim
divided by the number of tokens. Where tokens were merged, y_k is the vector of several ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank.core.arrays import FloatArray, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.similarities._bags import same_dimension
from surprise_rerank.similarities._dynamax import membership


@dataclass(frozen=True, slots=True)
class TokenMatch:
    """A token of a question, with the document's token that is nearest to it, in the model's spelling.

    Of a vector that stands for several tokens, the match is the one that is spelled as the question's, or the
    first, and `members` are all of them, in the document's order.
    """

    token: str
    match: str | None  # None where no token has a similarity above 0
    position: int | None  # of the match in the document (or its passage), from 0
    similarity: float  # their cosine, as near as the document's vectors are stored; 0 without a match
    contribution: float  # what the pair adds to the score; those of all tokens sum to it
    share: float  # the contribution as a part of the score; 0 where the score is 0
    members: tuple[str, ...] = ()

    def matched(self, most: int) -> str:
        """The words that matched, each once, the match first; "..." where there are more than `most`."""
        words = list(dict.fromkeys([self.match, *self.members] if self.match is not None else []))
        return " · ".join(word for word in words[:most] if word) + (" ..." if len(words) > most else "")


def token_matches(
    query: FloatArray,
    document: FloatArray | TokenBatch,
    query_words: Sequence[str],
    document_words: Sequence[str],
) -> list[TokenMatch]:
    """The match of every token of a question; contributions sum to DynaMax's inclusion of the question.

    The document is (k, d) token vectors, or a batch of one text, as it is stored, of k tokens. Words are
    those of `Encoder.words`.
    """
    if not isinstance(document, TokenBatch):
        document = TokenBatch.from_arrays([document])
    for name, count, words in (
        ("query", len(query), query_words),
        ("document", int(document.token_counts.sum()), document_words),
    ):
        border.equal(f"the number of the {name}'s words", len(words), count, "take both from one encoder")
    if not len(query):
        return []
    same_dimension(query, document.dimension)
    x, y = unit_rows(query), document.directions
    own_memberships, other_memberships = membership(x, x), membership(y, x)
    added = np.minimum(own_memberships, other_memberships) / (float(own_memberships.sum()) or 1.0)
    shares = added / (added.sum() or 1.0)
    nearest = (x.astype(np.float64) @ y.astype(np.float64).T).argmax(axis=1) if len(y) else np.zeros(len(x))
    owners = np.arange(len(y)) if document.members is None else document.members.owners
    matches = []
    for j, word in enumerate(query_words):
        positions = np.flatnonzero(owners == nearest[j]).tolist() if other_memberships[j] > 0 else []
        same = [k for k in positions if document_words[k].casefold() == word.casefold()]
        position = next(iter(same or positions), None)
        matches.append(
            TokenMatch(
                token=word,
                match=None if position is None else document_words[position],
                position=position,
                similarity=min(float(other_memberships[j]), 1.0),
                contribution=float(added[j]),
                share=float(shares[j]),
                members=tuple(document_words[k] for k in positions),
            )
        )
    return matches
