"""Re-ranking of Qdrant's candidates by the surprise score and by DynaMax.

What docs/api.md lists is public. All else is private, whatever its name, and may change in any release.
"""

from __future__ import annotations

from pathlib import Path as _Path
from typing import TYPE_CHECKING, Any

from surprise_rerank.core._lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank._answers import Answer as Answer
    from surprise_rerank._answers import SearchOptions as SearchOptions
    from surprise_rerank._answers import packed_context as packed_context
    from surprise_rerank._candidates import Candidates as Candidates
    from surprise_rerank._candidates import Hit as Hit
    from surprise_rerank._candidates import Query as Query
    from surprise_rerank._candidates import Ranking as Ranking
    from surprise_rerank._candidates import Verdict as Verdict
    from surprise_rerank._documents import Document as Document
    from surprise_rerank._documents import Passage as Passage
    from surprise_rerank._errors import DataError as DataError
    from surprise_rerank._errors import DatasetError as DatasetError
    from surprise_rerank._errors import EmptySourceError as EmptySourceError
    from surprise_rerank._errors import IndexingError as IndexingError
    from surprise_rerank._errors import IndexMismatchError as IndexMismatchError
    from surprise_rerank._errors import MissingExtraError as MissingExtraError
    from surprise_rerank._errors import ModelError as ModelError
    from surprise_rerank._errors import NoBackgroundError as NoBackgroundError
    from surprise_rerank._errors import NoIndexError as NoIndexError
    from surprise_rerank._errors import NotStoredError as NotStoredError
    from surprise_rerank._errors import StoreError as StoreError
    from surprise_rerank._errors import SurpriseRerankError as SurpriseRerankError
    from surprise_rerank._pipeline import Pipeline as Pipeline
    from surprise_rerank._pipeline import Retriever as Retriever
    from surprise_rerank._places import Place as Place
    from surprise_rerank._text_reranker import TextReranker as TextReranker
    from surprise_rerank.classify._classifier import SurpriseClassifier as SurpriseClassifier
    from surprise_rerank.classify._cluster import SurpriseAssignment as SurpriseAssignment
    from surprise_rerank.classify._cluster import SurpriseKMeans as SurpriseKMeans
    from surprise_rerank.classify.few_shot import FewShotTraining as FewShotTraining
    from surprise_rerank.connectors._document_index import DocumentIndex as DocumentIndex
    from surprise_rerank.connectors._federation import Federation as Federation
    from surprise_rerank.connectors.attached._collection import Collection as Collection
    from surprise_rerank.connectors.attached._opening import open_collection as open_collection
    from surprise_rerank.connectors.qdrant._manifest import IndexOptions as IndexOptions
    from surprise_rerank.connectors.systems._register import System as System
    from surprise_rerank.connectors.systems._register import register_system as register_system
    from surprise_rerank.encoders._adapting import as_encoder as as_encoder
    from surprise_rerank.encoders._endpoint import OpenAIEncoder as OpenAIEncoder
    from surprise_rerank.encoders._function import FunctionEncoder as FunctionEncoder
    from surprise_rerank.encoders._loading import load_encoder as load_encoder
    from surprise_rerank.encoders._paired import PairedEncoder as PairedEncoder
    from surprise_rerank.encoders._passages import Passages as Passages
    from surprise_rerank.encoders.base import Encoder as Encoder
    from surprise_rerank.rerank._diversity import Diversity as Diversity
    from surprise_rerank.rerank._fusion import FusionReranker as FusionReranker
    from surprise_rerank.rerank._scorers import CosineScorer as CosineScorer
    from surprise_rerank.rerank._scorers import DynaMaxScorer as DynaMaxScorer
    from surprise_rerank.rerank._scorers import Reranker as Reranker
    from surprise_rerank.rerank._scorers import Scorer as Scorer
    from surprise_rerank.rerank._surprise import SurpriseReranker as SurpriseReranker
    from surprise_rerank.similarities._dynamax import DynaMax as DynaMax
    from surprise_rerank.similarities._text_similarity import SimilarityReranker as SimilarityReranker
    from surprise_rerank.similarities._text_similarity import TextSimilarity as TextSimilarity
    from surprise_rerank.similarities.table import similarity_names as similarity_names
    from surprise_rerank.surprise._document_table import DocumentTable as DocumentTable
    from surprise_rerank.surprise._document_table import rank_documents as rank_documents
    from surprise_rerank.surprise._ensemble import Ensemble as Ensemble
    from surprise_rerank.surprise.score import Surprise as Surprise
    from surprise_rerank.thresholds._background import QuestionBackground as QuestionBackground

# Module -> its public names. Loaded when first asked for: torch takes seconds, and `--help` does not need it.
_PUBLIC = {
    "_answers": "Answer SearchOptions packed_context",
    "_candidates": "Candidates Hit Query Ranking Verdict",
    "classify._classifier": "SurpriseClassifier",
    "classify._cluster": "SurpriseAssignment SurpriseKMeans",
    "classify.few_shot": "FewShotTraining",
    "connectors.attached._collection": "Collection",
    "connectors._document_index": "DocumentIndex",
    "connectors._federation": "Federation",
    "connectors.attached._opening": "open_collection",
    "connectors.qdrant._manifest": "IndexOptions",
    "connectors.systems._register": "System register_system",
    "_documents": "Document Passage",
    "encoders._adapting": "as_encoder",
    "encoders.base": "Encoder",
    "encoders._endpoint": "OpenAIEncoder",
    "encoders._function": "FunctionEncoder",
    "encoders._loading": "load_encoder",
    "encoders._paired": "PairedEncoder",
    "encoders._passages": "Passages",
    "_errors": "DataError DatasetError EmptySourceError IndexMismatchError IndexingError MissingExtraError "
    "ModelError NoBackgroundError NoIndexError NotStoredError StoreError SurpriseRerankError",
    "_pipeline": "Pipeline Retriever",
    "_places": "Place",
    "rerank._diversity": "Diversity",
    "rerank._fusion": "FusionReranker",
    "rerank._scorers": "CosineScorer DynaMaxScorer Reranker Scorer",
    "rerank._surprise": "SurpriseReranker",
    "similarities._dynamax": "DynaMax",
    "similarities.table": "similarity_names",
    "similarities._text_similarity": "SimilarityReranker TextSimilarity",
    "surprise._document_table": "DocumentTable rank_documents",
    "surprise._ensemble": "Ensemble",
    "surprise.score": "Surprise",
    "_text_reranker": "TextReranker",
    "thresholds._background": "QuestionBackground",
}
_load, _names = lazy_names(__name__, _PUBLIC)
__all__ = [*_names, "__version__"]

# Python started in a checkout finds this folder before the installed package, and then `connectors` and
# `eval` lie beside it instead of in it.
_FOLDER = _Path(__file__).parent
if not (_FOLDER / "connectors").is_dir() and (_FOLDER.parent / "connectors" / "qdrant").is_dir():
    __path__.append(str(_FOLDER.parent))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("surprise-rerank")
    return _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
