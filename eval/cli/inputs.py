"""Models and filters, as the options of commands name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from surprise_rerank.core.json_values import read_json
from surprise_rerank.errors import DataError

if TYPE_CHECKING:
    from qdrant_client.models import Filter

    from surprise_rerank.encoders.base import Encoder, Precision


def load_model(name: str, precision: str = "float32", calibration: Sequence[str] | None = None) -> Encoder:
    """`load_encoder`; a folder or file is remembered by its whole path, so that an index finds it again."""
    from surprise_rerank.connectors.attached.opening import whole_path
    from surprise_rerank.encoders.loading import load_encoder

    return load_encoder(whole_path(name), precision=cast("Precision", precision), calibration=calibration)


def read_filter(option: str, text: str) -> Filter | None:
    """Return Qdrant's filter from its JSON, None for an empty one; a DataError names the option."""
    from surprise_rerank.connectors.qdrant.search.filters import filter_of

    try:
        values = read_json(text)
        return filter_of(values) if values else None
    except DataError as error:
        raise DataError(f"{option}: {error}") from error
    except ValueError as error:
        raise DataError(
            f"{option} is not JSON ({error}); write it like "
            """'{"must": [{"key": "metadata.year", "match": {"value": 2024}}]}'"""
        ) from error
