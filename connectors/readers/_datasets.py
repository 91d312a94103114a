"""Where documents, questions and judgements come from: BEIR folders, ir_datasets, and the built-in demo."""

from __future__ import annotations

import difflib
import logging
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from surprise_rerank._documents import Document, encodable
from surprise_rerank._errors import DatasetError
from surprise_rerank.connectors.readers._beir import DEFAULT_SPLIT, BeirFolder, chosen_split
from surprise_rerank.connectors.readers._demo import DEMO, DemoDocumentation

_CATALOGUE = "https://ir-datasets.com"
_SHOWN, _LONGEST = 12, 160  # ids that an error lists; characters of a library's message


def open_source(spec: str, split: str | None = None) -> Source:
    """Find a data set by its name: `demo`, the path of a BEIR folder, or an id such as `beir/scifact`.

    An existing folder is preferred to an id of the same name, and `./demo` is a folder where `demo` is not.
    The split is the one to judge by; None means the one that the id names, else `test`.
    """
    if not spec.strip():
        raise DatasetError(f"no data set was named: give {DEMO!r}, a BEIR folder, or an id from {_CATALOGUE}")
    if spec == DEMO:
        return DemoDocumentation().at(split or DEFAULT_SPLIT)
    path = Path(spec).expanduser()
    return BeirFolder(path, split) if path.is_dir() or is_path(spec) else IrDataset.find(spec, split)


def is_path(spec: str) -> bool:
    """Whether a name is spelt as that of a file or folder, and not as an id of ir_datasets."""
    return spec.startswith((".", "/", "~")) or spec.endswith("/") or "\\" in spec


@dataclass(frozen=True)
class IrDataset:
    """A data set of the ir_datasets catalogue, a `Source`, downloaded when it is first read."""

    name: str  # the id of the documents: `beir/scifact` for `beir/scifact/train`
    named_split: str | None = None  # to judge by; None means `test`

    @classmethod
    def find(cls, dataset_id: str, split: str | None = None) -> IrDataset:
        """Look an id up in the catalogue, which comes with ir_datasets and needs no network."""
        with _reading(dataset_id):
            every_id = list(_catalogue().registry)
            dataset = _lookup(dataset_id)
        if dataset is None or not dataset.has_docs():
            family = [name for name in every_id if name.startswith(f"{dataset_id}/")][:_SHOWN]
            close = family or difflib.get_close_matches(dataset_id, every_id, n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else f"the ids are listed at {_CATALOGUE}"
            raise DatasetError(
                f"{dataset_id!r} is no file, no folder, and no id of ir_datasets with documents; {hint}"
            )
        with _reading(dataset_id):
            name = str(_catalogue().docs_parent_id(dataset_id))
        split_of_id = dataset_id.removeprefix(name).removeprefix("/") or split
        if split not in (None, split_of_id):
            raise DatasetError(
                f"{dataset_id!r} names the split {split_of_id!r}, but {split!r} was asked for; leave one out"
            )
        return cls(name, split_of_id)

    @property
    def split(self) -> str:
        """The split that is judged by; `test` for a data set with one unnamed set of judgements."""
        return self.named_split or DEFAULT_SPLIT

    def splits(self) -> tuple[str, ...]:
        """The splits of these documents that have judgements, in alphabetical order."""
        with _reading(self.name):
            names = sorted(name for name in _catalogue().registry if f"{name}/".startswith(f"{self.name}/"))
            judged = [name.removeprefix(self.name).removeprefix("/") for name in names if self._judges(name)]
        return tuple(split or DEFAULT_SPLIT for split in judged)

    def at(self, split: str) -> IrDataset:
        """The same documents with the questions of another split."""
        return IrDataset(self.name, split)

    def documents(self) -> Iterator[Document]:
        """The corpus, in the catalogue's order."""
        return map(_document, self._read(self.name, "docs_iter"))

    def count(self) -> int | None:
        """How many documents the catalogue says that there are."""
        with _reading(self.name):
            described = _lookup(self.name).metadata()
        number = described.get("docs", {}).get("count") if isinstance(described, dict) else None
        return number if isinstance(number, int) else None

    def queries(self) -> dict[str, str]:
        """The split's questions, id -> text."""
        read = self._read(self._judged_id, "queries_iter")
        return {encodable(query.query_id): encodable(_text(query)) for query in read}

    def qrels(self) -> dict[str, dict[str, int]]:
        """The split's judgements; of several for one pair (by sub-topic, say) the highest counts."""
        qrels: dict[str, dict[str, int]] = {}
        for row in self._read(self._judged_id, "qrels_iter"):
            judged = qrels.setdefault(encodable(row.query_id), {})
            document = encodable(row.doc_id)
            judged[document] = max(int(row.relevance), judged.get(document, int(row.relevance)))
        return qrels

    @cached_property
    def _judged_id(self) -> str:
        """The id whose questions and judgements are meant."""
        named, unnamed = f"{self.name}/{self.split}", [self.name] if self.split == DEFAULT_SPLIT else []
        candidates = [*unnamed, named] if self.named_split is None else [named, *unnamed]
        with _reading(self.name):
            ids = [name for name in candidates if self._judges(name)]
        return ids[0] if ids else chosen_split(self.name, self.split, self.splits(), "nor has any other part")

    def _judges(self, dataset_id: str) -> bool:
        """Whether an id exists, has judgements, and they are about these documents."""
        dataset = _lookup(dataset_id)
        return bool(dataset and dataset.has_qrels() and _catalogue().docs_parent_id(dataset_id) == self.name)

    def _read(self, dataset_id: str, part: str) -> Iterator[Any]:
        with _reading(dataset_id):
            rows = iter(getattr(_lookup(dataset_id), part)())
        # Each step is guarded by itself, so that the logger is silent only while ir_datasets runs.
        while True:
            with _reading(dataset_id):
                row = next(rows, None)
            if row is None:
                return
            yield row


@contextmanager
def _reading(dataset_id: str) -> Iterator[None]:
    """Silence the log of ir_datasets, but not its progress bars, and turn its errors into one line."""
    logger = logging.getLogger("ir_datasets")
    was_disabled = logger.disabled
    # Its level would be set again by ir_datasets' first message.
    logger.disabled = True
    try:
        yield
    except (ImportError, OSError, RuntimeError, EOFError) as error:
        problem = "is not on this machine and could not be downloaded; check the network, or let"
        problem += " IR_DATASETS_HOME name a folder with a copy"
        # A RuntimeError holds all the mirrors' errors after its message.
        reason = error.args[0] if isinstance(error, RuntimeError) and error.args else error
        if isinstance(error, FileNotFoundError):
            problem = f"needs {error.filename or error}, which is missing and cannot be downloaded"
            reason = f"{_CATALOGUE}/{dataset_id.partition('/')[0]}.html describes how to get it"
        elif isinstance(error, ImportError):
            problem = "cannot be read"
        shown = textwrap.shorten(f"{type(error).__name__}: {reason}", _LONGEST, placeholder="...")
        raise DatasetError(f"{dataset_id!r} {problem} ({shown})") from error
    finally:
        logger.disabled = was_disabled


def _catalogue() -> Any:
    import ir_datasets

    return ir_datasets


def _lookup(dataset_id: str) -> Any:
    """The catalogue's entry, or None; `in` would miss the ids that it makes up from patterns."""
    try:
        return _catalogue().registry[dataset_id]
    except KeyError:
        return None


def _document(row: Any) -> Document:
    title = getattr(row, "title", None) or ""
    text = _text(row)
    if not hasattr(row, "text"):
        text = text.removeprefix(title).lstrip()
    return Document(id=row.doc_id, text=text, title=title)


def _text(row: Any) -> str:
    """The field `text`, or else what ir_datasets takes for the text, or else every word that there is."""
    if getattr(row, "text", None) is not None:
        return str(row.text)
    if hasattr(row, "default_text"):
        return str(row.default_text())
    return " ".join(value for value in row[1:] if isinstance(value, str))


# Documents with, where there are some, judged questions, all read when asked for.
Source: TypeAlias = BeirFolder | IrDataset | DemoDocumentation
