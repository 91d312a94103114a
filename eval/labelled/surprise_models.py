"""What classification and clustering call the cosine and the models of the surprise score."""

from __future__ import annotations

from collections.abc import Mapping

from surprise_rerank.surprise.score import SurpriseModel

COSINE = "cosine"
SURPRISE: Mapping[str, SurpriseModel] = {
    "surprise": "gaussian",
    "pooled": "pooled",
    "percentile": "percentile",
    "empirical": "empirical",
}
