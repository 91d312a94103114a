"""Transformers computed by OpenVINO, without torch: their graph is exported once, into the cache."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import io
import json
import logging
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from tokenizers import Tokenizer

from surprise_rerank._errors import ModelError, StoreError
from surprise_rerank.core._extras import import_extra
from surprise_rerank.core._files import disk_errors, staged_folder
from surprise_rerank.core._process import PerProcess
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.encoders.base import Encoded, Kind, Precision, Progress
from surprise_rerank.encoders.transformer import (
    COLUMNS,
    Batch,
    Passed,
    Reading,
    SentenceTransformerEncoder,
    TransformerEncoder,
    tells_prompt,
)

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

_SETTINGS, _GRAPH, _TOKENIZER = "encoder.json", "graph.xml", "tokenizer.json"
_FORMAT = 3
# Texts that are enough: more change the ranges little, and calibrating takes ten times as long as encoding.
CALIBRATION_TEXTS = 128
# Of several lengths, so that a graph that has learnt the length of its example by heart is found out.
_PROBE = ["", "word", "What is the tallest mountain?", "Oil the chain every 200 km. " * 8, "deep " * 300]
_LEAST_COSINE = 0.99999  # to torch's vectors, which differ by the order of sums
_LEFT_BEHIND = (
    "OpenVINO had computed before this process was forked, and its threads are not here; encode nothing "
    "before the fork, or start processes by spawn"
)
# The processes that OpenVINO has computed in: this one, and those it was forked from.
_computed_in: set[int] = set()


def load_openvino(
    name: str,
    place: Path,
    precision: Precision,
    load: Callable[..., SentenceTransformerEncoder],
    calibration: Sequence[str] | None = None,
) -> OpenVinoEncoder:
    """A model by OpenVINO; exported at the first call, or where the exported one is damaged.

    `place` is the folder of what is made of these weights, and `load` loads the model into torch, in float32
    or another precision.
    """
    exported = place / "float32"
    if precision == "int8":
        exported = _int8_folder(name, place, calibration)
    if exported.exists():
        try:
            return OpenVinoEncoder(exported, name, precision, load)
        except StoreError as error:
            logger.warning("%s; it is exported again", error)
    if precision == "int8":
        _quantise(load_openvino(name, place, "float32", load), calibration or (), exported)
    else:
        _export(load(), exported)
    return OpenVinoEncoder(exported, name, precision, load)


class OpenVinoEncoder(TransformerEncoder):
    """A folder's exported model: a single batch is computed by all cores, several batches by a core each.

    The graph is opened for the first texts, by every process for itself. In a process that was forked after
    OpenVINO had computed it would wait for ever: there torch computes, and int8 is a ModelError. `load` loads
    the model into torch. A StoreError if a file of the folder is missing or damaged.
    """

    rounds_questions = False  # whether questions are computed in bfloat16, whatever texts are
    batch_tokens = 1024  # these are in a core's caches, and every core has a pass of its own
    _settings = ("name", "rounds_questions")

    def __init__(
        self,
        folder: Path,
        name: str,
        precision: Precision,
        load: Callable[..., SentenceTransformerEncoder] | None = None,
    ) -> None:
        import_extra("openvino", "openvino")
        self.folder = folder
        try:
            settings = json.loads((folder / _SETTINGS).read_text("utf-8"))
            damaged = [n for n, size in settings["sizes"].items() if (folder / n).stat().st_size != size]
            if settings["format"] != _FORMAT or damaged:
                raise ValueError(", ".join(damaged) or "of another version of this package")
            reading = Reading(**settings["reading"])
            tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        except Exception as error:  # of the disk, and of libraries whose errors share no base class
            reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
            raise StoreError(
                f"the exported model {folder} is damaged ({reason[0][:200]}); delete the folder"
            ) from error
        identity = {key: settings[key] for key in ("dimension", "fingerprint")}
        super().__init__(name, tokenizer, reading, precision=precision, **identity)
        self.token_dimension = int(settings["token_dimension"])
        self._hint = "bf16" if precision == "bfloat16" else "f32"
        self._load = load
        self._by_torch = PerProcess(self._loaded)
        self._compiling = PerProcess(threading.Lock)
        # What the graph is compiled for: the aim, and the numbers that are multiplied.
        self._compiled: PerProcess[dict[tuple[str, str], Any]] = PerProcess(dict)

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """Dense and token vectors from one pass; texts longer than the model reads are cut."""
        computing = self._rounded if kind == "query" and self.rounds_questions else self
        return TransformerEncoder.encode(computing, texts, kind, on_progress)

    @functools.cached_property
    def _rounded(self) -> OpenVinoEncoder:
        """The same graph in bfloat16."""
        rounded = copy.copy(self)
        rounded._hint = "bf16"
        return rounded

    def passes(self, batches: Iterable[Batch], prompt: str) -> Iterator[Passed]:
        """In their order. As many are computed at a time as OpenVINO finds best for this processor."""
        if _is_left_behind():
            yield from self._by_torch.get().passes(batches, prompt)
            return
        waiting = iter(batches)
        first = list(islice(waiting, 2))
        compiled = self._compile("THROUGHPUT" if len(first) > 1 else "LATENCY")
        number = compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS") if len(first) > 1 else 1
        idle = [compiled.create_infer_request() for _ in range(number)]
        running: deque[tuple[Any, list[int]]] = deque()
        for rows, features in chain(first, waiting):
            if not idle:
                yield _passed(*running[0])
                idle.append(running.popleft()[0])
            running.append((idle.pop(), rows))
            running[-1][0].start_async(features, share_inputs=True)
        for request, rows in running:
            yield _passed(request, rows)

    def _compile(self, aim: str) -> Any:
        """The graph as this process computes it; a StoreError if it is damaged."""
        compiled, wanted = self._compiled.get(), (aim, self._hint)
        with self._compiling.get():
            if wanted not in compiled:
                settings = {"PERFORMANCE_HINT": aim, "INFERENCE_PRECISION_HINT": self._hint}
                try:
                    compiled[wanted] = _openvino().Core().compile_model(self.folder / _GRAPH, "CPU", settings)
                except RuntimeError as error:
                    reason = " ".join(str(error).split())[-200:]
                    raise StoreError(
                        f"the exported model {self.folder} is damaged ({reason}); delete the folder"
                    ) from error
            return compiled[wanted]

    def _loaded(self) -> SentenceTransformerEncoder:
        """The model by torch, for a process that OpenVINO does not run in."""
        if self._load is None or self.precision == "int8":
            raise ModelError(
                f"{self.name!r} in {self.precision} is computed by OpenVINO alone: {_LEFT_BEHIND}"
            )
        logger.warning("torch computes %s in this process: %s", self.name, _LEFT_BEHIND)
        return self._load(self.precision)


def _openvino() -> Any:
    """The package openvino; a ModelError in a process that it does not run in."""
    if _is_left_behind():
        raise ModelError(_LEFT_BEHIND)
    _computed_in.add(os.getpid())
    return import_extra("openvino", "openvino")


def _is_left_behind() -> bool:
    """Whether this process was forked from one that OpenVINO had computed in; its threads are not here."""
    return bool(_computed_in - {os.getpid()})


def _passed(request: Any, rows: list[int]) -> Passed:
    request.wait()
    dense, tokens = (cast(Float32Array, request.get_output_tensor(i).data) for i in range(2))
    return rows, dense, tokens


def _export(encoder: SentenceTransformerEncoder, folder: Path) -> None:
    """Write a model's graph of float32; a ModelError if it cannot be, or computes something else."""
    openvino = _openvino()
    if tells_prompt(encoder.model):
        raise ModelError(f"{encoder.name!r} leaves its prompt out of its vectors, which torch alone computes")
    with _draft(folder) as draft:
        try:
            with _quiet():
                graph = _graph(encoder)
                openvino.save_model(graph, draft / _GRAPH, compress_to_fp16=False)
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            reason = str(error).strip().splitlines()[0][:200]
            raise ModelError(f"{encoder.name!r} cannot be exported for OpenVINO: {reason}") from error
        _complete(draft, encoder)
        cosine = _cosine(encoder, OpenVinoEncoder(draft, encoder.name, "float32"))
        if cosine < _LEAST_COSINE:
            raise ModelError(
                f"OpenVINO computes other vectors of {encoder.name!r} (mean cosine {cosine:.5f})"
            )


def _int8_folder(name: str, place: Path, texts: Sequence[str] | None) -> Path:
    """Where the weights are that these texts make; the latest there are, where none are given."""
    if texts:
        return place / f"int8-{hashlib.sha256(chr(0).join(texts).encode(errors='replace')).hexdigest()[:16]}"
    latest = max(place.glob(f"int8-*/{_SETTINGS}"), key=os.path.getmtime, default=None)
    if latest is None:
        raise ModelError(
            f"int8 weights of {name!r} are calibrated on texts: give some of those that will be encoded, "
            "load_encoder(..., precision='int8', calibration=texts)"
        )
    return latest.parent


def _quantise(encoder: OpenVinoEncoder, texts: Sequence[str], folder: Path) -> None:
    """Write a graph whose products are of int8, with ranges from what texts show (static quantisation)."""
    nncf: Any = import_extra("nncf", "openvino")
    openvino = _openvino()
    logging.getLogger("nncf").setLevel(logging.ERROR)  # on the standard output
    sample = [features for _, features in encoder.batches(texts)]
    with _draft(folder) as draft, _quiet(), contextlib.redirect_stdout(io.StringIO()):
        graph = nncf.quantize(
            openvino.Core().read_model(encoder.folder / _GRAPH),
            nncf.Dataset(sample),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(sample),
        )
        openvino.save_model(graph, draft / _GRAPH, compress_to_fp16=False)
        _complete(draft, encoder)


@contextlib.contextmanager
def _draft(folder: Path) -> Iterator[Path]:
    """A new folder that becomes this one when it is complete."""
    what = f"the exported model {folder}"
    with staged_folder(folder, _SETTINGS, what) as draft, disk_errors(what):
        yield draft


def _complete(draft: Path, encoder: TransformerEncoder) -> None:
    """Write what is beside a graph: the tokenizer, how texts are read, whose weights these are."""
    encoder.tokenizer.save(str(draft / _TOKENIZER))
    settings = {
        "format": _FORMAT,
        "reading": asdict(encoder.reading),
        "dimension": encoder.dimension,
        "token_dimension": encoder.token_dimension,
        "fingerprint": encoder.fingerprint,
        "sizes": {path.name: path.stat().st_size for path in draft.iterdir()},
    }
    (draft / _SETTINGS).write_text(json.dumps(settings, indent=1), "utf-8")


def _graph(encoder: SentenceTransformerEncoder) -> Any:
    """The model in OpenVINO, from what a tokenizer gives to both kinds of vectors."""
    import torch

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = copy.deepcopy(encoder.model).cpu().float()

        def forward(
            self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
        ) -> tuple[Tensor, Tensor]:
            columns = (input_ids, attention_mask, token_type_ids)
            named = {
                name: values for name, values in zip(COLUMNS, columns, strict=True) if values is not None
            }
            output = self.model(named)
            return output["sentence_embedding"], output["token_embeddings"]

    ((_, features),) = encoder.batches(["an example", "of two texts"])
    example = {name: torch.from_numpy(values) for name, values in features.items()}
    with torch.inference_mode():
        return _openvino().convert_model(Whole().eval(), example_input=example)


def _cosine(one: TransformerEncoder, other: TransformerEncoder) -> float:
    """The smaller of two means of cosines between vectors of some texts: of dense ones, and of tokens."""
    theirs, ours = one.encode(_PROBE), other.encode(_PROBE)
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
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        theirs.setLevel(level)
