"""From requests to rankings, and from rankings to what each service's clients read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from qdrant_client import models

from surprise_rerank.candidates import Hit, Query, Ranking, verdict_json
from surprise_rerank.connectors.highlights import excerpts
from surprise_rerank.connectors.qdrant.search.filters import filter_of
from surprise_rerank.connectors.server.answers import RefusedError
from surprise_rerank.connectors.server.options import ServerOptions
from surprise_rerank.connectors.server.schemas import DocumentObject, RerankRequest, SearchRequest, TeiRequest
from surprise_rerank.connectors.server.service import Opened, threshold, varied
from surprise_rerank.connectors.server.work import RequestEncoder
from surprise_rerank.documents import encodable, without_title
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Pipeline, encoded_question, first_of, outcome, searching
from surprise_rerank.rerank.diversity import NO_DIVERSITY
from surprise_rerank.text_reranker import RankedText

# What each service answers to more than it takes: Jina 422, Text Embeddings Inference 413.
TOO_MANY, TEI_TOO_MANY = 422, 413

# Levels of a document's fields: writing them goes as deep as they are.
_DEEPEST = 100


def rerank(opened: Opened, asked: RerankRequest, encoder: RequestEncoder) -> dict[str, Any]:
    """Results and usage of a request in Cohere's or Jina's form.

    Raises:
        RefusedError: if a document has no text, or the surprise that is asked for cannot be measured.
    """
    reranker = opened.reranker
    least = threshold(asked.min_surprise, reranker.min_surprise, reranker.background)
    texts = texts_of(asked)
    most = asked.max_tokens_per_doc
    if most is not None and (encoder.window is None or most < encoder.window):
        texts = shortened(encoder, texts, most)
    ids = [_stored_id(document) for document in asked.documents]
    known = ids if any(ids) else None
    shown = varied(asked, reranker.diversity)
    ranked = opened.rerank(asked.query, texts, known, asked.top_n, least, shown, encoder)
    results: list[dict[str, Any]] = [
        {"index": text.position, "relevance_score": score}
        for text, score in zip(ranked, falling(ranked), strict=True)
    ]
    if shown.collapse is not None:
        for result, text in zip(results, ranked, strict=True):
            result["duplicates"] = list(text.folded)
    if asked.return_documents:
        for result in results:
            result["document"] = _shown(asked.documents[result["index"]])
    return {
        "results": results,
        "verdict": verdict_json(ranked.verdict),
        "usage": {"total_tokens": encoder.tokens},
    }


def tei_rerank(
    opened: Opened, asked: TeiRequest, encoder: RequestEncoder
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Ranks of all texts, as clients of Text Embeddings Inference expect them, and the verdict.

    Raises:
        RefusedError: if a text is too long and may not be cut, or the surprise asked for cannot be told.
    """
    reranker = opened.reranker
    least = threshold(asked.min_surprise, None, reranker.background)
    texts = _cut_as_asked(encoder, asked)
    ranked = opened.rerank(asked.query, texts, None, None, least, NO_DIVERSITY, encoder)
    scores = [text.score for text in ranked] if asked.raw_scores else falling(ranked, 0.0, 1.0)
    ranks: list[dict[str, Any]] = [
        {"index": text.position, "score": score} for text, score in zip(ranked, scores, strict=True)
    ]
    if asked.return_text:
        for rank in ranks:
            rank["text"] = asked.texts[rank["index"]]
    return ranks, verdict_json(ranked.verdict)


def search(opened: Opened, asked: SearchRequest, encoder: RequestEncoder) -> dict[str, Any]:
    """Hits of a search, and the verdict; beside those of another system, where that was asked for.

    Raises:
        RefusedError: if there is no index or system, the filter is none, or the surprise that is asked for
            cannot be measured.
    """
    condition = condition_of(asked.filter)
    own = replace(opened.pipeline_of(asked.system), encoder=encoder)
    other = None if asked.compare_with is None else opened.pipeline_of(asked.compare_with)
    least = threshold(asked.min_surprise, opened.pipeline_of().min_surprise, own.background)
    with searching(asked.top_k) as counts:
        query = encoded_question(encoder, asked.query)
        shown, _ = _ranked(own, query, asked, condition, least)
        counts.update(outcome(shown))
    if other is None:
        return _order(opened, asked, asked.system or opened.system, shown)
    # What the other system cannot measure, it does not refuse.
    able = least if other.background is not None and least is not None else None
    compared, pool = _ranked(replace(other, encoder=encoder), query, asked, condition, able)
    ranks = {name: rank for rank, name in enumerate(pool.ids, start=1)}
    found = _order(opened, asked, asked.system or opened.system, shown)
    for hit in found["results"]:
        hit["rank_compared"] = ranks.get(hit["id"])
    assert asked.compare_with is not None
    return {**found, "compared": _order(opened, asked, asked.compare_with, compared)}


def condition_of(values: dict[str, Any] | None) -> models.Filter | None:
    """The filter of a request.

    Raises:
        RefusedError: if it is none of Qdrant's; names what is wrong.
    """
    if values is None:
        return None
    if not _is_shallow([values]):
        raise RefusedError(422, f"filter has more than {_DEEPEST} levels; send a flatter one")
    try:
        return filter_of(values)
    except DataError as error:
        raise RefusedError(422, f"filter: {error}") from error


def _ranked(
    pipeline: Pipeline,
    query: Query,
    asked: SearchRequest,
    condition: models.Filter | None,
    least: float | None,
) -> tuple[Ranking, Ranking]:
    """What a request is shown of a pool, and all of it."""
    try:
        pipeline = replace(pipeline.changed(filter=condition), min_surprise=least)
    except DataError as error:
        raise RefusedError(422, f"filter: {error}") from error
    diversity = varied(asked, pipeline.diversity)
    depth = max(asked.depth or pipeline.depth, asked.top_k)
    pool, ranking = pipeline.pooled(query, depth, diversity.needs | {"documents"}, top_k=asked.top_k)
    kept = None if asked.keep_refused else least
    return first_of(ranking, pool, diversity, asked.top_k, kept), ranking


def _order(opened: Opened, asked: SearchRequest, system: str, shown: Ranking) -> dict[str, Any]:
    results = [_hit(hit) for hit in shown]
    if asked.excerpts:
        starts = [0 if hit["passage"] is None else hit["passage"]["start"] for hit in results]
        bodies = [
            without_title(hit["text"], hit["title"], start)
            for hit, start in zip(results, starts, strict=True)
        ]
        found = excerpts(asked.query, bodies, opened.language)
        for hit, excerpt in zip(results, found, strict=True):
            hit["excerpt"] = excerpt.to_json()
    return {"system": system, "results": results, "verdict": verdict_json(shown.verdict)}


def texts_of(asked: RerankRequest) -> list[str]:
    """What is ranked of each document.

    Raises:
        RefusedError: if one has none of the fields.
    """
    fields = asked.rank_fields or ["text"]
    texts = []
    for i, document in enumerate(asked.documents):
        if isinstance(document, str):
            texts.append(document)
            continue
        given = {"text": document.text, "id": document.id, **(document.model_extra or {})}
        parts = [value for name in fields if isinstance(value := given.get(name), str)]
        if not parts:
            todo = (
                "one of the fields in rank_fields"
                if asked.rank_fields
                else "`text`, or name other fields in rank_fields"
            )
            raise RefusedError(422, f"documents[{i}] has no string to rank; give it {todo}")
        texts.append(encodable("\n".join(parts)))
    return texts


def require_allowed(
    options: ServerOptions, question: str, texts: Sequence[str], name: str, status: int = TOO_MANY
) -> None:
    """Refuse more, or longer texts than the server takes.

    Raises:
        RefusedError: with this status.
    """
    if len(texts) > options.max_documents:
        raise RefusedError(
            status, f"{len(texts)} {name}, and at most {options.max_documents} are taken; send fewer"
        )
    lengths = {"query": len(question), **{f"{name}[{i}]": len(text) for i, text in enumerate(texts)}}
    long = next((own for own, length in lengths.items() if length > options.max_characters), None)
    if long is not None:
        raise RefusedError(
            status,
            f"{long} has {lengths[long]} characters, and at most {options.max_characters} are taken; "
            "send passages",
        )


def require_shallow(documents: Sequence[str | DocumentObject]) -> None:
    """Refuse fields that are nested deeper than an answer can be written.

    Raises:
        RefusedError: with status 422.
    """
    for i, document in enumerate(documents):
        if isinstance(document, str):
            continue
        if not _is_shallow([document.id, *(document.model_extra or {}).values()]):
            raise RefusedError(
                422, f"documents[{i}] has fields of more than {_DEEPEST} levels; send flatter ones"
            )


def shortened(encoder: Encoder, texts: Sequence[str], most: int, *, keep_end: bool = False) -> list[str]:
    """The first, or the last, so many tokens of each text."""
    cut = []
    for text, spans in zip(texts, encoder.token_spans(texts), strict=True):
        if len(spans) <= most:
            cut.append(text)
        else:
            cut.append(text[int(spans[-most][0]) :] if keep_end else text[: int(spans[most - 1][1])])
    return cut


def falling(ranked: Sequence[RankedText], low: float = -math.inf, high: float = math.inf) -> list[float]:
    """The relevance of ranked texts within bounds, with the smallest steps where only it would be equal.

    Several texts may be more surprising than all background questions, and a client that sorts again (as
    LlamaIndex's for Text Embeddings Inference) would put them in the order that they came in.

    Args:
        ranked: best first.
        low: the least that is shown.
        high: the most.
    """
    # Where different documents come first, none is shown with more than the one before it.
    shown = list(itertools.accumulate((min(max(text.relevance, low), high) for text in ranked), min))
    steps = [upper.score != lower.score for upper, lower in itertools.pairwise(ranked)]
    for i in reversed(range(len(steps))):
        shown[i] = max(shown[i], math.nextafter(shown[i + 1], math.inf) if steps[i] else shown[i + 1])
    if shown:
        shown[0] = min(shown[0], high)
    for i, step in enumerate(steps):
        shown[i + 1] = min(shown[i + 1], math.nextafter(shown[i], -math.inf) if step else shown[i])
    return shown


def _cut_as_asked(encoder: RequestEncoder, asked: TeiRequest) -> list[str]:
    window, keep_end = encoder.window, asked.truncation_direction.lower() == "left"
    if window is None or (asked.truncate is None and not keep_end):
        return asked.texts  # of a longer one, the best passage counts
    if asked.truncate is False:
        for i, spans in enumerate(encoder.token_spans(asked.texts)):
            if len(spans) > window:
                raise RefusedError(
                    TEI_TOO_MANY,
                    f"texts[{i}] has {len(spans)} tokens, and the model reads {window}; send truncate=true",
                )
        return asked.texts
    return shortened(encoder, asked.texts, window, keep_end=keep_end)


def _stored_id(document: str | DocumentObject) -> str | None:
    name = None if isinstance(document, str) else document.id
    return encodable(name) if isinstance(name, str) else None


def _is_shallow(values: Sequence[Any]) -> bool:
    for _ in range(_DEEPEST + 1):
        inner = [value for value in values if isinstance(value, Mapping | list)]
        if not inner:
            return True
        values = [own for value in inner for own in (value.values() if isinstance(value, Mapping) else value)]
    return False


def _shown(document: str | DocumentObject) -> Mapping[str, Any]:
    return {"text": document} if isinstance(document, str) else document.model_dump(exclude_unset=True)


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.id,
        "relevance_score": hit.relevance,
        "score": hit.score,
        "surprise": hit.surprise,
        "title": hit.title,
        "text": hit.text,
        "passage": None if hit.passage is None else asdict(hit.passage),
        "metadata": dict(hit.metadata),
        "parts": dict(hit.parts),
        "duplicates": list(hit.duplicates),
    }
