"""Similar documents: exact results, kept parts, refusals, copies, groups, an index, the command."""

import csv
import io
import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.files import write_vectors
from helpers.programs import exit_code

pytest.importorskip("pyarrow")

from pyarrow import parquet

from surprise_rerank import DataError, Document, Ensemble, Passages, StoreError, load_encoder
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.similar import SimilaritySettings, similar_documents
from surprise_rerank.connectors.similar import _comparing as comparing_module
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.eval.cli.surprise_rerank.main import main
from surprise_rerank.surprise.linear_form import LinearForm
from surprise_rerank.surprise.neighbours import KEY_BLOCK, nearest

WORDS = ("dogs", "bark", "cats", "sleep", "wings", "lift", "mice", "hunt")


def corpus(n: int, d: int = 16, seed: int = 0) -> np.ndarray:
    return unit_rows(np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32))


def pairs(similar) -> list[tuple[str, str]]:
    return [(row["document"], row["neighbour"]) for row in similar.table().to_pylist()]


def word_documents(n: int) -> list[Document]:
    rng = np.random.default_rng(1)
    return [
        Document(f"d{i}", f"{' '.join(rng.choice(WORDS, 4))} {' '.join('dogs' for _ in range(i))}")
        for i in range(n)
    ]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return load_encoder(str(word_file(tmp_path_factory.mktemp("words"))))


def word_file(folder: Path) -> Path:
    return write_vectors(folder / "words.txt", WORDS, 12)


# The exact search.


@pytest.mark.parametrize(("k", "above"), [(1, None), (7, None), (None, 2.0), (5, 1.0)])
def test_a_blocked_product_finds_what_all_pairs_scored_one_by_one_give(monkeypatch, k, above):
    monkeypatch.setattr("surprise_rerank.surprise.neighbours.KEY_BLOCK", 64)
    x = corpus(300)
    form = LinearForm.of(Ensemble.from_vectors(x).moments(x))
    rows = np.arange(40, 140)
    neighbours = nearest(x[rows], x, form, k=k, above=above, query_rows=rows)
    z = x[rows].astype(np.float64) @ x.T.astype(np.float64) * form.slope + form.intercept
    z[np.arange(len(rows)), rows] = -np.inf
    expected = []
    for query, scores in enumerate(z):
        best = [
            key
            for key in np.argsort(-scores)[:k]
            if scores[key] > -np.inf and (above is None or scores[key] >= above)
        ]
        expected += [(query, key) for key in best]
    assert list(zip(neighbours.query.tolist(), neighbours.key.tolist(), strict=True)) == expected
    np.testing.assert_allclose(neighbours.z, [z[pair] for pair in expected], rtol=1e-9)


def test_equal_vectors_do_not_become_more_pairs_than_asked_for():
    x = np.ones((KEY_BLOCK + 10, 4), np.float32) / 2
    plain = LinearForm(np.ones(len(x)), np.zeros(len(x)))
    neighbours = nearest(x[:50], x, plain, k=3, query_rows=np.arange(50))
    assert np.bincount(neighbours.query).tolist() == [3] * 50
    assert (neighbours.query != neighbours.key).all()


def test_a_threshold_that_lets_everything_through_is_an_error(monkeypatch):
    monkeypatch.setattr("surprise_rerank.surprise.neighbours.MOST_PAIRS", 100)
    with pytest.raises(DataError, match="more than 100 pairs"):
        similar_documents((range(50), corpus(50)), SimilaritySettings(k=None, above=-100.0))


# What ranks.


def test_cosine_and_surprise_rank_by_their_own_column():
    x = corpus(80) + 0.3  # a narrow cone, where they differ
    ids = [str(i) for i in range(80)]
    tables = {
        name: similar_documents((ids, x), SimilaritySettings(k=5, similarity=name)).table()
        for name in ("cosine", "surprise")
    }
    for name, table in tables.items():
        column = table[name].to_numpy().reshape(80, 5)
        assert (np.diff(column, axis=1) <= 1e-12).all()
    assert tables["cosine"]["neighbour"] != tables["surprise"]["neighbour"]


def test_dynamax_ranks_the_pool_as_the_similarity_of_two_texts_does(encoder):
    documents = word_documents(12)
    settings = SimilaritySettings(k=3, similarity="dynamax", pool=11)
    table = similar_documents(documents, settings, encoder=encoder).table().to_pylist()
    tokens = {d.id: encoder.encode([d.content]).tokens.directions for d in documents}
    assert len(table) == 36
    for row in table[:6]:
        x = tokens[row["document"]]
        best = sorted(
            (by_definition(x, y) for name, y in tokens.items() if name != row["document"]), reverse=True
        )
        assert row["dynamax"] == pytest.approx(best[row["rank"] - 1], abs=0.01)  # in float16


def by_definition(x: np.ndarray, y: np.ndarray) -> float:
    """DynaMax-Jaccard of two texts' unit tokens over the universe of both."""
    universe = np.concatenate([x, y])
    one, other = (np.maximum((universe @ tokens.T).max(axis=1), 0) for tokens in (x, y))
    return np.minimum(one, other).sum() / np.maximum(one, other).sum()


def test_documents_against_others_may_have_the_same_ids_and_are_their_ensemble():
    x, archive = corpus(5), corpus(60, seed=3)
    similar = similar_documents((range(5), x), SimilaritySettings(k=2), against=(range(60), archive))
    form = LinearForm.of(Ensemble.from_vectors(archive).moments(archive))
    expected = nearest(x, archive, form, k=2)
    assert [int(pair[1]) for pair in pairs(similar)] == expected.key.tolist()
    groups = similar_documents((range(5), x), SimilaritySettings(k=1), against=(range(5), x)).groups(1.0)
    assert {(row["corpus"], row["document"]) for row in groups.to_pylist()} == {
        (name, str(i)) for name in ("documents", "against") for i in range(5)
    }


# Copies and groups.


def test_a_copy_is_compared_once_and_names_the_first_document_of_its_text(encoder):
    documents = [*word_documents(6), Document("copy", word_documents(6)[2].text), word_documents(6)[1]]
    similar = similar_documents(documents, SimilaritySettings(k=2), encoder=encoder)
    rows = similar.table().to_pylist()
    assert len(similar.documents) == 6
    assert [(r["document"], r["neighbour"], r["surprise"]) for r in rows[12:]] == [("copy", "d2", None)]
    assert all(row["neighbour"] != "copy" for row in rows)
    groups = similar.groups(1.0).to_pylist()
    assert {"group": groups[0]["group"], "document": "copy", "size": groups[0]["size"]} in groups
    assert any(row["document"] == "d2" for row in groups)


def test_groups_are_chains_of_near_duplicates_the_largest_first():
    x = corpus(9, d=32)
    x[1], x[2] = unit_rows(np.stack([x[0] + 0.02, x[0] + 0.04]))
    x[8] = x[7]
    similar = similar_documents(([f"d{i}" for i in range(9)], x), SimilaritySettings(k=1))
    rows = [(r["group"], r["document"], r["size"]) for r in similar.groups(0.9).to_pylist()]
    assert rows == [(1, "d0", 3), (1, "d1", 3), (1, "d2", 3), (2, "d7", 2), (2, "d8", 2)]
    with pytest.raises(DataError, match=r"the threshold of duplicates must be a number above 0, got 0\.0"):
        similar.groups(0.0)


# Parts.


def test_parts_that_are_there_are_not_done_again(tmp_path, monkeypatch):
    monkeypatch.setitem(SimilaritySettings.__init__.__globals__["_PART_ROWS"], "surprise", 32)
    source = ([str(i) for i in range(100)], corpus(100))
    whole = pairs(similar_documents(source, SimilaritySettings(k=3), folder=tmp_path / "one"))
    done: list[int] = []
    write = comparing_module._Comparer.write

    def stopped(self, number):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(number)
        write(self, number)

    monkeypatch.setattr(comparing_module._Comparer, "write", stopped)
    with pytest.raises(KeyboardInterrupt):
        similar_documents(source, SimilaritySettings(k=3), folder=tmp_path / "two")
    monkeypatch.setattr(
        comparing_module._Comparer, "write", lambda self, number: (done.append(number), write(self, number))
    )
    assert pairs(similar_documents(source, SimilaritySettings(k=3), folder=tmp_path / "two")) == whole
    assert done == [0, 1, 2, 3]
    files = [path for path in (tmp_path / "two").rglob("*") if path.is_file()]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda ids, x: ((ids, x), SimilaritySettings(k=4)), "k was 3, now 4"),
        (lambda ids, x: ((ids, x), SimilaritySettings(k=3, similarity="cosine")), "similarity was"),
        (
            lambda ids, x: (([*ids[:-1], "other"], x), SimilaritySettings(k=3)),
            "documents have changed, part 0",
        ),
        (lambda ids, x: ((ids, x[::-1]), SimilaritySettings(k=3)), "vectors of documents have changed"),
    ],
)
def test_a_folder_of_another_job_is_refused(tmp_path, change, said):
    ids, x = [str(i) for i in range(10)], corpus(10)
    similar_documents((ids, x), SimilaritySettings(k=3), folder=tmp_path / "work")
    source, settings = change(ids, x)
    with pytest.raises(StoreError, match=said):
        similar_documents(source, settings, folder=tmp_path / "work")


def test_a_folder_of_something_else_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("surprise_rerank.connectors.similar._corpus.CHUNK", 64)
    ids = [str(i) for i in range(100)]
    similar_documents((ids, corpus(100)), folder=tmp_path / "work")
    with pytest.raises(StoreError, match="more than 1 parts"):  # fewer documents than before
        similar_documents((ids[:64], corpus(100)[:64]), folder=tmp_path / "work")
    (tmp_path / "work").rename(tmp_path.parent / f"{tmp_path.name}-work")
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match="something else than a job"):
        similar_documents((["a", "b"], corpus(2)), folder=tmp_path)
    assert os.listdir(tmp_path) == ["mine.txt"]


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ([], "no documents"),
        ([("a", "one"), ("a", "two")], "'a' is empty, or of two texts"),
        ((["a"], corpus(2)), "the number of ids must be 2, got 1"),
    ],
)
def test_documents_that_cannot_be_compared_are_refused(documents, said, encoder):
    with pytest.raises(DataError, match=said):
        similar_documents(documents, encoder=encoder)


@pytest.mark.parametrize(
    "wrong", [{"k": 0}, {"k": None}, {"similarity": "bm25"}, {"search": "hnsw"}, {"k": 5, "pool": 4}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(DataError):
        SimilaritySettings(**wrong)


# An index.


@pytest.fixture(scope="module", params=[None, Passages(tokens=64)], ids=["whole", "short"])
def index(request, tmp_path_factory, encoder) -> str:
    where = tmp_path_factory.mktemp("of") / "index"
    options = IndexOptions(passages=request.param, surprise_vector=True)
    with DocumentIndex.open(where, encoder, options=options) as opened:
        opened.sync(word_documents(30))
        opened.set_ensemble(opened.ensemble())
    return str(where)


@pytest.mark.parametrize("similarity", ["surprise", "cosine", "dynamax"])
def test_an_index_gives_the_pairs_of_its_documents(index, encoder, similarity):
    settings = SimilaritySettings(k=3, similarity=similarity, pool=29)
    rows = similar_documents(None, settings, index=index).table().to_pylist()
    expected = similar_documents(word_documents(30), settings, encoder=encoder).table().to_pylist()
    assert_alike(rows, expected, similarity, 0.03 if similarity == "dynamax" else 1e-4)
    if similarity != "dynamax":
        graph = similar_documents(None, replace(settings, search="graph"), index=index)
        assert_alike(graph.table().to_pylist(), expected, similarity, 1e-4)
    new = [Document("new", word_documents(30)[4].text + " dogs")]
    similar = similar_documents(new, SimilaritySettings(k=1), index=index, encoder=encoder)
    assert pairs(similar)[0][0] == "new"
    assert len(similar.against) == 30


def assert_alike(rows: list[dict], others: list[dict], column: str, within: float) -> None:
    """The same scores at each document's ranks; of equally near ones any may come first."""

    def scores(of: list[dict]) -> list[tuple[str, int, float]]:
        return sorted((row["document"], row["rank"], row[column]) for row in of)

    for one, other in zip(scores(rows), scores(others), strict=True):
        assert one[:2] == other[:2]
        assert one[2] == pytest.approx(other[2], abs=within)


def test_of_split_documents_the_means_of_their_passages_are_compared(tmp_path, encoder):
    whole = [Document(d.id, f"{d.text}. {d.text} dogs. " * 3) for d in word_documents(30)]
    options = IndexOptions(passages=Passages(tokens=8, overlap=0), surprise_vector=True)
    with DocumentIndex.open(tmp_path / "split", encoder, options=options) as opened:
        opened.sync(whole)
        opened.set_ensemble(opened.ensemble())
        ids = [d.id for d in whole]
        stored = opened.corpus.pools.fetch(ids, frozenset({"dense"}))
        assert len(stored.ids) > 2 * len(whole)
        rows = [
            unit_rows(stored.dense[[stored_id == name for stored_id in stored.ids]]).mean(axis=0)
            for name in ids
        ]
    settings = SimilaritySettings(k=3)
    expected = similar_documents((ids, np.array(rows)), settings)
    similar = similar_documents(None, settings, index=str(tmp_path / "split"))
    assert_alike(similar.table().to_pylist(), expected.table().to_pylist(), "surprise", 1e-4)
    # The graph finds passages, whose documents are compared: it can miss one.
    graph = similar_documents(None, replace(settings, search="graph"), index=str(tmp_path / "split"))
    assert len({*pairs(graph)} & {*pairs(expected)}) >= 0.95 * 90
    with pytest.raises(DataError, match="token vectors of passages"):
        similar_documents(None, SimilaritySettings(similarity="dynamax"), index=str(tmp_path / "split"))


# The command.


def command(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and error."""
    with pytest.MonkeyPatch.context() as patch:
        out, err = io.StringIO(), io.StringIO()
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        return (
            exit_code(main, "surprise-rerank", "similar", *map(str, arguments)),
            out.getvalue(),
            err.getvalue(),
        )


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "docs.jsonl"
    rows = [*word_documents(8), Document("copy", word_documents(8)[3].text)]
    path.write_text("".join(json.dumps({"id": d.id, "text": d.text}) + "\n" for d in rows))
    return path


READ = {
    "parquet": lambda path: parquet.read_table(path).to_pylist(),
    "csv": lambda path: list(csv.DictReader(path.read_text().splitlines())),
    "jsonl": lambda path: [json.loads(line) for line in path.read_text().splitlines()],
}


@pytest.mark.parametrize("suffix", READ)
def test_the_command_writes_pairs_and_groups_by_their_suffix(tmp_path, source, suffix):
    out, groups = tmp_path / f"pairs.{suffix}", tmp_path / f"groups.{suffix}"
    code, out_text, err = command(
        source, "--out", out, "--groups", groups, "-k", 2, "--model", word_file(tmp_path), "--json"
    )
    assert code == 0, err
    summary = json.loads(out_text)
    assert (summary["pairs"], summary["documents"], summary["copies"]) == (17, 8, 1)
    rows = READ[suffix](out)
    assert list(rows[0]) == ["document", "neighbour", "rank", "surprise", "cosine"]
    assert len(rows) == 17
    assert groups.exists()
    assert not (tmp_path / f"pairs.{suffix}.work").exists()
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "n.xlsx"], "choose .parquet, .csv, .jsonl"),
        (["--out", "no/n.csv"], "there is no folder no"),
        (["--out", "docs.jsonl"], "would be written where it is read"),
        (["--out", "n.csv", "--groups", "n.csv"], "choose two places"),
        (["--out", "n.csv", "--set", "duplicate=.9"], "belongs to --groups"),
        (["--out", "n.csv", "-k", "0"], "k must be a whole number from 1 to 1000, got 0"),
        (["--out", "n.csv", "--set", "workers=3"], "belongs to --ray"),
        (["--out", "n.csv", "--set", "search=graph"], "index must be there, got None; give one"),
        (["--out", "n.csv", "--set", "device=toaster"], "'toaster' cannot be used"),
    ],
)
def test_the_command_refuses_before_it_computes(source, monkeypatch, arguments, said):
    monkeypatch.chdir(source.parent)
    code, _, err = command("docs.jsonl", *arguments, "--model", "words.txt")
    assert code == 2
    assert said in err
    assert not (source.parent / "n.csv.work").exists()
