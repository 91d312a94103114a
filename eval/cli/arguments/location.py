"""Which index a command works on, and the options that all commands share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.core import ParameterSource

from surprise_rerank.errors import ModelError
from surprise_rerank.eval.cli.output.streams import Output

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
    from surprise_rerank.connectors.qdrant.location import EngineKind
    from surprise_rerank.encoders.base import Encoder

Command: TypeAlias = Callable[..., Any]

# Which index, for commands that can do without one, too.
WHERE = (
    click.option(
        "--index",
        "folder",
        metavar="FOLDER",
        envvar="SURPRISE_RERANK_INDEX",
        type=click.Path(),
        help="The folder of the index.  [$SURPRISE_RERANK_INDEX]",
    ),
    click.option(
        "--qdrant-url",
        "url",
        metavar="URL",
        envvar="QDRANT_URL",
        help="A Qdrant server instead of a folder; its key from $QDRANT_API_KEY.  [$QDRANT_URL]",
    ),
    click.option(
        "--collection",
        metavar="NAME",
        default="documents",
        show_default=True,
        help="The collection on the server.",
    ),
)
_OPTIONS = (
    *WHERE,
    click.option("--grpc", is_flag=True, help="Talk to the server by gRPC instead of REST."),
    click.option("--json", "as_json", is_flag=True, help="JSON for programs, without a bar."),
    click.option("--quiet", "-q", is_flag=True, help="The result only: no progress, no notes."),
    click.version_option(package_name="surprise-rerank"),
)

model_option = click.option(
    "--model",
    metavar="NAME",
    help="Where the index's model is now, if not where it was: a name, a folder or a file.",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an index is.

    Attributes:
        folder: its folder; None on a server.
        url: of the server.
        collection: on the server.
        grpc: whether to talk gRPC.
    """

    folder: str | None
    url: str | None
    collection: str
    grpc: bool

    @property
    def name(self) -> str:
        """The folder, or server and collection, without what could be a password."""
        from surprise_rerank.connectors.qdrant.location import shown_url

        return self.folder or f"{shown_url(self.url or '')}, collection {self.collection!r}"

    def open(
        self,
        encoder: Encoder | None = None,
        *,
        options: IndexOptions | None = None,
        engine: EngineKind | None = None,
    ) -> DocumentIndex:
        """Open the index; without an encoder it must exist.

        Raises:
            StoreError: as `DocumentIndex.open`.
        """
        from surprise_rerank.connectors.qdrant import DocumentIndex

        return DocumentIndex.open(
            self.folder,
            encoder,
            options=options,
            collection=self.collection,
            url=self.url,
            engine=engine,
            prefer_grpc=self.grpc,
        )

    def open_with_model(self, model: str | None) -> DocumentIndex:
        """Open an index that exists, with its model; see `model_of`."""
        with self.open() as index:
            encoder = model_of(index, model)
        return self.open(encoder)


def takes_index(function: Command) -> Command:
    """Give a command the options that name an index; it gets a `Place` and an `Output`."""

    @functools.wraps(function)
    def command(
        *,
        folder: str | None,
        url: str | None,
        collection: str,
        grpc: bool,
        as_json: bool,
        quiet: bool,
        **others: Any,
    ) -> Any:
        place = _place(click.get_current_context(), folder, url, collection, grpc)
        return function(place=place, out=Output(as_json=as_json, quiet=quiet), **others)

    return functools.reduce(lambda inner, option: option(inner), reversed(_OPTIONS), command)


def load_model(name: str) -> Encoder:
    """Load a model; a folder or file is remembered by its whole path, so that an index finds it again.

    Raises:
        ModelError: if it cannot be loaded.
    """
    from surprise_rerank.encoders.loading import load_encoder

    return load_encoder(os.path.abspath(name) if os.path.exists(name) else name)


def model_of(index: DocumentIndex, name: str | None) -> Encoder:
    """The model of an index, from where it was or from where the user says that it is now.

    Raises:
        ModelError: if it cannot be loaded.
        IndexMismatchError: if it is another one.
    """
    from surprise_rerank.connectors.qdrant.manifest import Manifest

    try:
        encoder = load_model(name or index.manifest.model)
    except ModelError as error:
        if name is not None:
            raise
        raise ModelError(f"{error}; if the index's model has moved, --model tells where it is") from error
    index.manifest.check(Manifest.of(encoder), index.where)
    return encoder


def _place(context: click.Context, folder: str | None, url: str | None, collection: str, grpc: bool) -> Place:
    sources = {name: context.get_parameter_source(name) for name in ("folder", "url", "collection", "grpc")}
    folder, url = folder or None, url or None
    if folder and url:
        if sources["folder"] == sources["url"]:
            raise click.UsageError(
                "--index and --qdrant-url (SURPRISE_RERANK_INDEX and QDRANT_URL) are both given; give one"
            )
        if sources["folder"] == ParameterSource.COMMANDLINE:
            url = None
        else:
            folder = None
    if not folder and not url:
        raise click.UsageError(
            "which index? give --index FOLDER, or --qdrant-url URL with --collection NAME "
            "(or set SURPRISE_RERANK_INDEX or QDRANT_URL)"
        )
    for name in ("collection", "grpc"):
        if folder and sources[name] == ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} belongs to --qdrant-url, but the index is the folder {folder}")
    return Place(folder, url, collection, grpc)
