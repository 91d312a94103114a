"""What stands for questions where an index's users have not asked any yet: its documents' titles."""

from __future__ import annotations

from qdrant_client import models

from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.schema import DOCUMENT_FIELDS, NUMBER, to_document
from surprise_rerank.connectors.systems.backgrounds import title_questions
from surprise_rerank.errors import DataError


def own_titles(index: QdrantIndex, count: int) -> list[str]:
    """Titles of an index's own documents, or the first sentences of those without one.

    They come from the documents of the smallest point ids, which are hashes: a uniform sample, the same in
    every run and in every engine.

    Args:
        index: open, with or without its model.
        count: how many documents are read; all where there are fewer.

    Raises:
        DataError: if there is no document, or none has a title or a text.
    """
    home = index.storage
    first = None
    if home.manifest.options.passages is not None:  # titles and texts are on a document's first point only
        first = models.Filter(must=[models.FieldCondition(key=NUMBER, match=models.MatchValue(value=0))])
    records = home.engine.smallest(count, DOCUMENT_FIELDS, first)
    if not records:
        raise DataError(f"{index.where} holds no documents yet; index some first")
    titles = title_questions(map(to_document, (record.payload for record in records)), count)
    if not titles:
        raise DataError(
            f"{index.where}: none of {len(records)} documents has a title or a text to take for a question; "
            "give questions"
        )
    return titles
