"""`surprise-rerank diagnose`: advice of an index and unlabelled questions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from words import WordEncoder

from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.eval.cli.surprise_rerank.main import command, main

FLYING = ("wing", "lift", "drag", "flow", "heat", "wave", "beam", "load")
EATING = ("tea", "milk", "bread", "salt", "jam", "egg", "rye", "pot")
WORDS = FLYING + EATING
QUESTIONS = [f"{a} {b}" for a in WORDS for b in WORDS if a < b]

Call = Callable[..., Result]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two models of word vectors, one in a narrow cone, an index of each, and questions."""
    folder = tmp_path_factory.mktemp("diagnose")
    rng = np.random.default_rng(0)
    texts = [f"{a} {b} {c}" for a in FLYING for b in FLYING for c in EATING[:4] if a < b]
    lines = [json.dumps({"id": str(i), "title": text[:9], "text": text}) for i, text in enumerate(texts)]
    (folder / "docs.jsonl").write_text("\n".join(lines))
    (folder / "questions.txt").write_text("\n".join(QUESTIONS))
    for name, axis in (("wide", 0.0), ("narrow", 1.0)):
        rows = [f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=16) + axis)}" for word in WORDS]
        (folder / f"{name}.txt").write_text("\n".join(rows))
        made = call(folder, name, "index", str(folder / "docs.jsonl"), "--model", str(folder / f"{name}.txt"))
        assert made.exit_code == 0, made.output
    DocumentIndex.open(folder / "empty", WordEncoder()).close()
    return folder


def call(place: Path, index: str, *arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(command, [*arguments, "--index", str(place / f"index-{index}")], input=text)


def values(result: Result) -> dict:
    assert result.exit_code == 0, (result.output, result.exception)
    (line,) = result.stdout.splitlines()
    return json.loads(line, parse_constant=pytest.fail)


def test_a_narrow_cone_is_told_from_a_wide_one(place: Path) -> None:
    questions = ("--questions", str(place / "questions.txt"), "--json")
    wide, narrow = (values(call(place, name, "diagnose", *questions)) for name in ("wide", "narrow"))
    assert (wide["documents"], wide["questions"]) == (112, len(QUESTIONS))
    assert wide["source"] == "questions of questions.txt"
    assert wide["document_cone"] < 0.5 < 0.7 < narrow["document_cone"] < 0.9
    assert wide["advice"] == "cosine"
    assert narrow["advice"] == "measure"
    assert set(wide["among_questions"]) == {
        "skewness",
        "chance_skewness",
        "unfound",
        "chance_unfound",
        "largest",
    }


def test_people_read_numbers_and_advice_in_plain_words(place: Path) -> None:
    found = call(place, "wide", "diagnose", "--questions", str(place / "questions.txt"))
    assert found.exit_code == 0
    title, *lines = found.stdout.splitlines()
    assert title == str(place / "index-wide")
    names = [line[2:16].strip() for line in lines]
    assert names == ["documents", "questions", "cone", "mean share", "deviations", "near documents",
                     "near questions", "advice"]  # fmt: skip
    assert "  advice          cosine: the mean cosine of two documents is " in found.stdout
    assert found.stderr == ""
    narrow = call(place, "narrow", "diagnose", "--questions", str(place / "questions.txt"))
    assert "  advice          measure: " in narrow.stdout
    assert "SurpriseReranker(" in narrow.stderr


def test_titles_of_the_index_stand_for_questions(place: Path) -> None:
    found = values(call(place, "wide", "diagnose", "--sample", "60", "--json"))
    assert found["source"] == "titles of its own documents"
    assert found["questions"] == 60
    assert values(call(place, "wide", "diagnose", "--sample", "60", "--json")) == found
    narrow = values(call(place, "narrow", "diagnose", "--json"))
    assert (narrow["questions"], narrow["asked"], narrow["advice"]) == (112, False, "cosine")
    assert "over titles surprise can lose" in narrow["reason"]


def test_questions_come_from_the_standard_input(place: Path) -> None:
    from_file = values(call(place, "wide", "diagnose", "--questions", str(place / "questions.txt"), "--json"))
    piped = call(place, "wide", "diagnose", "--questions", "-", "--json", text="\n".join(QUESTIONS))
    assert values(piped) == {**from_file, "source": "questions"}


def test_nothing_is_changed(place: Path) -> None:
    before = values(call(place, "wide", "status", "--json"))
    values(call(place, "wide", "diagnose", "--json"))
    assert values(call(place, "wide", "status", "--json")) == before


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--questions", "{place}/nowhere.txt"), "nowhere.txt: there is no such file of questions"),
        (("--questions", "{place}"), "is a folder; give a file with a question a line"),
        (("--model", "{place}/narrow.txt"), "narrow.txt"),
        (("--sample", "1"), "--sample"),
        (("--index", "{place}/empty"), "holds no documents yet; index some first"),
        (("--index", "{place}/nowhere"), "nowhere"),
    ],
)
def test_bad_input_is_one_line(
    place: Path,
    arguments: tuple[str, ...],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled = [argument.format(place=place) for argument in arguments]
    index = ["--index", str(place / "index-wide")]
    monkeypatch.setattr("sys.argv", ["surprise-rerank", "diagnose", *index, *filled])
    with pytest.raises(SystemExit) as leaving:
        main()
    out, err = capsys.readouterr()
    assert (leaving.value.code, out) == (2, "")
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert told in err
