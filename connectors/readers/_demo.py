"""The built-in data set: which of the functions and classes of NumPy and SciPy does this line describe?

A question is the summary line of a docstring; its one relevant document is the rest of that docstring,
without the object's name. It needs no download, every installation of this package has it, and it
changes with the installed versions of the two libraries, so figures on it compare only within one
environment.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from surprise_rerank._documents import Document
from surprise_rerank._errors import DatasetError
from surprise_rerank.connectors.readers._beir import chosen_split

DEMO = "demo"
_SPLITS = ("test", "train")
MIN_WORDS = 20

# The public modules, but for those that are deprecated (`scipy.odr`) or that repeat another one's functions
# for old code (`numpy.char`, `scipy.fftpack`) or for another kind of array (`numpy.ma`, `scipy.stats.mstats`,
# `numpy.lib.scimath`): a question that describes `numpy.median` describes `numpy.ma.median` as well.
MODULES = (
    *("numpy", "numpy.ctypeslib", "numpy.dtypes", "numpy.exceptions", "numpy.fft", "numpy.lib"),
    *("numpy.lib.array_utils", "numpy.lib.format", "numpy.lib.introspect", "numpy.lib.mixins"),
    *("numpy.lib.npyio", "numpy.lib.stride_tricks", "numpy.linalg", "numpy.polynomial"),
    *("numpy.polynomial.chebyshev", "numpy.polynomial.hermite", "numpy.polynomial.hermite_e"),
    *("numpy.polynomial.laguerre", "numpy.polynomial.legendre", "numpy.polynomial.polynomial"),
    *("numpy.random", "numpy.rec", "numpy.strings", "numpy.testing"),
    *("scipy", "scipy.cluster.hierarchy", "scipy.cluster.vq", "scipy.constants", "scipy.datasets"),
    *("scipy.differentiate", "scipy.fft", "scipy.integrate", "scipy.interpolate", "scipy.io"),
    *("scipy.io.arff", "scipy.io.matlab", "scipy.io.wavfile", "scipy.linalg", "scipy.linalg.interpolative"),
    *("scipy.ndimage", "scipy.optimize", "scipy.optimize.elementwise", "scipy.signal"),
    *("scipy.signal.windows", "scipy.sparse", "scipy.sparse.csgraph", "scipy.sparse.linalg"),
    *("scipy.spatial", "scipy.spatial.distance", "scipy.spatial.transform", "scipy.special"),
    *("scipy.stats", "scipy.stats.contingency", "scipy.stats.qmc", "scipy.stats.sampling"),
)

_PARAGRAPH_END = re.compile(r"\n[ \t]*\n")
_SECTION = re.compile(r"^[A-Z][\w ]*\n-{3,}[ \t]*$", re.MULTILINE)
# SciPy writes the docstrings of its new distributions at import, with samples drawn by chance.
_BY_CHANCE = re.compile(r"^.*# may vary.*\n?", re.MULTILINE)
_DEPRECATED = re.compile(r"\.\. deprecated::|\bis deprecated\b")


class Entry(NamedTuple):
    """What the demo makes of one function or class."""

    id: str  # its public dotted name, such as `scipy.stats.trim_mean`
    question: str  # the summary line of its docstring
    text: str  # the rest, without its name


@dataclass(frozen=True)
class DemoDocumentation:
    """The demo as a `Source` of documents, questions and judgements."""

    split: str = "test"  # a fifth of the questions, or `train`, the others; the documents are the same

    name = DEMO

    def __post_init__(self) -> None:
        chosen_split(DEMO, self.split, _SPLITS, "")

    def splits(self) -> tuple[str, ...]:
        """Both splits."""
        return _SPLITS

    def at(self, split: str) -> DemoDocumentation:
        """The same documents with the questions of a split."""
        return DemoDocumentation(split)

    def documents(self) -> Iterator[Document]:
        """The documents, sorted by id."""
        return (Document(id=entry.id, text=entry.text) for entry in self.entries)

    def count(self) -> int:
        """How many documents there are."""
        return len(self.entries)

    def queries(self) -> dict[str, str]:
        """The questions, id -> text; never the id of a document, which some evaluations would leave out."""
        return {name: entry.question for name, entry in self._of_split().items()}

    def qrels(self) -> dict[str, dict[str, int]]:
        """One relevant document for each question."""
        return {name: {entry.id: 1} for name, entry in self._of_split().items()}

    def _of_split(self) -> dict[str, Entry]:
        """The entries whose questions are in the split, by a name of each question.

        A hash of the object's name decides, so that a new version of a library moves none to the other side.
        """
        in_test = {entry: hashlib.sha256(entry.id.encode()).digest()[0] % 5 == 0 for entry in self.entries}
        return {f"{e.id}#summary": e for e in self.entries if in_test[e] == (self.split == "test")}

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """All usable docstrings of the installed libraries, sorted by id."""
        if sys.flags.optimize >= 2:
            raise DatasetError(f"{DEMO!r} is made of docstrings, and python -OO drops them; run without -OO")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return tuple(distinct(_entries(_exports(MODULES))))


def _exports(modules: Iterable[str]) -> Iterator[tuple[object, list[str]]]:
    """Every public function and class once, with all dotted names that it can be reached by."""
    objects: dict[int, object] = {}
    names: dict[int, list[str]] = defaultdict(list)
    for module_name in modules:
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", dir(module)):
            member = getattr(module, name, None)
            if not name.startswith("_") and _is_documented(member):
                objects[id(member)] = member
                names[id(member)].append(f"{module_name}.{name}")
    return ((objects[key], names[key]) for key in objects)


def _is_documented(member: object) -> bool:
    """Whether it is a function or class with a docstring: no instance, nothing of another library."""
    # What is written in C often has no module, or that of the builtins.
    home = getattr(member, "__module__", None) or "builtins"
    return (
        callable(member)
        and isinstance(getattr(member, "__name__", None), str)
        and isinstance(member.__doc__, str)
        and home.partition(".")[0] in ("builtins", "numpy", "scipy")
    )


def _entries(exports: Iterable[tuple[object, list[str]]]) -> Iterator[Entry]:
    for member, names in exports:
        own_name = str(getattr(member, "__name__", ""))
        # `numpy.absolute` before its alias `numpy.abs`, and the shortest path before longer ones.
        public = min(names, key=lambda name: (name.rpartition(".")[2] != own_name, name.count("."), name))
        bare_names = {name.rpartition(".")[2] for name in names} | {own_name}
        question, text = split_docstring(str(member.__doc__), bare_names)
        if question and len(text.split()) >= MIN_WORDS:
            yield Entry(public, question, text)


def split_docstring(docstring: str, names: Iterable[str]) -> tuple[str, str]:
    """Part a docstring in the NumPy style into its summary line and the rest.

    A signature on top belongs to neither. The rest is without the object's bare names, whatever dotted prefix
    they have, which would give it away, and without lines that say that they may vary. Both are empty where
    the object is deprecated or has no summary.
    """
    alternatives = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    call = rf"(?:[\w, ]+ = )?(?:\w+\.)*(?:{alternatives})\(.*"
    signature = re.compile(rf"{call}(?:\)|->.*)(?:\s+--)?", re.DOTALL)
    paragraphs = _PARAGRAPH_END.split(inspect.cleandoc(docstring))
    while paragraphs and signature.fullmatch(paragraphs[0].strip()):
        del paragraphs[0]
    if not paragraphs:
        return "", ""
    summary = " ".join(paragraphs[0].split())
    text = "\n\n".join(paragraphs[1:])
    if _DEPRECATED.search(summary) or _DEPRECATED.search(_SECTION.split(text)[0]):
        return "", ""
    text = _BY_CHANCE.sub("", text)
    return summary, re.sub(rf"(?<!\w)(?:\w+\.)*(?:{alternatives})(?!\w)", "", text).strip()


def distinct(entries: Iterable[Entry]) -> list[Entry]:
    """The entries whose text is unique and whose question has one answer, sorted by id.

    Of objects with one text between them the one with the shortest path stays; a summary that several texts
    share is ambiguous, and all of these go.
    """
    first_with: dict[str, Entry] = {}
    for entry in sorted(entries, key=lambda entry: (entry.id.count("."), entry.id)):
        first_with.setdefault(" ".join(entry.text.split()), entry)
    unique = first_with.values()
    times = Counter(entry.question for entry in unique)
    return sorted((entry for entry in unique if times[entry.question] == 1), key=lambda entry: entry.id)
