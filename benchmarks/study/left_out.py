"""Each kind of collection left out once: `auto` is fixed on the other kinds, and measured on this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.study.collection import Case, Collection
from benchmarks.study.peers import PEERS, Scores, own_scores
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.eval.reports.report import Cell, Column, Table
from surprise_rerank.rerank.auto import AUTO, SumSettings
from surprise_rerank.rerank.fusion import BM25_WEIGHT, FusionReranker, Trust, weighted_sum
from surprise_rerank.rerank.scorers import CosineScorer, DynaMaxScorer, RetrievedScorer

# What may be chosen, a part at a time. The start has the three scorers of `fusion` and nothing else.
START = SumSettings({"bm25": BM25_WEIGHT, "feedback": 0.0})
CHOICES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "BM25": [{"bm25": weight} for weight in (0.5, 0.6, 0.75)],
    "trust": [{"trust": trust} for trust in (None, Trust())],
    "lengths": [{"lengths": share} for share in (0.0, 0.5)],
    "feedback": [{"feedback": weight} for weight in (0.0, 0.5, 0.75, 1.0)],
}


def changed(settings: SumSettings, **numbers: Any) -> SumSettings:
    """The same with other numbers; those that are no attribute are weights."""
    fields = {name: value for name, value in numbers.items() if name in ("lengths", "trust")}
    weights = {name: value for name, value in numbers.items() if name not in fields}
    return replace(settings, weights={**settings.weights, **weights}, **fields)


# Twice through all parts: what one is worth depends on the others.
STEPS = (*CHOICES, *CHOICES)
PARTS: Mapping[str, SumSettings] = {
    "without BM25": changed(AUTO, bm25=0.0),
    "without cosine": changed(AUTO, cosine=0.0),
    "without inclusion": changed(AUTO, dynamax=0.0),
    "without trust": changed(AUTO, trust=None),
    "without lengths": changed(AUTO, lengths=0.0),
    "without feedback": changed(AUTO, feedback=0.0),
}
# Collections that are alike, so that one of them tells of the others: they are left out together.
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("birco_relic", "birco_arguana", "birco_wtb"), "long questions"),
    **dict.fromkeys((f"xquad_{language}" for language in ("de", "es", "zh", "ar", "ru")), "languages"),
    **dict.fromkeys(
        ("scifact", "nfcorpus", "cranfield", "cacm", "cisi", "lisa", "npl", "demo", "xquad_en"), "short"
    ),
}
_NO_TOKENS = TokenBatch.from_arrays([])  # inclusion is there already


def auto(case: Case, settings: SumSettings = AUTO) -> Float64Array:
    """(n,) the product's scores."""
    reranker = product(case.of, settings)
    return reranker.totals(case.query, case.candidates)


def product(of: Collection, settings: SumSettings = AUTO) -> FusionReranker:
    """`auto` as the product has it, of a collection."""
    return settings.reranker(of.ensemble, _NO_TOKENS, words=True, inclusion=True)[0]


def fusion(case: Case) -> Float64Array:
    """(n,) scores of the system `fusion`."""
    tokens = DynaMaxScorer(sample=_NO_TOKENS, retrieved=True)
    scorers = [RetrievedScorer("bm25"), CosineScorer(case.of.ensemble), tokens]
    return weighted_sum(FusionReranker(scorers).parts(case.query, case.candidates), {"bm25": BM25_WEIGHT})


def _alone(name: str) -> Scores:
    return lambda case: np.nan_to_num(own_scores(case)[name])


ROWS: Mapping[str, Scores] = {
    **{name: _alone(name) for name in ("bm25", "cosine", "dynamax")},
    "fusion": fusion,
    **PEERS,
}


@dataclass(frozen=True)
class Study:
    """Collections of several models, and what was measured of them.

    Attributes:
        collections: (data set, model) -> its collection.
    """

    collections: Mapping[tuple[str, str], Collection]
    _means: dict[tuple[str, str], float] = field(default_factory=dict, init=False, repr=False)

    @property
    def names(self) -> list[str]:
        """Data sets."""
        return list(dict.fromkeys(name for name, _ in self.collections))

    @property
    def models(self) -> list[str]:
        """Models."""
        return list(dict.fromkeys(model for _, model in self.collections))

    @property
    def kinds(self) -> dict[str, str]:
        """Data set -> its kind; one that has none is a kind by itself."""
        return {name: KINDS.get(name, name) for name in self.names}

    def values(self, scores: Scores, name: str, model: str) -> Float64Array:
        """(q,) nDCG@10 of each question."""
        return np.array([case.ndcg(scores(case)) for case in self.collections[name, model].pools])

    def mean(self, settings: SumSettings, name: str) -> float:
        """The mean nDCG@10 of `auto` on a data set, over the models."""
        if (name, str(settings)) not in self._means:
            means = [
                self.values(lambda case: auto(case, settings), name, model).mean()
                for measured, model in self.collections
                if measured == name
            ]
            self._means[name, str(settings)] = float(np.mean(means))
        return self._means[name, str(settings)]

    def chosen(self, names: Sequence[str], advance: Callable[[int], None] = lambda _: None) -> SumSettings:
        """The best settings on these data sets, a part at a time from `START`."""
        best = START
        for part in STEPS:
            tried = [changed(best, **choice) for choice in CHOICES[part]]
            best = max(tried, key=lambda settings: float(np.mean([self.mean(settings, n) for n in names])))
            advance(1)
        return best

    def left_out(self, advance: Callable[[int], None] = lambda _: None) -> dict[str, SumSettings]:
        """Data set -> what is chosen on those of all other kinds."""
        kinds = self.kinds
        chosen = {
            kind: self.chosen([name for name in kinds if kinds[name] != kind], advance)
            for kind in dict.fromkeys(kinds.values())
        }
        return {name: chosen[kind] for name, kind in kinds.items()}


def interval(differences: Float64Array) -> tuple[float, float]:
    """95 % interval of the mean over data sets, by Student's t."""
    if len(differences) < 2:
        return float(differences.mean()), float(differences.mean())
    half = stats.t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / np.sqrt(len(differences))
    return float(differences.mean() - half), float(differences.mean() + half)


def quality_table(study: Study, model: str, chosen: Mapping[str, SumSettings] | None = None) -> Table:
    """Every row on every data set, with its mean, and the mean difference to `fusion`.

    `chosen` are settings of `auto` that were fixed without a data set, for a row of theirs.
    """
    names = [name for name in study.names if (name, model) in study.collections]
    rows: dict[str, list[float]] = {
        row: [float(study.values(scores, name, model).mean()) for name in names]
        for row, scores in ROWS.items()
    }
    if chosen is not None:
        rows["auto, fixed on the others"] = [
            float(study.values(lambda case, fixed=chosen[name]: auto(case, fixed), name, model).mean())  # type: ignore[misc]
            for name in names
        ]
    rows["auto"] = [float(study.values(auto, name, model).mean()) for name in names]
    return _differences(f"left-out-{model}", f"Left out: {model}", names, rows)


def _differences(name: str, title: str, names: Sequence[str], rows: Mapping[str, Sequence[float]]) -> Table:
    """Rows of a value for each data set, and how they compare with `fusion`."""
    base, best = (
        np.array(rows["fusion"]),
        np.max([rows[row] for row in ("bm25", "cosine", "dynamax", "fusion")], axis=0),
    )
    columns = (
        Column("system"),
        *(Column(name, 4) for name in names),
        Column("mean", 4),
        Column("to fusion", 4),
        Column("95 %"),
        Column("worst to the best of four", 4),
    )
    cells: list[tuple[Cell, ...]] = []
    for row, values in rows.items():
        away = np.array(values) - base
        low, high = interval(away)
        span = "" if row == "fusion" else f"{low:+.4f} to {high:+.4f}"
        worst = float((np.array(values) - best).min())
        cells.append((row, *values, float(np.mean(values)), float(away.mean()), span, worst))
    notes = ("nDCG@10; 95 %: interval of the mean difference to `fusion` over the data sets, by Student's t",)
    return Table(name, title, columns, tuple(cells), notes=notes)


def parts_table(study: Study) -> Table:
    """What `auto` loses without each part: means over the models, intervals over the data sets."""
    names = study.names
    whole = np.array([study.mean(AUTO, name) for name in names])
    columns = (Column("variant"), *(Column(name, 4) for name in names), Column("mean", 4), Column("95 %"))
    cells: list[tuple[Cell, ...]] = [("auto", *whole.tolist(), float(whole.mean()), "")]
    for row, settings in PARTS.items():
        away = np.array([study.mean(settings, name) for name in names]) - whole
        low, high = interval(away)
        cells.append((row, *away.tolist(), float(away.mean()), f"{low:+.4f} to {high:+.4f}"))
    notes = ("differences of nDCG@10 to `auto`, means over the models",)
    return Table("parts", "Each part taken away", columns, tuple(cells), notes=notes)


def chosen_table(study: Study, chosen: Mapping[str, SumSettings]) -> Table:
    """What was fixed on all data sets but the one that is named."""
    keys = ("bm25", "feedback", "trust", "lengths")
    columns = (Column("left out"), *(Column(key) for key in keys))
    everywhere = {**chosen, "none": study.chosen(study.names), "the default": AUTO}
    cells = [
        (name, *(str(fixed.weights[key] if key in fixed.weights else getattr(fixed, key)) for key in keys))
        for name, fixed in everywhere.items()
    ]
    return Table("chosen", "What was fixed on the others", columns, tuple(cells))
