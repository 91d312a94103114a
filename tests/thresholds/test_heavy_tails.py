"""p of many questions: how often it is exceeded where the documents lie in clusters."""

import numpy as np
import pytest

from surprise_rerank import Ensemble
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.surprise.score import Surprise


def test_a_heavy_tail_exceeds_p_too_often_but_not_the_empirical_share():
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
