"""Pipelines and re-rankers of texts over a collection, by the name of their system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from qdrant_client import models

from surprise_rerank.connectors.qdrant.retrievers.dense import SurpriseMode
from surprise_rerank.connectors.qdrant.retrievers.hybrid import HybridRetriever, LexicalIndex
from surprise_rerank.connectors.qdrant.retrievers.stored import StoredCandidates
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.connectors.qdrant.search.searched import Searched
from surprise_rerank.connectors.systems.backgrounds import background_for, load_background
from surprise_rerank.connectors.systems.building import build_system, with_scorers
from surprise_rerank.connectors.systems.built import BuiltSystem
from surprise_rerank.connectors.systems.inputs import inputs_of
from surprise_rerank.connectors.systems.register import SYSTEMS, find_system, resolved
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Pipeline
from surprise_rerank.rerank.diversity import NO_DIVERSITY, Diversity
from surprise_rerank.rerank.rerankers import CosineReranker, Reranker
from surprise_rerank.text_reranker import TextReranker
from surprise_rerank.thresholds.background import QuestionBackground


def pipeline_of(
    index: Searched,
    system: str | None = None,
    *,
    depth: int = 100,
    min_surprise: float | None = None,
    filter: models.Filter | None = None,  # noqa: A002 - the option's name
    mode: SurpriseMode | None = None,
    diversity: Diversity = NO_DIVERSITY,
    scorers: Sequence[object] = (),
    weights: Mapping[str, float] = MappingProxyType({}),
) -> Pipeline:
    """A system as a pipeline, with its background where there is one; see `Collection.pipeline`.

    Raises:
        DataError: if what the system or the mode needs is not there, or min_surprise has no background.
    """
    options = NO_OPTIONS if filter is None else SearchOptions(filter=filter)
    built = build_system(system or inputs_of(index).default, index, options, mode)
    background = background_for(index, built, index.encoder, min_surprise)
    own = with_scorers(built, scorers, weights)
    return pipeline_with(index, own, background, depth, min_surprise, diversity)


def pipeline_with(
    index: Searched,
    built: BuiltSystem,
    background: QuestionBackground | None,
    depth: int,
    min_surprise: float | None,
    diversity: Diversity,
) -> Pipeline:
    """The same of a system that is built, with its background; see `Pipeline`."""
    return Pipeline(
        index.encoder,
        built.retriever,
        built.reranker,
        depth,
        background,
        min_surprise,
        diversity,
        encodes=find_system(built.name).encodes,
    )


def text_reranker_of(
    index: Searched,
    system: str | None = None,
    *,
    min_surprise: float | None = None,
    diversity: Diversity = NO_DIVERSITY,
    scorers: Sequence[object] = (),
    weights: Mapping[str, float] = MappingProxyType({}),
) -> TextReranker:
    """A re-ranker of given texts that fetches the vectors of those that are stored, by their ids.

    Raises:
        DataError: if the system cannot rank given texts or lacks what it needs, or min_surprise has no
            background.
    """
    inputs = inputs_of(index)
    name = system or inputs.default
    chosen = find_system(name)
    if not chosen.ranks_texts:
        able = ", ".join(other.name for other in SYSTEMS.values() if other.ranks_texts)
        raise DataError(f"the system {name!r} ranks inside Qdrant; given texts take one of {able}")
    words: LexicalIndex | None = None
    if chosen.text_reranker and not chosen.fits and not scorers and not weights:
        cosine = name == "cosine"
        reranker: Reranker | None = (
            CosineReranker(index.similarity) if cosine else resolved(chosen.text_reranker)()
        )
        background = load_background(index, name, min_surprise)
    else:
        built = build_system(name, index, of_texts=True)
        background = background_for(index, built, index.encoder, min_surprise)
        built = with_scorers(built, scorers, weights)
        reranker = inputs.surprise_of_texts() if name == "surprise" else built.reranker
        words = built.retriever.lexical if isinstance(built.retriever, HybridRetriever) else None
    if reranker is None:
        raise DataError(
            f"the system {name!r} has no re-ranker, so it cannot rank given texts; choose another"
        )
    stored = StoredCandidates(index, words)
    return TextReranker(index.encoder, reranker, stored, background, min_surprise, diversity=diversity)


def reranker_of_texts(system: str) -> Reranker:
    """What ranks texts without any index.

    Raises:
        DataError: if the system needs an index.
    """
    path = find_system(system).text_reranker
    if not path:
        able = ", ".join(other.name for other in SYSTEMS.values() if other.text_reranker)
        raise DataError(
            f"the system {system!r} needs an index, for the statistics of its documents; give one, or choose "
            f"of {able}"
        )
    reranker: Reranker = resolved(path)()
    return reranker
