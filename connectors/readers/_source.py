"""A stream of documents that can be read again, and a count of what was omitted."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple, Self, TypeAlias, get_args

from surprise_rerank import _border as border
from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, DatasetError, SurpriseRerankError

OnError: TypeAlias = Literal["raise", "skip"]

_PLACES = 5
BINARY = "binary"  # why a file is refused that is no text
_WAY_OUT = "mend it, or leave such ones out and have them counted: on_error='skip' (--set on_error=skip)"


class RefusedError(DataError):
    """One row or file that is no document.

    It is counted by its reason, a few words; the detail is the sentence that is shown where it is an error,
    with the place. It cannot be used now and may be a document again: what was stored of it stays. Only of
    what `is_gone`, as it is ignored or of another kind, nothing stays.
    """

    def __init__(
        self, reason: str, detail: str | None = None, *, where: object = "", is_gone: bool = False
    ) -> None:
        self.reason, self.detail, self.is_gone = reason, detail or reason, is_gone
        super().__init__(f"{where}: {self.detail}" if where else self.detail)

    def at(self, where: object) -> Self:
        """The same with the place in its message."""
        return type(self)(self.reason, self.detail, where=where, is_gone=self.is_gone)


class Unusable(NamedTuple):
    """A row, file or folder that could not be used this time: its documents are not taken for gone."""

    place: str  # with the reason
    id: (
        str | None
    )  # of its document, or what comes before the `#` in the ids of several; None: nobody can tell


class Skipped:
    """What one pass over a source left out: how many by reason, and where the first of them are."""

    def __init__(self, on_error: OnError = "skip") -> None:
        self._on_error = on_error
        self.place = ""  # of the document that came last, such as `corpus.jsonl:17`
        self.unusable: list[Unusable] = []
        self.counts: dict[str, int] = {}  # reason -> rows or files, in the order in which reasons occurred
        self.places: dict[str, list[str]] = {}  # reason -> the first five, such as `corpus.jsonl:17`

    @property
    def total(self) -> int:
        """Number of rows or files that were left out."""
        return sum(self.counts.values())

    def add(self, place: str, refused: RefusedError, document_id: str | None = None) -> None:
        """Count one, of which a document of this id may be stored."""
        if not refused.is_gone:
            self.unusable.append(Unusable(f"{place} ({refused.reason})", document_id))
        self.counts[refused.reason] = self.counts.get(refused.reason, 0) + 1
        places = self.places.setdefault(refused.reason, [])
        if len(places) < _PLACES:
            places.append(place)

    def refuse(self, where: str, refused: RefusedError, document_id: str | None = None) -> None:
        """Leave a malformed row out; a DataError if such rows are errors."""
        if self._on_error == "raise":
            raise DataError(f"{where}: {refused.detail}; {_WAY_OUT}") from refused
        self.add(where, refused, document_id)

    def __str__(self) -> str:
        reasons = (
            f"{count} {reason} ({', '.join(self.places[reason])}{', ...' if count > _PLACES else ''})"
            for reason, count in self.counts.items()
        )
        return f"{self.total} skipped: {'; '.join(reasons)}" if self.counts else "nothing skipped"


class DocumentSource:
    """Documents in a fixed order, read anew by every iteration and never held together in memory.

    A DataError if a row is no document and such rows are errors; a DatasetError if something cannot be read.

    >>> source = DocumentSource("pets", lambda skipped: iter([Document("1", "Dogs bark.")]))
    >>> [document.text for document in source], [document.id for document in source], str(source.skipped)
    (['Dogs bark.'], ['1'], 'nothing skipped')
    """

    def __init__(
        self,
        name: str,  # without its folder
        read: Callable[
            [Skipped], Iterator[Document]
        ],  # from the beginning, and accounts for what it leaves out
        *,
        on_error: OnError = "raise",  # what happens to a malformed row
        may_be_empty: bool = True,
        count: Callable[[], int | None] = lambda: None,  # about how many, as far as that can be told without
        origin: str = "",  # is noted on every document, so that what has gone from this source can be told
    ) -> None:
        border.choice("on_error", on_error, get_args(OnError))
        self.name, self.origin, self.id_prefix = name, origin, ""
        self.skipped = Skipped(on_error)  # of the iteration that began last; complete when that one is
        self._read, self._count = read, count
        self._on_error: OnError = on_error
        self._may_be_empty = may_be_empty

    def __iter__(self) -> Generator[Document, None, None]:
        # An index that is brought up to date with nothing would be emptied.
        self.skipped = skipped = Skipped(self._on_error)
        empty = True
        for document in self._read(skipped):
            empty = False
            yield replace(document, id=self.id_prefix + document.id, source=self.origin or document.source)
        if empty and not self._may_be_empty:
            raise DatasetError(f"{self.name} holds no documents ({skipped})")

    def with_prefix(self, prefix: str) -> DocumentSource:
        """Return the same documents with this before every id, where another source has the same ids."""
        prefixed = copy.copy(self)
        prefixed.id_prefix = prefix
        return prefixed

    def places(self, document_id: str) -> list[str]:
        """Where the first two documents of an id are, for a message; all are read again."""
        skipped, places = Skipped("skip"), list[str]()
        for document in self._read(skipped):
            if self.id_prefix + document.id == document_id:
                places.append(skipped.place)
                if len(places) == 2:
                    break
        return places

    def expected(self) -> int | None:
        """About how many documents an iteration gives; None while that cannot be told."""
        try:
            return self._count()
        except (OSError, SurpriseRerankError):
            return None  # who reads it is told

    @property
    def unusable(self) -> list[Unusable]:
        """What the last iteration could not use; its documents are not pruned."""
        places = self.skipped.unusable
        return [one if one.id is None else one._replace(id=self.id_prefix + one.id) for one in places]

    def __repr__(self) -> str:
        return f"DocumentSource({self.name!r})"
