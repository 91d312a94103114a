"""The paper's word demo: which words are near 'dog', by cosine and by surprise (arXiv 2308.09765, table 1).

In Sigma(k, q | E) mean and deviation belong to q: with 'dog' as q they are the same for every word, and the
order stays that of cosine. So, as in the paper and in `rank_documents` of surprise-similarity, every word is
a q of its own, 'dog' is the key k, and all words are E: is 'dog' nearer to this word than words usually are?

    pip install 'surprise-rerank[examples,offline]'
    python examples/dog.py --model glove-6b-50d --query cat --words kitten Siamese potato the
"""

from __future__ import annotations

import argparse
import difflib
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

from surprise_rerank import DataError, Ensemble, SurpriseRerankError, load_encoder
from surprise_rerank.core._extras import import_extra
from surprise_rerank.core.arrays import Float32Array, Float64Array
from surprise_rerank.eval.cli.options import present
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.surprise.score import Surprise

PAPERS = ["Alsatian", "furry", "puppyish", "potato", "the", "my"]
TERMINAL = Console(stderr=True)


def read_vocabulary(path: Path | None) -> list[str]:
    """The words of a file, one a line, or the 25,474 of english-words 1.1.0; each once, sorted."""
    if path is not None:
        return sorted({line.strip() for line in path.read_text(encoding="utf-8").splitlines()} - {""})
    words = getattr(import_extra("english_words", "examples"), "english_words_alpha_set", None)
    if words is None:
        raise DataError("this english-words has other words: run pip install 'english-words==1.1.0'")
    return sorted(words)


def check_known(words: list[str], vocabulary: list[str]) -> None:
    """Raise for a word that the vocabulary lacks, and tell which ones are spelled nearly like it."""
    for word in sorted(set(words) - set(vocabulary)):
        spellings = {known.lower(): known for known in vocabulary}
        near = [spellings[known] for known in difflib.get_close_matches(word.lower(), spellings)]
        raise DataError(f"{word!r} is not in the vocabulary; spelled like it: {', '.join(near) or 'nothing'}")


def encode(model: str, template: str, words: list[str]) -> Float32Array:
    """(n, d) unit vectors of the words within the template; zeros for words that the model does not know."""
    with TERMINAL.status(f"Loading {model}"):
        encoder = load_encoder(model)
    with Progress(console=TERMINAL, transient=True) as progress:
        task = progress.add_task("Encoding", total=len(words))
        texts = [template.replace("{}", word) for word in words]
        return encoder.encode(texts, on_progress=lambda n: progress.advance(task, n)).dense


def score(vectors: Float32Array, query: int) -> dict[str, Float64Array]:
    """How near every word is to the query, by name of the score: (n,) each. The statistics are exact."""
    cosine = (vectors @ vectors[query]).astype(np.float64)
    ensemble = Ensemble.from_vectors(vectors)
    surprise = Surprise(ensemble, weight=1.0)
    moments = surprise.moments(vectors)  # mean and deviation over all words, for each word as q
    return {
        "cosine": cosine,
        "surprise z": surprise.scores_from(cosine, moments).score,
        "mean only": surprise.scores_from(cosine, moments.shrunk(ensemble.pooled(), deviation=1.0)).score,
    }


def run(
    model: str, query: str, words: list[str], template: str, vocabulary: Path | None, report: list[Path]
) -> None:
    """Encode all words, score them, and print the chosen ones with their ranks among all."""
    if "{}" not in template:
        raise DataError(f"--template {template!r} has no {{}} where a word can stand")
    everything = read_vocabulary(vocabulary)
    check_known([query, *words], everything)
    vectors = encode(model, template, everything)
    known = vectors.any(axis=1)
    row = {everything[i]: place for place, i in enumerate(np.flatnonzero(known))}
    if query not in row:
        raise DataError(f"{model} has no vector for {query!r}; choose another --query")
    start, results = time.perf_counter(), score(vectors[known], row[query])
    rows: list[tuple[Cell, ...]] = []
    for word in words:
        cells: list[Cell] = [] if word in row else ["no vector", *[None] * (2 * len(results) - 1)]
        for values in results.values() if word in row else ():
            cells += [float(values[row[word]]), 1 + int((values > values[row[word]]).sum())]
        rows.append((word, *cells))
    seconds = time.perf_counter() - start
    others = "" if known.all() else f" ({(~known).sum():,} more have no vector)"
    notes = []
    for name, values in results.items():
        order = sorted((word for word in words if word in row), key=lambda word: -values[row[word]])
        notes.append(f"by {name}: {' > '.join(order)}")
    notes.append(f"statistics, scores and ranks took {seconds:.2f} s")
    title = f"{query!r} among {len(row):,} words by {model}{others}"
    columns = [Column(text, digits=3) for name in results for text in (name, f"rank by {name}")]
    table = Table("ranks", title, (Column("word"), *columns), tuple(rows), notes=tuple(notes))
    present(Report(title, (table,)), tuple(report))


def main() -> None:
    """Read the options; bad input is one line and exit code 2."""
    parser = argparse.ArgumentParser(description="Ranks of words for a query, by cosine and by surprise.")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="as rerank-eval takes it")
    parser.add_argument("--query", default="dog", metavar="WORD")
    parser.add_argument("--words", nargs="+", default=PAPERS, metavar="WORD", help="whose ranks to show")
    parser.add_argument("--template", default="{}", help="text around every word: 'this is a {}'")
    parser.add_argument("--vocabulary", type=Path, metavar="FILE", help="other words, one a line")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", action="append", default=[], help="write the table here, too"
    )
    try:
        run(**vars(parser.parse_args()))
    except (SurpriseRerankError, OSError, UnicodeDecodeError) as error:
        parser.exit(2, f"Error: {' '.join(str(error).split())}\n")


if __name__ == "__main__":
    main()
