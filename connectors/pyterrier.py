"""PyTerrier: a transformer that re-ranks result frames, and one that retrieves. Neither starts Java."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from surprise_rerank import _border as border
from surprise_rerank._candidates import Ranking
from surprise_rerank._pipeline import Pipeline
from surprise_rerank._text_reranker import TextReranker
from surprise_rerank.connectors._components import PERCENTILE, VERDICT, LoadedAdapter, judgement
from surprise_rerank.core._extras import importing
from surprise_rerank.rerank._diversity import falling

with importing("pyterrier"):
    import pandas as pd
    import pyterrier as pt

_RANKED = {"score": "float64", "rank": "int64"}
_JUDGED = {PERCENTILE: "float64", VERDICT: "object"}


class SurpriseTransformer(LoadedAdapter, pt.Transformer):
    """Puts the documents of every query in order: result frame in, result frame out.

    `score` is the re-ranker's, by which PyTerrier orders; with diversity, a document that comes after one of
    a smaller score has the next number below that. With a background the columns `percentile` and
    `rerank_verdict` are beside it. Rows come best first, queries as they came. `text_field` is the column
    of the texts. `load(index=..., system=...)` makes one of names.
    """

    _argument: ClassVar = "reranker"
    _options: ClassVar = ("text_field",)

    def __init__(self, reranker: TextReranker, *, text_field: str = "text") -> None:
        self.reranker = reranker
        self.text_field = text_field

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The rows with new `score` and `rank`; without those that are below `min_percentile`, if asked for.

        It needs the columns qid, docno, query and text; any others are kept.
        """
        pt.validate.result_frame(inp, extra_columns=["query", self.text_field], context=self)
        rows: list[int] = []
        added_rows: list[dict[str, Any]] = []
        rows_in = inp.reset_index(drop=True)
        for _, group in rows_in.groupby("qid", sort=False, dropna=False):
            ids = [name if isinstance(name, str) else None for name in group["docno"]]
            ranked = self.reranker.rank(group["query"].iloc[0], group[self.text_field].tolist(), ids=ids)
            rows += [group.index[line.position] for line in ranked]
            added_rows += _lines(ranked)
        return _beside(rows_in, rows, added_rows, self.reranker.current_background() is not None)

    def schematic(self, *, input_columns: list[str] | None = None) -> dict[str, Any]:
        """What PyTerrier draws of it, without looking for it in PyTerrier's own documentation on the web."""
        return {"label": "SurpriseTransformer", "help_url": None, "settings": {"text_field": self.text_field}}

    def __repr__(self) -> str:
        return "SurpriseTransformer()"


class SurpriseRetriever(LoadedAdapter, pt.Transformer):
    """What a pipeline finds for every query: query frame in, result frame out.

    It has the columns of the queries, docno, text (the best passage, or the whole), score, rank, and with a
    background percentile and rerank_verdict. `load(index=..., system=...)` makes one of names.
    """

    _argument: ClassVar = "pipeline"
    _options: ClassVar = ("num_results",)

    def __init__(self, pipeline: Pipeline, *, num_results: int = 100) -> None:
        self.pipeline = pipeline
        self.num_results = border.count("num_results", num_results)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The results of every row, which has qid and query, in the order of the rows."""
        pt.validate.query_frame(inp, extra_columns=["query"], context=self)
        rows: list[int] = []
        added_rows: list[dict[str, Any]] = []
        for row, query in enumerate(inp["query"]):
            ranking = self.pipeline.search(query, self.num_results)
            hits = [{"docno": hit.id, "text": hit.text} for hit in ranking]
            added_rows += [{**hit, **line} for hit, line in zip(hits, _lines(ranking), strict=True)]
            rows += [row] * len(ranking)
        texts = {"docno": "str", "text": "str"}
        return _beside(inp, rows, added_rows, self.pipeline.current_background() is not None, texts)

    def schematic(self, *, input_columns: list[str] | None = None) -> dict[str, Any]:
        """What PyTerrier draws of it, without looking for it in PyTerrier's own documentation on the web."""
        return {"label": "SurpriseRetriever", "help_url": None, "settings": {"num_results": self.num_results}}

    def __repr__(self) -> str:
        return f"SurpriseRetriever(num_results={self.num_results})"


def _lines(ranked: Ranking) -> list[dict[str, Any]]:
    """Return the columns that are added to each line: score, rank and, if measured, percentile."""
    lines = list(ranked)
    numbered = enumerate(zip(lines, falling([line.score for line in lines]), strict=True))
    return [
        {"score": score, "rank": pt.model.FIRST_RANK + i, **judgement(line.percentile, ranked.verdict)}
        for i, (line, score) in numbered
    ]


def _beside(
    frame: pd.DataFrame,
    rows: Iterable[int],
    added_rows: list[dict[str, Any]],
    judged: bool,
    extra: dict[str, str] | None = None,
) -> pd.DataFrame:
    """Return these rows of a frame with the added columns, which replace columns of the same names."""
    kinds = {**(extra or {}), **_RANKED, **(_JUDGED if judged else {})}
    columns = [name for name in frame.columns if name not in {**kinds, **_JUDGED}]
    added = pd.DataFrame(added_rows, columns=list(kinds)).astype(kinds)
    return pd.concat([frame[columns].iloc[list(rows)].reset_index(drop=True), added], axis=1)
