"""Question backgrounds as bytes: .npz archives of plain arrays; nothing in them is executed."""

from __future__ import annotations

import io

import numpy as np

from surprise_rerank.errors import DataError
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.ensemble_files import UNREADABLE
from surprise_rerank.thresholds.background import QuestionBackground

_FORMAT = 1


def to_bytes(background: QuestionBackground) -> bytes:
    """The background as the content of a .npz file; it holds numbers, and no question's text."""
    file = io.BytesIO()
    np.savez(
        file,
        format=np.int64(_FORMAT),
        names=np.array(background.names),
        means=background.means,
        slopes=background.slopes,
        lengths=np.array(background.lengths),
        deviations=background.deviations,
        totals=background.totals,
        scorer=np.str_(background.scorer),
        documents=np.int64(background.documents),
        questions=np.frombuffer(
            b"" if background.questions is None else background.questions.to_bytes(), np.uint8
        ),
    )
    return file.getvalue()


def from_bytes(content: bytes, where: str) -> QuestionBackground:
    """What `to_bytes` gave.

    Args:
        content: the bytes.
        where: what to call their place in an error.

    Raises:
        DataError: if it is no background, is damaged, or is of another format.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            if int(stored["format"]) != _FORMAT:
                raise DataError(f"{where}: a background of another format; make it again")
            shortest, middle, longest = stored["lengths"].tolist()
            made = QuestionBackground(
                names=tuple(stored["names"].tolist()),
                means=stored["means"],
                slopes=stored["slopes"],
                lengths=(shortest, middle, longest),
                deviations=stored["deviations"],
                totals=stored["totals"],
                scorer=str(stored["scorer"]),
                documents=int(stored["documents"]),
                questions=_ensemble(stored["questions"].tobytes(), where),
            )
    except DataError:
        raise
    except UNREADABLE as error:
        raise DataError(f"{where}: not a background of questions; make it again") from error
    _check(made, where)
    return made


def _check(made: QuestionBackground, where: str) -> None:
    """Refuse what `to_bytes` never wrote.

    Raises:
        DataError: if arrays do not fit together, or hold what cannot be.
    """
    k = len(made.names)
    scales = (made.means, made.slopes, made.deviations)
    numbers = (*scales, made.totals, np.array(made.lengths))
    fits = (
        all(own.dtype.kind == "f" for own in numbers)
        and {own.shape for own in scales} == {(k,)}
        and made.totals.ndim == 1
        and all(np.isfinite(own).all() for own in (*scales, numbers[-1]))
        and bool((made.deviations > 0).all())
        and bool((made.totals[1:] >= made.totals[:-1]).all())
        and not np.isnan(made.totals).any()
        and made.lengths == tuple(sorted(made.lengths))
    )
    if not fits:
        raise DataError(f"{where}: not a background of questions; make it again")


def _ensemble(content: bytes, where: str) -> Ensemble | None:
    return Ensemble.from_bytes(content, where) if content else None
