"""Indexes and collections of others as commands open them: with or without the model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from surprise_rerank.errors import DataError, ForeignCollectionError, ModelError

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
    """Open an index without its model, or a collection of others, with the model named if it `asks`."""
    from surprise_rerank.connectors.attached.settings import ForeignParts, refused_config

    try:
        index = open_index(location)
    except ForeignCollectionError:
        parts = ForeignParts.read(config)
        return parts.attach(location, model) if asks else parts.look(location)
    if config is not None:
        index.close()
        raise refused_config(location)
    return index


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


def _place(name: str) -> str:
    """The whole path of a folder or file; of other models the name."""
    return os.path.abspath(name) if os.path.exists(name) else name


def give_model(index: DocumentIndex | Collection, name: str | None) -> Encoder:
    """Give an index its model, from the old place or the one that the user names; a collection has its own.

    Raises:
        ModelError: if it cannot be loaded.
        IndexMismatchError: if it is another one.
    """
    from surprise_rerank.connectors.attached import Collection
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
    index.use_encoder(encoder)
    return encoder
