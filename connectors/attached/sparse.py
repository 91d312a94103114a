"""The sparse vectors of a foreign collection as the words of a fusion: BM25, miniCOIL or SPLADE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from surprise_rerank.connectors.qdrant.lexical import Bm25, SparseVector
from surprise_rerank.connectors.readers.fields import shown
from surprise_rerank.core.terms import TermBatch
from surprise_rerank.errors import DataError, ModelError, SurpriseRerankError

SparseEmbed: TypeAlias = Callable[[str], SparseVector]

# Of a text's terms, how many its stored vector must have, to be of the same function.
_SAME = 0.9
_COMPARED = 8  # texts
_START = 60  # characters of what was given, in a message


def sparse_embed(given: Any) -> SparseEmbed:
    """A function from a question to its sparse vector, of what the user has.

    That is settings of Qdrant's BM25; or an object of LangChain (`embed_query`), Haystack (`run`), fastembed
    (`query_embed`) or sentence-transformers (`encode_query`), or a function, that gives indices and values.

    Raises:
        DataError: if it is none of these. The function raises it, if what is given gives no sparse vector,
            and ModelError, if it fails.
    """
    if isinstance(given, Bm25):
        return given.query
    ask, who = _asked(given), getattr(given, "__name__", type(given).__name__)

    def embed(text: str) -> SparseVector:
        try:
            found = ask(text)
        except SurpriseRerankError:
            raise
        except Exception as error:  # of a function that anybody may have written
            raise ModelError(
                f"the sparse model {who} failed for {text[:30]!r}: {type(error).__name__}: {error}"
            ) from error
        return _sparse(found, who)

    return embed


def _asked(given: Any) -> Callable[[str], Any]:
    """What gives a question's sparse vector, as its package has them."""
    for name, many in (("embed_query", False), ("query_embed", True), ("encode_query", True)):
        method = getattr(given, name, None)
        if callable(method):
            if many:
                return lambda text: _first(method([text]))
            return cast(Callable[[str], Any], method)
    if hasattr(given, "run"):
        return lambda text: given.run(text=text)["sparse_embedding"]
    if callable(given):
        return cast(Callable[[str], Any], given)
    raise DataError(
        f"sparse= must be a function from a question to indices and values, a sparse model of "
        f"LangChain, Haystack or fastembed, or Bm25(); got {type(given).__name__}"
    )


def is_bm25(texts: Sequence[str], vectors: TermBatch, settings: Bm25) -> bool:
    """Whether stored sparse vectors are Qdrant's BM25 in a language: its terms of each text are there."""
    shares = []
    for i, text in enumerate(texts[:_COMPARED]):
        terms = settings.query(text).indices
        if len(terms):
            shares.append(float(np.isin(terms, vectors[i][0]).mean()))
    return bool(shares) and min(shares) >= _SAME


def _first(found: Any) -> Any:
    return found[0] if hasattr(found, "__getitem__") else next(iter(found))


def _sparse(found: Any, who: str) -> SparseVector:
    """Indices ascending, and their values; zeros are no terms."""
    if hasattr(found, "coalesce"):  # a row of a sparse tensor of torch
        entries = found.coalesce()
        indices, values = entries.indices()[-1].cpu().numpy(), entries.values().cpu().numpy()
    elif isinstance(found, dict) and {"indices", "values"} <= found.keys():
        indices, values = found["indices"], found["values"]
    elif isinstance(found, tuple) and len(found) == 2:
        indices, values = found
    elif hasattr(found, "indices") and hasattr(found, "values"):
        indices, values = found.indices, found.values
    else:
        keys = f" with the keys {shown(found)}" if isinstance(found, dict) else ""
        raise DataError(
            f"the sparse model {who} gave a {type(found).__name__}{keys} for a question; a sparse vector has "
            "indices and values"
        )
    try:
        terms, weights = np.asarray(indices).reshape(-1), np.asarray(values, np.float32).reshape(-1)
        whole = bool(np.all((terms >= 0) & (terms < 2**32) & (terms % 1 == 0)))
        is_right = whole and len(np.unique(terms)) == len(terms) == len(weights)
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: of torch
        is_right, weights = False, np.zeros(0, np.float32)
    if not is_right or not np.isfinite(weights).all():
        raise DataError(
            f"the sparse model {who} gave the indices {_start(indices)} and the values {_start(values)}; "
            "expected whole numbers from 0 to 2^32 - 1, each once, and as many finite numbers"
        )
    order = np.argsort(terms, kind="stable")
    order = order[weights[order] != 0]
    return SparseVector(terms[order].astype(np.uint32), weights[order])


def _start(found: Any) -> str:
    text = str(found)
    return text if len(text) <= _START else f"{text[:_START]} ..."
