"""The chunks that come before and after a chunk, where the payloads of a collection tell which these are.

LlamaIndex links nodes. Haystack numbers the parts of a document, LangChain notes where each begins in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from qdrant_client import models

from surprise_rerank._documents import Document
from surprise_rerank.connectors.qdrant._payloads import NODE, Payload, PayloadLayout, node_of
from surprise_rerank.connectors.qdrant._schema import given_point_id
from surprise_rerank.connectors.qdrant._search.pools import Pools
from surprise_rerank.rerank._grouping import TextsAround, parent_of

# LlamaIndex' numbers of the links to the node before and to the one after.
_LINKS = ("2", "3")
# Keys of the number of a chunk among those of its document, and of the offset of its first letter.
_NUMBERS, _OFFSET = ("split_id", "chunk_index", "chunk_number", "chunk"), "start_index"
_PARENTS = ("parent", "ref_doc_id", "source_id", "source", "page")


class _Place(NamedTuple):
    """The place of a chunk: keys and values of its document, and the key and value of its position."""

    parent: tuple[tuple[str, str | int], ...]
    key: str
    value: int


def texts_around(pools: Pools, documents: Mapping[str, Document], count: int) -> dict[str, TextsAround]:
    """Return the texts of `count` chunks before and after each chunk, by its id, in the order of reading.

    Ids of documents without neighbours, or whose payload tells of none, are left out.
    """
    read = _linked if NODE in pools.payloads.texts else _numbered
    around = read(pools, documents, count)
    return {name: texts for name, texts in around.items() if any(texts)}


def _linked(pools: Pools, documents: Mapping[str, Document], count: int) -> dict[str, TextsAround]:
    """Follow the links between LlamaIndex' nodes, one step with each request."""
    texts: dict[str, tuple[list[str], list[str]]] = {name: ([], []) for name in documents}
    points = pools.keys(list(documents))
    reached = {(name, side): point for name, point in points.items() for side in (0, 1)}
    payloads = _payloads(pools, list(points.values()))
    for _ in range(count):
        reached = {
            (name, side): linked
            for (name, side), point in reached.items()
            if point in payloads and (linked := _link(payloads[point], _LINKS[side]))
        }
        payloads = _payloads(pools, list(reached.values()))
        for (name, side), point in reached.items():
            if point in payloads:
                texts[name][side].append(pools.payloads.document(point, payloads[point]).text)
    return {name: TextsAround(before[::-1], after) for name, (before, after) in texts.items()}


def _payloads(pools: Pools, points: Sequence[str]) -> dict[str, Payload]:
    ids = [given_point_id(point) for point in dict.fromkeys(points)]
    records = pools.points.retrieve(ids, pools.payloads.text_fields()) if ids else []
    return {record.id: record.payload for record in records}


def _link(payload: Payload, number: str) -> str | None:
    """The id of the node that a node's JSON links to; None where it is the first or the last."""
    try:
        related = node_of(payload)["relationships"][number]["node_id"]
    except (KeyError, TypeError):
        return None
    return related if isinstance(related, str) else None


def _numbered(pools: Pools, documents: Mapping[str, Document], count: int) -> dict[str, TextsAround]:
    """Find neighbours by the numbers or offsets that chunks have in their document, in one request."""
    places = {name: place for name, document in documents.items() if (place := _place(document))}
    longest = max((len(documents[name].text) for name in places), default=0)
    conditions = []
    for place in places.values():
        width = count * (2 * longest if place.key == _OFFSET else 1)
        near = models.Range(gte=place.value - width, lte=place.value + width)
        of_parent = [_condition(pools.payloads, key, models.MatchValue(value=v)) for key, v in place.parent]
        conditions.append(models.Filter(must=[*of_parent, _condition(pools.payloads, place.key, near)]))
    chunks: dict[tuple[object, str], dict[int, str]] = defaultdict(dict)
    pages = pools.points.scroll(None, condition=models.Filter(should=[*conditions])) if conditions else ()
    for record in (record for page in pages for record in page):
        document = pools.payloads.document(record.id, record.payload)
        if place := _place(document):
            chunks[place.parent, place.key][place.value] = document.text
    around = {}
    for name, place in places.items():
        texts = chunks[place.parent, place.key]
        before = sorted(number for number in texts if number < place.value)[-count:]
        after = sorted(number for number in texts if number > place.value)[:count]
        around[name] = TextsAround([texts[n] for n in before], [texts[n] for n in after])
    return around


def _condition(layout: PayloadLayout, key: str, test: Any) -> models.FieldCondition:
    kind = "range" if isinstance(test, models.Range) else "match"
    return models.FieldCondition(key=f"{layout.metadata}.{key}" if layout.metadata else key, **{kind: test})


def _place(document: Document) -> _Place | None:
    """Where a chunk stands, by its metadata; None where they do not tell."""
    values = document.metadata
    key = next((name for name in (*_NUMBERS, _OFFSET) if _is_number(values.get(name))), None)
    if key is None or not parent_of(document, ""):
        return None
    # Parts that are numbered go on over pages; offsets are those in the page that a loader gave.
    names = [name for name in _PARENTS if name != "page" or key == _OFFSET]
    named = ((name, values[name]) for name in names if name in values)
    parent = tuple((n, v) for n, v in named if isinstance(v, str) or _is_number(v))
    return _Place(parent, key, values[key])


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
