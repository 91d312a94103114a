"""What studies measure: means and deviations by a key, and the plots of them."""

from __future__ import annotations

import numpy as np
import pytest

from surprise_rerank.eval.studies.measurements import Measurements


@pytest.fixture
def found() -> Measurements:
    found = Measurements("model", "k", "system")
    for k in (3, 9):
        for i, system in enumerate(("cosine", "surprise")):
            for draw in range(2):
                values = {"F1": k + i + draw, "seconds": None if i else 1.5}
                found.add(("glove", k, system), values)
    return found


def test_a_table_has_means_and_deviations_where_they_are_asked_for(found: Measurements) -> None:
    table = found.table("few-shot", "Means", [("F1", 2, True), ("seconds", 1, False)], ("a note",))
    assert [column.name for column in table.columns] == ["model", "k", "system", "F1", "F1 dev.", "seconds"]
    assert table.rows[0] == ("glove", 3, "cosine", 3.5, pytest.approx(np.sqrt(0.5)), 1.5)
    assert table.cell("glove / 9 / surprise", "seconds") is None
    once = Measurements("model")
    once.add(("glove",), {"F1": 1.0})
    assert [column.name for column in once.table("a", "b", [("F1", 2, True)]).columns] == ["model", "F1"]


def test_lines_lead_over_the_part_before_the_last_and_bars_stand_over_the_last(found: Measurements) -> None:
    lines = found.plot("line", "Learning", "F1")
    assert [series.name for series in lines.series] == ["cosine", "surprise"]
    assert (lines.x_label, lines.series[0].x, lines.series[0].y) == ("k", (3.0, 9.0), (3.5, 9.5))
    assert (lines.series[0].low, lines.series[0].high) == ((3.0, 9.0), (4.0, 10.0))
    bars = found.plot("bars", "Seconds", "seconds")
    assert [(series.name, series.x) for series in bars.series] == [("3", ("cosine",)), ("9", ("cosine",))]


def test_every_value_is_a_fact(found: Measurements) -> None:
    first = {"model": "glove", "k": 3, "system": "cosine", "F1": [3.0, 4.0], "seconds": [1.5, 1.5]}
    assert found.facts()[0] == first
    assert len(found.facts()) == len(found) == 4
