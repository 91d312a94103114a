"""The examples in docstrings are true."""

import doctest
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from surprise_rerank import MissingExtraError

ROOT = Path(__file__).resolve().parents[2]


def modules(folder: Path, package: str) -> Iterator[str]:
    """Dotted names of a package's modules, without importing any."""
    yield package
    for module in pkgutil.iter_modules([str(folder)]):
        name = f"{package}.{module.name}"
        if module.ispkg:
            yield from modules(folder / module.name, name)
        else:
            yield name


NAMES = [
    *modules(ROOT / "surprise_rerank", "surprise_rerank"),
    *modules(ROOT / "connectors", "surprise_rerank.connectors"),
    *modules(ROOT / "eval", "surprise_rerank.eval"),
]


@pytest.mark.parametrize("name", NAMES)
def test_examples_in_docstrings_are_true(name):
    try:
        module = importlib.import_module(name)
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    "page", ["scores", "indexing", "encoders", "classification", "thresholds", "adapters", "similar"]
)
def test_examples_in_the_documentation_are_true(page, monkeypatch):
    if page == "thresholds":  # as it is for users
        monkeypatch.setenv("SURPRISE_RERANK_BACKGROUND", "on")
    needs = {"adapters": ["langchain_core", "llama_index", "haystack", "rerankers", "pyterrier"]}
    for host in {**needs, "similar": ["pyarrow"]}.get(page, ()):
        pytest.importorskip(host)
    failed, tried = doctest.testfile(str(ROOT / "docs" / f"{page}.md"), module_relative=False)
    assert failed == 0
    assert tried >= 5
