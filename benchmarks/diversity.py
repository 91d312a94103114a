"""What diversity and collapsing are worth where documents have near-copies, and what they cost where not.

    python -m benchmarks.diversity --dataset beir/nfcorpus --split dev

Documents are indexed twice, alone and with copies beside them: of half of the documents, drawn by a hash of
their ids, one to three each. A copy has a sentence left out, or its sentences in another order, or some usual
words replaced. All that is made of one document is one subtopic of the questions that it is relevant to.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from qdrant_client import models

from surprise_rerank import Document, load_encoder
from surprise_rerank.candidates import Field, Query
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant.schema import DENSE, ID
from surprise_rerank.core.arrays import Float32Array, Float64Array, unit_rows
from surprise_rerank.encoders.base import Encoder, encode_queries
from surprise_rerank.eval.cli.options import present
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.pipeline import fields_for, ranked
from surprise_rerank.rerank.diversity import DiversityOptions, diverse_order, near_duplicates, relevances

TOP, WARM, ALPHA = 10, 10, 0.5
DIVERSITIES = (0.1, 0.2, 0.3, 0.5, 0.7)
COLLAPSES = (0.8, 0.85, 0.9, 0.95, 0.97, 0.99)
PAIRED = 300
SETTINGS: tuple[tuple[float, float | None], ...] = (
    (0.0, None),
    *((own, None) for own in DIVERSITIES),
    *((0.0, own) for own in COLLAPSES),
    *((own, 0.9) for own in DIVERSITIES[:3]),
)
# What a copy has instead of a word, and the other way round.
_WORDS = """
show demonstrate shows demonstrates shown demonstrated result finding results findings also additionally
however yet method approach methods approaches study investigation studies investigations large big
small minor increase rise increased raised decrease drop decreased lowered used employed using employing
use employ found observed important essential several various because since many numerous obtained
derived between among high elevated patients subjects effect influence effects influences problem
question problems questions given provided must should presented described paper article made done
determine establish determined established possible feasible about approximately very highly different
distinct compared contrasted based founded suggest indicate whether if
"""
_PAIRS = list(zip(_WORDS.split()[::2], _WORDS.split()[1::2], strict=True))
_OTHER = dict(_PAIRS) | {b: a for a, b in _PAIRS}
_MOST = 3


def copies_of(document: Document) -> Iterator[Document]:
    """Its near-copies: none for half of the documents, else one to three, each by another rule."""
    drawn = hashlib.sha256(document.id.encode()).digest()
    if drawn[0] % 2:
        return
    sentences = re.split(r"(?<=[.!?]) +", document.text)
    for number in range(1 + drawn[1] % _MOST):
        text = " ".join(_changed(sentences, (drawn[2] + number) % _MOST, drawn[3]))
        yield Document(f"{document.id}~{number + 1}", text, document.title, document.metadata)


def _changed(sentences: Sequence[str], rule: int, drawn: int) -> Sequence[str]:
    if rule == 0 and len(sentences) > 1:
        left_out = drawn % len(sentences)
        return [sentence for i, sentence in enumerate(sentences) if i != left_out]
    if rule == 1 and len(sentences) > 1:
        first = 1 + drawn % (len(sentences) - 1)
        return [*sentences[first:], *sentences[:first]]
    return [
        re.sub(r"\w+", lambda word: _OTHER.get(word[0].lower(), word[0]), sentence) for sentence in sentences
    ]


@dataclass(frozen=True)
class Found:
    """A system's ranking of a question, with what re-orders it.

    Attributes:
        ids: of the documents, best first.
        scores: (n,) descending.
        vectors: (n, d) of length 1.
        cosines: (n,) to the question.
    """

    ids: tuple[str, ...]
    scores: Float64Array
    vectors: Float32Array
    cosines: Float64Array


def by_rank(found: Found) -> Float64Array:
    """1 for the first, 0 for the last."""
    return np.linspace(1.0, 0.0, len(found.ids))


def by_range(found: Found) -> Float64Array:
    """1 for the best score, 0 for the worst: min-max."""
    known = np.isfinite(found.scores)
    low, high = found.scores[known].min(), found.scores[known].max()
    return np.where(known, (found.scores - low) / ((high - low) or 1.0), 0.0)


def by_moments(found: Found) -> Float64Array:
    """Scores moved to the mean and the deviation of the pool's cosines; of cosines, themselves."""
    known = np.isfinite(found.scores)
    z = (found.scores - found.scores[known].mean()) / (found.scores[known].std() or 1.0)
    values = found.cosines.mean() + found.cosines.std() * z
    return np.where(known, values, values[known].min())


def by_cosines(found: Found) -> Float64Array:
    """The k-th document gets the k-th largest cosine of the pool; of cosines, themselves."""
    return np.sort(found.cosines)[::-1]


# What relevance may be, beside the one that was chosen.
SCALES: Mapping[str, Callable[[Found], Float64Array]] = {
    "logistic": lambda found: relevances(found.scores),
    "min-max": by_range,
    "rank": by_rank,
    "moments of the cosines": by_moments,
    "k-th largest cosine": by_cosines,
}


def shown(found: Found, diversity: float, collapse: float | None, scale: str = "logistic") -> list[str]:
    """The first ten documents."""
    rows = np.arange(len(found.ids))
    if collapse is not None:
        rows = np.array([group[0] for group in near_duplicates(found.vectors, collapse)])
    if diversity:
        relevance = SCALES[scale](found)[rows]
        rows = rows[diverse_order(relevance, found.vectors[rows], diversity, TOP)]
    return [found.ids[row] for row in rows[:TOP]]


def original(name: str) -> str:
    """The document that a copy was made of; itself for any other."""
    return name.partition("~")[0]


def alpha_ndcg(ids: Sequence[str], copies: Mapping[str, int]) -> float:
    """Alpha-nDCG@10 (Clarke and others, SIGIR 2008) with alpha = 1/2, where a document has one subtopic.

    Args:
        ids: of the documents shown, best first.
        copies: relevant original -> how many documents there are of it, itself counted.
    """
    seen: Counter[str] = Counter()
    total = 0.0
    for place, name in enumerate(map(original, ids[:TOP])):
        if name in copies:
            total += (1 - ALPHA) ** seen[name] / np.log2(place + 2)
            seen[name] += 1
    ideal = sorted(((1 - ALPHA) ** n for count in copies.values() for n in range(count)), reverse=True)
    return total / sum(gain / np.log2(place + 2) for place, gain in enumerate(ideal[:TOP]))


def subtopic_recall(ids: Sequence[str], copies: Mapping[str, int]) -> float:
    """Share of the relevant originals of which the first ten have one."""
    return len({original(name) for name in ids[:TOP]} & copies.keys()) / len(copies)


def ndcg(ids: Sequence[str], gains: Mapping[str, float]) -> float:
    """NDCG@10."""
    total = sum(gains.get(name, 0) / np.log2(place + 2) for place, name in enumerate(ids[:TOP]))
    ideal = sorted(gains.values(), reverse=True)[:TOP]
    return total / sum(gain / np.log2(place + 2) for place, gain in enumerate(ideal))


def ranked_questions(index: DocumentIndex, system: str, queries: Sequence[Query], depth: int) -> list[Found]:
    """The ranking of every question."""
    pipeline = index.pipeline(system, depth=depth)
    dense: frozenset[Field] = frozenset({"dense"})
    fields, made = fields_for(pipeline.reranker) | dense, []
    for query in queries:
        pool = pipeline.retriever.retrieve(query, depth, fields)
        ranking = ranked(query, pool, pipeline.reranker)
        vectors = unit_rows(pool.require_dense()[ranking.rows_in(pool)])
        cosines = vectors.astype(np.float64) @ query.require_dense()
        made.append(Found(ranking.ids, ranking.scores, vectors, cosines))
    return made


def of_qdrant(index: DocumentIndex, query: Query, diversity: float, depth: int) -> list[str]:
    """The first ten by Qdrant's own MMR over the same pool."""
    own = models.Mmr(diversity=diversity, candidates_limit=depth)
    nearest = models.NearestQuery(nearest=query.require_dense().tolist(), mmr=own)
    asked = models.QueryRequest(query=nearest, using=DENSE, limit=depth, with_payload=[ID])
    (found,) = index.storage.engine.query_batch([asked])
    names = [record.payload[ID] for record in found]
    return list(dict.fromkeys(names))[:TOP]


def milliseconds(index: DocumentIndex, system: str, questions: Sequence[str]) -> dict[str, float]:
    """Of the processor, and what each option adds to a search from text to documents: medians, by turns."""
    pipeline = index.pipeline(system)
    ways: dict[str, DiversityOptions] = {
        "": {},
        "diversity .2": {"diversity": 0.2},
        "collapse .9": {"collapse": 0.9},
        "both": {"diversity": 0.2, "collapse": 0.9},
    }
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for number, question in enumerate([*questions[:WARM], *questions]):
        for way, options in ways.items():
            begun = time.process_time()
            pipeline.search(question, TOP, **options)
            if number >= WARM:
                taken[way].append(1000 * (time.process_time() - begun))
    median = {way: float(np.median(own)) for way, own in taken.items()}
    return {way: own - median[""] if way else own for way, own in median.items()}


def copies_with(encoder: Encoder, made: Iterable[Sequence[Document]]) -> list[tuple[Cell, ...]]:
    """A row for each cosine: the share of copies that have at least this one to their original."""
    texts = [(own[0].content, copy.content) for own in made for copy in own[1:]]
    first, second = (unit_rows(encoder.encode(list(side)).dense) for side in zip(*texts, strict=True))
    cosines = (first * second).sum(axis=1)
    return [(f"{least:g}", float((cosines >= least).mean())) for least in COLLAPSES]


def opened(folder: Path, documents: Sequence[Document], encoder: Encoder) -> DocumentIndex:
    """An index of these documents, made if it is not there."""
    index = DocumentIndex.open(folder, encoder)
    if len(index) != len(documents):
        with Terminal().bar("indexing", len(documents), "docs") as advance:
            index.sync(documents, prune=True, on_progress=advance, background=False)
    return index


def main() -> None:
    """Print what each setting is worth with copies, and what it costs without."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", default="beir/nfcorpus")
    parser.add_argument("--split")
    parser.add_argument("--folder", type=Path, help="of both indexes; a temporary one by default")
    parser.add_argument("--systems", default="cosine,auto")
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--report", type=Path, action="append", default=[], help="also write the tables here")
    given = parser.parse_args()
    dataset, encoder = load_dataset(given.dataset, given.split), load_encoder(given.model)
    made = {document.id: [document, *copies_of(document)] for document in dataset.documents}
    names = [
        name
        for name, own in list(dataset.qrels.items())
        if any(gain > 0 and document in made for document, gain in own.items())
    ][: given.questions]
    gains = [{d: float(g) for d, g in dataset.qrels[name].items() if g > 0 and d in made} for name in names]
    counts = [{document: len(made[document]) for document in own} for own in gains]
    queries = encode_queries(encoder, [dataset.queries[name] for name in names], names)
    everything = [document for own in made.values() for document in own]
    print(f"{given.dataset}: {len(made)} documents, {len(everything)} with copies, {len(names)} questions")
    rows: list[tuple[Cell, ...]] = []
    scales: list[tuple[Cell, ...]] = []
    times: list[tuple[Cell, ...]] = []

    def measured(copied: Iterable[list[str]], plain: Iterable[list[str]]) -> tuple[float, float, float]:
        lists = list(copied)
        return (
            float(np.mean([alpha_ndcg(ids, own) for ids, own in zip(lists, counts, strict=True)])),
            float(np.mean([subtopic_recall(ids, own) for ids, own in zip(lists, counts, strict=True)])),
            float(np.mean([ndcg(ids, own) for ids, own in zip(plain, gains, strict=True)])),
        )

    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with_copies = stack.enter_context(opened(folder / "copies", everything, encoder))
        without = stack.enter_context(opened(folder / "plain", dataset.documents, encoder))
        indexes = (with_copies, without)
        for system in given.systems.split(","):
            found = [ranked_questions(index, system, queries, given.depth) for index in indexes]
            for diversity, collapse in SETTINGS:
                name = " + ".join(
                    [f"diversity {diversity:g}"] * bool(diversity)
                    + [f"collapse {collapse}"] * (collapse is not None)
                )
                lists = ([shown(own, diversity, collapse) for own in side] for side in found)
                rows.append((system, name or "neither", *measured(*lists)))
            if system == "cosine":
                for diversity in DIVERSITIES:
                    lists = (
                        [of_qdrant(index, query, diversity, given.depth) for query in queries]
                        for index in indexes
                    )
                    rows.append((system, f"Qdrant's MMR {diversity:g}", *measured(*lists)))
            for scale in SCALES:
                for diversity in DIVERSITIES:
                    lists = ([shown(own, diversity, None, scale) for own in side] for side in found)
                    scales.append((system, f"{scale} {diversity:g}", *measured(*lists)))
            added = milliseconds(without, system, [dataset.queries[name] for name in names[:100]])
            times.append((system, *added.values()))
    key = (Column("system"), Column("setting"))
    scores = (*key, Column("alpha-nDCG@10"), Column("S-recall@10"), Column("nDCG@10 without copies"))
    clock = (key[0], *(Column(name, 2) for name in ("ms", "diversity .2", "collapse .9", "both")))
    tables = (
        Table("diversity", "What is shown", scores, tuple(rows), keys=2),
        Table("scales", "The scale of relevance", scores, tuple(scales), keys=2),
        Table(
            "copies",
            f"Copies of the first {PAIRED} documents by their cosine to the original",
            (Column("at least"), Column("share")),
            tuple(copies_with(encoder, list(made.values())[:PAIRED])),
        ),
        Table("milliseconds", "Of the processor for a search, and what is added", clock, tuple(times)),
    )
    present(Report(f"Diversity on {given.dataset}", tables), tuple(given.report))


if __name__ == "__main__":
    main()
