"""Two corrections for documents that are near to every question: long ones, and hubs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.study.collection import Case, Collection, z_over
from benchmarks.study.formula import AUTO, Scores, with_scorer
from benchmarks.study.table import AUTO_ROW, Row
from benchmarks.study.tokens import default
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.rerank.auto import AUTO_ROBUST
from surprise_rerank.rerank.fusion import surprise_normalized, without_length


def by_length(share: float) -> Scores:
    """Inclusion less a share of what its length lets expect, as `AutoSettings.lengths` takes it.

    Args:
        share: 1 takes all of it away.
    """

    def scores(case: Case) -> Float64Array:
        weights, lengths, sample = default(case), case.corpus.lengths, case.corpus.sample
        whole = max(float(weights.sum()), 1e-12)
        own, usual = case.maxima[""] @ weights / whole, case.usual[""] @ weights / whole
        return z_over(*without_length(own, lengths[case.rows], usual, lengths[sample], share))

    return scores


def off_hubs(share: float) -> Scores:
    """Cosine less a share of the document's mean cosine, as `AutoSettings.hubs` takes it.

    Args:
        share: 1 centres the documents.
    """

    def scores(case: Case) -> Float64Array:
        ensemble = case.corpus.ensemble
        shifted = case.query.require_dense() - share * ensemble.mean
        own = np.asarray(case.candidates.require_dense(), np.float64) @ shifted
        return surprise_normalized(own, ensemble.moments(shifted[None]))

    return scores


def length_rows(collection: Collection) -> list[Row]:
    """Rows of the subject `length`."""
    rows = [AUTO_ROW]
    for what, scorer, scores, shares in (
        ("lengths", "dynamax", by_length, (0.0, 0.25, 0.5, 1.0)),
        ("hubs", "cosine", off_hubs, (0.0, 0.1, 0.25, 0.5, 1.0)),
    ):
        alone = f"alone: {what} 0"
        for share in shares:
            rows.append(Row(f"alone: {what} {share:g}", scores(share), alone))
            if share:
                changed = replace(AUTO, scorers=with_scorer(scorer, scores(share)))
                rows.append(Row(f"auto: {what} {share:g}", changed))
    both = {"cosine": off_hubs(AUTO_ROBUST.hubs), "dynamax": by_length(AUTO_ROBUST.lengths)}
    robust = replace(AUTO, scorers=lambda case: {**case.z, **{name: own(case) for name, own in both.items()}})
    return [
        *rows,
        Row(f"auto: hubs {AUTO_ROBUST.hubs:g}, lengths {AUTO_ROBUST.lengths:g} (`auto-robust`)", robust),
    ]
