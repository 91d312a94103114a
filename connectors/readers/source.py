"""A stream of documents that can be read again, and a count of what was omitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, DatasetError

OnError: TypeAlias = Literal["raise", "skip"]

EXTRA = "files"  # the extra that the readers of files are in

_PLACES = 5


class RefusedError(Exception):
    """One row or file that is no document; a reader adds its place.

    Attributes:
        reason: a few words, by which it is counted.
        detail: the sentence that is shown where it is an error.
        unreadable: whether the operating system did not let it be read.
    """

    def __init__(self, reason: str, detail: str | None = None, *, unreadable: bool = False) -> None:
        super().__init__(detail or reason)
        self.unreadable = unreadable
        self.reason = reason
        self.detail = detail or reason


class Skipped:
    """What one pass over a source left out: how many by reason, and where the first of them are.

    Attributes:
        counts: reason -> number of rows or files, in the order in which the reasons occurred.
        places: reason -> the first five places, such as `corpus.jsonl:17` or `letters/a.pdf`.
        unreadable: places that the operating system did not let it read: their documents may still be there.
    """

    def __init__(self) -> None:
        self.unreadable: list[str] = []
        self.counts: dict[str, int] = {}
        self.places: dict[str, list[str]] = {}

    @property
    def total(self) -> int:
        """Number of rows or files that were left out."""
        return sum(self.counts.values())

    def add(self, place: str, reason: str, *, unreadable: bool = False) -> None:
        """Count one."""
        if unreadable:
            self.unreadable.append(f"{place} ({reason})")
        self.counts[reason] = self.counts.get(reason, 0) + 1
        places = self.places.setdefault(reason, [])
        if len(places) < _PLACES:
            places.append(place)

    def lines(self) -> list[str]:
        """The first places of every reason: `letters/a.pdf: encrypted`."""
        return [f"{place}: {reason}" for reason, places in self.places.items() for place in places]

    def __str__(self) -> str:
        reasons = (
            f"{count} {reason} ({', '.join(self.places[reason])}{', ...' if count > _PLACES else ''})"
            for reason, count in self.counts.items()
        )
        return f"{self.total} skipped: {'; '.join(reasons)}" if self.counts else "nothing skipped"


class Refusals:
    """What a pass does with a malformed row: an error, or one more in the account.

    Attributes:
        skipped: the account.
    """

    def __init__(self, skipped: Skipped, on_error: OnError) -> None:
        self.skipped = skipped
        self._on_error = on_error

    def refuse(self, where: str, refused: RefusedError) -> None:
        """Leave a row out.

        Raises:
            DataError: if malformed rows are errors.
        """
        if self._on_error == "raise":
            raise DataError(f"{where}: {refused.detail}") from refused
        self.skipped.add(where, refused.reason, unreadable=refused.unreadable)


class DocumentSource:
    """Documents in a fixed order, read anew by every iteration and never held together in memory.

    >>> source = DocumentSource("pets", lambda refusals: iter([Document("1", "Dogs bark.")]))
    >>> [document.text for document in source], [document.id for document in source], str(source.skipped)
    (['Dogs bark.'], ['1'], 'nothing skipped')

    Attributes:
        name: the source's own name, without its folder.
        skipped: the account of the iteration that began last; complete when that one is.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[Refusals], Iterator[Document]],
        *,
        on_error: OnError = "raise",
        may_be_empty: bool = True,
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise DataError(f"on_error must be 'raise' or 'skip', got {on_error!r}")
        self.name = name
        self.skipped = Skipped()
        self._read = read
        self._on_error = on_error
        self._may_be_empty = may_be_empty

    def __iter__(self) -> Iterator[Document]:
        """The documents.

        Raises:
            DataError: if a row is no document (unless such rows are skipped), or the fields cannot be found.
            DatasetError: if something cannot be read, or holds no documents: an index that is brought up to
                date with nothing would be emptied.
            StoreError: if a collection cannot be read.
            MissingExtraError: if a reader is not installed.
        """
        self.skipped = skipped = Skipped()
        empty = True
        for document in self._read(Refusals(skipped, self._on_error)):
            empty = False
            yield document
        if empty and not self._may_be_empty:
            raise DatasetError(f"{self.name} holds no documents ({skipped})")

    @property
    def unreadable(self) -> list[str]:
        """Places that the operating system did not let the last iteration read; nothing is pruned then."""
        return self.skipped.unreadable

    def __repr__(self) -> str:
        return f"DocumentSource({self.name!r})"
