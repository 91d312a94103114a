"""The one form of a study: data, models, what is measured of them, their tables, and the report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.eval.reports.report import Cell, Column, Plot, Report, Series, Table

Key: TypeAlias = tuple[str | int, ...]


class Shown(NamedTuple):
    """A measure in a table: heading, digits, which value is marked, and whether with its deviation."""

    measure: str
    digits: int = 4
    best: Literal["max", "min", ""] = ""
    spread: bool = False


class Measurements:
    """Values of measures by a key, whose parts have headings; one value for each repeat."""

    def __init__(self, *headings: str) -> None:
        self._headings = headings
        self._values: dict[Key, dict[str, list[float]]] = {}

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def add(self, key: Key, values: Mapping[str, float | None]) -> None:
        """Add a repeat's values, by the headings of the measures; None where one is not defined."""
        measured = self._values.setdefault(key, {})
        for measure, value in values.items():
            if value is not None:
                measured.setdefault(measure, []).append(float(value))

    def values(self, key: Key, measure: str) -> Float64Array:
        """(r,) the values of r repeats."""
        return np.array(self._values[key].get(measure, ()))

    def mean(self, key: Key, measure: str) -> float | None:
        """The mean over the repeats; None without any."""
        values = self.values(key, measure)
        return float(values.mean()) if len(values) else None

    def table(
        self,
        name: str,
        title: str,
        shown: Sequence[Shown],
        notes: Sequence[str] = (),
        *,
        detail: bool = False,
    ) -> Table:
        """A row for each key: means, and behind those that ask for it deviations where there are repeats."""
        repeated = any(len(repeats) > 1 for values in self._values.values() for repeats in values.values())
        columns = [Column(heading) for heading in self._headings]
        rows: list[list[Cell]] = [[*key] for key in self]
        for measure, digits, best, spread in shown:
            columns.append(Column(measure, digits, best))
            if spread and repeated:
                columns.append(Column(f"{measure} dev.", digits))
            for key, cells in zip(self, rows, strict=True):
                cells.append(self.mean(key, measure))
                if spread and repeated:
                    values = self.values(key, measure)  # a sample of what could have come out
                    cells.append(float(values.std(ddof=1)) if len(values) > 1 else None)
        keys = len(self._headings)
        return Table(name, title, tuple(columns), tuple(map(tuple, rows)), keys, tuple(notes), detail=detail)

    def crossed(
        self, name: str, title: str, measure: str, digits: int, notes: Sequence[str] = ()
    ) -> Table | None:
        """A row for each key without its last part, whose values are the columns, and their mean; or None."""
        measured = [key for key in self if self.mean(key, measure) is not None]
        if not measured:
            return None
        across = list(dict.fromkeys(key[-1] for key in measured))
        rows = []
        for start in dict.fromkeys(key[:-1] for key in measured):
            means = [self.mean((*start, last), measure) for last in across]
            rows.append((*start, *means, float(np.mean([mean for mean in means if mean is not None]))))
        headings = (*map(Column, self._headings[:-1]),)
        columns = (*headings, *(Column(str(last), digits, "max") for last in (*across, "mean")))
        return Table(name, title, columns, tuple(rows), len(headings), tuple(notes))

    def plot(
        self, kind: Literal["line", "bars"], title: str, measure: str, *, log_x: bool = False, note: str = ""
    ) -> Plot:
        """Means, a series for each value of the other parts of the key.

        Of bars the key's last part is along x, of lines the one before it; lines lead from the worst repeat
        to the best.
        """
        along = len(self._headings) - (1 if kind == "bars" else 2)
        groups: dict[str, list[Key]] = {}
        fixed = [i for i in range(len(self._headings)) if i != along and len({key[i] for key in self}) > 1]
        for key in self:
            if len(self.values(key, measure)):
                groups.setdefault(", ".join(str(key[i]) for i in fixed) or measure, []).append(key)
        series = []
        for name, keys in groups.items():
            repeats = [self.values(key, measure) for key in keys]
            x: Any = tuple((str if kind == "bars" else float)(key[along]) for key in keys)
            ends = [tuple(float(end(values)) for values in repeats) for end in (np.min, np.max)]
            low, high = ends if max(map(len, repeats)) > 1 else ((), ())
            series.append(Series(name, x, tuple(float(values.mean()) for values in repeats), low, high))
        return Plot(kind, title, self._headings[along], measure, tuple(series), note=note, log_x=log_x)

    def facts(self) -> list[dict[str, Any]]:
        """Every value, as JSON values."""
        return [
            {**dict(zip(self._headings, key, strict=True)), **values} for key, values in self._values.items()
        ]


Settings = TypeVar("Settings")
Data = TypeVar("Data")
Model = TypeVar("Model")


class Study(ABC, Generic[Settings, Data, Model]):
    """A benchmark: data are read, model after model is measured, and a report shows all.

    Attributes:
        keys: headings of the parts of a measurement's key.
        data: what `read` gives, or what was given in its place.
        remarks: notes that measuring gives, once each.
    """

    keys: ClassVar[tuple[str, ...]] = ("model", "similarity")

    def __init__(self, settings: Settings, terminal: Terminal, data: Data | None = None) -> None:
        self.settings, self.terminal = settings, terminal
        self.prepare()
        self.data = self.read() if data is None else data
        self.measurements = Measurements(*self.keys)
        self.remarks: dict[str, None] = {}

    @property
    @abstractmethod
    def title(self) -> str:
        """The report's title."""

    def prepare(self) -> None:
        """Refuse settings before the data are read, and begin with nothing measured."""

    @abstractmethod
    def read(self) -> Data:
        """Read the data, and refuse settings that do not fit them."""

    def load(self, name: str) -> Model:
        """Load a model of the settings."""
        raise NotImplementedError

    def models(self) -> Iterator[Model]:
        """The models of the settings, each loaded when it is its turn."""
        names = list(dict.fromkeys(self.settings.models))  # type: ignore[attr-defined]
        border.some("models", names, "name one")
        shown = [Path(name).name for name in names]
        border.distinct("names of models", shown, "give each once, or rename a file")
        for name in names:
            with self.terminal.bar(f"loading {name}"):
                model = self.load(name)
            yield model

    @abstractmethod
    def measure(self, model: Model) -> None:
        """Add what is measured of a model."""

    @abstractmethod
    def tables(self) -> Iterable[Table]:
        """The report's tables."""

    def plots(self) -> Iterable[Plot]:
        """The report's pictures."""
        return ()

    def notes(self) -> Iterable[str]:
        """What a reader must know of all tables, before the remarks."""
        return ()

    def facts(self) -> Mapping[str, Any]:
        """Settings and whatever else programs want to know."""
        return {}

    def leave_out(self, note: str) -> None:
        """Remark that something cannot be measured, at once on the terminal, too."""
        self.remarks[note] = None
        self.terminal.say(note)

    def report(self, models: Iterable[Model] | None = None) -> Report:
        """Measure all models, and return the report."""
        for model in self.models() if models is None else models:
            self.measure(model)
        tables, plots = tuple(self.tables()), tuple(self.plots())
        return Report(self.title, tables, plots, (*self.notes(), *self.remarks), self.facts())
