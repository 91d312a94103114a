"""`surprise-rerank tune background`, and searches that leave out what does not surprise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.surprise_rerank.main import command

WORDS = ("wing", "lift", "drag", "flow", "heat", "wave", "beam", "load")
OTHERS = ("tea", "milk", "bread", "salt", "jam", "egg", "rye", "pot")

Call = Callable[..., Result]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with word vectors, an index of documents about flying, and questions about breakfast."""
    folder = tmp_path_factory.mktemp("background")
    rng = np.random.default_rng(0)
    rows = [f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=16))}" for word in (*WORDS, *OTHERS)]
    (folder / "words.txt").write_text("\n".join(rows))
    texts = [f"{a} {b}" for a in WORDS for b in WORDS if a < b]
    lines = [json.dumps({"id": str(i), "text": text}) for i, text in enumerate(texts)]
    (folder / "docs.jsonl").write_text("\n".join(lines))
    (folder / "others.txt").write_text("\n".join(f"{a} {b}" for a in OTHERS for b in OTHERS if a < b))
    runner = CliRunner()
    made = runner.invoke(
        command,
        [
            "index",
            str(folder / "docs.jsonl"),
            "--model",
            str(folder / "words.txt"),
            "--index",
            str(folder / "index"),
        ],
    )
    assert made.exit_code == 0, made.output
    return folder


@pytest.fixture
def run(place: Path) -> Call:
    def call(*arguments: str, text: str | None = None) -> Result:
        return CliRunner().invoke(command, [*arguments, "--index", str(place / "index")], input=text)

    return call


def values(result: Result) -> dict:
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def test_off_topic_questions_get_no_answer_any_more(run: Call, place: Path):
    made = values(run("tune", "background", "--questions", str(place / "others.txt"), "--json"))
    assert (made["questions"], made["documents"]) == (28, 28)
    assert "cosine" in made["scorers"]
    (shown,) = values(run("status", "--json"))["backgrounds"]
    assert shown == {"stale": "", **{name: own for name, own in made.items() if name != "index"}}
    found = values(run("search", "wing lift", "--min-surprise", ".95", "--json"))["hits"]
    assert found[0]["surprise"] >= 0.95
    nothing = run("search", "tea pot", "--min-surprise", ".95")
    assert nothing.exit_code == 0
    assert nothing.stdout == ""
    assert "\noff-topic: the best document is above that of" in nothing.stderr
    assert "95 % are asked for" in nothing.stderr
    assert "nothing is shown; a lower --min-surprise shows more" in nothing.stderr
    assert values(run("search", "tea pot", "--json"))["hits"][0]["surprise"] < 0.95


def test_the_verdict_is_in_json_and_before_the_lines(run: Call, place: Path, tmp_path: Path):
    values(run("tune", "background", "--questions", str(place / "others.txt"), "--json"))
    on = values(run("search", "wing lift", "--json"))
    reason = "28 documents are too few to tell; it takes 100"
    assert on["verdict"] == {"status": "unknown", "chance": None, "reason": reason}
    said = run("search", "-", "--min-surprise", ".9", text="wing lift\ntea pot\n").stderr.splitlines()
    assert said[1] == f"wing lift: unknown: {reason}"
    assert said[2].startswith("tea pot: off-topic: the best document is above that of ")
    explained = values(run("search", "tea pot", "--explain", "--json"))
    assert explained["verdict"] == on["verdict"]
    assert f"Unknown: {reason}." in run("search", "tea pot", "--explain").stderr


def test_people_see_the_surprise_and_the_score_where_they_ask_for_it(run: Call, place: Path):
    values(run("tune", "background", "--questions", str(place / "others.txt"), "--json"))
    hit = values(run("search", "wing lift", "--json"))["hits"][0]
    names, *shown = run("search", "wing lift", "--top", "1").stdout.splitlines()
    (first,) = [line.split("\t") for line in shown]
    assert names.split("\t")[:2] == ["rank", "surprise"]
    assert names.split("\t")[2] == "score"
    assert first[:3] == ["1", "0.9655", f"{hit['score']:.4f}"]  # 28 of 29, rounded down
    assert hit["surprise"] == pytest.approx(28 / 29)


def test_each_system_has_its_own(run: Call, place: Path):
    given = ("tune", "background", "--questions", str(place / "others.txt"), "--system", "cosine")
    values(run(*given, "--json"))
    names = [own["system"] for own in values(run("status", "--json"))["backgrounds"]]
    assert "cosine" in names
    told = run(*given).stdout
    assert "--min-surprise 0.95 lets 5 % through, 95 % interval 0.09 to 12" in told
    assert run("tune", "background", "--reset", "--system", "cosine").exit_code == 0
    refused = run("tune", "background", "--reset", "--system", "cosine")
    assert isinstance(refused.exception, DataError)
    assert "see 'status'" in str(refused.exception)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("tune", "background", "--questions", "nowhere.txt"), "there is no such file of questions"),
        (("search", "wing", "--min-surprise", ".99"), "give at least 99"),
        (("search", "wing", "--min-surprise", "2"), "0<=x<=1"),
        (("search", "wing", "--system", "bm25", "--min-surprise", ".5"), "for the system 'bm25'"),
    ],
)
def test_what_is_wrong_is_told(run: Call, place: Path, arguments: tuple[str, ...], told: str):
    values(run("tune", "background", "--questions", str(place / "others.txt"), "--json"))
    refused = run(*arguments)
    assert refused.exit_code != 0
    assert told in refused.output + str(refused.exception)


def test_too_few_questions_are_refused_and_change_nothing(run: Call, place: Path, tmp_path: Path):
    values(run("tune", "background", "--questions", str(place / "others.txt"), "--json"))
    before = values(run("status", "--json"))
    few = tmp_path / "few.txt"
    few.write_text("tea\nmilk\n")
    refused = run("tune", "background", "--questions", str(few))
    assert "2 of 2 background questions found candidates; give at least 10" in str(refused.exception)
    assert values(run("status", "--json")) == before
