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
    test = "q2\td0\t2\nq0\td1\t0\nq0\tgone\t1\nunasked\td1\t1\n"
    spec = beir(tmp_path / "mine", test=test, train="q2\td0\t1\nq1\td0\t2\n")
    dataset = load_dataset(spec)
    assert (dataset.name, dataset.split) == ("mine", "test")
    assert dataset.documents == tuple(Document(f"d{i}", f"text {i}") for i in range(3))
    assert list(dataset.queries.items()) == [("q0", "question 0"), ("q2", "question 2")]
    assert dataset.qrels == {"q0": {"d1": 0, "gone": 1}, "q2": {"d0": 2}}
    assert (dataset.missing_documents, dataset.missing_queries) == (1, 1)
    questions, qrels = judged_questions(spec, "train")
    assert questions == {"q1": "question 1", "q2": "question 2"}
    assert qrels == {"q1": {"d0": 2}, "q2": {"d0": 1}}


@pytest.mark.parametrize(
    ("rows", "split", "said"),
    [
        ("q0\tb\t1\nq1\ta\t1\n", None, r"none of the 2 judged documents, say 'a', is in its corpus.*'d0'"),
        ("unasked\td0\t1\n", None, r"no judged question in its split 'test': none of the 1, .*'unasked'"),
        ("", None, r"no judged question in its split 'test': no judgements"),
        ("q0\td0\t1\n", "dev", r"no split 'dev'"),
    ],
)
def test_judgements_that_do_not_fit_are_an_error(
    tmp_path: Path, rows: str, split: str | None, said: str
) -> None:
    spec = beir(tmp_path, test=rows)
    if split is not None:  # which is told before the corpus is read
        (tmp_path / "corpus.jsonl").write_text("not JSON")
    with pytest.raises(DatasetError, match=said):
        load_dataset(spec, split)


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
