"""Lost and damaged files of an index: it answers as before, or says which one it is and what to do."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from calling import exit_code
from words import WordEncoder

from surprise_rerank import Document
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant.engines.edge_shard import _copy_file
from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.encoders.passages import Passages
from surprise_rerank.errors import NoIndexError, SurpriseRerankError, UnreadableIndexError
from surprise_rerank.eval.cli.surprise_rerank.main import main

D = 16
DOCUMENTS = [Document(f"d{i}", " ".join(f"word{(i * j) % 29}" for j in range(1, 20 + i))) for i in range(30)]
MORE = [*DOCUMENTS, Document("new", "word3 word4")]
OPTIONS = IndexOptions(passages=Passages(tokens=24, overlap=4))
SYSTEMS = ("surprise", "bm25", "dynamax")


def made(folder: Path) -> Path:
    with DocumentIndex.open(folder, WordEncoder(D), options=OPTIONS) as index:
        index.sync(DOCUMENTS)
        index.set_ensemble(index.ensemble(), source="documents")
        index.measure_background("bm25", [f"word{i} word{i + 3} word{i * i % 29}" for i in range(30)])
    return folder


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("whole") / "index")


def answers(folder: Path, documents: list[Document] | None = None) -> Any:
    """What an index answers; of documents, after they were synced."""
    with DocumentIndex.open(folder, WordEncoder(D)) as index:
        if documents is not None:
            index.sync(documents)
        found: list[Any] = [len(index)]
        for system in SYSTEMS:
            ranking = index.pipeline(system).search("word3 word5", 5)
            found.append((list(ranking.ids), [round(float(score), 4) for score in ranking.scores]))
            found.append(ranking.verdict is None)
        return found


def copied(whole: Path, folder: Path, name: str = "") -> Path:
    """A copy of a folder or of one thing in it. Holes stay holes: Edge's files are mostly empty."""
    source, target = whole / name, folder / name
    shutil.rmtree(target, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, target, copy_function=_copy_file)
    else:
        _copy_file(str(source), str(target))
    return folder


def head_of(pattern: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with path.open("r+b") as file:
            file.write((pattern * 64)[: min(64, path.stat().st_size)])

    return write


DAMAGES: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "zeros": head_of(b"\0"),
    "garbage": head_of(b"\x89PNG\xff"),
}


def outcome(asked: Callable[[], Any], expected: Any, folder: Path) -> str:
    """`told`, or `same`, where it is as it must be."""
    try:
        found = asked()
    except SurpriseRerankError as error:
        text = str(error)
        is_told = "\n" not in text and str(folder) in text and "again" in text
        return "told" if is_told else f"not told: {text}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"raw {type(error).__name__}: {error}"
    return "same" if found == expected else f"silent: {found}"


def is_same(one: Path, other: Path) -> bool:
    """Whether a file was not damaged: it was empty, or begins with zeros as it is."""
    sizes = [path.stat().st_size if path.exists() else -1 for path in (one, other)]
    if sizes[0] != sizes[1]:
        return False
    with one.open("rb") as ours, other.open("rb") as theirs:
        return ours.read(64) == theirs.read(64)


def state(folder: Path) -> dict[Path, tuple[int, bytes]]:
    """The size and the first bytes of each file."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                found[path] = path.stat().st_size, file.read(2**16)
    return found


def failures(whole: Path, folder: Path, ways: int = len(DAMAGES)) -> list[str]:
    """The cases that are not as they must be: each file and folder damaged in each way, read and written.

    With fewer ways than all, the next ones for each next file.
    """
    read = answers(copied(whole, folder))
    written = answers(folder, MORE)
    found = []
    copied(whole, folder)
    for row, path in enumerate(sorted(whole.rglob("*"))):
        name = str(path.relative_to(whole))
        damages = dict((list(DAMAGES.items())[row % len(DAMAGES) :] + list(DAMAGES.items()))[:ways])
        for how, damage in ({"removed": shutil.rmtree} if path.is_dir() else damages).items():
            if path.name == ".lock":  # of a process, not of the index
                continue
            damage(folder / name)
            if path.is_file() and is_same(path, folder / name):
                continue
            before = state(folder)
            first = outcome(lambda: answers(folder), read, folder)
            if first == "told" and state(folder) != before:
                first = "a reader has written"
            second = outcome(lambda: answers(folder, MORE), written, folder)
            found += [f"{name} {how}: {own}" for own in (first, second) if own not in ("told", "same")]
            copied(whole, folder, name if state(folder) == before else "")
    return found


@pytest.mark.slow
def test_a_damaged_folder_of_edge_answers_as_before_or_says_what_is_damaged(
    edge: Path, tmp_path: Path
) -> None:
    assert failures(edge, tmp_path / "copy", ways=1) == []  # in all ways it takes five times as long


@pytest.mark.parametrize("name", ["edge_config.json", "segment.json"])
@pytest.mark.parametrize(("size", "is_whole"), [(D, True), (D + 1, False)])
def test_settings_that_edge_has_written_in_another_order_are_not_damaged(
    edge: Path, tmp_path: Path, name: str, size: int, is_whole: bool
) -> None:
    """As a program leaves them that was killed when it had loaded the shard, or had closed it."""
    folder = copied(edge, tmp_path / "copy")
    path = next((folder / "1" / "edge").rglob(name))
    config, length = json.loads(path.read_text(encoding="utf-8")), path.stat().st_size
    for kinds in (config.get("vectors"), config.get("config", {}).get("vector_data")):
        if kinds is not None:
            kinds["dense"]["size"] = size
    path.write_text(json.dumps(dict(reversed(config.items())), separators=(",", ":")), encoding="utf-8")
    assert path.stat().st_size == length
    assert outcome(lambda: answers(folder), answers(edge), folder) == ("same" if is_whole else "told")


def of_another_schema(folder: Path) -> None:
    path = folder / "1" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 5, "options": {"novelty": 1}}))


UNREADABLE: dict[str, Callable[[Path], object]] = {
    "another schema": of_another_schema,
    "without points": lambda folder: [shutil.rmtree(own) for own in (folder / "1").iterdir() if own.is_dir()],
    "without manifest": lambda folder: (folder / "1" / "manifest.json").unlink(),
    "a damaged name of the version": lambda folder: (folder / "index.json").write_text("{"),
}


@pytest.mark.parametrize("how", UNREADABLE)
def test_what_cannot_be_opened_is_made_anew(edge: Path, tmp_path: Path, how: str) -> None:
    folder = copied(edge, tmp_path / "index")
    UNREADABLE[how](folder)
    with pytest.raises(UnreadableIndexError, match="--rebuild"):
        DocumentIndex.open(folder, WordEncoder(D))
    with pytest.raises(UnreadableIndexError, match="--rebuild"):
        DocumentIndex.open(folder, None)
    assert DocumentIndex.renew(folder, MORE, WordEncoder(D), options=OPTIONS).added == len(MORE)
    with DocumentIndex.open(folder, WordEncoder(D)) as index:
        assert len(index) == len(MORE)
    assert sorted(path.name for path in folder.iterdir()) == ["2", "index.json"]
    with pytest.raises(NoIndexError):
        DocumentIndex.renew(tmp_path / "none", MORE, WordEncoder(D))


def test_the_command_rebuilds_what_cannot_be_opened(
    edge: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(edge, tmp_path / "index")
    of_another_schema(folder)
    documents = tmp_path / "documents.jsonl"
    documents.write_text("".join(json.dumps({"id": d.id, "text": d.text}) + "\n" for d in DOCUMENTS))
    loaded: list[str] = []

    def load(name: str, *_: object) -> WordEncoder:
        loaded.append(name)
        return WordEncoder(D)

    monkeypatch.setattr("surprise_rerank.eval.cli.surprise_rerank.index.load_model", load)
    arguments = ("index", documents, "--index", folder)
    assert exit_code(main, "surprise-rerank", *arguments) == 2
    assert "schema version 5, this version reads 9; make it anew" in capsys.readouterr().err
    assert exit_code(main, "surprise-rerank", *arguments, "--rebuild") == 0
    assert loaded == [WordEncoder(D).name], "its own model"
    with DocumentIndex.open(folder, WordEncoder(D)) as index:
        assert len(index) == len(DOCUMENTS)


def test_an_index_of_another_schema_on_a_server_is_made_anew(qdrant: Any) -> None:
    place = Location(url=qdrant.url, collection=qdrant.prefix)
    with DocumentIndex.open(place, WordEncoder(D)) as index:
        index.sync(DOCUMENTS)
        index.storage.save(replace(index.manifest, schema=5))
    with pytest.raises(UnreadableIndexError, match=r"schema version 5, this version reads 9"):
        DocumentIndex.open(place, WordEncoder(D))
    assert DocumentIndex.renew(place, MORE, WordEncoder(D)).added == len(MORE)
    with DocumentIndex.open(place, WordEncoder(D)) as index:
        assert len(index) == len(MORE)
    assert {name.rpartition("-")[0] for name in qdrant.collections()} == {f"{qdrant.prefix}@2"}
