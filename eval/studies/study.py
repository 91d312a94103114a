"""The one form of a study: data, models, what is measured of them, and the report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.eval.reports.report import Plot, Report, Table
from surprise_rerank.eval.studies.measurements import Measurements

Settings = TypeVar("Settings")
Data = TypeVar("Data")
Model = TypeVar("Model")


class Study(ABC, Generic[Settings, Data, Model]):
    """A benchmark: data are read, model after model is measured, and a report shows all.

    Attributes:
        keys: headings of the parts of a measurement's key.
        settings: what was asked for.
        data: what `read` gives, or what was given in its place.
        measurements: filled by `measure`.
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

    @abstractmethod
    def models(self) -> Iterator[Model]:
        """The models, each loaded when it is its turn."""

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
