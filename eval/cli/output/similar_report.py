"""What `surprise-rerank similar` found as a report: the closest pairs and groups, with titles and texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from surprise_rerank.connectors.similar.corpus import EncodedCorpus
from surprise_rerank.connectors.similar.groups import Groups, ids_of
from surprise_rerank.connectors.similar.job import SimilarityJob
from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.documents import Document
from surprise_rerank.eval.cli.output.console import shortened
from surprise_rerank.eval.reports.report import Column, Listing, Passage, Plot, Report, Series, Table
from surprise_rerank.eval.reports.verdicts import short

# What a page shows; the file of the result has everything.
PAIRS, DOCUMENTS, GROUPS, MEMBERS = 30, 20, 20, 10
_TEXT, _TITLE = 240, 160  # characters
_BINS = 40
_HIGH = 4.0  # deviations, which one in 30,000 documents of a Gaussian reaches

# Ids of documents -> those that were found.
Texts: TypeAlias = Callable[[Set[str]], Mapping[str, Document]]
_Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What of a result a page shows.

    Attributes:
        closest: pairs of the largest surprise, each once.
        first: pairs of the first documents, in their order.
        surprise: (p,) of all pairs.
    """

    closest: Sequence[_Row]
    first: Sequence[_Row]
    surprise: Float64Array

    @classmethod
    def of(cls, batches: Iterable[Any], *, is_symmetric: bool) -> Found:
        """Read a result once.

        Args:
            batches: `pyarrow.RecordBatch`es, as `SimilarityJob.batches` has them.
            is_symmetric: whether a pair may come the other way round, too.
        """
        closest: list[_Row] = []
        first: list[_Row] = []
        begun: set[str] = set()
        values = [np.zeros(0)]
        for batch in batches:
            own = np.asarray(batch.column("surprise").to_numpy(zero_copy_only=False), np.float64)
            values.append(own)
            # A pair is there twice at most.
            best = np.argsort(-own, kind="stable")[: 2 * PAIRS]
            closest += batch.take(best).to_pylist()
            closest = sorted(closest, key=lambda row: -float(row["surprise"]))[: 2 * PAIRS]
            if len(begun) <= DOCUMENTS:
                for row in batch.to_pylist():
                    begun.add(row["document"])
                    if len(begun) > DOCUMENTS:
                        break
                    first.append(row)
        return cls(_once(closest, is_symmetric)[:PAIRS], first, np.concatenate(values))


def similar_report(
    job: SimilarityJob,
    names: Sequence[str],
    texts: Texts,
    others: Texts,
    groups: Groups | None,
    summary: Mapping[str, Any],
) -> Report:
    """A result with titles and texts.

    Args:
        job: that is done.
        names: of the sources.
        texts: of the documents.
        others: of those that may be neighbours; the same where there are no others.
        groups: of near-duplicates, where they were asked for.
        summary: what `--json` prints.
    """
    against = None if job.neighbours.folder == job.documents.folder else job.neighbours
    found = Found.of(job.batches(), is_symmetric=against is None)
    members = [] if groups is None else _members(groups, job.documents, against)
    rows = [*found.closest, *found.first]
    grouped = [member for group in members for member in group]
    mine = {row["document"] for row in rows} | {name for is_other, name in grouped if not is_other}
    theirs = {row["neighbour"] for row in rows} | {name for is_other, name in grouped if is_other}
    shown = texts(mine | theirs if against is None else mine)
    beside = shown if against is None else others(theirs)
    listings = [] if groups is None else [_groups(groups, members, shown, beside)]
    listings.append(_closest(found, shown, beside))
    listings.append(_first(found, len(job.documents), shown, beside))
    return Report(
        title=f"Similar documents in {', '.join(names)}",
        tables=(_summary(summary),),
        plots=(_surprise(found.surprise),) if np.isfinite(found.surprise).any() else (),
        facts=summary,
        listings=tuple(listings),
        verdict=_verdict(found, groups, shown, beside),
    )


def _once(rows: Sequence[_Row], is_symmetric: bool) -> list[_Row]:
    known: set[frozenset[str]] = set()
    found = []
    for row in rows:
        pair = frozenset((row["document"], row["neighbour"]))
        if not is_symmetric or pair not in known:
            known.add(pair)
            found.append(row)
    return found


def _members(
    groups: Groups, documents: EncodedCorpus, against: EncodedCorpus | None
) -> list[list[tuple[bool, str]]]:
    """Of each group that is shown: whether a member is of the other corpus, and its id."""
    found = []
    ends = np.cumsum(groups.sizes)
    for size, end in zip(groups.sizes[:GROUPS].tolist(), ends[:GROUPS].tolist(), strict=True):
        rows = groups.rows[end - size : end][:MEMBERS]
        ids = ids_of(rows, documents, against).to_pylist()
        found.append([(row >= len(documents), name) for row, name in zip(rows.tolist(), ids, strict=True)])
    return found


def _groups(
    groups: Groups,
    members: Sequence[Sequence[tuple[bool, str]]],
    shown: Mapping[str, Document],
    beside: Mapping[str, Document],
) -> Listing:
    passages = []
    for number, (size, group) in enumerate(zip(groups.sizes.tolist(), members, strict=False), start=1):
        left = f", the first {MEMBERS} are here" if size > len(group) else ""
        for place, (is_other, name) in enumerate(group):
            about = f"group {number} of {len(groups)}: {size} documents{left}" if not place else ""
            passages.append(_passage(name, beside if is_other else shown, about, below=bool(place)))
    finding = f"{len(groups)} groups have {len(groups.rows)} documents."
    if len(groups) > GROUPS:
        finding += f" The {GROUPS} largest are here."
    return Listing("Near-duplicates", tuple(passages), finding)


def _closest(found: Found, shown: Mapping[str, Document], beside: Mapping[str, Document]) -> Listing:
    passages = []
    for number, row in enumerate(found.closest, start=1):
        about = f"pair {number}: {_numbers(row)}"
        passages.append(_passage(row["document"], shown, about))
        passages.append(_passage(row["neighbour"], beside, "", below=True))
    count = len(found.closest)
    finding = f"The {count} of {len(found.surprise)} pairs with the largest surprise, each pair once."
    return Listing("The closest pairs", tuple(passages), finding)


def _first(
    found: Found, documents: int, shown: Mapping[str, Document], beside: Mapping[str, Document]
) -> Listing:
    passages = []
    names = list(dict.fromkeys(row["document"] for row in found.first))
    for name in names:
        passages.append(_passage(name, shown, ""))
        passages += [
            _passage(row["neighbour"], beside, f"neighbour {row['rank']}: {_numbers(row)}", below=True)
            for row in found.first
            if row["document"] == name
        ]
    finding = (
        f"The first {len(names)} documents with neighbours, of {documents}. The file of the result has all."
    )
    return Listing("Documents and their neighbours", tuple(passages), finding)


def _numbers(row: _Row) -> str:
    parts = [f"surprise {row['surprise']:.1f}"]
    parts += [f"{name} {short(row[name])}" for name in ("cosine", "dynamax") if row.get(name) is not None]
    return ", ".join(parts)


def _passage(name: str, known: Mapping[str, Document], about: str, *, below: bool = False) -> Passage:
    document = known.get(name)
    if document is None:
        return Passage(name, "", (), about, below)
    title = shortened(document.title, _TITLE)
    about = ", ".join(filter(None, (about, name if title else "")))
    return Passage(title or name, shortened(document.text, _TEXT), (), about, below)


def _surprise(values: Float64Array) -> Plot:
    values = values[np.isfinite(values)]
    counts, borders = np.histogram(values, _BINS)
    high = int((values >= _HIGH).sum())
    return Plot(
        "histogram",
        "Surprise of the pairs",
        "surprise, in deviations",
        "pairs",
        (Series("pairs", tuple(borders.tolist()), tuple(counts.astype(float).tolist())),),
        finding=f"{high} of {len(values)} pairs lie {_HIGH:g} deviations or more above what is usual; half "
        f"of all lie above {np.median(values):.1f}.",
    )


def _summary(values: Mapping[str, Any]) -> Table:
    names = ("documents", "against", "pairs", "model", "out", "seconds_encoding", "seconds_comparing")
    rows = [(name.replace("_", " "), _cell(values[name])) for name in names if values.get(name) is not None]
    if values.get("groups"):
        rows += [(f"groups: {name}", _cell(value)) for name, value in values["groups"].items()]
    return Table("summary", "What was compared", (Column("what"), Column("value")), tuple(rows))


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _verdict(
    found: Found, groups: Groups | None, shown: Mapping[str, Document], beside: Mapping[str, Document]
) -> str:
    if not found.closest:
        return "No pair was found."
    best = found.closest[0]
    one, other = _passage(best["document"], shown, ""), _passage(best["neighbour"], beside, "")
    told = f"The closest pair is {one.heading!r} and {other.heading!r}: {_numbers(best)}."
    if groups is not None:
        told += f" {len(groups.rows)} documents are in {len(groups)} groups of near-duplicates."
    return told
