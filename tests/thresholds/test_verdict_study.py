"""The study of verdicts: its surprise and its hits are the product's, and its measures what they say."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from words import WordEncoder

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, load_dataset
from surprise_rerank.eval.retrieval.workspace import Workspace, index_key
from surprise_rerank.thresholds.varied_questions import varied_questions

# Behind what is installed: the scripts of benchmarks/ belong to no package.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.study.heavy_tails import passes
from benchmarks.study.rankings import Asked, asked_by, read_rankings
from benchmarks.study.verdicts import (
    Calibration,
    Chance,
    Rankings,
    added,
    auroc,
    ordered_totals,
    standing,
)

BACKGROUND = 60


@pytest.fixture(scope="module")
def dataset() -> RetrievalDataset:
    whole = load_dataset("demo", "train")
    return replace(whole, documents=whole.documents[:200])


@pytest.fixture(scope="module")
def encoder() -> WordEncoder:
    return WordEncoder(dimension=24)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def own(dataset: RetrievalDataset) -> list[Asked]:
    known = {document.id for document in dataset.documents}
    return [own for own in asked_by("test", "demo", dataset, {}) if known & set(own.judged or ())][:20]


@pytest.fixture(scope="module")
def files(dataset: RetrievalDataset, encoder: WordEncoder, cache: Path, own: list[Asked]) -> dict[str, Path]:
    files = {name: cache / f"{name}.npz" for name in ("own", "packaged", "corpus")}
    varied = [Asked("varied", text) for text in varied_questions(BACKGROUND)]
    for asked, into in ((own, files["own"]), (varied, files["packaged"])):
        read_rankings(
            asked,
            dataset,
            "demo",
            encoder,
            cache=cache,
            into=into,
            corpus=files["corpus"],
            terminal=Terminal(quiet=True),
        )
    return files


@pytest.mark.parametrize("system", ["cosine", "dynamax", "fusion", "auto"])
def test_the_surprise_is_the_one_of_a_search(
    system: str,
    dataset: RetrievalDataset,
    encoder: WordEncoder,
    cache: Path,
    own: list[Asked],
    files: dict[str, Path],
) -> None:
    packaged, asked = Rankings.load(files["packaged"]), Rankings.load(files["own"])
    made = Calibration.of(system, added(packaged, system), packaged.logs)
    workspace = Workspace(cache, index_key("demo", dataset), encoder, None, Terminal(quiet=True))
    with DocumentIndex.open(cache / workspace.name / "qdrant", encoder) as index:
        background = index.store_background(list(varied_questions(BACKGROUND)), system)
        np.testing.assert_allclose(made.totals, background.totals, atol=1e-3)
        pipeline = index.pipeline(system, min_surprise=0)
        found = [pipeline.search(one.text) for one in own[:8]]
    whole = asked.take(~asked.removed)
    scores = added(whole, system)
    ordered = ordered_totals(whole, system, scores, made)[:8]
    surprises, chances = np.array([(own.surprise[0], own.verdict.chance) for own in found], float).T
    # A question may be on the other side of one of the background's, by rounding.
    totals = made.of_all(scores, whole.logs).max(axis=1)[:8]
    np.testing.assert_allclose(made.surprise(totals), surprises, atol=1.01 / (BACKGROUND + 1))
    known = background.usual_chance.of(*standing(ordered).values())
    np.testing.assert_allclose(known, chances, atol=1e-3)


def test_removed_questions_find_none_of_their_documents(files: dict[str, Path]) -> None:
    asked = Rankings.load(files["own"])
    assert asked.removed.sum() * 2 == len(asked.removed)
    assert not asked.hits("auto")[asked.removed].any()
    assert asked.hits("auto")[~asked.removed].any()
    gains = asked.ndcg("auto")
    assert not gains[asked.removed].any()
    assert (gains > 0).tolist() == asked.hits("auto").tolist()


def test_the_share_of_pairs_counts_ties_half() -> None:
    assert auroc(np.array([1.0, 2.0]), np.array([1.0, 0.0])) == pytest.approx((0.5 + 1 + 1 + 1) / 4)
    assert np.isnan(auroc(np.array([1.0]), np.zeros(0)))


def test_a_chance_follows_its_predictor_and_is_calibrated_on_what_it_saw() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal(400)
    hits = rng.random(400) < 1 / (1 + np.exp(-2 * values))
    chance = Chance.fitted(("T",), [({"T": values}, hits, np.ones(400))])
    told = chance.of({"T": values})
    assert told.mean() == pytest.approx(hits.mean(), abs=0.01)
    assert chance.weights[0] == pytest.approx(2, abs=0.6)


def test_scales_of_the_others_let_fewer_through() -> None:
    rng = np.random.default_rng(0)
    worlds = [np.exp(1.5 * rng.standard_normal((40, 5))) for _ in range(400)]
    own, others = (np.mean([passes(world, others=o) for world in worlds]) for o in (False, True))
    assert others < own
    assert others < 0.075
