"""Judged questions from two files: what was asked, and which documents answer it."""

from __future__ import annotations

from pathlib import Path

from surprise_rerank.connectors.datasets.beir import read_qrels, read_queries
from surprise_rerank.errors import DataError
from surprise_rerank.eval.line_files import Line, read_lines

_QUESTION = ("id", "text")
_TREC = ("question", "iteration", "document", "relevance")


def read_judged_questions(path: Path) -> dict[str, str]:
    """Questions: id -> text. JSON lines with `_id` and `text` (BEIR), or id and text with a tab between.

    Raises:
        DatasetError: if the file is unreadable.
        DataError: if a line is no question, an id comes twice, or there is none; names file and line.
    """
    found = _from_table(path) if path.suffix in (".tsv", ".txt") else read_queries(path)
    if not found:
        raise DataError(f"{path} holds no question; expected lines of JSON with `_id` and `text`")
    return found


def read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """Judgements: question id -> document id -> relevance.

    BEIR's three columns with tabs between, with or without a heading, or TREC's four (question, iteration,
    document, relevance) with white space between.

    Raises:
        DatasetError: if the file is unreadable.
        DataError: if a line is no judgement, one contradicts another, or there is none; names file and line.
    """
    found = _from_trec(path) if _is_trec(path) else read_qrels(path)
    if not found:
        raise DataError(f"{path} holds no judgement; expected lines of question, document and relevance")
    return found


def _from_table(path: Path) -> dict[str, str]:
    questions: dict[str, str] = {}
    for line in _filled(path):
        name, text = line.fields("\t", _QUESTION)
        if name in questions:
            raise line.wrong(f"the question {name!r} comes twice; ids must be unique")
        questions[name] = text
    return questions


def _is_trec(path: Path) -> bool:
    if path.suffix == ".gz":
        return False
    first = next(iter(_filled(path)), None)
    return first is not None and len(first.text.split("\t")) != 3 and len(first.text.split()) == len(_TREC)


def _from_trec(path: Path) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for line in _filled(path):
        query, _, document, relevance = line.fields(None, _TREC)
        try:
            value = int(relevance)
        except ValueError:
            raise line.wrong(f"the relevance is {relevance[:40]!r}, expected an integer") from None
        if qrels.setdefault(query, {}).setdefault(document, value) != value:
            earlier = qrels[query][document]
            raise line.wrong(f"{query!r} and {document!r} are judged {value} here and {earlier} before")
    return qrels


def _filled(path: Path) -> list[Line]:
    return [line for line in read_lines(path) if line.text.strip()]
