"""`surprise-rerank similar` as a user meets it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from bs4 import BeautifulSoup
from interrupted import interrupted
from qdrant_rest import QdrantRest
from test_commands import Bench, corpus, error_line, write_model, write_rows
from words import WordEncoder

from surprise_rerank.connectors.readers import open_documents
from surprise_rerank.connectors.similar import folder, neighbour_batches
from surprise_rerank.connectors.similar.encoding import Vectors
from surprise_rerank.connectors.similar.groups import DUPLICATE
from surprise_rerank.connectors.similar.neighbour_batches import Documents, neighbours
from surprise_rerank.connectors.similar.settings import Mode, Similarity, SimilaritySettings
from surprise_rerank.core.extras import is_installed
from surprise_rerank.documents import Document
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.encoders.static import StaticEncoder
from surprise_rerank.errors import DataError, ModelError
from surprise_rerank.eval.cli.arguments.similarity import SimilarityArguments, WorkerArguments

pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in ("QDRANT_URL", "QDRANT_API_KEY", "QDRANT_FROM_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


class Desk(Bench):
    """A bench with a result."""

    @property
    def out(self) -> Path:
        return self.folder / "out.jsonl"

    def compare(self, *arguments: str | Path) -> dict[str, Any]:
        """The summary of a comparison."""
        return self.json("similar", *self._given(arguments))

    def refused(self, *arguments: str | Path) -> str:
        """The line that tells what is wrong."""
        line = error_line(self.run("similar", *self._given(arguments)))
        assert not self.out.exists()
        return line

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.read_text("utf-8").splitlines()]

    def _given(self, arguments: tuple[str | Path, ...]) -> list[str | Path]:
        defaults: list[str | Path] = []
        if "--model" not in arguments and "--from-index" not in arguments:
            defaults += ["--model", self.model]
        if "--out" not in arguments:
            defaults += ["--out", self.out]
        return [self.documents if argument == "DOCS" else argument for argument in arguments] + defaults


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were encoded."""
    texts: list[str] = []
    encode = StaticEncoder.encode

    def counted(self: StaticEncoder, own: list[str], *arguments: Any, **options: Any) -> Any:
        texts.extend(own)
        return encode(self, own, *arguments, **options)

    monkeypatch.setattr(StaticEncoder, "encode", counted)
    return texts


def never(*_: object, **__: object) -> None:
    raise AssertionError("nothing is to be computed")


def files(place: Path) -> set[str]:
    return {path.name for path in place.iterdir()}


class TestResults:
    def test_every_document_has_its_ten_neighbours_and_nothing_else_stays(self, desk: Desk) -> None:
        before = files(desk.folder)
        done = desk.compare("DOCS")
        assert {name: done[name] for name in ("documents", "against", "pairs", "groups", "skipped")} == {
            "documents": 30,
            "against": None,
            "pairs": 300,
            "groups": None,
            "skipped": [],
        }
        assert done["model"] == str(desk.model)
        assert done["seconds_encoding"] > 0
        assert done["seconds_comparing"] > 0
        rows = desk.rows()
        assert [row["document"] for row in rows] == [f"d{i // 10}" for i in range(300)]
        assert [row["rank"] for row in rows] == list(range(1, 11)) * 30
        assert list(rows[0]) == ["document", "neighbour", "rank", "surprise", "probability", "cosine"]
        assert all(row["document"] != row["neighbour"] for row in rows)
        assert files(desk.folder) == before | {"out.jsonl"}

    def test_the_summary_is_for_people_too(self, desk: Desk) -> None:
        arguments = ("similar", desk.documents, "--model", desk.model, "--out", desk.out, "--groups", "g.csv")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(desk.folder)
            code, out, err = desk.run(*arguments, "-k", "2")
        assert (code, err) == (0, "")
        first, second, third = out.splitlines()
        assert first == f"{desk.out}: 60 pairs of 30 documents"
        assert second.startswith("g.csv: ")
        assert third.startswith("encoded in ")

    def test_k_and_above_bound_pairs_each_alone_and_together(self, desk: Desk) -> None:
        assert desk.compare("DOCS", "-k", "3")["pairs"] == 90
        three = desk.rows()
        assert desk.compare("DOCS", "--above", "1.5")["pairs"] > 0
        above = desk.rows()
        assert min(row["surprise"] for row in above) >= 1.5
        desk.compare("DOCS", "-k", "3", "--above", "1.5")
        assert desk.rows() == [row for row in three if row["surprise"] >= 1.5]
        assert desk.rows() == [row for row in above if row["rank"] <= 3]

    @pytest.mark.parametrize("similarity", ["dynamax", "both"])
    def test_surprise_over_dynamax(self, desk: Desk, similarity: str) -> None:
        pool = ("--pool", "29") if similarity == "both" else ()
        assert desk.compare("DOCS", "--similarity", similarity, "-k", "4", *pool)["pairs"] == 120
        names = set(desk.rows()[0])
        assert names - {"document", "neighbour", "rank", "surprise", "probability"} == (
            {"dynamax"} if similarity == "dynamax" else {"cosine", "dynamax"}
        )
        both = [(row["document"], row["neighbour"], row["surprise"]) for row in desk.rows()]
        desk.compare("DOCS", "--similarity", "dynamax", "-k", "4")
        assert both == [(row["document"], row["neighbour"], row["surprise"]) for row in desk.rows()]

    def test_one_corpus_against_another_with_the_same_ids(self, desk: Desk, tmp_path: Path) -> None:
        others = write_rows(tmp_path / "others.jsonl", corpus(7)[::-1])
        (tmp_path / "letters").mkdir()
        (tmp_path / "letters" / "a.txt").write_text("owners of dogs")
        done = desk.compare("DOCS", "--against", others, "--against", tmp_path / "letters", "-k", "8")
        assert (done["documents"], done["against"], done["pairs"]) == (30, 8, 240)
        rows = desk.rows()
        assert {row["neighbour"] for row in rows} == {*(f"d{i}" for i in range(7)), "a.txt"}
        assert max(row["cosine"] for row in rows if row["document"] == row["neighbour"] == "d3") > 0.999

    def test_a_page_shows_pairs_groups_and_neighbours_with_their_texts(self, desk: Desk) -> None:
        pytest.importorskip("jinja2", reason="the extra 'report' is not installed")
        evil = "<script>document.title = 'pwned'</script>\u202e"
        long = "x" * 2000
        given = [json.loads(line) for line in desk.documents.read_text().splitlines()]
        given[0] |= {"title": f"Dogs {evil} {long}"}
        given.append({**given[0], "id": "twin"})
        source = write_rows(desk.folder / "hostile.jsonl", given)
        page = desk.folder / "page.html"
        named = ("--groups", desk.folder / "g.csv", "-k", "3", "--report", page)
        done = desk.compare(source, *named)
        assert (done["documents"], done["groups"]["groups"] >= 1) == (31, True)
        soup = BeautifulSoup(page.read_text("utf-8"), "html.parser")
        assert len(soup.find_all("script")) == 1
        assert "\u202e" not in page.read_text("utf-8")
        lists = {h2.text: h2.parent for h2 in soup.main.find_all("h2") if h2.parent.ol}
        assert list(lists) == ["Near-duplicates", "The closest pairs", "Documents and their neighbours"]
        group = lists["Near-duplicates"].find_all("li")
        headings = [item.find(class_="heading").text for item in group]
        assert len([heading for heading in headings if heading.startswith("Dogs <script>")]) == 2
        assert {"d0", "twin"} <= {item.find(class_="about").text.split(", ")[-1] for item in group}
        pairs = lists["The closest pairs"].find_all("li")
        assert [item.get("class") for item in pairs] == [None, ["below"]] * (len(pairs) // 2)
        assert re.match(r"pair 1: surprise \d+\.\d, cosine (1)?\.\d{3}", pairs[0].find(class_="about").text)
        assert "with the largest surprise" in lists["The closest pairs"].find(class_="finding").text
        first = lists["Documents and their neighbours"]
        assert len(first.find_all("li")) == 20 * 4
        assert first.find(class_="finding").text.startswith("The first 20 documents with neighbours, of 31.")
        assert given[1]["text"][:40] in first.text
        assert soup.header.find(class_="verdict").text.startswith("The closest pair is ")

    def test_a_page_of_an_index_and_of_two_collections_has_their_texts(self, desk: Desk) -> None:
        other = write_rows(
            desk.folder / "other.jsonl", [{"id": "o1", "title": "Of others", "text": "dogs bark"}]
        )
        page = desk.folder / "page.md"
        desk.compare("DOCS", "--against", other, "--report", page)
        assert "**Of others**" in page.read_text("utf-8")

    @pytest.mark.parametrize(
        ("report", "told"),
        [
            ("none/page.html", "there is no folder {folder}/none; make it, or choose another place"),
            ("page.doc", "no format for the suffix '.doc'"),
            ("docs.md", "--report {folder}/docs.md would be written where {folder}/docs.md is read"),
        ],
    )
    def test_a_page_that_cannot_be_written_is_refused_before_anything_is_read(
        self, desk: Desk, encoded: list[str], report: str, told: str
    ) -> None:
        source = desk.folder / "docs.md"
        source.write_text("# Dogs\n\nDogs bark.\n")
        line = desk.refused(source, "--report", desk.folder / report)
        assert told.format(folder=desk.folder) in line
        assert encoded == []

    def test_groups_of_near_duplicates(self, desk: Desk, tmp_path: Path) -> None:
        write_rows(
            desk.documents, [*corpus(6), {"id": "copy", "title": "Note 3", "text": corpus(4)[3]["text"]}]
        )
        done = desk.compare("DOCS", "--groups", tmp_path / "groups.jsonl", "--duplicate", ".9999")
        assert done["groups"] == {
            "file": str(tmp_path / "groups.jsonl"), "threshold": 0.9999, "groups": 1, "documents": 2
        }  # fmt: skip
        rows = [json.loads(line) for line in (tmp_path / "groups.jsonl").read_text().splitlines()]
        assert rows == [
            {"group": 1, "document": "d3", "size": 2},
            {"group": 1, "document": "copy", "size": 2},
        ]
        assert desk.compare("DOCS", "--groups", tmp_path / "groups.csv")["groups"]["threshold"] == 0.95

    def test_equal_texts_are_duplicates_whatever_rounding_leaves(self, desk: Desk, tmp_path: Path) -> None:
        copies = [{"id": f"c{i}", "text": "owners of dogs bark at cats and birds"} for i in range(6)]
        write_rows(desk.documents, [*corpus(20), *copies])
        done = desk.compare("DOCS", "--groups", tmp_path / "groups.csv", "--duplicate", "1")
        rows = (tmp_path / "groups.csv").read_text().split()
        assert set(rows) >= {f"1,c{i},6" for i in range(6)}
        assert done["groups"]["threshold"] == 1

    def test_columns_formats_and_files_are_chosen_as_for_an_index(self, desk: Desk, tmp_path: Path) -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "news.data").write_text("key,story\n7,dogs bark\n8,cats sleep\n9,birds sing\n")
        fields = ("--id-field", "key", "--text-field", "story", "--format", "csv", "-k", "1")
        assert desk.compare(tmp_path / "data" / "news.data", *fields)["documents"] == 3
        assert {row["document"] for row in desk.rows()} == {"7", "8", "9"}

    def test_a_folder_takes_parts(self, desk: Desk, tmp_path: Path) -> None:
        for _ in range(2):
            desk.compare("DOCS", "--out", f"{tmp_path}/parts/")
            assert files(tmp_path / "parts") == {"_SUCCESS", "_similar.json", "part-0000000.parquet"}
            assert "parts.work" not in files(tmp_path)

    def test_the_device_and_the_number_of_threads_do_not_matter(self, desk: Desk) -> None:
        desk.compare("DOCS")
        rows = desk.out.read_bytes()
        desk.compare("DOCS", "--workers", "3", "--device", "cpu")
        assert desk.out.read_bytes() == rows


class TestWork:
    def test_another_k_in_the_same_folder_encodes_nothing_again(
        self, desk: Desk, encoded: list[str], tmp_path: Path
    ) -> None:
        work = ("--work", tmp_path / "work")
        desk.compare("DOCS", *work, "-k", "2")
        assert len(encoded) == 30
        desk.compare("DOCS", *work, "-k", "5")
        assert len(encoded) == 30
        assert len(desk.rows()) == 150
        kept = desk.out.read_bytes()
        desk.compare("DOCS", "-k", "5")
        assert desk.out.read_bytes() == kept

    def test_token_vectors_that_are_kept_serve_the_cosine(
        self, desk: Desk, encoded: list[str], tmp_path: Path
    ) -> None:
        desk.compare("DOCS", "--work", tmp_path / "work", "--similarity", "both")
        desk.compare("DOCS", "--work", tmp_path / "work")
        assert len(encoded) == 30
        kept = desk.out.read_bytes()
        desk.compare("DOCS")
        assert desk.out.read_bytes() == kept

    def test_other_sources_or_another_model_are_refused(self, desk: Desk, tmp_path: Path) -> None:
        work = ("--work", tmp_path / "work")
        desk.compare("DOCS", *work, "--out", tmp_path / "first.csv")
        other = write_rows(tmp_path / "other.jsonl", corpus(5))
        assert "another job (not the same sources)" in desk.refused(other, *work)
        model = write_model(tmp_path / "words.txt", seed=1)
        assert model == desk.model
        assert "another job (not the same model)" in desk.refused("DOCS", *work)

    def test_changed_documents_are_compared_anew(self, desk: Desk, tmp_path: Path) -> None:
        work = ("--work", tmp_path / "work")
        desk.compare("DOCS", *work)
        write_rows(desk.documents, corpus(12))
        assert desk.compare("DOCS", *work, "-k", "1")["pairs"] == 12

    def unfinished(self, desk: Desk) -> None:
        """Leave what a run does that was killed while it compared."""
        code = (
            "import os, signal\n"
            "from surprise_rerank.connectors.similar.job import SimilarityJob\n"
            "from surprise_rerank.eval.cli.surprise_rerank.main import main\n"
            "SimilarityJob.parts = lambda self: os.kill(os.getpid(), signal.SIGKILL)\n"
            "main()"
        )
        arguments = ["similar", desk.documents, "--model", desk.model, "--out", desk.out]
        done = subprocess.run([sys.executable, "-P", "-c", code, *map(str, arguments)], capture_output=True)
        assert done.returncode == -9, done.stderr

    def test_another_commands_unfinished_work_says_what_to_do(self, desk: Desk, tmp_path: Path) -> None:
        self.unfinished(desk)
        other = write_rows(tmp_path / "other.jsonl", corpus(5))
        error = desk.refused(other)
        assert f"{desk.out}.work holds the unfinished work of another command (not the same sources)" in error
        assert "delete it, or give --work" in error
        assert desk.compare(other, "--work", tmp_path / "work")["documents"] == 5
        desk.out.unlink()
        assert desk.compare("DOCS")["documents"] == 30
        assert not Path(f"{desk.out}.work").exists()

    def test_what_was_only_just_begun_stops_nobody(self, desk: Desk, tmp_path: Path) -> None:
        begun = tmp_path / "out.jsonl.work" / "documents"
        begun.mkdir(parents=True)
        (begun.parent / folder.MARKER).write_text('{"sources": ["gone.jsonl"], "against": [], "model": "x"}')
        (begun / "corpus.json").write_text('{"made_of": {"sources": ["gone.jsonl"]}}')
        assert desk.compare("DOCS")["documents"] == 30

    @pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, DataError])
    def test_a_folder_that_holds_nothing_goes_whatever_happens(
        self, tmp_path: Path, error: type[BaseException]
    ) -> None:
        place = tmp_path / "out.work"

        def fail(made: str) -> None:
            with folder.temporary_folder(place, {}):
                (place / made).mkdir(parents=True)
                raise error

        with pytest.raises(error):
            fail("documents")
        assert files(tmp_path) == set()
        with pytest.raises(error):
            fail("documents/chunk-00000-0000000")
        assert files(tmp_path) == {"out.work"}

    def test_two_runs_do_not_work_in_one_folder(self, desk: Desk, tmp_path: Path) -> None:
        pytest.importorskip("fcntl")
        beside, kept = Path(f"{desk.out}.work"), tmp_path / "kept"
        for place, given, mine in (
            (beside, (), folder.temporary_folder(beside, {})),
            (kept, ("--work", kept), folder.kept_folder(kept)),
        ):
            with mine:
                assert f"another run works in {place}; wait for it" in desk.refused("DOCS", *given)
                assert place.exists()
            assert desk.compare("DOCS", *given)["documents"] == 30
            desk.out.unlink()

    def test_a_killed_runs_lock_goes_with_it(self, desk: Desk) -> None:
        self.unfinished(desk)
        assert desk.compare("DOCS")["documents"] == 30

    def test_a_folder_of_something_else_is_left_alone(self, desk: Desk, tmp_path: Path) -> None:
        mine = tmp_path / "out.jsonl.work"
        mine.mkdir()
        (mine / "letter.txt").write_text("dear")
        assert "was not made by surprise-rerank" in desk.refused("DOCS")
        assert files(mine) == {"letter.txt"}

    def test_an_interruption_says_what_to_do_and_the_same_command_goes_on(self, desk: Desk) -> None:
        write_rows(desk.documents, corpus(2500))
        done = interrupted(10, "similar", desk.documents, "--model", desk.model, "--out", desk.out)
        assert (done.returncode, done.stdout) == (130, "")
        work = f"{desk.out}.work"
        assert done.stderr == (
            f"Interrupted. What is done stays in {work}; run the same command again to go on.\n"
        )
        assert os.path.exists(f"{work}/documents/chunk-00000-0000000/chunk.json")
        assert not desk.out.exists()
        assert desk.compare("DOCS", "-k", "1")["pairs"] == 2500
        assert not os.path.exists(work)


class TestMalformed:
    @pytest.fixture
    def broken(self, desk: Desk) -> Desk:
        lines = desk.documents.read_text().splitlines()
        desk.documents.write_text("\n".join([*lines[:10], '{"id": "x", "tex', *lines[10:29], "[1", ""]))
        return desk

    def test_a_malformed_row_is_an_error_with_its_place(self, broken: Desk) -> None:
        before = files(broken.folder)
        assert "docs.jsonl:11" in broken.refused("DOCS")
        assert files(broken.folder) == before

    def test_skipped_rows_are_counted_with_their_places_again_after_a_resume(
        self, broken: Desk, tmp_path: Path
    ) -> None:
        places = [f"{broken.documents}:{line}" for line in (11, 31)]
        skipped = {"source": str(broken.documents), "reason": "not valid JSON", "count": 2, "places": places}
        arguments = ("DOCS", "--on-error", "skip", "--work", tmp_path / "work", "-k", "1")
        done = broken.compare(*arguments)
        assert (done["documents"], done["skipped"]) == (29, [skipped])
        assert broken.compare(*arguments)["skipped"] == [skipped]
        given = [broken.documents, *arguments[1:], "--model", broken.model, "--out", broken.out]
        code, out, _ = broken.run("similar", *given)
        assert code == 0
        told = f"skipped 2 of {broken.documents}: not valid JSON ({', '.join(places)})"
        assert out.splitlines()[-1] == told

    def test_rows_of_the_other_corpus_are_counted_too(self, broken: Desk, tmp_path: Path) -> None:
        others = tmp_path / "others.jsonl"
        others.write_text('{"id": "a", "text": "dogs bark"}\n{\n')
        done = broken.compare("DOCS", "--against", others, "--on-error", "skip")
        assert [(own["source"], own["count"]) for own in done["skipped"]] == [
            (str(broken.documents), 2),
            (str(others), 1),
        ]
        assert done["skipped"][1]["places"] == [f"{others}:2"]

    def test_an_id_of_two_texts_is_named(self, desk: Desk, tmp_path: Path) -> None:
        write_rows(tmp_path / "more.jsonl", [{**corpus(3)[2], "text": "another text"}])
        error = desk.refused("DOCS", tmp_path / "more.jsonl")
        assert "'d2' is a duplicate: documents 3 and 31 have it with different texts" in error

    def test_a_document_that_comes_again_counts_once_and_is_told(self, desk: Desk, tmp_path: Path) -> None:
        alone = desk.compare("DOCS"), desk.rows()
        more = tmp_path / "more.jsonl"
        write_rows(more, [*corpus(3)[1:], *corpus(3)[2:], {**corpus(3)[2], "id": "copy"}])
        done = desk.compare("DOCS", more)
        reason = "the same id and text as one before"
        assert done["skipped"] == [
            {"source": str(more), "reason": reason, "count": 3, "places": ["d1", "d2", "d2"]}
        ]
        assert done["documents"] == alone[0]["documents"] + 1
        best = next(row for row in desk.rows() if row["document"] == "copy")
        assert (best["neighbour"], round(best["cosine"], 5)) == ("d2", 1.0)


class TestStored:
    def test_the_vectors_of_an_index_need_no_encoding(self, desk: Desk, encoded: list[str]) -> None:
        desk.compare("DOCS", "-k", "3")
        expected = {(row["document"], row["neighbour"]): row["surprise"] for row in desk.rows()}
        desk.fill("--no-passages")
        encoded.clear()
        done = desk.compare("--from-index", desk.index, "-k", "3")
        assert (done["documents"], done["pairs"], done["model"]) == (30, 90, str(desk.model))
        assert encoded == []
        found = {(row["document"], row["neighbour"]): row["surprise"] for row in desk.rows()}
        shared = sorted(found.keys() & expected.keys())
        assert len(shared) >= 80, "ties may be cut elsewhere, in the order of points"
        np.testing.assert_allclose([found[p] for p in shared], [expected[p] for p in shared], atol=1e-4)

    def test_its_token_vectors_serve_dynamax(self, desk: Desk, encoded: list[str]) -> None:
        desk.fill("--no-passages")
        encoded.clear()
        assert desk.compare("--from-index", desk.index, "--similarity", "both", "-k", "2")["pairs"] == 60
        assert encoded == []
        assert "dynamax" in desk.rows()[0]

    def test_new_documents_are_encoded_with_its_model(self, desk: Desk, tmp_path: Path) -> None:
        desk.fill("--no-passages")
        others = write_rows(tmp_path / "others.jsonl", corpus(5))
        done = desk.compare("--from-index", desk.index, "--against", others, "-k", "2")
        assert (done["documents"], done["against"], done["pairs"]) == (30, 5, 60)

    def test_a_server_is_named_by_the_url_of_the_collection(self, desk: Desk, rest: QdrantRest) -> None:
        desk.json("index", desk.documents, "--model", desk.model, "--qdrant-url", rest.url, "--collection",
                  "stored-similar", "--no-passages", "--no-bm25")  # fmt: skip
        done = desk.compare("--from-index", f"{rest.url}/collections/stored-similar", "-k", "3")
        assert (done["documents"], done["pairs"]) == (30, 90)
        assert "names no collection" in error_line(
            desk.run("similar", "--from-index", rest.url, "--out", desk.folder / "other.csv")
        )

    def test_passages_and_missing_tokens_are_refused(self, desk: Desk, tmp_path: Path) -> None:
        desk.fill("--passage-tokens", "24", "--overlap", "4")
        assert "passages" in desk.refused("--from-index", desk.index)
        place = ("--model", desk.model, "--index", tmp_path / "bare", "--no-passages", "--no-tokens")
        desk.json("index", desk.documents, *place)
        error = desk.refused("--from-index", tmp_path / "bare", "--similarity", "dynamax")
        assert "no token vectors" in error


class TestIndexMode:
    def test_an_embedded_index_finds_what_the_exact_mode_does(self, desk: Desk) -> None:
        desk.compare("DOCS", "-k", "3")
        exact = desk.rows()
        done = desk.compare("DOCS", "-k", "3", "--mode", "index", "--ef", "200", "--sample-check", "20")
        assert desk.rows() == exact
        assert done["sample_check"]["recall"] == 1
        assert done["sample_check"]["size"] == 20

    def test_a_server_does_as_well(self, desk: Desk, rest: QdrantRest) -> None:
        desk.compare("DOCS", "-k", "3")
        exact = desk.rows()
        server = ("--mode", "index", "--qdrant-url", rest.url, "--collection", "neighbours")
        desk.compare("DOCS", "-k", "3", *server)
        assert desk.rows() == exact
        names = [found.name for found in rest.store.get_collections().collections]
        assert any(name.startswith("neighbours-") for name in names)


class TestRay:
    @pytest.mark.slow
    @pytest.mark.skipif(not is_installed("ray"), reason="the extra 'ray' is not installed")
    def test_rays_workers_give_the_same(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        desk.compare("DOCS", "-k", "3")
        expected = desk.out.read_bytes()
        desk.compare("DOCS", "-k", "3", "--workers", "1", "--ray", "local")
        assert desk.out.read_bytes() == expected


class TestBadInput:
    def test_the_choices_are_those_of_the_settings(self) -> None:
        hints = get_type_hints(SimilarityArguments)
        assert get_args(Similarity) == get_args(hints["similarity"]) == tuple(DUPLICATE)
        assert get_args(Mode) == get_args(hints["mode"])

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            ((), "what is to be compared?"),
            (("nowhere.jsonl",), "nowhere.jsonl: no such file"),
            (("DOCS", "--against", "nowhere.jsonl"), "nowhere.jsonl: no such file"),
            (("DOCS", "--out", "pairs.xlsx"), ".parquet, .csv, .jsonl"),
            (("DOCS", "--out", "no/such/pairs.csv"), "there is no folder"),
            (("DOCS", "--groups", "groups.txt"), ".parquet, .csv, .jsonl"),
            (("DOCS", "--groups", "groups/"), "--groups groups/ is a folder"),
            (("DOCS", "--duplicate", ".9"), "--duplicate belongs to --groups"),
            (("DOCS", "--pool", "20"), "--pool belongs to --similarity both"),
            (("DOCS", "--similarity", "both", "--pool", "3"), "pool must be at least 10"),
            (("DOCS", "--ef", "20"), "--ef belongs to --mode index"),
            (("DOCS", "--sample-check", "20"), "--sample-check belongs to --mode index"),
            (("DOCS", "--qdrant-url", "http://127.0.0.1:9"), "--qdrant-url belongs to --mode index"),
            (("DOCS", "--mode", "index", "--grpc"), "--grpc belongs to --qdrant-url"),
            (("DOCS", "--mode", "index", "--collection", "x"), "--collection belongs to --qdrant-url"),
            (("DOCS", "--mode", "index", "--similarity", "dynamax"), "choose similarity 'both'"),
            (("DOCS", "-k", "0"), "0"),
            (("DOCS", "--above", "nan"), "finite"),
            (("DOCS", "--similarity", "dot"), "dot"),
            (("DOCS", "--device", "abacus"), "abacus"),
            (("DOCS", "--from-index", "index"), "--from-index takes the place of SOURCE"),
            (("--from-index", "nowhere"), "there is no index at nowhere"),
            (("--from-index", "x", "--model", "m"), "--model is for documents that are read"),
            (("--from-index", "x", "--id-field", "a"), "--id-field is for documents that are read"),
            (("--from-index", "x", "--title-field", "a"), "--title-field is for documents that are read"),
            (("--from-index", "x", "--text-field", "a"), "--text-field is for documents that are read"),
            (("--from-index", "x", "--include", "a"), "--include is for documents that are read"),
            (("--from-index", "x", "--exclude", "a"), "--exclude is for documents that are read"),
            (("--from-index", "x", "--max-bytes", "9"), "--max-bytes is for documents that are read"),
            (("--from-index", "x", "--format", "csv"), "--format is for documents that are read"),
            (("--from-index", "x", "--on-error", "skip"), "--on-error skip is for documents that are read"),
            (("--from-collection", "x"), "--from-url URL, the server that it is on"),
            (("DOCS", "--groups", "g.csv", "--duplicate", "nan"), "got nan"),
            (("DOCS", "--out", "docs.jsonl"), "--out docs.jsonl would be written where"),
            (("DOCS", "--out", "./held/../docs.jsonl"), "docs.jsonl would be written where"),
            (("DOCS", "--groups", "docs.jsonl"), "--groups docs.jsonl would be written where"),
            (("DOCS", "--groups", "out.jsonl"), "are one place; choose two"),
            (("DOCS", "--out", "new/", "--groups", "new/groups.csv"), "there is no folder new"),
            (("DOCS", "held/a.jsonl", "--out", "held/"), "held would be written where held/a.jsonl is read"),
            (
                ("DOCS", "--against", "held/a.jsonl", "--out", "held"),
                "held would be written where held/a.jsonl is read",
            ),
            (("DOCS", "--out", "held/pairs.csv", "--work", "held"), "the work folder held overlap"),
            (("DOCS", "--out", "held/pairs/", "--work", "held"), "the work folder held overlap"),
            (("--from-index", "held", "--out", "held/"), "held would be written where held is read"),
            (("held", "--out", "held/pairs.csv"), "held/pairs.csv would be written where held is read"),
            (("DOCS", "--out", "."), "would be written where"),
            (("DOCS", "--out", "words.txt/"), "something else is there"),
            (("DOCS", "--out", "others"), "something else is there"),
            (("DOCS", "--model", "no/such/model/at/all"), "no/such/model/at/all"),
        ],
    )
    def test_bad_input_is_one_line_and_leaves_nothing(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], told: str
    ) -> None:
        monkeypatch.chdir(desk.folder)
        monkeypatch.setattr("surprise_rerank.connectors.similar.job.SimilarityJob.prepare", never)
        for name in ("held", "others"):
            (desk.folder / name).mkdir()
            write_rows(desk.folder / name / "a.jsonl", corpus(3))
        (desk.folder / "others" / "_SUCCESS").touch()  # Spark's
        before = {path: path.read_bytes() for path in desk.folder.rglob("*") if path.is_file()}
        assert told in desk.refused(*arguments)
        assert {path: path.read_bytes() for path in desk.folder.rglob("*") if path.is_file()} == before

    @pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no folder that nobody can write to")
    @pytest.mark.parametrize("option", ["--out", "--groups"])
    def test_a_place_that_cannot_be_written_is_told_at_once(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch, option: str
    ) -> None:
        monkeypatch.setattr("surprise_rerank.connectors.similar.job.SimilarityJob.prepare", never)
        assert "cannot use /proc/pairs.csv" in desk.refused("DOCS", option, "/proc/pairs.csv")

    def test_an_empty_corpus_is_told(self, desk: Desk) -> None:
        desk.documents.write_text("")
        before = files(desk.folder)
        assert "docs.jsonl" in desk.refused("DOCS")
        assert files(desk.folder) == before

    def test_one_document_has_no_neighbours(self, desk: Desk) -> None:
        write_rows(desk.documents, corpus()[:1])
        assert desk.compare("DOCS")["pairs"] == 0
        assert desk.rows() == []


# The same from Python


def found(documents: Documents, settings: SimilaritySettings, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in neighbours(documents, settings, **options) for row in batch.to_pylist()]


def own_documents(count: int = 30) -> list[Document]:
    return [Document(row["id"], row["text"], row["title"]) for row in corpus(count)]


def test_batches_are_the_commands_rows_whatever_documents_come_as(desk: Desk, tmp_path: Path) -> None:
    desk.compare("DOCS", "-k", "3")
    settings, model = SimilaritySettings(k=3), str(desk.model)
    encoder = load_encoder(model)
    dense = encoder.encode([document.content for document in own_documents()]).dense
    given: list[Documents] = [
        own_documents(),
        (document for document in own_documents()),
        open_documents(desk.documents),
        corpus(),
    ]
    for documents in given:
        assert found(documents, settings, encoder=model) == desk.rows()
    assert found(own_documents(), settings, encoder=encoder, work=tmp_path / "work") == desk.rows()
    assert found(own_documents(), settings, encoder=encoder, work=tmp_path / "work") == desk.rows()
    ids = [document.id for document in own_documents()]
    for vectors in ((ids, dense), (ids, dense.tolist()), (ids, list(dense)), Vectors("mine", [(ids, dense)])):
        assert [row["neighbour"] for row in found(vectors, settings)] == [r["neighbour"] for r in desk.rows()]


def test_batches_begin_before_all_is_computed_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from surprise_rerank.connectors.similar import settings

    monkeypatch.setitem(settings._PART_ROWS, "cosine", 4)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stream = neighbours(own_documents(), SimilaritySettings(k=2), encoder=WordEncoder())
    first = next(stream)
    assert first.schema.names == ["document", "neighbour", "rank", "surprise", "probability", "cosine"]
    assert first.num_rows == 8
    assert list(tmp_path.iterdir())
    stream.close()
    assert list(tmp_path.iterdir()) == []


def test_two_documents_in_a_tuple_are_no_vectors() -> None:
    for documents in (
        (Document("1", "dogs bark"), Document("2", "dogs")),
        (("1", "2"), ("3", "4")),
        ({"id": 1, "text": "dogs"}, {"id": 2, "text": "bark"}),
    ):
        assert len(found(documents, SimilaritySettings(k=1), encoder=WordEncoder())) == 2


def test_workers_elsewhere_load_a_model_on_their_device_and_this_process_on_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def load(name: str, device: str, *, backend: str) -> WordEncoder:
        asked.append(device)
        return WordEncoder()

    monkeypatch.setattr(neighbour_batches, "load_encoder", load)
    made = neighbour_batches.model_of("some", "cuda", remote=True)
    assert asked == ["cpu"]
    made.load()
    assert asked == ["cpu", "cuda"]


@pytest.mark.parametrize(("device", "gpus"), [(None, 1), ("cuda:1", 1), ("cpu", 0)])
def test_rays_workers_have_a_gpu_each_where_one_computes(
    monkeypatch: pytest.MonkeyPatch, device: str | None, gpus: int
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(neighbour_batches, "best_device", lambda: "cuda")
    with WorkerArguments(workers=1, device=device, ray="").start() as workers:
        assert workers._actors.num_gpus == gpus


def test_what_python_gives_wrongly_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="2 ids for 3 vectors"):
        found((["a", "b"], np.eye(3)), SimilaritySettings())
    with pytest.raises(DataError, match="an iterable of Documents"):
        found("documents.jsonl", SimilaritySettings(), encoder=WordEncoder())  # type: ignore[arg-type]
    with pytest.raises(DataError, match="must be a Document"):
        found([1, 2], SimilaritySettings(), encoder=WordEncoder())  # type: ignore[list-item]
    with pytest.raises(DataError, match="compares token vectors"):
        found((["a", "b"], np.eye(2)), SimilaritySettings(similarity="dynamax", k=1))
    with pytest.raises(ModelError):
        found(own_documents(), SimilaritySettings(), encoder=str(tmp_path / "no.txt"))
    with pytest.raises(DataError, match="no documents"):
        found([], SimilaritySettings(), encoder=WordEncoder())
