"""A stream of documents that can be read again, and a count of what was omitted."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from surprise_rerank.connectors.datasets.lines import RefusedError
from surprise_rerank.connectors.progress import Expected
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, DatasetError, SurpriseRerankError

OnError: TypeAlias = Literal["raise", "skip"]

_PLACES = 5


class Skipped:
    """What one pass over a source left out: how many by reason, and where the first of them are.

    Attributes:
        counts: reason -> number of rows or files, in the order in which the reasons occurred.
        places: reason -> the first five places, such as `corpus.jsonl:17` or `letters/a.pdf`.
        unreadable: places whose documents may still be there: no permission, no time.
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
    """What a pass does with a malformed row: an error, or one more in the account `skipped`."""

    def __init__(self, skipped: Skipped, on_error: OnError) -> None:
        self.skipped = skipped
        self._on_error = on_error

    def refuse(self, where: str, refused: RefusedError) -> None:
        """Leave a row out."""
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
        count: how many documents it has, as far as that can be told without reading them.
        origin: is noted on every document, so that what has gone from this source can be told.

    Attributes:
        skipped: the account of the iteration that began last; complete when that one is.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[Refusals], Iterator[Document]],
        *,
        on_error: OnError = "raise",
        may_be_empty: bool = True,
        count: Callable[[], Expected | None] = lambda: None,
        origin: str = "",
    ) -> None:
        if on_error not in ("raise", "skip"):
            raise DataError(f"on_error must be 'raise' or 'skip', got {on_error!r}")
        self.name, self.origin = name, origin
        self.skipped = Skipped()
        self._read, self._count = read, count
        self._on_error: OnError = on_error
        self._may_be_empty = may_be_empty
        self._expected: list[Expected | None] = []  # of one, when it is known

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
        given = 0
        for document in self._read(Refusals(skipped, self._on_error)):
            given += 1
            yield replace(document, source=self.origin) if self.origin else document
        self._expected = [Expected(given)]
        if not given and not self._may_be_empty:
            raise DatasetError(f"{self.name} holds no documents ({skipped})")

    def expected(self) -> Expected | None:
        """How many documents an iteration gives; None while that cannot be told."""
        if not self._expected:
            try:
                self._expected = [self._count()]
            except (OSError, SurpriseRerankError):
                self._expected = [None]  # who reads it is told
        return self._expected[0]

    @property
    def unreadable(self) -> list[str]:
        """Places that the last iteration could not read; nothing is pruned then."""
        return self.skipped.unreadable

    def __repr__(self) -> str:
        return f"DocumentSource({self.name!r})"


def expected_of(sources: Iterable[object]) -> Expected | None:
    """How many documents several sources give, one after another; None while that cannot be told."""
    found = [source.expected() if isinstance(source, DocumentSource) else None for source in sources]
    known = [own for own in found if own is not None]
    if len(known) < len(found):
        return None
    return Expected(sum(own.count for own in known), all(own.exact for own in known))
