"""The studies of verdicts and of p: their percentile and chance are the product's."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from words import WordEncoder

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.eval.retrieval.workspace import Workspace, index_key
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise
from surprise_rerank.thresholds.varied_questions import varied_questions
from surprise_rerank.thresholds.verdicts import USUAL_CHANCE

# Behind what is installed: the scripts of benchmarks/ belong to no package.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.study.rankings import Asked, Rankings, asked_by, read_rankings
from benchmarks.study.verdicts import background_of, standing, t_and_g, totals

BACKGROUND = 60


def test_percentile_chance_and_hits_are_those_of_a_search(tmp_path: Path) -> None:
    whole = load_dataset("demo", "train")
    dataset, encoder = replace(whole, documents=whole.documents[:110]), WordEncoder(dimension=24)
    ids = {document.id for document in dataset.documents}
    questions = [
        question for question in asked_by("test", "demo", dataset, {}) if ids & set(question.judged or ())
    ][:5]
    varied = [Asked("varied", text) for text in varied_questions(BACKGROUND)]
    for chosen, name in ((questions, "own"), (varied, "packaged")):
        into, corpus = tmp_path / f"{name}.npz", tmp_path / "corpus.npz"
        places = {"cache": tmp_path, "into": into, "corpus": corpus}
        read_rankings(chosen, dataset, "demo", encoder, **places, terminal=Terminal(quiet=True))
    packaged, rankings = Rankings.load(tmp_path / "packaged.npz"), Rankings.load(tmp_path / "own.npz")
    assert rankings.removed.sum() * 2 == len(rankings.removed)
    assert not rankings.hits("auto")[rankings.removed].any()
    kept = rankings.take(np.flatnonzero(~rankings.removed))
    workspace = Workspace(tmp_path, index_key("demo", dataset), encoder, None, Terminal(quiet=True))
    with DocumentIndex.open(tmp_path / workspace.name / "qdrant", encoder) as index:
        for system in ("dynamax", "auto"):
            background_read = background_of(packaged, system)
            background = index.measure_background(system, varied_questions(BACKGROUND))
            np.testing.assert_allclose(background_read.totals, background.totals, atol=1e-3)
            answers = [index.pipeline(system, min_percentile=0).search(one.text) for one in questions]
            # A question may be on the other side of one of the background's, by rounding.
            percentiles = background_read.percentiles(totals(background_read, kept, system).max(axis=1))
            expected = [one.percentile[0] for one in answers]
            np.testing.assert_allclose(percentiles, expected, atol=1.01 / (BACKGROUND + 1))
            measures = t_and_g(standing(background_read, kept, system))
            chance = USUAL_CHANCE.of(measures["t without a limit"], measures["g"])
            np.testing.assert_allclose(chance, [one.verdict.chance for one in answers], atol=1e-3)


def test_a_heavy_tail_exceeds_p_too_often_but_not_the_empirical_share() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(2000, 64)).astype(np.float32)
    centres = np.repeat(unit_rows(drawn[:40]), 50, axis=0)
    plain, clustered = unit_rows(drawn), unit_rows(centres + 0.5 * unit_rows(drawn))
    for documents, heavy in ((plain, False), (clustered, True)):
        order = rng.permutation(len(documents))
        ensemble, keys = Ensemble.from_vectors(documents[order[:1000]]), documents[order[1000:]]
        for model in ("gaussian", "empirical"):
            surprise = Surprise(ensemble, model, weight=1)
            p = [
                surprise.scores(np.delete(keys, i, axis=0) @ keys[i], keys[i : i + 1]).probability
                for i in range(300)
            ]
            times = float((np.concatenate(p) > 0.99).mean()) / 0.01
            if model == "empirical":
                assert times == pytest.approx(1, abs=0.5)
            else:
                assert (times > 2) == heavy
