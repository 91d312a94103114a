"""Documents from what people have: tables, folders of files, saved data sets, collections, Python objects."""

from surprise_rerank.connectors.readers.collection import from_collection
from surprise_rerank.connectors.readers.fields import Fields
from surprise_rerank.connectors.readers.files import FileRules
from surprise_rerank.connectors.readers.iterables import from_iterable
from surprise_rerank.connectors.readers.opening import open_documents
from surprise_rerank.connectors.readers.source import DocumentSource, Skipped

__all__ = [
    "DocumentSource",
    "Fields",
    "FileRules",
    "Skipped",
    "from_collection",
    "from_iterable",
    "open_documents",
]
