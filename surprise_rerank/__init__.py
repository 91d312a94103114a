"""Re-ranking of Qdrant's candidates by the surprise score and by DynaMax.

What docs/api.md lists is public. All else is private, whatever its name, and may change in any release.
"""

from __future__ import annotations

from pathlib import Path as _Path
from typing import TYPE_CHECKING, Any

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.answers import Answer as Answer
    from surprise_rerank.answers import SearchOptions as SearchOptions
    from surprise_rerank.answers import packed_context as packed_context
    from surprise_rerank.candidates import Candidates as Candidates
    from surprise_rerank.candidates import Hit as Hit
    from surprise_rerank.candidates import Query as Query
    from surprise_rerank.candidates import Ranking as Ranking
    from surprise_rerank.candidates import Verdict as Verdict
    from surprise_rerank.classify.classifier import SurpriseClassifier as SurpriseClassifier
    from surprise_rerank.classify.cluster import SurpriseAssignment as SurpriseAssignment
    from surprise_rerank.classify.cluster import SurpriseKMeans as SurpriseKMeans
    from surprise_rerank.classify.few_shot import FewShotTraining as FewShotTraining
    from surprise_rerank.connectors.attached.collection import Collection as Collection
    from surprise_rerank.connectors.attached.opening import open_collection as open_collection
    from surprise_rerank.connectors.document_index import DocumentIndex as DocumentIndex
    from surprise_rerank.connectors.federation import Federation as Federation
    from surprise_rerank.connectors.qdrant.manifest import IndexOptions as IndexOptions
    from surprise_rerank.connectors.systems.register import System as System
    from surprise_rerank.connectors.systems.register import register_system as register_system
    from surprise_rerank.documents import Document as Document
    from surprise_rerank.documents import Passage as Passage
    from surprise_rerank.encoders.adapting import as_encoder as as_encoder
    from surprise_rerank.encoders.base import Encoder as Encoder
    from surprise_rerank.encoders.endpoint import OpenAIEncoder as OpenAIEncoder
    from surprise_rerank.encoders.function import FunctionEncoder as FunctionEncoder
    from surprise_rerank.encoders.loading import load_encoder as load_encoder
    from surprise_rerank.encoders.paired import PairedEncoder as PairedEncoder
    from surprise_rerank.encoders.passages import Passages as Passages
    from surprise_rerank.errors import DataError as DataError
    from surprise_rerank.errors import DatasetError as DatasetError
    from surprise_rerank.errors import EmptySourceError as EmptySourceError
    from surprise_rerank.errors import IndexingError as IndexingError
    from surprise_rerank.errors import IndexMismatchError as IndexMismatchError
    from surprise_rerank.errors import MissingExtraError as MissingExtraError
    from surprise_rerank.errors import ModelError as ModelError
    from surprise_rerank.errors import NoBackgroundError as NoBackgroundError
    from surprise_rerank.errors import NoIndexError as NoIndexError
    from surprise_rerank.errors import NotStoredError as NotStoredError
    from surprise_rerank.errors import StoreError as StoreError
    from surprise_rerank.errors import SurpriseRerankError as SurpriseRerankError
    from surprise_rerank.pipeline import Pipeline as Pipeline
    from surprise_rerank.pipeline import Retriever as Retriever
    from surprise_rerank.places import Place as Place
    from surprise_rerank.rerank.diversity import Diversity as Diversity
    from surprise_rerank.rerank.fusion import FusionReranker as FusionReranker
    from surprise_rerank.rerank.scorers import CosineScorer as CosineScorer
    from surprise_rerank.rerank.scorers import DynaMaxScorer as DynaMaxScorer
    from surprise_rerank.rerank.scorers import Reranker as Reranker
    from surprise_rerank.rerank.scorers import Scorer as Scorer
    from surprise_rerank.rerank.surprise import SurpriseReranker as SurpriseReranker
    from surprise_rerank.similarities.dynamax import DynaMax as DynaMax
    from surprise_rerank.similarities.table import similarity_names as similarity_names
    from surprise_rerank.similarities.text_similarity import SimilarityReranker as SimilarityReranker
    from surprise_rerank.similarities.text_similarity import TextSimilarity as TextSimilarity
    from surprise_rerank.surprise.document_table import DocumentTable as DocumentTable
    from surprise_rerank.surprise.document_table import rank_documents as rank_documents
    from surprise_rerank.surprise.ensemble import Ensemble as Ensemble
    from surprise_rerank.surprise.score import Surprise as Surprise
    from surprise_rerank.text_reranker import TextReranker as TextReranker
    from surprise_rerank.thresholds.background import QuestionBackground as QuestionBackground

# Module -> its public names. Loaded when first asked for: torch takes seconds, and `--help` does not need it.
_PUBLIC = {
    "answers": "Answer SearchOptions packed_context",
    "candidates": "Candidates Hit Query Ranking Verdict",
    "classify.classifier": "SurpriseClassifier",
    "classify.cluster": "SurpriseAssignment SurpriseKMeans",
    "classify.few_shot": "FewShotTraining",
    "connectors.attached.collection": "Collection",
    "connectors.document_index": "DocumentIndex",
    "connectors.federation": "Federation",
    "connectors.attached.opening": "open_collection",
    "connectors.qdrant.manifest": "IndexOptions",
    "connectors.systems.register": "System register_system",
    "documents": "Document Passage",
    "encoders.adapting": "as_encoder",
    "encoders.base": "Encoder",
    "encoders.endpoint": "OpenAIEncoder",
    "encoders.function": "FunctionEncoder",
    "encoders.loading": "load_encoder",
    "encoders.paired": "PairedEncoder",
    "encoders.passages": "Passages",
    "errors": "DataError DatasetError EmptySourceError IndexMismatchError IndexingError MissingExtraError "
    "ModelError NoBackgroundError NoIndexError NotStoredError StoreError SurpriseRerankError",
    "pipeline": "Pipeline Retriever",
    "places": "Place",
    "rerank.diversity": "Diversity",
    "rerank.fusion": "FusionReranker",
    "rerank.scorers": "CosineScorer DynaMaxScorer Reranker Scorer",
    "rerank.surprise": "SurpriseReranker",
    "similarities.dynamax": "DynaMax",
    "similarities.table": "similarity_names",
    "similarities.text_similarity": "SimilarityReranker TextSimilarity",
    "surprise.document_table": "DocumentTable rank_documents",
    "surprise.ensemble": "Ensemble",
    "surprise.score": "Surprise",
    "text_reranker": "TextReranker",
    "thresholds.background": "QuestionBackground",
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
