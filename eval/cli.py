"""The command `rerank-eval`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from surprise_rerank.eval.exits import run
from surprise_rerank.eval.retrieval.settings import DEFAULTS, Settings

# Not inside the parentheses of a measure's parameters: RBP(p=0.8, rel=1).
_SEPARATOR = re.compile(r"[,\s]+(?![^()]*\))")

_EPILOG = """\b
Examples:
  rerank-eval                                    the built-in demo, nothing to download
  rerank-eval --dataset beir/scifact             a data set of ir_datasets (its test split)
  rerank-eval --dataset beir/scifact --split train --systems cosine,dynamax
  rerank-eval --dataset ./my-beir-folder --measures "nDCG@10 AP@100"
  rerank-eval --dataset beir/nfcorpus --ensemble train-questions --run-dir runs
  rerank-eval --dataset beir/scifact --systems cosine,fusion,fusion-fitted --fit train
  rerank-eval --model glove-6b-50d --systems bm25,cosine,dynamax-jaccard-raw,wmd
  rerank-eval --qdrant-url http://localhost:6333 (the key from QDRANT_API_KEY)

Shell completion (bash; zsh and fish likewise):
  eval "$(_RERANK_EVAL_COMPLETE=bash_source rerank-eval)"
"""


@click.command(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--dataset",
    default=DEFAULTS.dataset,
    show_default=True,
    help="`demo`, an id of ir_datasets such as beir/scifact, or a folder in BEIR's layout "
    "(corpus.jsonl[.gz], queries.jsonl[.gz], qrels/SPLIT.tsv).",
)
@click.option("--split", help="Which judged questions.  [default: test]")
@click.option(
    "--systems",
    default=",".join(DEFAULTS.systems),
    show_default=True,
    help="What to compare, with commas between; `--list-systems` tells all of them.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    default=DEFAULTS.depth,
    show_default=True,
    help="Size of the candidate pool that is re-ranked.",
)
@click.option(
    "--model",
    default=DEFAULTS.model,
    show_default=True,
    help="A sentence-transformers model (a name on the hub, or a folder), glove-6b-50d, or a file of word "
    "vectors (.txt, .vec, .bin, .npy).",
)
@click.option(
    "--ensemble",
    default=DEFAULTS.ensemble,
    show_default=True,
    help="What surprise is measured against: `documents`, `train-questions`, or a file "
    "(an ensemble's .npz, or a text of one question a line).",
)
@click.option(
    "--fit",
    default=DEFAULTS.fit,
    show_default=True,
    help="The split whose judged questions the system fusion-fitted learns its weights from.",
)
@click.option(
    "--measures",
    default=" ".join(DEFAULTS.measures),
    show_default=True,
    help="Measures in ir_measures' syntax; the p-value is the first one's.",
)
@click.option(
    "--passages/--no-passages",
    default=DEFAULTS.passages,
    help="Split documents that are longer than the model reads; their best passage counts. Without it they "
    "are cut, as published figures assume.  [default: no-passages]",
)
@click.option("--qdrant-url", envvar="QDRANT_URL", help="A Qdrant server instead of the embedded one.")
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where indexes are kept.  [default: $SURPRISE_RERANK_CACHE or the user's cache folder]",
)
@click.option(
    "--run-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write TREC run files and a JSON of everything that was measured here.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="A quick look: the first N questions over a part of the corpus; its figures compare with nothing.",
)
@click.option("--quiet", "-q", is_flag=True, help="The table only, no progress.")
@click.option("--list-systems", is_flag=True, help="Tell which systems there are, and leave.")
@click.version_option(package_name="surprise-rerank")
def command(*, list_systems: bool, quiet: bool, run_dir: Path | None, **values: Any) -> None:
    """Compare re-rankers on a retrieval data set: quality, significance and time.

    Documents are indexed into Qdrant once (embedded, unless --qdrant-url is given) and re-used. Every system
    answers every judged question; the table gives the mean of each measure, the paired-randomisation p-value
    against cosine, and the time of retrieval and re-ranking together.
    """
    # Imported here, because `--help` and shell completion should not wait for torch.
    if list_systems:
        from surprise_rerank.eval.retrieval.systems import SYSTEMS

        width = max(len(name) for name in SYSTEMS)
        for name, system in SYSTEMS.items():
            click.echo(f"{name:<{width}}  {system.summary}")
        return
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.report import make_folder, table, write_results
    from surprise_rerank.eval.retrieval.evaluation import evaluate

    values["systems"] = _names(values["systems"].split(","), "--systems")
    values["measures"] = _names(_SEPARATOR.split(values["measures"]), "--measures")
    values["qdrant_url"] = values["qdrant_url"] or None  # the client takes an empty one for localhost
    if run_dir is not None:
        make_folder(run_dir)  # told now, not after everything was measured
    terminal = Terminal(quiet=quiet)
    evaluation = evaluate(Settings(**values), terminal)
    console = Console()
    if not console.is_terminal:
        console.width = 160  # a table in a file or a pipe is not folded at 80 columns
    console.print(table(evaluation))
    for line in evaluation.notes:
        click.echo(line)
    if run_dir is not None:
        write_results(run_dir, evaluation)
        terminal.say(f"runs and figures are in {run_dir}")


def _names(values: list[str], option: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(value.strip() for value in values if value.strip()))
    if not names:
        raise click.BadParameter("give at least one name", param_hint=option)
    return names


def main() -> None:
    """Run the command: bad input is one line and exit code 2, an interruption 130."""
    run(command, "What was indexed stays; run the same command again to go on.")
