"""`surprise-rerank tune`: backgrounds and weights from files of questions, and searches with them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.bench import error_line
from helpers.bench import run as run_command
from helpers.words import WordEncoder

from surprise_rerank import DataError, DatasetError, Document, IndexMismatchError
from surprise_rerank.connectors.qdrant._hybrid import NO_WORD
from surprise_rerank.connectors.systems import build_system
from surprise_rerank.connectors.systems._fitted_weights import (
    delete_weights,
    fitted_weights,
    has_weights,
    load_weights,
    store_weights,
)
from surprise_rerank.core._json_values import sealed, unsealed
from surprise_rerank.eval.line_files import read_judged_questions, read_judgements
from surprise_rerank.rerank import WeightFit
from surprise_rerank.rerank._auto import AUTO

PAIRS, FILLERS = 40, 12
OTHERS = ("tea", "milk", "bread", "salt", "jam", "egg", "rye", "pot")
FOUND = WeightFit({"bm25": 0.2, "cosine": 1.3}, {"bm25": 0.5, "cosine": 1.0}, True, 40, 40, 0.4, 0.5, 0.02)

Run = Callable[..., tuple[int, str, str]]


def _vectors() -> Iterator[str]:
    """Words in pairs that mean the same, fillers, and words of no document."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(PAIRS):
        meaning = rng.normal(size=24)
        rows += [(f"{word}{i}", meaning + 0.02 * rng.normal(size=24)) for word in ("ask", "say")]
    rows += [(word, rng.normal(size=24)) for word in (*(f"filler{i}" for i in range(FILLERS)), *OTHERS)]
    return (f"{word} {' '.join(f'{x:.4f}' for x in vector)}" for word, vector in rows)


def _documents() -> Iterator[str]:
    """One that repeats a question's word among others, and one that says the same in another word."""
    rng = np.random.default_rng(1)
    for i in range(PAIRS):
        filler = " ".join(f"filler{k}" for k in rng.integers(FILLERS, size=6))
        yield json.dumps({"id": f"repeats{i}", "text": f"ask{i} {filler}"})
        yield json.dumps({"id": f"answers{i}", "text": f"say{i} filler{rng.integers(FILLERS)}"})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index in which the words of a question mislead, judged questions, and questions about breakfast."""
    folder = tmp_path_factory.mktemp("tune")
    qrels = [f"q{i}\tanswers{i}\t1" for i in range(PAIRS)]
    for name, lines in {
        "words.txt": _vectors(),
        "docs.jsonl": _documents(),
        "queries.jsonl": [json.dumps({"_id": f"q{i}", "text": f"ask{i}"}) for i in range(PAIRS)],
        "train.tsv": ["query-id\tcorpus-id\tscore", *qrels],
        "few.tsv": qrels[:5],
        "elsewhere.tsv": [f"q{i}\tnowhere{i}\t1" for i in range(PAIRS)],
        "strange.tsv": ["stranger\tanswers0\t1"],
        "others.txt": [f"{a} {b}" for a, b in combinations(OTHERS, 2)],
        "short.txt": OTHERS[:2],
    }.items():
        (folder / name).write_text("\n".join(lines))
    command = ("index", folder / "docs.jsonl", "--model", folder / "words.txt", "--index", folder / "index")
    code, _, err = run_command(*command, "--set", "background=no")
    assert code == 0, err
    return folder


@pytest.fixture
def run(place: Path) -> Run:
    return lambda *arguments, **more: run_command(*arguments, "--index", place / "index", **more)


@pytest.fixture
def values(run: Run) -> Callable[..., dict[str, Any]]:
    def call(*arguments: str) -> dict[str, Any]:
        code, out, err = run(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    return call


@pytest.fixture
def files(place: Path) -> Callable[[str], list[str]]:
    return lambda qrels: ["--questions", str(place / "queries.jsonl"), "--qrels", str(place / qrels)]


@pytest.fixture
def others(place: Path) -> list[str]:
    return ["tune", "background", "--questions", str(place / "others.txt")]


@pytest.mark.parametrize("system", ["auto", "fusion"])
def test_weights_are_stored_shown_and_forgotten(run, values, files, system):
    learn = ["tune", "weights", *files("train.tsv"), "--system", system]
    fitted = values(*learn)
    assert fitted["accepted"]
    assert fitted["after"] > fitted["before"] + fitted["error"]
    assert fitted["weights"]["bm25"] < fitted["start"]["bm25"]
    (shown,) = values("status")["weights"]
    assert (shown["system"], shown["weights"], shown["questions"]) == (system, fitted["weights"], PAIRS)
    assert f"weights of {system}" in run("status")[1]
    assert values(*learn) == fitted  # a fit does not begin with what an earlier one found
    assert values("tune", "weights", "--reset", "--system", system)["forgotten"] == system
    assert values("status")["weights"] == []


def test_a_declined_fit_changes_nothing(run, values, files):
    code, out, _ = run("tune", "weights", *files("few.tsv"))
    assert code == 0
    assert "the weights stay as they are: 5 of 5 questions have a relevant document" in out
    assert values("status")["weights"] == []
    # Judgements of another corpus are suspected.
    assert "are the ids of --qrels those of the index?" in run("tune", "weights", *files("elsewhere.tsv"))[2]
    assert values("tune", "weights", *files("train.tsv"))["accepted"]
    declined = values("tune", "weights", *files("few.tsv"))
    assert (declined["accepted"], declined["earlier_in_use"]) == (False, True)
    assert run("tune", "weights", "--reset")[0] == 0


def test_a_damaged_file_is_told_and_a_new_fit_replaces_it(run, values, files, place):
    assert values("tune", "weights", *files("train.tsv"))["accepted"]
    (kept,) = place.rglob("weights-auto.json")
    kept.write_text("{")
    (weights,) = values("status")["weights"]
    assert "is damaged, or of another format; fit the weights again" in weights["error"]
    assert "is damaged" in run("status")[1]
    assert values("tune", "weights", *files("train.tsv"))["accepted"]
    assert run("tune", "weights", "--reset")[0] == 0


def test_off_topic_questions_get_no_answer_any_more(run, values, others):
    measured = values(*others)
    assert (measured["questions"], measured["documents"]) == (28, 2 * PAIRS)
    (shown,) = values("status")["backgrounds"]
    assert shown == {"stale": "", **{name: value for name, value in measured.items() if name != "index"}}
    hits = values("search", "ask1 say1", "--min-percentile", ".95")["hits"]
    assert hits[0]["percentile"] == pytest.approx(28 / 29)
    code, out, err = run("search", "tea pot", "--min-percentile", ".95")
    assert (code, out) == (0, "")
    assert "off-topic: the best document is above that of" in err
    assert "nothing is shown; a lower --min-percentile shows more" in err
    assert values("search", "tea pot")["hits"][0]["percentile"] < 0.95


def test_the_verdict_and_the_percentile_are_in_every_form(run, values, others):
    values(*others)
    answer = values("search", "ask1 say1")
    reason = f"{2 * PAIRS} documents are too few to tell; it takes 100"
    assert answer["verdict"] == {"status": "unknown", "chance": None, "reason": reason}
    said = run("search", "-", "--min-percentile", ".9", text=b"ask1 say1\ntea pot\n")[2].splitlines()
    assert said[1] == f"ask1 say1: unknown: {reason}"
    assert said[2] == NO_WORD
    assert said[3].startswith("tea pot: off-topic: the best document is above that of ")
    assert values("search", "ask1 say1", "--explain")["verdict"] == answer["verdict"]
    assert f"Unknown: {reason}." in run("search", "ask1 say1", "--explain")[2]
    names, row = (line.split("\t") for line in run("search", "ask1 say1", "--top", "1")[1].splitlines())
    assert names[:3] == ["rank", "percentile", "score"]
    assert row[:3] == ["1", "0.9655", f"{answer['hits'][0]['score']:.4f}"]  # 28 of 29, rounded down


def test_each_system_has_a_background_of_its_own(run, values, others):
    values(*others)
    printed = run(*others, "--system", "cosine")[1]
    assert "--min-percentile 0.95 lets 5 % through, 95 % interval 0.09 to 12" in printed
    assert [entry["system"] for entry in values("status")["backgrounds"]] == ["auto", "cosine"]
    assert values("tune", "background", "--reset", "--system", "cosine")["forgotten"] == ["cosine"]
    assert values("tune", "background", "--reset")["forgotten"] == ["auto"]


WRONG_USES = {
    "tune weights --questions {}/queries.jsonl --qrels {}/strange.tsv": "got 'stranger'",
    "tune weights --questions {}/none.jsonl --qrels {}/few.tsv": "none.jsonl",
    "tune background --questions {}/short.txt": "2 of 2 background questions found candidates; give",
    "search ask1 --min-percentile .99": "give at least 99",
    "search ask1 --min-percentile 2": "0<=x<=1",
    "search ask1 --system bm25 --min-percentile .5": "for the system 'bm25'",
}


def test_what_is_wrong_is_told_and_changes_nothing(run, values, others, place):
    values(*others)
    before = values("status")
    for command, message in WRONG_USES.items():
        assert message in error_line(run(*command.replace("{}", str(place)).split(), "-q")), command
    assert values("status") == before


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
def test_questions_and_judgements_are_read_in_all_forms(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    if name == "qrels":
        assert read_judgements(tmp_path / name) == {"1": {"a": 2, "b": 0}}
    else:
        assert read_judged_questions(tmp_path / name) == {"1": "why", "2": "how"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("qrels.txt", "", "holds no judgement"),
        ("qrels.txt", "1 0 a many", r"txt:1: expected .*the score an integer, got '1 \| a \| many'"),
        (
            "qrels.txt",
            "1 0 a 1\n1 0 a 0",
            "txt:2: question '1' and document 'a' are judged 0 here and 1 before",
        ),
        ("qrels.txt", "1 0 a 1\n1 a 1", "txt:2: expected .*3 columns between tabs"),
        ("qrels.txt", "1 a 1", "3 columns between tabs, the score an integer"),
        ("q.jsonl", "", "holds no question"),
        ("q.jsonl", "why?", "not valid JSON"),
        ("q.tsv", "1\twhy\n1\thow", "line 2: the question '1' comes twice"),
        ("q.tsv", "why", "line 1: .*expected id and question"),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises((DataError, DatasetError), match=message):
        (read_judgements if name == "qrels.txt" else read_judged_questions)(tmp_path / name)


# Weights beside an index


def test_weights_survive_a_restart_and_end_with_a_version(open_index):
    with open_index(WordEncoder()) as index:
        index.sync([Document("a", "wing lift")])
        assert load_weights(index.corpus, "auto") is None
        kept = store_weights(index.corpus, "auto", FOUND)
        store_weights(index.corpus, "fusion", FOUND)
        delete_weights(index.corpus, "fusion")
    with open_index(WordEncoder()) as index:
        assert load_weights(index.corpus, "auto") == FOUND.weights
        assert fitted_weights(index.corpus, "auto") == kept
        assert not has_weights(index.corpus, "fusion")
        index.rebuild([Document("a", "wing lift")])
        assert load_weights(index.corpus, "auto") is None


def test_a_system_takes_what_its_parts_can_use(open_index):
    with open_index(WordEncoder()) as index:
        index.sync([Document(str(i), f"word{i} other") for i in range(20)])
        store_weights(index.corpus, "auto", replace(FOUND, weights={**FOUND.weights, "words": 1.2}))
        built = build_system("auto", index.corpus)
        assert "of other scorers and are left out; fit them again" in built.reranking
        assert built.reranker.weights == AUTO.weights
        store_weights(index.corpus, "auto", FOUND)
        assert build_system("auto", index.corpus).reranker.weights == {**AUTO.weights, **FOUND.weights}
        # Weights without words leave those of words alone.
        store_weights(index.corpus, "fusion", replace(FOUND, weights={"cosine": 1.2, "dynamax": 0.8}))
        weights = build_system("fusion", index.corpus).reranker.weights
        assert weights == {"bm25": 0.5, "cosine": 1.2, "dynamax": 0.8}


OTHER_MODEL = r"fitted with the model 'other' \(1\).*--reset"
DAMAGED = (b"{", b"[]", b"{}", b'{"format": 2}', b'{"format": 1, "weights": 3}', b"\xff")
WRONG = (b"NaN, 0.", b"1.", b'"many"', b"null")


def test_weights_that_are_declined_damaged_or_of_another_model_are_refused(open_index):
    with open_index(WordEncoder()) as index:
        declined = WeightFit(FOUND.start, FOUND.start, False, 40, 40, 0.4, 0.39, 0.02)
        with pytest.raises(DataError, match="only weights that rank held-back questions better are stored"):
            store_weights(index.corpus, "auto", declined)
        assert not has_weights(index.corpus, "auto")
        store_weights(index.corpus, "auto", FOUND)
        whole = index.corpus.storage.read_file("weights-auto.json") or b""
        content = unsealed(whole, 1, "weights", "fit them")
        numbers = [whole.replace(b"0.", wrong, 1) for wrong in WRONG]
        broken = dict.fromkeys((*DAMAGED, *numbers, sealed(content, 2)), "fit the weights again")
        broken[sealed({**content, "model": "other", "fingerprint": "1"}, 1)] = OTHER_MODEL
        for damaged, message in broken.items():
            assert damaged != whole
            index.corpus.storage.write_file("weights-auto.json", damaged)
            with pytest.raises((DataError, IndexMismatchError), match=message):
                load_weights(index.corpus, "auto")
