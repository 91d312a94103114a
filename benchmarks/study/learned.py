"""What judged questions teach: weights of `auto` fitted on some, and what they gain on the others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.study.collection import Case, Collection
from benchmarks.study.left_out import product
from surprise_rerank.eval.reports.report import Cell, Column, Table
from surprise_rerank.rerank.fusion import weighted_sum
from surprise_rerank.rerank.weight_fitting import fit_guarded, refine_weights

TAUGHT = (50, 100, 200)
_DRAWS = 5
FEWEST_NEW = 20  # questions that gains are measured on


def learned_table(collections: Mapping[tuple[str, str], Collection]) -> Table:
    """Rows of a collection, and of so many questions: how often weights were accepted, and the gains."""
    cells: list[tuple[Cell, ...]] = []
    for (name, model), of in collections.items():
        for taught in TAUGHT:
            if len(of.pools) < taught + FEWEST_NEW:
                continue
            found = np.array([_gains(of.pools, taught, draw) for draw in range(_DRAWS)])
            accepted, gain, unguarded = found.mean(axis=0).tolist()
            cells.append((f"{name}, {model}", taught, len(of.pools) - taught, accepted, gain, unguarded))
    columns = (
        Column("collection"),
        Column("taught"),
        Column("new"),
        Column("accepted", 1),
        Column("gain", 4),
        Column("gain, always accepted", 4),
    )
    notes = (f"nDCG@10 on new questions; means over {_DRAWS} draws of the taught ones",)
    return Table("learned", "Learned weights", columns, tuple(cells), notes=notes)


def _gains(cases: list[Case], taught: int, seed: int) -> tuple[float, float, float]:
    """Whether weights of a draw are accepted, and what they gain on the others with the guard and without."""
    order = np.random.default_rng(seed).permutation(len(cases))
    lessons, new = ([cases[i] for i in part] for part in (order[:taught], order[taught:]))
    of = cases[0].of
    reranker = product(of)
    accepted = fit_guarded(reranker, [(case.query, case.candidates, case.gains()) for case in lessons])
    teaching = [case for case in lessons if of.grades[case.i, case.rows].any()]
    always = refine_weights(
        [reranker.parts(case.query, case.candidates) for case in teaching],
        [of.grades[case.i, case.rows] / of.ideal[case.i] for case in teaching],
        reranker.weights,
    )
    found = []
    for case in new:
        parts = reranker.parts(case.query, case.candidates)
        before, guarded, after = (
            case.ndcg(weighted_sum(parts, own)) for own in (reranker.weights, accepted.weights, always)
        )
        found.append((guarded - before, after - before))
    gains = np.mean(found, axis=0).tolist()
    return float(accepted.accepted), gains[0], gains[1]
