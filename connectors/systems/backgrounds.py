"""Backgrounds of other questions, kept beside an index's points: one for each system."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence

from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.systems.register import SYSTEMS
from surprise_rerank.core.extras import pip_line
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError
from surprise_rerank.thresholds.background import QuestionBackground

_SENTENCE_END = re.compile(r"[.!?](?=\s)|\n\s*\n")
_LONGEST = 300  # characters of a first sentence


def load_background(
    index: QdrantIndex, system: str, min_surprise: float | None = None, scorers: Sequence[str] = ()
) -> QuestionBackground | None:
    """The background of a system; None without one, or where it counts words that cannot be asked here.

    Args:
        index: where it is kept.
        system: whose candidates it was made of.
        min_surprise: a threshold that needs it.
        scorers: what the system adds here (`BuiltSystem.scorers`), where it adds several.

    Raises:
        DataError: if a threshold needs one and none can be used, if it has too few questions for the
            threshold, or if the file is damaged.
    """
    content = index.storage.read_file(_file_name(index, system))
    if content is None:
        if min_surprise is None:
            return None
        others = [name for name in SYSTEMS if has_background(index, name)]
        known = f" (there is one for {', '.join(others)})" if others else ""
        raise DataError(
            f"{index.where} has no background of other questions for the system {system!r}{known}, which "
            "min_surprise needs; make one with 'surprise-rerank background set' or store_background"
        )
    background = QuestionBackground.from_bytes(content, f"{index.where}: {_file_name(index, system)}")
    if "bm25" in background.names and scorers and "bm25" not in scorers:
        if min_surprise is None:
            return None
        raise DataError(
            f"the background of {index.where} for {system!r} counts words, which cannot be asked here: "
            f"run {pip_line('edge')}"
        )
    if min_surprise is not None:
        background.check(min_surprise)
    return background


def has_background(index: QdrantIndex, system: str) -> bool:
    """Whether there is one for the system, readable or not."""
    return index.storage.read_file(_file_name(index, system)) is not None


def store_background(index: QdrantIndex, system: str, background: QuestionBackground) -> None:
    """Keep the background of a system, in place of the one that there is."""
    index.storage.write_file(_file_name(index, system), background.to_bytes())


def delete_background(index: QdrantIndex, system: str) -> None:
    """Forget the background of a system; nothing happens where there is none."""
    index.storage.delete_file(_file_name(index, system))


def title_questions(documents: Iterable[Document], count: int = 1000, seed: int = 0) -> list[str]:
    """Titles of another corpus' documents, in place of logged questions.

    A document without a title gives the first sentence of its text.

    Args:
        documents: of a corpus that has nothing to do with the one that is searched; they are read once.
        count: how many are drawn; all where there are fewer.
        seed: of the draw.
    """
    draw = random.Random(seed)
    kept: list[str] = []
    seen = 0
    for document in documents:
        question = " ".join((document.title or _first_sentence(document.text)).split())
        if not question:
            continue
        seen += 1
        if len(kept) < count:
            kept.append(question)
        elif (place := draw.randrange(seen)) < count:  # Vitter's reservoir: each of those seen is as likely
            kept[place] = question
    return kept


def _first_sentence(text: str) -> str:
    start = text.lstrip()[:_LONGEST]
    end = _SENTENCE_END.search(start)
    return start[: end.start() + 1] if end else start


def _file_name(index: QdrantIndex, system: str) -> str:
    record = index.manifest.statistics
    if system == "surprise" and record is not None:
        # Its scores are of one ensemble: with another one they need another background.
        return f"background-{system}-{record.version}.npz"
    return f"background-{system}.npz"
