"""`surprise-rerank tune weights`: weights from files of judged questions, stored with an index."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from conftest import Opener
from words import WordEncoder

from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS
from surprise_rerank.connectors.systems.building import build_system
from surprise_rerank.connectors.systems.fitted_weights import (
    delete_weights,
    fitted_weights,
    has_weights,
    load_weights,
    store_weights,
)
from surprise_rerank.documents import Document
from surprise_rerank.errors import DataError, DatasetError, IndexMismatchError
from surprise_rerank.eval.cli.surprise_rerank.main import command
from surprise_rerank.eval.questions import read_judged_questions, read_judgements
from surprise_rerank.rerank.weight_fitting import WeightFit

PAIRS = 40
FILLERS = 12

Call = Callable[..., Result]

FOUND = WeightFit({"bm25": 0.2, "cosine": 1.3}, {"bm25": 0.5, "cosine": 1.0}, True, 40, 40, 0.4, 0.5, 0.02)


def _vectors() -> list[str]:
    """Words in pairs that mean the same, and fillers."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(PAIRS):
        meaning = rng.normal(size=24)
        rows += [(f"{word}{i}", meaning + 0.02 * rng.normal(size=24)) for word in ("ask", "say")]
    rows += [(f"filler{i}", rng.normal(size=24)) for i in range(FILLERS)]
    return [f"{word} {' '.join(f'{x:.4f}' for x in vector)}" for word, vector in rows]


def _documents() -> list[str]:
    """One that repeats a question's word among others, and one that says the same in another word."""
    rng = np.random.default_rng(1)
    texts = {}
    for i in range(PAIRS):
        own = " ".join(f"filler{k}" for k in rng.integers(FILLERS, size=6))
        texts[f"repeats{i}"] = f"ask{i} {own}"
        texts[f"answers{i}"] = f"say{i} filler{rng.integers(FILLERS)}"
    return [json.dumps({"id": name, "text": text}) for name, text in texts.items()]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index in which the words of a question mislead, and judged questions."""
    folder = tmp_path_factory.mktemp("fit")
    (folder / "words.txt").write_text("\n".join(_vectors()))
    (folder / "docs.jsonl").write_text("\n".join(_documents()))
    lines = [json.dumps({"_id": f"q{i}", "text": f"ask{i}"}) for i in range(PAIRS)]
    (folder / "queries.jsonl").write_text("\n".join(lines))
    rows = [f"q{i}\tanswers{i}\t1" for i in range(PAIRS)]
    (folder / "train.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    (folder / "few.tsv").write_text("\n".join(rows[:5]))
    (folder / "elsewhere.tsv").write_text("\n".join(f"q{i}\tnowhere{i}\t1" for i in range(PAIRS)))
    (folder / "strange.tsv").write_text("stranger\tanswers0\t1")
    options = ["--model", str(folder / "words.txt"), "--index", str(folder / "index")]
    made = CliRunner().invoke(command, ["index", str(folder / "docs.jsonl"), *options])
    assert made.exit_code == 0, made.output
    return folder


@pytest.fixture
def run(place: Path) -> Call:
    def call(*arguments: str) -> Result:
        return CliRunner().invoke(command, [*arguments, "--index", str(place / "index")])

    return call


@pytest.fixture
def files(place: Path) -> Callable[[str], list[str]]:
    return lambda qrels: ["--questions", str(place / "queries.jsonl"), "--qrels", str(place / qrels)]


def values(result: Result) -> dict:
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


@pytest.mark.parametrize("system", ["auto", "fusion"])
def test_weights_are_stored_shown_and_forgotten(run: Call, files, system: str):
    made = values(run("tune", "weights", *files("train.tsv"), "--system", system, "--json"))
    assert (made["accepted"], made["stored"]) == (True, True)
    assert made["after"] > made["before"] + made["error"]
    assert made["weights"]["bm25"] < made["start"]["bm25"]
    (shown,) = values(run("status", "--json"))["weights"]
    assert (shown["system"], shown["weights"], shown["questions"]) == (system, made["weights"], PAIRS)
    assert f"weights of {system}" in run("status").stdout
    again = values(run("tune", "weights", *files("train.tsv"), "--system", system, "--json"))
    assert again == made  # a fit does not begin with what an earlier one found
    forgotten = run("tune", "weights", "--reset", "--system", system)
    assert f"weights of {system} forgotten" in forgotten.stdout
    assert values(run("status", "--json"))["weights"] == []
    refused = run("tune", "weights", "--reset", "--system", system)
    assert f"no fitted weights of the system '{system}'" in str(refused.exception)


def test_few_questions_change_nothing(run: Call, files):
    told = run("tune", "weights", *files("few.tsv"))
    assert told.exit_code == 0
    assert "the weights stay as they are: 5 of 5 questions have a relevant document" in told.stdout
    assert values(run("status", "--json"))["weights"] == []
    told = run("tune", "weights", *files("elsewhere.tsv"))  # judgements of another corpus are suspected
    assert told.exit_code == 0
    assert "are the ids of --qrels those of the index?" in told.stderr


def test_what_is_wrong_is_told(run: Call, files, tmp_path: Path):
    for arguments, expected in (
        (["tune", "weights"], "give both --questions FILE and --qrels FILE, or --reset"),
        (["tune", "weights", *files("few.tsv")[:2]], "give both --questions FILE"),
        (["tune", "weights", "--reset", *files("few.tsv")], "--reset goes without"),
        (
            ["tune", "weights", *files("strange.tsv")],
            "1 of 1 judged questions have no text",
        ),
        (["tune", "weights", *files("missing.tsv")], "does not exist"),
        (["tune", "weights", *files("few.tsv"), "--system", "cosine"], "'cosine' is not one of"),
    ):
        refused = run(*arguments)
        assert refused.exit_code != 0
        assert expected in refused.output + str(refused.exception)


# Files


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("q.jsonl", '{"_id": "1", "text": "why"}\n\n{"_id": "2", "text": "how", "metadata": {}}\n'),
        ("q.tsv", "1\twhy\n\n2\thow\n"),
        ("qrels", "query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t0\n"),
        ("qrels", "1\ta\t2\n1\tb\t0\n"),
        ("qrels", "1 0 a 2\n\n1 0 b 0\n"),
        ("qrels", "1\tQ0\ta\t2\n1\tQ0\tb\t0"),
    ],
)
def test_questions_and_judgements_are_read_in_all_forms(tmp_path: Path, name: str, content: str):
    (tmp_path / name).write_text(content)
    if name == "qrels":
        assert read_judgements(tmp_path / name) == {"1": {"a": 2, "b": 0}}
    else:
        assert read_judged_questions(tmp_path / name) == {"1": "why", "2": "how"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("qrels.txt", "", "holds no judgement"),
        ("qrels.txt", "1 0 a many", "line 1: invalid literal for int.*'many', expected question"),
        ("qrels.txt", "1 0 a 1\n1 0 a 0", "line 2: '1' and 'a' are judged 1 before"),
        ("qrels.txt", "1 0 a 1\n1 a 1", "line 2: not enough values"),
        ("qrels.txt", "1 a 1", "3 columns between tabs, the score an integer"),
        ("q.jsonl", "", "holds no question"),
        ("q.jsonl", "why?", "not valid JSON"),
        ("q.tsv", "1\twhy\n1\thow", "line 2: the question '1' comes twice"),
        ("q.tsv", "why", "line 1: .*expected id and question"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, name: str, content: str, message: str):
    (tmp_path / name).write_text(content)
    with pytest.raises((DataError, DatasetError), match=message):
        (read_judgements if name == "qrels.txt" else read_judged_questions)(tmp_path / name)


# Weights beside an index


def test_weights_survive_a_restart_everywhere(open_index: Opener):
    with open_index(WordEncoder()) as index:
        index.sync([Document("a", "wing lift")])
        assert load_weights(index, "auto") is None
        kept = store_weights(index, "auto", FOUND)
        store_weights(index, "fusion", FOUND)
        delete_weights(index, "fusion")
    with open_index(WordEncoder()) as index:
        assert load_weights(index, "auto") == FOUND.weights
        assert fitted_weights(index, "auto") == kept
        assert not has_weights(index, "fusion")
        assert str(kept) == (
            "bm25 0.20, cosine 1.30; fitted on 40 questions, nDCG@10 0.4000 -> 0.5000 on held-back ones"
        )


def test_weights_of_parts_that_auto_had_before_are_left_out_and_told(open_index: Opener):
    with open_index(WordEncoder()) as index:
        index.sync([Document("a", "wing lift")])
        store_weights(index, "auto", replace(FOUND, weights={**FOUND.weights, "feedback": 1.2}))
        built = build_system("auto", index)
        assert "of an earlier form and are left out; fit them again" in built.reranking
        assert not built.reranker.weights
        store_weights(index, "auto", FOUND)
        assert build_system("auto", index).reranker.weights == FOUND.weights


def test_a_new_version_of_an_index_begins_without_weights(open_index: Opener):
    with open_index(WordEncoder()) as index:
        index.sync([Document("a", "wing lift")])
        store_weights(index, "auto", FOUND)
        index.rebuild([Document("a", "wing lift")])
        assert load_weights(index, "auto") is None


def test_weights_of_another_model_are_refused(open_index: Opener):
    with open_index(WordEncoder()) as index:
        store_weights(index, "auto", FOUND)
        content = index.storage.read_file("weights-auto.json")
        assert content is not None
        other = {**json.loads(content), "model": "other", "fingerprint": "1"}
        index.storage.write_file("weights-auto.json", json.dumps(other).encode())
        with pytest.raises(IndexMismatchError, match=r"fitted with the model 'other' \(1\).*--reset"):
            load_weights(index, "auto")


DAMAGED = [b"{", b"[]", b"{}", b'{"format": 2}', b'{"format": 1, "weights": 3}', b"\xff"]


def test_damaged_weights_are_refused(open_index: Opener):
    with open_index(WordEncoder()) as index:
        store_weights(index, "auto", FOUND)
        content = json.loads(index.storage.read_file("weights-auto.json") or b"")
        wrong = [{**content, "weights": {"bm25": own}} for own in (math.nan, math.inf, "many", None)]
        for damaged in (*DAMAGED, *(json.dumps(own).encode() for own in wrong)):
            index.storage.write_file("weights-auto.json", damaged)
            with pytest.raises(DataError, match=r"fit the(m| weights) again"):
                load_weights(index, "auto")


def test_a_damaged_file_is_told_and_a_new_fit_replaces_it(run: Call, files, place: Path):
    assert values(run("tune", "weights", *files("train.tsv"), "--json"))["stored"]
    (kept,) = place.rglob("weights-auto.json")
    kept.write_text("{")
    (told,) = values(run("status", "--json"))["weights"]
    assert "is damaged; fit the weights again" in told["error"]
    assert "is damaged" in run("status").stdout
    assert values(run("tune", "weights", *files("train.tsv"), "--json"))["stored"]
    assert json.loads(kept.read_text())["system"] == "auto"
    assert run("tune", "weights", "--reset").exit_code == 0


def test_a_declined_fit_tells_that_earlier_weights_are_in_use(run: Call, files):
    assert values(run("tune", "weights", *files("train.tsv"), "--json"))["stored"]
    declined = values(run("tune", "weights", *files("few.tsv"), "--json"))
    assert (declined["accepted"], declined["earlier_in_use"]) == (False, True)
    assert "still in use" in run("tune", "weights", *files("few.tsv")).output
    assert run("tune", "weights", "--reset").exit_code == 0


def test_weights_without_words_leave_those_of_words_alone(tmp_path: Path):
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync([Document(str(i), f"word{i} other") for i in range(20)])
        found = replace(FOUND, weights={"cosine": 1.2, "dynamax": 0.8})
        store_weights(index, "fusion", found)
        built = build_system("fusion", index, NO_OPTIONS, None)
        assert built.reranker.weights == {"bm25": 0.5, "cosine": 1.2, "dynamax": 0.8}


def test_weights_that_were_declined_are_not_stored(open_index: Opener):
    with open_index(WordEncoder()) as index:
        declined = WeightFit(FOUND.start, FOUND.start, False, 40, 40, 0.4, 0.39, 0.02)
        with pytest.raises(DataError, match="only weights that rank held-back questions better are stored"):
            store_weights(index, "auto", declined)
        assert not has_weights(index, "auto")
