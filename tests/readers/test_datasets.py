"""Data sets by name, their checks, and the small copies of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, DatasetError
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, judged_questions, load_dataset

HEADER = "query-id\tcorpus-id\tscore\n"


def beir(folder: Path, documents: int = 3, questions: int = 3, **splits: str) -> str:
    (folder / "qrels").mkdir(parents=True)
    corpus = [json.dumps({"_id": f"d{i}", "text": f"text {i}"}) for i in range(documents)]
    queries = [json.dumps({"_id": f"q{i}", "text": f"question {i}"}) for i in range(questions)]
    (folder / "corpus.jsonl").write_text("\n".join(corpus))
    (folder / "queries.jsonl").write_text("\n".join(queries))
    for split, rows in splits.items():
        (folder / "qrels" / f"{split}.tsv").write_text(HEADER + rows)
    return str(folder)


def test_a_folder_is_loaded_with_its_judged_questions_only(tmp_path: Path) -> None:
    dataset = load_dataset(beir(tmp_path / "mine", test="q2\td0\t2\nq0\td1\t0\nq0\td2\t1\n"))

    assert dataset.name == "mine"
    assert dataset.split == "test"
    assert dataset.documents == tuple(Document(f"d{i}", f"text {i}") for i in range(3))
    assert list(dataset.queries.items()) == [("q0", "question 0"), ("q2", "question 2")]
    assert dataset.qrels == {"q0": {"d1": 0, "d2": 1}, "q2": {"d0": 2}}
    assert dataset.missing_documents == dataset.missing_queries == 0


def test_missing_documents_and_questions_are_counted(tmp_path: Path) -> None:
    rows = "q0\td0\t1\nq0\tgone\t1\nq1\tgone\t1\nq1\tlost\t1\nunasked\td1\t1\n"

    dataset = load_dataset(beir(tmp_path, test=rows))

    assert dataset.missing_documents == 2
    assert dataset.missing_queries == 1
    assert dataset.qrels == {"q0": {"d0": 1, "gone": 1}, "q1": {"gone": 1, "lost": 1}}


def test_judgements_of_another_corpus_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        DatasetError, match=r"none of the 2 judged documents, say 'a', is in its corpus.*'d0'"
    ):
        load_dataset(beir(tmp_path, test="q0\tb\t1\nq1\ta\t1\n"))


def test_no_judged_question_is_an_error(tmp_path: Path) -> None:
    spec = beir(tmp_path, test="unasked\td0\t1\n", empty="")

    with pytest.raises(
        DatasetError, match=r"no judged question in its split 'test': none of the 1, .*'unasked'"
    ):
        load_dataset(spec)
    with pytest.raises(DatasetError, match=r"no judged question in its split 'empty': no judgements"):
        load_dataset(spec, "empty")


def test_a_wrong_split_is_told_before_the_corpus_is_read(tmp_path: Path) -> None:
    spec = beir(tmp_path, test="q0\td0\t1\n")
    (tmp_path / "corpus.jsonl").write_text("not JSON")

    with pytest.raises(DatasetError, match=r"no split 'dev'"):
        load_dataset(spec, "dev")
    with pytest.raises(DataError, match=r"corpus\.jsonl:1: not valid JSON"):
        load_dataset(spec)


def test_hand_made_data_sets_are_checked() -> None:
    one = Document("d", "text")
    with pytest.raises(DatasetError, match=r"'x' has no documents"):
        RetrievalDataset("x", (), {"q": "?"}, {"q": {"d": 1}}, "test")
    with pytest.raises(DataError, match=r"'x': two documents have the id 'd'"):
        RetrievalDataset("x", (one, Document("d", "other")), {"q": "?"}, {"q": {"d": 1}}, "test")
    with pytest.raises(DatasetError, match=r"'x' has no judged question in its split 'test'"):
        RetrievalDataset("x", (one,), {}, {}, "test")
    with pytest.raises(DataError, match=r"2 questions lack a text or judgements: 'p', \.\.\."):
        RetrievalDataset("x", (one,), {"q": "?"}, {"p": {"d": 1}}, "test")


# --- Questions of another split ---


def test_judged_questions_are_those_judged_in_the_split(tmp_path: Path) -> None:
    spec = beir(tmp_path, test="q0\td0\t1\n", train="q2\td0\t1\nq1\td0\t2\n")

    questions, qrels = judged_questions(spec, "train")
    assert questions == {"q1": "question 1", "q2": "question 2"}
    assert qrels == {"q1": {"d0": 2}, "q2": {"d0": 1}}


# --- Small copies ---

CORPUS = tuple(Document(f"d{i}", f"text {i}") for i in range(1800))


@settings(max_examples=40)
@given(
    judged=st.lists(
        st.dictionaries(st.integers(0, 1900), st.integers(0, 3), min_size=1), min_size=1, max_size=90
    ),
    n=st.integers(1, 100),
)
def test_a_limited_copy_keeps_order_and_every_judged_document(judged: list[dict[int, int]], n: int) -> None:
    qrels = {f"q{i}": {f"d{name}": score for name, score in row.items()} for i, row in enumerate(judged)}
    whole = RetrievalDataset("x", CORPUS, {name: f"{name}?" for name in qrels}, qrels, "test")

    part = whole.limited(n)

    assert list(part.queries) == list(whole.queries)[:n]
    assert part.qrels == {name: whole.qrels[name] for name in part.queries}
    wanted = {name for row in part.qrels.values() for name in row}
    kept = {document.id for document in part.documents}
    assert part.documents == tuple(document for document in whole.documents if document.id in kept)
    assert kept >= wanted & {document.id for document in CORPUS}
    others = [document for document in part.documents if document.id not in wanted]
    assert others == [document for document in CORPUS if document.id not in wanted][: max(1000, 20 * n)]
    assert part.missing_documents == len(wanted - {document.id for document in CORPUS})
    assert part.name != whole.name
