"""Models that are installed as packages: their folders, and a check that the files are the published ones."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path

from surprise_rerank.core.extras import pip_line
from surprise_rerank.errors import ModelError


def packaged_folder(module: str, folder: str, published: Mapping[str, str], model: str) -> Path:
    """The folder of a packaged model, after its files were compared with what was published.

    Args:
        module: the package's import name; it is found, never imported.
        folder: inside the package.
        published: file in the folder -> its sha256; a ModelError if it has another, or is missing.
        model: the model's name, for errors.
    """
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ModelError(f"the package {module} is damaged: run {pip_line('offline')} again")
    place = Path(next(iter(spec.submodule_search_locations))) / folder
    for name, expected in published.items():
        path = place / name
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelError(f"cannot read the packaged weights {path}: {error.strerror}") from error
        if digest != expected:
            raise ModelError(
                f"{path} has sha256 {digest}, expected {expected}: not the published weights of {model}; "
                "reinstall the package"
            )
    return place
