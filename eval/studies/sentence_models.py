"""Models as the sentence benchmarks use them: word vectors by bags of words, encoders as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from surprise_rerank._errors import ModelError
from surprise_rerank.core.arrays import Float32Array, Float64Array, FloatArray
from surprise_rerank.encoders._loading import load_encoder
from surprise_rerank.encoders.base import Encoder, Progress
from surprise_rerank.encoders.static import StaticEncoder, WordVectors
from surprise_rerank.encoders.transformer import Batch, Passed, SentenceTransformerEncoder
from surprise_rerank.eval.studies.settings import BenchmarkSettings, Pooling
from surprise_rerank.eval.studies.study import Study
from surprise_rerank.similarities.definitions import Removal

_NOTHING = 1e-9  # EvalRank's for a sentence of which no word is known, in every dimension
POST_PROCESSED, WHITENED = "+pp", "+white"  # behind a model's name
_NO_VARIANCE = 1e-10  # of the largest one, what is rounding


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """A model of sentences; word vectors are looked up for lower-cased words between white space."""

    name: str
    encoder: Encoder

    @property
    def word_vectors(self) -> WordVectors | None:
        """The word vectors, where the model is nothing else."""
        return self.encoder.vectors if isinstance(self.encoder, StaticEncoder) else None

    def vectors(self, texts: Sequence[str], on_progress: Progress | None = None) -> Float32Array:
        """(n, d) sentence vectors; of word vectors the mean of the known ones, as long as it is."""
        encoded = self.encoder.encode(texts, on_progress=on_progress)
        if self.word_vectors is None:
            return encoded.dense
        tokens = encoded.require_tokens()
        means = np.full((len(texts), tokens.dimension), _NOTHING, dtype=np.float32)
        for i in np.flatnonzero(tokens.lengths):
            means[i] = tokens.text(int(i)).mean(axis=0)
        return means


class PooledEncoder(SentenceTransformerEncoder):
    """A transformer whose vectors are the last layer's of the first token (`cls`), or means of all tokens.

    `first-last` is the mean over the first and the last layer.
    """

    def __init__(self, encoder: SentenceTransformerEncoder, pooling: Pooling) -> None:
        super().__init__(encoder.model, encoder.name)
        self.pooling = pooling
        module: Any = encoder.model[0]
        self.transformer = module.auto_model
        self.dimension = int(self.transformer.config.hidden_size)

    def passes(self, batches: Iterable[Batch], prompt: str) -> Iterator[Passed]:
        """Forward passes through the transformer alone, without the modules behind it."""
        import torch

        for rows, features in batches:
            inputs = {name: torch.from_numpy(ids).to(self.model.device) for name, ids in features.items()}
            with torch.inference_mode():
                layers = self.transformer(**inputs, output_hidden_states=True).hidden_states
            if self.pooling == "cls":
                pooled = layers[-1][:, 0]
            else:
                mask = inputs["attention_mask"][:, :, None]
                pooled = ((layers[1] + layers[-1]) / 2 * mask).sum(dim=1) / mask.sum(dim=1)
            yield rows, pooled.float().cpu().numpy(), layers[-1].float().cpu().numpy()


def load_sentence_model(name: str, pooling: Pooling = "own") -> SentenceModel:
    """Load a model for sentence benchmarks; name and errors are those of `load_encoder`."""
    shown = Path(name).name
    if pooling != "own":
        encoder = load_encoder(name, trainable=True)
        if not isinstance(encoder, SentenceTransformerEncoder):
            raise ModelError(f"pooling={pooling}: {shown} is no transformer; leave pooling away for it")
        return SentenceModel(f"{shown}+{pooling}", PooledEncoder(encoder, pooling))
    encoder = load_encoder(name)
    if isinstance(encoder, StaticEncoder):
        encoder = StaticEncoder(lower_cased(encoder.vectors), tokenize=lambda text: text.lower().split())
    return SentenceModel(shown, encoder)


Settings = TypeVar("Settings", bound=BenchmarkSettings)
Data = TypeVar("Data")


class SentenceBenchmark(Study[Settings, Data, SentenceModel]):
    """A study of models of words and sentences."""

    def load(self, name: str) -> SentenceModel:
        return load_sentence_model(name, self.settings.pooling)


def lower_cased(vectors: WordVectors) -> WordVectors:
    """Word vectors in lower case; of words that become equal, the first one's vector stays."""
    if all(word == word.lower() for word in vectors.words):
        return vectors
    rows: dict[str, int] = {}
    for row, word in enumerate(vectors.words):
        rows.setdefault(word.lower(), row)
    kept = np.fromiter(rows.values(), dtype=np.int64, count=len(rows))
    return WordVectors(list(rows), vectors.vectors[kept], vectors.name)


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """v -> (v - c) W, after which the vectors it was fitted on have the identity as covariance.

    (Su et al., 'Whitening Sentence Representations for Better Semantics and Faster Retrieval', 2021.)
    """

    centre: Float64Array  # (d,)
    matrix: Float64Array  # (d, k); directions without variance are left out

    @classmethod
    def of(cls, centre: Float64Array, covariance: Float64Array) -> Whitening:
        """The whitening of vectors with this mean and (d, d) covariance."""
        values, axes = np.linalg.eigh(covariance)
        varies = values > _NO_VARIANCE * values[-1]
        return cls(centre, axes[:, varies] / np.sqrt(values[varies]))

    def __call__(self, vectors: FloatArray) -> Float64Array:
        """(n, k) the vectors, whitened."""
        return np.asarray((vectors - self.centre) @ self.matrix)


def whitened(vectors: Float32Array) -> Float32Array:
    """(n, k) sentence vectors, whitened over themselves."""
    wide = vectors.astype(np.float64)
    fitted = Whitening.of(wide.mean(axis=0), np.cov(wide.T, bias=True))
    return fitted(wide).astype(np.float32)


def post_processed(vectors: Float32Array) -> Float32Array:
    """(n, d) sentence vectors without their first two principal components, not centred (EvalRank's way)."""
    return Removal.of(vectors, 2, centred=False)(vectors).astype(np.float32)
