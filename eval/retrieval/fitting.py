"""Judged questions that fusion weights are fitted on; never the ones that are evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.errors import DatasetError
from surprise_rerank.eval.retrieval.datasets import judged_questions

# Enough for a handful of weights, and for the questions that are held back to see whether they help.
MOST_QUESTIONS = 800


@dataclass(frozen=True)
class TrainingQuestions:
    """Judged questions of a data set's other split, read and encoded when they are first asked for.

    Attributes:
        dataset: the data set, as `--dataset` names it.
        split: the split that weights are fitted on.
        tested: the split that is evaluated.
        encoder: of the documents.
        terminal: for progress.
    """

    dataset: str
    split: str
    tested: str
    encoder: Encoder
    terminal: Terminal

    @cached_property
    def judged(self) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
        """Question id -> text, and their judgements."""
        if self.split == self.tested:
            raise DatasetError(
                f"weights fitted on the split {self.split!r} cannot be evaluated on it; "
                "give another one with --split"
            )
        return judged_questions(self.dataset, self.split)

    def pools(
        self, retrieve: Callable[[Query], Candidates]
    ) -> Iterator[tuple[Query, Candidates, Mapping[str, float]]]:
        """Questions with their pools and gains."""
        texts, qrels = self.judged
        ids = list(texts)[:MOST_QUESTIONS]
        queries = encode_queries(self.encoder, [texts[name] for name in ids], ids)
        with self.terminal.bar(f"fitting on {self.split}", len(ids), "questions") as advance:
            for query in queries:
                gains = {name: float(grade) for name, grade in qrels[query.id].items()}
                pool = retrieve(query)
                # The question itself, as a document, is judged for none; a running number of both may be.
                yield query, pool if query.id in gains else pool.without(query.id), gains
                advance(1)
