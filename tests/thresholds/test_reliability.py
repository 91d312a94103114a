"""The reliability table of p: near what is claimed for normal similarities, and not for heavy tails."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from surprise_rerank.core.arrays import Float32Array, unit_rows

# Behind what is installed: the scripts of benchmarks/ belong to no package.
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from reliability import CLAIMED, MODELS, ROLES, Found, beyond, every_share, shares, summary, times_claimed

from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise

PROMISED = 1 - np.array(CLAIMED)


def normal(count: int, seed: int) -> Float32Array:
    """(count, 64) directions without any structure; their cosines are normal but for 1 / 64."""
    return unit_rows(np.random.default_rng(seed).normal(size=(count, 64)).astype(np.float32))


def clustered(count: int, seed: int) -> Float32Array:
    """(count, 64) directions, each near one of forty: few pairs are similar, and these very much."""
    centres = np.repeat(normal(40, 1), -(-count // 40), axis=0)[:count]
    return unit_rows(centres + 0.5 * normal(count, seed))


@pytest.fixture(scope="module")
def found() -> Found:
    drawn = {
        "normal": (normal(2000, 2), normal(50, 3)),
        "clustered": (clustered(2000, 2), clustered(50, 3)),
    }
    return {
        (name, "drawn", role, model): values
        for name, (documents, questions) in drawn.items()
        for role, model, values in shares(documents, questions)
    }


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("model", MODELS)
def test_normal_similarities_exceed_p_as_often_as_it_says(found: Found, role: str, model: str) -> None:
    ratios = found["normal", "drawn", role, model] / PROMISED
    np.testing.assert_allclose(ratios[:-1], 1, atol=0.3)
    assert 0.2 < ratios[-1] < 2.5


@pytest.mark.parametrize("role", ROLES[:2])
@pytest.mark.parametrize("model", ["gaussian", "pooled", "percentile"])
def test_a_heavy_tail_exceeds_p_too_often_but_not_the_empirical_share(
    found: Found, role: str, model: str
) -> None:
    modelled, counted = (found["clustered", "drawn", role, own] / PROMISED for own in (model, "empirical"))
    assert modelled[-1] > 10
    np.testing.assert_allclose(counted[:-1], 1, atol=0.2)
    assert counted[-1] < 2


def test_an_anchor_is_no_key_of_its_own() -> None:
    members, anchors = normal(500, 4), normal(20, 5)
    surprise = Surprise(Ensemble.from_vectors(members), weight=1)
    each = [
        surprise.scores(anchors[np.arange(20) != i] @ anchor, anchor).probability
        for i, anchor in enumerate(anchors)
    ]
    expected = [(np.concatenate(each) > claim).mean() for claim in CLAIMED]
    np.testing.assert_allclose(beyond(surprise, anchors, anchors, range(20)), expected)
    assert beyond(surprise, anchors, anchors)[-1] >= expected[-1] + 0.04  # each finds itself: 1 of 20


def test_the_tables_have_every_case(found: Found) -> None:
    assert len(every_share(found).rows) == 2 * len(ROLES) * len(MODELS)
    table = times_claimed(found, ROLES[0])
    share = found["clustered", "drawn", ROLES[0], "pooled"][CLAIMED.index(0.99)]
    assert table.cell("clustered / drawn", "pooled 0.99") == pytest.approx(share / 0.01)
    both = [table.cell(f"{name} / drawn", "pooled 0.99") for name in ("normal", "clustered")]
    assert summary(found).cell(f"{ROLES[0]} / pooled", "most 0.99") == max(both)
    assert summary(found).cell(f"{ROLES[0]} / pooled", "median 0.99") == pytest.approx(np.mean(both))
