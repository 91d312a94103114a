"""SetFit, the usual few-shot classifier, as a baseline (Tunstall et al., arXiv 2209.11055)."""

from __future__ import annotations

import copy
import tempfile
import time
import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.linear_model import LogisticRegression

from surprise_rerank.core.arrays import IntArray
from surprise_rerank.core.extras import import_extra
from surprise_rerank.encoders.base import Encoder

EXTRA = "setfit"


def setfit_answers(
    encoder: Encoder, examples: Sequence[str], truth: IntArray, texts: Sequence[str], seed: int
) -> tuple[IntArray, float]:
    """(n,) places of the classes that SetFit with its defaults chooses, and the seconds of training.

    The encoder, a sentence-transformers model, stays as it is. Texts have no prompt, as SetFit uses none. The
    seed is that of every generator that there is.
    """
    setfit = import_extra("setfit", EXTRA)
    datasets = import_extra("datasets", EXTRA)
    from transformers import PrinterCallback, ProgressCallback

    setfit.logging.set_verbosity_error()  # its import turns its log on
    datasets.disable_progress_bars()
    body = copy.deepcopy(encoder.model)  # type: ignore[attr-defined]
    model = setfit.SetFitModel(model_body=body, model_head=LogisticRegression())
    data = datasets.Dataset.from_dict({"text": list(examples), "label": truth.tolist()})
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.filterwarnings("ignore", message=".*pin_memory.*")  # for a GPU where there is none
        arguments = setfit.TrainingArguments(
            output_dir=folder, seed=seed, save_strategy="no", report_to="none", show_progress_bar=False
        )
        trainer = setfit.Trainer(model=model, args=arguments, train_dataset=data)
        for usual in (ProgressCallback, PrinterCallback):
            trainer.remove_callback(usual)
        start = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - start
        places = model.predict(list(texts), as_numpy=True, show_progress_bar=False)
    return np.asarray(places, dtype=np.int64), seconds
