"""The file of a background: arrays in a .npz archive, of which nothing is executed."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from surprise_rerank.core.files import UNREADABLE_ARCHIVE
from surprise_rerank.errors import DataError
from surprise_rerank.thresholds.chance import AnswerChance
from surprise_rerank.thresholds.scales import Lines

_FORMAT = 3
_ARRAYS, _SCALES = ("totals", "shares", "lengths"), ("means", "slopes", "deviations")
_TEXTS, _COUNTS = ("scorer", "origin", "made"), ("compared", "documents", "depth")


def packed(own: Mapping[str, Any]) -> bytes:
    """A background's attributes as the content of a file."""
    chance = own["chance"]
    words = {name: own[name] for name in (*_TEXTS, *_COUNTS, "names", "texts")}
    words |= {"scripts": sorted(own["scripts"]), "chance": None if chance is None else asdict(chance)}
    arrays: dict[str, Any] = {name: np.asarray(own[name], np.float64) for name in _ARRAYS}
    arrays |= own["scales"]._asdict()
    file = io.BytesIO()
    np.savez(file, format=_FORMAT, words=np.frombuffer(json.dumps(words).encode(), np.uint8), **arrays)
    return file.getvalue()


def unpacked(content: bytes, where: str) -> dict[str, Any]:
    """The attributes that `packed` was given; errors call their place `where`.

    Raises:
        DataError: if it is no background, is damaged, or is of another format.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            if int(stored["format"]) != _FORMAT:
                raise DataError(f"{where}: a background of another format; make it again")
            found = _read(stored)
    except DataError:
        raise
    except UNREADABLE_ARCHIVE as error:
        raise DataError(f"{where}: not a background of questions; make it again") from error
    return found


def _read(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes; a ValueError or TypeError where they do not fit together."""
    words, arrays = json.loads(stored["words"].tobytes()), {name: stored[name] for name in _ARRAYS}
    totals, shares, lengths = arrays.values()
    scales, chance = Lines(*(stored[name] for name in _SCALES)), words["chance"]
    if not (
        all(own.dtype.kind == "f" and not np.isnan(own).any() for own in (*arrays.values(), *scales))
        and all(own.shape == (len(words["names"]),) and np.isfinite(own).all() for own in scales)
        and bool((scales.deviations > 0).all())
        and totals.shape == shares.shape == (len(words["texts"]),)
        and bool((totals[1:] >= totals[:-1]).all() and ((shares > 0) & (shares <= 1)).all())
        and lengths.shape == (3,)
        and bool(np.isfinite(lengths).all() and (lengths[1:] >= lengths[:-1]).all())
        and all(isinstance(words[name], str) for name in _TEXTS)
        and all(isinstance(text, str) for name in ("names", "texts", "scripts") for text in words[name])
        and all(isinstance(words[name], int) and words[name] >= 0 for name in _COUNTS)
        and words["depth"] > 0
        and (chance is None or all(np.isfinite(number) for number in chance.values()))
    ):
        raise ValueError("numbers that nobody could have measured")
    return {
        **{name: words[name] for name in (*_TEXTS, *_COUNTS)},
        **{name: tuple(words[name]) for name in ("names", "texts")},
        "totals": totals,
        "shares": shares,
        "lengths": tuple(lengths.tolist()),
        "scales": scales,
        "scripts": frozenset(words["scripts"]),
        "chance": None if chance is None else AnswerChance(**chance),
    }
