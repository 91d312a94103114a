"""A similarity by itself, on lists of strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.encoders.base import Encoder, token_dimension
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.bags import BagSimilarity, Texts
from surprise_rerank.similarities.registry import CorpusStatistics, find_similarity
from surprise_rerank.similarities.reranker import SimilarityReranker
from surprise_rerank.similarities.word_weights import WordStatistics


class TextSimilarity:
    """A named similarity of texts.

    >>> from surprise_rerank import TextSimilarity, load_encoder          # doctest: +SKIP
    >>> similarity = TextSimilarity("dynamax-jaccard", load_encoder())    # doctest: +SKIP
    >>> similarity.scores("a question", ["one text", "another"])          # doctest: +SKIP

    Texts without a word that the encoder knows have the similarity 0 to all others.

    Args:
        name: one of `similarity_names()`.
        encoder: makes token vectors and words.

    Raises:
        DataError: if the name is not known.
    """

    def __init__(self, name: str, encoder: Encoder) -> None:
        self._named = find_similarity(name)
        self._built: BagSimilarity | None = None
        self.name = name
        self.encoder = encoder
        if not self._named.fitted_on:
            self._built = self._named.build(CorpusStatistics(token_dimension(encoder) or 0))

    @property
    def similarity(self) -> BagSimilarity:
        """The similarity of bags of tokens.

        Raises:
            DataError: if it must be fitted first.
        """
        if self._built is None:
            what = " and ".join(sorted(self._named.fitted_on))
            raise DataError(
                f"{self.name!r} is fitted on a corpus ({what}): call fit(texts of the corpus) first"
            )
        return self._built

    def fit(self, texts: Sequence[str], statistics: WordStatistics | None = None) -> Self:
        """Fit universes, components and word weights; does nothing for a name that needs none.

        Args:
            texts: of the corpus, or a sample of it.
            statistics: of the words of a larger corpus; those of `texts` by default.

        Raises:
            DataError: if there is nothing in the texts that could be fitted on.
        """
        _require_list(texts)
        named = self._named
        if named.fitted_on:
            self._built = named.build(
                CorpusStatistics.encode(self.encoder, texts, named.fitted_on, statistics)
            )
        return self

    def scores(self, query: str, documents: Sequence[str]) -> Float64Array:
        """(n,) the similarity of a query to every document, by the fast form."""
        _require_list(documents)
        inputs = self.similarity.inputs
        texts = Texts.encode(self.encoder, [query], inputs, "query", reads_words="query words" in inputs)
        return self.similarity.pool(texts[0], Texts.encode(self.encoder, documents, inputs))

    def pairs(self, first: Sequence[str], second: Sequence[str]) -> Float64Array:
        """(n,) the similarity of each text of `first` to the same one of `second`, by the reference form.

        Raises:
            DataError: if there are not as many of both.
        """
        _require_list(first, second)
        if len(first) != len(second):
            raise DataError(f"{len(first)} first texts and {len(second)} second ones; give as many of both")
        inputs = self.similarity.inputs
        # Both sides as documents: then a symmetric similarity is symmetric also for models with prompts.
        a = Texts.encode(self.encoder, first, inputs, reads_words="query words" in inputs)
        b = Texts.encode(self.encoder, second, inputs)
        return np.array([self.similarity.pair(a[i], b[i]) for i in range(len(first))], dtype=np.float64)

    def reranker(self) -> SimilarityReranker:
        """The same similarity as a re-ranker of stored candidates."""
        return SimilarityReranker(self.similarity, self.encoder, self.name)


def _require_list(*lists: Sequence[str]) -> None:
    for texts in lists:
        if isinstance(texts, str):
            raise DataError(f"expected a list of texts, got the text {texts[:40]!r}; put it into a list")
