"""Systems that a YAML file describes: what is retrieved, what re-ranks it, and with which parameters.

systems:
  surprise-light:  {rerank: surprise, model: gaussian, weight: 0.2, shrink: 0.5}
  dynamax-tversky: {rerank: dynamax, measure: tversky, universe: joint, alpha: 1, beta: 0.05}
  words-first:     {rerank: dynamax, pool: bm25}
  fusion-by-words: {rerank: fusion, method: surprise, scorers: [bm25, cosine], weights: {bm25: 0.7}}
  fusion-lucene-2: {rerank: fusion, scorers: [bm25-lucene, cosine]}
  auto-no-words:   {rerank: auto, words: 0}
  theirs:          {run: runs/theirs.trec}
  on-theirs:       {rerank: dynamax-idf, pool: runs/theirs.trec}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import yaml

from surprise_rerank.connectors.systems.built import BuiltSystem
from surprise_rerank.connectors.systems.register import SYSTEMS, Need, System
from surprise_rerank.core.files import disk_errors
from surprise_rerank.errors import DataError, DatasetError, did_you_mean
from surprise_rerank.eval.retrieval.pools import POOLS, PoolName, Resources
from surprise_rerank.eval.retrieval.systems import EVALUATED, SCORERS, build, fusion, surprise, with_settings
from surprise_rerank.eval.retrieval.trec import ExternalRun, Run, read_run
from surprise_rerank.rerank.auto import AutoSettings
from surprise_rerank.rerank.fusion import FusionMethod
from surprise_rerank.rerank.rerankers import DynaMaxReranker
from surprise_rerank.similarities.dynamax import DynaMax, Measure, Universe
from surprise_rerank.surprise.score import SurpriseModel

_LARGEST = 1e300  # a whole number of YAML can be larger than any float
_PARAMETERS = {
    "surprise": ("model", "weight", "shrink"),
    "dynamax": ("measure", "universe", "alpha", "beta", "unit_tokens"),
    "fusion": ("method", "scorers", "weights"),
    "auto": tuple(setting.name for setting in fields(AutoSettings)),
}


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Run files by their names, read for one data set.

    Attributes:
        folder: that relative paths start from.
        dataset: the data set's short name, which stands where a path says `{dataset}`.
        queries: ids of its questions.
        documents: ids of its documents.
    """

    folder: Path
    dataset: str
    queries: tuple[str, ...]
    documents: tuple[str, ...]

    def read(self, name: str) -> Run:
        """A run with the data set's ids.

        Raises:
            DatasetError: if there is no such file, or it ranks none of the data set's questions.
            DataError: if it is malformed.
        """
        path = run_path(self.folder, name, self.dataset)
        if not path.is_file():
            raise DatasetError(f"there is no run file {path}")
        run = read_run(path).named(self.queries, self.documents)
        if not run.rankings.keys() & set(self.queries):
            raise DatasetError(
                f"{path} ranks none of the {len(self.queries)} questions, such as {self.queries[0]!r}; "
                f"its first is {next(iter(run.rankings))!r}: is it of another data set?"
            )
        return run


@dataclass(frozen=True, slots=True)
class Description:
    """One entry of the file.

    Attributes:
        place: file and name, for errors.
        name: of the system.
        values: its keys and values.
        runs: finds run files.
    """

    place: str
    name: str
    values: Mapping[str, Any]
    runs: RunFiles

    def system(self) -> System | ExternalRun:
        """The system that it describes.

        Raises:
            SurpriseRerankError: if a key or a value is not known, or a run file cannot be read.
        """
        if "run" in self.values:
            self._only("run")
            return ExternalRun(self._run("run"))
        base = self._choice(
            "rerank", (*_PARAMETERS, *(name for name in {**SYSTEMS, **EVALUATED} if name not in _PARAMETERS))
        )
        pool = self.values.get("pool")
        place: PoolName | Run | None = pool if pool in POOLS or pool is None else self._run("pool")
        self._only("rerank", "pool", *_PARAMETERS.get(base, ()))
        makers = {
            "surprise": self._surprise,
            "dynamax": self._dynamax,
            "fusion": self._fusion,
            "auto": self._auto,
        }
        system = makers[base]() if base in makers else {**SYSTEMS, **EVALUATED}[base]
        needs: frozenset[Need] = frozenset()
        if place in ("bm25-lucene", "both-lucene"):
            needs = frozenset({"lucene"})
        elif place in ("bm25", "both"):
            needs = frozenset({"sparse"})
        return replace(
            system,
            name=self.name,
            build=partial(_in_pool, system, place),
            needs=system.needs | needs,
            summary=f"{self.place}: {dict(self.values)}",
        )

    def _run(self, key: str) -> Run:
        try:
            return self.runs.read(str(self.values[key]))
        except DatasetError as error:
            others = f"; a pool is also one of {', '.join(POOLS)}" if key == "pool" else ""
            raise DatasetError(f"{self.place}: {error}{others}") from error

    def _surprise(self) -> System:
        model = self._choice("model", get_args(SurpriseModel), "gaussian")
        weight = self.values.get("weight", "crossover")
        if weight != "crossover":
            weight = self._number("weight", 0, 1)
        shrink = self._number("shrink", 0, 1, 0.0)

        return self._system(partial(surprise, model, weight, shrink))

    def _dynamax(self) -> System:
        unit = self.values.get("unit_tokens", True)
        if not isinstance(unit, bool):
            raise self._wrong(f"unit_tokens is {unit!r}, expected true or false")
        if self.values.get("measure") != "tversky" and {"alpha", "beta"} & self.values.keys():
            raise self._wrong("alpha and beta belong to measure: tversky")
        similarity = DynaMax(
            self._choice("measure", get_args(Measure), "inclusion"),
            self._choice("universe", get_args(Universe), "query"),
            self._number("alpha", 0, default=1.0),
            self._number("beta", 0, default=1.0),
            unit,
        )

        def build(resources: Resources) -> BuiltSystem:
            return BuiltSystem(self.name, resources.retriever("cosine"), DynaMaxReranker(similarity))

        return self._system(build)

    def _fusion(self) -> System:
        method = self._choice("method", get_args(FusionMethod), "surprise")
        scorers = self.values.get("scorers", ["bm25", "cosine", "dynamax"])
        if not isinstance(scorers, list) or not scorers or not set(map(str, scorers)) <= set(SCORERS):
            raise self._wrong(f"scorers is {scorers!r}, expected a list of {', '.join(SCORERS)}")
        if len(set(scorers)) < len(scorers):
            raise self._wrong(f"scorers is {scorers!r}, expected each once")
        if {"bm25", "bm25-lucene"} <= set(scorers):
            raise self._wrong(f"scorers is {scorers!r}, expected one BM25 at most")
        weights = self.values.get("weights", {})
        if not isinstance(weights, dict) or not weights.keys() <= set(scorers):
            raise self._wrong(f"weights is {weights!r}, expected numbers for {', '.join(scorers)}")
        numbers = {name: self._as_number(f"weight of {name}", value) for name, value in weights.items()}
        usual: PoolName = "cosine"
        needs: frozenset[Need] = frozenset()
        if "bm25" in scorers:
            usual, needs = "both", frozenset({"sparse"})
        elif "bm25-lucene" in scorers:
            usual, needs = "both-lucene", frozenset({"lucene"})
        return self._system(partial(fusion, scorers, method, numbers, usual), needs)

    def _auto(self) -> System:
        values = {name: value for name, value in self.values.items() if name not in ("rerank", "pool")}
        if isinstance(values.get("trust"), list):
            values["trust"] = tuple(values["trust"])  # YAML has lists only
        rarity = values.get("rarity", True)
        if not isinstance(rarity, bool):
            raise self._wrong(f"rarity is {rarity!r}, expected true or false")
        try:
            settings = AutoSettings(**values)
        except DataError as error:
            raise self._wrong(str(error)) from error
        return self._system(partial(with_settings, settings))

    def _system(
        self, build: Callable[[Resources], BuiltSystem], needs: frozenset[Need] = frozenset()
    ) -> System:
        return System(name=self.name, summary="", build=build, needs=needs)

    def _only(self, *known: str) -> None:
        for key in self.values:
            if key not in known:
                hint = did_you_mean(key, known)
                raise self._wrong(f"unknown key {key!r}; {hint}there are {', '.join(known)}")

    def _choice(self, key: str, choices: tuple[str, ...], default: str | None = None) -> Any:
        value = self.values.get(key, default)
        if value not in choices:
            hint = did_you_mean(str(value), choices)
            given = f"{key} is {value!r}" if key in self.values else f"no {key} (and no run) is given"
            raise self._wrong(f"{given}; {hint}choose one of {', '.join(choices)}")
        return value

    def _number(
        self, key: str, low: float, high: float = float("inf"), default: float | None = None
    ) -> float:
        return self._as_number(key, self.values.get(key, default), low, high)

    def _as_number(
        self, key: str, value: Any, low: float = -float("inf"), high: float = float("inf")
    ) -> float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not low <= value <= high or not abs(value) < _LARGEST:
            span = f" from {low:g} to {high:g}" if abs(low) + abs(high) < float("inf") else ""
            raise self._wrong(f"{key} is {value!r}, expected a number{span or f', at least {low:g}'}")
        return float(value)

    def _wrong(self, what: str) -> DataError:
        return DataError(f"{self.place}: {what}")


def read_systems(path: Path, runs: Callable[[Path], RunFiles]) -> dict[str, System | ExternalRun]:
    """The systems that a YAML file describes, by name.

    Args:
        path: of the file.
        runs: finds run files, given the folder that relative paths start from.

    Raises:
        DatasetError: if there is no such file.
        DataError: if it is not YAML, or describes something unknown; names file, system and key.
    """
    return {
        name: Description(f"{path}, {name}", name, values, runs(path.parent)).system()
        for name, values in _entries(path).items()
    }


def run_path(folder: Path, name: str, dataset: str) -> Path:
    """Where a run lies.

    Args:
        folder: that a relative path starts from.
        name: its path; `{dataset}` in it stands for the data set, `~` for the user's folder.
        dataset: the data set's short name.
    """
    return folder / Path(name.replace("{dataset}", dataset)).expanduser()


def run_names(path: Path) -> tuple[str, ...]:
    """The run files that a file of systems names, as it names them.

    Raises:
        DatasetError: if there is no such file.
        DataError: if it holds no systems.
    """
    named = [values.get(key) for values in _entries(path).values() for key in ("run", "pool")]
    return tuple(str(name) for name in named if name is not None and name not in POOLS)


def split_run(given: str) -> tuple[str, str]:
    """What `--run` names: a name, which may be empty, and a file.

    >>> split_run("theirs=runs/theirs.trec"), split_run("runs/k1=0.9.trec")
    (('theirs', 'runs/theirs.trec'), ('', 'runs/k1=0.9.trec'))
    """
    name, separator, file = given.partition("=")
    return (name, file) if separator and "/" not in name and not Path(given).is_file() else ("", given)


class _Loader(yaml.SafeLoader):
    """YAML without code, in which no key may come twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping.

        Raises:
            ConstructorError: if a key comes twice.
        """
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"{twice!r} comes twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _in_pool(system: System, pool: PoolName | Run | None, resources: Resources) -> BuiltSystem:
    return build(system, resources if pool is None else replace(resources, pool=pool))


def _entries(path: Path) -> dict[str, dict[str, Any]]:
    if not path.is_file():
        raise DatasetError(f"there is no file {path} of systems")
    with disk_errors(str(path)):
        try:
            content = yaml.load(path.read_bytes(), _Loader)  # a SafeLoader
        except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
            raise DataError(f"{path} is not YAML: {' '.join(str(error).split())[:200]}") from error
    systems = content.get("systems") if isinstance(content, dict) else None
    if not isinstance(systems, dict) or not systems:
        raise DataError(f"{path}: expected a mapping `systems:` of names to descriptions")
    for name, values in systems.items():
        if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
            raise DataError(f"{path}, {name}: expected keys and values, got {str(values)[:60]!r}")
        check_name(str(path), name)
    return {str(name): values for name, values in systems.items()}


def check_name(place: str, name: object) -> None:
    """Refuse a name for a system that could be no file's, or is another system's.

    Raises:
        DataError: if it is; begins with the place.
    """
    if name in SYSTEMS or name in EVALUATED:
        raise DataError(f"{place}: the name {name!r} cannot be used; a system of that name is built in")
    if not isinstance(name, str) or not name.strip() or any(c in name for c in "/\\\n\r\0"):
        raise DataError(f"{place}: the name {name!r} cannot be used; a name is a text without slashes")
