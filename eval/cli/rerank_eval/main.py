"""The command `rerank-eval`: retrieval by itself, everything else by its sub-commands."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from surprise_rerank.eval.cli import completion
from surprise_rerank.eval.cli.arguments.precision import precision_option
from surprise_rerank.eval.cli.exits import Commands, run
from surprise_rerank.eval.cli.options import json_option, present, quiet_option, report_option
from surprise_rerank.eval.cli.rerank_eval import classify as classify_command
from surprise_rerank.eval.cli.rerank_eval import cluster as cluster_command
from surprise_rerank.eval.cli.rerank_eval import correlation as correlation_command
from surprise_rerank.eval.cli.rerank_eval import downstream as downstream_command
from surprise_rerank.eval.cli.rerank_eval import off_topic as off_topic_command
from surprise_rerank.eval.cli.rerank_eval import sentences as sentences_command
from surprise_rerank.eval.cli.rerank_eval import sts as sts_command
from surprise_rerank.eval.cli.rerank_eval import words as words_command
from surprise_rerank.eval.retrieval.settings import DEFAULTS, RetrievalSettings

# Not inside the parentheses of a measure's parameters: RBP(p=0.8, rel=1).
_SEPARATOR = re.compile(r"[,\s]+(?![^()]*\))")

_EPILOG = """\b
Examples:
  rerank-eval                                    the built-in demo, nothing to download
  rerank-eval --dataset beir/scifact             a data set of ir_datasets (its test split)
  rerank-eval --dataset beir/scifact,beir/nfcorpus --report both.html
  rerank-eval --dataset beir/scifact --split train --systems cosine,dynamax
  rerank-eval --dataset ./my-beir-folder --measures "nDCG@10 AP@100"
  rerank-eval --dataset beir/nfcorpus --ensemble train-questions --run-dir runs
  rerank-eval --dataset beir/scifact --run theirs=theirs.trec
  rerank-eval --dataset beir/scifact --candidates theirs.trec --systems cosine,dynamax
  rerank-eval --model glove-6b-50d --systems bm25-lucene,cosine,wmd
  rerank-eval --qdrant-url http://localhost:6333 (the key from QDRANT_API_KEY)
  rerank-eval words --data benchmarks --model glove-6b-50d
  rerank-eval classify texts.jsonl               zero-shot by the labels' names
  rerank-eval cluster texts.csv --model glove-6b-50d
  rerank-eval off-topic --dataset demo --questions others.txt

Shell completion (bash; zsh and fish likewise):
  eval "$(_RERANK_EVAL_COMPLETE=bash_source rerank-eval)"
"""


@click.group(
    cls=Commands,
    epilog=_EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    type=completion.datasets,
    default=(DEFAULTS.dataset,),
    show_default=True,
    help="`demo`, an id of ir_datasets such as beir/scifact, or a folder in BEIR's layout "
    "(corpus.jsonl[.gz], queries.jsonl[.gz], and qrels/SPLIT.tsv or qrels.jsonl). Several: with commas "
    "between, or again.",
)
@click.option("--split", help="Which judged questions.  [default: test]")
@click.option(
    "--systems",
    type=completion.systems(several=True),
    help="What to compare, with commas between; `--list-systems` describes all.  "
    f"[default: {','.join(DEFAULTS.systems)}; with --run, the baseline]",
)
@click.option(
    "--run",
    "runs",
    metavar="[NAME=]FILE",
    multiple=True,
    help="A TREC run file of another program as a system; {dataset} in its name stands for the data set. "
    "Several times.",
)
@click.option(
    "--candidates",
    metavar="FROM",
    help="Where every system takes its candidates from: cosine, bm25, both (Qdrant's BM25), "
    "bm25-lucene, both-lucene, or a TREC run file.  [default: each its own]",
)
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    default=DEFAULTS.depth,
    show_default=True,
    help="How many candidates are re-ranked.",
)
@click.option(
    "--model",
    default=DEFAULTS.model,
    show_default=True,
    help="A sentence-transformers model (a name on the hub, or a folder), glove-6b-50d, or a file of word "
    "vectors (.txt, .vec, .npy).",
)
@precision_option(
    "int8 is calibrated on a sample of the documents.", default=DEFAULTS.precision, show_default=True
)
@click.option(
    "--ensemble",
    default=DEFAULTS.ensemble,
    show_default=True,
    help="What surprise is measured against: `documents`, `train-questions`, or a text file of one question "
    "a line.",
)
@click.option(
    "--measures",
    type=completion.measures,
    default=" ".join(DEFAULTS.measures),
    show_default=True,
    help="Measures in ir_measures' syntax; differences are tested in the first.",
)
@click.option(
    "--baseline",
    metavar="SYSTEM",
    type=completion.systems(),
    default=DEFAULTS.baseline,
    show_default=True,
    help="The system that the others are compared with, by a paired randomisation test.",
)
@click.option(
    "--passages/--no-passages",
    default=DEFAULTS.passages,
    help="Split documents that are longer than the model reads; their best passage counts. Without it they "
    "are cut, as published figures assume.  [default: no-passages]",
)
@click.option(
    "--pooling",
    type=click.FloatRange(min=1),
    metavar="N",
    help="Tokens that are merged into one vector, on average.  [default: as in an index]",
)
@click.option(
    "--qdrant-url",
    envvar="QDRANT_URL",
    multiple=True,
    callback=lambda _, __, given: ",".join(given) or None,
    help="A Qdrant server instead of the embedded one; several times for nodes of a cluster.",
)
@click.option(
    "--run-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write TREC run files, every question's values and a JSON of everything that was measured here.",
)
@report_option
@json_option
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="A quick look: the first N questions over a part of the corpus; its figures compare with nothing.",
)
@click.option("--details", is_flag=True, help="Show the differences with their intervals, too.")
@quiet_option
@click.option("--list-systems", is_flag=True, help="List the systems, and exit.")
@click.version_option(package_name="surprise-rerank")
@click.pass_context
def command(context: click.Context, /, *, list_systems: bool, **values: Any) -> None:
    """Compare re-rankers on retrieval data sets: quality, significance and time.

    Documents are indexed into Qdrant once (embedded, unless --qdrant-url is given; in the folder that
    SURPRISE_RERANK_CACHE names) and re-used. Every system answers every judged question; the table gives the
    mean of each measure, the p-value of its difference to cosine, and the time of retrieval and re-ranking.

    The commands below evaluate models of words and sentences, classify and cluster texts, and find off-topic
    questions.
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
    elif list_systems:
        _list_systems()
    else:
        _compare(**values)


def _list_systems() -> None:
    """Every system's name, and what it ranks by."""
    # Imported late, because `--help` and shell completion should not wait for torch.
    from surprise_rerank.connectors.systems.register import all_systems
    from surprise_rerank.eval.retrieval.systems import EVALUATED

    systems = {name: own for name, own in {**all_systems(), **EVALUATED}.items() if "-raw" not in name}
    width = max(map(len, systems))
    for name in sorted(systems, key=lambda name: name not in DEFAULTS.systems):
        default = " (compared by default)" if name in DEFAULTS.systems else ""
        click.echo(f"{name:<{width}}  {systems[name].summary}{default}")
    click.echo("A similarity of token vectors with `-raw` behind its name keeps their lengths.")


def _compare(
    *,
    datasets: tuple[str, ...],
    systems: str | None,
    measures: str,
    run_dir: Path | None,
    reports: tuple[Path, ...],
    as_json: bool,
    details: bool,
    quiet: bool,
    **values: Any,
) -> None:
    from surprise_rerank.connectors.progress import Terminal
    from surprise_rerank.eval.reports.writing import check_files
    from surprise_rerank.eval.retrieval.comparison import compare
    from surprise_rerank.eval.retrieval.evaluation import check_together, evaluate, load_model
    from surprise_rerank.eval.retrieval.writing import make_folder, write_results

    names = _names([name for given in datasets for name in given.split(",")], "--dataset")
    chosen = (values["baseline"],) if values["runs"] else DEFAULTS.systems
    values["systems"] = chosen if systems is None else _names(systems.split(","), "--systems")
    values["measures"] = _names(_SEPARATOR.split(measures), "--measures")
    values["qdrant_url"] = values["qdrant_url"] or None  # the client takes an empty one for localhost
    check_files(reports)
    if run_dir is not None:
        make_folder(run_dir)  # errors come now, not after everything was measured
    terminal = Terminal(quiet=quiet)
    settings = RetrievalSettings(dataset=names[0], **values)
    check_together(settings, names, run_dir)
    encoder = None
    evaluations = []
    for name in names:
        if encoder is None and len(names) > 1 and settings.precision != "int8":
            with terminal.bar(f"loading {settings.model}", None, "models"):
                encoder = load_model(settings)
        evaluations.append(evaluate(replace(settings, dataset=name), terminal, encoder))
    report = compare(evaluations, settings.baseline)
    present(report, reports, details=details, as_json=as_json, quiet=quiet)
    if run_dir is not None:
        write_results(run_dir, evaluations, report)
        terminal.say(f"runs and figures are in {run_dir}")


def _names(values: list[str], option: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(value.strip() for value in values if value.strip()))
    if not names:
        raise click.BadParameter("give at least one name", param_hint=option)
    return names


def _refuse_options(context: click.Context) -> None:
    """Refuse retrieval's options before a sub-command, where they would do nothing."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is ParameterSource.COMMANDLINE:
            name = context.invoked_subcommand
            raise click.UsageError(f"{parameter.opts[0]} is for retrieval; {name}'s options follow {name}")


for _module in (
    words_command,
    sentences_command,
    sts_command,
    downstream_command,
    correlation_command,
    classify_command,
    cluster_command,
    off_topic_command,
):
    command.add_command(_module.command)


def main() -> None:
    """Run the command: bad input is one line and exit code 2, an interruption 130."""
    run(command, "What was indexed stays; run the same command again to go on.")


if __name__ == "__main__":
    main()
