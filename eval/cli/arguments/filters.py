"""Filters in Qdrant's JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from surprise_rerank.errors import DataError

if TYPE_CHECKING:
    from qdrant_client.models import Filter


def parse_filter(text: str) -> Filter:
    """A filter from Qdrant's JSON.

    Raises:
        DataError: if it is not JSON, or no filter; names the place that is wrong.
    """
    from surprise_rerank.connectors.qdrant.search.filters import filter_of

    values = filter_values(text)
    try:
        return filter_of(values)
    except DataError as error:
        raise DataError(f"--filter: {error}") from error


def filter_values(text: str) -> Any:
    """What `--filter` has as JSON, for a server that checks it.

    Raises:
        DataError: if it is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(
            f"--filter is not JSON ({error}); write it like "
            """'{"must": [{"key": "metadata.year", "match": {"value": 2024}}]}'"""
        ) from error
