"""Settings that several studies share; the help texts describe the fields.

Imports nothing heavy, because `--help` reads this.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from surprise_rerank.core.settings import option

# As `encoders.loading.DEFAULT_MODEL`, which `--help` cannot wait for.
MODEL = "all-MiniLM-L6-v2"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFolder:
    """Where vectors and indexes are kept."""

    cache: Path | None = option(
        None,
        help="Where vectors and indexes are kept.  "
        "[default: $SURPRISE_RERANK_CACHE or the user's cache folder]",
        metavar="FOLDER",
        path="folder",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkFiles:
    """Where the files of the benchmarks are."""

    data: Path | None = option(
        None,
        help="The folder of the benchmarks' files: beir, evalrank, sts, downstream.  [$SURPRISE_RERANK_DATA]",
        metavar="FOLDER",
        envvar="SURPRISE_RERANK_DATA",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceInputs(BenchmarkFiles):
    """The models of a benchmark of words or sentences, and its files."""

    models: tuple[str, ...] = option(
        ("glove-6b-50d",),
        help="glove-6b-50d, a file of word vectors, or a sentence-transformers model. Several times.",
        flag="--model",
        metavar="NAME",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledStudy(CacheFolder):
    """The models of a study of labelled texts, where their vectors are, and how files are read."""

    models: tuple[str, ...] = option(
        (MODEL,),
        help="A sentence-transformers model, glove-6b-50d, or a file of word vectors. Several times.",
        flag="--model",
        metavar="NAME",
    )
    text: str | None = option(
        None, help="Column of texts.  [default: text, content, body, ...]", metavar="COLUMN"
    )
    label: str = option("label", help="Column of labels.", metavar="COLUMN")
    on_error: Literal["raise", "skip"] = option(
        "raise",
        help="Leave malformed rows out and count them, instead of stopping at the first.",
        flag="--skip-malformed",
        sets="skip",
    )

    def columns(self) -> dict[str, Any]:
        """The arguments of `read_labelled`."""
        return {"text": self.text, "label": self.label, "on_error": self.on_error}
