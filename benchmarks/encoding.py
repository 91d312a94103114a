"""Documents a second of a model by torch and by OpenVINO in every precision.

    python benchmarks/encoding.py                                    # the built-in demo's texts
    python benchmarks/encoding.py --dataset beir/scifact --texts 512

Rounds are interleaved: each encodes the same texts in every way, and the median of the rounds counts, so
that other programs disturb all alike. Processor seconds count what the process really computed.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator

import click
import numpy as np
from machine import describe

from surprise_rerank import load_encoder
from surprise_rerank.encoders.base import Precision
from surprise_rerank.encoders.openvino import CALIBRATION_TEXTS
from surprise_rerank.errors import SurpriseRerankError
from surprise_rerank.eval.retrieval.datasets import load_dataset

_PLAIN = "torch float32"


@click.command()
@click.option("--dataset", default="demo", show_default=True)
@click.option("--model", default="all-MiniLM-L6-v2", show_default=True)
@click.option("--texts", "number", default=256, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(*, dataset: str, model: str, number: int, rounds: int) -> None:
    """Print the table."""
    documents = [document.content for document in load_dataset(dataset, None).documents]
    order = np.random.default_rng(0).permutation(len(documents))
    texts = [documents[i] for i in order[:number]]
    sample = [documents[i] for i in order[-CALIBRATION_TEXTS:]]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["SURPRISE_RERANK_CACHE"] = cache
        encoders = dict(_encoders(model, sample))
        for encode in encoders.values():
            encode(texts[:16])
        spent: dict[str, list[tuple[float, float]]] = {name: [] for name in encoders}
        vectors = {}
        for _ in range(rounds):
            for name, encode in encoders.items():
                wall, processor = time.perf_counter(), time.process_time()
                vectors[name] = encode(texts)
                spent[name].append((time.perf_counter() - wall, time.process_time() - processor))
    print(f"{describe('torch', 'openvino')}; {len(texts)} texts of {dataset}, {model}")
    print(f"{'':36} docs/s  ratio  per processor second  ratio  cosine to float32")
    usual = [statistics.median(values) for values in zip(*spent[_PLAIN], strict=True)]
    for name, measured in spent.items():
        wall, processor = (statistics.median(values) for values in zip(*measured, strict=True))
        cosine = float(np.einsum("nd,nd->n", vectors[name], vectors[_PLAIN]).mean())
        by_clock = f"{len(texts) / wall:6.1f} {usual[0] / wall:6.2f}"
        by_processor = f"{len(texts) / processor:21.1f} {usual[1] / processor:6.2f}"
        print(f"{name:36} {by_clock} {by_processor}  {cosine:.6f}")


def _encoders(model: str, sample: list[str]) -> Iterator[tuple[str, Callable[[list[str]], np.ndarray]]]:
    ways: list[tuple[str, Precision]] = [("torch", "float32"), ("torch", "bfloat16")]
    ways += [("openvino", of) for of in ("float32", "bfloat16", "int8")]
    for by, precision in ways:
        try:
            encoder = load_encoder(
                model, "cpu", precision=precision, calibration=sample, trainable=by == "torch"
            )
        except SurpriseRerankError as error:
            print(f"{by} {precision}: {error}")
            continue
        yield f"{by} {precision}", lambda texts, by_encoder=encoder: by_encoder.encode(texts).dense


if __name__ == "__main__":
    main()
