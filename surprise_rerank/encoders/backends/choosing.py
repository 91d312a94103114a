"""Which backend and precision compute a model here, and the encoder that they make of its weights."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from surprise_rerank.core.extras import is_installed, pip_line
from surprise_rerank.core.files import cache_folder
from surprise_rerank.encoders.backends.exported import MARKER, ExportedEncoder
from surprise_rerank.encoders.backends.precision import Precision, require_processor
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.sentence_transformer import SentenceTransformerEncoder
from surprise_rerank.errors import ModelError, StoreError, SurpriseRerankError

logger = logging.getLogger(__name__)

Backend: TypeAlias = Literal["torch", "openvino"]
BackendChoice: TypeAlias = Literal["torch", "openvino", "auto"]
PrecisionChoice: TypeAlias = Literal["float32", "bfloat16", "int8", "auto"]

# From the fastest to the slowest: documents a second over scifact, `benchmarks/encoding.py`.
_ORDER: tuple[tuple[Backend, Precision], ...] = (
    ("openvino", "int8"),
    ("openvino", "bfloat16"),
    ("torch", "bfloat16"),
    ("openvino", "float32"),
    ("torch", "float32"),
)
# Texts that are enough: more change the ranges little, and calibrating takes ten times as long as encoding.
CALIBRATION_TEXTS = 128
# What `auto` means in this environment.
_VARIABLE = "SURPRISE_RERANK_BACKEND"
# Where int8 vectors of the sample are further from float32's, `auto` does without: see docs/performance.md.
LEAST_AGREEMENT = 0.99


@dataclass(frozen=True, slots=True)
class Weights:
    """A transformer that was found, and is not loaded yet.

    Attributes:
        name: by which the user asked for it.
        key: digits that differ where its files do.
        load: reads it into torch.
    """

    name: str
    key: str
    load: Callable[[Precision], SentenceTransformerEncoder]


def key_of(place: Path, files: Iterable[Path]) -> str:
    """16 digits of a model's place, and of the names, sizes and times of its files.

    Args:
        place: its folder; that of a snapshot of the hub is called as its commit is.
        files: that decide, where the place does not.

    Raises:
        ModelError: if one cannot be read.
    """
    try:
        found = sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    except OSError as error:
        raise ModelError(f"cannot read the model {place}: {error.strerror}") from error
    return hashlib.sha256(repr((str(place), found)).encode()).hexdigest()[:16]


def encoder_of(
    weights: Weights,
    backend: BackendChoice,
    precision: PrecisionChoice,
    calibration: Sequence[str] | None = None,
    cache: Path | None = None,
    device: str | None = None,
) -> Encoder:
    """The fastest encoder of what is asked for.

    Args:
        weights: of the model.
        backend: what computes; `auto` takes what the environment variable SURPRISE_RERANK_BACKEND names, or
            the fastest that is installed.
        precision: of products; `auto` takes what this processor has instructions for.
        calibration: texts that int8 weights are calibrated on. Without them, int8 weights that were made
            before are taken, and `auto` takes none.
        cache: folder of exported models; `cache_folder()` by default.
        device: `cpu`, `cuda`, ...; the best there is by default. A GPU is torch's.

    Raises:
        ModelError: if there is no such backend or precision, or the model cannot be computed so.
        MissingExtraError: if the backend is not installed.
        StoreError: if the exported model cannot be written.
    """
    if backend not in get_args(BackendChoice):
        raise ModelError(f"backend={backend!r}: choose one of {', '.join(get_args(BackendChoice))}")
    if precision not in get_args(PrecisionChoice):
        raise ModelError(f"precision={precision!r}: choose one of {', '.join(get_args(PrecisionChoice))}")
    if backend == "auto" and os.environ.get(_VARIABLE):
        return encoder_of(
            weights, cast(BackendChoice, os.environ[_VARIABLE]), precision, calibration, cache, device
        )
    on_gpu = _is_gpu(device)
    if on_gpu and backend not in ("torch", "auto"):
        raise ModelError(
            f"backend={backend!r} computes on the processor; give device='cpu', or backend='torch'"
        )
    place = (cache or cache_folder()) / "encoders" / weights.key
    candidates = [
        (by, of)
        for by, of in _ORDER
        if backend in (by, "auto")
        and precision in (of, "auto")
        and not (on_gpu and by != "torch")
        and not (backend == "auto" and by == "openvino" and not is_installed("openvino"))
        and not (precision == "auto" and not (_is_able(of) and (of != "int8" or calibration is not None)))
    ]
    if not candidates:
        able = " or ".join(f"backend={by!r}" for by, of in _ORDER if of == precision)
        raise ModelError(
            f"backend={backend!r} does not compute in {precision} here; choose {able} "
            f"({pip_line('openvino')}), or precision='auto'"
        )
    *others, last = candidates
    for by, of in others:
        try:
            found = _made(weights, by, of, calibration, place)
        except SurpriseRerankError as error:
            logger.warning("%s in %s is not taken: %s", by, of, error)
            continue
        if not isinstance(found, ExportedEncoder) or found.settings.agreement >= LEAST_AGREEMENT:
            return found
        logger.warning(
            "%s in %s is not taken: its vectors of the sample have a mean cosine of %.4f with float32's, "
            "less than %s",
            *(by, of, found.settings.agreement, LEAST_AGREEMENT),
        )
    return _made(weights, *last, calibration, place)


def _made(
    weights: Weights, backend: Backend, precision: Precision, texts: Sequence[str] | None, place: Path
) -> Encoder:
    if backend == "torch":
        return weights.load(precision)
    require_processor(precision)
    if precision == "int8":
        return _quantised(weights, texts, place)
    return _exported(weights, precision, place)


def _exported(weights: Weights, precision: Precision, place: Path) -> ExportedEncoder:
    folder = place / "openvino-float32"
    found = _opened(folder, weights.name, precision)
    if found is None:
        from surprise_rerank.encoders.backends.exporting import export  # torch comes with it

        export(weights.load("float32"), folder)
        found = ExportedEncoder(folder, weights.name, precision)
    return found


def _quantised(weights: Weights, texts: Sequence[str] | None, place: Path) -> ExportedEncoder:
    if texts is None:
        made = sorted(place.glob(f"openvino-int8-*/{MARKER}"), key=os.path.getmtime, reverse=True)
        for marker in made:
            found = _opened(marker.parent, weights.name, "int8")
            if found is not None:
                return found
        raise ModelError(
            f"int8 weights of {weights.name!r} are calibrated on texts: give some of those that will be "
            "encoded, load_encoder(..., precision='int8', calibration=texts)"
        )
    digest = hashlib.sha256("\0".join(texts).encode(errors="replace")).hexdigest()[:16]
    folder = place / f"openvino-int8-{digest}"
    found = _opened(folder, weights.name, "int8")
    if found is None:
        from surprise_rerank.encoders.backends.exporting import quantise

        quantise(_exported(weights, "float32", place), texts, folder)
        found = ExportedEncoder(folder, weights.name)
    return found


def _opened(folder: Path, name: str, precision: Precision) -> ExportedEncoder | None:
    """An exported model; None where there is none, or a damaged one, which is then made again."""
    if not folder.exists():
        return None
    try:
        return ExportedEncoder(folder, name, precision)
    except StoreError as error:
        logger.warning("%s; it is exported again", error)
        return None


def _is_able(precision: Precision) -> bool:
    try:
        require_processor(precision)
    except ModelError:
        return False
    return True


def _is_gpu(device: str | None) -> bool:
    """Whether torch would compute elsewhere than on the processor."""
    if device is not None:
        return not device.startswith("cpu")
    # torch takes seconds to import, and where Linux has no such device it finds none either.
    if sys.platform == "linux" and not any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg"))):
        return False
    import torch

    return torch.accelerator.is_available()
