"""Few-shot training on frozen vectors: one linear map for the vectors of texts and of labels.

    cos(W x, W l),  W in R^(d x d), the identity at first

It is for machines that cannot fine-tune, and for encoders that cannot be fine-tuned. Pairs, loss and the end
of training are those of `few_shot`. Where there is nothing to learn, the cosine stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surprise_rerank.classify.few_shot import (
    FewShotTraining,
    TrainingHistory,
    check_members,
    merged_duplicates,
    minimize,
    pair_targets,
)
from surprise_rerank.core.arrays import Float32Array, FloatArray, matrix, unit_rows
from surprise_rerank.encoders.base import Progress
from surprise_rerank.errors import DataError

# AdamW changes each of the d^2 weights by about the rate, so a unit vector moves by up to d times that: this
# is a share of its length that suits all dimensions. Chosen on training questions of TREC-6.
_LARGEST_STEP = 0.4


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A linear map of vectors, for texts and labels alike.

    Attributes:
        weights: (d, d) float32; a vector x becomes `weights @ x`, scaled to length 1.

    Raises:
        DataError: if the weights are not square or not finite.
    """

    weights: Float32Array

    def __post_init__(self) -> None:
        weights = matrix(self.weights, "weights")
        if weights.shape[0] != weights.shape[1]:
            raise DataError(f"weights must have shape (d, d), got {weights.shape}")
        object.__setattr__(self, "weights", weights)

    def __call__(self, vectors: FloatArray) -> Float32Array:
        """(n, d) mapped vectors of length 1; a vector of zeros stays one.

        Raises:
            DataError: if the vectors are of another dimension or not finite.
        """
        return unit_rows(matrix(vectors, "vectors", len(self.weights)) @ self.weights.T)


def fit_linear_map(
    vectors: npt.ArrayLike,
    members: npt.ArrayLike,
    label_vectors: npt.ArrayLike,
    training: FewShotTraining,
    on_progress: Progress | None = None,
) -> tuple[LinearMap, TrainingHistory]:
    """Fit the map to a few labelled texts, on the CPU; the same seed gives the same map.

    AdamW's weight decay works on W - I: it pulls towards the cosine of the vectors as they are.

    Args:
        vectors: (n, d) of the texts, n at least 1. Equal ones are one text that has the labels of all.
        members: (n, L) booleans: which labels are a text's own; it may have several, or none.
        label_vectors: (L, d), L at least 1.
        training: its method is not used.
        on_progress: called with the number of texts of every finished step.

    Returns:
        The map, and how its training went.

    Raises:
        DataError: if shapes do not fit, values are not finite, or training diverges.
    """
    import torch

    labels = unit_rows(matrix(label_vectors, "label_vectors"))
    texts = unit_rows(matrix(vectors, "vectors", labels.shape[1]))
    own = check_members(members, len(texts), len(labels))
    first, own = merged_duplicates([row.tobytes() for row in texts], own)
    given, anchors = torch.from_numpy(texts[first]), torch.from_numpy(labels)
    change = torch.nn.Parameter(torch.zeros(labels.shape[1], labels.shape[1]))

    def mapped(rows: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(rows + rows @ change.T)

    history = minimize(
        lambda rows: mapped(given[rows]) @ mapped(anchors).T,
        [change],
        pair_targets(own, training.soft_negative),
        training,
        training.learning_rate or _LARGEST_STEP / labels.shape[1],
        on_progress,
    )
    return LinearMap(np.eye(labels.shape[1], dtype=np.float32) + change.detach().numpy()), history
