"""Few-shot training on cosines: of all weights of a model, or of a linear map of frozen vectors.

After 'Taken by Surprise: Contrast effect for Similarity Scores' (arXiv 2308.09765). Every text is paired with
every label; the target t of a pair is 1 for a label of the text's own, .05 for others. The loss is the focal
loss (Lin et al., 'Focal Loss for Dense Object Detection', ICCV 2017) of the cosine:

    - t (1 - p)^gamma log p - (1 - t) p^gamma log(1 - p),   p = max(cos, 0) + 1e-10

with gamma 1, and training ends with the first epoch whose cross-entropy (gamma 0), averaged over its batches,
is low enough, and that gets enough texts right. The published program differs in three points. It draws
batches of 64 pairs, where a batch here has 16 texts and all labels, so that each of them is encoded once for
a step. It trains by rounds of three epochs, in each of which the rate falls to 0, where the rate here is
constant. And it asks for .9 of the texts in every training, which is `target_f1` here.

The linear map W of vectors, cos(W x, W l), is the identity at first, and is trained in the same way. It is
for machines that cannot fine-tune, and for encoders that cannot be fine-tuned.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._documents import encodable
from surprise_rerank._errors import DataError, ModelError
from surprise_rerank.core._extras import importing
from surprise_rerank.core.arrays import BoolArray, Float32Array, Float64Array, FloatArray, matrix, unit_rows
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder

if TYPE_CHECKING:
    import torch

TrainingMethod: TypeAlias = Literal["fine-tune", "linear"]

# Published.
_LEARNING_RATE = 1e-4
_TEXTS_PER_BATCH = 16
# AdamW changes each of the d^2 weights of a map by about the rate, so a unit vector moves by up to d times
# that: this is a share of its length that suits all dimensions. Chosen on training questions of TREC-6.
_LARGEST_STEP = 0.4
# The logarithms' arguments stay this far from 0 and 1. The upper bound differs from 1 in float32.
_SMALLEST, _LARGEST = 1e-10, 1 - 1e-7
# Where a cosine is barely above 0, the loss is as steep as 1 / cos. One such pair would dominate AdamW's
# moments for a thousand steps, and stop all others. sentence-transformers' own training, and so the published
# program, has the same bound.
_LONGEST_GRADIENT = 1.0


@dataclass(frozen=True)
class FewShotTraining:
    """How to train with a few labelled texts; the defaults are the published ones, but for `target_f1`.

    Attributes:
        method: `fine-tune` all weights of a sentence-transformers model, or fit a `linear` map of frozen
            vectors, which takes seconds on any machine.
        learning_rate: of AdamW, constant; None: 1e-4 to fine-tune, .4 / d for a map of d dimensions.
        soft_negative: target of a text and a label that is not its own, the paper's epsilon.
        gamma: of the focal loss; 0 for the cross-entropy.
        weight_decay: of AdamW.
        target_loss: train until the mean cross-entropy of an epoch's batches is below it; 0: all epochs.
        target_f1: train until so many of an epoch's texts are nearest to a label of their own, too. Published
            .9; by default 0, the loss alone decides.
        max_epochs: train no longer than that; `TrainingHistory.reached` reports whether it was enough.
        seed: of the texts' order and the model's dropout.
    """

    method: TrainingMethod = "fine-tune"
    learning_rate: float | None = None
    soft_negative: float = 0.05
    gamma: float = 1.0
    weight_decay: float = 0.01
    target_loss: float = 0.3
    target_f1: float = 0.0
    max_epochs: int = 70
    seed: int = 0

    def __post_init__(self) -> None:
        border.choice("method", self.method, get_args(TrainingMethod))
        border.optional(border.positive, "learning_rate", self.learning_rate)
        for name in ("gamma", "weight_decay", "target_loss"):
            border.number(name, getattr(self, name), 0)
        for name in ("soft_negative", "target_f1"):
            border.share(name, getattr(self, name))
        border.fields(self, max_epochs=border.count, seed=partial(border.count, least=0))


@dataclass(frozen=True)
class TrainingHistory:
    """The course of a training: its losses, and how it ended."""

    losses: tuple[float, ...]  # mean cross-entropy per pair (nats) of each epoch, as it was trained
    reached: (
        bool  # whether the last of them is below `target_loss`, and as many texts right as `target_f1` asks
    )
    seconds: float  # wall-clock time of the epochs


def fine_tune(
    encoder: Encoder,
    texts: Sequence[str],
    members: BoolArray,
    label_texts: Sequence[str],
    training: FewShotTraining,
) -> tuple[SentenceTransformerEncoder, TrainingHistory]:
    """A copy of an encoder, trained on a few labelled texts, and how that went.

    The encoder stays as it is. Training runs where the model is, in float32, with the model's dropout; on a
    CPU the same seed gives the same weights. All labels are encoded in every step, in the form that texts are
    compared with ("this matter is sport"). Of n texts (n, L) members tell which labels are a text's own;
    equal ones are one text that has the labels of all.
    """
    if not isinstance(encoder, SentenceTransformerEncoder):
        raise ModelError(
            f"{encoder.name} is no sentence-transformers model and cannot be fine-tuned; train a linear map "
            'of its vectors, method="linear"'
        )
    from torch.nn.functional import normalize

    model = copy.deepcopy(encoder.model).float()
    parameters = [weights for weights in model.parameters() if weights.requires_grad]
    if not parameters:
        raise ModelError(
            f'all weights of {encoder.name} are frozen; train a linear map of its vectors, method="linear"'
        )
    first, memberships = merged_duplicates(texts, members)
    prompted = [encoder.prompt("document") + encodable(texts[row]) for row in first]
    labels = [encoder.prompt("query") + encodable(text) for text in label_texts]

    def vectors(some: list[str]) -> torch.Tensor:
        features = model.preprocess(some)
        on_device = {name: part.to(model.device) for name, part in features.items() if hasattr(part, "to")}
        return normalize(model(on_device)["sentence_embedding"])

    with _seeded(training.seed, model.device):
        model.train()
        history = minimize(
            lambda rows: vectors([prompted[row] for row in rows]) @ vectors(labels).T,
            parameters,
            pair_targets(memberships, training.soft_negative),
            training,
            training.learning_rate or _LEARNING_RATE,
        )
    model.eval()
    model.zero_grad()
    name = f"{encoder.name} (fine-tuned)"
    return SentenceTransformerEncoder(model, name, prompt_tokens=encoder.reading.prompt_tokens), history


def fit_linear_map(
    vectors: FloatArray,
    members: BoolArray,
    label_vectors: FloatArray,
    training: FewShotTraining,
) -> tuple[Float32Array, TrainingHistory]:
    """(d, d) weights of the map for a few labelled texts, and how its training went.

    The same seed gives the same map. AdamW's weight decay works on W - I: it pulls towards the cosine of the
    vectors as they are. Equal vectors are one text that has the labels of all.
    """
    with importing("torch"):
        import torch

    labels = unit_rows(matrix(label_vectors, "label_vectors"))
    texts = unit_rows(matrix(vectors, "vectors", labels.shape[1]))
    first, memberships = merged_duplicates([row.tobytes() for row in texts], members)
    points, anchors = torch.from_numpy(texts[first]), torch.from_numpy(labels)
    change = torch.nn.Parameter(torch.zeros(labels.shape[1], labels.shape[1]))

    def moved(rows: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(rows + rows @ change.T)

    history = minimize(
        lambda rows: moved(points[rows]) @ moved(anchors).T,
        [change],
        pair_targets(memberships, training.soft_negative),
        training,
        training.learning_rate or _LARGEST_STEP / labels.shape[1],
    )
    return np.eye(labels.shape[1], dtype=np.float32) + change.detach().numpy(), history


def mapped(vectors: FloatArray, weights: Float32Array) -> Float32Array:
    """(n, d) vectors under a map, of length 1; a vector of zeros stays one."""
    return unit_rows(matrix(vectors, "vectors", len(weights)) @ weights.T)


def merged_duplicates(texts: Sequence[Hashable], members: BoolArray) -> tuple[list[int], BoolArray]:
    """Equal texts as one text that has the labels of all, as in the published program.

    Otherwise, for a text of two labels in two rows, each label would be a negative example, too. Returned are
    the row where each of the m different texts occurs first, and their (m, L) members.

    >>> merged_duplicates(["b", "a", "b"], np.array([[True, False], [False, False], [False, True]]))
    ([0, 1], array([[ True,  True],
           [False, False]]))
    """
    group_of: dict[Hashable, int] = {}
    groups = np.array([group_of.setdefault(text, len(group_of)) for text in texts], dtype=np.int64)
    merged = np.zeros((len(group_of), members.shape[1]), dtype=np.bool_)
    np.logical_or.at(merged, groups, members)
    return np.unique(groups, return_index=True)[1].tolist(), merged


def pair_targets(members: BoolArray, soft_negative: float = 0.05) -> Float64Array:
    """(n, L) targets of all pairs: 1 for a text's own labels, 0 for a text of no label, else `soft_negative`.

    >>> pair_targets(np.array([[True, False], [False, False]]))
    array([[1.  , 0.05],
           [0.  , 0.  ]])
    """
    others = np.where(members.any(axis=1, keepdims=True), soft_negative, 0.0)
    return np.where(members, 1.0, others)


def focal_loss(cosines: torch.Tensor, targets: torch.Tensor, gamma: float) -> torch.Tensor:
    """The mean focal loss of pairs, in nats, a scalar. Pairs of cosine 0 and less have no gradient."""
    import torch

    p = torch.clamp(torch.relu(cosines) + _SMALLEST, max=_LARGEST)
    positive = targets * (1 - p) ** gamma * torch.log(p)
    others = (1 - targets) * p**gamma * torch.log1p(-p)
    return -(positive + others).mean()


def minimize(
    cosines: Callable[[list[int]], torch.Tensor],
    parameters: Sequence[torch.nn.Parameter],
    targets: Float64Array,
    training: FewShotTraining,
    learning_rate: float,
) -> TrainingHistory:
    """Train parameters in place until cross-entropy and texts are as `training` asks, or for `max_epochs`.

    `cosines` gives those of some texts, by their rows, to all labels, with a gradient. A DataError if the
    loss or its gradient is no longer finite.
    """
    import torch

    # Fused, it takes a sixth of the time on a CPU, a quarter of a step less.
    optimizer = torch.optim.AdamW(
        parameters, lr=learning_rate, weight_decay=training.weight_decay, fused=True
    )
    order = np.random.default_rng(training.seed)
    losses: list[float] = []
    began = time.perf_counter()
    reached = False
    while not reached and len(losses) < training.max_epochs:
        steps: list[float] = []
        right = 0
        texts = order.permutation(len(targets))
        for start in range(0, len(texts), _TEXTS_PER_BATCH):
            rows = texts[start : start + _TEXTS_PER_BATCH].tolist()
            similarities = cosines(rows)
            wanted = torch.as_tensor(targets[rows], dtype=similarities.dtype, device=similarities.device)
            optimizer.zero_grad()
            loss = focal_loss(similarities, wanted, training.gamma)
            loss.backward()  # type: ignore[no-untyped-call]
            length = torch.nn.utils.clip_grad_norm_(parameters, _LONGEST_GRADIENT)
            if not torch.isfinite(loss.detach() + length):
                raise DataError(
                    f"training diverged in epoch {len(losses) + 1}: the loss is {loss.item():.4g}, its "
                    f"gradient's length {length.item():.4g}; give a learning_rate below {learning_rate:g}"
                )
            optimizer.step()
            steps.append(float(focal_loss(similarities.detach(), wanted, gamma=0.0)))
            nearest = similarities.detach().argmax(dim=1, keepdim=True)
            right += int((wanted.gather(1, nearest) == 1).sum())
        losses.append(float(np.mean(steps)))
        reached = losses[-1] < training.target_loss and right >= training.target_f1 * len(targets)
    return TrainingHistory(tuple(losses), reached, time.perf_counter() - began)


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Random numbers of this seed, on the CPU and the device; afterwards torch's state is as it was."""
    import torch

    on_cuda = device.type == "cuda"
    with torch.random.fork_rng(range(torch.cuda.device_count()) if on_cuda else []):
        # torch.manual_seed would also seed devices whose state is not restored.
        (torch.manual_seed if on_cuda else torch.default_generator.manual_seed)(seed)
        yield
