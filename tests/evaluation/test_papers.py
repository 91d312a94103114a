"""The published figures beside ours: what is run, and what is told of the others."""

import pytest
from click.testing import CliRunner

from surprise_rerank import DataError
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.eval.cli.rerank_eval.studies import papers
from surprise_rerank.eval.studies.papers import Papers
from surprise_rerank.eval.studies.settings import PapersSettings

QUIET = Terminal(quiet=True)


def test_without_data_the_figures_and_commands_are_listed(tmp_path):
    study = Papers(PapersSettings(data=tmp_path, list=True), QUIET)
    report = study.report()
    table = report.table("papers")
    assert len(study.data) > 5
    assert {row[0] for row in table.rows} == {published.name for published in study.data}
    assert all(row[5] is None for row in table.rows)
    assert any(f"words: not run, {tmp_path / 'evalrank'} is not there" in note for note in report.notes)
    done = CliRunner().invoke(papers, ["--list"])
    assert done.exit_code == 0, done.output
    assert "glove.840B.300d.txt" in done.output
    with pytest.raises(DataError, match="'wordz'"):
        Papers(PapersSettings(only=("wordz",)), QUIET)


@pytest.mark.shared
@pytest.mark.slow
def test_what_can_be_run_stands_beside_what_is_published(shared_data):
    settings = PapersSettings(data=shared_data, only=("sts", "dynamax"))
    table = Papers(settings, QUIET).report().table("papers")
    assert {row[0] for row in table.rows} == {"sts", "dynamax"}
    for name, _, row, figure, published, here, _ in table.rows:
        if name == "sts":
            assert here == pytest.approx(published, abs=0.001), (row, figure)
        else:
            assert here is None
