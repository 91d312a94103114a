"""The study of the defaults: its row `auto` is the product, and nothing is chosen on what is left out."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from words import WordEncoder

from surprise_rerank.candidates import Candidates, Query
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.core.tokens import TokenBatch, pooled_tokens
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, load_dataset
from surprise_rerank.rerank.auto import AUTO_DEFAULTS, AutoReranker, AutoSettings

# Behind what is installed: the scripts of benchmarks/ belong to no package.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.stored import index_of
from benchmarks.study import __main__ as command
from benchmarks.study.collection import Case, Collection
from benchmarks.study.formula import Auto, fusion
from benchmarks.study.left_out import PARTS, ROWS, START, STEPS, Study, quality_table
from benchmarks.study.reading import read_collection

WORDS = "ash bay cod dew elm fig gnu hay ivy jam kit log map nut oak pea ray sap tin urn".split()  # noqa: SIM905
DOCUMENTS, QUESTIONS = 60, 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BEIR folder of documents of some of twenty words; the relevant ones share most with the question."""
    folder = tmp_path_factory.mktemp("study") / "words"
    (folder / "qrels").mkdir(parents=True)
    rng = np.random.default_rng(0)
    corpus = []
    for i in range(DOCUMENTS):
        words = rng.choice(WORDS, size=rng.integers(4, 12))
        text = f"{' '.join(words[:3])}. {' '.join(words[3:])}."
        corpus.append({"_id": f"d{i}", "title": str(words[0]), "text": text})
    questions = [{"_id": f"q{i}", "text": " ".join(rng.choice(WORDS, size=3))} for i in range(QUESTIONS)]
    qrels = [f"{q['_id']}\t{d}\t1" for q in questions for d in sharing_most(q["text"], corpus)]
    for name, rows in (("corpus", corpus), ("queries", questions)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "qrels" / "dev.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *qrels, ""]))
    return folder


def sharing_most(question: str, corpus: list[dict[str, str]]) -> list[str]:
    """Ids of the three documents that have most of a question's words."""
    asked = set(question.split())
    shared = sorted(corpus, key=lambda document: -len(asked & set(document["text"].replace(".", "").split())))
    return [document["_id"] for document in shared[:3]]


@pytest.fixture(scope="module")
def encoder() -> WordEncoder:
    return WordEncoder(dimension=24)


@pytest.fixture(scope="module")
def dataset(folder: Path) -> RetrievalDataset:
    return load_dataset(str(folder), "dev")


@pytest.fixture(scope="module")
def cache(
    tmp_path_factory: pytest.TempPathFactory, folder: Path, dataset: RetrievalDataset, encoder: WordEncoder
) -> Path:
    """With an index of the data set."""
    cache = tmp_path_factory.mktemp("cache")
    options = IndexOptions(passages=None)
    with DocumentIndex.open(index_of(str(folder), cache, encoder), encoder, options=options) as index:
        index.sync(dataset.documents)
    return cache


@pytest.fixture(scope="module")
def collection(dataset: RetrievalDataset, folder: Path, encoder: WordEncoder, cache: Path) -> Collection:
    return read_collection(dataset, str(folder), encoder, cache=cache)


def stored(encoder: WordEncoder, texts: list[str]) -> TokenBatch:
    """Token vectors as the study's index has them."""
    return pooled_tokens(encoder.encode(texts).require_tokens())


def of_the_product(case: Case, encoder: WordEncoder, dataset: RetrievalDataset) -> tuple[Query, Candidates]:
    """The question and its pool as a re-ranker of an index is given them."""
    (query,) = encode_queries(encoder, [dataset.queries[case.name]], [case.name])
    texts = {document.id: document.content for document in dataset.documents}
    tokens = stored(encoder, [texts[name] for name in case.ids])
    pool = Candidates(
        tuple(case.ids),
        scores={"bm25": case.bm25},
        dense=case.corpus.dense[case.rows],
        tokens=tokens,
        terms=case.terms,
        corpus_moments={"bm25": case.whole_moments},
    )
    return query, pool


@pytest.mark.parametrize(
    "settings",
    [
        AUTO_DEFAULTS,
        START,
        replace(AUTO_DEFAULTS, trust=(0.7, 1.0)),
        replace(AUTO_DEFAULTS, long=(1, 5)),
        *PARTS.values(),
    ],
)
def test_the_row_auto_is_what_the_product_ranks(
    collection: Collection, encoder: WordEncoder, dataset: RetrievalDataset, settings: AutoSettings
) -> None:
    corpus = collection.corpus
    texts = {document.id: document.content for document in dataset.documents}
    tokens = stored(encoder, [texts[corpus.ids[row]] for row in corpus.sample])
    auto = AutoReranker(corpus.ensemble, tokens, corpus.words, settings, threads=1)
    for case in collection.cases:
        expected = auto.rerank(*of_the_product(case, encoder, dataset))
        scores = dict(zip(case.ids, Auto(settings)(case), strict=True))
        np.testing.assert_allclose([scores[name] for name in expected.ids], expected.scores, atol=2e-3)


def test_pools_and_scores_are_those_of_an_index(
    collection: Collection, encoder: WordEncoder, dataset: RetrievalDataset, tmp_path: Path
) -> None:
    with DocumentIndex.open(tmp_path / "index", encoder) as index:
        index.sync(dataset.documents)
        built = build_system("fusion", index, NO_OPTIONS.exactly())
        for case in collection.cases:
            (query,) = encode_queries(encoder, [dataset.queries[case.name]], [case.name])
            pool = built.retriever.retrieve(query, 100, built.needs)
            assert sorted(pool.ids) == case.ids
            ranking = built.reranker.rerank(query, pool)
            raw = dict(zip(ranking.ids, ranking.raw["bm25"], strict=True))
            np.testing.assert_allclose([raw[name] for name in case.ids], case.bm25, atol=1e-4)
            scores = dict(zip(ranking.ids, ranking.scores, strict=True))
            apart = np.abs(np.array([scores[name] for name in case.ids]) - fusion(case))
            # Qdrant's MaxSim has no floor at 0, which matters for short texts in few dimensions.
            assert np.median(apart) < 1e-3
            assert apart.max() < 0.3


def test_what_was_read_is_read_from_the_cache(
    collection: Collection, dataset: RetrievalDataset, folder: Path, cache: Path
) -> None:
    again = WordEncoder(dimension=24)
    second = read_collection(dataset, str(folder), again, cache=cache)
    assert not again.encoded_texts
    for case, other in zip(collection.cases, second.cases, strict=True):
        np.testing.assert_array_equal(Auto()(case), Auto()(other))


def test_nothing_is_chosen_on_what_is_left_out(collection: Collection) -> None:
    halves = (collection.cases[::2], collection.cases[1::2])
    parts = {
        (name, "words"): replace(collection, name=name, cases=own)
        for name, own in zip(("even", "odd"), halves, strict=True)
    }
    chosen = Study(parts).left_out()
    alone = {name: Study({(name, "words"): parts[name, "words"]}) for name in ("even", "odd")}
    assert chosen == {"even": alone["odd"].chosen(["odd"]), "odd": alone["even"].chosen(["even"])}


def test_every_row_has_its_values(collection: Collection) -> None:
    study = Study({("words", "model"): collection})
    table = quality_table(study, "model", {"words": AUTO_DEFAULTS})
    assert [row[0] for row in table.rows] == [*ROWS, "auto, fixed on the others", "auto"]
    assert all(0 <= row[1] <= 1 for row in table.rows)
    assert table.rows[-1][1:] == table.rows[-2][1:]
    steps: list[int] = []
    study.chosen(["words"], steps.append)
    assert len(steps) == len(STEPS)


def test_the_command_prints_the_tables(
    folder: Path, cache: Path, encoder: WordEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "load_encoder", lambda name: encoder)
    monkeypatch.setattr(command, "SPLITS", {"words": "dev"})
    (folder.parent / "beir").mkdir(exist_ok=True)
    (folder.parent / "beir" / "words").symlink_to(folder)
    asked = ["left-out", "--data", str(folder.parent), "--model", "words", "--cache", str(cache), "-q"]
    done = CliRunner().invoke(command.main, asked)
    assert done.exit_code == 0, done.output
    for expected in ("auto, fixed on the others", "without words", "the default"):
        assert expected in done.output
