"""What p of the surprise score says, and how often it comes: a reliability table of its tail.

    python benchmarks/reliability.py --data DATA

A half of a collection's documents is the ensemble. Anchors are questions, or documents of the other half;
keys are the other half, without the anchor: nobody is in its own ensemble. A share 1 - p of these pairs
should exceed p, which no judgment is needed for. In the third case the keys are questions, as for the system
`surprise`: they are not drawn as the ensemble was, so that nothing is promised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

import click
import numpy as np

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import Float32Array, Float64Array
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.cli.options import present, quiet_option, report_option
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.retrieval.datasets import load_dataset
from surprise_rerank.surprise.ensemble import Ensemble
from surprise_rerank.surprise.score import Surprise, SurpriseModel

CLAIMED = (0.95, 0.99, 0.999)
MODELS: tuple[SurpriseModel, ...] = get_args(SurpriseModel)
ENCODERS = ("all-MiniLM-L6-v2", "multilingual-e5-small", "glove-6b-50d")
# Collection -> its questions that are not for tests; the old collections have no splits.
SPLITS = {
    "beir/scifact": "train",
    "beir/nfcorpus": "dev",
    **dict.fromkeys(("cranfield", "cacm", "cisi", "lisa", "npl"), "test"),
    "demo": "train",
}
ANCHORS = 400  # questions, or documents where they are the anchors


def times_too_often(
    surprise: Surprise, anchors: Float32Array, keys: Float32Array, own: Sequence[int] | None = None
) -> Float64Array:
    """(c,) how many times as often as claimed p exceeds each of `CLAIMED`.

    The ensemble holds neither the (n, d) anchors nor the (m, d) keys. `own` is the place of each anchor among
    the keys, which is left out; None for anchors that are no keys.
    """
    above, pairs = np.zeros(len(CLAIMED)), 0
    for i, similarity in enumerate(np.asarray(anchors, np.float64) @ np.asarray(keys, np.float64).T):
        others = similarity if own is None else np.delete(similarity, own[i])
        p = surprise.scores(others, anchors[i : i + 1]).probability
        above += [(p > claim).sum() for claim in CLAIMED]
        pairs += len(p)
    return above / pairs / (1 - np.array(CLAIMED))


def by_role(
    documents: Float32Array, questions: Float32Array
) -> Iterator[tuple[str, SurpriseModel, Float64Array]]:
    """Who the anchors are, model of the score, and `times_too_often`, of unit vectors."""
    order = np.random.default_rng(0).permutation(len(documents))
    inside, outside = documents[order[: len(order) // 2]], documents[order[len(order) // 2 :]]
    ensemble, asked = Ensemble.from_vectors(inside), Ensemble.from_vectors(questions)
    chosen = np.arange(min(ANCHORS, len(outside)))
    for model in MODELS:
        # The pooled deviation is that of the anchors' own kind.
        by_question = Surprise(ensemble, model, weight=1, anchors=asked)
        by_document = Surprise(ensemble, model, weight=1)
        yield "questions", model, times_too_often(by_question, questions, outside)
        yield "documents", model, times_too_often(by_document, outside[chosen], outside, chosen.tolist())
        yield "documents, of questions", model, times_too_often(by_document, outside[chosen], questions)


@click.command()
@click.option("--data", type=click.Path(path_type=Path), required=True, help="The folder with beir/.")
@click.option("--model", "encoders", multiple=True, default=ENCODERS, help="[default: three]")
@click.option("--dataset", "names", multiple=True, type=click.Choice([*SPLITS]), default=[*SPLITS])
@report_option
@quiet_option
def main(
    data: Path, encoders: tuple[str, ...], names: tuple[str, ...], reports: tuple[Path, ...], *, quiet: bool
) -> None:
    """Print how many times too often p exceeds .95, .99 and .999."""
    terminal, found = Terminal(quiet=quiet), dict[tuple[str, ...], dict[str, str]]()
    for model in encoders:
        encoder = load_encoder(model)
        for name in names:
            terminal.say(f"{name}, {model}")
            folder = data / "beir" / name
            dataset = load_dataset(str(folder) if folder.is_dir() else name, SPLITS[name])
            documents = encoder.encode([document.content for document in dataset.documents]).dense
            questions = encoder.encode(list(dataset.queries.values())[:ANCHORS], kind="query").dense
            for anchors, kind, times in by_role(documents, questions):
                row = found.setdefault((anchors, name.removeprefix("beir/"), model), {})
                row[kind] = " / ".join(f"{own:.1f}" for own in times)
    rows: list[tuple[Cell, ...]] = [(*key, *row.values()) for key, row in sorted(found.items())]
    columns = tuple(map(Column, ("anchors", "collection", "encoder", *MODELS)))
    title = "How many times as often as 1 - p says is p exceeded, at " + ", ".join(map(str, CLAIMED))
    present(
        Report("What p of the surprise score says", (Table("shares", title, columns, tuple(rows), keys=3),)),
        reports,
    )


if __name__ == "__main__":
    main()
