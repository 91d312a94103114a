"""The errors that users see. Each message has what was given, what was expected and what to do."""

import difflib
from collections.abc import Iterable, Sequence
from typing import Self

_LISTED = 12  # names that an error shows


class SurpriseRerankError(Exception):
    """Base of every error that the caller can correct; the command line exits with code 2."""


class DataError(SurpriseRerankError, ValueError):
    """Data that cannot be used: names the file and line, or the array's shape."""


class EmptySourceError(DataError):
    """A source without documents, which would replace all that is stored."""


class NotStoredError(DataError):
    """Ids of documents that are not stored."""


class NoBackgroundError(DataError):
    """A threshold, or a chance of relevance, without a background that gives it a meaning."""


class DatasetError(SurpriseRerankError):
    """A data set that does not exist, cannot be downloaded, or lacks a part that is needed."""


class ModelError(SurpriseRerankError):
    """An encoder that cannot be loaded, or whose weights are not the published ones."""


class StoreError(SurpriseRerankError):
    """A vector store that cannot be opened, reached, read or written."""


class NoIndexError(StoreError):
    """An index that does not exist and was not to be created."""


class IndexingError(StoreError):
    """Documents that could not be stored; `missing` has the ids of all that may be missing."""

    def __init__(self, message: str, missing: Sequence[str]) -> None:
        super().__init__(message)
        self.missing = tuple(missing)

    def __reduce__(self) -> tuple[type[Self], tuple[str, tuple[str, ...]]]:
        return type(self), (str(self), self.missing)  # queues and pools of processes send errors, too


class IndexMismatchError(StoreError):
    """An index that was made by another model, dimension or schema than the one asked for."""


class UnreadableIndexError(IndexMismatchError):
    """A damaged index, or one of another schema, which `DocumentIndex.renew` replaces; `model` made it."""

    def __init__(self, message: str, model: str = "") -> None:
        super().__init__(message)
        self.model = model


# What to do then.
MADE_ANEW = (
    "make it anew of its documents (surprise-rerank index SOURCE --rebuild, or DocumentIndex.renew), or "
    "delete it and index again"
)
# The same for one of another schema, which the version that made it can still read.
TAKEN_ALONG = (
    "without encoding, let the version that made it copy it to a file (index --copy-of INDEX --index "
    "FILE.vectors), and this one read that (index --copy-of FILE.vectors --index INDEX --rebuild)"
)


class ForeignCollectionError(IndexMismatchError):
    """A collection of another program where an index was expected; `Collection.attach` opens it."""


class MissingExtraError(SurpriseRerankError, ImportError):
    """An optional dependency that is not installed; the message holds the pip line that installs it."""


def refuse_unknown(names: Iterable[str], choices: Iterable[str], of: str) -> None:
    """Raise a DataError for the first name that is no setting; `of` is whose settings they are."""
    listed = sorted(choices)
    for name in names:
        if name not in listed:
            hint = did_you_mean(name, listed)
            raise DataError(f"{of} has no setting {name!r}; {hint}there are: {', '.join(listed)}")


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return a question with the nearest known name and a space after it, or "" where none is near.

    >>> did_you_mean("dynmax", ["cosine", "dynamax"])
    "did you mean 'dynamax'? "
    """
    near = difflib.get_close_matches(name, list(candidates), n=1)
    return f"did you mean {near[0]!r}? " if near else ""


def near_or_all(name: str, candidates: Iterable[str]) -> str:
    """Return a hint with the nearest name, and the list of all names where it is short.

    >>> near_or_all("dynmax", ["cosine", "dynamax"])
    "did you mean 'dynamax'? there are: cosine, dynamax"
    >>> near_or_all("system-4x", [f"system-{number}" for number in range(40)])
    "did you mean 'system-4'?"
    """
    names = list(candidates)
    hint = did_you_mean(name, names)
    if len(names) <= _LISTED:
        return f"{hint}there are: {', '.join(names) or 'none'}"
    return hint.rstrip() or f"there are {len(names)}, such as {', '.join(names[:_LISTED])}"
