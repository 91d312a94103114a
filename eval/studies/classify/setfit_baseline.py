"""SetFit, the usual few-shot classifier, as a baseline (Tunstall et al., arXiv 2209.11055)."""

from __future__ import annotations

import contextlib
import copy
import math
import random
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from surprise_rerank.core.arrays import IntArray
from surprise_rerank.core.extras import import_extra
from surprise_rerank.encoders.base import Encoder

EXTRA = "setfit"
_BATCH = 16  # SetFit's own


def setfit_answers(
    encoder: Encoder,
    examples: Sequence[str],
    truth: IntArray,
    texts: Sequence[str],
    seed: int,
    *,
    steps: int | None = None,
) -> tuple[IntArray, float]:
    """What SetFit with its defaults, one epoch of all pairs among them, makes of n texts.

    The encoder, a sentence-transformers model, stays as it is. Texts have no prompt, as SetFit uses none.

    Args:
        encoder: that training starts from.
        examples: m texts, of two classes at least.
        truth: (m,) places of their classes.
        texts: to classify.
        seed: of the training.
        steps: of training at most; None: one epoch.

    Returns:
        (n,) places of the classes that were chosen, and the seconds of training.
    """
    setfit = import_extra("setfit", EXTRA)
    datasets = import_extra("datasets", EXTRA)
    from transformers import PrinterCallback, ProgressCallback

    body = copy.deepcopy(encoder.model)  # type: ignore[attr-defined]
    model = setfit.SetFitModel(model_body=body, model_head=LogisticRegression())
    data = datasets.Dataset.from_dict({"text": list(examples), "label": truth.tolist()})
    with _quiet(setfit, datasets), _random_states_kept(), tempfile.TemporaryDirectory() as folder:
        arguments = setfit.TrainingArguments(
            output_dir=folder,
            seed=seed,
            batch_size=_BATCH,
            # As a limit: more steps than an epoch has would be further epochs.
            max_steps=-1 if steps is None or steps >= _epoch(truth) else steps,
            save_strategy="no",
            report_to="none",
            show_progress_bar=False,
        )
        trainer = setfit.Trainer(model=model, args=arguments, train_dataset=data)
        for usual in (ProgressCallback, PrinterCallback):
            trainer.remove_callback(usual)
        start = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - start
        found = model.predict(list(texts), as_numpy=True, show_progress_bar=False)
    return np.asarray(found, dtype=np.int64), seconds


def _epoch(truth: IntArray) -> int:
    """Steps of one epoch: all pairs of two examples, those of equal and of other classes equally often."""
    sizes = np.unique_counts(truth).counts
    equal = int((sizes * (sizes + 1)).sum()) // 2
    others = len(truth) * (len(truth) + 1) // 2 - equal
    return math.ceil(2 * max(equal, others) / _BATCH)


@contextlib.contextmanager
def _random_states_kept() -> Iterator[None]:
    """SetFit seeds every generator that there is; afterwards they are as they were."""
    import torch

    python, own = random.getstate(), np.random.get_state()  # noqa: NPY002 (the state that is SetFit's)
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(own)  # noqa: NPY002


@contextlib.contextmanager
def _quiet(setfit: Any, datasets: Any) -> Iterator[None]:
    """Keep SetFit's log, which it turns on when it is imported, and the bars of datasets off the terminal."""
    shown, has_bars = setfit.logging.get_verbosity(), not datasets.are_progress_bars_disabled()
    setfit.logging.set_verbosity_error()
    datasets.disable_progress_bars()
    try:
        with warnings.catch_warnings():
            # memory for a GPU where there is none
            warnings.filterwarnings("ignore", message=".*pin_memory.*")
            yield
    finally:
        setfit.logging.set_verbosity(shown)
        if has_bars:
            datasets.enable_progress_bars()
