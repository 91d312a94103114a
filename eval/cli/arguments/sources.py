"""The documents that a command reads: one source after another, and what was skipped."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from surprise_rerank.core.settings import option
from surprise_rerank.eval.cli import completion

if TYPE_CHECKING:
    from surprise_rerank.connectors.readers import DocumentSource, Fields
    from surprise_rerank.connectors.readers.opening import Format
    from surprise_rerank.documents import Document
else:
    Format = str

_PLACES = 3  # that a reason shows

# As `readers.opening.Format`, which `--help` cannot wait for.
FORMATS = ("jsonl", "csv", "tsv", "tsv-unquoted", "parquet", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceArguments:
    """Which documents are read: files, folders, ids of data sets, and a collection of a Qdrant server."""

    sources: tuple[str, ...] = option((), argument=True, metavar="SOURCE...", kind=completion.source)
    form: Format | None = option(
        None, flag="--format", choices=FORMATS, help="What files are, if their names do not show it."
    )
    id_field: str | None = option(None, metavar="NAME", help="Column of ids; `content` or `row` makes ids.")
    title_field: str | None = option(None, metavar="NAME", help="Column of titles.")
    text_field: str | None = option(
        None, metavar="NAME", help="Column of texts, or several: question,answer."
    )
    on_error: Literal["raise", "skip"] = option("raise", help="What becomes of malformed rows.")
    include: tuple[str, ...] = option((), metavar="GLOB", help="Only these files of a folder. Several times.")
    exclude: tuple[str, ...] = option((), metavar="GLOB", help="Not these files and folders. Several times.")
    max_bytes: int | None = option(None, low=1, metavar="N", help="Skip larger files.  [default: 32 MiB]")
    from_url: str | None = option(None, metavar="URL", help="Read a collection of this Qdrant server, too.")
    from_collection: str | None = option(
        None, metavar="NAME", help="The collection to read; from the index's own server without a url."
    )

    def open(self, index_url: str | None) -> Sources:
        """All sources; nothing of them is read but names.

        Args:
            index_url: the server of the index, where it is on one.

        Raises:
            SurpriseRerankError: if there is no source, or one cannot be opened.
        """
        from surprise_rerank.connectors.readers import FileRules, open_documents

        if self.from_url and not self.from_collection:
            raise click.UsageError("--from-url needs --from-collection NAME")
        if not self.sources and not self.from_collection:
            raise click.UsageError(
                "what is to be indexed? give files, folders, data sets, or --from-url with --from-collection"
            )
        limit = {} if self.max_bytes is None else {"max_bytes": self.max_bytes}
        rules = FileRules(include=self.include, exclude=self.exclude, **limit)
        fields = self._fields()
        opened = [
            open_documents(name, format=self.form, fields=fields, on_error=self.on_error, files=rules)
            for name in self.sources
        ]
        if self.from_collection:
            opened.append(self._collection(self.from_collection, index_url, fields))
        return Sources([*self.sources, self.from_collection or ""], opened)

    def _collection(self, name: str, index_url: str | None, fields: Fields | None) -> DocumentSource:
        from surprise_rerank.connectors.readers import from_collection

        url = self.from_url or index_url
        if url is None:
            raise click.UsageError("--from-collection needs --from-url URL, the server that it is on")
        key = os.environ.get("QDRANT_FROM_API_KEY")  # or QDRANT_API_KEY
        return from_collection(url, name, fields=fields, api_key=key, on_error=self.on_error)

    def _fields(self) -> Fields | None:
        from surprise_rerank.connectors.readers import Fields

        fields = Fields(id=self.id_field, title=self.title_field, text=self.text_field)
        return None if fields == Fields() else fields


class Sources:
    """Documents of several sources, one after another.

    Args:
        names: what the user called them.
        sources: in the same order.

    Attributes:
        named: names and sources.
    """

    def __init__(self, names: Sequence[str], sources: Sequence[DocumentSource]) -> None:
        self.named = list(zip(names, sources, strict=False))

    def __iter__(self) -> Iterator[Document]:
        for _, source in self.named:
            yield from source

    def require_readable(self) -> None:
        """Read the first document of each: what is wrong with all of them is told before anything is made.

        Raises:
            SurpriseRerankError: if a source cannot be read, or its columns cannot be found.
        """
        for _, source in self.named:
            with contextlib.closing(iter(source)) as documents:
                next(documents, None)

    def expected(self) -> int | None:
        """About how many documents there are; None where that cannot be told."""
        counts = [source.expected() for _, source in self.named]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    @property
    def unreadable(self) -> list[str]:
        """Places that the operating system did not let the last reading see; nothing is pruned for them."""
        return [place for _, source in self.named for place in source.unreadable]

    def skipped(self) -> list[dict[str, Any]]:
        """What the last reading left out, by source and reason, with the first places."""
        return [
            {"source": name, "reason": reason, "count": count, "places": source.skipped.places[reason]}
            for name, source in self.named
            for reason, count in source.skipped.counts.items()
        ]


def skipped_lines(skipped: Sequence[dict[str, Any]]) -> list[str]:
    """What was skipped, a line for each reason."""
    lines = []
    for own in skipped:
        shown = ", ".join(own["places"][:_PLACES])
        more = ", ..." if own["count"] > _PLACES else ""
        lines.append(f"skipped {own['count']} of {own['source']}: {own['reason']} ({shown}{more})")
    return lines
