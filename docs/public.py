"""What is public, and where each name is imported from: docs/api.md lists it, the site has pages of it."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

# Package -> the title of its page, in the order of pages. Public are its `__all__`, and what MODULES names.
PACKAGES = {
    "surprise_rerank": "Documents, pipelines, errors",
    "surprise_rerank.encoders": "Encoders",
    "surprise_rerank.surprise": "Surprise",
    "surprise_rerank.similarities": "Similarities",
    "surprise_rerank.rerank": "Re-rankers",
    "surprise_rerank.thresholds": "Thresholds",
    "surprise_rerank.classify": "Classification and clustering",
    "surprise_rerank.core": "Arrays and tokens",
    "surprise_rerank.connectors.qdrant": "Qdrant",
    "surprise_rerank.connectors.attached": "Collections that others made",
    "surprise_rerank.connectors.systems": "Systems",
    "surprise_rerank.connectors.readers": "Readers of documents",
    "surprise_rerank.connectors": "Hosts",
    "surprise_rerank.connectors.server": "The server",
    "surprise_rerank.connectors.similar": "Similar documents",
}
MODULES = {
    "surprise_rerank.encoders": """
        base.Encoded base.TokenEncoder base.encode_queries multi_vector.MultiVectorEncoder
        static.StaticEncoder transformer.SentenceTransformerEncoder
        static.WordVectors static.load_word_vectors""",
    "surprise_rerank.surprise": """
        anchor_scores.AnchorScores linear_form.LinearForm linear_form.augmented_documents
        linear_form.augmented_query neighbours.Neighbours neighbours.nearest sampled.SampledEnsemble
        score.SurpriseScores score.crossover_weight score.empirical_probability score.log_survival
        score.normalized_similarity score.normalized_similarity_exact score.probability
        score.probability_by_definition score.z_scores""",
    "surprise_rerank.similarities": """
        definitions.Similarity definitions.WordStatistics table.NamedSimilarity table.find_similarity""",
    "surprise_rerank.thresholds": "varied_questions.varied_questions",
    "surprise_rerank.classify": "few_shot.TrainingHistory",
    "surprise_rerank.core": """
        arrays.pair_similarities arrays.unit_rows moments.Moments tokens.TokenBatch tokens.pooled_tokens""",
    "surprise_rerank.connectors": """
        langchain.SurpriseRerank langchain.SurpriseRetriever llama_index.SurpriseRerank
        llama_index.SurpriseRetriever haystack.SurpriseRanker haystack.SurpriseRetriever
        rerankers.SurpriseRanker pyterrier.SurpriseTransformer pyterrier.SurpriseRetriever mteb.SurpriseSearch
        mcp.mcp_server""",
}


def public_names() -> dict[str, dict[str, str]]:
    """Package -> full name, such as surprise_rerank._pipeline.Pipeline -> the shortest name to import it by.

    Each class and function is listed once, where PACKAGES first names it.
    """
    names_of: dict[str, dict[str, str]] = {}
    listed: set[str] = set()
    for package in PACKAGES:
        names_of[package] = {}
        for name in getattr(importlib.import_module(package), "__all__", ()):
            path = f"{package}.{name}"
            value = public_value(path)
            full = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
            # Constants and aliases of types are described where they are used.
            if full.startswith("surprise_rerank") and full not in listed:
                listed.add(full)
                names_of[package][full] = path
        # These are named where they are defined, so that hosts, which take seconds, are not imported.
        defined = (f"{package}.{name}" for name in MODULES.get(package, "").split())
        names_of[package] |= {path: path for path in defined if path not in listed}
    return names_of


def public_value(path: str) -> Any:
    """The class or function that has this import path."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def face_rows() -> list[list[str]]:
    """A row for each name of `surprise_rerank` itself, with its docstring's first line."""
    rows = [["from surprise_rerank import", ""]]
    for name in sorted(
        set(importlib.import_module("surprise_rerank").__all__) - {"__version__"}, key=str.lower
    ):
        described = inspect.getdoc(public_value(f"surprise_rerank.{name}")) or ""
        rows.append([f"`{name}`", described.split("\n")[0]])
    return rows


def module_rows() -> list[list[str]]:
    """A row for each other module that has public names."""
    names_of: dict[str, list[str]] = {}
    for names in public_names().values():
        for path in sorted(names.values(), key=str.lower):
            module, _, name = path.rpartition(".")
            names_of.setdefault(module, []).append(f"`{name}`")
    del names_of["surprise_rerank"]
    return [["from", "import"], *([f"`{module}`", ", ".join(names)] for module, names in names_of.items())]
