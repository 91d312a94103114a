"""What an evaluation is asked to do, and the defaults; imports nothing heavy, for the command line's help."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

# As `encoders.base` has it, which `--help` cannot wait for.
Precision: TypeAlias = Literal["float32", "bfloat16", "int8"]
# What a line of the judgements names: `handbook.pdf`, or a page or a passage of it, `handbook.pdf#12`.
Judged: TypeAlias = Literal["documents", "pages", "passages", "nothing"]


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """What to evaluate; the options of `rerank-eval`, or keys of its `--set`, by the same names.

    Attributes:
        dataset: `demo`, an id of ir_datasets, or a BEIR folder.
        split: which judged questions; None for the data set's test split.
        systems: names of systems, and of similarities of texts, by which cosine's pool is ranked.
        runs: run files of other programs as systems, as FILE or NAME=FILE; `{dataset}` stands for the data
            set's short name.
        candidates: where every system takes its candidates from, such as cosine, bm25, both, or a run file;
            None for each one's own.
        baseline: the system that the others are compared with.
        depth: how many candidates are re-ranked.
        model: name or folder of a sentence-transformers model, or word vectors.
        precision: numbers that the model computes with; int8 is calibrated on a sample of the documents.
        ensemble: what surprise is measured against, `documents`, `train-questions`, or a file of questions.
        measures: in ir_measures' syntax; differences are tested in the first.
        qdrant_url: address of a Qdrant server, in place of the embedded store.
        cache: folder of the indexes; None for the user's cache folder.
        passages: split documents that are longer than the model reads, instead of cutting them.
        judged: what the judgements judge; by pages or passages, each passage is a line of a ranking. Of
            nothing: all questions are ranked for --run-dir, and nothing is measured.
        pooling: tokens that are merged into one vector, on average, as for an index; None for its default.
        all_pairs: compare every system with every other one, too, in all measures, with p corrected for all.
        limit: look at the first questions and a part of the corpus only.
    """

    dataset: str = "demo"
    split: str | None = None
    systems: tuple[str, ...] = ("bm25-lucene", "bm25", "cosine", "surprise", "dynamax", "fusion", "auto")
    runs: tuple[str, ...] = ()
    candidates: str | None = None
    baseline: str = "cosine"
    depth: int = 100
    model: str = "all-MiniLM-L6-v2"
    precision: Precision = "float32"
    ensemble: str = "documents"
    measures: tuple[str, ...] = ("nDCG@10", "R@100", "RR")
    qdrant_url: str | None = None
    cache: Path | None = None
    passages: bool = False
    judged: Judged = "documents"
    pooling: float | None = None
    all_pairs: bool = False
    limit: int | None = None


DEFAULTS = RetrievalSettings()
# The measures of pages and passages, where no others are named: recall of evidence, hit rate and MRR.
EVIDENCE_MEASURES = ("nDCG@10", *(f"{name}@{k}" for name in ("R", "Success", "RR") for k in (5, 10, 20)))
# The judged questions that the systems auto-fitted and fusion-lucene-fitted learn their weights from.
FITTED_ON = "train"
