"""Models of the studies of labelled texts: their vectors, and the names of the similarities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.encoders.base import Encoder, Kind
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.labelled.data import LabelledTexts
from surprise_rerank.eval.labelled.vectors import VectorFolder
from surprise_rerank.eval.studies.sentence_models import load_each
from surprise_rerank.surprise.score import SurpriseModel

COSINE = "cosine"
SURPRISE: Mapping[str, SurpriseModel] = {
    "surprise": "gaussian",
    "pooled": "pooled",
    "percentile": "percentile",
    "empirical": "empirical",
}


class LabelledVectors:
    """The vectors of a model: read from the cache, or made and kept.

    Args:
        encoder: of the model.
        folder: the cache.
        terminal: for progress.
    """

    def __init__(self, encoder: Encoder, folder: VectorFolder, terminal: Terminal) -> None:
        self.encoder = encoder
        self.name = Path(encoder.name).name
        self._folder = folder
        self._terminal = terminal

    def of(self, texts: LabelledTexts, kind: Kind = "document") -> Float32Array:
        """(n, d) unit vectors of n texts.

        Args:
            texts: to be encoded.
            kind: picks the model's prompt, where it has one.
        """
        title = f"{self.name}: encoding {texts.name}"
        return self._folder.vectors(self.encoder, texts.digest, texts.texts, kind, self._terminal, title)

    def described(self) -> dict[str, str | int]:
        """What identifies the model."""
        encoder = self.encoder
        return {"name": encoder.name, "fingerprint": encoder.fingerprint, "dimension": encoder.dimension}


def load_models(names: Sequence[str], cache: Path, terminal: Terminal) -> Iterator[LabelledVectors]:
    """Models, one after the other, each loaded when it is asked for.

    Args:
        names: as for `load_encoder`; a duplicate is loaded once.
        cache: the cache folder.
        terminal: for messages and progress.

    Raises:
        DataError: if there are none, or two share a name in tables.
        StoreError: if vectors cannot be kept.
        ModelError: if one cannot be loaded.
    """
    folder = VectorFolder(cache)
    return load_each(
        names,
        lambda name: LabelledVectors(load_encoder(name, trainable=True), folder, terminal),
        terminal,
    )
