"""Indexes and collections of others as commands open them: with or without the model."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from surprise_rerank.errors import DataError, ForeignCollectionError, ModelError, StoreError

if TYPE_CHECKING:
    from qdrant_client.models import Filter

    from surprise_rerank.connectors.attached import Collection
    from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
    from surprise_rerank.connectors.qdrant.location import Location
    from surprise_rerank.encoders.base import Encoder, Precision


def open_index(
    location: Location,
    encoder: Encoder | None = None,
    options: IndexOptions | None = None,
    settings: Mapping[str, Any] | None = None,
) -> DocumentIndex:
    """Open an index; without an encoder it must exist."""
    from surprise_rerank.connectors.qdrant import DocumentIndex

    return DocumentIndex.open(location, encoder, options=options, collection_settings=settings)


def open_any(
    location: Location, model: str | None, config: str | None, *, asks: bool = True
) -> DocumentIndex | Collection:
    """Open an index, or a collection of others, with the model that is named if it `asks`.

    Of an index that is a model behind an endpoint; see `give_model` for others.
    """
    from surprise_rerank.connectors.attached.settings import ForeignParts

    parts = ForeignParts.read(config)
    try:
        index = open_index(location)
    except ForeignCollectionError:
        return parts.attach(location, model) if asks else parts.look(location)
    try:
        parts.require_of_index(location)
        if asks and model is None:
            use_endpoint(index, location, config)
    except BaseException:
        index.close()
        raise
    return index


def use_endpoint(index: DocumentIndex, location: Location, config: str | None) -> None:
    """Give an index the model that a file names, if it names one."""
    from surprise_rerank.connectors.attached.settings import ForeignParts

    encoder = ForeignParts.read(config).of_index(location)
    if encoder is not None:
        index.use_encoder(encoder)


def open_with_model(location: Location, model: str | None, config: str | None) -> DocumentIndex | Collection:
    """`open_any`, with the model of an index, too; see `give_model`."""
    index = open_any(location, model, config)
    try:
        give_model(index, model)
    except BaseException:
        index.close()
        raise
    return index


def load_model(name: str, precision: str = "float32", calibration: Sequence[str] | None = None) -> Encoder:
    """`load_encoder`; a folder or file is remembered by its whole path, so that an index finds it again."""
    from surprise_rerank.encoders.loading import load_encoder

    return load_encoder(_place(name), precision=cast("Precision", precision), calibration=calibration)


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


@contextlib.contextmanager
def finding_model(*, is_named: bool) -> Iterator[None]:
    """Say, where an index's model is not loaded by the name that it has there, what can be done."""
    try:
        yield
    except ModelError as error:
        if is_named:
            raise
        raise ModelError(
            f"{error}; if the index's model has moved, give --model with its new place; if it is behind an "
            "endpoint, give --config with a table [embedding]"
        ) from error


def _place(name: str) -> str:
    """The whole path of a folder or file; of other models the name."""
    return os.path.abspath(name) if os.path.exists(name) else name


def give_model(index: DocumentIndex | Collection, name: str | None) -> Encoder:
    """Give an index its model, from the old place or the one that the user names, unless it has one.

    Raises:
        ModelError: if it cannot be loaded.
        IndexMismatchError: if it is another one.
    """
    from surprise_rerank.connectors.attached import Collection
    from surprise_rerank.encoders.loading import load_question_encoder

    if isinstance(index, Collection):
        return index.encoder
    with contextlib.suppress(StoreError):
        return index.encoder
    with finding_model(is_named=name is not None):
        encoder = load_question_encoder(_place(name or index.manifest.model), index.manifest.precision)
    index.use_encoder(encoder)
    return encoder
