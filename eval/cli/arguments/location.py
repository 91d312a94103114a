"""Which index a command works on, and the options that all commands share."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as Names
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import click
from click.core import ParameterSource

from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.core.settings import option
from surprise_rerank.errors import ForeignCollectionError, ModelError
from surprise_rerank.eval.cli.options import options_of
from surprise_rerank.eval.cli.output.console import Output

if TYPE_CHECKING:
    from surprise_rerank.connectors.attached import Collection
    from surprise_rerank.connectors.attached.settings import ForeignParts
    from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
    from surprise_rerank.connectors.server.client import SearchClient
    from surprise_rerank.encoders.base import Encoder, Precision

_CONFIG = "TOML that names the model, vectors and payload keys of a collection made by others."
Command: TypeAlias = Callable[..., Any]


def model_field() -> Any:
    """The field `model` of arguments: where the model of an index is."""
    return option(
        None,
        metavar="NAME",
        help="Where the index's model is now, if not where it was: a name, a folder or a file.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelArguments:
    """Where the model of an index is."""

    model: str | None = model_field()


model_option = options_of(ModelArguments)
config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help=_CONFIG,
)
# For commands that a server can answer in place of an index that they open.
server_option = click.option(
    "--server",
    metavar="URL",
    envvar="SURPRISE_RERANK_SERVER",
    help="Ask a running `surprise-rerank serve` instead of opening an index.  [$SURPRISE_RERANK_SERVER]",
)
_OPTIONS = (
    options_of(Location),
    click.option("--grpc", is_flag=True, help="Talk to the server by gRPC instead of REST."),
    click.option("--json", "as_json", is_flag=True, help="JSON for programs."),
    click.option("--quiet", "-q", is_flag=True, help="The result only: no progress, no notes."),
    click.version_option(package_name="surprise-rerank"),
)


def takes_index(function: Command) -> Command:
    """Give a command the options that name an index; it gets a `Location` and an `Output`.

    With `server_option` the location is empty where a server is given.
    """

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
        location = Location()
        if not others.get("server"):
            location = _location(folder, url, collection)
            location = replace(location, prefer_grpc=grpc)
        return function(location=location, out=Output(as_json=as_json, quiet=quiet), **others)

    return functools.reduce(lambda inner, option: option(inner), reversed(_OPTIONS), command)


def open_index(
    location: Location,
    encoder: Encoder | None = None,
    options: IndexOptions | None = None,
    settings: Mapping[str, Any] | None = None,
) -> DocumentIndex:
    """Open an index; without an encoder it must exist.

    Raises:
        StoreError: as `DocumentIndex.open`.
    """
    from surprise_rerank.connectors.qdrant import DocumentIndex

    return DocumentIndex.open(location, encoder, options=options, collection_settings=settings)


def open_any(location: Location, model: str | None, config: str | None) -> DocumentIndex | Collection:
    """Open an index without its model, or a collection of others with the model that is named.

    Raises:
        SurpriseRerankError: as `DocumentIndex.open` and `ForeignParts.attach`.
    """
    return _opened(location, config, lambda parts: parts.attach(location, model))


def open_kept(location: Location, config: str | None) -> DocumentIndex | Collection:
    """Open an index, or a collection of others, without a model, for what is kept with it."""
    return _opened(location, config, lambda parts: parts.look(location))


def _opened(
    location: Location, config: str | None, attach: Callable[[ForeignParts], Collection]
) -> DocumentIndex | Collection:
    from surprise_rerank.connectors.attached.settings import ForeignParts, refused_config

    try:
        index = open_index(location)
    except ForeignCollectionError:
        return attach(ForeignParts.read(config))
    if config is not None:
        index.close()
        raise refused_config(location)
    return index


def open_with_model(location: Location, model: str | None, config: str | None) -> DocumentIndex | Collection:
    """`open_any`, with the model of an index, too; see `model_of`."""
    from surprise_rerank.connectors.attached import Collection

    found = open_any(location, model, config)
    return found if isinstance(found, Collection) else with_model(found, location, model)


def with_model(index: DocumentIndex, location: Location, model: str | None) -> DocumentIndex:
    """An index that is open without its model, opened again with it; see `model_of`."""
    with index:
        encoder = model_of(index, model)
    return open_index(location, encoder)


def load_model(name: str, precision: str = "float32", calibration: Sequence[str] | None = None) -> Encoder:
    """Load a model; a folder or file is remembered by its whole path, so that an index finds it again.

    Args:
        name: as for `load_encoder`.
        precision: as for `load_encoder`.
        calibration: as for `load_encoder`.

    Raises:
        ModelError: if it cannot be loaded.
    """
    from surprise_rerank.encoders.loading import load_encoder

    wanted = cast("Precision", precision)
    return load_encoder(_place(name), precision=wanted, calibration=calibration)


def _place(name: str) -> str:
    """The whole path of a folder or file; of other models the name."""
    return os.path.abspath(name) if os.path.exists(name) else name


def model_of(index: DocumentIndex | Collection, name: str | None) -> Encoder:
    """The model of an index, from its old place, or from the one that the user names; a collection's own.

    Raises:
        ModelError: if it cannot be loaded.
        IndexMismatchError: if it is another one.
    """
    from surprise_rerank.connectors.attached import Collection
    from surprise_rerank.connectors.qdrant.manifest import Manifest
    from surprise_rerank.encoders.loading import load_question_encoder

    if isinstance(index, Collection):
        return index.encoder
    try:
        encoder = load_question_encoder(_place(name or index.manifest.model), index.manifest.precision)
    except ModelError as error:
        if name is not None:
            raise
        raise ModelError(
            f"{error}; if the index's model has moved, give --model with its new place"
        ) from error
    index.manifest.check(Manifest.of(encoder), index.where)
    return encoder


def folder_or_url(folder: str | None, url: str | None) -> tuple[str | None, str | None]:
    """At most one of the two: an option of the command line replaces a variable of the environment.

    Raises:
        UsageError: if both are given in one way.
    """
    if not (folder and url):
        return folder or None, url or None
    context = click.get_current_context()
    sources = [context.get_parameter_source(name) for name in ("folder", "url")]
    if sources[0] == sources[1]:
        raise click.UsageError(
            "--index and --qdrant-url (SURPRISE_RERANK_INDEX and QDRANT_URL) are both given; give one"
        )
    return (folder, None) if sources[0] == ParameterSource.COMMANDLINE else (None, url)


def _location(folder: str | None, url: str | None, collection: str) -> Location:
    folder, url = folder_or_url(folder, url)
    if not folder and not url:
        raise click.UsageError(
            "which index? give --index with a folder, or a collection on a server such as "
            "http://localhost:6333/papers (or set SURPRISE_RERANK_INDEX)"
        )
    context = click.get_current_context()
    for name in ("collection", "grpc"):
        if folder and context.get_parameter_source(name) == ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} belongs to --qdrant-url, but --index is {folder}")
    return Location(url=url, collection=collection) if folder is None else Location.at(folder)


def refuse_with_server(names: Names[str], instead: str) -> None:
    """Refuse options that a server decides.

    Args:
        names: of their parameters.
        instead: why, and what to do.

    Raises:
        UsageError: if some are on the command line; names them.
    """
    context = click.get_current_context()
    given = [
        own.opts[0]
        for own in context.command.params
        if own.name in names and context.get_parameter_source(own.name or "") == ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"{' and '.join(given)} cannot be used with --server: {instead}")


def server_client(url: str) -> SearchClient:
    """A connection to a running server, with the token of the environment.

    Raises:
        DataError: if the url is none, or the token cannot be sent.
    """
    from surprise_rerank.connectors.server.client import TOKEN_VARIABLE, SearchClient

    return SearchClient(url, os.environ.get(TOKEN_VARIABLE, "").strip() or None)
