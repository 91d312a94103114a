"""Lost and damaged files of an index: it answers as before, or says which one it is and what to do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import NEEDS_EDGE
from words import WordEncoder

from surprise_rerank import Document
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant.engines.edge_sharing import _copy_file
from surprise_rerank.connectors.qdrant.location import EngineKind
from surprise_rerank.encoders.passages import Passages
from surprise_rerank.errors import SurpriseRerankError

D = 16
DOCUMENTS = [Document(f"d{i}", " ".join(f"word{(i * j) % 29}" for j in range(1, 20 + i))) for i in range(30)]
MORE = [*DOCUMENTS, Document("new", "word3 word4")]
OPTIONS = IndexOptions(passages=Passages(tokens=24, overlap=4), token_vectors="float16")
SYSTEMS = ("surprise", "bm25", "dynamax")


def made(folder: Path, engine: EngineKind) -> Path:
    with DocumentIndex.open(folder, WordEncoder(D), options=OPTIONS, engine=engine) as index:
        index.sync(DOCUMENTS)
        index.set_ensemble(index.ensemble(), source="documents")
        index.store_background([f"word{i} word{i + 3} word{i * i % 29}" for i in range(30)], "bm25")
    return folder


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("whole") / "index", "edge")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("whole") / "index", "local")


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
            damage(folder / name)
            if path.name == ".lock" or (path.is_file() and is_same(path, folder / name)):
                continue
            before = state(folder)
            first = outcome(lambda: answers(folder), read, folder)
            if first == "told" and state(folder) != before:
                first = "a reader has written"
            second = outcome(lambda: answers(folder, MORE), written, folder)
            found += [f"{name} {how}: {own}" for own in (first, second) if own not in ("told", "same")]
            copied(whole, folder, name if first == second == "told" else "")
    return found


@NEEDS_EDGE
@pytest.mark.parametrize("ways", [1, pytest.param(len(DAMAGES), marks=pytest.mark.slow)])
def test_a_damaged_folder_of_edge_answers_as_before_or_says_what_is_damaged(
    edge: Path, tmp_path: Path, ways: int
) -> None:
    assert failures(edge, tmp_path / "copy", ways) == []


def test_a_damaged_folder_of_local_mode_answers_as_before_or_says_what_is_damaged(
    local: Path, tmp_path: Path
) -> None:
    assert failures(local, tmp_path / "copy") == []
