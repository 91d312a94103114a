"""What p of the surprise score says, and how often it comes: a reliability table of its tail.

A half of a collection's documents is the ensemble. Anchors are the questions, or documents of the other
half; keys are the other half, without the anchor: nobody is in its own ensemble. A share 1 - p of these pairs
should exceed p, which no judgment is needed for. In the third case the keys are the questions, as for the
system `surprise`: they are not drawn as the ensemble was, so that nothing is promised. The vectors are those
of the indexes that rerank-eval made.

    rerank-eval --dataset cranfield --systems cosine --set cache=CACHE  # and so on
    python benchmarks/reliability.py --data DATA --cache CACHE
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

import click
import numpy as np
from stored import index_of

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.core.arrays import Float32Array, Float64Array
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.cli.options import present, quiet_option, report_option
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise, SurpriseModel

CLAIMED = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
# The columns of the summary.
TAIL = (0.95, 0.99, 0.999)
MODELS: tuple[SurpriseModel, ...] = get_args(SurpriseModel)
ENCODERS = ("all-MiniLM-L6-v2", "multilingual-e5-small", "glove-6b-50d")
# Collection -> its questions that are not for tests; the old collections have no splits.
SPLITS = {
    "beir/scifact": "train",
    "beir/nfcorpus": "dev",
    **dict.fromkeys(("cranfield", "cacm", "cisi", "lisa", "npl"), "test"),
    "demo": "train",
}
# Anchor and keys.
ROLES = ("question, documents", "document, documents", "document, questions")
QUESTIONS = 400
ANCHORS = 400  # documents, where they are the anchors


def beyond(
    surprise: Surprise, anchors: Float32Array, keys: Float32Array, own: Sequence[int] | None = None
) -> Float64Array:
    """How often p exceeds what `CLAIMED` says.

    Args:
        surprise: of an ensemble that holds neither anchors nor keys.
        anchors: (n, d) vectors q.
        keys: (m, d) vectors k.
        own: of each anchor the place among the keys, which is left out; None for anchors that are no keys.

    Returns:
        (c,) shares of the pairs.
    """
    above, pairs = np.zeros(len(CLAIMED)), 0
    similarities = np.asarray(anchors, np.float64) @ np.asarray(keys, np.float64).T
    for i, similarity in enumerate(similarities):
        others = similarity if own is None else np.delete(similarity, own[i])
        p = surprise.scores(others, anchors[i : i + 1]).probability
        above += [(p > claim).sum() for claim in CLAIMED]
        pairs += len(p)
    return above / pairs


def shares(
    documents: Float32Array, questions: Float32Array, seed: int = 0
) -> Iterator[tuple[str, SurpriseModel, Float64Array]]:
    """Who are anchor and keys, model of the score, and the shares beyond each claim.

    Args:
        documents: (n, d) unit vectors.
        questions: (m, d) unit vectors.
        seed: of the halves.
    """
    order = np.random.default_rng(seed).permutation(len(documents))
    inside, outside = documents[order[: len(order) // 2]], documents[order[len(order) // 2 :]]
    ensemble, asked = Ensemble.from_vectors(inside), Ensemble.from_vectors(questions)
    chosen = np.arange(min(ANCHORS, len(outside)))
    for model in MODELS:
        # The pooled deviation is that of the anchors' own kind.
        by_question = Surprise(ensemble, model, weight=1, anchors=asked)
        by_document = Surprise(ensemble, model, weight=1)
        yield ROLES[0], model, beyond(by_question, questions, outside)
        yield ROLES[1], model, beyond(by_document, outside[chosen], outside, chosen.tolist())
        yield ROLES[2], model, beyond(by_document, outside[chosen], questions)


Found = Mapping[tuple[str, str, str, str], Float64Array]


def every_share(found: Found) -> Table:
    """A row for each collection, encoder, role and model; a column for each claim."""
    names = ("collection", "encoder", "anchor, keys", "model")
    columns = (*map(Column, names), *(Column(f"beyond {claim:g}", 5) for claim in CLAIMED))
    rows = tuple((*key, *map(float, values)) for key, values in found.items())
    return Table("shares", "Share of pairs beyond each p", columns, rows, keys=4, detail=True)


def times_claimed(found: Found, role: str) -> Table:
    """A row for each collection and encoder: how many times too often p is exceeded, by model."""
    rows: dict[tuple[str, str], list[Cell]] = {}
    for (collection, encoder, own, _), values in found.items():
        if own == role:
            rows.setdefault((collection, encoder), []).extend(_ratios(values))
    names = [f"{model} {claim:g}" for model in MODELS for claim in TAIL]
    columns = (Column("collection"), Column("encoder"), *(Column(name, 1) for name in names))
    cells = tuple((*key, *values) for key, values in rows.items())
    notes = ("share of pairs found beyond p, over 1 - p: 1 is as claimed",)
    name = role.replace(", ", "-")
    return Table(name, f"Times too often; anchor and keys: {role}", columns, cells, keys=2, notes=notes)


def summary(found: Found) -> Table:
    """Over collections and encoders: the median of how many times too often, and the extremes."""
    rows: list[tuple[Cell, ...]] = []
    for role in ROLES:
        for model in MODELS:
            ratios = np.array([_ratios(v) for key, v in found.items() if key[2:] == (role, model)])
            spread = zip(np.median(ratios, axis=0), ratios.min(axis=0), ratios.max(axis=0), strict=True)
            rows.append((role, model, *(float(value) for three in spread for value in three)))
    names = [f"{what} {claim:g}" for claim in TAIL for what in ("median", "least", "most")]
    columns = (Column("anchor, keys"), Column("model"), *(Column(name, 1) for name in names))
    return Table("summary", "Times too often, over collections and encoders", columns, tuple(rows), keys=2)


def _ratios(values: Float64Array) -> list[float]:
    """Of the shares beyond each claim: those of `TAIL`, over what they should be."""
    return [float(values[CLAIMED.index(claim)] / (1 - claim)) for claim in TAIL]


def vectors(name: str, data: Path, cache: Path, encoder: Encoder) -> tuple[Float32Array, Float32Array]:
    """Documents' vectors from the index that rerank-eval made, and those of some hundred questions."""
    folder = data / "beir" / name
    spec = str(folder) if folder.is_dir() else name
    dataset = load_dataset(spec, SPLITS[name])
    with DocumentIndex.open(index_of(spec, cache, encoder), encoder) as index:
        ids = [document.id for document in dataset.documents]
        documents = index.fetch(ids, frozenset({"dense"})).require_dense()
    asked = list(dataset.queries.values())[:QUESTIONS]
    return documents, encoder.encode(asked, kind="query").dense


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, help="The folder with beir/.")
@click.option(
    "--cache", type=click.Path(path_type=Path), required=True, help="Where rerank-eval keeps indexes."
)
@click.option(
    "--model", "encoders", multiple=True, help="As for rerank-eval; several times.  [default: three]"
)
@click.option("--dataset", "names", multiple=True, type=click.Choice(list(SPLITS)), help="[default: all]")
@report_option
@quiet_option
def main(
    data: Path,
    cache: Path,
    encoders: tuple[str, ...],
    names: tuple[str, ...],
    reports: tuple[Path, ...],
    *,
    quiet: bool,
) -> None:
    """Print how many times too often p is exceeded; every share with --report."""
    terminal, found = Terminal(quiet=quiet), {}
    for model in encoders or ENCODERS:
        encoder = load_encoder(model)
        for name in names or SPLITS:
            terminal.say(f"{name}, {model}")
            documents, questions = vectors(name, data, cache, encoder)
            for role, kind, values in shares(documents, questions):
                found[name.removeprefix("beir/"), model, role, kind] = values
    tables = (summary(found), *(times_claimed(found, role) for role in ROLES), every_share(found))
    present(Report("What p of the surprise score says", tables), reports)


if __name__ == "__main__":
    main()
