"""Lines that belong together: hits that share a value, and passages of one document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from surprise_rerank import border
from surprise_rerank.candidates import Candidates, Ranking
from surprise_rerank.core.json_values import at
from surprise_rerank.documents import Document, Passage

NO_PARENTS: Mapping[str, str] = MappingProxyType({})
_METADATA = "metadata."
# Keys of metadata that tell what a chunk is of.
_PARENTS = ("parent", "ref_doc_id", "source_id")


def group_path(path: str) -> str:
    """Where the value is in the metadata: `metadata.author`, or `author` alone, with dots into objects.

    Raises:
        DataError: if it names nothing.
    """
    return border.key("group_by", border.text("group_by", path).removeprefix(_METADATA), "metadata.author")


def grouped(
    metadata: Iterable[Mapping[str, Any]], path: str, limit: int, size: int
) -> dict[str | int, list[int]]:
    """The first groups of hits that share a value, with the places of its best hits; the best orders them.

    As in Qdrant, a hit with a list of values is in the group of each, and one without a string or an integer
    is in none.

    Args:
        metadata: of each hit, best first.
        path: of `group_path`.
        limit: number of groups.
        size: most hits of a group.
    """
    groups: dict[str | int, list[int]] = {}
    for place, values in enumerate(metadata):
        value = at(values, path)
        members = value if isinstance(value, list) else [value]
        names = (v for v in members if isinstance(v, str | int) and not isinstance(v, bool))
        for name in dict.fromkeys(names):
            places = groups.setdefault(name, [])
            if len(places) < size:
                places.append(place)
    return dict(list(groups.items())[:limit])


def merged_neighbours(ranking: Ranking) -> Ranking:
    """A ranking of passages whose lines share no sentence; one of documents as it is.

    Neighbours share sentences by construction. The better one keeps its place, its score and its number, and
    has the text of both. Only passages that overlap with it are taken in, at most one on each side, so that a
    chapter does not become one line.
    """
    passages = ranking.passages
    if passages is None or ranking.unit == "document":
        return ranking
    heads: dict[str, list[int]] = {}  # document -> its lines that stay
    stretches: dict[int, tuple[int, int]] = {}
    for row, (name, passage) in enumerate(zip(ranking.ids, passages, strict=True)):
        lines = heads.setdefault(name, [])
        head = next((line for line in lines if _overlap(passages[line], passage)), None)
        if head is None:
            lines.append(row)
            stretches[row] = passage.start, passage.end
        else:
            start, end = stretches[head]
            stretches[head] = min(start, passage.start), max(end, passage.end)
    whole = []
    for row, (start, end) in stretches.items():
        # What is taken in ends where another line begins.
        others = [passages[line] for line in heads[ranking.ids[row]] if line != row]
        start = max([start, *(p.end for p in others if p.end <= passages[row].start)])
        end = min([end, *(p.start for p in others if p.start >= passages[row].end)])
        whole.append(replace(passages[row], start=start, end=end))
    return replace(ranking.take(list(stretches)), passages=tuple(whole))


def parent_of(document: Document, name: str) -> str:
    """The id of what a document is a chunk of, where its metadata have one, or else the name that it has.

    Users write `parent`, LlamaIndex `ref_doc_id`, Haystack `source_id`, and LangChain `source` beside the
    page or the offset of a chunk.
    """
    metadata = document.metadata
    is_chunk = "page" in metadata or "start_index" in metadata
    values = (metadata.get(name) for name in (*_PARENTS, *["source"] * is_chunk))
    return next((value for value in values if isinstance(value, str) and value), name)


def at_most_of_each(ranking: Ranking, most: int, parents: Mapping[str, str] = NO_PARENTS) -> Ranking:
    """The lines of a ranking without those of documents that `most` better lines are of already.

    `parents` are by id, where documents are chunks of others.
    """
    counts: Counter[str] = Counter()
    kept = []
    for row, name in enumerate(ranking.ids):
        parent = parents.get(name, name)
        counts[parent] += 1
        if counts[parent] <= most:
            kept.append(row)
    return ranking.take(kept)


def with_neighbours(ranking: Ranking, stored: Candidates, count: int) -> Ranking:
    """The lines with the text of so many neighbours on each side, of all passages of their documents."""
    assert ranking.passages is not None
    by_document: dict[str, list[Passage]] = {}
    for name, passage in zip(stored.ids, stored.passages or (), strict=True):
        by_document.setdefault(name, []).append(passage)
    widened = []
    for name, passage in zip(ranking.ids, ranking.passages, strict=True):
        others = sorted(by_document.get(name, ()), key=lambda other: other.number)
        # Passages of which most is in the line: those that begin or end it overlap with it, too.
        inside = [
            row
            for row, other in enumerate(others)
            if _overlap(other, passage)
            and 2 * (min(other.end, passage.end) - max(other.start, passage.start)) > other.end - other.start
        ]
        if inside:
            near = others[max(inside[0] - count, 0) : inside[-1] + count + 1]
            start, end = min(passage.start, near[0].start), max(passage.end, near[-1].end)
            passage = replace(passage, start=start, end=end)
        widened.append(passage)
    return replace(ranking, passages=tuple(widened))


def _overlap(one: Passage, other: Passage) -> bool:
    return one.start < other.end and other.start < one.end
