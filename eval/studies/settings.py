"""Settings that several studies share; imports nothing heavy, because `--help` reads this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from surprise_rerank.core.settings import option

# As `encoders.loading.DEFAULT_MODEL`, which `--help` cannot wait for.
MODEL = "all-MiniLM-L6-v2"
# The help text of `--cache`.
CACHE_HELP = (
    "Where converted vectors and finished tasks are kept.  "
    "[default: $SURPRISE_RERANK_CACHE or the user's cache folder]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkFiles:
    """Where the files of the benchmarks are.

    Attributes:
        data: the folder that holds `evalrank`, `sts` and `downstream`.
        cache: by default the folder that SURPRISE_RERANK_CACHE names, or the user's cache folder.
    """

    data: Path | None = option(
        None,
        help="The folder of the benchmarks' files: beir, evalrank, sts, downstream.  [$SURPRISE_RERANK_DATA]",
        metavar="FOLDER",
        envvar="SURPRISE_RERANK_DATA",
    )
    cache: Path | None = option(None, help=CACHE_HELP, metavar="FOLDER", path="folder")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceInputs(BenchmarkFiles):
    """The models of a benchmark of words or sentences, and its files.

    Attributes:
        models: names, as for `load_encoder`.
    """

    models: tuple[str, ...] = option(
        ("glove-6b-50d",),
        help="glove-6b-50d, a file of word vectors, or a sentence-transformers model. Several times.",
        flag="--model",
        metavar="NAME",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledColumns:
    """How files of labelled texts are read.

    Attributes:
        text: the column of texts; found by its usual names by default.
        label: the column of labels.
        on_error: whether a malformed row is an error, or skipped and counted.
    """

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
        """The arguments of `read_labelled` and `read_task`."""
        return {"text": self.text, "label": self.label, "on_error": self.on_error}


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledStudy:
    """The models of a study of labelled texts, and where their vectors are.

    Attributes:
        models: names, as for `load_encoder`.
        cache: folder of vectors and results; by default the one that SURPRISE_RERANK_CACHE names, or the
            user's.
    """

    models: tuple[str, ...] = option(
        (MODEL,),
        help="A sentence-transformers model, glove-6b-50d, or a file of word vectors. Several times.",
        flag="--model",
        metavar="NAME",
    )
    cache: Path | None = option(None, help=CACHE_HELP, metavar="FOLDER", path="folder")
