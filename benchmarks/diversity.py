"""What diversity and collapsing are worth where documents have near-copies, and what they cost where not.

    python benchmarks/diversity.py --dataset beir/nfcorpus --split dev

Documents are indexed twice, alone and with copies beside them: of half of the documents, drawn by a hash of
their ids, one to three each. A copy has a sentence left out, or its sentences in another order, or some usual
words replaced. All that is made of one document is one subtopic of the questions that it is relevant to.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from qdrant_client import models

from surprise_rerank import Document, DocumentIndex, load_encoder
from surprise_rerank.candidates import Query
from surprise_rerank.connectors.qdrant.schema import DENSE, ID
from surprise_rerank.core.arrays import Float32Array, Float64Array, unit_rows
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.eval.cli.options import present, report_option
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.rerank.diversity import diverse_order, near_duplicates, relevances

TOP, ALPHA = 10, 0.5
DIVERSITIES = (0.1, 0.2, 0.3, 0.5, 0.7)
COLLAPSES = (0.8, 0.85, 0.9, 0.95, 0.97, 0.99)
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


def copies_of(document: Document) -> Iterator[Document]:
    """Its near-copies: none for half of the documents, else one to three, each by another rule."""
    drawn = hashlib.sha256(document.id.encode()).digest()
    if drawn[0] % 2:
        return
    sentences = re.split(r"(?<=[.!?]) +", document.text)
    for number in range(1 + drawn[1] % 3):
        text = " ".join(_changed(sentences, (drawn[2] + number) % 3, drawn[3]))
        yield Document(f"{document.id}~{number + 1}", text, document.title, document.metadata)


def _changed(sentences: Sequence[str], rule: int, drawn: int) -> Sequence[str]:
    if rule == 0 and len(sentences) > 1:
        left_out = drawn % len(sentences)
        return [*sentences[:left_out], *sentences[left_out + 1 :]]
    if rule == 1 and len(sentences) > 1:
        first = 1 + drawn % (len(sentences) - 1)
        return [*sentences[first:], *sentences[:first]]
    return [re.sub(r"\w+", lambda word: _OTHER.get(word[0].lower(), word[0]), own) for own in sentences]


@dataclass(frozen=True)
class Found:
    """A system's ranking of a question, with unit vectors and cosines to the question of n documents."""

    ids: tuple[str, ...]
    scores: Float64Array
    vectors: Float32Array
    cosines: Float64Array


def _by_moments(found: Found) -> Float64Array:
    """Scores moved to the mean and the deviation of the pool's cosines."""
    known = np.isfinite(found.scores)
    z = (found.scores - found.scores[known].mean()) / (found.scores[known].std() or 1.0)
    values = found.cosines.mean() + found.cosines.std() * z
    return np.where(known, values, values[known].min())


def _by_range(found: Found) -> Float64Array:
    """1 for the best score, 0 for the worst."""
    known = np.isfinite(found.scores)
    low, high = found.scores[known].min(), found.scores[known].max()
    return np.where(known, (found.scores - low) / ((high - low) or 1.0), 0.0)


# What relevance may be, beside the first, which was chosen.
SCALES: Mapping[str, Callable[[Found], Float64Array]] = {
    "logistic": lambda found: relevances(found.scores),
    "min-max": _by_range,
    "rank": lambda found: np.linspace(1.0, 0.0, len(found.ids)),
    "moments of the cosines": _by_moments,
    "k-th largest cosine": lambda found: np.sort(found.cosines)[::-1],
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

    `ids` are shown, best first; `copies` is relevant original -> how many documents there are of it.
    """
    seen: Counter[str] = Counter()
    gains = []
    for name in map(original, ids[:TOP]):
        gains.append((1 - ALPHA) ** seen[name] if name in copies else 0.0)
        seen[name] += 1
    return _dcg(gains) / _dcg(
        sorted(((1 - ALPHA) ** n for own in copies.values() for n in range(own)), reverse=True)
    )


def _dcg(gains: Sequence[float]) -> float:
    return float(sum(gain / np.log2(place + 2) for place, gain in enumerate(gains[:TOP])))


def subtopic_recall(ids: Sequence[str], copies: Mapping[str, int]) -> float:
    """Share of the relevant originals of which the first ten have one."""
    return len({original(name) for name in ids[:TOP]} & copies.keys()) / len(copies)


def ranked_questions(index: DocumentIndex, system: str, queries: Sequence[Query], depth: int) -> list[Found]:
    """The ranking of every question."""
    pipeline = index.pipeline(system, depth=depth)
    made = []
    for query in queries:
        # Nothing is so near as to be folded; the vectors are fetched for it.
        answer = pipeline.answer(query, texts=False, collapse=1.0)
        ranking = answer.ranking
        vectors = unit_rows(answer.pool.require_dense()[ranking.rows_in(answer.pool)])
        cosines = vectors.astype(np.float64) @ query.require_dense()
        made.append(Found(ranking.ids, ranking.scores, vectors, cosines))
    return made


def of_qdrant(index: DocumentIndex, query: Query, diversity: float, depth: int) -> list[str]:
    """The first ten by Qdrant's own MMR over the same pool."""
    own = models.Mmr(diversity=diversity, candidates_limit=depth)
    nearest = models.NearestQuery(nearest=query.require_dense().tolist(), mmr=own)
    asked = models.QueryRequest(query=nearest, using=DENSE, limit=depth, with_payload=[ID])
    (found,) = index.storage.engine.query_batch([asked])
    return list(dict.fromkeys(record.payload[ID] for record in found))[:TOP]


@click.command()
@click.option("--dataset", default="beir/nfcorpus", show_default=True)
@click.option("--split")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Of both indexes; a temporary one by default."
)
@click.option("--systems", default="cosine,auto", show_default=True)
@click.option("--model", default="all-MiniLM-L6-v2", show_default=True)
@click.option("--questions", default=200, show_default=True)
@click.option("--depth", default=100, show_default=True)
@report_option
def main(
    dataset: str,
    split: str | None,
    folder: Path | None,
    systems: str,
    model: str,
    questions: int,
    depth: int,
    reports: tuple[Path, ...],
) -> None:
    """Print what each setting is worth with copies, and what it costs without."""
    data, encoder = load_dataset(dataset, split), load_encoder(model)
    made = {document.id: [document, *copies_of(document)] for document in data.documents}
    gains = {
        name: {d: float(gain) for d, gain in own.items() if gain > 0 and d in made}
        for name, own in data.qrels.items()
    }
    gains = dict([(name, own) for name, own in gains.items() if own][:questions])
    queries = encode_queries(encoder, [data.queries[name] for name in gains], list(gains))
    everything = [document for own in made.values() for document in own]
    print(f"{dataset}: {len(made)} documents, {len(everything)} with copies, {len(gains)} questions")

    def measured(show: Callable[[int, int], list[str]]) -> tuple[float, float, float]:
        """Of what is shown with copies (0) and without (1), for each question."""
        values = []
        for i, own in enumerate(gains.values()):
            copies, plain = {name: len(made[name]) for name in own}, show(1, i)
            ndcg = _dcg([own.get(name, 0.0) for name in plain]) / _dcg(sorted(own.values(), reverse=True))
            values.append((alpha_ndcg(show(0, i), copies), subtopic_recall(show(0, i), copies), ndcg))
        alpha, recall, ndcg = np.mean(values, axis=0).tolist()
        return alpha, recall, ndcg

    rows: list[tuple[Cell, ...]] = []
    scales: list[tuple[Cell, ...]] = []
    with ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        indexes = []
        for name, documents in (("copies", everything), ("plain", data.documents)):
            indexes.append(stack.enter_context(DocumentIndex.open(place / name, encoder)))
            indexes[-1].sync(documents, prune=True, show_progress=True, background=False)
        for system in systems.split(","):
            found = [ranked_questions(index, system, queries, depth) for index in indexes]
            for own, collapse in SETTINGS:
                parts = [f"diversity {own:g}"] * bool(own) + [f"collapse {collapse}"] * (collapse is not None)
                values = measured(lambda side, i, of=found, d=own, c=collapse: shown(of[side][i], d, c))
                rows.append((system, " + ".join(parts) or "neither", *values))
            for own in DIVERSITIES if system == "cosine" else ():
                values = measured(lambda side, i, d=own: of_qdrant(indexes[side], queries[i], d, depth))
                rows.append((system, f"Qdrant's MMR {own:g}", *values))
            for scale in SCALES:
                for own in DIVERSITIES:
                    values = measured(
                        lambda side, i, of=found, d=own, by=scale: shown(of[side][i], d, None, by)
                    )
                    scales.append((system, f"{scale} {own:g}", *values))
    heads = ("system", "setting", "alpha-nDCG@10", "S-recall@10", "nDCG@10 without copies")
    columns = tuple(map(Column, heads))
    tables = (
        Table("diversity", "What is shown", columns, tuple(rows), keys=2),
        Table("scales", "The scale of relevance", columns, tuple(scales), keys=2),
    )
    present(Report(f"Diversity on {dataset}", tables), reports)


if __name__ == "__main__":
    main()
