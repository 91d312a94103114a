"""What the benchmark of diversity makes and measures."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

# Behind what is installed: the scripts of benchmarks/ belong to no package.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks.diversity import alpha_ndcg, original, subtopic_recall


def gain(ids: tuple[str, ...], relevant: dict[str, int]) -> float:
    """Alpha-DCG as it is defined: half as much for each document on the subtopic that came before."""
    total = 0.0
    for place, name in enumerate(ids):
        before = [original(earlier) for earlier in ids[:place]].count(original(name))
        total += 0.5**before / np.log2(place + 2) if original(name) in relevant else 0.0
    return total


@given(
    st.lists(st.sampled_from(["a", "b", "x"]), min_size=1, max_size=6),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 2), min_size=1),
)
def test_alpha_ndcg_is_the_share_of_the_best_order(shown: list[str], relevant: dict[str, int]) -> None:
    ids = tuple(dict.fromkeys(f"{name}~{shown[:i].count(name)}" for i, name in enumerate(shown)))
    ideal = [f"{name}~{n}" for name, count in relevant.items() for n in range(count)]
    best = max(gain(order, relevant) for order in itertools.permutations(ideal))
    assert alpha_ndcg(ids, relevant) == pytest.approx(gain(ids, relevant) / best)
    covered = {original(name) for name in ids} & relevant.keys()
    assert subtopic_recall(ids, relevant) == pytest.approx(len(covered) / len(relevant))
