"""Documents from what people have: tables, folders of files, data sets, collections, Python objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core._lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.connectors.readers._fields import Fields as Fields
    from surprise_rerank.connectors.readers._fields import from_iterable as from_iterable
    from surprise_rerank.connectors.readers._files import FileRules as FileRules
    from surprise_rerank.connectors.readers._opening import open_documents as open_documents
    from surprise_rerank.connectors.readers._source import DocumentSource as DocumentSource
    from surprise_rerank.connectors.readers._source import Skipped as Skipped

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "_fields": "Fields from_iterable",
        "_files": "FileRules",
        "_opening": "open_documents",
        "_source": "DocumentSource Skipped",
    },
)
