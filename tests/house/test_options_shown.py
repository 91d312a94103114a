"""Commands that the documentation shows have the options, and keys of --set, that they are shown with."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
tables = pytest.importorskip("tables")
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]


def shown(page: Path) -> Iterator[list[str]]:
    """The words of every command of a page: a line of code, or between backticks."""
    text = page.read_text("utf-8").replace("\\\n", " ")
    lines = re.findall(r"^(?:    |\$ )(.*)$", text, flags=re.MULTILINE)
    spans = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in (*lines, *(" ".join(span.split()) for span in spans)):
        for command in re.findall(r"\b(?:surprise-rerank|rerank-eval)(?: [^|&<]+)?", line):
            yield command.split()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_and_keys_exist(page: Path) -> None:
    for program, *words in shown(page):
        names, command = program, tables.COMMANDS[program]
        while words and isinstance(command, click.Group) and words[0] in command.commands:
            command, names = command.commands[words[0]], f"{names} {words.pop(0)}"
        known = {"--help", *(name for own in command.params for name in (*own.opts, *own.secondary_opts))}
        for i, word in enumerate(words):
            if re.match(r"--?[a-z]", word):
                assert word.split("=")[0] in known, f"{names} {' '.join(words)}"
            if word == "--set" and words[i + 1 :]:
                key = words[i + 1].strip("'").split("=")[0].partition(".")[0]
                keys = CliRunner().invoke(command, ["--set", "help"]).stdout
                assert key in ("KEY", "help") or re.search(rf"^{key}\b", keys, re.MULTILINE), key
