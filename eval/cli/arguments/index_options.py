"""The options of `surprise-rerank index`: what an index stores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.core.settings import option

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant import Bm25, IndexOptions
    from surprise_rerank.encoders.passages import Passages

_NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexArguments:
    """What an index stores; None where an existing index keeps its option, and a new one has the default."""

    passages: bool | None = option(
        None,
        flag="--passages/--no-passages",
        help="Split documents that are longer than the model reads, or cut them.  [default: passages]",
    )
    passage_tokens: int | None = option(
        None, low=1, metavar="N", help="Most tokens of a passage.  [default: what the model reads]"
    )
    overlap: int | None = option(
        None, low=0, metavar="N", help="Tokens that neighbours share.  [default: 32]"
    )
    best: int | None = option(
        None,
        low=1,
        metavar="K",
        help="A document scores as the mean of its K best passages.  [default: 1]",
    )
    bm25: bool | None = option(None, flag="--bm25/--no-bm25", help="Words for BM25.  [default: bm25]")
    bm25_language: str | None = option(
        None, metavar="NAME", help="Of stems and stop words.  [default: english]"
    )
    tokens: bool | None = option(
        None,
        flag="--tokens/--no-tokens",
        help="Token vectors for auto, dynamax and fusion.  [default: tokens]",
    )
    pooling: float | None = option(
        None,
        low=1,
        metavar="N",
        help="Tokens that are merged into one vector, on average.  [default: 3.5]",
    )
    surprise_vector: bool | None = option(
        None,
        flag="--surprise-vector/--no-surprise-vector",
        help="Vectors to search by surprise.  [default: no-surprise-vector]",
    )
    quantization: str | None = option(
        None,
        choices=("int8", "binary", _NONE),
        help="Of the dense vectors; the originals re-score.  [default: none]",
    )
    on_disk: bool | None = option(
        None,
        flag="--on-disk/--in-memory",
        help="Where dense vectors are held.  [default: in-memory]",
    )
    payload_indexes: tuple[str, ...] = option(
        (),
        flag="--payload-index",
        metavar="PATH=TYPE",
        help="For filters on large collections, such as metadata.year=integer (keyword, integer, float, "
        "bool, datetime, text, uuid, geo). Several times.",
    )

    tenant: str | None = option(
        None,
        metavar="KEY",
        help="The key of the metadata that says whose a document is, where many customers share an index.",
    )

    def options(self, existing: IndexOptions | None) -> IndexOptions:
        """The options of an index: the given ones, and for the rest those that it has, or the defaults.

        Args:
            existing: of an index that exists.

        Raises:
            DataError: if a value is out of its range.
        """
        from surprise_rerank.connectors.qdrant import IndexOptions
        from surprise_rerank.core.tokens import POOLING

        base = existing or IndexOptions()
        given: dict[str, Any] = {
            "passages": self._passages(base.passages),
            "bm25": self._bm25(base.bm25),
            "tokens": self.tokens,
            "pooling": self.pooling,
            "surprise_vector": self.surprise_vector,
            "quantization": self.quantization,
            "on_disk": self.on_disk,
            "payload_indexes": dict(map(_path_and_type, self.payload_indexes)) or None,
            "tenant": self.tenant,
        }
        changes: dict[str, Any] = {
            name: None if value == _NONE else value for name, value in given.items() if value is not None
        }
        if changes.get("tokens", base.tokens):
            return replace(base, **changes)
        if self.pooling and self.tokens is None:
            raise click.UsageError("--pooling is of token vectors, and the index stores none; add --tokens")
        if self.pooling:
            raise click.UsageError("--no-tokens goes without --pooling")
        return replace(base, **{**changes, "pooling": POOLING})

    def _passages(self, before: Passages | None) -> Passages | str | None:
        from surprise_rerank.encoders.passages import Passages

        settings = {"tokens": self.passage_tokens, "overlap": self.overlap, "best": self.best}
        changes = {name: value for name, value in settings.items() if value is not None}
        if self.passages is False:
            if changes:
                raise click.UsageError("--no-passages goes without --passage-tokens, --overlap and --best")
            return _NONE
        if not changes and not self.passages:
            return None
        return replace(before or Passages(), **changes)

    def _bm25(self, before: Bm25 | None) -> Bm25 | str | None:
        from surprise_rerank.connectors.qdrant import Bm25

        if self.bm25 is False:
            if self.bm25_language is not None:
                raise click.UsageError("--no-bm25 goes without --bm25-language")
            return _NONE
        if not self.bm25 and self.bm25_language is None:
            return None
        changes: dict[str, Any] = (
            {} if self.bm25_language is None else {"language": self.bm25_language.lower()}
        )
        return replace(before or Bm25(), **changes)


def _path_and_type(text: str) -> tuple[str, str]:
    path, equals, kind = text.partition("=")
    if not (path and equals and kind):
        raise click.UsageError(f"--payload-index {text!r}: write PATH=TYPE, such as metadata.year=integer")
    return path, kind
