import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from click.testing import CliRunner

from surprise_rerank import DataError
from surprise_rerank.eval.cli.rerank_eval.studies import correlation as command
from surprise_rerank.eval.reports.report import Column, Report, Table
from surprise_rerank.eval.reports.writing import report_values, write_report
from surprise_rerank.eval.studies import correlation
from surprise_rerank.eval.studies.correlation import read_reports

MODELS = ("a", "b", "c", "d")
ACCURACIES = {"a": (60.0, 50.0), "b": (62.0, 54.0), "c": (70.0, 60.0), "d": (75.0, 58.0)}
MRR = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}


def correlate(reports: Sequence[Report]) -> Report:
    return correlation.correlate([report_values(report) for report in reports])


def downstream(values: Mapping[str, Sequence[float | None]], tasks: Sequence[str] = ("MR", "CR")) -> Report:
    columns = (Column("model"), *map(Column, tasks), Column("mean"))
    rows = tuple((model, *accuracies, -1.0) for model, accuracies in values.items())
    table = Table("downstream", "Accuracy", columns, rows)
    return Report("downstream", (table,), facts={"classifier": "senteval"})


def words(values: Mapping[str, float], similarity: str = "cosine") -> Report:
    columns = tuple(map(Column, ("model", "similarity", "MR", "MRR", "Hits@1", "Hits@3")))
    rows = tuple((m, similarity, 100 - 90 * v, v, v / 2, 0.5) for m, v in values.items())
    return Report("words", (Table("evalrank-words", "Ranks", columns, rows, keys=2),))


def similarities(values: Mapping[str, float], years_of_sts: int = 5) -> Report:
    columns = tuple(
        map(Column, ("model", "similarity", "data set", "Pearson", "Spearman", "Kendall", "pairs"))
    )
    rows = tuple((m, "cosine", "RG-65", v, v, v, 65) for m, v in values.items())
    weighted = tuple((m, "cosine", "STS-B", v, v, v, 65) for m, v in values.items())
    names = ("STS12", "STS13", "STS14", "STS15", "STS16")[:years_of_sts]
    years = tuple(map(Column, ("model", "similarity", *names, "mean")))
    year_rows = tuple((m, "cosine", *[100 * v] * years_of_sts, 50 * v) for m, v in values.items())
    return Report(
        "similarities",
        (
            Table("word-similarity", "Words", columns, rows, keys=3),
            Table("sts", "Years", years, year_rows, keys=2),
            Table("sts-weighted", "Sets", columns, weighted, keys=3),
            Table("sts-subtasks", "Sub-tasks", columns, rows, keys=3),
        ),
    )


def test_scores_are_correlated_with_every_task_and_the_mean():
    report = correlate([words(MRR), downstream(ACCURACIES)])
    table = report.table("correlation")
    assert [column.name for column in table.columns] == ["score", "similarity", "models", "MR", "CR", "mean"]
    assert table.cell("words MRR / cosine", "models") == 4
    assert table.cell("words MRR / cosine", "MR") == pytest.approx(1)
    assert table.cell("words MRR / cosine", "CR") == pytest.approx(0.8)
    assert table.cell("words MRR / cosine", "mean") == pytest.approx(1)
    # The mean rank counts negatively, and the movie reviews do not.
    assert table.cell("words MR / cosine", "MR") == pytest.approx(1)
    with_mean = report.table("correlation-mean")
    for column in ("Spearman", "p", "Pearson", "Kendall"):  # all models have the same
        assert math.isnan(with_mean.cell("words Hits@3 / cosine", column))
    assert with_mean.cell("words MRR / cosine", "Spearman") == pytest.approx(1)
    means = [np.mean(ACCURACIES[m]) for m in MODELS]
    r = np.corrcoef(list(MRR.values()), means)[0, 1]
    assert with_mean.cell("words MRR / cosine", "Pearson") == pytest.approx(r)


def test_benchmarks_are_named_by_set_and_coefficient():
    report = correlate([similarities(MRR), downstream(ACCURACIES)])
    years = [f"STS{year} mean" for year in range(12, 17)]
    sets = [f"{name} {kind}" for name in ("RG-65", "STS-B") for kind in ("Pearson", "Spearman")]
    names = [row[0] for row in report.table("correlation").rows]
    assert names == [*sets[:2], *years, "STS mean", *sets[2:]]
    partly = correlate([similarities(MRR, 1), downstream(ACCURACIES)])
    assert [row[0] for row in partly.table("correlation").rows] == [*sets[:2], years[0], *sets[2:]]


def test_p_values_of_few_models_are_exact():
    for n, p in ((3, 2 / 6), (4, 2 / 24)):
        chosen = MODELS[:n]
        report = correlate(
            [words({m: MRR[m] for m in chosen}), downstream({m: (MRR[m],) for m in chosen}, ["MR"])]
        )
        assert report.table("correlation-mean").cell("words MRR / cosine", "p") == pytest.approx(p)
        assert any(f"no p-value can fall below {p:.2g}" in note for note in report.notes)
    # Those of more models come from random orders, always the same.
    values = {f"m{i}": float(i) for i in range(12)}
    report = correlate([words(values), downstream({m: (v,) for m, v in values.items()}, ["MR"])])
    assert report.table("correlation-mean").cell("words MRR / cosine", "p") <= 2e-4
    again = correlate([words(values), downstream({m: (v,) for m, v in values.items()}, ["MR"])])
    assert report_values(again) == report_values(report)


def test_the_later_of_two_scores_counts_and_a_note_tells():
    wrong = words({"a": 9.0})
    right = correlate([wrong, words(MRR), downstream(ACCURACIES)])
    assert right.table("correlation-mean").cell("words MRR / cosine", "Spearman") == pytest.approx(1)
    assert "a is given more than once in tables 'evalrank-words': the later one counts" in right.notes
    late = correlate([words(MRR), wrong, downstream(ACCURACIES)])
    assert late.table("correlation-mean").cell("words MRR / cosine", "Spearman") == pytest.approx(-0.2)
    assert not any("more than once" in n for n in correlate([words(MRR), downstream(ACCURACIES)]).notes)


def test_the_tasks_of_a_model_may_come_in_parts_and_the_mean_is_over_those_of_all():
    parts = [
        downstream({m: (accuracies[0],) for m, accuracies in ACCURACIES.items()}, ["MR"]),
        downstream({m: (accuracies[1],) for m, accuracies in ACCURACIES.items() if m != "d"}, ["CR"]),
    ]
    report = correlate([*parts, words(MRR)])
    assert report.facts["models"]["c"] == {"MR": 70.0, "CR": 60.0}
    assert "mean: over MR, which all models have" in report.notes
    assert report.table("correlation").cell("words MRR / cosine", "CR") == pytest.approx(1)
    gaps = {m: (accuracies[0], accuracies[1] if m in "ab" else None) for m, accuracies in ACCURACIES.items()}
    few = correlate([downstream(gaps), words(MRR)])
    assert math.isnan(few.table("correlation").cell("words MRR / cosine", "CR"))


@pytest.mark.parametrize(
    ("reports", "message"),
    [
        ([], "reports with a table of downstream accuracies must be at least one"),
        ([words(MRR)], "reports with a table of downstream accuracies must be at least one"),
        ([downstream(ACCURACIES)], "0 models with an intrinsic score"),
        (
            [words({"a": 0.1, "b": 0.2, "x": 0.3}), downstream(ACCURACIES)],
            r"2 models .* \(a, b\), expect",
        ),
        (
            [words(MRR), downstream({"a": (1,)}, ["MR"]), downstream({"b": (1,)}, ["CR"])],
            "tasks that all of a, b have must be at least one",
        ),
    ],
)
def test_what_cannot_be_correlated_is_told(reports, message):
    with pytest.raises(DataError, match=message):
        correlate(reports)


def test_the_command_prints_correlations_and_writes_a_report(tmp_path):
    runs, file = tmp_path / "runs", tmp_path / "correlation.json"
    runs.mkdir()
    write_report(words(MRR), runs / "words.json")
    write_report(downstream(ACCURACIES), runs / "downstream.json")
    result = CliRunner().invoke(command, [str(runs), "--report", str(file)])
    assert result.exit_code == 0, result.output
    assert "words MRR" in result.output
    (report,) = read_reports([file])
    assert list(report["tables"]) == ["correlation-mean", "correlation"]
    assert CliRunner().invoke(command, []).exit_code == 2
