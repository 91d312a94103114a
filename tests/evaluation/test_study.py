"""The study of the defaults: its row `auto` is the product, and nothing is chosen on what is left out."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.files import write_beir
from helpers.words import WordEncoder

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, load_dataset
from surprise_rerank.eval.retrieval.workspace import Workspace, index_key
from surprise_rerank.rerank.auto import AUTO

# Behind what is installed: the scripts of benchmarks/ belong to no package.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.study import __main__ as command
from benchmarks.study.collection import Collection, read_collection
from benchmarks.study.left_out import ROWS, STEPS, Study, auto, fusion, quality_table

WORDS = "ash bay cod dew elm fig gnu hay ivy jam kit log map nut oak pea ray sap tin urn".split()  # noqa: SIM905
DOCUMENTS, QUESTIONS = 60, 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BEIR folder of documents of some of twenty words; the relevant ones share most with the question."""
    folder = tmp_path_factory.mktemp("study") / "words"
    rng = np.random.default_rng(0)
    documents = {}
    for i in range(DOCUMENTS):
        words = rng.choice(WORDS, size=rng.integers(4, 12))
        documents[f"d{i}"] = f"{words[0]} {' '.join(words[:3])}. {' '.join(words[3:])}."
    questions = {f"q{i}": " ".join(rng.choice(WORDS, size=3)) for i in range(QUESTIONS)}
    judged = [(q, d, 1) for q, text in questions.items() for d in sharing_most(text, documents)]
    return write_beir(folder, documents, questions, judged, "dev")


def sharing_most(question: str, documents: dict[str, str]) -> list[str]:
    """Ids of the three documents that have most of a question's words."""
    words = set(question.split())
    return sorted(documents, key=lambda name: -len(words & {*documents[name].replace(".", "").split()}))[:3]


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
    workspace = Workspace(cache, index_key(str(folder), dataset), encoder, None, Terminal(quiet=True))
    with DocumentIndex.open(cache / workspace.name / "qdrant", encoder, options=options) as index:
        index.sync(dataset.documents)
    return cache


@pytest.fixture(scope="module")
def collection(dataset: RetrievalDataset, folder: Path, encoder: WordEncoder, cache: Path) -> Collection:
    return read_collection(dataset, str(folder), encoder, cache=cache)


@pytest.mark.parametrize("name", ["fusion", "auto"])
def test_pools_and_scores_are_those_of_an_index(collection, encoder, dataset, tmp_path, name):
    with DocumentIndex.open(tmp_path / "index", encoder) as index:
        index.sync(dataset.documents)
        built = build_system(name, index, NO_OPTIONS.exactly())
        for case in collection.pools:
            question = str(collection.names[case.i])
            (query,) = encode_queries(encoder, [dataset.queries[question]], [question])
            pool = built.retriever.retrieve(query, 100, built.needs)
            ids = case.candidates.ids
            assert sorted(pool.ids) == list(ids)
            ranking = built.reranker.rerank(query, pool)
            raw = dict(zip(ranking.ids, ranking.raw["bm25"], strict=True))
            np.testing.assert_allclose([raw[name] for name in ids], case.candidates.scores["bm25"], atol=1e-4)
            scores = dict(zip(ranking.ids, ranking.scores, strict=True))
            ours = (auto if name == "auto" else fusion)(case)
            apart = np.abs(np.array([scores[name] for name in ids]) - ours)
            # Qdrant's MaxSim has no floor at 0, which matters for short texts in few dimensions.
            # A search makes feedback of its two lists, the study of the pool.
            assert np.median(apart) < (1e-3 if name == "fusion" else 0.2)
            assert apart.max() < (0.3 if name == "fusion" else 1.0)


def half(collection: Collection, first: int) -> Collection:
    of_questions = ("names", "questions", "own", "bm25", "inclusion", "grades", "ideal")
    return replace(collection, **{field: getattr(collection, field)[first::2] for field in of_questions})


def test_nothing_is_chosen_on_what_is_left_out(collection):
    parts = {(name, "words"): half(collection, i) for i, name in enumerate(("even", "odd"))}
    chosen = Study(parts).left_out()
    alone = {name: Study({(name, "words"): parts[name, "words"]}) for name in ("even", "odd")}
    assert chosen == {"even": alone["odd"].chosen(["odd"]), "odd": alone["even"].chosen(["even"])}


def test_every_row_has_its_values(collection):
    study = Study({("words", "model"): collection})
    table = quality_table(study, "model", {"words": AUTO})
    assert [row[0] for row in table.rows] == [*ROWS, "auto, fixed on the others", "auto"]
    assert all(0 <= row[1] <= 1 for row in table.rows)
    assert table.rows[-1][1:] == table.rows[-2][1:]
    steps: list[int] = []
    study.chosen(["words"], steps.append)
    assert len(steps) == len(STEPS)


def test_the_command_prints_the_tables(folder, cache, encoder, monkeypatch):
    monkeypatch.setattr(command, "load_encoder", lambda name: encoder)
    monkeypatch.setattr(command, "SPLITS", {"words": "dev"})
    (folder.parent / "beir").mkdir(exist_ok=True)
    (folder.parent / "beir" / "words").symlink_to(folder)
    arguments = ["left-out", "--data", str(folder.parent), "--model", "words", "--cache", str(cache), "-q"]
    done = CliRunner().invoke(command.main, arguments)
    assert done.exit_code == 0, done.output
    for expected in ("auto, fixed on the others", "without feedback", "the default"):
        assert expected in done.output
