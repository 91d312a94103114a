"""The built-in data set made of the documentation of NumPy and SciPy."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import subprocess
import sys

import pytest

from surprise_rerank.connectors.readers.demo import (
    MIN_WORDS,
    DemoDocumentation,
    Entry,
    split_docstring,
)
from surprise_rerank.errors import DatasetError


@pytest.fixture(scope="module")
def entries() -> tuple[Entry, ...]:
    return DemoDocumentation().entries


def resolve(name: str) -> object:
    """The object of a dotted name, by the longest module in it."""
    module, _, attributes = name.rpartition(".")
    return getattr(importlib.import_module(module), attributes)


def test_ids_are_unique_sorted_public_names(entries: tuple[Entry, ...]) -> None:
    names = [entry.id for entry in entries]

    assert names == sorted(set(names))
    assert not any(part.startswith("_") for name in names for part in name.split("."))
    assert {"scipy.stats.trim_mean", "numpy.absolute"} <= set(names)
    # An alias; unittest's; and both of two that read 'Compute the outer product of two vectors.'
    assert not {"numpy.abs", "numpy.testing.TestCase", "numpy.outer", "numpy.linalg.outer"} & set(names)
    assert len({id(resolve(name)) for name in names}) == len(names)


def test_question_and_text_are_what_the_docstring_says(entries: tuple[Entry, ...]) -> None:
    for entry in entries:
        words = str(resolve(entry.id).__doc__).split()
        assert entry.question in " ".join(words)
        # Every word of the text that is left whole by the cutting out of names.
        unknown = set(entry.text.split()) - set(words)
        assert not [word for word in unknown if word.isalpha() and not any(word in w for w in words)], (
            entry.id
        )
        assert entry.id.rpartition(".")[2] not in re.findall(r"\w+", entry.text), entry.id
        assert len(entry.text.split()) >= MIN_WORDS
    assert len({entry.question for entry in entries}) == len(entries)
    assert len({" ".join(entry.text.split()) for entry in entries}) == len(entries)


def test_it_is_a_source_with_one_answer_each(entries: tuple[Entry, ...]) -> None:
    test = DemoDocumentation()
    train = test.at("train")
    documents = list(test.documents())
    queries, qrels = train.queries() | test.queries(), train.qrels() | test.qrels()

    assert [document.id for document in documents] == [entry.id for entry in entries]
    assert list(train.documents()) == documents
    assert queries.keys() == qrels.keys()
    assert sorted(list(judged) for judged in qrels.values()) == [[document.id] for document in documents]
    # A question of the same id would count as the document itself and be left out of its own results.
    assert not queries.keys() & {document.id for document in documents}
    assert len(queries) == len(train.queries()) + len(test.queries())
    assert 0.15 < len(test.queries()) / len(queries) < 0.25
    with pytest.raises(DatasetError, match=r"'demo' has no split 'dev'; there is test, train"):
        test.at("dev")


DIGEST = """
import hashlib
from surprise_rerank.connectors.readers.demo import DemoDocumentation
print(hashlib.sha256(repr(DemoDocumentation().entries).encode()).hexdigest())
"""


def test_another_process_makes_the_same_without_a_warning(entries: tuple[Entry, ...]) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-W", "always", "-c", DIGEST],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == hashlib.sha256(repr(entries).encode()).hexdigest()
    assert done.stderr == ""


def test_python_without_docstrings_is_told_apart() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-OO", "-c", DIGEST], capture_output=True, text=True, check=False
    )

    assert "DatasetError: 'demo' is made of docstrings, and python -OO drops them" in done.stderr


# --- How a docstring is parted ---


@pytest.mark.parametrize(
    "signature",
    [
        "",
        "add(x1, x2, /, out=None)\n\n",
        "add(x1, x2, /, out=None, *,\n    where=True[, signature])\n\n",
        "y = np.add(x1, x2)\n\n",
        "add(x) -> array\n\n",
        "add(x)\n--\n\n",
        "add(x)\n\nadd(x, y)\n\n",
    ],
)
def test_signatures_on_top_are_passed_over(signature: str) -> None:
    docstring = f"{signature}Add arguments\n    element-wise.\n\n    More words."

    assert split_docstring(docstring, ["add"]) == ("Add arguments element-wise.", "More words.")


@pytest.mark.parametrize(
    "docstring",
    [
        "Add.\n\n.. deprecated:: 1.0\n    Use another.\n\nParameters\n----------\nx : int",
        "`add` is deprecated!\n\nUse another.",
        "add(x)",
        "",
    ],
)
def test_what_is_deprecated_or_says_nothing_is_empty(docstring: str) -> None:
    assert split_docstring(docstring, ["add"]) == ("", "")


@pytest.mark.parametrize(
    ("name", "rest", "text"),
    [
        ("draw", ">>> draw(2)\narray([1, 2])  # may vary\n>>> 1 + 1\n2", ">>> (2)\n>>> 1 + 1\n2"),
        (
            "add",
            ">>> np.linalg.add(1)\n>>> add.reduce(x)\n>>> f().add(y)\nadditive address `add`",
            ">>> (1)\n>>> .reduce(x)\n>>> f().(y)\nadditive address ``",
        ),
    ],
)
def test_what_is_drawn_by_chance_and_whole_names_with_their_prefix_are_cut(
    name: str, rest: str, text: str
) -> None:
    assert split_docstring(f"Sum.\n\n{rest}", [name])[1] == text
