"""BEIR folders and ir_datasets: what is read, and what is said about what cannot be read."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.connectors.datasets.beir import BeirFolder
from surprise_rerank.connectors.datasets.demo import DemoDocumentation
from surprise_rerank.connectors.datasets.sources import IrDataset, open_source
from surprise_rerank.documents import Document, encodable
from surprise_rerank.errors import DataError, DatasetError

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


# --- BEIR folders: what is read ---

# Every code point that Python knows: NUL, emoji, lone surrogates, line separators.
any_text = st.text(st.characters(), max_size=30)
ids = any_text.filter(bool)


@given(
    records=st.lists(st.tuples(ids, any_text, any_text), min_size=1, unique_by=lambda r: encodable(r[0])),
    escaped=st.booleans(),
    zipped=st.booleans(),
    start=st.sampled_from(["", "\ufeff", "\n\n", "\ufeff\r\n"]),
    line_end=st.sampled_from(["\n", "\r\n", "\n\n", "\n \t\n"]),
)
def test_corpus_comes_back_as_written(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[tuple[str, str, str]],
    escaped: bool,
    zipped: bool,
    start: str,
    line_end: str,
) -> None:
    lines = [json.dumps({"_id": i, "title": t, "text": x}, ensure_ascii=escaped) for i, t, x in records]
    if not escaped:
        lines = [encodable(line) for line in lines]
    raw = (start + line_end.join(lines)).encode()
    folder = tmp_path_factory.mktemp("beir")
    if zipped:
        (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(raw))
    else:
        (folder / "corpus.jsonl").write_bytes(raw)

    found = list(BeirFolder(folder).documents())

    assert found == [Document(id=i, title=t, text=x) for i, t, x in records]


row_ids = st.text("ab1 :/.-é\N{GRINNING FACE}", min_size=1, max_size=5)
judgements = st.dictionaries(row_ids, st.dictionaries(row_ids, st.integers(-2, 1000), min_size=1, max_size=5))


@given(judgements, st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_qrels_come_back_as_written(
    tmp_path_factory: pytest.TempPathFactory,
    qrels: dict[str, dict[str, int]],
    header: bool,
    line_end: str,
) -> None:
    rows = ["query-id\tcorpus-id\tscore"] if header else []
    rows += [f"{query}\t{document}\t{score}" for query in qrels for document, score in qrels[query].items()]
    source = beir(tmp_path_factory.mktemp("beir"), test=line_end.join(rows).encode())

    assert source.qrels() == qrels


def test_lone_surrogates_in_metadata_are_replaced_too(tmp_path: Path) -> None:
    corpus = rb'{"_id": "d", "text": "", "metadata": {"\ud800": ["\uDC00", "\ud83d\ude00"]}}'

    (document,) = beir(tmp_path, corpus).documents()

    assert document.metadata == {"\ufffd": ["\ufffd", "\U0001f600"]}


def test_raw_control_characters_and_huge_texts_pass(tmp_path: Path) -> None:
    text = "a\0b\t" + "word " * 400_000
    corpus = b'{"_id": "d", "text": "' + text.encode() + b'"}'

    (document,) = beir(tmp_path, corpus).documents()

    assert document.text == text


def test_title_and_metadata_may_be_null(tmp_path: Path) -> None:
    corpus = b'{"_id": "d", "text": "x", "title": null, "metadata": null, "more": 1}'

    assert list(beir(tmp_path, corpus).documents()) == [Document("d", "x")]


def test_queries_keep_their_order(tmp_path: Path) -> None:
    queries = b'{"_id": "z", "text": "1"}\n{"_id": "a", "text": "2"}\n'

    assert list(beir(tmp_path, queries=queries).queries().items()) == [("z", "1"), ("a", "2")]


def test_same_judgement_twice_is_one(tmp_path: Path) -> None:
    assert beir(tmp_path, test=b"q\td\t1\nq\td\t1\n").qrels() == {"q": {"d": 1}}


def test_a_folder_without_judgements_still_has_documents(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_bytes(CORPUS)

    assert [document.id for document in open_source(str(tmp_path)).documents()] == ["d1", "d2"]


# --- BEIR folders: what is wrong with them ---


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"_id": "d3", "text": }', r"not valid JSON: Expecting value: line 1 column 23"),
        (b"[" * 100_000, r"not valid JSON"),
        (b'{"_id": ' + b"1" * 5000 + b"}", r"not valid JSON"),
        (b'["d3", "text"]', r"must be a JSON object, got \[\"d3\", \"text\"\]"),
        (b'{"text": "x"}', r"`_id` must be a string, got None; there is text"),
        (b'{"_id": "d3", "title": "x"}', r"`text` must be a string, got None; there is _id, title"),
        (b"{}", r"`_id` must be a string, got None; there is nothing"),
        (b'{"_id": 3, "text": "x"}', r"`_id` must be a string, got 3"),
        (b'{"_id": "", "text": "x"}', r"`_id` is empty"),
        (b'{"_id": "d3", "text": null}', r"`text` must be a string, got None"),
        (b'{"_id": "d3", "text": "x", "title": ["t"]}', r"`title` must be a string"),
        (
            b'{"_id": "d3", "text": "x", "metadata": "m"}',
            r"`title` must be a string and `metadata` an object",
        ),
        (b'{"_id": "d1", "text": "x"}', r"`_id` 'd1' is that of line 1 too"),
        (b'{"_id": "caf\xe9", "text": "x"}', r"not valid UTF-8"),
    ],
)
def test_bad_corpus_lines_are_named(tmp_path: Path, line: bytes, problem: str) -> None:
    source = beir(tmp_path, CORPUS + line + b"\n")

    with pytest.raises(DataError, match=rf"corpus\.jsonl:3: {problem}"):
        list(source.documents())


def test_bad_query_lines_are_named(tmp_path: Path) -> None:
    source = beir(tmp_path, queries=QUERIES + b'\n{"_id": "q1", "text": "again"}')

    with pytest.raises(DataError, match=r"queries\.jsonl:4: `_id` 'q1' is that of line 1 too"):
        source.queries()


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (b"query-id\tcorpus-id\tscore\nq\td\n", r"2: expected query-id, corpus-id, score, .*got 'q \| d'"),
        (b"q\td\t1\nq 0 d 1\n", r"2: expected query-id.*got 'q 0 d 1'"),
        (b"q\td\t1\nq\td2\t1.5\n", r"2: .*the score an integer, got 'q \| d2 \| 1\.5'"),
        (b"q\td\t1\nq\td2\t1_0\n", r"2: .*the score an integer"),
        (b"question\tdocument\tgrade\n", r"1: .*the score an integer"),
        (b"q\td\t1\n\nquery-id\tcorpus-id\tscore\n", r"3: .*the score an integer"),
        (b"q\t\t1\n", r"1: expected query-id"),
        (
            b"q\td\t1\nq\td2\t1\nq\td\t0\n",
            r"3: question 'q' and document 'd' are judged 0 here and 1 before",
        ),
        (b"q\td\t1\nq\t\xff\t1\n", r"2: not valid UTF-8"),
    ],
)
def test_bad_judgements_are_named(tmp_path: Path, rows: bytes, problem: str) -> None:
    source = beir(tmp_path, test=rows)

    with pytest.raises(DataError, match=rf"test\.tsv:{problem}"):
        source.qrels()


@pytest.mark.parametrize("keep", [0.2, 0.9])
def test_truncated_gzip_is_named(tmp_path: Path, keep: float) -> None:
    lines = [json.dumps({"_id": str(i), "text": f"{i * 7919 % 104729} {i}"}) for i in range(2000)]
    whole = gzip.compress("\n".join(lines).encode())
    (tmp_path / "corpus.jsonl.gz").write_bytes(whole[: int(len(whole) * keep)])
    found: list[Document] = []

    with pytest.raises(DataError, match=r"corpus\.jsonl\.gz: the gzip stream is damaged or cut short"):
        found.extend(BeirFolder(tmp_path).documents())


def test_what_is_not_gzip_is_named(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl.gz").write_bytes(CORPUS)

    with pytest.raises(DataError, match=r"corpus\.jsonl\.gz: the gzip stream is damaged"):
        list(BeirFolder(tmp_path).documents())


@pytest.mark.parametrize("corpus", [b"", b"\xef\xbb\xbf", b"\n \n"])
def test_empty_corpus_is_an_error(tmp_path: Path, corpus: bytes) -> None:
    with pytest.raises(DatasetError, match=r"corpus\.jsonl: the corpus is empty"):
        list(beir(tmp_path, corpus).documents())


def test_missing_parts_are_named_with_what_belongs_there(tmp_path: Path) -> None:
    layout = r"corpus\.jsonl\[\.gz\], queries\.jsonl\[\.gz\] and qrels/<split>\.tsv"
    nowhere = BeirFolder(tmp_path / "nowhere")
    for read in (nowhere.documents, nowhere.queries, nowhere.qrels, nowhere.splits):
        with pytest.raises(DatasetError, match=rf"nowhere: no such folder; .*{layout}"):
            read()
    with pytest.raises(DatasetError, match=rf"no corpus\.jsonl and no corpus\.jsonl\.gz; .*{layout}"):
        BeirFolder(tmp_path).documents()
    with pytest.raises(DatasetError, match=r"no queries\.jsonl"):
        BeirFolder(tmp_path).queries()
    with pytest.raises(DatasetError, match=r"no judgements: qrels/test\.tsv is missing"):
        BeirFolder(tmp_path).qrels()
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError, match=r"file: is not a folder"):
        BeirFolder(tmp_path / "file").documents()


def test_a_folder_in_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").mkdir()

    with pytest.raises(DatasetError, match=r"no corpus\.jsonl"):
        list(BeirFolder(tmp_path).documents())


def test_splits(tmp_path: Path) -> None:
    source = beir(tmp_path, dev=b"q1\td2\t1", test=QRELS, train=b"q2\td1\t1")

    assert source.splits() == ("dev", "test", "train")
    assert source.split == "test"
    assert source.at("train").qrels() == {"q2": {"d1": 1}}
    assert open_source(str(tmp_path), "dev").qrels() == {"q1": {"d2": 1}}
    for wrong in ("validation", "../corpus", ""):
        with pytest.raises(DatasetError, match=r"no split .* is missing; there is dev, test, train"):
            source.at(wrong).qrels()


def test_an_only_split_needs_no_name_but_one_of_several_does(tmp_path: Path) -> None:
    assert beir(tmp_path / "one", dev=QRELS).split == "dev"
    with pytest.raises(DatasetError, match=r"no split 'test'.*there is dev, train"):
        _ = beir(tmp_path / "two", dev=QRELS, train=QRELS).split


# --- What a name means ---


def test_names_of_the_demo_and_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


# --- ir_datasets ---


@pytest.fixture
def fresh_ir_datasets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ir_datasets_at: Callable[[Path], None]
) -> Path:
    """A home of its own."""
    monkeypatch.setenv("IR_DATASETS_TMP", str(tmp_path / "downloads"))
    ir_datasets_at(tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture
def scifact(fresh_ir_datasets: Path) -> Path:
    """A local copy of beir/scifact, with two documents and three questions."""
    import ir_datasets
    from ir_datasets.datasets.beir import BeirTitleDoc
    from ir_datasets.indices import PickleLz4FullStore

    folder = fresh_ir_datasets / "beir" / "scifact"
    documents = [BeirTitleDoc("d1", "first", "one"), BeirTitleDoc("d2", "second", "")]
    store = PickleLz4FullStore(
        path=folder / "docs.pklz4",
        init_iter_fn=lambda: iter(documents),
        data_cls=BeirTitleDoc,
        lookup_field="doc_id",
        index_fields=["doc_id"],
    )
    logging.getLogger("ir_datasets").disabled = True
    store.build()
    logging.getLogger("ir_datasets").disabled = False
    (folder / "irds_version.txt").write_text("v2")
    queries = [{"_id": f"q{i}", "text": f"question {i}"} for i in range(3)]
    (folder / "queries.json").write_text("\n".join(map(json.dumps, queries)))
    (folder / "test.qrels").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t2\n")
    (folder / "train.qrels").write_text("query-id\tcorpus-id\tscore\nq0\td2\t1\n")
    assert ir_datasets.util.home_path() == fresh_ir_datasets
    return folder


@pytest.mark.parametrize(
    ("spec", "split", "questions"),
    [
        ("beir/scifact", None, ["question 1", "question 2"]),
        ("beir/scifact", "test", ["question 1", "question 2"]),
        ("beir/scifact", "train", ["question 0"]),
        ("beir/scifact/train", None, ["question 0"]),
        ("beir/scifact/train", "train", ["question 0"]),
        ("beir/scifact/test", "test", ["question 1", "question 2"]),
    ],
)
@pytest.mark.usefixtures("scifact")
def test_an_id_and_a_split_choose_the_questions(spec: str, split: str | None, questions: list[str]) -> None:
    source = open_source(spec, split)

    assert list(source.queries().values()) == questions
    assert source.qrels().keys() == source.queries().keys()
    assert list(source.documents()) == [Document("d1", "first", "one"), Document("d2", "second")]
    assert source.name == "beir/scifact"
    assert source.split == (split or spec.removeprefix("beir/scifact").removeprefix("/") or "test")
    assert source.splits() == ("test", "train")


@pytest.mark.usefixtures("scifact")
def test_an_id_and_another_split_conflict() -> None:
    with pytest.raises(
        DatasetError, match=r"'beir/scifact/train' names the split 'train', but 'test' was asked"
    ):
        open_source("beir/scifact/train", "test").qrels()
    with pytest.raises(DatasetError, match=r"no judgements for the split 'dev'; choose one of test, train"):
        open_source("beir/scifact", "dev").qrels()


@pytest.mark.usefixtures("fresh_ir_datasets")
def test_other_documents_are_no_split() -> None:
    with pytest.raises(DatasetError, match=r"no judgements for the split 'v2'; choose one of test"):
        open_source("beir/webis-touche2020", "v2").qrels()
    assert open_source("beir/webis-touche2020/v2").name == "beir/webis-touche2020/v2"
    assert open_source("beir/arguana", "test").split == open_source("beir/arguana").split == "test"


@pytest.mark.usefixtures("fresh_ir_datasets")
def test_unknown_ids_get_close_matches() -> None:
    with pytest.raises(
        DatasetError, match=r"'bier/scifact' is not 'demo', no folder, .* mean .*\bbeir/scifact"
    ):
        open_source("bier/scifact")
    with pytest.raises(DatasetError, match=r"the ids are listed at https://ir-datasets.com"):
        open_source("zzzzzzzz")
    with pytest.raises(DatasetError, match=r"'beir' has no documents of its own; choose one of beir/arguana"):
        open_source("beir")


@pytest.mark.parametrize("part", ["documents", "queries", "qrels"])
def test_without_network_there_is_one_line_and_no_log(
    part: str, fresh_ir_datasets: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # A proxy that nobody can reach stands for no network, on machines that have one too.
    for variable in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)

    with pytest.raises(
        DatasetError, match=r"'beir/arguana' .*could not be downloaded.*IR_DATASETS_HOME"
    ) as error:
        list(getattr(open_source("beir/arguana"), part)())

    assert "\n" not in str(error.value)
    out, err = capfd.readouterr()
    assert out == ""
    # The bar of a corpus that is being read may stand there, but nothing else.
    assert all(line.startswith("docs_iter:   0%") for line in err.split("\r") if line.strip())
    assert not logging.getLogger("ir_datasets").disabled


def test_files_that_must_be_asked_for_are_named(fresh_ir_datasets: Path) -> None:
    with pytest.raises(
        DatasetError,
        match=r"'aquaint' needs \S*home\S*aquaint\S*, which is missing .*ir-datasets\.com/aquaint\.html",
    ):
        list(open_source("aquaint").documents())


@pytest.mark.usefixtures("scifact")
def test_the_log_is_only_silent_while_reading() -> None:
    logger = logging.getLogger("ir_datasets")
    for _ in open_source("beir/scifact").documents():
        assert not logger.disabled
    logger.disabled = True
    open_source("beir/scifact").queries()
    assert logger.disabled
    logger.disabled = False


class TitleBody(NamedTuple):
    doc_id: str
    title: str
    body: str

    def default_text(self) -> str:
        return f"{self.title} {self.body}"


class Fields(NamedTuple):
    doc_id: str
    code: str
    language: str
    size: int


@pytest.mark.parametrize(
    ("row", "document"),
    [
        (TitleBody("d", "a title", "a body"), Document("d", "a body", "a title")),
        (TitleBody("d", "", "a body"), Document("d", "a body")),
        (Fields("d", "x = 1", "Python", 3), Document("d", "x = 1 Python")),
    ],
)
def test_documents_of_other_shapes_lose_no_words(
    fresh_ir_datasets: Path, row: Any, document: Document
) -> None:
    import ir_datasets
    from ir_datasets.formats import BaseDocs

    class Docs(BaseDocs):  # type: ignore[misc]
        def docs_iter(self) -> Iterator[Any]:
            return iter([row])

        def docs_cls(self) -> type:
            return type(row)

    ir_datasets.registry.register("toy", ir_datasets.datasets.base.Dataset(Docs()))

    assert list(open_source("toy").documents()) == [document]


def test_of_several_judgements_of_a_pair_the_highest_counts(fresh_ir_datasets: Path, tmp_path: Path) -> None:
    import ir_datasets

    (tmp_path / "docs.tsv").write_text("d1\tfirst\n")
    (tmp_path / "queries.tsv").write_text("q1\tquestion\n")
    (tmp_path / "qrels.txt").write_text("q1 0 d1 1\nq1 1 d1 3\nq1 2 d1 0\n")
    parts = [str(tmp_path / name) for name in ("docs.tsv", "queries.tsv", "qrels.txt")]
    ir_datasets.registry.register("toy", ir_datasets.create_dataset(*parts))

    assert IrDataset.find("toy").qrels() == {"q1": {"d1": 3}}


@pytest.mark.shared
def test_the_real_scifact_is_read(shared_data: Path, ir_datasets_at: Callable[[Path], None]) -> None:
    ir_datasets_at(shared_data / "ir_datasets")
    source = open_source("beir/scifact")

    documents = list(source.documents())

    assert len(documents) == 5183
    assert documents[0].id == "4983"
    assert documents[0].title.startswith("Microstructural development of human newborn cerebral white matter")
    assert not documents[0].text.startswith(documents[0].title)
    assert len(source.queries()) == len(source.qrels()) == 300
    assert len(source.at("train").queries()) == 809


@pytest.mark.shared
def test_the_real_cranfield_is_read(shared_data: Path) -> None:
    source = open_source(str(shared_data / "beir" / "cranfield"))

    assert sum(1 for _ in source.documents()) == 1400
    assert len(source.queries()) == 225
    assert sum(len(judged) for judged in source.qrels().values()) == 1837
