"""Locals are called what they hold: some words say nothing of a value, and clean rooms bind none of them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RIDDLES = {"own", "found", "there", "asked", "made", "given", "told", "known", "rest", "both"}

PRODUCT = ("surprise_rerank", "connectors", "eval")
# Folders whose files are free of them: the product, and rooms of tests. A room that has become so is added.
CLEAN = (
    *sorted({str(path.parent.relative_to(ROOT)) for top in PRODUCT for path in (ROOT / top).rglob("*.py")}),
    *("benchmarks", "tests", "tests/adapters", "tests/commands", "tests/core"),
    *("tests/evaluation", "tests/house", "tests/rerank", "tests/server", "tests/similar"),
    *("tests/similarities", "tests/surprise", "tests/thresholds"),
)


def riddles(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The lines that bind such a name in a function, a comprehension or a module; fields of classes may."""
    fields = {
        id(name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign | ast.Assign)
        for name in ast.walk(statement)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if id(node) not in fields:
                bound: str | None = name
            case ast.arg(arg=name) | ast.ExceptHandler(name=name) | ast.MatchAs(name=name):
                bound = name
            case _:
                continue
        if bound in RIDDLES:
            yield node.lineno, bound


@pytest.mark.parametrize("room", CLEAN)
def test_what_a_room_binds_is_called_what_it_holds(room):
    files = sorted((ROOT / room).glob("*.py"))
    assert files
    lines = [
        f"{file.relative_to(ROOT)}:{line} {name}"
        for file in files
        for line, name in riddles(ast.parse(file.read_text("utf-8")))
    ]
    assert lines == [], "call them what they hold"


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "def f(own): ...",
        "f = lambda given: 1",
        "[own for own in ()]",
        "for rest in (): ...",
        "with open('x') as made: ...",
        "try: ...\nexcept ValueError as told: ...",
        "if (known := 1): ...",
        "both, x = 1, 2",
        "match 1:\n    case asked: ...",
        "class A:\n    def f(self):\n        there = 1",
    ],
)
def test_every_way_to_bind_a_name_is_seen(source):
    assert len(list(riddles(ast.parse(source)))) == 1


def test_words_that_are_only_read_are_free():
    assert list(riddles(ast.parse("class A:\n    made: str = ''\nx.own = y.found(told)"))) == []
