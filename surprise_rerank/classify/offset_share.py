"""Whether surprise will probably choose better than the cosine, predicted from unlabelled data alone.

The cosine chooses between labels by its differences x . d_l, with d_l = q_l - q_mean. Over an ensemble with
mean m and covariance C such a difference has a mean, which is the same for every text and so carries no
information about any, and a variance, which separates texts. The offset share is the part of the first:

    R = sum_l (d_l . m)^2 / sum_l ((d_l . m)^2 + d_l' C d_l)

Surprise removes the means. Where they are small nothing can be gained, and something may be lost: a label's
mean is large partly because many texts belong to it. Where they are large, the cosine assigns all texts to a
few labels. docs/classification.md reports how the limit was found, and how good it is on other data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import matrix, unit_rows
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble

# Chosen with AG News, TREC-6 and banking77; on other tasks surprise gained above and not below it.
PROMISING_OFFSET_SHARE = 0.12


@dataclass(frozen=True, slots=True)
class LabelContrast:
    """What an ensemble and some labels predict.

    Attributes:
        offset_share: R, from 0 to 1: the part of the labels' differences that is the same for all texts. 0
            for one label, for labels that do not differ, and for fewer than two texts; of a dozen texts it is
            a rough guess.
        cone: the squared length of the mean of the ensemble's unit vectors, which is the mean cosine of two
            members: near 1 for models whose vectors lie in a narrow cone.
    """

    offset_share: float
    cone: float

    @property
    def promising(self) -> bool:
        """Whether surprise will probably choose better."""
        return self.offset_share > PROMISING_OFFSET_SHARE

    def __str__(self) -> str:
        chance = (
            "surprise should choose better" if self.promising else "the cosine should do as well or better"
        )
        return (
            f"{self.offset_share:.1%} of the labels' differences are the same for all texts, the mean cosine "
            f"of two texts is {self.cone:.2f}: {chance}"
        )


def label_contrast(labels: npt.ArrayLike, ensemble: Ensemble) -> LabelContrast:
    """The offset share and the cone for these labels; exact, from the ensemble's moments.

    Args:
        labels: (L, d) vectors; their length does not matter.
        ensemble: of unlabelled texts, under the cosine.

    Raises:
        DataError: if the ensemble is not under the cosine, or the dimension is another one.
    """
    if ensemble.similarity != "cosine":
        raise DataError(f"contrast needs an ensemble under the cosine, got {ensemble.similarity!r}")
    q = unit_rows(matrix(labels, "label vectors", ensemble.dimension)).astype(np.float64)
    differences = q - q.mean(axis=0)
    cone = float(ensemble.mean @ ensemble.mean)
    if ensemble.count < 2:
        return LabelContrast(0.0, cone)  # one text differs from no other
    varied = float(np.einsum("ld,ld->", differences @ ensemble.scatter, differences)) / (ensemble.count - 1)
    # The squared mean of n members is too large by an n-th of their variance, which is chance.
    same = float(((differences @ ensemble.mean) ** 2).sum()) - varied / ensemble.count
    same = max(same, 0.0)
    return LabelContrast(same / (same + varied) if same + varied > 0 else 0.0, cone)
