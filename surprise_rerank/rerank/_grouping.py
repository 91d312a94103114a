"""Lines that belong together: hits that share a value, and passages of one document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Ranking
from surprise_rerank._documents import Document, Passage
from surprise_rerank.core._json_values import at

_METADATA = "metadata."
# Keys of metadata that tell what a chunk is of.
_PARENTS = ("parent", "ref_doc_id", "source_id")
_LONG = 5000  # letters of a document that who asks for passages expects to be split
_SHARED = 20  # letters that two chunks hardly have by chance


class TextsAround(NamedTuple):
    """The texts of the chunks before and after one, in the order of reading."""

    before: Sequence[str]
    after: Sequence[str]


def group_path(path: str) -> str:
    """Where the value is in the metadata: `metadata.author`, or `author` alone, with dots into objects.

    Raises:
        DataError: if it names nothing.
    """
    return border.key("group_by", path.removeprefix(_METADATA), "metadata.author")


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
    """Merge passages that share sentences; a ranking of documents is returned unchanged.

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
    shown = {row: (passages[row].start, passages[row].end) for row in stretches}
    for row, (start, end) in stretches.items():
        # What is taken in ends where another line begins.
        others = [shown[line] for line in heads[ranking.ids[row]] if line != row]
        start = max([start, *(last for _, last in others if last <= passages[row].start)])
        end = min([end, *(first for first, _ in others if first >= passages[row].end)])
        shown[row] = start, end
    whole = (replace(passages[row], start=start, end=end) for row, (start, end) in shown.items())
    return replace(ranking.take(list(stretches)), passages=tuple(whole))


def parent_of(document: Document, name: str) -> str:
    """Return the id of the document that a chunk is cut from, by its metadata, or else `name`.

    Users write `parent`, LlamaIndex `ref_doc_id`, Haystack `source_id`, and LangChain `source` beside the
    page or the offset of a chunk.
    """
    metadata = document.metadata
    is_chunk = "page" in metadata or "start_index" in metadata
    values = (metadata.get(name) for name in (*_PARENTS, *["source"] * is_chunk))
    return next((value for value in values if isinstance(value, str) and value), name)


def at_most_of_each(ranking: Ranking, most: int) -> Ranking:
    """The lines of a ranking without those of documents that `most` better lines are of already."""
    counts: Counter[str] = Counter()
    kept = []
    for row, parent in enumerate(_parents(ranking)):
        counts[parent] += 1
        if counts[parent] <= most:
            kept.append(row)
    return ranking.take(kept)


def merged_chunks(ranking: Ranking) -> Ranking:
    """A ranking in which chunks of one document that overlap are merged as passages are; it needs texts.

    Whoever split the document let the end of a chunk be the beginning of the next one. The better one of two
    keeps its place, its id and its metadata, and has the text of both.
    """
    documents = ranking.documents
    if documents is None:
        return ranking
    rows_of: dict[str, list[int]] = {}
    for row, hit in enumerate(ranking):
        # Texts that share a sentence are chunks also where `source` alone tells of what.
        parent = parent_of(documents[row], str(hit.metadata.get("source") or ""))
        if parent and hit.text == documents[row].content:
            rows_of.setdefault(parent, []).append(row)
    ids = [str(row) for row in range(len(ranking))]
    passages = [Passage(row, 0, len(document.text)) for row, document in enumerate(documents)]
    joined: dict[str, str] = {}
    for rows in rows_of.values():
        for chain in _chains({row: documents[row].text for row in rows}):
            head, text = ids[chain[0][0]], ""
            for row, shared in chain:
                start = len(text) - shared
                text += documents[row].text[shared:]
                ids[row], passages[row] = head, Passage(row, start, len(text))
            joined[head] = text
    if not joined:
        return ranking
    lines = merged_neighbours(
        replace(ranking, ids=tuple(ids), passages=tuple(passages), documents=None, unit="passage")
    )
    assert lines.passages is not None
    rows = [passage.number for passage in lines.passages]
    kept = ranking.take(rows)
    texts = [
        replace(documents[row], text=joined[head][passage.start : passage.end], places=())
        if head in joined
        else documents[row]
        for row, head, passage in zip(rows, lines.ids, lines.passages, strict=True)
    ]
    if kept.passages is not None:  # of an index that splits what is longer
        whole = [Passage(0, 0, len(document.content)) for document in texts]
        pairs = zip(lines.ids, whole, kept.passages, strict=True)
        kept = replace(kept, passages=tuple(a if head in joined else b for head, a, b in pairs))
    return replace(kept, documents=tuple(texts))


def _parents(ranking: Ranking) -> list[str]:
    """Return for each line the id of the document that it is a chunk of, or the id of the line."""
    documents = ranking.documents
    return list(ranking.ids) if documents is None else list(map(parent_of, documents, ranking.ids))


def _chains(texts: Mapping[int, str]) -> Iterator[list[tuple[int, int]]]:
    """Yield chains of chunks that overlap: the row of each, and the letters it shares with the one before."""
    shared = {(a, b): _shared(texts[a], texts[b]) for a in texts for b in texts if a != b}
    following: dict[int, int] = {}
    for (a, b), count in sorted(shared.items(), key=lambda pair: -pair[1]):
        if count and a not in following and b not in following.values():
            following[a] = b
    for first in following.keys() - following.values():
        chain = [(first, 0)]
        while (last := chain[-1][0]) in following:
            chain.append((following[last], shared[last, following[last]]))
        yield chain


def _shared(before: str, after: str) -> int:
    """How many letters at the end of a text are the beginning of another one; 0 for a few."""
    start = before.find(after[:_SHARED]) if len(after) > _SHARED else -1
    while start >= 0 and not after.startswith(before[start:]):
        start = before.find(after[:_SHARED], start + 1)
    return len(before) - start if start >= 0 else 0


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


def are_whole(ranking: Ranking) -> bool:
    """Whether passages are whole documents, of which one is long: nobody has split them."""
    if ranking.passages is None or ranking.documents is None or not len(ranking):
        return False
    lengths = [len(document.content) for document in ranking.documents]
    parts = zip(ranking.passages, lengths, strict=True)
    return max(lengths) > _LONG and all(part.end - part.start >= length for part, length in parts)


def with_texts_around(ranking: Ranking, around: Mapping[str, TextsAround]) -> Ranking:
    """Return the ranking with each chunk's text joined to its neighbours' texts; `around` is by id."""
    documents = []
    for name, document in zip(ranking.ids, ranking.documents or (), strict=True):
        text, (before, after) = document.text, around.get(name, TextsAround((), ()))
        for other in reversed(before):
            text = _joined(other, text)
        for other in after:
            text = _joined(text, other)
        documents.append(document if text == document.text else replace(document, text=text, places=()))
    return replace(ranking, documents=tuple(documents))


def _joined(text: str, following: str) -> str:
    """Two chunks in a row as one text: what they share once, and nothing that is in the other already."""
    if following in text or text in following:
        return max(text, following, key=len)
    shared = _shared(text, following)
    return text + following[shared:] if shared else f"{text}\n{following}"


def _overlap(one: Passage, other: Passage) -> bool:
    return one.start < other.end and other.start < one.end
