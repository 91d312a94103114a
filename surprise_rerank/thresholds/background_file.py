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

_FORMAT = 2  # 1 had no questions, whose totals had scales that they were part of


def packed(own: Mapping[str, Any]) -> bytes:
    """A background's attributes as the content of a file."""
    chance, questions = own["chance"], own["questions"]
    text: dict[str, Any] = {name: np.str_(own[name]) for name in ("scorer", "origin", "made")}
    counts: dict[str, Any] = {name: np.int64(own[name]) for name in ("documents", "depth")}
    arrays: dict[str, Any] = {
        name: own[name] for name in ("means", "slopes", "deviations", "totals", "shares", "near")
    }
    file = io.BytesIO()
    np.savez(
        file,
        format=np.int64(_FORMAT),
        names=np.array(own["names"]),
        lengths=np.array(own["lengths"]),
        texts=np.frombuffer(json.dumps(own["texts"]).encode(), np.uint8),
        chance=np.array([] if chance is None else astuple(chance), np.float64),
        questions=np.frombuffer(b"" if questions is None else questions.to_bytes(), np.uint8),
        **text,
        **counts,
        **arrays,
    )
    return file.getvalue()


def unpacked(content: bytes, where: str) -> dict[str, Any]:
    """The attributes that `packed` was given.

    Args:
        content: of the file.
        where: what to call its place in an error.

    Raises:
        DataError: if it is no background, is damaged, or is of another format.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            number = int(stored["format"])
            if number not in (1, _FORMAT):
                raise DataError(f"{where}: a background of another format; make it again")
            found = _first(stored, where) | (_second(stored) if number > 1 else _without(stored))
    except DataError:
        raise
    except UNREADABLE_ARCHIVE as error:
        raise DataError(f"{where}: not a background of questions; make it again") from error
    if not _is_possible(**found):
        raise DataError(f"{where}: not a background of questions; make it again")
    return found


def _first(stored: Mapping[str, Any], where: str) -> dict[str, Any]:
    shortest, middle, longest = stored["lengths"].tolist()
    questions = stored["questions"].tobytes()
    return {
        "names": tuple(stored["names"].tolist()),
        "means": stored["means"],
        "slopes": stored["slopes"],
        "lengths": (shortest, middle, longest),
        "deviations": stored["deviations"],
        "totals": stored["totals"],
        "scorer": str(stored["scorer"]),
        "documents": int(stored["documents"]),
        "questions": Ensemble.from_bytes(questions, where) if questions else None,
    }


def _second(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What the second format has beside it."""
    chance = stored["chance"]
    if not np.isfinite(chance).all():
        raise ValueError("a chance that is not finite")
    kept = None
    if len(chance):
        intercept, best, gap, weak, judged = chance.tolist()
        kept = AnswerChance(intercept, best, gap, weak, int(judged))
    return {
        "shares": stored["shares"],
        "texts": tuple(json.loads(stored["texts"].tobytes())),
        "origin": str(stored["origin"]),
        "made": str(stored["made"]),
        "depth": int(stored["depth"]),
        "chance": kept,
        "near": stored["near"],
    }


def _without(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {"shares": np.ones(len(stored["totals"]))}


def _is_possible(
    *,
    names: tuple[str, ...],
    means: np.ndarray,
    slopes: np.ndarray,
    deviations: np.ndarray,
    lengths: tuple[float, float, float],
    totals: np.ndarray,
    shares: np.ndarray,
    texts: tuple[str, ...] = (),
    near: np.ndarray | None = None,
    depth: int = 100,
    **_: object,
) -> bool:
    """Whether the arrays fit together, and hold what could have been measured."""
    scales = (means, slopes, deviations)
    ascending = (totals, np.zeros(0) if near is None else near)
    return (
        all(own.dtype.kind == "f" for own in (*scales, *ascending, shares, np.array(lengths)))
        and {own.shape for own in scales} == {(len(names),)}
        and all(own.ndim == 1 and not np.isnan(own).any() for own in ascending)
        and all(bool((own[1:] >= own[:-1]).all()) for own in ascending)
        and shares.shape == totals.shape
        and bool(((shares > 0) & (shares <= 1)).all())
        and depth > 0
        and len(texts) in (0, len(totals))
        and all(isinstance(text, str) for text in texts)
        and all(np.isfinite(own).all() for own in (*scales, np.array(lengths)))
        and bool((deviations > 0).all())
        and lengths == tuple(sorted(lengths))
    )
