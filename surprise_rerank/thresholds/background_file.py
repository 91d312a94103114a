"""The file of a background: arrays in a .npz archive, of which nothing is executed."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

import numpy as np

from surprise_rerank.core.files import UNREADABLE_ARCHIVE
from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.thresholds.chance import AnswerChance

_FORMAT = 2
_TEXTS, _COUNTS = ("scorer", "origin", "made"), ("documents", "depth")
_ARRAYS = ("means", "slopes", "deviations", "totals", "shares", "near")


def packed(own: Mapping[str, Any]) -> bytes:
    """A background's attributes as the content of a file."""
    chance, questions = own["chance"], own["questions"]
    plain: dict[str, Any] = {name: own[name] for name in (*_TEXTS, *_COUNTS, *_ARRAYS, "names", "lengths")}
    file = io.BytesIO()
    np.savez(
        file,
        format=_FORMAT,
        texts=np.frombuffer(json.dumps(own["texts"]).encode(), np.uint8),
        chance=np.array([] if chance is None else astuple(chance), np.float64),
        questions=np.frombuffer(b"" if questions is None else questions.to_bytes(), np.uint8),
        **plain,
    )
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
            found = _read(stored, where)
    except DataError:
        raise
    except UNREADABLE_ARCHIVE as error:
        raise DataError(f"{where}: not a background of questions; make it again") from error
    if not _is_possible(**found):
        raise DataError(f"{where}: not a background of questions; make it again")
    return found


def _read(stored: Mapping[str, Any], where: str) -> dict[str, Any]:
    chance, questions = stored["chance"], stored["questions"].tobytes()
    if not np.isfinite(chance).all():
        raise ValueError("a chance that is not finite")
    return {
        **{name: str(stored[name]) for name in _TEXTS},
        **{name: int(stored[name]) for name in _COUNTS},
        **{name: stored[name] for name in _ARRAYS},
        "names": tuple(stored["names"].tolist()),
        "lengths": tuple(stored["lengths"].tolist()),
        "texts": tuple(json.loads(stored["texts"].tobytes())),
        "chance": _chance(*chance.tolist()) if len(chance) else None,
        "questions": Ensemble.from_bytes(questions, where) if questions else None,
    }


def _chance(intercept: float, best: float, gap: float, weak: float, judged: float) -> AnswerChance:
    return AnswerChance(intercept, best, gap, weak, int(judged))


def _is_possible(
    *,
    names: tuple[str, ...],
    means: np.ndarray,
    slopes: np.ndarray,
    deviations: np.ndarray,
    lengths: tuple[float, ...],
    totals: np.ndarray,
    shares: np.ndarray,
    texts: tuple[str, ...],
    near: np.ndarray,
    depth: int,
    **_: object,
) -> bool:
    """Whether the arrays fit together, and hold what could have been measured."""
    scales = (means, slopes, deviations)
    return (
        all(own.dtype.kind == "f" for own in (*scales, totals, near, shares, np.array(lengths)))
        and {own.shape for own in scales} == {(len(names),)}
        and all(own.ndim == 1 and not np.isnan(own).any() for own in (totals, near))
        and all(bool((own[1:] >= own[:-1]).all()) for own in (totals, near))
        and shares.shape == totals.shape == (len(texts),)
        and bool(((shares > 0) & (shares <= 1)).all())
        and depth > 0
        and all(isinstance(text, str) for text in texts)
        and all(np.isfinite(own).all() for own in (*scales, np.array(lengths)))
        and bool((deviations > 0).all())
        and len(lengths) == 3
        and lengths == tuple(sorted(lengths))
    )
