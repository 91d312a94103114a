"""Word Mover's Distance, by the optimal-transport library POT (the extra `transport`)."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.extras import import_extra
from surprise_rerank.similarities.bags import Bag, Input, Texts, as_float64, same_dimension
from surprise_rerank.similarities.word_weights import WordWeights

MODULE, EXTRA = "ot", "transport"


@dataclass(frozen=True, slots=True)
class WordMoversSimilarity:
    """1 / (1 + WMD): 1 for equal bags of words, and nearer to 0 the farther apart their words are.

    (Kusner et al., 'From Word Embeddings to Document Distances', ICML 2015.) The distance is the least cost
    of moving one text's mass onto the other's, where a unit of mass costs the Euclidean distance it goes:

        WMD(X, Y) = min over T >= 0 of sum T_ij |x_i - y_j|,    row sums of T = p,    column sums = q.

    Every token has the mass 1/m, so that a word's mass is its share of the text's words (nBOW); with weights,
    its word's weight divided by their sum. Unknown words (zero vectors) have none. A text without mass is
    similar to nothing (0): no distance is defined there. The order is that of the distance. The quotient is
    larger for more similar texts, and needs no choice of a scale.

    Attributes:
        weights: of words; None for 1 each.
        unit_tokens: whether tokens are scaled to length 1 first, which bounds the distance by 2.
    """

    weights: WordWeights | None = None
    unit_tokens: bool = True

    @property
    def inputs(self) -> frozenset[Input]:
        """Vectors, and with weights the words."""
        return frozenset({"vectors"}) if self.weights is None else frozenset({"vectors", "words"})

    def pair(self, query: Bag, document: Bag) -> float:
        """The similarity of one pair, as defined: the reference form.

        Raises:
            MissingExtraError: if POT is not installed.
        """
        same_dimension(query.vectors, document.vectors.shape[1])
        x, p = self._masses(query)
        y, q = self._masses(document)
        if not p.any() or not q.any():
            return 0.0
        costs = np.linalg.norm(x[:, None, :] - y[None, :, :], axis=2)
        return 1 / (1 + float(_library().emd2(p, q, costs)))

    def pool(self, query: Bag, documents: Texts) -> Float64Array:
        """(n,) the similarity of a query to every document: costs by a product; one transport per document.

        Raises:
            DataError: if the dimensions differ, or words are missing.
            MissingExtraError: if POT is not installed.
        """
        if len(documents):
            same_dimension(query.vectors, documents.batch.dimension)
        scores = np.zeros(len(documents))
        x, p = self._masses(query)
        if not p.any():
            return scores
        solve = _library().emd2
        squares = (x * x).sum(axis=1)[:, None]
        for i in range(len(documents)):
            y, q = self._masses(documents[i])
            if q.any():
                # In float64: float32 gives 3e-4 for a distance that should be 0.
                products = squares + (y * y).sum(axis=1) - 2 * (x @ y.T)
                scores[i] = 1 / (1 + float(solve(p, q, np.sqrt(np.maximum(products, 0.0)))))
        return scores

    def _masses(self, text: Bag) -> tuple[Float64Array, Float64Array]:
        """The known tokens' vectors (m, d) and masses (m,), whose sum is 1, or 0 where there are none."""
        bag = text.known()
        vectors = as_float64(bag.vectors, unit=self.unit_tokens)
        masses = np.ones(len(vectors)) if self.weights is None else self.weights(bag.names)
        total = masses.sum()
        return vectors, masses / total if total > 0 else np.zeros(len(vectors))


def _library() -> ModuleType:
    return import_extra(MODULE, EXTRA)
