"""A similarity by itself, on lists of strings, and as a re-ranker of stored candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Field, Query, Ranking
from surprise_rerank._errors import DataError
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.encoders._adapting import as_encoder
from surprise_rerank.encoders.base import Encoder, token_dimension
from surprise_rerank.similarities._bags import Bag, Texts, word_lists
from surprise_rerank.similarities.definitions import Similarity, WordStatistics
from surprise_rerank.similarities.table import CorpusStatistics, find_similarity


@dataclass(frozen=True, slots=True)
class SimilarityReranker:
    """Orders documents by a similarity of their tokens to the query's."""

    similarity: Similarity
    encoder: Encoder | None = None  # of the documents; needed where the similarity reads words
    name: str = "similarity"  # of its part in a ranking

    def __post_init__(self) -> None:
        if self.encoder is None and self.similarity.inputs & {"words", "query words"}:
            raise DataError(f"the similarity {self.name!r} reads words; give the encoder of the documents")

    @property
    def needs(self) -> frozenset[Field]:
        """Token vectors, and documents for their words, as the similarity reads them."""
        fields: set[Field] = set()
        if "vectors" in self.similarity.inputs:
            fields.add("tokens")
        if "words" in self.similarity.inputs:
            fields.add("documents")
        return frozenset(fields)

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        """The pool by similarity."""
        scores = self.similarity.pool(self._bag(query), self._texts(candidates))
        return Ranking.order(candidates, scores, {self.name: scores})

    def _bag(self, query: Query) -> Bag:
        reads = self.similarity.inputs
        words = None
        if self.encoder is not None and reads & {"words", "query words"}:
            (words,) = word_lists(self.encoder, [query.text], "query")
        if "vectors" not in reads:
            return Bag(words=words)
        return Bag(query.require_tokens(), words)

    def _texts(self, candidates: Candidates) -> Texts:
        reads = self.similarity.inputs
        tokens = None
        if "vectors" in reads:
            # Each word has a vector of its own, and every similarity counts tokens, not merged vectors.
            tokens = candidates.require_tokens().expanded()
        if self.encoder is None or "words" not in reads:
            return Texts(tokens)
        if candidates.passages is not None:
            raise DataError(
                "the candidates are passages, whose words are not known apart from their documents'; use an "
                "index without passages, or a similarity that reads no words"
            )
        contents = [document.content for document in candidates.require_documents()]
        return Texts(tokens, word_lists(self.encoder, contents))


class TextSimilarity:
    """A named similarity of texts.

    >>> from surprise_rerank import TextSimilarity, load_encoder          # doctest: +SKIP
    >>> similarity = TextSimilarity("dynamax-jaccard", load_encoder())    # doctest: +SKIP
    >>> similarity.scores("a question", ["one text", "another"])          # doctest: +SKIP

    Texts without a word that the encoder knows have the similarity 0 to all others.

    Args:
        name: one of `similarity_names()`; with `-raw` behind it, token vectors keep their lengths.
        encoder: makes token vectors and words.
    """

    def __init__(self, name: str, encoder: Encoder) -> None:
        self._named = find_similarity(border.text("name", name))
        encoder = as_encoder(encoder)
        self._built: Similarity | None = None
        self.name = name
        self.encoder = encoder
        if not self._named.fitted_on:
            self._built = self._named.build(CorpusStatistics(token_dimension(encoder) or 0))

    @property
    def similarity(self) -> Similarity:
        """The similarity of bags of tokens."""
        if self._built is None:
            what = " and ".join(sorted(self._named.fitted_on))
            raise DataError(
                f"{self.name!r} is fitted on a corpus ({what}): call fit(texts of the corpus) first"
            )
        return self._built

    def fit(self, texts: Sequence[str], statistics: WordStatistics | None = None) -> Self:
        """Fit universes, components and word weights on texts of the corpus; some names need none.

        `statistics` are of the words of a larger corpus; of these texts by default.
        """
        texts = border.texts("texts", texts)
        border.optional(border.instance, "statistics", statistics, WordStatistics)
        named = self._named
        if named.fitted_on:
            self._built = named.build(
                CorpusStatistics.encode(self.encoder, texts, named.fitted_on, statistics)
            )
        return self

    def scores(self, query: str, documents: Sequence[str]) -> Float64Array:
        """(n,) the similarity of a query to every document, by the fast form."""
        query, documents = border.text("query", query), border.texts("documents", documents)
        inputs = self.similarity.inputs
        texts = Texts.encode(self.encoder, [query], inputs, "query", reads_words="query words" in inputs)
        return self.similarity.pool(texts[0], Texts.encode(self.encoder, documents, inputs))

    def pairs(self, first: Sequence[str], second: Sequence[str]) -> Float64Array:
        """(n,) the similarity of each text of `first` to the same one of `second`, by the reference form."""
        first, second = border.texts("first", first), border.texts("second", second)
        border.equal("the number of second texts", len(second), len(first))
        inputs = self.similarity.inputs
        # Both sides as documents: then a symmetric similarity is symmetric also for models with prompts.
        a = Texts.encode(self.encoder, first, inputs, reads_words="query words" in inputs)
        b = Texts.encode(self.encoder, second, inputs)
        return np.array([self.similarity.pair(a[i], b[i]) for i in range(len(first))], dtype=np.float64)

    def reranker(self) -> SimilarityReranker:
        """The same similarity as a re-ranker of stored candidates."""
        return SimilarityReranker(self.similarity, self.encoder, self.name)
