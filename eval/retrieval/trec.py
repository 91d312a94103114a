"""TREC run files: rankings of another program read, our own written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np

from surprise_rerank.candidates import Ranking
from surprise_rerank.core.files import disk_errors
from surprise_rerank.documents import encodable
from surprise_rerank.errors import DataError
from surprise_rerank.eval.line_files import number, read_rows

_COLUMNS = ("question", "Q0", "document", "rank", "score", "tag")


@dataclass(frozen=True, slots=True)
class Run:
    """A run file's name without its suffix, and its rankings by question id; as a system it is as it is."""

    name: str
    rankings: Mapping[str, Ranking]

    def named(self, queries: Iterable[str], documents: Iterable[str]) -> Run:
        """The run with the ids of a data set, in which white space is not percent-encoded."""
        of_queries = {_token(name): name for name in queries}
        of_documents = {_token(name): name for name in documents}
        rankings = {
            of_queries.get(query, query): Ranking(
                tuple(of_documents.get(name, name) for name in ranking.ids), ranking.scores, ranking.parts
            )
            for query, ranking in self.rankings.items()
        }
        return Run(self.name, rankings)

    def ranking(self, query: str, *, omit: str = "") -> Ranking:
        """The ranking of a question by its id; empty, where the run lacks the question."""
        ranking = self.rankings.get(query, Ranking((), np.zeros(0)))
        if omit not in ranking.ids:
            return ranking
        kept = [i for i, name in enumerate(ranking.ids) if name != omit]
        return Ranking(tuple(ranking.ids[i] for i in kept), ranking.scores[kept])


def read_run(path: Path) -> Run:
    """Read a run file: question, Q0, document, rank, score, tag, with white space between.

    The order is trec_eval's: by score as float32, descending, and ties by document id, descending; the rank
    that the file gives counts for nothing.
    """
    by_question: dict[str, dict[str, np.float32]] = {}

    def add(line: str) -> bool:
        query, _, document, _, score, _ = line.split()
        scores = by_question.setdefault(query, {})
        if document in scores:
            raise ValueError(f"the document {document!r} comes twice for the question {query!r}")
        scores[document] = np.float32(number(score))
        return True

    if not any(list(read_rows(path, add, " ".join(_COLUMNS), blank=False))):
        raise DataError(f"{path} holds no ranking; expected lines of {' '.join(_COLUMNS)}")
    rankings = {}
    for query, scores in by_question.items():
        ordered = sorted(scores.items(), key=lambda scored: (scored[1], scored[0]), reverse=True)
        values = np.array([score for _, score in ordered], dtype=np.float64)
        rankings[query] = Ranking(tuple(name for name, _ in ordered), values, {"run": values})
    return Run(path.stem, rankings)


def split_run(run: str) -> tuple[str, str]:
    """What an entry of `runs` names: a name, which may be empty, and a file.

    >>> split_run("theirs=runs/theirs.trec"), split_run("runs/k1=0.9.trec")
    (('theirs', 'runs/theirs.trec'), ('', 'runs/k1=0.9.trec'))
    """
    name, separator, file = run.partition("=")
    return (name, file) if separator and "/" not in name and not Path(run).is_file() else ("", run)


def run_path(name: str, dataset: str) -> Path:
    """Where a run lies; `{dataset}` in its name stands for the data set's short name."""
    return Path(name.replace("{dataset}", dataset)).expanduser()


def write_run(path: Path, run: Mapping[str, Ranking], tag: str) -> None:
    """A TREC run file: question, Q0, document, rank, score, tag.

    Scores that are equal in float32 are set apart by its smallest step: trec_eval reads float32, sorts by
    score, and would put ties into another order than the rank. White space in ids is percent-encoded.
    """
    lines: list[str] = []
    for query, ranking in run.items():
        last = np.float32(np.inf)
        for rank, (document, score) in enumerate(zip(ranking.ids, ranking.scores, strict=True), start=1):
            last = min(np.float32(score), np.nextafter(last, np.float32(-np.inf)))
            lines.append(f"{_token(query)} Q0 {_token(document)} {rank} {last} {_token(tag)}\n")
    with disk_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(encodable("".join(lines)), encoding="utf-8")


def _token(name: str) -> str:
    return "".join(quote(c) if c.isspace() else c for c in name)
