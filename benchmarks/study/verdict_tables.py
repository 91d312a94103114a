"""The tables of docs/thresholds.md: pass rates, the chance of relevance, and questions without an answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from benchmarks.study.rankings import PACKAGED, Phase
from benchmarks.study.reliability_bins import expected_calibration_error, reliability
from benchmarks.study.verdicts import (
    COSINE,
    GAP,
    MTEB,
    SYSTEMS,
    UP_TO,
    Calibration,
    Chance,
    Rankings,
    Words,
    added,
    auroc,
    predictors,
)
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import BoolArray, Float64Array
from surprise_rerank.eval.reports.report import Cell, Column, Table
from surprise_rerank.thresholds.verdicts import ANSWERED, WEAK

PARTS = ("pass-rates", "chance", "predictors", "removed")
SIZES, ALPHAS, CALIBRATIONS, USUAL = (100, 300, 1000), (0.05, 0.2), 20, 300
# Collections of one subject: medicine; computing and libraries; engineering.
NEAR = (
    frozenset({"scifact", "nfcorpus"}),
    frozenset({"cacm", "cisi", "lisa", "demo"}),
    frozenset({"cranfield", "npl", "demo"}),
)
COST = 0.1  # the share of good questions that may be called weak


@dataclass(frozen=True, eq=False)
class Place:
    """A collection by one model: its rankings by phase, its documents and its words.

    Attributes:
        name: of the collection.
        model: of the vectors.
        folder: where the files of `read_rankings` are.
    """

    name: str
    model: str
    folder: Path

    def file(self, phase: Phase | str) -> Path:
        """The file of a phase."""
        return self.folder / f"{self.name}-{self.model}-{phase}.npz"

    def opened(self) -> Opened:
        """With everything that calibrations need, in memory."""
        with np.load(self.file("corpus")) as stored:
            words = Words(stored["vocab"], stored["df"], int(stored["filled"]))
            documents = stored["dense"]
        return Opened(self, documents, words, Rankings.load(self.file("packaged")))


@dataclass(frozen=True)
class Rate:
    """How many questions pass a threshold, over `CALIBRATIONS` backgrounds of the same number of questions.

    `alpha` is the share that is promised. The means are of questions of collections about other subjects
    (`far`), the same (`near`) and all others (`off`), and of varied questions that are not in the background
    (`held`); `sampling` is the deviation of these if only the draws differed. `refused` are own questions.
    """

    collection: str
    model: str
    system: str
    count: int
    alpha: float
    far: float
    near: float
    off: float
    off_spread: float
    held: float
    held_spread: float
    sampling: float
    refused: float


@dataclass(frozen=True, eq=False)
class Answers:
    """What is known of q questions, by one system: predictors, surprise of the best document, nDCG@10.

    `hits` says whether a relevant document is among the first ten, `source` whose question it is, `removed`
    whether its relevant documents were taken out.
    """

    found: Mapping[str, Float64Array]
    surprise: Float64Array
    ndcg: Float64Array
    hits: BoolArray
    source: np.ndarray
    removed: BoolArray
    name: str

    @property
    def own(self) -> BoolArray:
        """The collection's questions, with all documents."""
        return np.asarray((self.source == self.name) & ~self.removed)

    @property
    def good(self) -> BoolArray:
        """Those of them that get an answer."""
        return self.own & self.hits

    @property
    def unanswerable(self) -> BoolArray:
        """The collection's questions without their relevant documents."""
        return np.asarray((self.source == self.name) & self.removed)

    @property
    def off(self) -> BoolArray:
        """Questions of other collections."""
        return np.asarray(self.source != self.name)

    @property
    def far(self) -> BoolArray:
        """Questions of collections about other subjects."""
        kin = frozenset().union(*(group for group in NEAR if self.name in group))
        return self.off & ~np.isin(self.source, list(kin))

    def part(self) -> tuple[dict[str, Float64Array], BoolArray, Float64Array]:
        """Predictors, hits and weights of the collection's questions, and of those about other subjects.

        Both count the same, together.
        """
        chosen = self.own | self.far
        counts = np.where(self.own, 1 / max(self.own.sum(), 1), 1 / max(self.far.sum(), 1))
        found = {name: values[chosen] for name, values in self.found.items()}
        return found, (self.hits & self.own)[chosen], counts[chosen]


@dataclass(frozen=True, eq=False)
class Opened:
    """A place in memory."""

    place: Place
    documents: np.ndarray
    words: Words
    packaged: Rankings

    def rates(self) -> list[Rate]:
        """The pass rates of every system, number of questions and share."""
        name, packaged = self.place.name, self.packaged
        asked = Rankings.load(self.place.file("own"))
        asked = asked.take(~asked.removed)
        own = asked.source == name
        kin = frozenset().union(*(group for group in NEAR if name in group))
        near = ~own & np.isin(asked.source, list(kin))
        groups = {"far": ~own & ~near, "near": near, "off": ~own, "own": own}
        rates = []
        for count in SIZES:
            passed: dict[tuple[str, float], list[list[float]]] = {}
            for seed in range(CALIBRATIONS):
                drawn = np.random.default_rng(seed).permutation(PACKAGED)
                members, rest = drawn[:count], packaged.take(drawn[count:])
                background = packaged.take(members)
                for system in SYSTEMS:
                    made = Calibration.of(system, added(background, system), background.logs)
                    best = made.of_all(added(asked, system), asked.logs).max(axis=1)
                    of_held = made.of_all(added(rest, system), rest.logs).max(axis=1)
                    for alpha in ALPHAS:
                        does = made.passes(best, alpha)
                        shares = [
                            float(does[rows].mean()) if rows.any() else np.nan for rows in groups.values()
                        ]
                        shares.append(float(made.passes(of_held, alpha).mean()))
                        passed.setdefault((system, alpha), []).append(shares)
            for (system, alpha), table in passed.items():
                values = 100 * np.array(table)
                far, near_mean, off, own_mean, of_held_mean = values.mean(axis=0).tolist()
                off_spread, held_spread = values[:, [2, 4]].std(axis=0, ddof=1).tolist()
                sampling = 100 * np.sqrt(alpha * (1 - alpha) * (1 / count + 1 / (PACKAGED - count)))
                key = (name, self.place.model, system, count, alpha)
                levels = (far, near_mean, off, off_spread, of_held_mean, held_spread)
                rates.append(Rate(*key, *levels, float(sampling), 100 - own_mean))
        return rates

    def answers(self) -> dict[str, Answers]:
        """System -> what is known of the questions, by a background of `USUAL` questions."""
        asked = Rankings.load(self.place.file("own"))
        background = self.packaged.take(np.arange(USUAL))  # the product's
        answers = {}
        for system in SYSTEMS:
            made = Calibration.of(system, added(background, system), background.logs)
            scores = added(asked, system)
            found = predictors(asked, system, scores, made, self.documents, self.words)
            surprise = made.surprise(made.of_all(scores, asked.logs).max(axis=1))
            truth = (asked.ndcg(system), asked.hits(system), asked.source, asked.removed)
            answers[system] = Answers(found, surprise, *truth, self.place.name)
        return answers


Known = Mapping[tuple[str, str], Mapping[str, Answers]]


def _fitted(
    known: Known, names: Sequence[str] = (UP_TO, GAP), systems: Sequence[str] = SYSTEMS, left: str = ""
) -> Chance:
    """The curve of all systems, of all models, by all collections but one."""
    rest = [answers for (name, _), answers in known.items() if name != left]
    return Chance.fitted(names, [answers[system].part() for answers in rest for system in systems])


def chances(
    known: Known, names: Sequence[str] = (UP_TO, GAP), systems: Sequence[str] = SYSTEMS
) -> dict[str, Chance]:
    """Left-out collection -> the curve of all others."""
    return {left: _fitted(known, names, systems, left) for left in dict.fromkeys(name for name, _ in known)}


def curves_table(known: Known) -> Table:
    """The curve of all collections, which the product has, and those without each."""
    curves = {"none": _fitted(known), **chances(known)}
    rows = tuple((left, own.bias, *own.weights.tolist()) for left, own in curves.items())
    columns = (Column("left out"), Column("a", 3), Column("b of t", 3), Column("c of g", 3))
    return Table("chance-curves", "The curves of the chance", columns, rows, detail=True)


def mean(values: Iterable[float]) -> float:
    """The mean of those that are known; NaN of none."""
    found = [value for value in values if not np.isnan(value)]
    return float(np.mean(found)) if found else float("nan")


def rate_tables(rates: Sequence[Rate]) -> list[Table]:
    """By size and system; by model; by collection; and every one."""
    shown = [field.name for field in fields(Rate)][5:]
    heads = {
        "far": "far",
        "near": "near",
        "off": "off-topic",
        "off_spread": "spread of it",
        "held": "held out",
        "held_spread": "its spread",
        "sampling": "by sampling",
        "refused": "own refused",
    }

    def table(
        name: str, title: str, keys: Sequence[str], chosen: Sequence[Rate], *, detail: bool = False
    ) -> Table:
        groups: dict[tuple[Cell, ...], list[Rate]] = {}
        for rate in chosen:
            groups.setdefault(tuple(getattr(rate, key) for key in keys), []).append(rate)
        rows = tuple(
            (*key, *(mean(getattr(rate, of) for rate in own) for of in shown)) for key, own in groups.items()
        )
        columns = (
            *(Column("promised" if key == "alpha" else key, 2) for key in keys),
            *(Column(heads[of], 1) for of in shown),
        )
        notes = (
            f"% of questions, means over {CALIBRATIONS} backgrounds of `count` varied questions; spread: "
            "standard deviation over these. By sampling: what the spread of those held out would be if only "
            "the draws differed",
        )
        return Table(name, title, columns, rows, keys=len(keys), notes=notes, detail=detail)

    usual = [rate for rate in rates if rate.count == USUAL]
    return [
        table("pass-sizes", "Pass rates by size", ("alpha", "count", "system"), rates),
        table("pass-models", f"Pass rates, {USUAL} questions", ("alpha", "model", "system"), usual),
        table("pass-collections", f"Pass rates, {USUAL} questions", ("alpha", "collection"), usual),
        table(
            "pass-all",
            "Every pass rate",
            ("collection", "model", "system", "count", "alpha"),
            rates,
            detail=True,
        ),
    ]


OURS = "chance"


def _compared(answers: Answers, chance: Chance) -> dict[str, Float64Array]:
    own = {name: values[answers.own] for name, values in answers.found.items()}
    return {**{name: own[name] for name in (*MTEB, COSINE)}, OURS: chance.of(own)}


def _quality(answers: Answers, chance: Chance) -> list[float]:
    """Share with an answer, AUROC and nAUC of each score, mean chance less that share, calibration error."""
    from mteb._evaluators.retrieval_metrics import nauc

    hits, ndcg = answers.hits[answers.own], answers.ndcg[answers.own]
    scores = _compared(answers, chance)
    areas = [auroc(values[hits], values[~hits]) for values in scores.values()]
    naucs = [float(nauc(values, ndcg)) for values in scores.values()]
    ours = scores[OURS]
    error = expected_calibration_error(ours, hits)
    return [float(hits.mean()), *areas, *naucs, float(ours.mean() - hits.mean()), float(error)]


def _quality_columns() -> tuple[Column, ...]:
    heads = (*MTEB, COSINE, OURS)
    best = [Column(f"{of} {name}", 3) for of in ("AUROC", "nAUC") for name in heads]
    return (Column("answered", 2), *best, Column("chance less share", 3), Column("calibration error", 3))


_QUALITY_NOTES = (
    "answered: share of questions with a relevant document among the first ten; AUROC of that; nAUC of "
    "nDCG@10 by mteb's function. max, std and diff1 are mteb's, of the system's own first 100 scores",
    "chance: fitted on all other collections; calibration error: expected, in ten bins",
)


def chance_tables(known: Known) -> list[Table]:
    """Each collection of the first model, and means over the collections of each."""
    curves = chances(known)
    quality = {
        (name, model, system): _quality(answers[system], curves[name])
        for (name, model), answers in known.items()
        for system in SYSTEMS
    }
    groups: dict[tuple[str, str], list[list[float]]] = {}
    for (_, model, system), values in quality.items():
        groups.setdefault((model, system), []).append(values)
    means = tuple(
        (*key, *(mean(column) for column in zip(*table, strict=True))) for key, table in groups.items()
    )
    rows = tuple((*key, *values) for key, values in quality.items())
    first = next(iter(known))[1]
    columns = _quality_columns()
    keys = (Column("collection"), Column("model"), Column("system"))
    return [
        Table(
            "chance",
            f"Answers among the first ten: {first}",
            (*keys, *columns),
            tuple(row for row in rows if row[1] == first and row[2] in ("cosine", "auto")),
            keys=3,
            notes=_QUALITY_NOTES,
        ),
        Table("chance-means", "Means over the collections", (*keys[1:], *columns), means, keys=2),
        Table("chance-all", "Every collection", (*keys, *columns), rows, keys=3, detail=True),
        curves_table(known),
    ]


def _share(values: BoolArray) -> float:
    return 100 * float(values.mean()) if values.size else float("nan")


def _by_model(
    title: str,
    name: str,
    heads: Sequence[str],
    rows: Mapping[tuple[str, str, str], Sequence[float]],
    notes: tuple[str, ...],
) -> list[Table]:
    """A table of means over the collections, and one of each."""
    groups: dict[tuple[str, str], list[Sequence[float]]] = {}
    for (_, model, system), values in rows.items():
        groups.setdefault((model, system), []).append(values)
    means = tuple(
        (*key, len(table), *(mean(column) for column in zip(*table, strict=True)))
        for key, table in groups.items()
    )
    columns = tuple(Column(head, 3 if head.startswith("AUROC") else 1) for head in heads)
    keys = (Column("collection"), Column("model"), Column("system"))
    each = tuple((*key, *values) for key, values in rows.items())
    return [
        Table(name, title, (*keys[1:], Column("collections"), *columns), means, keys=2, notes=notes),
        Table(f"{name}-all", f"{title}, every collection", (*keys, *columns), each, keys=3, detail=True),
    ]


def verdicts_of(chance: Float64Array) -> np.ndarray:
    """(q,) `off-topic`, `weak` or `answered`, as a search tells it."""
    return np.where(chance < WEAK, "off-topic", np.where(chance < ANSWERED, "weak", "answered"))


def reliability_table(known: Known) -> Table:
    """What was claimed beside what was found, of each collection by the curve of the others."""
    curves = chances(known)
    rows: list[tuple[Cell, ...]] = []
    for model, system in itertools.product(dict.fromkeys(model for _, model in known), SYSTEMS):
        parts = []
        for (name, own_model), answers in known.items():
            if own_model == model:
                told, hits, weights = answers[system].part()
                parts.append((curves[name].of(told), hits, weights))
        bins = reliability(*(np.concatenate(own) for own in zip(*parts, strict=True)))
        rows += [(model, system, part.count, part.predicted, part.observed) for part in bins]
    columns = (
        Column("model"),
        Column("system"),
        Column("questions"),
        Column("claimed", 3),
        Column("found", 3),
    )
    notes = (
        "own questions and those about other subjects, in bins of a tenth; every collection counts the same, "
        "and so do its own questions and the others, as in the fit",
    )
    return Table("reliability", "Claimed and found", columns, tuple(rows), keys=2, notes=notes)


def removed_tables(known: Known) -> list[Table]:
    """What verdicts say of questions with and without an answer, and what a tenth of the good ones buys."""
    curves = chances(known)
    rows: dict[tuple[str, str, str], list[float]] = {}
    for (name, model), answers in known.items():
        for system in SYSTEMS:
            own = answers[system]
            chance = curves[name].of(own.found)
            said = verdicts_of(chance)
            good, gone = chance[own.good], chance[own.unanswerable]
            level = float(np.quantile(good, COST)) if good.size else float("nan")
            rows[name, model, system] = [
                _share(said[own.good] == "weak"),
                _share(said[own.good] == "off-topic"),
                _share(said[own.own & ~own.hits] == "answered"),
                _share(said[own.unanswerable] == "answered"),
                _share(said[own.far] == "answered"),
                _share(said[own.off & ~own.far] == "answered"),
                _share(gone >= level),
                auroc(good, gone),
            ]
    heads = (
        "good, weak",
        "good, off-topic",
        "no hit, answered",
        "removed, answered",
        "far, answered",
        "near, answered",
        f"removed, answered at {100 * COST:.0f} % cost",
        "AUROC good, removed",
    )
    notes = (
        "% with a verdict, by the default thresholds. good: with a relevant document among the first ten; no "
        "hit: without; removed: whose relevant documents were taken out; far, near: of collections "
        "about other subjects, and the same",
        f"at {100 * COST:.0f} % cost: by the chance that so many of the good ones do not reach, which nobody "
        "knows without judgements",
    )
    return _by_model("Verdicts on questions with and without an answer", "removed", heads, rows, notes)


def predictor_table(known: Known, system: str = "auto") -> Table:
    """What was tried for the chance: each predictor alone, and added to T and its gap, left out."""
    firsts = [(name, next(iter(known))[1]) for name in ("scifact", "nfcorpus")]

    def areas(scored: Callable[[str, Answers], Float64Array]) -> list[float]:
        each: dict[tuple[str, str], tuple[float, float]] = {}
        for (name, model), answers in known.items():
            own = answers[system]
            values = scored(name, own)
            hit = auroc(values[own.good], values[own.own & ~own.hits])
            each[name, model] = hit, auroc(values[own.good], values[own.unanswerable])
        firsts_known = [each.get(key, (float("nan"),) * 2)[0] for key in firsts]
        return [mean(hit for hit, _ in each.values()), *firsts_known, mean(gone for _, gone in each.values())]

    names = list(next(iter(known.values()))[system].found)
    first = (UP_TO, GAP)
    sets = [(UP_TO,), (GAP,), first, *((*first, name) for name in names if name not in first)]
    rows: list[tuple[Cell, ...]] = [
        ("alone", name, *areas(lambda _, own, n=name: own.found[n])) for name in names
    ]  # type: ignore[misc]
    for own in (*sets, tuple(names)):
        curves = chances(known, own, [system])
        label = "all" if len(own) > len(sets[-1]) else " + ".join(own[2:] if len(own) > 2 else own)
        kind = "with T and its gap" if len(own) == len(sets[-1]) else "fitted"
        rows.append((kind, label, *areas(lambda name, own, c=curves: c[name].of(own.found))))  # type: ignore[misc]
    columns = (
        *(Column("how"), Column("predictor"), Column("AUROC", 3)),
        *(Column(f"{name}, {model}", 3) for name, model in firsts),
        Column("good, removed", 3),
    )
    notes = (
        "AUROC of a relevant document among the first ten, mean over collections and models; below .5: it "
        "falls where that is likelier. fitted: on all other collections",
        "good, removed: AUROC of questions with an answer against those whose answers were taken out",
    )
    return Table("predictors", f"Predictors tried: {system}", columns, tuple(rows), keys=2, notes=notes)


def verdict_tables(places: Sequence[Place], parts: Sequence[str], terminal: Terminal) -> list[Table]:
    """The tables of some parts.

    Args:
        places: every collection of every model.
        parts: of `PARTS`.
        terminal: for progress.
    """
    rates: list[Rate] = []
    own: dict[tuple[str, str], dict[str, Answers]] = {}
    with terminal.bar("measuring", len(places), "collections") as advance:
        for place in places:
            opened = place.opened()
            rates += opened.rates() if "pass-rates" in parts else []
            if set(parts) != {"pass-rates"}:
                own[place.name, place.model] = opened.answers()
            advance(1)
    made: Mapping[str, Callable[[], Sequence[Table]]] = {
        "pass-rates": lambda: rate_tables(rates),
        "chance": lambda: [*chance_tables(own), reliability_table(own)],
        "predictors": lambda: [predictor_table(own)],
        "removed": lambda: removed_tables(own),
    }
    return [table for part in parts for table in made[part]()]
