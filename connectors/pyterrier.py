"""PyTerrier: a transformer that re-ranks result frames, and one that retrieves. Neither starts Java."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from surprise_rerank.candidates import Hit, Verdict
from surprise_rerank.connectors.attached.settings import PipelineSettings
from surprise_rerank.core.arrays import IntArray
from surprise_rerank.core.extras import pip_line
from surprise_rerank.errors import DataError, MissingExtraError
from surprise_rerank.pipeline import Pipeline
from surprise_rerank.rerank.diversity import falling
from surprise_rerank.text_reranker import RankedText, TextReranker

try:
    import pandas as pd
    import pyterrier as pt
except ImportError as error:
    raise MissingExtraError(f"pyterrier is not installed: run {pip_line('pyterrier')}") from error

_OURS = ("score", "rank", "surprise", "surprise_verdict")


class SurpriseTransformer(pt.Transformer):
    """Puts the documents of every query in order: result frame in, result frame out.

    `score` is the re-ranker's, by which PyTerrier orders, `rank` begins at 0; where the re-ranker has a
    background of other questions, the columns `surprise` and `surprise_verdict` (the status of the query's
    verdict) are beside them. With diversity, a document that comes after one of a smaller score has the next
    number below that. Rows come best first, queries as they came. Documents whose `docno` is stored are not
    encoded: their vectors are fetched.

    Args:
        reranker: of texts.
        text_field: the column of the texts.

    Attributes:
        reranker: the same.
        text_field: the same.
    """

    def __init__(self, reranker: TextReranker, *, text_field: str = "text") -> None:
        self.reranker = reranker
        self.text_field = text_field

    @classmethod
    def load(cls, *, text_field: str = "text", **settings: Any) -> SurpriseTransformer:
        """One made of names and numbers.

        Args:
            text_field: the column of the texts.
            settings: of `attached.settings.PipelineSettings`: index, system, min_surprise, diversity, ...

        Raises:
            SurpriseRerankError: as `PipelineSettings.text_reranker`.
        """
        return cls(
            PipelineSettings.of(settings, cls.__name__, ["text_field"]).text_reranker(), text_field=text_field
        )

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The rows with new `score` and `rank`; without those that are not surprising enough, if asked for.

        Args:
            inp: the columns qid, docno, query and text, and any others, which are kept.

        Raises:
            pt.validate.InputValidationError: if a column is missing.
            DataError: if a text or a query is no string.
        """
        pt.validate.result_frame(inp, extra_columns=["query", self.text_field], context=self)
        queries, texts, names = inp["query"].array, inp[self.text_field].tolist(), inp["docno"].tolist()
        rows: list[int] = []
        ranks: list[int] = []
        scores: list[float] = []
        lines: list[RankedText] = []
        verdicts: list[Verdict | None] = []
        for own in _rows_of_queries(inp["qid"].tolist()):
            ids = [names[i] if isinstance(names[i], str) else None for i in own]
            ranked = self.reranker.rank(queries[own[0]], [texts[i] for i in own], ids=ids)
            rows += [own[line.position] for line in ranked]
            ranks += _ranks(len(ranked))
            scores += falling([line.score for line in ranked])
            lines += ranked
            verdicts += [ranked.verdict] * len(ranked)
        columns = _taken(inp, np.array(rows, dtype=np.int64), _OURS)
        judged = {} if self.reranker.background is None else _judged(lines, verdicts)
        return _frame(columns, scores, ranks, judged)

    def schematic(self, *, input_columns: list[str] | None = None) -> dict[str, Any]:
        """What PyTerrier draws of it, without looking for it in PyTerrier's own documentation on the web.

        Args:
            input_columns: not used.
        """
        return {"label": "SurpriseTransformer", "help_url": None, "settings": {"text_field": self.text_field}}

    def __repr__(self) -> str:
        return "SurpriseTransformer()"


class SurpriseRetriever(pt.Transformer):
    """What a pipeline finds for every query: query frame in, result frame out.

    The result frame has the columns of the queries, and docno, text (the best passage, or the whole where
    there are no passages), score, rank, and where the pipeline has a background surprise and
    surprise_verdict, the status of the query's verdict.

    Args:
        pipeline: that is searched.
        num_results: the most documents for a query.

    Attributes:
        pipeline: the same.
        num_results: the same.

    Raises:
        DataError: if num_results is not positive.
    """

    def __init__(self, pipeline: Pipeline, *, num_results: int = 100) -> None:
        if num_results < 1:
            raise DataError(f"num_results must be at least 1, got {num_results}")
        self.pipeline = pipeline
        self.num_results = num_results

    @classmethod
    def load(cls, *, num_results: int = 100, **settings: Any) -> SurpriseRetriever:
        """One made of names and numbers.

        Args:
            num_results: the most documents for a query.
            settings: of `attached.settings.PipelineSettings`: index or url, system, depth, min_surprise,
                diversity, ...

        Raises:
            SurpriseRerankError: as `PipelineSettings.pipeline`.
        """
        return cls(
            PipelineSettings.of(settings, cls.__name__, ["num_results"]).pipeline(), num_results=num_results
        )

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The results of every row, in the order of the rows.

        Args:
            inp: the columns qid and query, and any others, which are kept.

        Raises:
            pt.validate.InputValidationError: if a column is missing, or these are results already.
            DataError: if a query is no string.
        """
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        rankings = [self.pipeline.search(query, self.num_results) for query in inp["query"]]
        counts = [len(ranking) for ranking in rankings]
        hits = [hit for ranking in rankings for hit in ranking]
        columns = _taken(inp, np.repeat(np.arange(len(inp)), counts), ("text", *_OURS))
        columns["docno"] = pd.Series([hit.id for hit in hits], dtype=str)
        columns["text"] = pd.Series([hit.text for hit in hits], dtype=str)
        ranks = [rank for n in counts for rank in _ranks(n)]
        verdicts = [ranking.verdict for ranking in rankings for _ in ranking.ids]
        judged = {} if self.pipeline.background is None else _judged(hits, verdicts)
        scores = [own for ranking in rankings for own in falling(ranking.scores.tolist())]
        return _frame(columns, scores, ranks, judged)

    def schematic(self, *, input_columns: list[str] | None = None) -> dict[str, Any]:
        """What PyTerrier draws of it, without looking for it in PyTerrier's own documentation on the web.

        Args:
            input_columns: not used.
        """
        return {"label": "SurpriseRetriever", "help_url": None, "settings": {"num_results": self.num_results}}

    def __repr__(self) -> str:
        return f"SurpriseRetriever(num_results={self.num_results})"


def _rows_of_queries(qids: Sequence[Hashable]) -> list[list[int]]:
    """The rows of every query, in the order that the queries come in."""
    rows: dict[Hashable, list[int]] = {}
    for row, qid in enumerate(qids):
        rows.setdefault(qid, []).append(row)
    return list(rows.values())


def _ranks(count: int) -> range:
    return range(pt.model.FIRST_RANK, pt.model.FIRST_RANK + count)


def _taken(frame: pd.DataFrame, rows: IntArray, without: Sequence[str]) -> dict[Hashable, Any]:
    """Columns of their own; one by one takes half the time of `iloc`, `drop` and assignments."""
    return {name: frame[name].array.take(rows) for name in frame.columns if name not in without}


def _judged(lines: Sequence[RankedText | Hit], verdicts: Sequence[Verdict | None]) -> dict[Hashable, Any]:
    """The columns that a background gives."""
    status = [None if own is None else own.status for own in verdicts]
    return {
        "surprise": np.array([line.surprise for line in lines], dtype=np.float64),
        "surprise_verdict": pd.Series(status, dtype=object),
    }


def _frame(
    columns: dict[Hashable, Any],
    scores: Sequence[float],
    ranks: Sequence[int],
    judged: Mapping[Hashable, Any],
) -> pd.DataFrame:
    """These columns and ours, in a frame that shares no memory with another."""
    made: dict[Hashable, Any] = {
        **columns,
        "score": np.array(scores, dtype=np.float64),
        "rank": np.array(ranks, dtype=np.int64),
        **judged,
    }
    return pd.DataFrame(made, copy=False)
