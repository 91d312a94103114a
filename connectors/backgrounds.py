"""Backgrounds of other questions, kept beside an index's points: one for each system."""

from __future__ import annotations

from surprise_rerank.background import QuestionBackground
from surprise_rerank.background_files import from_bytes, to_bytes
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.errors import DataError


def load_background(
    index: DocumentIndex, system: str, min_surprise: float | None = None
) -> QuestionBackground | None:
    """The background of a system; None where the index has none.

    Args:
        index: where it is kept.
        system: whose candidates it was made of.
        min_surprise: a threshold that needs it.

    Raises:
        DataError: if there is none and a threshold needs it, or the file is damaged.
    """
    content = index.files.read_file(_file_name(system))
    if content is None and min_surprise is not None:
        raise DataError(
            f"{index.where} has no background of other questions for the system {system!r}, which "
            "min_surprise needs; make one with 'surprise-rerank background set' or store_background"
        )
    return None if content is None else from_bytes(content, f"{index.where}: {_file_name(system)}")


def store_background(index: DocumentIndex, system: str, background: QuestionBackground) -> None:
    """Keep the background of a system, in place of the one that there is."""
    index.files.write_file(_file_name(system), to_bytes(background))


def delete_background(index: DocumentIndex, system: str) -> None:
    """Forget the background of a system; nothing happens where there is none."""
    index.files.delete_file(_file_name(system))


def _file_name(system: str) -> str:
    return f"background-{system}.npz"
