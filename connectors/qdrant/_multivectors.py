"""Token vectors as Qdrant's multivectors, of which Qdrant itself computes MaxSim; and how they are read back.

MaxSim adds, over the query's tokens, the largest cosine that a token of the document has with it (Khattab and
Zaharia 2020, arXiv:2004.12832). Qdrant's dot product of unit vectors gives it. Tokens that say the same are
merged before (`core/tokens.py`). What a multivector does not tell is beside it, in the payload: which
tokens each vector stands for, and the vectors' lengths.

Numbers are TurboQuant's (Zandieh, Daliri, Hadian and Mirrokni 2025, arXiv:2504.19874) of 4 bits, in Edge and
in servers from 1.19 on; half precision elsewhere, and for fewer components than `CODED_FROM`, as the error
of a product grows with 1 / sqrt(d). docs/encoders.md has what each loses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pybase64

from surprise_rerank._errors import DataError
from surprise_rerank.core._ragged import offsets_of
from surprise_rerank.core.arrays import Float32Array, unit_rows
from surprise_rerank.core.tokens import Members, TokenBatch

CODED_FROM = 128

# Payload keys: how many tokens a text has, and the lengths and members of its vectors.
TOKEN_FIELDS = TOKEN_COUNT, TOKEN_SHAPE = "token_count", "token_shape"


def document_vectors(tokens: TokenBatch, i: int) -> Float32Array:
    """(n, d) unit vectors of text i of a batch, for a collection of `Distance.DOT`.

    Qdrant refuses empty multivectors: a text without tokens gets one row of zeros, which has cosine 0 with
    every query token.
    """
    unit = tokens.text(i, unit=True)
    return unit if len(unit) else np.zeros((1, tokens.dimension), np.float32)


def query_vectors(tokens: Float32Array) -> Float32Array:
    """(m, d) a query's multivector: unit vectors; of no tokens one of zeros, to which all are alike."""
    return unit_rows(tokens) if len(tokens) else np.zeros((1, tokens.shape[1]), np.float32)


def token_payload(tokens: TokenBatch, i: int) -> dict[str, Any]:
    """What the payload has of text i: `TOKEN_COUNT` and `TOKEN_SHAPE`.

    The shape is, in base64, the vectors' lengths in float32, and where tokens were merged the vector of each
    token in 1 byte, or 2 where there are more than 256 vectors; little-endian.
    """
    text = tokens.between(i, i + 1)
    shape = text.norms.astype("<f4").tobytes()
    if text.members is not None:
        shape += text.members.owners.astype("<u1" if len(text.norms) <= 256 else "<u2").tobytes()
    return {TOKEN_COUNT: int(text.token_counts[0]), TOKEN_SHAPE: pybase64.b64encode(shape).decode("ascii")}


def stored_tokens(
    vectors: Sequence[npt.ArrayLike],
    payloads: Sequence[Mapping[str, Any]],
    dimension: int,
    names: Sequence[str],
) -> TokenBatch:
    """The token vectors of n texts, but for the rounding of their numbers, from what `token_payload` gave.

    Raises:
        DataError: if something is damaged; names the text.
    """
    parts = [_Text.read(*stored, dimension) for stored in zip(vectors, payloads, names, strict=True)]
    unit = np.concatenate([np.zeros((0, dimension), np.float32), *(part.unit for part in parts)])
    norms = np.concatenate([np.zeros(0, np.float32), *(part.norms for part in parts)])
    counts = np.array([len(part.norms) for part in parts], np.int64)
    tokens = np.array([part.tokens for part in parts], np.int64)
    owners = np.concatenate([np.zeros(0, np.uint16), *(part.owners for part in parts)])
    merged = Members(owners, offsets_of(tokens)) if len(owners) else None
    return TokenBatch(unit, norms, offsets_of(counts), members=merged)


class _Text(NamedTuple):
    """The token vectors of one text: (k, d), (k,) and (tokens,), the last empty where none were merged."""

    unit: Float32Array
    norms: Float32Array
    owners: npt.NDArray[np.unsignedinteger[Any]]
    tokens: int

    @classmethod
    def read(cls, vectors: npt.ArrayLike, payload: Mapping[str, Any], name: str, dimension: int) -> _Text:
        try:
            count, shape = int(payload[TOKEN_COUNT]), pybase64.b64decode(payload[TOKEN_SHAPE], validate=True)
            unit = np.asarray(vectors, np.float32).reshape(-1, dimension)[: None if count else 0]
            k = len(unit)
            width = (len(shape) - 4 * k) // max(count, 1)
            owners = np.frombuffer(shape, f"<u{width}" if width else "u1", count if width else 0, 4 * k)
            is_whole = len(shape) == 4 * k + width * count and (width > 0 or count == k)
            if not is_whole or (len(owners) and owners.max() >= k):
                raise ValueError(f"{len(shape)} bytes tell of other vectors than these {k}")
            return cls(unit_rows(unit), np.frombuffer(shape, "<f4", k), owners, count)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the token vectors {name} are damaged ({error}); rebuild the index") from error
