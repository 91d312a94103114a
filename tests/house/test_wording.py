"""Messages of the library, with options in place of Python's names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from surprise_rerank.eval.cli.wording import _PHRASES, in_options

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("name it with Fields(text=...)", "name it with --text-field"),
        ("min_surprise=0.9 needs a background", "--min-surprise 0.9 needs a background"),
        ("make one with Ensemble.save", "make one with 'surprise-rerank ensemble save'"),
        ("name it with format=..., one of csv", "name it with --format, one of csv"),
        ("a file named pool=3.txt and model=x", "a file named pool=3.txt and model=x"),
        ("mode=fast.jsonl: no such file", "mode=fast.jsonl: no such file"),
        ("data/engine=3/x.parquet: no such file", "data/engine=3/x.parquet: no such file"),
        ("engine=3/x.parquet: no such file", "engine=3/x.parquet: no such file"),
        ("a/min_surprise=0.9.csv: no such file", "a/min_surprise=0.9.csv: no such file"),
        ("it has pooling=3.5. Give mode='client'.", "it has --pooling 3.5. Give --mode client."),
    ],
)  # fmt: skip
def test_python_names_become_options(said: str, shown: str) -> None:
    assert shown in in_options(said)


def test_every_phrase_is_one_that_the_library_says() -> None:
    """A message that is written anew would come through as it is."""
    folders = ("surprise_rerank", "connectors", "eval")
    sources = [p.read_text() for f in folders for p in (ROOT / f).rglob("*.py") if p.name != "wording.py"]
    # Strings are broken over lines: their ends and beginnings are taken out; fields are filled with a word.
    text = re.sub(r'"\s*\n?\s*f?"', "", "\n".join(sources))
    text = re.sub(r"\{[^{}]*\}", "float32", text)
    unknown = []
    for number, (said, _) in enumerate(_PHRASES):
        if not re.search(said, text):
            made = text
            for before, shown in _PHRASES[:number]:
                made = re.sub(before, shown, made)
            if not re.search(said, made):
                unknown.append(said)
    assert unknown == []
