"""From a model in torch to a graph in a folder, once; and int8 weights, calibrated on texts."""

from __future__ import annotations

import contextlib
import copy
import errno
import io
import logging
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surprise_rerank.core.extras import import_extra
from surprise_rerank.core.files import disk_errors
from surprise_rerank.encoders.backends.exported import (
    GRAPH,
    ExportedEncoder,
    ExportedSettings,
    draft_of,
    write_settings,
)
from surprise_rerank.encoders.backends.tokenizing import FILE
from surprise_rerank.encoders.backends.transformer import TransformerEncoder
from surprise_rerank.encoders.sentence_transformer import SentenceTransformerEncoder, tells_prompt
from surprise_rerank.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

_PADDING = ("padding_side", "pad_token_id", "pad_token_type_id")
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
# An exported graph of float32 computes what the model computes, but for the order of sums.
_LEAST_AGREEMENT = 0.99999
# Of several lengths, so that a graph that has learnt the length of its example by heart is found out.
_PROBE = ["", "word", "What is the tallest mountain?", "Oil the chain every 200 km. " * 8, "deep " * 300]
_FLOAT32 = 4  # bytes


def export(encoder: SentenceTransformerEncoder, folder: Path) -> None:
    """Write a model's graph of float32 into a folder that appears when it is complete.

    Args:
        encoder: the model in torch.
        folder: where; an older one is replaced.

    Raises:
        ModelError: if the model cannot be exported, or the graph computes something else.
        MissingExtraError: if openvino is not installed.
        StoreError: if the folder cannot be written.
    """
    import_extra("openvino", "openvino")
    inputs = _inputs_of(encoder)
    settings = ExportedSettings(
        precision="float32",
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        token_dimension=encoder.token_dimension,
        longest=encoder.longest,
        prompts={name: text for name, text in encoder.prompts.items() if text},
        prompt_tokens=encoder.prompt_tokens,
        inputs=inputs,
        padding={name: getattr(encoder.tokenizer, name) for name in _PADDING},
        split_special_tokens=bool(getattr(encoder.tokenizer, "split_special_tokens", False)),
        agreement=1.0,
    )
    with draft_of(folder) as draft, disk_errors(f"the exported model {folder}"):
        _require_space(draft, sum(p.numel() * _FLOAT32 for p in encoder.model.parameters()))
        try:
            with _quiet():
                _write_graph(encoder, inputs, draft / GRAPH)
                encoder.tokenizer.backend_tokenizer.save(str(draft / FILE))
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            raise ModelError(
                f"the model {encoder.name!r} cannot be exported for OpenVINO: "
                f"{str(error).strip().splitlines()[0][:200]}; choose backend='torch'"
            ) from error
        write_settings(draft, settings)
        agreement = _agreement(encoder, ExportedEncoder(draft, encoder.name), _PROBE)
        if agreement < _LEAST_AGREEMENT:
            raise ModelError(
                f"the graph of {encoder.name!r} for OpenVINO computes other vectors (mean cosine "
                f"{agreement:.5f}); choose backend='torch'"
            )


def quantise(exported: ExportedEncoder, texts: Sequence[str], folder: Path) -> ExportedSettings:
    """Write a graph whose products are of int8, with ranges from what texts show (static quantisation).

    Args:
        exported: the model's graph of float32 for OpenVINO, which the result is compared with.
        texts: a sample of the texts that will be encoded; `CALIBRATION_TEXTS` of them are enough.
        folder: where; an older one is replaced.

    Raises:
        MissingExtraError: if nncf is not installed.
        StoreError: if the folder cannot be written.
    """
    nncf: Any = import_extra("nncf", "openvino")
    openvino: Any = import_extra("openvino", "openvino")
    logging.getLogger("nncf").setLevel(logging.ERROR)  # on the standard output
    model = openvino.Core().read_model(exported.folder / GRAPH)
    with draft_of(folder) as draft, disk_errors(f"the exported model {folder}"):
        _require_space(draft, sum(path.stat().st_size for path in exported.folder.iterdir()))
        with _quiet(), contextlib.redirect_stdout(io.StringIO()):
            sample = [
                {name: batch.features[name] for name in exported.settings.inputs}
                for batch in exported.batches(texts)
            ]
            made = nncf.quantize(
                model,
                nncf.Dataset(sample),
                model_type=nncf.ModelType.TRANSFORMER,
                subset_size=len(sample),
            )
            openvino.save_model(made, draft / GRAPH, compress_to_fp16=False)
        shutil.copyfile(exported.folder / FILE, draft / FILE)
        settings = replace(exported.settings, precision="int8")
        write_settings(draft, settings)
        agreement = _agreement(exported, ExportedEncoder(draft, exported.name), texts)
        settings = replace(settings, agreement=agreement)
        write_settings(draft, settings)
    return settings


def _require_space(folder: Path, size: int) -> None:
    """Find out now: what OpenVINO says of a full disk is `iostream error`.

    Raises:
        OSError: if there is less room than so many bytes.
    """
    if shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _inputs_of(encoder: SentenceTransformerEncoder) -> list[str]:
    """What the graph will take.

    Raises:
        ModelError: if the graph could not be used without torch.
    """
    if not encoder.tokenizer.is_fast:
        raise ModelError(f"the tokenizer of {encoder.name!r} is written in Python; choose backend='torch'")
    if tells_prompt(encoder.model):
        raise ModelError(
            f"the model {encoder.name!r} leaves its prompt out of its vectors; choose backend='torch'"
        )
    found = [name for name in encoder.tokenized([""]) if name != "special_tokens_mask"]
    if not set(found) <= set(_INPUTS):
        raise ModelError(f"the model {encoder.name!r} reads {', '.join(found)}; choose backend='torch'")
    return [name for name in _INPUTS if name in found]


def _write_graph(encoder: SentenceTransformerEncoder, inputs: list[str], path: Path) -> None:
    import torch

    class Whole(torch.nn.Module):
        """The model from tokens to both kinds of vectors."""

        def __init__(self) -> None:
            super().__init__()
            self.model = copy.deepcopy(encoder.model).cpu().float()

        def forward(
            self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
        ) -> tuple[Tensor, Tensor]:
            given = {"input_ids": input_ids, "attention_mask": attention_mask}
            if token_type_ids is not None:
                given["token_type_ids"] = token_type_ids
            output = self.model(given)
            return output["sentence_embedding"], output["token_embeddings"]

    (batch,) = encoder.batches(["an example", "of two texts"])
    example = {name: torch.from_numpy(batch.features[name]) for name in inputs}
    whole = Whole().eval()
    with torch.inference_mode():
        openvino: Any = import_extra("openvino", "openvino")
        graph = openvino.convert_model(whole, example_input=example)
        openvino.save_model(graph, path, compress_to_fp16=False)


def _agreement(one: TransformerEncoder, other: TransformerEncoder, texts: Sequence[str]) -> float:
    """The smaller of two means of cosines between their vectors: of dense ones, and of tokens."""
    theirs, ours = one.encode(texts), other.encode(texts)
    dense = np.einsum("nd,nd->n", theirs.dense, ours.dense).mean()
    tokens = (batch.require_tokens().directions for batch in (theirs, ours))
    return float(min(dense, np.einsum("nd,nd->n", *tokens).mean()))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what tracing says of branches and settings in the model's code."""
    theirs = logging.getLogger("transformers")
    level = theirs.level
    theirs.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        theirs.setLevel(level)
