"""Optional dependencies: one place that imports them, one message when they are missing."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from surprise_rerank._errors import MissingExtraError, ModelError


def is_installed(module: str) -> bool:
    """Whether a top-level module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def pip_line(extra: str) -> str:
    """The command that installs an extra of this package."""
    return f"pip install 'surprise-rerank[{extra}]'"


@contextmanager
def importing(extra: str) -> Iterator[None]:
    """Import modules of an extra in the block; a MissingExtraError with the pip line if one is missing."""
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(f"{error.name} is not installed: run {pip_line(extra)}") from error


def require_extra(module: str, extra: str) -> None:
    """Raise a MissingExtraError with the pip line if a module of an extra of this package is missing."""
    top_level = module.partition(".")[0]
    if not is_installed(top_level):
        raise MissingExtraError(f"{top_level} is not installed: run {pip_line(extra)}")


def import_extra(module: str, extra: str) -> ModuleType:
    """Import a module of an extra of this package; a MissingExtraError with the pip line if it is missing."""
    require_extra(module, extra)
    return importlib.import_module(module)


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
