"""Documents from what people have: tables, folders of files, data sets, collections, Python objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.connectors.readers.fields import Fields as Fields
    from surprise_rerank.connectors.readers.fields import from_iterable as from_iterable
    from surprise_rerank.connectors.readers.files import FileRules as FileRules
    from surprise_rerank.connectors.readers.opening import open_documents as open_documents
    from surprise_rerank.connectors.readers.source import DocumentSource as DocumentSource
    from surprise_rerank.connectors.readers.source import Skipped as Skipped

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "fields": "Fields from_iterable",
        "files": "FileRules",
        "opening": "open_documents",
        "source": "DocumentSource Skipped",
    },
)
