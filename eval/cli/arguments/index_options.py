"""What an index stores: the options of `surprise-rerank index`, and what they change."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.core.extras import import_extra
from surprise_rerank.eval.cli.arguments.location import Command

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant import Bm25, IndexOptions
    from surprise_rerank.encoders.passages import Passages

_NONE = "none"

_OPTIONS = (
    click.option(
        "--passages/--no-passages",
        default=None,
        help="Split documents that are longer than the model reads, or cut them.  [default: passages]",
    ),
    click.option(
        "--passage-tokens",
        type=click.IntRange(min=1),
        metavar="N",
        help="Most tokens of a passage.  [default: what the model reads]",
    ),
    click.option(
        "--overlap",
        type=click.IntRange(min=0),
        metavar="N",
        help="Tokens that neighbours share.  [default: 32]",
    ),
    click.option(
        "--best",
        type=click.IntRange(min=1),
        metavar="K",
        help="A document scores as the mean of its K best passages.  [default: 1]",
    ),
    click.option(
        "--bm25/--no-bm25", default=None, help="Words for BM25.  [default: bm25, with the extra `edge`]"
    ),
    click.option("--bm25-language", metavar="NAME", help="Of stems and stop words.  [default: english]"),
    click.option(
        "--packed-tokens/--no-packed-tokens",
        default=None,
        help="Token vectors for dynamax and fusion.  [default: packed-tokens]",
    ),
    click.option(
        "--tokens",
        type=click.Choice(("float16", "uint8", _NONE)),
        help="Token vectors for MaxSim inside Qdrant.  [default: none]",
    ),
    click.option(
        "--surprise-vector/--no-surprise-vector",
        default=None,
        help="Vectors to search by surprise.  [default: no-surprise-vector]",
    ),
    click.option(
        "--quantization",
        type=click.Choice(("int8", "binary", _NONE)),
        help="Of the dense vectors; the originals re-score.  [default: none]",
    ),
    click.option(
        "--on-disk/--in-memory",
        default=None,
        help="Where dense vectors are held.  [default: in-memory]",
    ),
    click.option(
        "--payload-index",
        "payload_indexes",
        metavar="PATH=TYPE",
        multiple=True,
        help="For filters on large collections, such as metadata.year=integer (keyword, integer, float, "
        "bool, datetime, text, uuid, geo). Several times.",
    ),
)


@dataclass(frozen=True, slots=True)
class Storage:
    """What was asked for explicitly; None where nothing was.

    Attributes:
        passages: whether documents are split.
        passage_tokens: most tokens of a passage.
        overlap: tokens that neighbours share.
        best: how many passages a document's score is the mean of.
        bm25: whether words are stored.
        bm25_language: of stems and stop words.
        packed_tokens: whether token vectors are stored in the payload.
        tokens: how they are stored as multivectors; `none` for not at all.
        surprise_vector: whether augmented vectors are stored.
        quantization: of the dense vectors; `none` for none.
        on_disk: whether dense vectors are read from disk.
        payload_indexes: PATH=TYPE of each; empty where nothing was asked for.
    """

    passages: bool | None
    passage_tokens: int | None
    overlap: int | None
    best: int | None
    bm25: bool | None
    bm25_language: str | None
    packed_tokens: bool | None
    tokens: str | None
    surprise_vector: bool | None
    quantization: str | None
    on_disk: bool | None
    payload_indexes: tuple[str, ...]

    def options(self, existing: IndexOptions | None) -> IndexOptions:
        """The options of an index: what was asked for, and for the rest what it has, or the defaults.

        Args:
            existing: of an index that exists.

        Raises:
            DataError: if a value is out of its range.
            MissingExtraError: if BM25 is asked for, and what computes it is not installed.
        """
        from surprise_rerank.connectors.qdrant import IndexOptions

        base = existing or IndexOptions()
        given: dict[str, Any] = {
            "passages": self._passages(base.passages),
            "bm25": self._bm25(base.bm25),
            "packed_tokens": self.packed_tokens,
            "token_vectors": self.tokens,
            "surprise_vector": self.surprise_vector,
            "quantization": self.quantization,
            "on_disk": self.on_disk,
            "payload_indexes": dict(map(_path_and_type, self.payload_indexes)) or None,
        }
        asked: dict[str, Any] = {
            name: None if value == _NONE else value for name, value in given.items() if value is not None
        }
        return replace(base, **asked)

    def _passages(self, before: Passages | None) -> Passages | str | None:
        from surprise_rerank.encoders.passages import Passages

        settings = {"tokens": self.passage_tokens, "overlap": self.overlap, "best": self.best}
        asked = {name: value for name, value in settings.items() if value is not None}
        if self.passages is False:
            if asked:
                raise click.UsageError("--no-passages goes without --passage-tokens, --overlap and --best")
            return _NONE
        if not asked and not self.passages:
            return None
        return replace(before or Passages(), **asked)

    def _bm25(self, before: Bm25 | None) -> Bm25 | str | None:
        from surprise_rerank.connectors.qdrant import Bm25

        if self.bm25 is False:
            if self.bm25_language is not None:
                raise click.UsageError("--no-bm25 goes without --bm25-language")
            return _NONE
        if not self.bm25 and self.bm25_language is None:
            return None
        import_extra("qdrant_edge", "edge")  # told now, not when the first document is stored
        asked: dict[str, Any] = {} if self.bm25_language is None else {"language": self.bm25_language.lower()}
        return replace(before or Bm25(), **asked)


def takes_storage(function: Command) -> Command:
    """Give a command the options of what is stored; it gets a `Storage`."""
    names = Storage.__dataclass_fields__

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        storage = Storage(**{name: values.pop(name) for name in names})
        return function(storage=storage, **values)

    return functools.reduce(lambda inner, option: option(inner), reversed(_OPTIONS), command)


def _path_and_type(text: str) -> tuple[str, str]:
    path, equals, kind = text.partition("=")
    if not (path and equals and kind):
        raise click.UsageError(f"--payload-index {text!r}: write PATH=TYPE, such as metadata.year=integer")
    return path, kind
