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
from surprise_rerank.thresholds.chance import USUAL_CHANCE
from surprise_rerank.thresholds.varied_questions import varied_questions

# Behind what is installed: the scripts of benchmarks/ belong to no package.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.reliability import CLAIMED, by_role
from benchmarks.study.rankings import Asked, Rankings, asked_by, read_rankings
from benchmarks.study.verdicts import background_of, standing, t_and_g, totals

BACKGROUND = 60


def test_percentile_chance_and_hits_are_those_of_a_search(tmp_path: Path) -> None:
    whole = load_dataset("demo", "train")
    dataset, encoder = replace(whole, documents=whole.documents[:110]), WordEncoder(dimension=24)
    known = {document.id for document in dataset.documents}
    own = [own for own in asked_by("test", "demo", dataset, {}) if known & set(own.judged or ())][:5]
    varied = [Asked("varied", text) for text in varied_questions(BACKGROUND)]
    for asked, name in ((own, "own"), (varied, "packaged")):
        into, corpus = tmp_path / f"{name}.npz", tmp_path / "corpus.npz"
        places = {"cache": tmp_path, "into": into, "corpus": corpus}
        read_rankings(asked, dataset, "demo", encoder, **places, terminal=Terminal(quiet=True))
    packaged, found = Rankings.load(tmp_path / "packaged.npz"), Rankings.load(tmp_path / "own.npz")
    assert found.removed.sum() * 2 == len(found.removed)
    assert not found.hits("auto")[found.removed].any()
    there = found.take(np.flatnonzero(~found.removed))
    workspace = Workspace(tmp_path, index_key("demo", dataset), encoder, None, Terminal(quiet=True))
    with DocumentIndex.open(tmp_path / workspace.name / "qdrant", encoder) as index:
        for system in ("dynamax", "auto"):
            made = background_of(packaged, system)
            background = index.measure_background(system, varied_questions(BACKGROUND))
            np.testing.assert_allclose(made.totals, background.totals, atol=1e-3)
            told = [index.pipeline(system, min_percentile=0).search(one.text) for one in own]
            # A question may be on the other side of one of the background's, by rounding.
            percentiles = made.percentiles(totals(made, there, system).max(axis=1))
            expected = [one.percentile[0] for one in told]
            np.testing.assert_allclose(percentiles, expected, atol=1.01 / (BACKGROUND + 1))
            known = t_and_g(standing(made, there, system))
            chance = USUAL_CHANCE.of(known["t without a limit"], known["g"])
            np.testing.assert_allclose(chance, [one.verdict.chance for one in told], atol=1e-3)


def test_a_heavy_tail_exceeds_p_too_often_but_not_the_empirical_share() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(2000, 64)).astype(np.float32)
    centres = np.repeat(unit_rows(drawn[:40]), 50, axis=0)
    plain, clustered = unit_rows(drawn), unit_rows(centres + 0.5 * unit_rows(drawn))
    for documents, heavy in ((plain, False), (clustered, True)):
        found = {
            model: times for role, model, times in by_role(documents, documents[:50]) if role == "documents"
        }
        at = CLAIMED.index(0.99)
        assert (found["gaussian"][at] > 2) == heavy
        assert found["empirical"][at] == pytest.approx(1, abs=0.5)
