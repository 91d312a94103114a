"""Re-ranking of Qdrant's candidates by the surprise score and by DynaMax."""

from __future__ import annotations

import importlib
from pathlib import Path as _Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from surprise_rerank.candidates import Candidates, Query, Ranking
    from surprise_rerank.classify import CosineClassifier, SurpriseClassifier
    from surprise_rerank.cluster import SurpriseAssignment, SurpriseKMeans
    from surprise_rerank.documents import Document
    from surprise_rerank.encoders import load_encoder
    from surprise_rerank.ensemble import Ensemble
    from surprise_rerank.few_shot import FewShotTraining
    from surprise_rerank.fuzzy import DynaMax
    from surprise_rerank.passages import Passage, Passages
    from surprise_rerank.pipeline import Pipeline
    from surprise_rerank.rerank import DynaMaxReranker, FusionReranker, SurpriseReranker
    from surprise_rerank.similarities import similarity_names
    from surprise_rerank.similarity_rerank import SimilarityReranker
    from surprise_rerank.text_similarity import TextSimilarity

# Name -> module. Loaded when first asked for: torch takes seconds, and `--help` does not need it.
_EXPORTS = {
    "Candidates": "candidates",
    "CosineClassifier": "classify",
    "Document": "documents",
    "DynaMax": "fuzzy",
    "DynaMaxReranker": "rerank",
    "Ensemble": "ensemble",
    "FewShotTraining": "few_shot",
    "FusionReranker": "rerank",
    "Passage": "passages",
    "Passages": "passages",
    "Pipeline": "pipeline",
    "Query": "candidates",
    "Ranking": "candidates",
    "SimilarityReranker": "similarity_rerank",
    "SurpriseAssignment": "cluster",
    "SurpriseClassifier": "classify",
    "SurpriseKMeans": "cluster",
    "SurpriseReranker": "rerank",
    "TextSimilarity": "text_similarity",
    "load_encoder": "encoders",
    "similarity_names": "similarities",
}

__all__ = [
    "Candidates",
    "CosineClassifier",
    "Document",
    "DynaMax",
    "DynaMaxReranker",
    "Ensemble",
    "FewShotTraining",
    "FusionReranker",
    "Passage",
    "Passages",
    "Pipeline",
    "Query",
    "Ranking",
    "SimilarityReranker",
    "SurpriseAssignment",
    "SurpriseClassifier",
    "SurpriseKMeans",
    "SurpriseReranker",
    "TextSimilarity",
    "load_encoder",
    "similarity_names",
]

# Python started in a checkout finds this folder before the installed package, and then `connectors` and
# `eval` lie beside it instead of in it.
_FOLDER = _Path(__file__).parent
if not (_FOLDER / "connectors").is_dir() and (_FOLDER.parent / "connectors" / "qdrant").is_dir():
    __path__.append(str(_FOLDER.parent))


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'surprise_rerank' has no attribute {name!r}")
    return getattr(importlib.import_module(f"surprise_rerank.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
