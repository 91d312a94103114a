"""What the adapters share: how their classes are made, and what their results say beside the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Self
from uuid import UUID

from surprise_rerank._candidates import Hit, Verdict, verdict_json
from surprise_rerank._errors import refuse_unknown
from surprise_rerank.connectors.attached._collection import Collection
from surprise_rerank.connectors.attached._hosts import attach_store
from surprise_rerank.connectors.attached._settings import PipelineSettings

# Keys of metadata. What a document is about may be called a verdict, too.
PERCENTILE, VERDICT, DUPLICATES, TITLE = "percentile", "rerank_verdict", "duplicates", "title"
OURS = (PERCENTILE, VERDICT, DUPLICATES)
# Of a pool and its passages, which a re-ranker lacks.
_OF_PIPELINES = ("depth", "max_per_document", "context")


class Adapter:
    """A class of a host, which is made of a pipeline or a re-ranker, or of what these are made of.

    `_argument` is what its constructor takes, `_options` are its other options.
    """

    _argument: ClassVar[str]
    _options: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def attach(cls, store: Any, *, embed: Any = None, **options: Any) -> Self:
        """Return an adapter over the collection of a vector store; stored documents are not encoded again.

        `store` is one that `attach_store` takes; `embed` is the model of its vectors, where the store does
        not know it. Options are those of the class; system, min_percentile, diversity and collapse; depth,
        max_per_document and context of a retriever; and more of `Collection.attach`, such as `token_encoder`.
        """
        fields_set = _pop_options(options, cls._options)
        of_pipelines = _OF_PIPELINES if cls._argument == "pipeline" else ()
        ranking = _pop_options(options, ("system", "min_percentile", "diversity", "collapse", *of_pipelines))
        collection = attach_store(store, embed=embed, **options)
        arguments: dict[str, Any] = {cls._argument: cls._build(collection, **ranking), **fields_set}
        return cls(**arguments)

    @classmethod
    def _settings(cls, options: Mapping[str, Any]) -> PipelineSettings:
        """The settings that are among a user's options."""
        names = [setting.name for setting in fields(PipelineSettings)]
        if cls._argument != "pipeline":
            names = [name for name in names if name not in _OF_PIPELINES]
        refuse_unknown(options, [*names, *cls._options, cls._argument], cls.__name__)
        return PipelineSettings(**_pop_options(dict(options), names))

    @classmethod
    def _build(cls, of: PipelineSettings | Collection, **options: Any) -> Any:
        return of.pipeline(**options) if cls._argument == "pipeline" else of.text_reranker(**options)


class LoadedAdapter(Adapter):
    """An adapter whose constructor takes the object alone, so that names need a function of their own."""

    @classmethod
    def load(cls, **options: Any) -> Self:
        """Return an adapter made of names and numbers: options of the class, and those of `PipelineSettings`.

        These are in `attached.settings`: index, system, min_percentile, diversity, ...
        """
        settings, fields_set = cls._settings(options), _pop_options(options, cls._options)
        if "unit" in cls._options:  # whose background a threshold needs
            settings = replace(settings, unit=fields_set.get("unit", "passage"))
        arguments: dict[str, Any] = {cls._argument: cls._build(settings), **fields_set}
        return cls(**arguments)


def _pop_options(options: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Remove the named options from the dictionary, and return them."""
    return {name: options.pop(name) for name in names if name in options}


def verdict_values(verdict: Verdict | None) -> dict[str, Any]:
    """The fields of a verdict, as hosts get them; empty where nobody asked for one."""
    return verdict_json(verdict) or {}


def judgement(percentile: float | None, verdict: Verdict | None) -> dict[str, Any]:
    """What a background says of a line, by the names that it has in all hosts; nothing without one."""
    if percentile is None:
        return {}
    return {PERCENTILE: percentile, **({} if verdict is None else {VERDICT: verdict.status})}


def ranked_metadata(
    metadata: Mapping[str, Any], line: Hit, verdict: Verdict | None, duplicates: Sequence[object]
) -> dict[str, Any]:
    """Return a copy of the metadata, with the judgement of the new score in place of an earlier one.

    `duplicates` are what the host calls the documents that were folded into it.
    """
    kept = {key: value for key, value in metadata.items() if key not in (PERCENTILE, VERDICT)}
    folded = {DUPLICATES: list(duplicates)} if duplicates else {}
    return {**kept, **judgement(line.percentile, verdict), **folded}


def found_metadata(hit: Hit, verdict: Verdict | None, page_key: str = "") -> dict[str, Any]:
    """Return the metadata of a hit: those of its document, its title, its place, and its judgement.

    `page_key` is what the host's own readers of PDFs call the number of a page, counted from 1.
    """
    title = {TITLE: hit.title} if hit.title else {}
    folded = {DUPLICATES: list(hit.duplicates)} if hit.duplicates else {}
    place, path = hit.place, hit.metadata.get("path")
    values: dict[str, Any] = {}
    if place is not None:
        values = {"citation": hit.citation, "heading": place.heading, "file_path": path}
        if place.page is not None:
            values |= {page_key: place.page, "page_label": place.label or str(place.page)}
    placed = {key: value for key, value in values.items() if key and value}
    return {**title, **placed, **hit.metadata, **judgement(hit.percentile, verdict), **folded}


def stored_names(*ids: object) -> tuple[str, ...] | None:
    """What a document may be stored under, of the ids that a host has for it, the best first; None for none.

    Ids of other kinds, such as row numbers, are none of an index; a UUID is as it is written.
    """
    texts = (str(name) for name in ids if isinstance(name, str | UUID))
    return tuple(dict.fromkeys(name for name in texts if name)) or None
