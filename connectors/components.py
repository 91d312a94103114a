"""What adapters share: components from names, loaded when first used and written to files; their metadata."""

from __future__ import annotations

import asyncio
import copy
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from surprise_rerank.candidates import Hit, Verdict
from surprise_rerank.connectors.attached.attach import Collection
from surprise_rerank.connectors.attached.hosts import attach_store
from surprise_rerank.connectors.attached.settings import PipelineSettings
from surprise_rerank.connectors.qdrant.location import shown_url
from surprise_rerank.errors import DataError, refuse_unknown
from surprise_rerank.rerank.diversity import DiversityOptions

T = TypeVar("T")

# What metadata say beside the score: with a background, and of a line that others were folded into. What a
# document is about may be called a verdict, too.
SURPRISE = "surprise"
VERDICT = "surprise_verdict"
DUPLICATES = "duplicates"
TITLE = "title"
OURS = (SURPRISE, VERDICT, DUPLICATES)

# One load at a time: whoever waits for one finds what it loaded. Of the module, as components are copied.
_loading = threading.Lock()


class Lazy(Generic[T]):
    """What takes seconds to load, loaded when it is first asked for. Threads and tasks may share it.

    A copy, deep or not, shares what was loaded or given: models and open indexes cannot be copied.

    Args:
        load: makes it.
        given: the object itself, where the caller has it.
    """

    def __init__(self, load: Callable[[], T], given: T | None = None) -> None:
        self._load = load
        self._object = given
        self.is_given = given is not None

    def __deepcopy__(self, memo: dict[int, Any]) -> Lazy[T]:
        return copy.copy(self)

    def get(self) -> T:
        """The object; raises what loading raises, and loads anew the next time."""
        found = self._object
        if found is None:
            with _loading:
                found = self._object = self._load() if self._object is None else self._object
        return found

    async def aget(self) -> T:
        """`get`, which loads in a thread while the event loop goes on."""
        found = self._object
        return await asyncio.to_thread(self.get) if found is None else found

    def forget(self) -> None:
        """Let go of what was loaded; what was given stays."""
        if not self.is_given:
            self._object = None


def component_settings(given: object | None, what: str, **names: Any) -> PipelineSettings:
    """The settings of a component, whose names may be written to a file.

    Args:
        given: the object that the caller has instead of names, if any.
        what: the argument that it came by.
        names: the attributes of `PipelineSettings`.

    Raises:
        DataError: if there are both an object and names, both index and url, or a password in the url.
    """
    settings = PipelineSettings(**names)
    if given is not None and settings != PipelineSettings():
        raise DataError(f"both {what}= and names of one are given; give one of the two")
    place = ",".join(settings.location.urls)
    if shown_url(place) != place:
        name = "index" if settings.url is None else "url"
        raise DataError(
            f"{name}={shown_url(place)!r} came with a password, which would be written with the "
            f"component; give a key by the environment variable QDRANT_API_KEY, or what you opened by {what}="
        )
    return settings


def refuse_arguments(of: type, unknown: Mapping[str, Any]) -> None:
    """Refuse what a constructor collected in `unknown`, with the arguments that there are.

    Raises:
        DataError: if there is any.
    """
    # Of the constructor itself: Haystack's metaclass hides it behind a call of any arguments.
    names = inspect.signature(cast(Any, of).__init__).parameters
    known = [name for name in names if name not in ("self", "unknown")]
    refuse_unknown(unknown, known, of.__name__)


def attached(store: Any, embed: Any, settings: Mapping[str, Any]) -> tuple[Collection, DiversityOptions]:
    """The collection of a framework's store, and how different documents of it should be.

    Args:
        store: of the framework.
        embed: the model of its vectors, where the store has none.
        settings: diversity, mmr, collapse, and more for `Collection.attach`.

    Raises:
        SurpriseRerankError: as `attach_store`.
    """
    about = DiversityOptions.__annotations__
    diversity = {name: own for name, own in settings.items() if name in about}
    others = {name: own for name, own in settings.items() if name not in about}
    return attach_store(store, embed=embed, **others), cast(DiversityOptions, diversity)


def least_surprise(min_surprise: float | None, **alias: float | None) -> float | None:
    """The threshold, which may come by the host's name for one.

    Args:
        min_surprise: by our name.
        alias: by the host's.

    Raises:
        DataError: if both are given.
    """
    ((name, value),) = alias.items()
    if min_surprise is not None and value is not None:
        raise DataError(
            f"min_surprise={min_surprise!r} and {name}={value!r} are both given, and mean the same; give one"
        )
    return min_surprise if value is None else value


def judged_metadata(
    metadata: Mapping[str, Any],
    surprise: float | None,
    duplicates: Sequence[object] = (),
    verdict: Verdict | None = None,
) -> dict[str, Any]:
    """A copy with these; without a surprise, an earlier re-ranker's goes too, as it is not of the new score.

    Args:
        metadata: of what was given to be ranked.
        surprise: beside its new score, if any.
        duplicates: what the host calls the documents that were folded into it.
        verdict: on the question, whose status is kept beside a surprise.
    """
    ours: dict[str, Any] = {} if surprise is None else {SURPRISE: surprise}
    if verdict is not None and surprise is not None:
        ours[VERDICT] = verdict.status
    if duplicates:
        ours[DUPLICATES] = list(duplicates)
    return {**{key: value for key, value in metadata.items() if key not in OURS[:2]}, **ours}


def found_metadata(hit: Hit, verdict: Verdict | None) -> dict[str, Any]:
    """Of a document that a pipeline has found: its own, its title, and what is ours."""
    found = dict(hit.metadata)
    if hit.title:
        found.setdefault(TITLE, hit.title)
    if hit.surprise is None:  # a document may have a key of that name
        return judged_metadata(found, found.get(SURPRISE), hit.duplicates)
    return judged_metadata(found, hit.surprise, hit.duplicates, verdict)


def require_writable(
    lazy: Lazy[Any], component: str, what: str, settings: PipelineSettings
) -> dict[str, Any]:
    """The names that stand for a component, for a file.

    Raises:
        DataError: if it was given an object, which no names stand for.
    """
    given = what if lazy.is_given else "encoder" if settings.encoder is not None else ""
    if given:
        raise DataError(
            f"a {component} that was given {given}= cannot be written; make it from names: index or url and "
            "collection, model, system, min_surprise"
        )
    names = asdict(settings)
    del names["encoder"]
    return names


def stored_names(*ids: object) -> tuple[str, ...] | None:
    """What a document may be stored under, of the ids that a host has for it, the best first; None for none.

    Ids of other kinds, such as row numbers, are none of an index; a UUID is as it is written.
    """
    known = (str(own) for own in ids if isinstance(own, str | UUID))
    return tuple(dict.fromkeys(name for name in known if name)) or None


def given_vectors(vectors: Iterable[Any]) -> list[Any] | None:
    """The vectors that documents came with, None for those without; None where none has one."""
    own = list(vectors)
    return own if any(vector is not None for vector in own) else None
