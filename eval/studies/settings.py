"""Settings that several studies share. Imports nothing heavy, because `--help` reads this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

# As `encoders.loading.DEFAULT_MODEL`, which `--help` cannot wait for.
MODEL = "all-MiniLM-L6-v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledStudy:
    """The models of a study of labelled texts, where their vectors are, and how files are read.

    Attributes:
        models: sentence-transformers models, glove-6b-50d, or files of word vectors.
        text: column of texts; text, content, body, ... by default.
        label: column of labels.
        on_error: what becomes of malformed rows; those that are skipped are counted.
        cache: folder of vectors; $SURPRISE_RERANK_CACHE or the user's cache folder by default.
    """

    models: tuple[str, ...] = (MODEL,)
    text: str | None = None
    label: str = "label"
    on_error: Literal["raise", "skip"] = "raise"
    cache: Path | None = None

    def columns(self) -> dict[str, Any]:
        """The arguments of `read_labelled`."""
        return {"text": self.text, "label": self.label, "on_error": self.on_error}
