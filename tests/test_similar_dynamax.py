"""Surprise over DynaMax in batches: the same to the last bit in any blocks, and by definition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as trials
from hypothesis import strategies as st
from words import WordEncoder

from surprise_rerank.connectors.similar import dynamax, encoding
from surprise_rerank.connectors.similar import settings as similar_settings
from surprise_rerank.connectors.similar.corpus import EncodedCorpus
from surprise_rerank.connectors.similar.dynamax import DynaMaxMoments, sample_rows
from surprise_rerank.connectors.similar.encoding import Model, Vectors
from surprise_rerank.connectors.similar.groups import DUPLICATE
from surprise_rerank.connectors.similar.job import SimilarityJob
from surprise_rerank.connectors.similar.settings import USUAL, SimilaritySettings
from surprise_rerank.connectors.similar.threads import Threads
from surprise_rerank.connectors.similar.workers import Sources, Workers
from surprise_rerank.core.tokens import TokenBatch, TokenForm
from surprise_rerank.documents import Document
from surprise_rerank.encoders import PairedEncoder
from surprise_rerank.errors import DataError, StoreError
from surprise_rerank.similarities import int8_jaccard as jaccard
from surprise_rerank.similarities.dynamax import DynaMax
from surprise_rerank.similarities.int8_jaccard import int8_is_exact, joint_jaccard
from surprise_rerank.surprise import neighbours as module_of_neighbours

pytest.importorskip("pyarrow")

WORDS = ["dog", "cat", "wolf", "fox", "tree", "leaf", "root", "stone", "river", "sea", "ship", "sail", "wind"]
SETTINGS = SimilaritySettings(k=3, similarity="dynamax", ensemble_sample=12)
DEFINITION = DynaMax("jaccard", "joint")
FORMS = [TokenForm(storage, pooling, 3) for storage in ("float32", "int8") for pooling in (1, 3)]


def texts(count: int, seed: int = 0, dimension: int = 24, longest: int = 12) -> TokenBatch:
    """Texts of 0 to `longest` tokens, some of which are zero vectors."""
    random = np.random.default_rng(seed)
    tokens = [random.normal(size=(n, dimension)) + 0.3 for n in random.integers(0, longest + 1, count)]
    for text in tokens[::5]:
        text[:1] = 0.0
    return TokenBatch.from_arrays(tokens, dimension).stored("int8")


def documents(count: int, prefix: str = "", seed: int = 0) -> list[Document]:
    random = np.random.default_rng(seed)
    made = [" ".join(random.choice(WORDS, random.integers(1, 9))) for _ in range(count)]
    return [Document(f"{prefix}{i}", text) for i, text in enumerate(made)]


def job(
    folder: Path,
    settings: SimilaritySettings = SETTINGS,
    count: int = 60,
    against: Sources | None = None,
    workers: Workers | None = None,
) -> SimilarityJob:
    done = SimilarityJob(folder, settings, model=Model("words", WordEncoder), workers=workers)
    done.prepare(Sources(["a"], [documents(count)]), against)
    return done


def rows_of(job: SimilarityJob) -> list[dict[str, object]]:
    return [row for batch in job.batches() for row in batch.to_pylist()]


def by_definition(corpus: EncodedCorpus, sample: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, n) similarities of all pairs read off the paper, and their surprise with the column as anchor."""
    tokens = corpus.tokens_of(np.arange(len(corpus)))
    n = len(corpus)
    similarity = np.array(
        [[DEFINITION.pair(tokens.text(i), tokens.text(j)) for j in range(n)] for i in range(n)]
    )
    z = np.empty((n, n))
    for anchor in range(n):
        members = [row for row in sample_rows(corpus, sample + 1).tolist() if row != anchor][:sample]
        own = similarity[members, anchor]
        z[:, anchor] = (similarity[:, anchor] - own.mean()) / own.std()
    return similarity, z


@given(seed=st.integers(0, 2**16), products=st.integers(1, 600), tokens=st.integers(1, 40))
@trials(max_examples=30, deadline=None)
def test_no_blocks_no_neighbours_and_no_order_change_a_bit_of_a_similarity(seed, products, tokens):
    first, second = texts(7, seed), texts(11, seed + 1)
    whole = joint_jaccard(first, second)
    random = np.random.default_rng(seed)
    some = random.permutation(11)[: random.integers(1, 12)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaccard, "_PRODUCTS", products)
        patch.setattr(jaccard, "_TOKENS", tokens)
        assert np.array_equal(joint_jaccard(first, second), whole)
        assert np.array_equal(joint_jaccard(first, second.take(some)), whole[:, some])
        assert np.array_equal(joint_jaccard(second, first).T, whole)


@given(seed=st.integers(0, 2**16))
@trials(max_examples=15, deadline=None)
def test_the_similarity_is_dynamax_as_published(seed):
    first, second = texts(4, seed), texts(5, seed + 1)
    found = joint_jaccard(first, second)
    for i in range(4):
        assert found[i] == pytest.approx(DEFINITION.pool(first.text(i), second), abs=1e-6)
        pairs = [DEFINITION.pair(first.text(i), second.text(j)) for j in range(5)]
        assert found[i] == pytest.approx(pairs, abs=1e-6)


@given(seed=st.integers(0, 2**16), form=st.sampled_from(FORMS), products=st.integers(1, 600))
@trials(max_examples=40, deadline=None)
def test_a_vector_that_tokens_were_merged_into_counts_as_often(seed, form, products):
    first, second = (form.of(texts(n, seed + n, longest=30)) for n in (4, 5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaccard, "_PRODUCTS", products)
        found = joint_jaccard(first, second)
    assert np.array_equal(found, joint_jaccard(second, first).T)
    assert np.array_equal(found, joint_jaccard(first.expanded(), second.expanded()))
    known = [float(first.text(i).any()) for i in range(4)]
    assert np.diag(joint_jaccard(first, first)) == pytest.approx(known, abs=1e-6)
    x, y = first.stored("int8"), second.stored("int8")
    for i in range(4):
        for j in range(5):
            weights = [side.between(k, k + 1).weights for side, k in ((x, i), (y, j))]
            pair = DEFINITION.pair(
                x.text(i), y.text(j), query_weights=weights[0], document_weights=weights[1]
            )
            assert found[i, j] == pytest.approx(pair, abs=1e-6)


@pytest.mark.parametrize("dimension", [24, 1100])
def test_processors_that_multiply_int8_and_others_give_the_same_bits(monkeypatch, dimension):
    if not int8_is_exact():
        pytest.skip("torch's products of int8 overflow on this processor")
    first, second = texts(6, 3, dimension), texts(9, 4, dimension)
    found = []
    for native in (True, False):
        monkeypatch.setattr(jaccard, "multiplies_int8", lambda native=native: native)
        found.append(joint_jaccard(first, second))
    assert np.array_equal(*found)


def test_tokens_of_one_component_are_compared_rightly():
    first, second = texts(5, 1, 1), texts(8, 2, 1)
    found = joint_jaccard(first, second)
    assert np.array_equal(found, joint_jaccard(second, first).T)
    for i in range(5):
        assert found[i] == pytest.approx([DEFINITION.pair(first.text(i), second.text(j)) for j in range(8)])


def test_a_product_of_the_largest_components_is_exact_where_float32_would_round(monkeypatch):
    # 127 * 127 * 1200 + 1 is odd and above 2^24, where float32 has even numbers only.
    tokens = torch.full((1, 1201), 127, dtype=torch.int8)
    others = tokens.clone()
    tokens[0, -1] = others[0, -1] = 1
    monkeypatch.setattr(jaccard, "multiplies_int8", lambda: False)
    exact = np.float32(127 * 127 * 1200 + 1)
    assert float(jaccard._product(torch.device("cpu"), 1201)(tokens, others)[0, 0]) == exact


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_gpu_gives_the_same_bits():
    first, second = texts(40, 1, 384, 60), texts(50, 2, 384, 60)
    assert np.array_equal(joint_jaccard(first, second, device="cuda"), joint_jaccard(first, second))


def test_texts_without_tokens_are_similar_to_nothing():
    empty = TokenBatch.from_arrays([np.zeros((0, 8)), np.zeros((2, 8))], 8)
    some = TokenBatch.from_arrays([np.ones((2, 8))], 8)
    assert joint_jaccard(empty, some).tolist() == [[0.0], [0.0]]
    assert joint_jaccard(empty, empty).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert joint_jaccard(empty.take([]), some).shape == (0, 1)


def test_dimensions_that_differ_are_refused():
    with pytest.raises(DataError, match="dimension 24 and 8"):
        joint_jaccard(texts(2), TokenBatch.from_arrays([np.ones((2, 8))], 8))


def test_every_document_gets_its_neighbours_by_definition(tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "CHUNK", 16)
    monkeypatch.setattr(dynamax, "MOMENT_ROWS", 16)
    monkeypatch.setattr(dynamax, "_TOKEN_ROWS", 7)
    done = job(tmp_path)
    similarity, z = by_definition(done.documents, 12)
    np.fill_diagonal(z, -np.inf)
    rows = rows_of(done)
    assert [row["rank"] for row in rows] == [1, 2, 3] * 60
    for row in rows:
        d, n = int(row["document"]), int(row["neighbour"])
        assert row["surprise"] == pytest.approx(z[d, n], abs=1e-4)
        assert row["dynamax"] == pytest.approx(similarity[d, n], abs=1e-6)
        assert row["surprise"] >= np.sort(z[d])[-row["rank"]] - 1e-4
    assert "cosine" not in rows[0]


def long_documents(count: int) -> list[Document]:
    random = np.random.default_rng(7)
    return [Document(f"d{i}", " ".join(random.choice(WORDS, 150))) for i in range(count)]


@pytest.mark.parametrize("pooling", [None, 2, 1])
def test_tokens_are_stored_and_compared_in_the_form_that_was_asked_for(tmp_path, pooling):
    form = USUAL if pooling is None else TokenForm("int8", pooling)
    model, given = Model("words", WordEncoder), Sources(["a"], [long_documents(20)])
    done = SimilarityJob(tmp_path, replace(SETTINGS, pooling=pooling), model=model)
    done.prepare(given)
    assert done.documents.token_form == form
    own = form.of(WordEncoder().encode([d.content for d in long_documents(20)]).require_tokens())
    stored = done.documents.tokens_of(np.arange(20))
    assert np.array_equal(stored.directions, own.directions)
    assert np.array_equal(stored.scales, own.scales)
    assert np.array_equal(stored.weights, own.weights)
    for row in rows_of(done):
        i, j = (int(row[name][1:]) for name in ("document", "neighbour"))
        score = DEFINITION.pool(
            stored.text(i), stored.take([j]), query_weights=stored.between(i, i + 1).weights
        )
        assert row["dynamax"] == pytest.approx(score[0], abs=1e-6)
    # What is there is taken as it is, and nothing else is mixed with it.
    again = SimilarityJob(tmp_path, replace(SETTINGS, k=2), model=Model("words", lambda: 1 / 0))
    again.prepare(given)
    assert again.documents.token_form == form
    other = SimilarityJob(tmp_path, replace(SETTINGS, pooling=7), model=model)
    with pytest.raises(DataError, match=r"another job \(not the same token form\)"):
        other.prepare(given)


def test_documents_that_are_compared_with_given_tokens_get_their_form(tmp_path):
    form = TokenForm("int8", 3)
    encoded = WordEncoder().encode([d.content for d in long_documents(12)])
    batch = ([f"d{i}" for i in range(12)], encoded.dense, form.of(encoded.require_tokens()))
    given, others = Vectors("mine", [batch], True, form), Sources(["a"], [long_documents(12)[:6]])
    settings = replace(SETTINGS, k=1, ensemble_sample=4)
    done = SimilarityJob(tmp_path / "one", settings, model=Model("words", WordEncoder))
    done.prepare(given, others)
    assert done.neighbours.token_form == form
    best = {row["document"]: row for row in rows_of(done)}
    for i in range(6):
        assert best[f"d{i}"]["dynamax"] == pytest.approx(1.0, abs=1e-6)
    wrong = SimilarityJob(tmp_path / "other", replace(settings, pooling=7))
    with pytest.raises(DataError, match=r"of mine are stored as int8, 3 tokens merged .* and int8, 7 "):
        wrong.prepare(given)


def test_chunks_in_other_forms_are_other_chunks():
    forms = (None, TokenForm("int8", 1), USUAL, TokenForm("float32", 3.5))
    assert len({encoding.digest_of(documents(3), "m", form) for form in forms}) == 4


@pytest.mark.parametrize("pooling", [1, 3])
@pytest.mark.parametrize("damage", ["cut", "absent"])
def test_damaged_tokens_are_told_with_their_folder(tmp_path, damage, pooling):
    done = job(tmp_path, replace(SETTINGS, pooling=pooling))
    for path in (tmp_path / "documents").glob("chunk-*/token*.npy"):
        whole = path.read_bytes()
        path.unlink() if damage == "absent" else path.write_bytes(whole[:-1])
        with pytest.raises(DataError, match="chunk-00000-0000000 are damaged"):
            EncodedCorpus.open(done.documents.folder).tokens_of(np.array([3, 59]))
        path.write_bytes(whole)
    assert len(EncodedCorpus.open(done.documents.folder).tokens_of(np.array([3, 59]))) == 2


def test_near_duplicates_are_told_by_their_similarity():
    assert DUPLICATE == {"cosine": 0.95, "dynamax": 0.9, "both": 0.9}


@pytest.mark.parametrize("wrong", [{"pooling": 0.5}, {"similarity": "cosine"}])
def test_forms_that_make_no_sense_are_refused(wrong):
    with pytest.raises(DataError, match=r"at least 1|is for similarity"):
        replace(SETTINGS, **{"pooling": 2, **wrong})


def test_blocks_parts_threads_and_chunks_do_not_change_a_byte(tmp_path, monkeypatch):
    usual = rows_of(job(tmp_path / "usual"))
    monkeypatch.setattr(encoding, "CHUNK", 7)
    monkeypatch.setattr(dynamax, "MOMENT_ROWS", 5)
    monkeypatch.setattr(dynamax, "_TOKEN_ROWS", 3)
    monkeypatch.setattr(jaccard, "_PRODUCTS", 50)
    monkeypatch.setitem(similar_settings._PART_ROWS, "dynamax", 11)
    other = rows_of(job(tmp_path / "other", workers=Threads(3)))
    assert other == usual


@pytest.mark.parametrize("similarity", ["dynamax", "both"])
def test_all_pairs_above_a_surprise(tmp_path, similarity):
    settings = replace(SETTINGS, k=None, above=1.5, similarity=similarity, pool=59)
    done = job(tmp_path, settings)
    _, z = by_definition(done.documents, 12)
    np.fill_diagonal(z, -np.inf)
    found = {(int(row["document"]), int(row["neighbour"])) for row in rows_of(done)}
    assert found == set(zip(*(side.tolist() for side in np.nonzero(z >= 1.5)), strict=True))
    best = rows_of(job(tmp_path, replace(settings, k=2)))
    assert {(row["document"], row["neighbour"]) for row in best} <= {(str(d), str(n)) for d, n in found}
    assert max(row["rank"] for row in best) == 2


def test_a_threshold_that_lets_through_too_many_pairs_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module_of_neighbours, "MOST_PAIRS", 100)
    with pytest.raises(DataError, match="raise it, or give k"):
        rows_of(job(tmp_path, replace(SETTINGS, k=None, above=-50.0)))


def test_so_many_neighbours_of_each_are_never_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(module_of_neighbours, "MOST_PAIRS", 100)
    assert len(rows_of(job(tmp_path, SETTINGS))) == 180


def test_candidates_of_the_whole_corpus_scored_again_are_dynamax_alone(tmp_path):
    alone = rows_of(job(tmp_path / "alone"))
    both = rows_of(job(tmp_path / "both", replace(SETTINGS, similarity="both", pool=59)))
    assert [{**row, "cosine": None} for row in both] == [{**row, "cosine": None} for row in alone]


def test_candidates_come_from_the_surprise_of_the_cosine(tmp_path):
    both = rows_of(job(tmp_path / "both", replace(SETTINGS, similarity="both", pool=5)))
    first = rows_of(job(tmp_path / "first", SimilaritySettings(k=5)))
    cosine = {(row["document"], row["neighbour"]): row["cosine"] for row in first}
    for row in both:
        assert row["cosine"] == cosine[row["document"], row["neighbour"]]
    assert [row["rank"] for row in both] == [1, 2, 3] * 60


@pytest.mark.parametrize("similarity", ["dynamax", "both"])
def test_another_corpus_gives_the_neighbours_and_the_ensemble(tmp_path, similarity):
    settings = replace(SETTINGS, similarity=similarity, pool=20)
    done = job(tmp_path, settings, count=9, against=Sources(["b"], [documents(40, "b", 1)]))
    rows = rows_of(done)
    assert len(rows) == 27
    assert all(row["neighbour"].startswith("b") for row in rows)
    assert DynaMaxMoments(done.neighbours, 12).missing() == []


def measure(moments: DynaMaxMoments) -> None:
    for first in moments.missing():
        moments.compute(first)


def test_every_document_has_as_many_members_and_is_none_of_them(tmp_path):
    corpus = job(tmp_path).documents
    moments = DynaMaxMoments(corpus, 12)
    assert len(moments.members) == 13
    similarity, _ = by_definition(corpus, 12)
    measure(moments)
    kept = moments.of(np.arange(60))
    for row in range(60):
        members = [other for other in moments.members.tolist() if other != row][:12]
        assert kept.mean[row] == pytest.approx(similarity[members, row].mean(), abs=1e-6)
        assert kept.deviation[row] == pytest.approx(similarity[members, row].std(), abs=1e-6)


def test_a_sample_of_all_leaves_out_the_document_itself(tmp_path):
    corpus = job(tmp_path, replace(SETTINGS, ensemble_sample=500), count=20).documents
    moments = DynaMaxMoments(corpus, 500)
    measure(moments)
    similarity, _ = by_definition(corpus, 500)
    others = similarity[~np.eye(20, dtype=bool)].reshape(20, 19)
    assert moments.of(np.arange(20)).mean == pytest.approx(others.mean(axis=1), abs=1e-6)


def test_the_sample_does_not_depend_on_the_order_of_the_documents(tmp_path):
    own = documents(50)
    corpora = []
    for name, order in (("one", own), ("two", own[::-1])):
        done = SimilarityJob(tmp_path / name, SETTINGS, model=Model("words", WordEncoder))
        done.prepare(Sources(["a"], [order]))
        corpora.append(done.documents)
    one, two = (corpus.ids(sample_rows(corpus, 8)).to_pylist() for corpus in corpora)
    assert one == two
    assert len(set(one)) == 8
    assert sorted(sample_rows(corpora[0], 99).tolist()) == list(range(50))


def test_tokens_may_have_another_dimension_than_dense_vectors(tmp_path):
    def load():
        return PairedEncoder(WordEncoder(8), WordEncoder(16))

    paired = SimilarityJob(tmp_path / "pair", SETTINGS, model=Model("pair", load))
    paired.prepare(Sources(["a"], [documents(30)]))
    assert paired.documents.dimension == 8
    assert paired.documents.tokens_of(np.arange(30)).dimension == 16
    assert rows_of(paired) == rows_of(job(tmp_path / "alone", count=30))  # of the same tokens


def test_moments_are_shared_out_in_blocks_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(dynamax, "MOMENT_ROWS", 16)
    corpus = job(tmp_path).documents
    one, two = DynaMaxMoments(corpus, 11), DynaMaxMoments(corpus, 11)  # of which the job knows nothing
    assert list(one.blocks()) == one.missing() == [0, 16, 32, 48]
    assert [one.compute(48), two.compute(0)] == [12, 16]
    assert one.missing() == two.missing() == [16, 32]
    with pytest.raises(StoreError):
        one.of(np.array([20]))
    kept = {path.name: path.stat().st_mtime_ns for path in (corpus.folder / "moments").iterdir()}
    measure(one)
    after = {path.name: path.stat().st_mtime_ns for path in (corpus.folder / "moments").iterdir()}
    assert kept.items() <= after.items()
    assert DynaMaxMoments(corpus, 13).missing() == [0, 16, 32, 48]


def test_a_corpus_of_one_document_has_no_neighbours(tmp_path):
    assert rows_of(job(tmp_path, count=1)) == []


def test_candidates_may_come_from_an_index(tmp_path):
    settings = replace(SETTINGS, similarity="both", pool=10)
    exact = rows_of(job(tmp_path / "exact", settings))
    assert rows_of(job(tmp_path / "index", replace(settings, mode="index"))) == exact
