"""Settings that several studies share; imports nothing heavy, because `--help` reads this."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from surprise_rerank.core.settings import option

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
