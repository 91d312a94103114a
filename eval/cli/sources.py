"""What the options of commands name: documents of one source after another, models, and filters."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from surprise_rerank.errors import DataError

if TYPE_CHECKING:
    from qdrant_client.models import Filter

    from surprise_rerank.connectors.readers import DocumentSource, Fields, FileRules
    from surprise_rerank.connectors.readers.opening import Format
    from surprise_rerank.connectors.readers.source import OnError, Unusable
    from surprise_rerank.documents import Document
    from surprise_rerank.encoders.base import Encoder, Precision

_PLACES = 3  # that a reason shows


class Sources:
    """Documents of several sources, one after another; `named` are what the user called them, and they."""

    def __init__(self, names: Sequence[str], sources: Sequence[DocumentSource]) -> None:
        self.named = list(zip(names, sources, strict=True))

    @classmethod
    def opened(
        cls,
        names: Sequence[str],
        form: Format | None,
        fields: Fields,
        on_error: OnError = "raise",
        files: FileRules | None = None,
        id_prefix: str = "",
    ) -> Sources:
        """Files, folders, ids of data sets, collections of Qdrant servers; only their names are read."""
        from surprise_rerank.connectors.readers import Fields, open_documents

        if not names:
            raise click.UsageError(
                "what is to be read? give files, folders, data sets, or a collection on a Qdrant server such "
                "as http://localhost:6333/papers"
            )
        columns = None if fields == Fields() else fields
        key = os.environ.get("QDRANT_FROM_API_KEY")  # or QDRANT_API_KEY
        opened = []
        for name in names:
            source = open_documents(
                name, format=form, fields=columns, on_error=on_error, files=files, api_key=key
            )
            opened.append(source.with_prefix(id_prefix))
        return cls(names, opened)

    def __iter__(self) -> Iterator[Document]:
        for _, source in self.named:
            yield from source

    def require_readable(self) -> None:
        """Read the first document of each: what is wrong with all of them is told before anything is made."""
        for _, source in self.named:
            with contextlib.closing(iter(source)) as documents:
                next(documents, None)

    def expected(self) -> int | None:
        """About how many documents there are; None where that cannot be told."""
        counts = [source.expected() for _, source in self.named]
        told_counts = [count for count in counts if count is not None]
        return sum(told_counts) if len(told_counts) == len(counts) else None

    @property
    def unusable(self) -> list[Unusable]:
        """What the last reading could not use; documents of these places are not pruned."""
        return [place for _, source in self.named for place in source.unusable]

    def places(self, document_id: str) -> list[str]:
        """Where the documents of an id are, for a message."""
        return [place for _, source in self.named for place in source.places(document_id)]

    def end(self, *, strict: bool) -> None:
        """End a command with exit code 1 where that was asked for, and a row or file could not be used."""
        if strict and self.unusable:
            click.get_current_context().exit(1)

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
    for row in skipped:
        shown = ", ".join(row["places"][:_PLACES])
        more = ", ..." if row["count"] > _PLACES else ""
        lines.append(f"skipped {row['count']} of {row['source']}: {row['reason']} ({shown}{more})")
    return lines


def load_model(name: str, precision: str = "float32", calibration: Sequence[str] | None = None) -> Encoder:
    """`load_encoder`; a folder or file is remembered by its whole path, so that an index finds it again."""
    from surprise_rerank.connectors.attached.opening import whole_path
    from surprise_rerank.encoders.loading import load_encoder

    return load_encoder(whole_path(name), precision=cast("Precision", precision), calibration=calibration)


def read_filter(option: str, text: str) -> Filter | None:
    """Return Qdrant's filter from its JSON, None for an empty one; a DataError names the option."""
    from surprise_rerank.connectors.qdrant.search.filters import filter_of

    try:
        values = json.loads(text)
        return filter_of(values) if values else None
    except DataError as error:
        raise DataError(f"{option}: {error}") from error
    except ValueError as error:
        raise DataError(
            f"{option} is not JSON ({error}); write it like "
            """'{"must": [{"key": "metadata.year", "match": {"value": 2024}}]}'"""
        ) from error
