"""The tables of docs/thresholds.md: pass rates, the chance of an answer, and predictors that were tried.

Surprise is that of the product's `QuestionBackground`; a curve of the chance is fitted on all collections but
the one that it is measured on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.study.rankings import DEPTH, PACKAGED, SYSTEMS, Phase, Rankings
from surprise_rerank.candidates import Ranking
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import BoolArray, Float64Array, IntArray
from surprise_rerank.eval.reports.report import Cell, Column, Table
from surprise_rerank.thresholds.background import ROUNDING, QuestionBackground
from surprise_rerank.thresholds.verdicts import ANSWERED, ENOUGH

PARTS = ("pass-rates", "chance", "predictors")
SIZES, ALPHAS, CALIBRATIONS, USUAL = (100, 300, 1000), (0.05, 0.2), 20, 300
# Collections of one subject: medicine; computing and libraries; engineering.
KIN = (
    frozenset({"scifact", "nfcorpus"}),
    frozenset({"cacm", "cisi", "lisa", "demo"}),
    frozenset({"cranfield", "npl", "demo"}),
)
# What the chance is made of; the other predictors were tried.
BEST, GAP, UP_TO = "t without a limit", "g", "t"
BINS = 10


@dataclass(frozen=True, eq=False)
class Place:
    """A collection by one model, whose files of `read_rankings` are in a folder."""

    name: str
    model: str
    folder: Path

    def file(self, phase: Phase | str) -> Path:
        """The file of a phase."""
        return self.folder / f"{self.name}-{self.model}-{phase}.npz"

    def own_and_far(self, asked: Rankings) -> tuple[BoolArray, BoolArray]:
        """(q,) whether a question is of the collection, and whether it is of one about another subject."""
        kin = frozenset().union(*(group for group in KIN if self.name in group))
        return asked.source == self.name, ~np.isin(asked.source, [*kin, self.name])


def background_of(asked: Rankings, system: str) -> QuestionBackground:
    """The product's background of these questions."""
    raw, pool = asked.raw(system), asked.pool(system)

    def answers() -> Iterator[tuple[str, Ranking]]:
        for i, text in enumerate(asked.texts.tolist()):
            own = {name: scores[i, pool[i]] for name, scores in raw.items()}
            count = int(pool[i].sum())
            yield text, Ranking(("",) * count, np.zeros(count), raw=own)

    return QuestionBackground.of(answers(), system)


def totals(background: QuestionBackground, asked: Rankings, system: str) -> Float64Array:
    """(q, m) T of all candidates, as `QuestionBackground.totals_of` has it; minus infinity where none is."""
    means = np.array([background.means_for(text) for text in asked.texts.tolist()])
    scales = zip(background.weights, background.scales.deviations, strict=True)
    found = np.zeros(asked.inside.shape)
    for k, (scores, (weight, deviation)) in enumerate(zip(asked.raw(system).values(), scales, strict=True)):
        found += weight * np.nan_to_num((scores - means[:, k, None]) / deviation)
    return np.where(asked.pool(system), found, -np.inf)


def standing(background: QuestionBackground, asked: Rankings, system: str) -> Float64Array:
    """(q, m) T in deviations of the background's best, as the system orders; NaN outside its pool."""
    found, known = totals(background, asked, system), background.totals[np.isfinite(background.totals)]
    unit = (np.where(np.isfinite(found), found, np.nan) - known.mean()) / known.std()
    return np.take_along_axis(unit, asked.order(system), 1)


def t_and_g(ordered: Float64Array) -> dict[str, Float64Array]:
    """What the chance is made of, from `standing`."""
    best = np.nanmax(ordered, axis=1)
    return {BEST: best, GAP: best - np.nanmean(ordered[:, :DEPTH], axis=1), UP_TO: np.minimum(best, ENOUGH)}


@dataclass(frozen=True)
class Rate:
    """Which % of some groups of questions pass, by each of `CALIBRATIONS` backgrounds of one size."""

    model: str
    system: str
    count: int
    alpha: float
    passed: Mapping[str, Float64Array]


def rates(place: Place) -> list[Rate]:
    """Of every system, size and share: of questions about other subjects, the same, and that are held out."""
    packaged, asked = (Rankings.load(place.file(phase)) for phase in ("packaged", "own"))
    asked = asked.take(np.flatnonzero(~asked.removed))
    own, far = place.own_and_far(asked)
    groups = {"far": far, "near": ~own & ~far, "others": ~own, "own": own}
    made = []
    for count in SIZES:
        passed: dict[tuple[str, float], list[list[float]]] = {}
        for seed in range(CALIBRATIONS):
            drawn = np.random.default_rng(seed).permutation(PACKAGED)
            members, held = packaged.take(drawn[:count]), packaged.take(drawn[count:])
            for system in SYSTEMS:
                background = background_of(members, system)
                best, of_held = (
                    background.percentiles(totals(background, part, system).max(axis=1))
                    for part in (asked, held)
                )
                for alpha in ALPHAS:
                    does = best >= 1 - alpha - ROUNDING
                    shares = [float(does[rows].mean()) if rows.any() else np.nan for rows in groups.values()]
                    shares.append(float((of_held >= 1 - alpha - ROUNDING).mean()))
                    passed.setdefault((system, alpha), []).append(shares)
        for (system, alpha), table in passed.items():
            columns = dict(zip((*groups, "held"), 100 * np.array(table).T, strict=True))
            made.append(Rate(place.model, system, count, alpha, columns))
    return made


def rate_tables(found: Sequence[Rate]) -> list[Table]:
    """Held-out questions by size, from the system of least to that of most; others by model and system."""
    sizes: list[tuple[Cell, ...]] = []
    for alpha in ALPHAS:
        for count in SIZES:
            chosen = [rate for rate in found if (rate.alpha, rate.count) == (alpha, count)]
            each = [[rate.passed for rate in chosen if rate.system == system] for system in SYSTEMS]
            passes = [np.mean([own["held"].mean() for own in of]) for of in each]
            spread, others = (
                [np.mean([own[name].std(ddof=1) for own in of]) for of in each] for name in ("held", "others")
            )
            sampling = 100 * np.sqrt(alpha * (1 - alpha) * (1 / count + 1 / (PACKAGED - count)))
            ranges = (f"{min(own):.1f} to {max(own):.1f}" for own in (passes, spread, others))
            sizes.append((f"{alpha:g}", count, *ranges, float(sampling)))
    groups = [("far", "far"), ("near", "near"), ("own", "own refused")]
    rows: dict[tuple[str, str], list[float]] = {}
    for alpha in ALPHAS:
        for model, system in dict.fromkeys((rate.model, rate.system) for rate in found):
            key = (model, system, alpha, USUAL)
            own = [r.passed for r in found if (r.model, r.system, r.alpha, r.count) == key]
            means = [float(np.nanmean([passed[name].mean() for passed in own])) for name, _ in groups]
            rows.setdefault((model, system), []).extend([*means[:2], 100 - means[2]])
    names = [f"{head} {100 * alpha:g} %" for alpha in ALPHAS for _, head in groups]
    heads = ("promised", "questions", "pass, %", "spread", "spread on the other collections'")
    return [
        Table(
            "pass-rates",
            f"Held-out questions over {CALIBRATIONS} backgrounds; spread: deviation over these",
            (*map(Column, heads), Column("by sampling", 1)),
            tuple(sizes),
            keys=2,
            notes=("by sampling: what the spread would be if only the draws differed",),
        ),
        Table(
            "other-collections",
            f"Other collections' questions, {USUAL} in the background, %",
            (Column("model"), Column("system"), *(Column(name, 1) for name in names)),
            tuple((*key, *values) for key, values in rows.items()),
            keys=2,
        ),
    ]


@dataclass(frozen=True, eq=False)
class Answers:
    """What is known of q questions, by one system.

    Attributes:
        found: predictor -> (q,) its values.
        hits: (q,) whether a relevant document is among the first ten.
        own: whether it is a question of the collection, with all documents.
        removed: whether it is one whose relevant documents were taken out.
        far: whether it is of a collection about another subject.
    """

    found: Mapping[str, Float64Array]
    hits: BoolArray
    own: BoolArray
    removed: BoolArray
    far: BoolArray

    @property
    def weights(self) -> Float64Array:
        """(q,) how much each counts: the collection's and those about other subjects the same, together."""
        return self.own / max(self.own.sum(), 1) + self.far / max(self.far.sum(), 1)

    def table(self, names: Sequence[str]) -> Float64Array:
        """(q, p) values of p predictors."""
        return np.stack([self.found[name].clip(-20, 20) for name in names], axis=1)


Known: TypeAlias = Mapping[tuple[str, str], Mapping[str, Answers]]  # (collection, model) -> by system


def answers(place: Place) -> dict[str, Answers]:
    """System -> what is known of the questions, by the product's background."""
    asked, packaged = (Rankings.load(place.file(phase)) for phase in ("own", "packaged"))
    usual = packaged.take(np.arange(USUAL))
    own, far = place.own_and_far(asked)
    with np.load(place.file("corpus")) as corpus:
        return {
            system: Answers(
                predictors(asked, system, standing(background_of(usual, system), asked, system), corpus),
                asked.hits(system),
                own & ~asked.removed,
                own & asked.removed,
                far,
            )
            for system in SYSTEMS
        }


def predictors(
    asked: Rankings, system: str, ordered: Float64Array, corpus: Mapping[str, np.ndarray]
) -> dict[str, Float64Array]:
    """Name -> (q,) what may tell questions with an answer among the first ten from others.

    `ordered` is of `standing`, `corpus` the documents' vectors and words.
    """
    order, scores = asked.order(system), np.stack([*asked.raw(system).values()])
    ranked = np.take_along_axis(asked.own(system), order, 1)[:, :DEPTH]
    ranked = np.where(np.isfinite(ranked), ranked, np.nan)
    documents = corpus["dense"].astype(np.float64)
    questions = asked.dense.astype(np.float64)
    nearest = np.nanmax(asked.raw("cosine")["cosine"], axis=1)
    deviation = np.sqrt(np.einsum("qd,de,qe->q", questions, np.cov(documents.T, bias=True), questions))
    first = documents[np.take_along_axis(asked.rows, order[:, :10], 1)]
    first /= np.maximum(np.linalg.norm(first, axis=2, keepdims=True), 1e-9)
    likeness, count = np.einsum("qid,qjd->q", first, first, optimize=True), first.shape[1]
    found = {
        **t_and_g(ordered),
        "T of the first less the second's": ordered[:, 0] - ordered[:, 1],
        "spread of T over 100": np.nanstd(ordered[:, :DEPTH], axis=1),
        # What mteb calls so, of the system's own scores.
        "max": ranked[:, 0],
        "std": np.nanstd(ranked, axis=1),
        "diff1": ranked[:, 0] - ranked[:, 1],
        "best cosine": nearest,
        "best cosine, z over the documents": (nearest - questions @ documents.mean(axis=0)) / deviation,
        "words of the question": np.log([max(1, len(text.split())) for text in asked.texts.tolist()]),
        **(_agreement(scores, order) if len(scores) > 1 else {}),
        "coherence of the first ten": (likeness - count) / (count * (count - 1)),
        **_words(asked, np.take_along_axis(asked.scores["bm25"], order[:, :1], 1)[:, 0], corpus),
    }
    return {name: np.nan_to_num(own, nan=0, posinf=0, neginf=0) for name, own in found.items()}


def _agreement(scores: Float64Array, order: IntArray) -> dict[str, Float64Array]:
    """Overlap of the scorers' first ten, their correlation over the pool, and their ranks of the first."""
    each = np.nan_to_num(scores, nan=-np.inf)
    tops = np.argsort(-each, axis=2, kind="stable")[:, :, :10]
    pairs = [(i, j) for i in range(len(tops)) for j in range(i)]
    overlap = [(tops[i][:, :, None] == tops[j][:, None, :]).any(axis=2).mean(axis=1) for i, j in pairs]
    away = scores - np.nanmean(scores, axis=2, keepdims=True)
    squares = np.nansum(away**2, axis=2)
    alike = [
        np.nansum(away[i] * away[j], axis=1) / np.sqrt(squares[i] * squares[j] + 1e-12) for i, j in pairs
    ]
    ranks = [np.log1p((own > np.take_along_axis(own, order[:, :1], 1)).sum(axis=1)) for own in each]
    return {
        "agreement of the scorers' first ten": np.mean(overlap, axis=0),
        "correlation of the scorers": np.mean(alike, axis=0),
        "scorers' ranks of the first": np.mean(ranks, axis=0),
    }


def _words(asked: Rankings, bm25: Float64Array, corpus: Mapping[str, np.ndarray]) -> dict[str, Float64Array]:
    """The share of a question's idf that the first document has (by BM25), and that no document has."""
    vocabulary, filled, table = corpus["vocab"], int(corpus["filled"]), []
    for terms, own in zip(asked.terms, np.nan_to_num(bm25), strict=True):
        at = np.minimum(np.searchsorted(vocabulary, terms), len(vocabulary) - 1)
        known = vocabulary[at] == terms
        counts = np.where(known, corpus["df"][at], 0)
        idf = np.log1p((filled - counts + 0.5) / (counts + 0.5))
        total = max(float(idf.sum()), ROUNDING)
        table.append((own / (2.2 * total), idf[~known].sum() / total))
    return dict(
        zip(("words that the first has", "words that no document has"), np.array(table).T, strict=True)
    )


def fitted(parts: Sequence[Answers], names: Sequence[str]) -> Pipeline:
    """A logistic curve of some predictors."""
    table, hits, weights = (
        np.concatenate(own)
        for own in zip(*((one.table(names), one.hits & one.own, one.weights) for one in parts), strict=True)
    )
    chosen = weights > 0
    curve = make_pipeline(StandardScaler(), LogisticRegression(C=1e4, max_iter=1000))
    usual = weights[chosen] / weights[chosen].mean()
    return curve.fit(table[chosen], hits[chosen], logisticregression__sample_weight=usual)


def curves(
    known: Known, names: Sequence[str] = (UP_TO, GAP), systems: Sequence[str] = tuple(SYSTEMS)
) -> dict[str, Pipeline]:
    """Left-out collection -> the curve of all others; of none the product's."""
    return {
        left: fitted([own[s] for (name, _), own in known.items() if name != left for s in systems], names)
        for left in dict.fromkeys(name for name, _ in known)
    }


def chance(curve: Pipeline, of: Answers, names: Sequence[str] = (UP_TO, GAP)) -> Float64Array:
    """(q,) the chance of an answer among the first ten."""
    return np.asarray(curve.predict_proba(of.table(names))[:, 1])


def auroc(good: Float64Array, bad: Float64Array) -> float:
    """The share of pairs in which the good one is larger, ties half; NaN without both."""
    if not len(good) or not len(bad):
        return float("nan")
    return float(roc_auc_score(np.repeat([1, 0], [len(good), len(bad)]), np.concatenate([good, bad])))


def bins_of(chances: Float64Array) -> IntArray:
    """(q,) which tenth a chance is in."""
    return np.minimum((chances * BINS).astype(np.int64), BINS - 1)


def chance_tables(known: Known) -> list[Table]:
    """Each collection of each model and system by the curve of the others, reliability, and the curves."""
    left_out, rows = curves(known), []
    told: dict[tuple[str, str], list[Float64Array]] = {}
    for (name, model), by_system in known.items():
        for system, of in by_system.items():
            said, good, bad = chance(left_out[name], of), of.own & of.hits, of.own & ~of.hits
            ours, hits = said[of.own], of.hits[of.own]
            error = np.abs(np.bincount(bins_of(ours), ours - hits, minlength=BINS)).sum() / len(ours)
            near = ~of.own & ~of.removed & ~of.far
            shares = [100 * _mean(said[rows] >= ANSWERED) for rows in (good, bad, of.removed, of.far, near)]
            away = float(ours.mean() - hits.mean())
            areas = auroc(said[good], said[bad]), auroc(said[good], said[of.removed])
            rows.append((name, model, system, areas[0], float(error), away, *shares, areas[1]))
            told.setdefault((model, system), []).append(np.stack([said, of.hits & of.own, of.weights]))
    for model, system in dict.fromkeys((row[1], row[2]) for row in rows):
        own = [row[3:] for row in rows if row[1:3] == (model, system)]
        rows.append(("mean", model, system, *np.nanmean(np.array(own, np.float64), axis=0).tolist()))
    claimed: list[tuple[Cell, ...]] = []
    for key, parts in told.items():
        said, hit, weights = np.concatenate(parts, axis=1)
        at, there = bins_of(said), weights > 0
        for number in range(BINS):
            inside = there & (at == number)
            if inside.any():
                means = (float(np.average(own[inside], weights=weights[inside])) for own in (said, hit))
                claimed.append((*key, f"{10 * number} to {10 * number + 10} %", int(inside.sum()), *means))
    everything = fitted([own[system] for own in known.values() for system in SYSTEMS], (UP_TO, GAP))
    shown: list[tuple[Cell, ...]] = []
    for left, curve in {"none": everything, **left_out}.items():
        factors = curve[1].coef_[0] / curve[0].scale_
        shown.append((left, float(curve[1].intercept_[0] - factors @ curve[0].mean_), *factors.tolist()))
    groups = ("with an answer", "without", "removed", "far", "near")
    measures = (*(Column(name, 3) for name in ("AUROC", "calibration error", "chance less share")),)
    keys = (Column("collection"), Column("model"), Column("system"))
    return [
        Table(
            "chance-left-out",
            "The chance by the curve of all other collections, and % with the verdict `answered`",
            (*keys, *measures, *(Column(name, 1) for name in groups), Column("AUROC removed", 3)),
            tuple(rows),
            keys=3,
            notes=("removed: the collection's questions without their relevant documents",),
        ),
        Table(
            "chance-reliability",
            "Claimed and found; every collection counts the same, and so do its own questions and others",
            (*keys[1:], Column("bin"), Column("questions"), Column("claimed", 3), Column("found", 3)),
            tuple(claimed),
            keys=3,
        ),
        Table(
            "chance-curves",
            "The curves",
            (Column("left out"), *(Column(name, 3) for name in ("a", "b of t", "c of g"))),
            tuple(shown),
        ),
    ]


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def predictor_table(known: Known, system: str = "auto") -> Table:
    """AUROC of each predictor alone, and added to t and g in curves of all other collections."""

    def areas(scored: Callable[[str, Answers], Float64Array]) -> list[float]:
        each = []
        for (name, _), by_system in known.items():
            of = by_system[system]
            values = scored(name, of)
            good = values[of.own & of.hits]
            each.append((auroc(good, values[of.own & ~of.hits]), auroc(good, values[of.removed])))
        return [float(own) for own in np.nanmean(each, axis=0)]

    def together(names: Sequence[str]) -> list[float]:
        left_out = curves(known, names, [system])
        return areas(lambda name, of: chance(left_out[name], of, names))

    names, pair = list(next(iter(known.values()))[system].found), (UP_TO, GAP)
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        both: list[Any] = [None, None] if name in pair else together((*pair, name))
        rows.append((name, *areas(lambda _, of, own=name: of.found[own]), *both))  # type: ignore[misc]
    rows += [("t and g", None, None, *together(pair)), ("all of them", None, None, *together(names))]
    heads = ("AUROC alone", "good removed alone", "AUROC with t and g", "good removed with t and g")
    return Table(
        "predictors",
        f"Predictors of an answer among the first ten, {system}: means over collections and models",
        (Column("predictor"), *(Column(head, 3) for head in heads)),
        tuple(rows),
        notes=("below .5: it falls where an answer is likelier",),
    )


def verdict_tables(places: Sequence[Place], parts: Sequence[str], terminal: Terminal) -> list[Table]:
    """The tables of some of `PARTS`, of every collection by every model."""
    passed: list[Rate] = []
    known: dict[tuple[str, str], dict[str, Answers]] = {}
    with terminal.bar("measuring", len(places), "collections") as advance:
        for place in places:
            passed += rates(place) if "pass-rates" in parts else []
            if {*parts} != {"pass-rates"}:
                known[place.name, place.model] = answers(place)
            advance(1)
    made: Mapping[str, Callable[[], Sequence[Table]]] = {
        "pass-rates": lambda: rate_tables(passed),
        "chance": lambda: chance_tables(known),
        "predictors": lambda: [predictor_table(known)],
    }
    return [table for part in parts for table in made[part]()]
