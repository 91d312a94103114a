"""Judged data sets: BEIR folders and ir_datasets, and what is said about what cannot be read."""

import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank import DataError, DatasetError, Document
from surprise_rerank._documents import encodable
from surprise_rerank.connectors.readers._beir import BeirFolder
from surprise_rerank.connectors.readers._datasets import open_source
from surprise_rerank.connectors.readers._demo import DemoDocumentation
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, judged_questions, load_dataset

CORPUS = b'{"_id": "d1", "title": "one", "text": "first"}\n{"_id": "d2", "text": "second"}\n'
QUERIES = b'{"_id": "q1", "text": "which is first?"}\n{"_id": "q2", "text": "and then?"}\n'
QRELS = b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t2\n"


def beir(folder: Path, corpus: bytes = CORPUS, queries: bytes = QUERIES, **splits: bytes) -> BeirFolder:
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    (folder / "corpus.jsonl").write_bytes(corpus)
    (folder / "queries.jsonl").write_bytes(queries)
    for split, rows in (splits or {"test": QRELS}).items():
        (folder / "qrels" / f"{split}.tsv").write_bytes(rows)
    return BeirFolder(folder)


# Every code point that Python knows: NUL, emoji, lone surrogates, line separators.
any_text = st.text(st.characters(), max_size=30)


@given(
    records=st.lists(
        st.tuples(any_text.filter(bool), any_text, any_text),
        min_size=1,
        unique_by=lambda record: encodable(record[0]),
    ),
    escaped=st.booleans(),
    zipped=st.booleans(),
    start=st.sampled_from(["", "\ufeff", "\n\n", "\ufeff\r\n"]),
    line_end=st.sampled_from(["\n", "\r\n", "\n\n", "\n \t\n"]),
)
def test_a_corpus_comes_back_as_written(tmp_path_factory, records, escaped, zipped, start, line_end):
    lines = [json.dumps({"_id": i, "title": t, "text": x}, ensure_ascii=escaped) for i, t, x in records]
    raw = (start + line_end.join(lines if escaped else map(encodable, lines))).encode()
    folder = tmp_path_factory.mktemp("beir")
    path = folder / ("corpus.jsonl.gz" if zipped else "corpus.jsonl")
    path.write_bytes(gzip.compress(raw) if zipped else raw)

    assert list(BeirFolder(folder).documents()) == [Document(id=i, title=t, text=x) for i, t, x in records]


row_ids = st.text("ab1 :/.-é\N{GRINNING FACE}", min_size=1, max_size=5)


@given(
    qrels=st.dictionaries(row_ids, st.dictionaries(row_ids, st.integers(-2, 1000), min_size=1, max_size=5)),
    form=st.sampled_from(["table", "head", "jsonl"]),
    line_end=st.sampled_from(["\n", "\r\n"]),
)
def test_judgements_come_back_as_written(tmp_path_factory, qrels, form, line_end):
    names = ["query-id", "corpus-id", "score"]
    rows = [[query, document, score] for query, own in qrels.items() for document, score in own.items()]
    folder = tmp_path_factory.mktemp("beir")
    if form == "jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
        (folder / "qrels.jsonl").write_bytes(line_end.join(lines).encode())
        assert BeirFolder(folder).splits() == ("test",)
    else:
        table = [names, *rows] if form == "head" else rows
        beir(folder, test=line_end.join("\t".join(map(str, row)) for row in table).encode())
    assert BeirFolder(folder).qrels() == qrels


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"_id": "d3", "text": }', r"not valid JSON: Expecting value: line 1 column 23"),
        (b'{"text": "x"}', r"`_id` must be a string or an integer, got None; there is text"),
        (b'{"_id": "d3", "text": "x", "title": ["t"]}', r"`title` must be a string, got list"),
        (b'{"_id": "caf\xe9", "text": "x"}', r"not valid UTF-8"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, problem):
    source = beir(tmp_path, CORPUS + line, QUERIES + line)
    with pytest.raises(DataError, match=rf"corpus\.jsonl:3: {problem}"):
        list(source.documents())
    with pytest.raises(DataError, match=rf"queries\.jsonl:3: {problem}"):
        source.queries()
    twice = beir(tmp_path, queries=QUERIES + b'{"_id": "q1", "text": "again"}')
    with pytest.raises(DataError, match=r"queries\.jsonl: `_id` 'q1' comes twice"):
        twice.queries()


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (b"query-id\tcorpus-id\tscore\nq\td\n", r"2: expected query-id, corpus-id, score, .*got 'q \| d'"),
        (b"q\td\t1\nq 0 d 1\n", r"2: expected query-id.*got 'q 0 d 1'"),
        (b"q\td\t1\nq\td2\t1.5\n", r"2: .*the score an integer, got 'q \| d2 \| 1\.5'"),
        (b"q\td\t1\n\nquery-id\tcorpus-id\tscore\n", r"3: .*the score an integer"),
        (b"q\t\t1\n", r"1: expected query-id"),
        (b"q\td\t1\nq\td\t1\nq\td\t0\n", r"3: question 'q' and document 'd' are judged 0 here and 1 before"),
        (b"q\td\t1\nq\t\xff\t1\n", r"2: not valid UTF-8"),
    ],
)
def test_bad_judgements_are_named(tmp_path, rows, problem):
    with pytest.raises(DataError, match=rf"test\.tsv:{problem}"):
        beir(tmp_path, test=rows).qrels()


def test_damaged_and_empty_files_are_named(tmp_path):
    whole = gzip.compress(b"".join(b'{"_id": "%d", "text": "%d"}\n' % (i, i * 7919) for i in range(2000)))
    for content in (whole[: int(len(whole) * 0.2)], whole[:-9], CORPUS):
        (tmp_path / "corpus.jsonl.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"corpus\.jsonl\.gz: damaged, cut short"):
            list(BeirFolder(tmp_path).documents())
    for corpus in (b"", b"\xef\xbb\xbf", b"\n \n"):
        with pytest.raises(DatasetError, match=r"corpus\.jsonl: the corpus holds no documents"):
            list(beir(tmp_path, corpus).documents())


def test_missing_parts_are_named_with_what_belongs_there(tmp_path):
    layout = r"corpus\.jsonl\[\.gz\], queries\.jsonl\[\.gz\] and qrels/<split>\.tsv"
    nowhere = BeirFolder(tmp_path / "nowhere")
    for read in (nowhere.documents, nowhere.queries, nowhere.qrels):
        with pytest.raises(DatasetError, match=rf"nowhere.*no such folder; .*{layout}"):
            read()
    (tmp_path / "corpus.jsonl").mkdir()  # a folder is no file
    with pytest.raises(DatasetError, match=rf"no corpus\.jsonl and no corpus\.jsonl\.gz; .*{layout}"):
        BeirFolder(tmp_path).documents()
    with pytest.raises(DatasetError, match=rf"no judgements for the split 'test'; .*{layout}"):
        BeirFolder(tmp_path).qrels()


def test_a_split_is_the_one_asked_for_test_or_the_only_one(tmp_path):
    source = beir(tmp_path, dev=b"q1\td2\t1", test=QRELS, train=b"q2\td1\t1")
    assert (source.splits(), source.split) == (("dev", "test", "train"), "test")
    assert source.at("train").qrels() == {"q2": {"d1": 1}}
    assert open_source(str(tmp_path), "dev").qrels() == {"q1": {"d2": 1}}
    for wrong in ("validation", "../corpus", ""):
        with pytest.raises(DatasetError, match=r"no judgements .*; choose one of dev, test, train"):
            source.at(wrong).qrels()
    assert beir(tmp_path / "one", dev=QRELS).split == "dev"
    with pytest.raises(DatasetError, match=r"no judgements for the split 'test'; choose one of dev, train"):
        _ = beir(tmp_path / "two", dev=QRELS, train=QRELS).split


def test_names_of_the_demo_and_of_folders(tmp_path, monkeypatch):
    beir(tmp_path / "demo")
    beir(tmp_path / "home" / "mine")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert isinstance(open_source("demo"), DemoDocumentation)
    assert open_source("./demo") == BeirFolder(Path("demo"))
    assert open_source("home/mine") == BeirFolder(Path("home/mine"))
    assert open_source("~/mine").name == "mine"
    for nowhere in ("./nowhere", "/nowhere", "nowhere/", "C:\\nowhere"):
        with pytest.raises(DatasetError, match=r"nowhere: no such folder"):
            open_source(nowhere).documents()
    with pytest.raises(DatasetError, match=r"no data set was named"):
        open_source(" ")


# --- Data sets, which are held in memory ---


def lines(name: str, count: int) -> bytes:
    return b"".join(b'{"_id": "%s%d", "text": "text %d"}\n' % (name.encode(), i, i) for i in range(count))


def test_a_folder_is_loaded_with_its_judged_questions_only(tmp_path):
    judged = {
        "test": b"q2\td0\t2\nq0\td1\t0\nq0\tgone\t1\nunasked\td1\t1\n",
        "train": b"q2\td0\t1\nq1\td0\t2\n",
    }
    spec = str(beir(tmp_path / "mine", lines("d", 3), lines("q", 3), **judged).path)
    dataset = load_dataset(spec)
    assert (dataset.name, dataset.split) == ("mine", "test")
    assert dataset.documents == tuple(Document(f"d{i}", f"text {i}") for i in range(3))
    assert list(dataset.queries.items()) == [("q0", "text 0"), ("q2", "text 2")]
    assert dataset.qrels == {"q0": {"d1": 0, "gone": 1}, "q2": {"d0": 2}}
    assert (dataset.missing_documents, dataset.missing_queries) == (1, 1)
    assert judged_questions(spec, "train")[0] == {"q1": "text 1", "q2": "text 2"}
    assert judged_questions(spec, "train")[1] == {"q1": {"d0": 2}, "q2": {"d0": 1}}


@pytest.mark.parametrize(
    ("rows", "split", "said"),
    [
        (b"q1\tb\t1\nq2\ta\t1\n", None, r"none of the 2 judged documents, say 'a', is in its corpus.*'d1'"),
        (b"unasked\td1\t1\n", None, r"no judged question in its split 'test': none of the 1, .*'unasked'"),
        (b"", None, r"no judged question in its split 'test': no judgements"),
        (b"q1\td1\t1\n", "dev", r"no judgements for the split 'dev'"),
    ],
)
def test_judgements_that_do_not_fit_are_an_error(tmp_path, rows, split, said):
    # A wrong split is told before the corpus is read.
    spec = str(beir(tmp_path, CORPUS if split is None else b"not JSON", test=rows).path)
    with pytest.raises(DatasetError, match=said):
        load_dataset(spec, split)


ONE = Document("d", "text")


@pytest.mark.parametrize(
    ("documents", "queries", "qrels", "said"),
    [
        ((), {"q": "?"}, {"q": {"d": 1}}, "documents of 'x' must be at least one"),
        (
            (ONE, Document("d", "other")),
            {"q": "?"},
            {"q": {"d": 1}},
            "documents of 'x' must differ, got 'd' twice",
        ),
        ((ONE,), {}, {}, "questions of 'x', split 'test' must be at least one"),
        ((ONE,), {"q": "?"}, {"p": {"d": 1}}, r"2 questions lack a text or judgements: 'p', \.\.\."),
    ],
)
def test_hand_made_data_sets_are_checked(documents, queries, qrels, said):
    with pytest.raises((DataError, DatasetError), match=said):
        RetrievalDataset("x", documents, queries, qrels, "test")


MANY = tuple(Document(f"d{i}", f"text {i}") for i in range(1800))


@settings(max_examples=20)
@given(
    judged=st.lists(
        st.dictionaries(st.integers(0, 1900), st.integers(0, 3), min_size=1), min_size=1, max_size=90
    ),
    n=st.integers(1, 100),
)
def test_a_limited_copy_keeps_order_and_every_judged_document(judged, n):
    qrels = {f"q{i}": {f"d{name}": score for name, score in row.items()} for i, row in enumerate(judged)}
    whole = RetrievalDataset("x", MANY, {name: f"{name}?" for name in qrels}, qrels, "test")

    part = whole.limited(n)

    assert list(part.queries) == list(whole.queries)[:n]
    assert part.qrels == {name: whole.qrels[name] for name in part.queries}
    wanted = {name for row in part.qrels.values() for name in row}
    kept = {document.id for document in part.documents}
    assert part.documents == tuple(document for document in whole.documents if document.id in kept)
    assert kept >= wanted & {document.id for document in MANY}
    others = [document for document in part.documents if document.id not in wanted]
    assert others == [document for document in MANY if document.id not in wanted][: max(1000, 20 * n)]
    assert part.missing_documents == len(wanted - {document.id for document in MANY})
    assert part.name != whole.name


# --- ir_datasets ---


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ir_datasets_at: Callable[[Path], None]) -> Path:
    """A home of its own for ir_datasets."""
    monkeypatch.setenv("IR_DATASETS_TMP", str(tmp_path / "downloads"))
    ir_datasets_at(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def scifact(home: Path) -> Path:
    """A local copy of beir/scifact, with two documents and three questions."""
    from ir_datasets.datasets.beir import BeirTitleDoc
    from ir_datasets.indices import PickleLz4FullStore

    folder = home / "beir" / "scifact"
    PickleLz4FullStore(
        path=folder / "docs.pklz4",
        init_iter_fn=lambda: iter([BeirTitleDoc("d1", "first", "one"), BeirTitleDoc("d2", "second", "")]),
        data_cls=BeirTitleDoc,
        lookup_field="doc_id",
        index_fields=["doc_id"],
    ).build()
    (folder / "irds_version.txt").write_text("v2")
    queries = [{"_id": f"q{i}", "text": f"question {i}"} for i in range(3)]
    (folder / "queries.json").write_text("\n".join(map(json.dumps, queries)))
    (folder / "test.qrels").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t2\n")
    (folder / "train.qrels").write_text("query-id\tcorpus-id\tscore\nq0\td2\t1\n")
    return folder


@pytest.mark.parametrize(
    ("spec", "split", "judged"),
    [
        ("beir/scifact", None, "test"),
        ("beir/scifact", "train", "train"),
        ("beir/scifact/train", None, "train"),
        ("beir/scifact/train", "train", "train"),
        ("beir/scifact/test", "test", "test"),
    ],
)
@pytest.mark.usefixtures("scifact")
def test_an_id_and_a_split_choose_the_questions(spec, split, judged):
    source = open_source(spec, split)
    questions = {"train": ["question 0"], "test": ["question 1", "question 2"]}[judged]
    assert list(source.queries().values()) == questions
    assert source.qrels().keys() == source.queries().keys()
    assert list(source.documents()) == [Document("d1", "first", "one"), Document("d2", "second")]
    assert (source.name, source.split, source.splits()) == ("beir/scifact", judged, ("test", "train"))


@pytest.mark.parametrize(
    ("spec", "split", "problem"),
    [
        ("beir/scifact/train", "test", r"names the split 'train', but 'test' was asked"),
        ("beir/scifact", "dev", r"no judgements for the split 'dev'; choose one of test, train"),
        ("beir/webis-touche2020", "v2", r"no judgements for the split 'v2'; choose one of test"),
    ],
)
@pytest.mark.usefixtures("scifact")
def test_an_id_and_another_split_conflict(spec, split, problem):
    with pytest.raises(DatasetError, match=problem):
        open_source(spec, split).qrels()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("bier/scifact", r"'bier/scifact' is no file, no folder, .* mean .*\bbeir/scifact"),
        ("zzzzzzzz", r"the ids are listed at https://ir-datasets.com"),
        ("beir", r"'beir' is .* no id of ir_datasets with documents; did you mean beir/arguana"),
        ("aquaint", r"'aquaint' needs \S*home\S*aquaint\S*, which is missing"),
    ],
)
@pytest.mark.usefixtures("home")
def test_what_the_catalogue_lacks_is_told_with_close_names(spec, said):
    with pytest.raises(DatasetError, match=said):
        list(open_source(spec).documents())


@pytest.mark.parametrize("part", ["documents", "queries", "qrels"])
@pytest.mark.usefixtures("home")
def test_without_network_there_is_one_line_and_no_log(part, monkeypatch, capfd):
    # A proxy that nobody can reach stands for no network, on machines that have one too.
    for variable in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(DatasetError, match=r"'beir/arguana' .*not be downloaded.*IR_DATASETS_HOME") as error:
        list(getattr(open_source("beir/arguana"), part)())
    assert "\n" not in str(error.value)
    out, err = capfd.readouterr()
    # The bar of a corpus that is being read may stand there, but nothing else.
    assert out == ""
    assert all(line.startswith("docs_iter:   0%") for line in err.split("\r") if line.strip())
    assert not logging.getLogger("ir_datasets").disabled


class TitleBody(NamedTuple):
    doc_id: str
    title: str
    body: str

    def default_text(self) -> str:
        return f"{self.title} {self.body}"


class Code(NamedTuple):
    doc_id: str
    code: str
    language: str
    size: int


@pytest.mark.parametrize(
    ("row", "document"),
    [
        (TitleBody("d", "a title", "a body"), Document("d", "a body", "a title")),
        (TitleBody("d", "", "a body"), Document("d", "a body")),
        (Code("d", "x = 1", "Python", 3), Document("d", "x = 1 Python")),
    ],
)
@pytest.mark.usefixtures("home")
def test_documents_of_other_shapes_lose_no_words(row, document):
    import ir_datasets
    from ir_datasets.formats import BaseDocs

    class Docs(BaseDocs):
        def docs_iter(self) -> Any:
            return iter([row])

        def docs_cls(self) -> type:
            return type(row)

    ir_datasets.registry.register("toy", ir_datasets.datasets.base.Dataset(Docs()))
    assert list(open_source("toy").documents()) == [document]


@pytest.mark.usefixtures("home")
def test_of_several_judgements_of_a_pair_the_highest_counts(tmp_path):
    import ir_datasets

    parts = {"docs.tsv": "d1\tfirst\n", "queries.tsv": "q1\tquestion\n"}
    parts["qrels.txt"] = "q1 0 d1 1\nq1 1 d1 3\nq1 2 d1 0\n"
    for name, content in parts.items():
        (tmp_path / name).write_text(content)
    ir_datasets.registry.register(
        "toy", ir_datasets.create_dataset(*(str(tmp_path / name) for name in parts))
    )
    assert open_source("toy").qrels() == {"q1": {"d1": 3}}


@pytest.mark.shared
def test_the_real_scifact_and_cranfield_are_read(shared_data, ir_datasets_at):
    ir_datasets_at(shared_data / "ir_datasets")
    source = open_source("beir/scifact")
    first, *others = source.documents()
    assert (first.id, len(others)) == ("4983", 5182)
    assert first.title.startswith("Microstructural development of human newborn cerebral white matter")
    assert not first.text.startswith(first.title)
    assert (len(source.queries()), len(source.qrels()), len(source.at("train").queries())) == (300, 300, 809)
    cranfield = open_source(str(shared_data / "beir" / "cranfield"))
    assert (sum(1 for _ in cranfield.documents()), len(cranfield.queries())) == (1400, 225)
    assert sum(len(judged) for judged in cranfield.qrels().values()) == 1837
