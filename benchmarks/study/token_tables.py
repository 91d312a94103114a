"""The tables of docs/tokens.md: every form on average, each collection's, and the choice left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.study.token_forms import DEPTH, REFERENCE, Row, Variant
from surprise_rerank.core.tokens import TokenForm
from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import Cell, Column, Table

# What may be chosen: base64 writes 4 bytes for 3.
LIMIT = 6000
_BASE64 = 4 / 3
MEASURES = ("inclusion", "fusion", "auto")


def read_rows(path: Path) -> list[Row]:
    """Rows that `append_rows` wrote; none where there is no file."""
    lines = path.read_text().splitlines() if path.is_file() else []
    return [Row(**json.loads(line)) for line in lines]


def append_rows(path: Path, rows: Iterable[Row]) -> None:
    """Add rows to a file, a line each."""
    with path.open("a") as file:
        file.writelines(f"{json.dumps(row.to_json())}\n" for row in rows)


class Results:
    """Rows by form, collection and model.

    Attributes:
        rows: (form, collection, model) -> row; each collection and model has the reference.
        collections: their names.
        models: their names.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows: Mapping[tuple[str, str, str], Row] = {
            (row.form, row.collection, row.model): row for row in rows
        }
        self.collections = list(dict.fromkeys(name for _, name, _ in self.rows))
        self._dimensions = {row.model: row.dimension for row in self.rows.values()}
        self.models = list(self._dimensions)

    def has(self, form: str, models: Sequence[str]) -> list[str]:
        """The collections that have a form of all these models."""
        return [name for name in self.collections if all((form, name, m) in self.rows for m in models)]

    def forms(self, models: Sequence[str]) -> list[str]:
        """Those that all collections have that the reference has."""
        forms, whole = dict.fromkeys(form for form, _, _ in self.rows), self.has(REFERENCE, models)
        return [form for form in forms if self.has(form, models) == whole]

    def difference(self, form: str, measure: str, collection: str, model: str) -> float:
        """To int8, of nDCG@10."""
        row, base = (self.rows[name, collection, model] for name in (form, REFERENCE))
        return float(getattr(row, measure) - getattr(base, measure))

    def mean(self, form: str, measure: str, collections: Sequence[str], models: Sequence[str]) -> float:
        """Of the differences to int8."""
        return float(np.mean([self.difference(form, measure, c, m) for c in collections for m in models]))

    def worth(self, form: str, collections: Sequence[str], models: Sequence[str]) -> float:
        """What a form is chosen by: the mean difference of `fusion` and `auto`, over the models."""
        return float(np.mean([self.mean(form, of, collections, models) for of in ("fusion", "auto")]))

    def small(self, models: Sequence[str]) -> list[str]:
        """The forms of at most `LIMIT` bytes in base64 for a document of 240 tokens."""
        name = self.has(REFERENCE, models)[0]
        sizes = {f: max(self.rows[f, name, m].packed_240 for m in models) for f in self.forms(models)}
        return [form for form, size in sizes.items() if size * _BASE64 <= LIMIT]

    def chosen(self, collections: Sequence[str], models: Sequence[str]) -> str:
        """The best small form on these collections.

        Raises:
            DataError: if there is none.
        """
        if not self.small(models):
            raise DataError(f"no form takes at most {LIMIT} bytes; measure a smaller one by --form, too")
        return max(self.small(models), key=lambda form: self.worth(form, collections, models))

    def usual(self, model: str) -> str:
        """The form of a new index."""
        return str(Variant(TokenForm.usual(self._dimensions[model])))


def forms_table(results: Results, model: str) -> Table:
    """Every form of a model: its mean over the collections, and its worst collection."""
    rows: list[tuple[Cell, ...]] = []
    for form in dict.fromkeys(form for form, _, own in results.rows if own == model):
        names = results.has(form, [model])
        own = [results.rows[form, name, model] for name in names]
        quality: list[float] = []
        for measure in MEASURES:
            away = [results.difference(form, measure, name, model) for name in names]
            quality += [float(np.mean(away)), min(away)]
        size = own[0].packed_240
        means = [float(np.mean([getattr(row, of) for row in own])) for of in ("vectors", "rho", "time")]
        rows.append((form, len(names), size, round(size * _BASE64), means[0], *quality, *means[1:]))
    columns = (
        *(Column("form"), Column("collections"), Column("bytes, 240 tokens"), Column("in base64")),
        Column("vectors", 1),
        *(Column(name) for measure in MEASURES for name in (measure, f"{measure}, worst")),
        *(Column("rank correlation", 3), Column("time", 2)),
    )
    notes = (
        f"nDCG@10 less int8's, means over the collections, of {', '.join(results.has(REFERENCE, [model]))}; "
        "and that of the worst one",
        f"rank correlation (Spearman) of inclusion with int8's; time of inclusion over {DEPTH}, int8's: 1",
    )
    return Table(f"forms-{model}", f"Forms of token vectors: {model}", columns, tuple(rows), notes=notes)


def collections_table(results: Results) -> Table:
    """The usual form on each collection, with int8's values."""
    rows: list[tuple[Cell, ...]] = []
    for model in results.models:
        for name in results.has(results.usual(model), [model]):
            base, row = (results.rows[of, name, model] for of in (REFERENCE, results.usual(model)))
            values = [value for of in MEASURES for value in (getattr(base, of), getattr(row, of))]
            rows.append((model, name, row.form, *values, base.packed, row.packed))
    columns = (
        *(Column("model"), Column("collection"), Column("form")),
        *(Column(name) for of in MEASURES for name in (f"{of}, int8", of)),
        *(Column("bytes, int8", 0), Column("bytes", 0)),
    )
    return Table("token-collections", "The usual form, beside int8", columns, tuple(rows), keys=2)


def left_out_table(results: Results, name: str, models: Sequence[str]) -> Table:
    """For each collection the small form that all others would choose, and what it gives there."""
    rows: list[tuple[Cell, ...]] = []
    names = results.has(REFERENCE, models)
    for left in names:
        form = results.chosen([other for other in names if other != left], models)
        rows.append((left, form, *(results.mean(form, of, [left], models) for of in MEASURES)))
    means = np.array([row[2:] for row in rows], float).mean(axis=0).tolist()
    rows.append(("mean", "", *means))
    chosen = {"none": results.chosen(names, models), "the default": results.usual(models[0])}
    for label, form in ((label, form) for label, form in chosen.items() if form in results.forms(models)):
        rows.append((label, form, *(results.mean(form, of, names, models) for of in MEASURES)))
    columns = (Column("left out"), Column("chosen on the others"), *(Column(of) for of in MEASURES))
    worth = {form: results.worth(form, names, models) for form in results.small(models)}
    notes = (
        "nDCG@10 less int8's, mean over the models; chosen by the mean of fusion and auto",
        f"of forms of at most {LIMIT} bytes in base64 for 240 tokens, with that mean over all collections: "
        + "; ".join(f"{form} ({value:+.4f})" for form, value in worth.items()),
    )
    title = f"The form, each collection left out once: {', '.join(models)}"
    return Table(f"token-choice-{name}", title, columns, tuple(rows), notes=notes)


def kept_table(results: Results, base: str, models: Sequence[str]) -> Table:
    """What leaving tokens out before they are merged gives, on the collections that all have."""
    form = results.usual(base)
    names = [name for name in results.has(form, [base, *models]) if name in results.has(REFERENCE, models)]
    rows: list[tuple[Cell, ...]] = []
    for model in (base, *models):
        for kind in (REFERENCE, form):
            own = [results.rows[kind, name, model] for name in names]
            means = [float(np.mean([getattr(row, of) for row in own])) for of in (*MEASURES, "packed")]
            rows.append((model, kind, *means))
    columns = (*(Column("tokens"), Column("form")), *(Column(of) for of in MEASURES), Column("bytes", 0))
    title = f"Tokens left out: mean nDCG@10 of {', '.join(names)}"
    return Table("token-kept", title, columns, tuple(rows), keys=2)
