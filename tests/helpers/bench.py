"""A folder with a model and documents, and `surprise-rerank` run in it."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.files import write_rows, write_vectors
from helpers.programs import exit_code
from surprise_rerank.eval.cli.surprise_rerank.main import main

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


def write_model(path: Path, seed: int = 0) -> Path:
    """A file of word vectors, which is a model that loads at once."""
    words = sorted(set(" ".join(SENTENCES).split()) | {"note", "why", "do", "end"})
    return write_vectors(path, words, seed=seed)


class PlainTerminal(io.StringIO):
    """A terminal without colours."""

    def isatty(self) -> bool:
        return True


def run(*arguments: str | Path, text: bytes = b"", width: int | None = None) -> tuple[int, str, str]:
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


class Bench:
    """A folder with a model and documents, and the command run in it."""

    run = staticmethod(run)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = write_model(folder / "words.txt")
        self.documents = write_rows(folder / "docs.jsonl", corpus())
        self.index = folder / "index"

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


def error_line(answer: tuple[int, str, str]) -> str:
    """The one line of an answer to bad input."""
    code, out, err = answer
    assert code == 2, (out, err)
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith("Error: ")
    return err
