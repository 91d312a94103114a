"""From requests to rankings, and from rankings to what each service's clients read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from qdrant_client import models

from surprise_rerank._answers import Answer, SearchOptions, SearchSettings, packed_context
from surprise_rerank._candidates import Hit, Ranking, Verdict, verdict_json
from surprise_rerank._documents import encodable, without_title
from surprise_rerank._text_pool import OUTSIDE
from surprise_rerank._text_reranker import TextReranker
from surprise_rerank.connectors.qdrant._highlights import excerpts
from surprise_rerank.connectors.qdrant._lexical import Bm25
from surprise_rerank.connectors.qdrant._search.filters import filter_of
from surprise_rerank.connectors.server._answers import RefusedError, refusing
from surprise_rerank.connectors.server._options import ServerOptions
from surprise_rerank.connectors.server._schemas import (
    DocumentObject,
    RerankRequest,
    ScoreRequest,
    SearchRequest,
    TeiRequest,
)
from surprise_rerank.connectors.server._service import OpenedIndex
from surprise_rerank.connectors.server._work import RequestEncoder
from surprise_rerank.rerank._diversity import falling
from surprise_rerank.rerank._scorers import CosineScorer, DynaMaxScorer

# Is told what an answer took.
Note: TypeAlias = Callable[[Answer], None]

# What each service answers to more than it takes: Jina 422, Text Embeddings Inference 413.
TOO_MANY, TEI_TOO_MANY = 422, 413


def rerank(
    opened: OpenedIndex, body: RerankRequest, encoder: RequestEncoder, note: Note, tenant: str | None
) -> dict[str, Any]:
    """Results and usage of a request in Cohere's or Jina's form."""
    texts, most = texts_of(body), body.max_tokens_per_doc
    if most is not None and (encoder.window is None or most < encoder.window):
        texts = _cut(encoder, texts, most)
    names = [document.id if isinstance(document.id, str) else None for document in body.documents]
    settings = body.search_settings()
    settings.pop("tenant", None)  # it says which vectors are taken
    reranker = opened.reranker_of(tenant)
    ranked = _of_texts(opened, reranker, encoder, note, body.query, texts, names, body.top_n, settings)
    is_outside = ranked.verdict is not None and ranked.verdict.reason == OUTSIDE
    bounded = is_outside or isinstance(reranker.reranker, CosineScorer | DynaMaxScorer)
    folds = body.collapse is not None or opened.reranker.options.collapse is not None
    results: list[dict[str, Any]] = []
    for text, score in zip(ranked, shown_scores(ranked, bounded), strict=True):
        result: dict[str, Any] = {"index": text.position, "relevance_score": score}
        if folds:
            result["duplicates"] = list(text.folded)
        if body.return_documents:
            result["document"] = body.documents[text.position].model_dump(exclude_unset=True)
        results.append(result)
    usage = {"total_tokens": encoder.tokens}
    return {"results": results, "verdict": verdict_json(ranked.verdict), "usage": usage}


def tei_rerank(
    opened: OpenedIndex, body: TeiRequest, encoder: RequestEncoder, note: Note, tenant: str | None
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Ranks of all texts, as clients of Text Embeddings Inference expect them, and the verdict."""
    # Its clients expect a rank for each text, whatever the server's own options are.
    settings: SearchSettings = {"min_percentile": body.min_percentile or 0.0, "diversity": 0.0}
    texts = _cut_as_asked(encoder, body)
    names, reranker = [None] * len(texts), opened.reranker_of(tenant)
    ranked = _of_texts(opened, reranker, encoder, note, body.query, texts, names, None, settings, plain=True)
    scores = [text.score for text in ranked] if body.raw_scores else shown_scores(ranked, bounded=True)
    ranks: list[dict[str, Any]] = [
        {"index": text.position, "score": score} for text, score in zip(ranked, scores, strict=True)
    ]
    if body.return_text:
        for rank in ranks:
            rank["text"] = body.texts[rank["index"]]
    return ranks, verdict_json(ranked.verdict)


def scores(opened: OpenedIndex, body: ScoreRequest, encoder: RequestEncoder, note: Note) -> dict[str, Any]:
    """Similarities of pairs, from 0 to 1, on one scale: no index and no background has a part in them."""
    ranks = replace(opened.bounded, encoder=encoder, options=SearchOptions(), background=None)
    data = []
    for question, texts in body.pairs.items():
        with refusing():
            answer = ranks.answer(question, [text for _, text in texts])
        note(answer)
        for line in answer.shown:
            place, _ = texts[line.position]
            data.append({"index": place, "object": "score", "score": min(max(line.score, 0.0), 1.0)})
    usage = {"prompt_tokens": encoder.tokens, "total_tokens": encoder.tokens}
    return {"object": "list", "data": sorted(data, key=lambda document: document["index"]), "usage": usage}


def _of_texts(
    opened: OpenedIndex,
    reranker: TextReranker,
    encoder: RequestEncoder,
    note: Note,
    question: str,
    texts: Sequence[str],
    ids: Sequence[str | None],
    top_k: int | None,
    settings: SearchSettings,
    *,
    plain: bool = False,
) -> Ranking:
    """Texts in order: by the index's system where it holds all of them, else by similarity from 0 to 1.

    What a system adds is measured over the index's documents, and has no limit and no meaning for others.
    """
    background = reranker.current_background()
    may_be_stored = reranker.stored is None or any(ids) or (background and not background.documents)
    for ranks, is_own in ((reranker, True), (opened.bounded, False)):
        if is_own and not may_be_stored:
            continue
        options = SearchOptions() if plain else ranks.options
        ranks = replace(ranks, encoder=encoder, options=options)
        with refusing():
            answer = ranks.answer(question, texts, ids=ids, top_k=top_k, **settings)
        if not is_own or not answer.pool.outside:
            note(answer)
        if is_own and not answer.pool.outside:
            return answer.shown
    return replace(answer.shown, verdict=Verdict("unknown", None, OUTSIDE))


def search(
    opened: OpenedIndex, body: SearchRequest, encoder: RequestEncoder, note: Note, conditions: int
) -> dict[str, Any]:
    """Hits of a search, and the verdict; beside those of another system, where that was asked for."""
    settings = body.search_settings()
    settings["filter"] = condition_of(body.filter, conditions)
    if body.min_percentile is None:  # the server's holds for every system
        settings["min_percentile"] = opened.pipeline_of().options.min_percentile
    pipeline = replace(opened.pipeline_of(body.system), encoder=encoder)
    other = None if body.compare_with is None else opened.pipeline_of(body.compare_with, "compare_with")
    with refusing():
        answer = pipeline.answer(body.query, body.top_k, **settings)
    note(answer)
    shown = _order(opened, body, body.system, answer.shown)
    if body.tokens is not None:
        shown["packed"] = str(packed_context(answer.shown, body.tokens))
    if other is None:
        return shown
    if other.current_background() is None:  # what the other system cannot measure, it does not refuse
        settings["min_percentile"] = 0.0
    query = answer.query
    if query.dense is None:  # words alone ranked first
        query = replace(other, encoder=encoder).encode([body.query])[0]
    compared = other.answer(query, body.top_k, **settings)
    ranks = {name: rank for rank, name in enumerate(compared.ranking.line_ids, start=1)}
    for hit in shown["results"]:
        hit["rank_compared"] = ranks.get(hit["line_id"])
    return {**shown, "compared": _order(opened, body, body.compare_with, compared.shown)}


def condition_of(values: dict[str, Any] | None, most: int) -> models.Filter | None:
    """The filter of a request; a RefusedError if it is none of Qdrant's, or has more conditions."""
    with refusing("filter: "):
        return None if values is None else filter_of(values, most)


def texts_of(body: RerankRequest) -> list[str]:
    """What is ranked of each document; a RefusedError if one has none of the fields."""
    return [
        _text_of(row, document, body.rank_fields or ["text"]) for row, document in enumerate(body.documents)
    ]


def _text_of(row: int, document: DocumentObject, fields: Sequence[str]) -> str:
    if document.model_fields_set == {"text"} and document.text is not None:
        return document.text  # a string has no other field
    values = {"text": document.text, "id": document.id, **(document.model_extra or {})}
    parts = [value for name in fields if isinstance(value := values.get(name), str)]
    if not parts:
        todo = "a `text`" if fields == ["text"] else "one of the fields in rank_fields"
        raise RefusedError(422, f"documents[{row}] has no string to rank; give it {todo}")
    return encodable("\n".join(parts))


def require_allowed(
    options: ServerOptions, question: str, texts: Sequence[str], name: str, status: int = TOO_MANY
) -> None:
    """Refuse more, or longer texts than the server takes, by a RefusedError of this status."""
    if len(texts) > options.max_documents:
        said = f"{len(texts)} {name}, and at most {options.max_documents} are taken; send fewer"
        raise RefusedError(status, said)
    for row, text in enumerate((question, *texts)):
        if len(text) > options.max_characters:
            which = f"{name}[{row - 1}]" if row else "query"
            said = f"{which} has {len(text)} characters, and at most {options.max_characters} are taken"
            raise RefusedError(status, f"{said}; send passages")


def shown_scores(ranked: Iterable[Hit], bounded: bool = False) -> list[float]:
    """The relevance of ranked texts, with the smallest steps where only it would be equal.

    Several texts may be above all background questions, and a client that sorts again (as
    LlamaIndex's for Text Embeddings Inference) would put them in the order that they came in.

    A percentile, and what is bounded, is shown from 0 to 1.
    """
    texts = list(ranked)
    bounded |= any(text.percentile is not None for text in texts)
    # Above 0 by more than the steps of all documents.
    low, high = (1e-9, 1.0) if bounded else (-math.inf, math.inf)
    relevance = [min(max(text.relevance, low), high) for text in texts]
    return falling(relevance, [text.score for text in texts])


def _cut(encoder: RequestEncoder, texts: Sequence[str], most: int, *, keep_end: bool = False) -> list[str]:
    """The first, or the last, so many tokens of each text."""
    cut = []
    for text, spans in zip(texts, encoder.token_spans(texts), strict=True):
        if len(spans) <= most:
            cut.append(text)
        else:
            cut.append(text[int(spans[-most][0]) :] if keep_end else text[: int(spans[most - 1][1])])
    return cut


def _cut_as_asked(encoder: RequestEncoder, body: TeiRequest) -> list[str]:
    window, keep_end = encoder.window, body.truncation_direction.lower() == "left"
    if window is None or (body.truncate is None and not keep_end):
        return body.texts  # of a longer one, the best passage counts
    if body.truncate is not False:
        return _cut(encoder, body.texts, window, keep_end=keep_end)
    for i, spans in enumerate(encoder.token_spans(body.texts)):
        if len(spans) > window:
            said = f"texts[{i}] has {len(spans)} tokens, and the model reads {window}; send truncate=true"
            raise RefusedError(TEI_TOO_MANY, said)
    return body.texts


def _order(opened: OpenedIndex, body: SearchRequest, system: str | None, shown: Ranking) -> dict[str, Any]:
    results = [
        {**hit.to_json(), "line_id": line_id, "relevance_score": hit.relevance}
        for hit, line_id in zip(shown, shown.line_ids, strict=True)
    ]
    if body.excerpts:
        bodies = [
            without_title(
                document.text, document.title, 0 if document.passage is None else document.passage.start
            )
            for document in shown
        ]
        language = Bm25().language if opened.index is None else opened.index.collection.corpus.language
        for hit, excerpt in zip(results, excerpts(body.query, bodies, language), strict=True):
            hit["excerpt"] = excerpt.to_json()
    return {"system": system or opened.system, "results": results, "verdict": verdict_json(shown.verdict)}
