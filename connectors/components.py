"""What the adapters share: how their classes are made, and what their results say beside the score."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Generic, Self, TypeVar
from uuid import UUID

from surprise_rerank.candidates import Hit, Verdict, verdict_json
from surprise_rerank.connectors.attached.attach import Collection
from surprise_rerank.connectors.attached.hosts import attach_store
from surprise_rerank.connectors.attached.settings import PipelineSettings
from surprise_rerank.connectors.qdrant.location import shown_url
from surprise_rerank.errors import DataError, refuse_unknown

T = TypeVar("T")

# Keys of metadata. What a document is about may be called a verdict, too.
SURPRISE, VERDICT, DUPLICATES, TITLE = "surprise", "surprise_verdict", "duplicates", "title"
OURS = (SURPRISE, VERDICT, DUPLICATES)

_LEAST = "min_surprise"
# One load at a time: whoever waits for one finds what it loaded.
_loading = threading.Lock()


class Adapter:
    """A class of a host, which is made of a pipeline or a re-ranker, or of what these are made of.

    `_takes` is what its constructor takes, `_own` are its other options, `_alias` is the host's name for
    min_surprise.
    """

    _takes: ClassVar[str]
    _own: ClassVar[tuple[str, ...]] = ()
    _alias: ClassVar[str] = _LEAST

    @classmethod
    def attach(cls, store: Any, *, embed: Any = None, **options: Any) -> Self:
        """One over the collection of the host's vector store, as it is: what is there is not encoded again.

        Args:
            store: over Qdrant, or what else `attach_store` takes.
            embed: the model of its vectors, where the store has none.
            options: the class's own; system, min_surprise, diversity, mmr, collapse, and of what retrieves
                depth; and more for `Collection.attach`, such as `token_encoder`.
        """
        given = cls._one_threshold(options)
        own = _taken(given, cls._own)
        names = ("system", _LEAST, "diversity", "mmr", "collapse", *(["depth"] * (cls._takes == "pipeline")))
        ranking = _taken(given, names)
        collection = attach_store(store, embed=embed, **given)
        return cls._of(_made(collection, cls._takes, **ranking), own)

    @classmethod
    def _of(cls, made: Any, own: Mapping[str, Any]) -> Self:
        arguments: dict[str, Any] = {cls._takes: made, **own}
        return cls(**arguments)

    @classmethod
    def _settings(cls, options: Mapping[str, Any]) -> PipelineSettings:
        """The settings that are among a user's options."""
        given = cls._one_threshold(options)
        names = [own.name for own in fields(PipelineSettings)]
        if cls._takes != "pipeline":
            names.remove("depth")  # of a pool that a re-ranker does not make
        refuse_unknown(given, [*names, *cls._own, cls._takes, cls._alias], cls.__name__)
        return PipelineSettings(**_taken(given, names))

    @classmethod
    def _one_threshold(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """A copy with the threshold by our name."""
        given = dict(options)
        alias = given.pop(cls._alias, None) if cls._alias != _LEAST else None
        if alias is not None:
            if given.get(_LEAST) is not None:
                raise DataError(
                    f"min_surprise={given[_LEAST]!r} and {cls._alias}={alias!r} are both given, and mean the "
                    "same; give one"
                )
            given[_LEAST] = alias
        return given


class LoadedAdapter(Adapter):
    """An adapter whose constructor takes the object alone, so that names need a function of their own."""

    @classmethod
    def load(cls, **options: Any) -> Self:
        """One made of names and numbers.

        Args:
            options: the class's own; and those of `attached.settings.PipelineSettings`: index or url, system,
                min_surprise, diversity, ...
        """
        own = _taken(dict(options), cls._own)
        return cls._of(_made(cls._settings(options), cls._takes), own)


class Source(Generic[T]):
    """A pipeline or a re-ranker: given, or made of names when it is first asked for. Threads may share it.

    A copy, deep or not, shares what was loaded or given: models and open indexes cannot be copied.

    Args:
        of: the class that it is for.
        given: the object itself, where the caller has it.
        names: else the options that it is made of.
    """

    def __init__(self, of: type[Adapter], given: T | None, names: Mapping[str, Any]) -> None:
        self._takes, self._class = of._takes, of.__name__
        self._settings = of._settings(names)
        self._given = self._object = given
        if given is not None and self._settings != PipelineSettings():
            raise DataError(f"both {self._takes}= and names of one are given; give one of the two")
        place = ",".join(self._settings.location.urls)
        if shown_url(place) != place:
            name = "index" if self._settings.url is None else "url"
            raise DataError(
                f"{name}={shown_url(place)!r} came with a password, which would be written with the "
                "component; give a key by the environment variable QDRANT_API_KEY, or what you opened by "
                f"{self._takes}="
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> Source[T]:
        return copy.copy(self)

    def get(self) -> T:
        """The object; raises what loading raises, and loads anew the next time."""
        if self._object is None:
            with _loading:
                if self._object is None:
                    self._object = _made(self._settings, self._takes)
        assert self._object is not None
        return self._object

    def forget(self) -> None:
        """Let go of what was loaded; what was given stays."""
        self._object = self._given

    def names(self) -> dict[str, Any]:
        """The names that it is made of, for a file; without those that are as usual."""
        given = "encoder" if self._settings.encoder is not None else ""
        if self._given is not None:
            given = self._takes
        if given:
            raise DataError(
                f"a {self._class} that was given {given}= cannot be written; make it from names: index or "
                "url and collection, model, system, min_surprise"
            )
        usual, own = PipelineSettings(), self._settings
        values = {field.name: getattr(own, field.name) for field in fields(own)}
        return {name: value for name, value in values.items() if value != getattr(usual, name)}


def _taken(options: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Some of the options, which are no longer among the others."""
    return {name: options.pop(name) for name in names if name in options}


def _made(of: PipelineSettings | Collection, kind: str, **options: Any) -> Any:
    return of.pipeline(**options) if kind == "pipeline" else of.text_reranker(**options)


def told(verdict: Verdict | None) -> dict[str, Any]:
    """The whole verdict as a host hears of it; empty where nobody asked for one."""
    return verdict_json(verdict) or {}


def judgement(surprise: float | None, verdict: Verdict | None) -> dict[str, Any]:
    """What a background says of a line, by the names that it has in all hosts; nothing without a surprise."""
    if surprise is None:
        return {}
    return {SURPRISE: surprise, **({} if verdict is None else {VERDICT: verdict.status})}


def ranked_metadata(
    metadata: Mapping[str, Any], line: Hit, verdict: Verdict | None, duplicates: Sequence[object]
) -> dict[str, Any]:
    """A copy of what was given, with the judgement of the new score in place of an earlier one's.

    Args:
        metadata: of what was ranked.
        line: of the ranking.
        verdict: on the question.
        duplicates: what the host calls the documents that were folded into it.
    """
    kept = {key: value for key, value in metadata.items() if key not in (SURPRISE, VERDICT)}
    folded = {DUPLICATES: list(duplicates)} if duplicates else {}
    return {**kept, **judgement(line.surprise, verdict), **folded}


def found_metadata(hit: Hit, verdict: Verdict | None) -> dict[str, Any]:
    """Of a document that a pipeline has found: its own, its title, and what is ours."""
    title = {TITLE: hit.title} if hit.title else {}
    folded = {DUPLICATES: list(hit.duplicates)} if hit.duplicates else {}
    return {**title, **hit.metadata, **judgement(hit.surprise, verdict), **folded}


def stored_names(*ids: object) -> tuple[str, ...] | None:
    """What a document may be stored under, of the ids that a host has for it, the best first; None for none.

    Ids of other kinds, such as row numbers, are none of an index; a UUID is as it is written.
    """
    known = (str(own) for own in ids if isinstance(own, str | UUID))
    return tuple(dict.fromkeys(name for name in known if name)) or None
