"""The register of systems: what each is called, what it needs, what it does, and how it is built.

`surprise-rerank`, `rerank-eval`, the server, the adapters and `explain` read it: one name means one thing.
The module is light: a builder that is a path is imported when its system is built.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError

if TYPE_CHECKING:
    from surprise_rerank.connectors.systems._inputs import BuiltSystem

# What a system reads: a collection's vectors, and the ensemble that was set for an index; Lucene's BM25, and
# judged questions of another split, which an evaluation has.
Need: TypeAlias = Literal["dense", "tokens", "sparse", "ensemble", "lucene", "judgements"]
# By what a system finds documents, as retrieval models are classified.
Kind: TypeAlias = Literal["dense", "sparse", "late-interaction", "hybrid"]

# Other packages offer systems by entry points of this group, whose value is a `System`.
ENTRY_POINTS = "surprise_rerank.systems"


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A way to rank documents, by name.

    `build` makes it of `SystemInputs`; that of an evaluation alone gets the `Resources` of that.
    """

    name: str  # what it is asked for by
    summary: str  # what it does, in one line
    build: Callable[[Any], BuiltSystem] | str  # a function, or its path `module:function`
    kind: Kind = "dense"
    needs: frozenset[Need] = frozenset()  # what it cannot do without
    uses: frozenset[Need] = frozenset()  # what it does without where that is not there
    first_stage: tuple[str, ...] = ()  # the scorers that make its pool, where another one orders it
    modes: tuple[str, ...] = ()  # the places where its scores can be computed
    # Whether it reads vectors of the question; the command line loads no model for a system of words alone.
    encodes: bool = True
    fits: bool = False  # whether its weights can be fitted on judged questions and stored beside an index
    ranks_texts: bool = True  # whether it can rank texts that another system retrieved
    # Path of a re-ranker without arguments that ranks texts without any index. Of a system that `fits`, what
    # the index knows of the corpus replaces it.
    text_reranker: str = ""
    module: str = ""  # an optional module that it cannot do without
    extra: str = ""  # the extra of this package that installs the module

    def __post_init__(self) -> None:
        border.choices(f"needs of {self.name!r}", sorted(self.needs | self.uses), get_args(Need))
        if not self.name.strip() or any(c in self.name for c in "/\\\n\r\0,"):
            raise DataError(f"the name {self.name!r} cannot be used; give a text without slashes and commas")

    @property
    def reads_tokens(self) -> bool:
        """Whether it compares token vectors."""
        return self.kind in ("late-interaction", "hybrid")

    def require_mode(self, mode: str | None) -> None:
        """Refuse a place where its scores cannot be computed."""
        if mode is None or mode in self.modes:
            return
        if not self.modes:
            others = ", ".join(other.name for other in SYSTEMS.values() if mode in other.modes)
            raise DataError(
                f"mode {mode!r} is where scores are computed, and {self.name!r} has one place only; leave it "
                f"out, or choose one of {others or 'the systems that have several'}"
            )
        able = ", ".join(self.modes)
        raise DataError(f"{self.name!r} has no mode {mode!r}; choose one of {able}, or leave it out")

    def built(self, inputs: Any) -> BuiltSystem:
        """Build the system for a collection; see `build`."""
        make = resolved(self.build) if isinstance(self.build, str) else self.build
        system: BuiltSystem = make(inputs)
        return system


def resolved(path: str) -> Any:
    """The object at `module:name`."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


_BUILDING = "surprise_rerank.connectors.systems._building"

_SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System(
            name="auto",
            summary="pools of cosine and Qdrant's BM25; both and dynamax on one scale, with feedback",
            build=f"{_BUILDING}:auto",
            kind="hybrid",
            needs=frozenset({"dense"}),
            uses=frozenset({"tokens", "sparse"}),
            first_stage=("cosine", "bm25"),
            fits=True,
            text_reranker="surprise_rerank.rerank._auto:auto_of_texts",
        ),
        System(
            name="cosine",
            summary="dense vectors by cosine",
            build=f"{_BUILDING}:cosine",
            needs=frozenset({"dense"}),
            text_reranker="surprise_rerank.rerank._scorers:CosineScorer",
        ),
        System(
            name="surprise",
            summary="cosine's pool by surprise, the document as anchor: z over the ensemble",
            build=f"{_BUILDING}:surprise",
            needs=frozenset({"dense", "ensemble"}),
            first_stage=("cosine",),
            modes=("formula", "vector"),
        ),
        System(
            name="bm25",
            summary="BM25 by Qdrant's sparse vectors (k1 = 1.2, b = .5)",
            build=f"{_BUILDING}:bm25",
            kind="sparse",
            needs=frozenset({"sparse"}),
            encodes=False,
            ranks_texts=False,
        ),
        System(
            name="dynamax",
            summary="cosine's pool by DynaMax inclusion of the query's tokens",
            build=f"{_BUILDING}:dynamax",
            kind="late-interaction",
            needs=frozenset({"tokens"}),
            first_stage=("cosine",),
            text_reranker="surprise_rerank.rerank._scorers:DynaMaxScorer",
        ),
        System(
            name="fusion",
            summary="pools of cosine and Qdrant's BM25; BM25 (weight .5) + cosine + dynamax on one scale",
            build=f"{_BUILDING}:fusion",
            kind="hybrid",
            uses=frozenset({"tokens", "sparse"}),
            first_stage=("cosine", "bm25"),
            fits=True,
        ),
    )
}
SYSTEMS: Mapping[str, System] = MappingProxyType(_SYSTEMS)


def register_system(system: System) -> System:
    """Register a system under its name, for Python, commands and the server, and return it.

    Raises:
        DataError: if the name is taken by another system.
    """
    border.instance("system", system, System)
    if _SYSTEMS.setdefault(system.name, system) != system:
        raise DataError(f"the name {system.name!r} is taken by another system; choose another name")
    return system


def find_systems(
    names: Iterable[str], more: Mapping[str, System] = MappingProxyType({})
) -> dict[str, System]:
    """The systems of these names, other packages' and `more` included.

    Raises:
        DataError: if one is not known; names the nearest.
    """
    systems = {}
    for name in names:
        border.text("system", name)
        if name not in _SYSTEMS and name not in more:
            _load_entry_points()
        available = {**_SYSTEMS, **more}
        systems[name] = available[border.choice("system", name, available)]
    return systems


def all_systems() -> Mapping[str, System]:
    """All systems by name, other packages' included.

    Raises:
        DataError: if one of another package cannot be loaded.
    """
    _load_entry_points()
    return SYSTEMS


def find_system(name: str) -> System:
    """The system of a name; see `find_systems`."""
    return find_systems([name])[name]


@functools.cache
def _load_entry_points() -> None:
    for point in entry_points(group=ENTRY_POINTS):
        try:
            system = point.load()
        except (ImportError, AttributeError) as error:
            raise DataError(
                f"the system {point.name!r} cannot be loaded from {point.value}: {error}"
            ) from error
        register_system(system)
