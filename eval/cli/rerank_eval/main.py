"""The command `rerank-eval`: retrieval by itself, everything else by its sub-commands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from surprise_rerank.eval.cli.exits import Commands, run
from surprise_rerank.eval.cli.options import NAMES, PLACES, present, reports
from surprise_rerank.eval.cli.rerank_eval.studies import STUDIES
from surprise_rerank.eval.cli.settings import SetValues, set_option
from surprise_rerank.eval.retrieval.settings import DEFAULTS, RetrievalSettings

_EPILOG = """\b
Examples:
  rerank-eval                                    the built-in demo, nothing to download
  rerank-eval --dataset beir/scifact,beir/nfcorpus --report both.html
  rerank-eval --dataset ./my-manuals --set judged=pages --systems bm25,cosine,auto
  rerank-eval --dataset ./my-texts --set judged=nothing --systems bm25-lucene,auto --run-dir rankings
  rerank-eval --dataset beir/scifact --set runs=theirs=theirs.trec
  rerank-eval --model glove-6b-50d --systems bm25-lucene,cosine,wmd
  rerank-eval classify texts.jsonl               zero-shot by the labels' names

\b
Shell completion (bash; zsh and fish likewise):
  eval "$(_RERANK_EVAL_COMPLETE=bash_source rerank-eval)"
"""


@click.group(
    cls=Commands,
    epilog=_EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.option(
    "--dataset",
    "datasets",
    type=PLACES,
    default=(DEFAULTS.dataset,),
    help="`demo`, an id of ir_datasets such as beir/scifact, or a folder in BEIR's layout "
    "(corpus.jsonl[.gz], queries.jsonl[.gz], and qrels/SPLIT.tsv or qrels.jsonl). With commas: several.",
)
@click.option("--split", help="Which judged questions.  [default: test]")
@click.option(
    "--systems",
    type=NAMES,
    help="Systems and similarities of texts, with commas between; `--systems help` describes "
    f"all.  [default: {','.join(DEFAULTS.systems)}; with `--set runs=`, the baseline]",
)
@click.option(
    "--depth", type=click.IntRange(min=1), default=DEFAULTS.depth, help="How many candidates are re-ranked."
)
@click.option(
    "--model",
    default=DEFAULTS.model,
    help="A sentence-transformers model (a name on the hub, or a folder), glove-6b-50d, or a file of word "
    "vectors (.txt, .vec, .npy).",
)
@click.option(
    "--measures",
    type=NAMES,
    default=DEFAULTS.measures,
    help="Measures in ir_measures' syntax; differences are tested in the first.",
)
@click.option(
    "--baseline",
    metavar="SYSTEM",
    default=DEFAULTS.baseline,
    help="The system, or the run of `--set runs=`, that the others are compared with, by a paired "
    "randomisation test.",
)
@click.option(
    "--run-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write TREC run files here, and results.json with everything, every question's values, too.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="A quick look: the first N questions over a part of the corpus; its figures compare with nothing.",
)
@set_option(
    lambda: (RetrievalSettings,),
    but=("dataset", "split", "systems", "depth", "model", "measures", "baseline", "limit"),
)
@reports
@click.version_option(package_name="surprise-rerank")
@click.pass_context
def command(context: click.Context, /, **values: Any) -> None:
    """Compare re-rankers on retrieval data sets: quality, significance and time.

    Documents are indexed into Qdrant once, in the folder that SURPRISE_RERANK_CACHE names. Every system
    answers every judged question; the table gives means, p-values of differences to cosine, and times.

    The commands below evaluate models of words and sentences, and classify and cluster texts.
    """
    if context.invoked_subcommand is not None:
        # Retrieval's options would do nothing before a sub-command.
        for parameter in context.command.params:
            if context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
                name = context.invoked_subcommand
                raise click.UsageError(
                    f"{parameter.opts[0]} is for retrieval; {name}'s options follow {name}"
                )
    elif values["systems"] == ("help",):
        _list_systems()
    else:
        _compare(**values)


def _list_systems() -> None:
    """Every system and similarity, and what it ranks by."""
    # Imported late, because `--help` and shell completion should not wait for torch.
    from surprise_rerank.connectors.systems._register import all_systems
    from surprise_rerank.eval.retrieval.systems import EVALUATED
    from surprise_rerank.similarities.table import SIMILARITIES

    summaries = {name: system.summary for name, system in {**all_systems(), **EVALUATED}.items()}
    summaries |= {name: system.summary for name, system in SIMILARITIES.items() if name not in summaries}
    width = max(map(len, summaries))
    for name in sorted(summaries, key=lambda name: name not in DEFAULTS.systems):
        default = " (compared by default)" if name in DEFAULTS.systems else ""
        click.echo(f"{name:<{width}}  {summaries[name]}{default}")
    click.echo("Similarities of texts rank cosine's pool; tokens keep their lengths by NAME-raw.")


def _compare(
    *,
    datasets: tuple[str, ...],
    systems: tuple[str, ...] | None,
    baseline: str,
    settings: SetValues,
    run_dir: Path | None,
    reports: tuple[Path, ...],
    as_json: bool,
    quiet: bool,
    **values: Any,
) -> None:
    from surprise_rerank.connectors._progress import Terminal
    from surprise_rerank.core._files import disk_errors
    from surprise_rerank.eval.reports.writing import check_files
    from surprise_rerank.eval.retrieval.comparison import compare, write_results
    from surprise_rerank.eval.retrieval.evaluation import check_together, evaluate, load_model

    chosen = settings.of(RetrievalSettings, dataset=datasets[0], baseline=baseline, **values)
    usual = (baseline,) if chosen.runs else DEFAULTS.systems
    chosen = replace(chosen, systems=systems or usual)
    check_files(reports)
    if run_dir is not None:
        with disk_errors(str(run_dir)):  # they come now, not after everything was measured
            run_dir.mkdir(parents=True, exist_ok=True)
    terminal = Terminal(quiet=quiet)
    check_together(chosen, datasets, run_dir)
    encoder = None
    evaluations = []
    for name in datasets:
        if encoder is None and len(datasets) > 1 and chosen.precision != "int8":
            with terminal.bar(f"loading {chosen.model}"):
                encoder = load_model(chosen)
        evaluations.append(evaluate(replace(chosen, dataset=name), terminal, encoder))
    report = compare(evaluations, chosen.baseline, all_pairs=chosen.all_pairs)
    present(report, reports, as_json=as_json, quiet=quiet)
    if run_dir is not None:
        write_results(run_dir, evaluations, report)
        terminal.say(f"runs and figures are in {run_dir}")


for _study in STUDIES:
    command.add_command(_study)


def main() -> None:
    """Run the command: bad input is one line and exit code 2, an interruption 130."""
    run(command, "What was indexed stays; run the same command again to go on.")


if __name__ == "__main__":
    main()
