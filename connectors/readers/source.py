"""A stream of documents that can be read again, and a count of what was omitted."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import IO, Literal, TypeAlias

from surprise_rerank.connectors.progress import Expected
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, DatasetError, SurpriseRerankError

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


class Place:
    """How far one pass over a source has come: the bytes of its files that were read."""

    def __init__(self) -> None:
        self._before = 0  # in files that were read to their end
        self._file: IO[bytes] | None = None
        self._size = 0  # of that file

    @contextlib.contextmanager
    def within(self, file: IO[bytes]) -> Iterator[None]:
        """A file is read in this block, compressed or not."""
        self._file, self._size = file, os.fstat(file.fileno()).st_size
        try:
            yield
        finally:
            self._before, self._file = self.bytes, None

    @property
    def bytes(self) -> int:
        """Bytes so far."""
        file = self._file
        try:
            return self._before + (0 if file is None else file.tell())
        except ValueError:  # it was read, and is closed
            return self._before + self._size


class Refusals:
    """What a pass does with a malformed row: an error, or one more in the account.

    Attributes:
        skipped: the account.
        place: how far it has come, where files are read.
    """

    def __init__(self, skipped: Skipped, on_error: OnError) -> None:
        self.skipped = skipped
        self.place = Place()
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

    Args:
        name: the source's own name, without its folder.
        read: reads it from the beginning.
        on_error: what happens to a malformed row.
        may_be_empty: whether it may hold no document.
        count: counts its rows without reading them, where that is possible.
        size: bytes of its files, where the number of rows is judged by what was read of them.

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
        count: Callable[[], int | None] | None = None,
        size: Callable[[], int] | None = None,
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise DataError(f"on_error must be 'raise' or 'skip', got {on_error!r}")
        self.name = name
        self.skipped = Skipped()
        self._read = read
        self._on_error = on_error
        self._may_be_empty = may_be_empty
        self._count, self._size = count, size
        self._known: tuple[int | None, int] | None = None  # rows and bytes
        self._place, self._given, self._ended = Place(), 0, False

    def __iter__(self) -> Generator[Document, None, None]:
        """The documents.

        Raises:
            DataError: if a row is no document (unless such rows are skipped), or the fields cannot be found.
            DatasetError: if something cannot be read, or holds no documents: an index that is brought up to
                date with nothing would be emptied.
            StoreError: if a collection cannot be read.
            MissingExtraError: if a reader is not installed.
        """
        self.skipped = skipped = Skipped()
        refusals = Refusals(skipped, self._on_error)
        self._place, self._given, self._ended = refusals.place, 0, False
        for document in self._read(refusals):
            self._given += 1
            yield document
        self._ended = True
        if not self._given and not self._may_be_empty:
            raise DatasetError(f"{self.name} holds no documents ({skipped})")

    def expected(self, density: float | None = None) -> Expected | None:
        """How many documents the iteration that began last gives in all; None while that cannot be told.

        Args:
            density: documents a byte of other sources, before anything of this one was read.
        """
        if self._ended:
            return Expected(self._given)
        rows, size = self._extent()
        if rows is not None:
            return Expected(rows)
        density = self.density or density
        return Expected(round(density * size), exact=False) if density and size else None

    @property
    def density(self) -> float | None:
        """Documents a byte, in what was read; None where nothing was, or bytes do not count."""
        read = self._place.bytes
        return self._given / read if read and self._given else None

    def _extent(self) -> tuple[int | None, int]:
        """Rows and bytes, as far as they are known."""
        if self._known is None:
            try:
                rows = self._count() if self._count is not None else None
                self._known = rows, self._size() if self._size is not None else 0
            except (OSError, SurpriseRerankError):
                self._known = None, 0  # who reads it is told
        return self._known

    @property
    def unreadable(self) -> list[str]:
        """Places that the operating system did not let the last iteration read; nothing is pruned then."""
        return self.skipped.unreadable

    def __repr__(self) -> str:
        return f"DocumentSource({self.name!r})"


def expected_of(sources: Iterable[object]) -> Expected | None:
    """How many documents several sources give, one after another; None while that cannot be told."""
    count, exact, density = 0, True, None
    for source in sources:
        found = source.expected(density) if isinstance(source, DocumentSource) else None
        if not isinstance(source, DocumentSource) or found is None:
            return None
        count, exact, density = count + found.count, exact and found.exact, source.density or density
    return Expected(count, exact)
