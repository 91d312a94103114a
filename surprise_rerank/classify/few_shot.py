"""Few-shot training on cosines: shared by fine-tuning an encoder and by a linear map of its vectors.

The routine of 'Taken by Surprise: Contrast effect for Similarity Scores' (arXiv 2308.09765). Every text is
paired with every label; the target t of a pair is 1 for a label of the text's own, and a little for others.
The loss is the focal loss (Lin et al., 'Focal Loss for Dense Object Detection', ICCV 2017) of the cosine:

    - t (1 - p)^gamma log p - (1 - t) p^gamma log(1 - p),   p = max(cos, 0) + 1e-10

and training ends with the first epoch whose cross-entropy (gamma = 0), averaged over its batches, is low
enough. The published program draws batches from the pairs. Here a batch has some texts and all labels, so
that each of them is encoded once for a step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import BoolArray, Float64Array, FloatArray
from surprise_rerank.encoders.base import Progress
from surprise_rerank.errors import DataError

if TYPE_CHECKING:
    import torch

TrainingMethod: TypeAlias = Literal["fine-tune", "linear"]

# The logarithms' arguments stay this far from 0 and 1. The upper bound differs from 1 in float32.
_SMALLEST, _LARGEST = 1e-10, 1 - 1e-7
# Where a cosine is barely above 0, the loss is as steep as 1 / cos. One such pair would dominate AdamW's
# moments for a thousand steps, and stop all others. sentence-transformers' own training has the same bound.
_LONGEST_GRADIENT = 1.0


@dataclass(frozen=True)
class FewShotTraining:
    """How to train with a few labelled texts; the defaults are the published ones.

    Attributes:
        method: `fine-tune` all weights of a sentence-transformers model (`finetune.fine_tune`), or fit a
            `linear` map of frozen vectors (`linear_map.fit_linear_map`), which takes seconds on any machine.
        learning_rate: of AdamW, constant; None: 1e-4 to fine-tune, .4 / d for a map of d dimensions.
        weight_decay: AdamW's; it pulls a model's weights towards zero, and the map towards the identity.
        gamma: of the focal loss; 0 is the cross-entropy.
        soft_negative: target of a text with a label that is not its own. A text of no label at all has 0.
        target_loss: train until the mean cross-entropy of an epoch's batches is below it; 0: all epochs.
        max_epochs: train no longer than that; `TrainingHistory.reached` reports whether it was enough.
        texts_per_batch: texts of a step; all L labels are in every step.
        seed: of the texts' order and the model's dropout.

    Raises:
        DataError: if one of them is not what it should be.
    """

    method: TrainingMethod = "fine-tune"
    learning_rate: float | None = None
    weight_decay: float = 0.01
    gamma: float = 1.0
    soft_negative: float = 0.05
    target_loss: float = 0.3
    max_epochs: int = 70
    texts_per_batch: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in get_args(TrainingMethod):
            choices = ", ".join(get_args(TrainingMethod))
            raise DataError(f"training method {self.method!r} is not known; choose one of {choices}")
        if self.learning_rate is not None and not (_is_number(self.learning_rate) and self.learning_rate > 0):
            raise DataError(f"learning_rate must be a number above 0 or None, got {self.learning_rate!r}")
        for name in ("weight_decay", "gamma", "target_loss"):
            if not _is_number(value := getattr(self, name)):
                raise DataError(f"{name} must be a finite number of at least 0, got {value!r}")
        if not (_is_number(self.soft_negative) and self.soft_negative < 1):
            raise DataError(f"soft_negative must be at least 0 and below 1, got {self.soft_negative!r}")
        for name, least in (("max_epochs", 1), ("texts_per_batch", 1), ("seed", 0)):
            value = getattr(self, name)
            if not _is_number(value, Integral) or value < least:
                raise DataError(f"{name} must be an integer of at least {least}, got {value!r}")


@dataclass(frozen=True)
class TrainingHistory:
    """How a training went.

    Attributes:
        losses: mean cross-entropy per pair (nats) of each epoch, over its batches as they were trained.
        reached: whether the last of them is below `target_loss`.
        seconds: wall-clock time of the epochs.
    """

    losses: tuple[float, ...]
    reached: bool
    seconds: float


def check_members(members: npt.ArrayLike, texts: int, labels: int) -> BoolArray:
    """(n, L) which labels are a text's own; refuses what does not fit.

    Args:
        members: (n, L) booleans, or 0 and 1. A text may have one label, several, or none.
        texts: n, at least 1.
        labels: L, at least 1.

    Raises:
        DataError: if there is no text, no label, the shape is another one, or a value is neither 0 nor 1.
    """
    if not texts or not labels:
        raise DataError(f"training needs a text and a label at least, got {texts} texts and {labels} labels")
    given = np.asarray(members)
    if given.shape != (texts, labels):
        raise DataError(
            f"members has shape {given.shape}, expected ({texts}, {labels}): a row for each text, a column "
            "for each label"
        )
    if given.dtype.kind not in "biuf" or not np.isin(given, (0, 1)).all():
        raise DataError("members must be booleans: whether a label is the text's own")
    return given.astype(np.bool_)


def merged_duplicates(texts: Sequence[Hashable], members: BoolArray) -> tuple[list[int], BoolArray]:
    """Equal texts as one text that has the labels of all, as in the published program.

    Otherwise, for a text of two labels in two rows, each label would be a negative example, too.

    Args:
        texts: n texts, or whatever else is equal where they are.
        members: (n, L) which labels are a text's own.

    Returns:
        The row where each of the m different texts occurs first, and their (m, L) members.

    >>> merged_duplicates(["b", "a", "b"], np.array([[True, False], [False, False], [False, True]]))
    ([0, 1], array([[ True,  True],
           [False, False]]))
    """
    group_of: dict[Hashable, int] = {}
    groups = np.array([group_of.setdefault(text, len(group_of)) for text in texts], dtype=np.int64)
    merged = np.zeros((len(group_of), members.shape[1]), dtype=np.bool_)
    np.logical_or.at(merged, groups, members)
    return np.unique(groups, return_index=True)[1].tolist(), merged


def pair_targets(members: BoolArray, soft_negative: float) -> Float64Array:
    """(n, L) targets of all pairs: 1 for a text's own labels, 0 for a text of no label, else `soft_negative`.

    >>> pair_targets(np.array([[True, False], [False, False]]), 0.05)
    array([[1.  , 0.05],
           [0.  , 0.  ]])
    """
    others = np.where(members.any(axis=1, keepdims=True), soft_negative, 0.0)
    return np.where(members, 1.0, others)


def focal_loss(cosines: FloatArray, targets: FloatArray, gamma: float = 1.0) -> float:
    """The mean focal loss of pairs, in nats, as the paper writes it.

    Args:
        cosines: any shape.
        targets: as many, from 0 to 1.
        gamma: 0 is the cross-entropy; above it, pairs that are right already count less.

    >>> round(focal_loss(np.array([0.5]), np.array([1.0]), gamma=0), 4)
    0.6931
    """
    t = np.asarray(targets, dtype=np.float64)
    p = np.minimum(np.maximum(np.asarray(cosines, dtype=np.float64), 0.0) + _SMALLEST, _LARGEST)
    return float(np.mean(-t * (1 - p) ** gamma * np.log(p) - (1 - t) * p**gamma * np.log(1 - p)))


def focal_loss_of_tensors(cosines: torch.Tensor, targets: torch.Tensor, gamma: float = 1.0) -> torch.Tensor:
    """`focal_loss` of tensors, with a gradient: a scalar. Pairs of cosine 0 and less have none."""
    import torch

    p = torch.clamp(torch.relu(cosines) + _SMALLEST, max=_LARGEST)
    own = targets * (1 - p) ** gamma * torch.log(p)
    others = (1 - targets) * p**gamma * torch.log1p(-p)
    return -(own + others).mean()


def minimize(
    cosines: Callable[[list[int]], torch.Tensor],
    parameters: Sequence[torch.nn.Parameter],
    targets: Float64Array,
    training: FewShotTraining,
    learning_rate: float,
    on_progress: Progress | None = None,
) -> TrainingHistory:
    """Train parameters in place until the cross-entropy is low enough, or for `max_epochs`.

    Args:
        cosines: (b, L) of b texts, given by their rows, and all labels, with a gradient.
        parameters: what to train.
        targets: (n, L), see `pair_targets`.
        training: all but its method and its learning rate.
        learning_rate: of AdamW.
        on_progress: called with the number of texts of every finished step.

    Raises:
        DataError: if the loss or its gradient is no longer finite, or the weights would decay whole.
    """
    import torch

    if learning_rate * training.weight_decay >= 1:
        raise DataError(
            f"weight_decay {training.weight_decay:g} at a learning_rate of {learning_rate:g} takes all of a "
            "weight at every step; their product must be below 1"
        )
    parameters = list(parameters)
    # Fused, it takes a sixth of the time on a CPU, a quarter of a step less.
    optimizer = torch.optim.AdamW(
        parameters, lr=learning_rate, weight_decay=training.weight_decay, fused=True
    )
    order = np.random.default_rng(training.seed)
    losses: list[float] = []
    began = time.perf_counter()
    while len(losses) < training.max_epochs:
        steps: list[float] = []
        texts = order.permutation(len(targets))
        for start in range(0, len(texts), training.texts_per_batch):
            rows = texts[start : start + training.texts_per_batch].tolist()
            found = cosines(rows)
            wanted = torch.as_tensor(targets[rows], dtype=found.dtype, device=found.device)
            optimizer.zero_grad()
            loss = focal_loss_of_tensors(found, wanted, training.gamma)
            loss.backward()  # type: ignore[no-untyped-call]
            length = torch.nn.utils.clip_grad_norm_(parameters, _LONGEST_GRADIENT)
            if not torch.isfinite(loss.detach() + length):
                raise DataError(
                    f"training diverged in epoch {len(losses) + 1}: the loss is {loss.item():.4g}, its "
                    f"gradient's length {length.item():.4g}; give a learning_rate below {learning_rate:g}"
                )
            optimizer.step()
            steps.append(float(focal_loss_of_tensors(found.detach(), wanted, gamma=0.0)))
            if on_progress is not None:
                on_progress(len(rows))
        losses.append(float(np.mean(steps)))
        if losses[-1] < training.target_loss:
            break
    return TrainingHistory(
        losses=tuple(losses),
        reached=losses[-1] < training.target_loss,
        seconds=time.perf_counter() - began,
    )


def _is_number(value: Any, kind: Any = Real) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and 0 <= value < float("inf")
