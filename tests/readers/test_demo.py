"""The built-in data set made of the documentation of NumPy and SciPy."""

import hashlib
import importlib
import os
import re
import subprocess
import sys

import pytest

from surprise_rerank import DatasetError
from surprise_rerank.connectors.readers._demo import (
    MIN_WORDS,
    DemoDocumentation,
    Entry,
    split_docstring,
)


@pytest.fixture(scope="module")
def entries() -> tuple[Entry, ...]:
    return DemoDocumentation().entries


def resolve(name: str) -> object:
    """The object of a dotted name, by the longest module in it."""
    module, _, attributes = name.rpartition(".")
    return getattr(importlib.import_module(module), attributes)


def test_a_document_is_a_public_object_and_its_question_what_the_docstring_says(entries):
    names = [entry.id for entry in entries]
    assert names == sorted(set(names))
    assert not any(part.startswith("_") for name in names for part in name.split("."))
    assert {"scipy.stats.trim_mean", "numpy.absolute"} <= set(names)
    # An alias; unittest's; and both of two that read 'Compute the outer product of two vectors.'
    assert not {"numpy.abs", "numpy.testing.TestCase", "numpy.outer", "numpy.linalg.outer"} & set(names)
    assert len({id(resolve(name)) for name in names}) == len(names)
    for entry in entries:
        words = str(resolve(entry.id).__doc__).split()
        assert entry.question in " ".join(words)
        assert entry.id.rpartition(".")[2] not in re.findall(r"\w+", entry.text), entry.id
        assert len(entry.text.split()) >= MIN_WORDS
    assert len({entry.question for entry in entries}) == len(entries)
    assert len({" ".join(entry.text.split()) for entry in entries}) == len(entries)


def test_it_is_a_source_with_one_answer_each(entries):
    test = DemoDocumentation()
    train = test.at("train")
    queries, qrels = train.queries() | test.queries(), train.qrels() | test.qrels()
    names = [document.id for document in test.documents()]
    assert names == [entry.id for entry in entries]
    assert list(train.documents()) == list(test.documents())
    assert queries.keys() == qrels.keys()
    assert sorted(list(judged) for judged in qrels.values()) == [[name] for name in names]
    # A question of the same id would count as the document itself and be left out of its own results.
    assert not queries.keys() & set(names)
    assert len(queries) == len(train.queries()) + len(test.queries())
    assert 0.15 < len(test.queries()) / len(queries) < 0.25
    with pytest.raises(
        DatasetError, match=r"'demo' has no judgements for the split 'dev'; choose one of test, train"
    ):
        test.at("dev")


DIGEST = """
import hashlib
from surprise_rerank.connectors.readers._demo import DemoDocumentation
print(hashlib.sha256(repr(DemoDocumentation().entries).encode()).hexdigest())
"""


def digest(*options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    command = [sys.executable, "-P", *options, "-c", DIGEST]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_another_process_makes_the_same_without_a_warning_or_is_told(entries):
    done = digest("-W", "always")
    assert done.stdout.strip() == hashlib.sha256(repr(entries).encode()).hexdigest()
    assert done.stderr == ""
    assert "DatasetError: 'demo' is made of docstrings, and python -OO drops them" in digest("-OO").stderr


@pytest.mark.parametrize(
    ("name", "docstring", "parts"),
    [
        *(
            (
                "add",
                f"{signature}Add arguments\n    element-wise.\n\n    More.",
                ("Add arguments element-wise.", "More."),
            )
            for signature in (
                "",
                "add(x1, x2, /, out=None, *,\n    where=True[, signature])\n\n",
                "y = np.add(x1, x2)\n\n",
                "add(x) -> array\n\n",
                "add(x)\n--\n\n",
                "add(x)\n\nadd(x, y)\n\n",
            )
        ),
        ("add", "Add.\n\n.. deprecated:: 1.0\n    Use another.\n\nParameters\n----------\nx : int", ("", "")),
        ("add", "`add` is deprecated!\n\nUse another.", ("", "")),
        ("add", "add(x)", ("", "")),
        ("add", "", ("", "")),
        (
            "draw",
            "Sum.\n\n>>> draw(2)\narray([1, 2])  # may vary\n>>> 1 + 1\n2",
            ("Sum.", ">>> (2)\n>>> 1 + 1\n2"),
        ),
        (
            "add",
            "Sum.\n\n>>> np.linalg.add(1)\n>>> add.reduce(x)\nadditive `add`",
            ("Sum.", ">>> (1)\n>>> .reduce(x)\nadditive ``"),
        ),
    ],
)
def test_a_docstring_is_parted_into_its_summary_and_the_rest_without_names(name, docstring, parts):
    assert split_docstring(docstring, [name]) == parts
