"""Results of a search as blocks on a terminal: hostile texts, wide characters, marks, bars."""

import itertools
import re
import unicodedata
from io import StringIO
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from surprise_rerank import Document, Hit
from surprise_rerank.connectors.qdrant._highlights import Excerpt, excerpts
from surprise_rerank.eval.cli.console import body
from surprise_rerank.eval.cli.surprise_rerank.search_results import Block, print_blocks

EVIL = "\x1b[31mred\x1b]0;pwned\x07 \u202e\u2066 \x9b2J \x00\ud800\r\nnext\tcell [bold]x[/bold] :smile:"
WIDTHS = (60, 80, 120, 200)


def hit(text: str, title: str, percentile: float | None = 0.985, **more: Any) -> Hit:
    return Hit("dogs.txt", 3.187, {}, Document("dogs.txt", text, title), percentile=percentile, **more)


def block(text: str = "Dogs bark.", title: str = "Dogs", percentile: float | None = 0.985) -> Block:
    shown = hit(text, title, percentile)
    return 1, shown, excerpts("why do dogs bark", [body(shown)])[0]


def drawn(*blocks: Block, width: int = 80, colours: bool = False) -> list[str]:
    system = "standard" if colours else None
    console = Console(file=StringIO(), width=width, force_terminal=colours, color_system=system)
    print_blocks(blocks, console)
    return console.file.getvalue().splitlines()


def test_a_result_has_its_rank_title_id_percentile_and_best_sentence():
    first, second = drawn(block("Cats sleep. Most dogs bark at strangers."))
    assert re.fullmatch(r" 1  Dogs  dogs\.txt +98\.5 %", first)
    assert cell_len(first) == 80
    assert second == "    Most dogs bark at strangers."


def test_a_percentile_is_a_share_and_nothing_reads_as_all():
    shown = {0.0: "0.0 %", 0.95: "95.0 %", 0.99999: "99.9 %", 1.0: "100.0 %", None: "3.1870"}
    for percentile, text in shown.items():
        assert drawn(block(percentile=percentile))[0].endswith(f" {text}")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "text",
    [
        EVIL,
        "狗为什么叫。" * 80,
        "x" * 1000,
        "e\u0301" * 300,
        "👩‍👩‍👧‍👦 dogs bark " * 40,
        "שלום dogs bark עולם " * 30,
        "d " * 500,
        "",
    ],
    ids=["controls", "wide", "one-word", "combining", "emoji", "right-to-left", "letters", "empty"],
)
def test_no_text_leaves_its_place(text, width):
    long = 1, hit(text, text, duplicates=(text,)), Excerpt(text, ((0, len(text) // 2),))
    for colours in (False, True):
        lines = drawn(long, long, width=width, colours=colours)
        plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
        assert max(map(cell_len, plain)) <= min(width, 110)
        assert {line[:1] for line in plain} <= {"", " "}
        everything = "".join(plain)
        assert not {c for c in everything if unicodedata.category(c) in ("Cc", "Cs")}
        assert not set(everything) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
        # No column of single letters.
        assert not any(
            re.fullmatch(r" +\S ", line) and re.fullmatch(r" +\S ", below)
            for line, below in itertools.pairwise(plain)
        )
