"""The studies of `rerank-eval`: options and help of each, and where the function to a report is."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import click

from surprise_rerank.eval.cli.exits import when_interrupted
from surprise_rerank.eval.cli.options import NAMES, NEW_FILE, json_option, present, report_option, reports
from surprise_rerank.eval.cli.settings import SetValues, set_option
from surprise_rerank.eval.studies.settings import (
    MODEL,
    WORD_VECTORS,
    ClassifySettings,
    ClusterSettings,
    DownstreamSettings,
    PapersSettings,
    RankSettings,
    StsSettings,
)

STUDIES: list[click.Command] = []
_KEPT = "What was made stays; run the same command again to go on."

_data = click.option(
    "--data",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    envvar="SURPRISE_RERANK_DATA",
    help="The folder of the benchmarks' files: beir, evalrank, sts, downstream.  [$SURPRISE_RERANK_DATA]",
)
_similarities = click.option(
    "--similarities",
    type=NAMES,
    default=RankSettings().similarities,
    help="What is ranked by, with commas between; listed below.",
)
_label = click.option("--label-field", "label", default="label", help="Column of labels.")
_text = click.option("--text-field", "text", help="Column of texts.  [default: text, content, body, ...]")
_limit = click.option(
    "--limit", type=click.IntRange(1), help="A quick look: N texts, a random sample that is always the same."
)


def _models_option(default: str) -> Any:
    return click.option(
        "--model",
        "models",
        multiple=True,
        default=(default,),
        help="A sentence-transformers model, glove-6b-50d, or a file of word vectors. Several times.",
    )


def _study(name: str, kind: type, target: str, text: str, epilog: str, *options: Any) -> click.Command:
    """Make a command of a study, module:name below `eval.studies`; what has no option is a key of --set."""

    def command(
        *, settings: SetValues, reports: tuple[Path, ...], as_json: bool, quiet: bool, **values: Any
    ) -> None:
        from surprise_rerank.connectors._progress import Terminal
        from surprise_rerank.eval.reports.writing import check_files

        module, _, function = target.partition(":")
        study = getattr(importlib.import_module(f"surprise_rerank.eval.studies.{module}"), function)
        check_files(reports)
        with when_interrupted(_KEPT):
            report = study(settings.of(kind, **values), Terminal(quiet=quiet)).report()
        present(report, reports, as_json=as_json, quiet=quiet)

    taken: list[str] = []
    decorated: Any = reports(set_option(lambda: (kind,), but=taken)(command))
    for option in reversed(options):
        decorated = option(decorated)
    study_command: click.Command = click.command(name, help=inspect.cleandoc(text), epilog=epilog)(decorated)
    taken += [parameter.name for parameter in study_command.params if parameter.name]
    STUDIES.append(study_command)
    return study_command


words = _study(
    "words",
    RankSettings,
    "evalrank:WordStudy",
    """Show whether a model ranks the similar word before 22,207 others (EvalRank), and agrees with people.

    The rank of a pair is the number of words that are more similar to its first word than its second one is;
    of words as similar half count. The report also has the correlations with people's judgements on 13
    word-similarity sets.
    """,
    """\b
    Examples:
      rerank-eval words --data benchmarks --model toy_emb.txt --model glove-6b-50d
      rerank-eval words --data benchmarks --model toy_emb.txt --set as_published=yes

    \b
    Similarities: cosine, l2, csls, and the z of the cosine with the second word as anchor: surprise, by the
    weights of surprise-crossover and surprise-mixed (.5), with one deviation for all words
    (surprise-pooled, surprise-pooled-mixed), half way to it (surprise-shrunk)
    """,
    _data,
    _models_option(WORD_VECTORS),
    _similarities,
)

sentences = _study(
    "sentences",
    RankSettings,
    "evalrank:SentenceStudy",
    """Show whether a model ranks the similar sentence before 24,957 others (EvalRank).

    The rank of a pair is the number of sentences that are more similar to its first one than the second is.
    """,
    """\b
    Examples:
      rerank-eval sentences --data benchmarks --model toy_emb.txt --model glove-6b-50d
      rerank-eval sentences --data benchmarks --model toy_emb.txt --similarities cosine --set as_published=yes

    \b
    Similarities: those of `rerank-eval words`, and of token vectors dynamax, dynamax-jaccard, max-jaccard
    and the rest of `rerank-eval --systems help`; DynaMax takes minutes, what has no fast form hours
    """,
    _data,
    _models_option(WORD_VECTORS),
    _similarities,
)

sts = _study(
    "sts",
    StsSettings,
    "sts:StsStudy",
    """Compare similarities of sentences with people's judgements: STS12 to STS16, STS-B, SICK-R, STR.

    The table of years gives the mean Pearson correlation over each year's sub-tasks; a sub-task is won or
    lost where the bootstrap interval of the difference to the baseline excludes 0. Similarities are fitted
    on the sentences of one data set; SIF takes other counts of words by `--set word_counts=FILE`.
    """,
    """\b
    Examples:
      rerank-eval sts --data benchmarks
      rerank-eval sts --data benchmarks --model glove.840B.300d.txt --similarities all --report sts.html
      rerank-eval sts --data benchmarks --similarities cosine,wmd-raw --set sets=STS12,STS-B
    """,
    _data,
    _models_option(WORD_VECTORS),
    click.option(
        "--similarities",
        type=NAMES,
        help="With commas between: names of `rerank-eval --systems help`, `cosine` for that of the model's "
        "own vectors, or `all`.  [default: the paper's, over raw word vectors or unit token vectors]",
    ),
    click.option(
        "--baseline", default=StsSettings().baseline, help="The similarity that the others are compared with."
    ),
)

downstream = _study(
    "downstream",
    DownstreamSettings,
    "downstream:DownstreamStudy",
    """Accuracy of a classifier of sentence vectors: SentEval's downstream tasks.

    A logistic regression learns a task's classes from sentence vectors (of pairs, |u - v| and u * v), as the
    published figures were made. STS-B and SICK-R are learnt from judged pairs: Pearson's r of the test.
    """,
    """\b
    Examples:
      rerank-eval downstream --data benchmarks --model toy_emb.txt --model glove-6b-50d
      rerank-eval downstream --data benchmarks --model all-MiniLM-L6-v2 --tasks STS-B,SICK-R
    """,
    _data,
    _models_option(WORD_VECTORS),
    click.option(
        "--tasks",
        type=NAMES,
        default=DownstreamSettings().tasks,
        help="What to learn, with commas between; also STS-B and SICK-R, which are regressions.",
    ),
)

classify = _study(
    "classify",
    ClassifySettings,
    "classification:classification",
    """Classify labelled texts by the names of their labels: cosine and surprise side by side.

    A text's vector is compared with those of the labels' names in a template. Surprise compares each
    similarity with those of an ensemble of texts, by default the tested ones without their labels. Vectors
    are kept in the cache. `--set ensemble_size=` and `--set few_shot=` are the paper's other two studies.
    """,
    """\b
    Examples:
      rerank-eval classify ag_news.test.jsonl --set 'templates=this matter is {},{}'
      rerank-eval classify test.jsonl --train train.jsonl --set inductive=yes --report classify.html
      rerank-eval classify test.jsonl --train train.jsonl --set few_shot=3,9,21
      rerank-eval classify texts.csv --set answers=yes --set names=names.yaml > labels.tsv

    FILE is JSONL, CSV, TSV (.gz, too) or Parquet, with a column of texts and one of labels; or
    hf:NAME:SPLIT, a data set of the Hugging Face hub.

    \b
    Systems:
      cosine       the label whose vector is the nearest
      surprise     the label that the text is more similar to than other texts are: Gaussian
      pooled       one deviation for all labels
      half-pooled  each label's variance half of the way to the pooled one: the classifier's default
      percentile   median and 84th percentile for mean and deviation
      empirical    the share of the ensemble that is less similar
      logistic     logistic regression on labelled vectors (with --train)

    \b
    Systems of few_shot:
      cosine, surprise                 the encoder fine-tuned by the paper's routine, once for both
      cosine-linear, surprise-linear   a linear map of the vectors, trained likewise, in seconds
      logistic                         logistic regression on the vectors
      setfit                           SetFit with its defaults (pip install 'surprise-rerank[setfit]')
    """,
    click.argument("file", type=NEW_FILE),
    _models_option(MODEL),
    click.option(
        "--train",
        type=NEW_FILE,
        help="Labelled texts to learn from: for the logistic regression, or for few_shot.",
    ),
    _text,
    _label,
    _limit,
)

cluster = _study(
    "cluster",
    ClusterSettings,
    "cluster:clustering",
    """Compare clusters of texts with their labels: V-measure and ARI.

    Each repeat finds centres by k-means; every assignment takes the same ones, and is compared with the
    cosine over the repeats. Labels are used for the comparison and the number of clusters alone.
    """,
    """\b
    Examples:
      rerank-eval cluster tweet.jsonl searchsnippets.jsonl --model all-MiniLM-L6-v2 --model glove-6b-50d
      rerank-eval cluster news.parquet --text-field title --set assignments=surprise,surprise@0.5
      rerank-eval cluster texts.csv --set answers=yes --set clusters=20 > clusters.tsv

    \b
    Assignments of the points to the centres of k-means, all compared with the cosine:
      cosine      the nearest centre
      surprise    the most surprising one: z of the cosine over all points, by each centre's moments
      pooled      the same with one deviation for all centres
      percentile  the same with median and 84.134th percentile
      empirical   the share of the points that are less near
      NAME@W      with the weight W from 0 (the cosine) to 1, or crossover: tanh(points / 1000)
    """,
    click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)),
    _models_option(MODEL),
    _text,
    _label,
    _limit,
)

papers = _study(
    "papers",
    PapersSettings,
    "papers:Papers",
    """Run what the three papers publish, and show both: EvalRank, DynaMax.

    What needs vectors or data that are not in the folder is left out, and told. All takes some minutes.
    """,
    """\b
    Examples:
      rerank-eval papers --list
      rerank-eval papers --data benchmarks --only words,sts
      rerank-eval papers --data benchmarks --report papers.html
    """,
    _data,
    click.option(
        "--only", type=NAMES, help="Names of the first column, with commas between.  [default: all]"
    ),
    click.option("--list", is_flag=True, help="Run nothing: the published figures and the commands."),
)

_CORRELATION = """\b
Examples:
  rerank-eval words --data benchmarks --model toy_emb.txt --report runs/words.json
  rerank-eval downstream --data benchmarks --model toy_emb.txt --report runs/downstream.json
  rerank-eval correlation runs --report correlation.html
"""


@click.command(epilog=_CORRELATION)
@click.argument("places", metavar="FILE|FOLDER...", nargs=-1, required=True, type=click.Path(path_type=Path))
@report_option
@json_option
def correlation(*, places: tuple[Path, ...], reports: tuple[Path, ...], as_json: bool) -> None:
    """Correlation of intrinsic scores with downstream accuracy, over models.

    Of reports that `--report FILE.json` wrote: of `words`, `sentences`, `sts` and `downstream`, for three
    models or more; of a folder all of them, by name. Of duplicate scores of a model, the last one counts.
    """
    from surprise_rerank.eval.reports.writing import check_files
    from surprise_rerank.eval.studies.correlation import correlate, read_reports

    check_files(reports)
    present(correlate(read_reports(places)), reports, as_json=as_json)


STUDIES.append(correlation)
