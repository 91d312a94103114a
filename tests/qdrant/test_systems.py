"""Systems by name: on an index, in an evaluation and on the command line a name means one thing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.files import write_beir, write_vectors

from surprise_rerank import (
    Candidates,
    DataError,
    Document,
    DocumentIndex,
    Query,
    Ranking,
    System,
    load_encoder,
    register_system,
)
from surprise_rerank._candidates import Field
from surprise_rerank.connectors.qdrant import DenseRetriever, IndexOptions
from surprise_rerank.connectors.systems import BuiltSystem, SystemInputs
from surprise_rerank.connectors.systems import _register as register
from surprise_rerank.connectors.systems._register import SYSTEMS, find_system
from surprise_rerank.eval.cli.rerank_eval.main import command as rerank_eval
from surprise_rerank.eval.cli.surprise_rerank.main import command
from surprise_rerank.eval.retrieval.evaluation import evaluate
from surprise_rerank.eval.retrieval.settings import RetrievalSettings
from surprise_rerank.eval.retrieval.systems import PoolName
from surprise_rerank.eval.retrieval.workspace import has_lucene

WORDS = [
    "wing", "lift", "drag", "flow", "heat", "wave", "beam", "load", "jet", "mach",
    "shock", "tail", "spar", "rib", "skin", "mass", "fuel", "tank", "pump", "fan",
]  # fmt: skip
OTHERS = [
    f"{a} {b}" for a in ("tea", "milk", "bread", "salt", "jam") for b in ("egg", "rye", "pot", "cup", "oat")
]
QUESTIONS = {f"q{i}": f"{WORDS[i]} {WORDS[-1 - i]} {WORDS[(3 * i) % 20]}" for i in range(12)}
BOTH = list(SYSTEMS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Word vectors, a corpus in BEIR's layout, and an index of it with the documents as its ensemble."""
    place = tmp_path_factory.mktemp("systems")
    rng = np.random.default_rng(3)
    known = dict.fromkeys([*WORDS, *" ".join(OTHERS).split()])
    write_vectors(place / "words.txt", {word: rng.normal(size=24) for word in known})
    # Texts of different lengths, so that no two documents score the same: Qdrant cuts equals anywhere.
    frequencies = rng.dirichlet(np.full(len(WORDS), 0.7))
    texts = {f"d{i}": " ".join(rng.choice(WORDS, size=15 + i, p=frequencies)) for i in range(60)}
    write_beir(place / "beir", texts, QUESTIONS, [(name, f"d{i}", 1) for i, name in enumerate(QUESTIONS)])
    whole = IndexOptions(passages=None)  # documents are not split, as `rerank-eval` has them by default
    with DocumentIndex.open(place / "index", load_encoder(str(place / "words.txt")), options=whole) as index:
        index.sync([Document(name, text) for name, text in texts.items()])
        index.set_ensemble(index.ensemble())
    return place


@pytest.fixture
def index(folder: Path) -> Iterator[DocumentIndex]:
    with DocumentIndex.open(folder / "index", load_encoder(str(folder / "words.txt"))) as opened:
        yield opened


@pytest.fixture
def settings(folder: Path) -> RetrievalSettings:
    return RetrievalSettings(
        dataset=str(folder / "beir"),
        systems=("cosine",),
        model=str(folder / "words.txt"),
        cache=folder / "cache",
        measures=("nDCG@10",),
        depth=20,
    )


def test_a_question_has_one_order_on_an_index_and_in_an_evaluation(folder, settings):
    evaluated = evaluate(replace(settings, systems=tuple(BOTH)))
    assert [result.name for result in evaluated.results] == BOTH
    asked = "\n".join(QUESTIONS.values())
    size = ("--pool", str(settings.depth), "--top", str(settings.depth), "--set", "exact=yes")
    given = ["search", "-", "--index", str(folder / "index"), *size, "--json"]
    for result in evaluated.results:
        done = CliRunner().invoke(command, [*given, "--system", result.name], input=asked)
        assert done.exit_code == 0, done.output
        found = [[hit["id"] for hit in json.loads(line)["hits"]] for line in done.stdout.splitlines()]
        ranked = [list(result.run[name].ids) for name in QUESTIONS]
        assert found == ranked, result.name


@pytest.mark.skipif(not has_lucene(), reason="the extra 'pyserini' is needed")
@pytest.mark.parametrize("name", ["bm25", "fusion-lucene"])
def test_a_systems_bm25_is_the_same_in_every_pool(name, settings):
    def scores(pool: PoolName) -> dict[str, float]:
        found = evaluate(replace(settings, systems=(name,), candidates=pool)).results[0].run["q1"]
        return dict(zip(found.ids, found.raw["bm25"].tolist(), strict=True))

    of_cosine = scores("cosine")
    pools: tuple[PoolName, ...] = ("both", "both-lucene")
    for pool in pools:
        own = {document: score for document, score in scores(pool).items() if document in of_cosine}
        assert own == pytest.approx({document: of_cosine[document] for document in own}), pool
        assert len(own) > 5


def test_words_alone_ask_no_model(index, monkeypatch):
    pipeline = index.pipeline("bm25")
    monkeypatch.setattr(type(index.encoder), "encode", None)
    assert pipeline.search("wing lift").ids
    with pytest.raises(TypeError):
        index.pipeline("cosine").search("wing lift")


def test_an_index_re_ranks_texts_from_elsewhere(index):
    texts = ["tea egg", "wing lift", "milk rye"]
    for system in (None, "cosine", "dynamax"):
        best = index.text_reranker(system).rank("wing lift", texts)[0]
        assert best.position == 1
    with pytest.raises(DataError, match="system='cosin' is not known"):
        index.pipeline("cosin")
    with pytest.raises(DataError, match="given texts take one of auto, cosine, surprise"):
        index.text_reranker("bm25")


def test_a_stored_background_refuses_what_is_off_topic(index):
    with pytest.raises(DataError, match="no background of other questions for the system 'dynamax'"):
        index.pipeline("dynamax", min_percentile=0.9)
    kept = index.measure_background("dynamax", OTHERS, depth=30)
    assert (kept.count, kept.documents) == (len(OTHERS), 60)
    assert "pools of 30" in kept.scorer
    strict = index.pipeline("dynamax", min_percentile=0.9)
    assert strict.search("wing lift").ids
    assert not strict.search("tea jam").ids
    assert index.text_reranker("dynamax", min_percentile=0.9).current_background() is not None


@dataclass(frozen=True)
class ByLength:
    """The shortest text first."""

    needs: frozenset[Field] = frozenset({"documents"})

    def rerank(self, query: Query, candidates: Candidates) -> Ranking:
        assert candidates.documents is not None
        lengths = np.array([-float(len(document.text)) for document in candidates.documents])
        return Ranking.order(candidates, lengths, {"length": lengths})


def by_length(inputs: SystemInputs) -> BuiltSystem:
    retriever = inputs.first_stage or DenseRetriever(inputs.corpus, options=inputs.options)
    return BuiltSystem("by-length", retriever, ByLength())


MINE = System(name="by-length", summary="cosine's pool, the shortest text first", build=by_length)


@pytest.fixture
def no_trace() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    known = set(SYSTEMS)
    yield
    for name in set(SYSTEMS) - known:
        del register._SYSTEMS[name]


@pytest.mark.usefixtures("no_trace")
def test_a_registered_system_works_everywhere(folder, index, settings):
    assert register_system(MINE) is MINE
    found = index.pipeline("by-length", depth=5).search("wing lift", top_k=5)
    lengths = [len(hit.document.text) for hit in found if hit.document]
    assert lengths == sorted(lengths)
    assert index.text_reranker("by-length").rank("wing", ["wing lift drag", "lift"])[0].position == 1
    evaluated = evaluate(replace(settings, systems=("cosine", "by-length")))
    assert [result.name for result in evaluated.results] == ["cosine", "by-length"]
    assert set(evaluated.results[0].run["q1"].ids) == set(evaluated.results[1].run["q1"].ids)


@pytest.mark.usefixtures("no_trace")
def test_another_packages_system_is_found_by_its_entry_point(folder, monkeypatch):
    point = EntryPoint("by-length", f"{__name__}:MINE", register.ENTRY_POINTS)
    monkeypatch.setattr(
        register, "entry_points", lambda group: [point] if group == register.ENTRY_POINTS else []
    )
    register._load_entry_points.cache_clear()
    given = ["search", "wing lift", "--index", str(folder / "index"), "--system", "by-length", "--json"]
    done = CliRunner().invoke(command, given)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["system"] == "by-length"
    register._load_entry_points.cache_clear()
    listed = CliRunner().invoke(rerank_eval, ["--systems", "help"]).stdout
    assert MINE.summary in listed
    register._load_entry_points.cache_clear()


def test_a_system_that_cannot_be_loaded_is_reported(monkeypatch):
    point = EntryPoint("gone", "no_such_module_here:SYSTEM", register.ENTRY_POINTS)
    monkeypatch.setattr(register, "entry_points", lambda group: [point])
    register._load_entry_points.cache_clear()
    with pytest.raises(DataError, match="the system 'gone' cannot be loaded from no_such_module_here:SYSTEM"):
        find_system("gone")
    register._load_entry_points.cache_clear()


@pytest.mark.usefixtures("no_trace")
def test_a_name_means_one_thing():
    register_system(MINE)
    assert register_system(MINE) is MINE  # the same one again
    with pytest.raises(DataError, match="the name 'by-length' is taken by another system"):
        register_system(replace(MINE, summary="something else"))
    with pytest.raises(DataError, match="the name 'cosine' is taken"):
        register_system(replace(MINE, name="cosine"))


@pytest.mark.usefixtures("no_trace")
def test_what_only_an_evaluation_has_is_told(index):
    register_system(replace(MINE, name="learned", needs=frozenset({"judgements"})))
    with pytest.raises(DataError, match="needs judgements, which only an evaluation has"):
        index.pipeline("learned")
