"""Which token of a question matched which token of a document, and how much each pair adds to the score.

DynaMax's inclusion over the question's universe is a sum over the question's tokens x_j, each with the
document's token that is nearest to it:

    score = sum over j of w_j min(mu_Q(x_j), mu_D(x_j)) / sum over j of w_j mu_Q(x_j)
    mu_D(x_j) = max(0, max over k of <x_j, y_k>)

so every term belongs to one token of each side. For unit tokens of equal weight this is ColBERT's MaxSim
divided by the number of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from surprise_rerank.core.arrays import FloatArray, unit_rows
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.bags import same_dimension
from surprise_rerank.similarities.dynamax import membership


@dataclass(frozen=True, slots=True)
class TokenMatch:
    """A token of a question, with the document's token that is nearest to it.

    Attributes:
        token: of the question, in the model's spelling.
        match: the document's, in the model's spelling; None where no token has a similarity above 0.
        position: the number of that token in the document (or its passage), from 0; None likewise.
        similarity: their cosine; 0 without a match.
        contribution: what the pair adds to the score; the contributions of all tokens sum to it.
        share: the contribution as a part of the score; 0 where the score is 0.
    """

    token: str
    match: str | None
    position: int | None
    similarity: float
    contribution: float
    share: float

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)


def token_matches(
    query: FloatArray,
    document: FloatArray,
    query_words: Sequence[str],
    document_words: Sequence[str],
    weights: FloatArray | None = None,
) -> list[TokenMatch]:
    """The match of every token of a question; the contributions sum to `DynaMax().pair(query, document)`.

    Args:
        query: (m, d) token vectors.
        document: (k, d) token vectors.
        query_words: m strings, of `Encoder.words`.
        document_words: k strings.
        weights: (m,) of the question's tokens; 1 by default.

    Raises:
        DataError: if dimensions differ, or there are not as many strings as vectors.
    """
    for name, tokens, words in (("query", query, query_words), ("document", document, document_words)):
        if len(tokens) != len(words):
            raise DataError(
                f"{len(words)} words for {len(tokens)} token vectors of the {name}; take both from one "
                "encoder and one text"
            )
    if not len(query):
        return []
    same_dimension(query, document.shape[1])
    x, y = unit_rows(query), unit_rows(document)
    ours, theirs = membership(x, x), membership(y, x)
    counts = np.ones(len(x)) if weights is None else np.asarray(weights, np.float64)
    added = counts * np.minimum(ours, theirs) / (float(counts @ ours) or 1.0)
    shares = added / (added.sum() or 1.0)
    nearest = (x.astype(np.float64) @ y.astype(np.float64).T).argmax(axis=1) if len(y) else np.zeros(len(x))
    matches = []
    for j, word in enumerate(query_words):
        k = int(nearest[j]) if theirs[j] > 0 else None
        matches.append(
            TokenMatch(
                token=word,
                match=None if k is None else document_words[k],
                position=k,
                similarity=float(theirs[j]),
                contribution=float(added[j]),
                share=float(shares[j]),
            )
        )
    return matches
