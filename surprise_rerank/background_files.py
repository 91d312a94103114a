"""Question backgrounds as bytes: .npz archives of plain arrays; nothing in them is executed."""

from __future__ import annotations

import io
import zipfile
import zlib

import numpy as np

from surprise_rerank.background import QuestionBackground
from surprise_rerank.ensemble import Ensemble
from surprise_rerank.errors import DataError

_FORMAT = 1
_UNREADABLE = (
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


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
    except _UNREADABLE as error:
        raise DataError(f"{where}: not a background of questions; make it again") from error
    k = len(made.names)
    if {made.means.shape, made.slopes.shape, made.deviations.shape} != {(k,)} or made.totals.ndim != 1:
        raise DataError(f"{where}: its arrays do not fit together; make the background again")
    return made


def _ensemble(content: bytes, where: str) -> Ensemble | None:
    return Ensemble.from_bytes(content, where) if content else None
