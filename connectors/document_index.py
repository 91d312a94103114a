"""The index that users open: documents in Qdrant, and what ranks them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from surprise_rerank.connectors.qdrant.index import QdrantIndex, exclusive, given_model, new_version
from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.connectors.qdrant.manifest import IndexOptions, Manifest
from surprise_rerank.connectors.qdrant.writing.indexing import SyncReport
from surprise_rerank.connectors.ranked import Ranked
from surprise_rerank.connectors.systems.backgrounds import look_after_backgrounds, measure_again
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import Encoded


class DocumentIndex(QdrantIndex, Ranked):
    """Documents with their dense vectors and token vectors, in one collection of Qdrant.

    Use `DocumentIndex.open`; the index is a context manager. `docs/indexing.md` has examples.
    """

    @exclusive
    def sync(
        self,
        documents: Iterable[Document],
        *,
        prune: bool = False,
        encoded: Encoded | None = None,
        on_progress: Callable[[int], None] | None = None,
        show_progress: bool = False,
        background: bool = True,
    ) -> SyncReport:
        """Bring the index up to date: only new and changed documents are encoded and stored.

        After an interruption the next call continues. `prune` removes stored documents that are not among
        these, of the sources that these name. `encoded` are vectors that exist already; no document is split
        then. Then backgrounds are measured that are missing or stale.

        Raises:
            DataError: if an id occurs twice or metadata is not JSON; what was stored before stays.
            IndexMismatchError: if the encoder computes in another precision than the index holds.
            IndexingError: if documents cannot be stored; names those that are not, the others are.
        """
        how: dict[str, Any] = {"prune": prune, "encoded": encoded, "on_progress": on_progress}
        report = super().sync(documents, **how, show_progress=show_progress)
        if background:
            changed, begun = report.added + report.updated + report.removed, time.perf_counter()
            look_after_backgrounds(self, changed, show_progress=show_progress)
            return replace(report, background_seconds=time.perf_counter() - begun)
        return report

    @exclusive
    def rebuild(
        self,
        documents: Iterable[Document],
        *,
        encoder: object | None = None,
        token_encoder: object | None = None,
        options: IndexOptions | None = None,
        collection_settings: Mapping[str, Any] | None = None,
        show_progress: bool = False,
        background: bool = True,
    ) -> SyncReport:
        """Index all documents again into a new version, and replace this one by it in one step.

        Until then this version answers. After an error it stays in use, and another call continues. Models
        and options are as for `open`, or those of now. The ensemble stays if the model does; the questions
        of backgrounds are asked again.

        Raises:
            IndexingError: if documents cannot be stored.
        """
        before = self.backgrounds() if background else {}
        how: dict[str, Any] = {"encoder": encoder, "token_encoder": token_encoder, "options": options}
        how |= {"collection_settings": collection_settings, "show_progress": show_progress}
        report = super().rebuild(documents, **how)
        if background:
            begun = time.perf_counter()
            measure_again(self, before, show_progress=show_progress)
            return replace(report, background_seconds=time.perf_counter() - begun)
        return report

    @classmethod
    def renew(
        cls,
        location: Location | str | os.PathLike[str],
        documents: Iterable[Document],
        encoder: object,
        *,
        token_encoder: object | None = None,
        options: IndexOptions | None = None,
        collection_settings: Mapping[str, Any] | None = None,
        show_progress: bool = False,
        background: bool = True,
    ) -> SyncReport:
        """Put a new index into the place of one that cannot be opened: it is of another schema, or damaged.

        The arguments are those of `open` and `sync`. The old one stays until the new one is complete.

        Raises:
            NoIndexError: if there is none.
            IndexingError: if documents cannot be stored; another call continues.
        """
        model = given_model(encoder, token_encoder)
        assert model is not None
        made = new_version(location, Manifest.of(model, options), collection_settings or {})
        with cls(made, model) as index:
            report = index.sync(documents, prune=True, show_progress=show_progress, background=background)
            made.promote()
            made.drop_others()
        return report
