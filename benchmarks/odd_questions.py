"""The largest deviation that any scorer gives to odd questions: other scripts, one word, nothing, nonsense.

    rerank-eval --dataset demo --systems cosine --model glove-6b-50d --cache CACHE
    python benchmarks/odd_questions.py --dataset demo --model glove-6b-50d --cache CACHE

Every part of a score is deviations times a weight, and these are bounded by the root of the number of
documents that it is measured over.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from stored import index_of

from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.encoders.loading import load_encoder

# First and last letters of Latin, Cyrillic, Greek, Hebrew, Arabic, Devanagari, Han, Hiragana and Hangul.
SCRIPTS = (
    *((0x61, 0x7A), (0x430, 0x44F), (0x3B1, 0x3C9), (0x5D0, 0x5EA), (0x627, 0x64A)),
    *((0x905, 0x939), (0x4E00, 0x9FA5), (0x3042, 0x3093), (0xAC00, 0xD7A3)),
)
SYSTEMS = ("fusion", "auto")


def odd_questions(words: list[str], count: int, rng: np.random.Generator) -> list[str]:
    """As many questions, of five kinds in turn.

    Args:
        words: of the corpus.
        count: how many.
        rng: draws them.
    """

    def letters(first: int, last: int) -> str:
        return "".join(chr(rng.integers(first, last + 1)) for _ in range(rng.integers(1, 9)))

    def foreign() -> str:
        script = SCRIPTS[rng.integers(len(SCRIPTS))]
        return " ".join(letters(*script) for _ in range(rng.integers(1, 8)))

    def one() -> str:
        return str(words[rng.integers(len(words))])

    kinds = (
        foreign,
        one,
        lambda: " " * int(rng.integers(0, 3)) + "".join(rng.choice(list("?!.,-"), size=rng.integers(0, 4))),
        lambda: f"{one()} {foreign()}",
        lambda: " ".join([one()] * int(rng.integers(2, 60))),
    )
    return [kinds[i % len(kinds)]() for i in range(count)]


def main() -> None:
    """Print the largest part of every scorer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dataset", default="demo")
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--model", default="glove-6b-50d")
    parser.add_argument("--questions", type=int, default=10_000)
    given = parser.parse_args()
    encoder = load_encoder(given.model)
    with DocumentIndex.open(index_of(given.dataset, given.cache, encoder), encoder) as index:
        names, _ = index.token_sample(64)
        found = index.fetch(names, frozenset({"documents"})).documents or ()
        words = sorted({word for document in found for word in document.content.split()})
        questions = odd_questions(words, given.questions, np.random.default_rng(0))
        print(f"{given.dataset}, {len(index)} documents, {len(questions)} odd questions, {given.model}")
        for name in SYSTEMS:
            system = build_system(name, index, fitted=False)
            largest: dict[str, float] = defaultdict(float)
            for start in range(0, len(questions), 256):
                for query in encode_queries(encoder, questions[start : start + 256]):
                    pool = system.retriever.retrieve(query, 100, system.needs)
                    ranking = system.reranker.rerank(query, pool)
                    for part, values in {**ranking.parts, "score": ranking.scores}.items():
                        largest[part] = max(largest[part], float(np.abs(values).max(initial=0.0)))
            print(f"{name:8s}", ", ".join(f"{part} {value:.4g}" for part, value in largest.items()))


if __name__ == "__main__":
    main()
