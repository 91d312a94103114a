"""Few-shot training of all weights of a sentence-transformers model, with the loss of `few_shot`."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy.typing as npt

from surprise_rerank.classify.few_shot import (
    FewShotTraining,
    TrainingHistory,
    check_members,
    merged_duplicates,
    minimize,
    pair_targets,
)
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.core.files import whole_folder
from surprise_rerank.encoders.base import Encoder, Kind, Progress
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder, quiet_loading
from surprise_rerank.errors import DataError, ModelError

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

_LEARNING_RATE = 1e-4  # published


def fine_tune(
    encoder: Encoder,
    texts: Sequence[str],
    members: npt.ArrayLike,
    label_texts: Sequence[str],
    training: FewShotTraining,
    *,
    kinds: tuple[Kind, Kind] = ("document", "query"),
    checkpoint: Path | None = None,
    on_progress: Progress | None = None,
) -> tuple[SentenceTransformerEncoder, TrainingHistory]:
    """A copy of an encoder, trained on a few labelled texts; the encoder itself stays as it is.

    It runs where the model is, in float32, with the model's dropout. On a CPU the same seed gives the same
    weights; torch's own random state, on CPU and CUDA, is left as it was. Texts longer than the model reads
    are cut. All labels are encoded in every step, so that memory grows with their number.

    Args:
        encoder: a `SentenceTransformerEncoder`.
        texts: n, at least 1. Equal ones are one text that has the labels of all.
        members: (n, L) booleans: which labels are a text's own; it may have several, or none.
        label_texts: L, at least 1, in the form that texts are compared with ("this matter is sport").
        training: its method is not used.
        kinds: which of the model's prompts the texts have, and the labels.
        checkpoint: a folder for the trained model that sentence-transformers and `load_encoder` load; new or
            empty. It is written whole or not at all.
        on_progress: called with the number of texts of every finished step.

    Returns:
        The trained encoder, and how its training went.

    Raises:
        ModelError: if the encoder has no weights that can be trained, as word vectors do not.
        DataError: if shapes do not fit, training diverges, or the checkpoint's folder is not empty or cannot
            be written.
    """
    if not isinstance(encoder, SentenceTransformerEncoder):
        raise ModelError(
            f"{encoder.name} is no sentence-transformers model and cannot be fine-tuned; train a linear map "
            'of its vectors, method="linear"'
        )
    own = check_members(members, len(texts), len(label_texts))
    if checkpoint is not None:
        _require_free(checkpoint)
    first, own = merged_duplicates(texts, own)
    model = copy.deepcopy(encoder.model).float()
    parameters = [weights for weights in model.parameters() if weights.requires_grad]
    if not parameters:
        raise ModelError(
            f'all weights of {encoder.name} are frozen; train a linear map of its vectors, method="linear"'
        )
    of_texts, _ = encoder.read([texts[i] for i in first], kinds[0])
    of_labels, _ = encoder.read(label_texts, kinds[1])
    labels = list(range(len(label_texts)))
    with _seeded(training.seed, model.device):
        model.train()
        history = minimize(
            lambda rows: (
                _vectors(model, encoder, of_texts, rows) @ _vectors(model, encoder, of_labels, labels).T
            ),
            parameters,
            pair_targets(own, training.soft_negative),
            training,
            training.learning_rate or _LEARNING_RATE,
            on_progress,
        )
    model.eval()
    model.zero_grad()
    if checkpoint is None:
        name = f"{encoder.name} (fine-tuned)"
        return SentenceTransformerEncoder(model, name, prompt_tokens=encoder.reading.prompt_tokens), history
    save_model(model, checkpoint)
    return SentenceTransformerEncoder(
        model, str(checkpoint), prompt_tokens=encoder.reading.prompt_tokens
    ), history


def _vectors(
    model: SentenceTransformer,
    encoder: SentenceTransformerEncoder,
    inputs: dict[str, list[IntArray]],
    rows: Sequence[int],
) -> torch.Tensor:
    """(b, d) unit vectors of some rows, with a gradient."""
    import torch
    from torch.nn.functional import normalize

    features = encoder.padded(inputs, rows)
    given = {name: torch.from_numpy(values).to(model.device) for name, values in features.items()}
    return normalize(model(given)["sentence_embedding"])


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Random numbers of this seed, on the CPU and the device; afterwards torch's state is as it was."""
    import torch

    on_cuda = device.type == "cuda"
    with torch.random.fork_rng(range(torch.cuda.device_count()) if on_cuda else []):
        # torch.manual_seed would also seed devices whose state is not restored.
        (torch.manual_seed if on_cuda else torch.default_generator.manual_seed)(seed)
        yield


def _require_free(folder: Path) -> None:
    try:
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise DataError(f"cannot read the checkpoint's folder {folder}: {error.strerror}") from error
    if taken:
        raise DataError(f"{folder} is there already and not an empty folder; give a new one as checkpoint")


def save_model(model: SentenceTransformer, folder: Path) -> None:
    """Write a model to a new or empty folder, whole or not at all.

    Raises:
        DataError: if it cannot be written.
    """
    from safetensors import SafetensorError

    try:
        # A model card would be written by asking the model hub.
        with whole_folder(folder) as draft, quiet_loading():
            model.save_pretrained(str(draft), create_model_card=False)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot write the checkpoint {folder}: {reason}; give another folder") from error
