"""The rules of the house, read from the source: who may import whom, and how large a room gets."""

import ast
import re
import runpy
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
FOLDERS = ("surprise_rerank", "connectors", "eval")
PACKAGE = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))

MOST_MODULES = 15  # in one folder
MOST_LINES = 600  # a guide is 450; what belongs together stays together

# The rooms from the ground up, as CONTRIBUTING.md draws them: a room may import those above it in this list,
# and nothing below. A room is a folder or a file; the longest name that fits counts.
ROOMS = [
    *(
        "errors",
        "border",
        "core",
        "places",
        "documents",
        "candidates",
        "encoders",
        "surprise",
        "similarities",
    ),
    *("rerank", "thresholds", "classify", "explanation", "packing", "answers", "pipeline", "text_pool"),
    "text_reranker",
    *("connectors.progress", "connectors.lucene"),
    *(
        f"connectors.qdrant.{room}"
        for room in ("lexical", "languages", "location", "multivectors", "schema", "payloads", "manifest")
    ),
    *(
        f"connectors.qdrant.{room}"
        for room in (
            "engines",
            "storage",
            "writing",
            "search",
            "retrievers",
            "hybrid",
            "highlights",
        )
    ),
    *(f"connectors.{room}" for room in ("readers", "systems", "searchable", "document_index")),
    "connectors.qdrant.copying",
    *(f"connectors.{room}" for room in ("attached", "qdrant", "similar", "server", "components")),
    "connectors.filters",
    "connectors",
    *("eval.line_files", "eval.stats", "eval.reports", "eval.retrieval", "eval.studies"),
    *(f"eval.cli.{room}" for room in ("exits", "settings", "console", "options")),
    *("eval.cli", "eval"),
]
# The core makes arrays of arrays: stores, data sets and terminals belong to connectors and eval.
CORE_MAY = {
    *("numpy", "scipy", "torch", "sklearn", "sentence_transformers", "transformers", "tokenizers"),
    *("safetensors", "threadpoolctl", "httpx", "tenacity", "regex", "platformdirs", "pybase64"),
    *("huggingface_hub", "openvino", "opentelemetry"),
}
# A class that derives from a framework's needs it at once; its module says how to install it.
ADAPTERS = (
    *("haystack", "langchain", "llama_index", "mcp", "mteb", "pyterrier", "rerankers"),
    *("server.app", "server.connections", "server.documents", "server.door"),
    *("surprise.neighbours", "studies.ranks"),  # torch's products
)


def import_name(path: Path) -> str:
    """The dotted name in the package: `core.arrays`, `connectors.qdrant._hybrid`; empty for its face."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[parts[0] == "surprise_rerank" :]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def plain(name: str) -> str:
    """A dotted name without the underscores of private modules, as rooms are called."""
    return re.sub(r"(^|\.)_(?!_)", r"\1", name)


def module_name(path: Path) -> str:
    return plain(import_name(path))


def imported(nodes: Iterator[ast.AST]) -> Iterator[str]:
    """Every dotted name that statements import; `from a import b` may mean the module a.b."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


SOURCES = {module_name(path): ast.parse(path.read_text("utf-8")) for path in PACKAGE}


def own_module(name: str) -> str:
    """The module of this package that an imported name is, or is in."""
    module = plain(name.removeprefix("surprise_rerank").removeprefix("."))
    return module if module in SOURCES else module.rpartition(".")[0]


IMPORTS = {  # late imports and those for types included
    module: {
        own_module(name)
        for name in imported(ast.walk(tree))
        if name.startswith("surprise_rerank") and own_module(name) != module
    }
    for module, tree in SOURCES.items()
}


def height(module: str) -> int:
    """The place of its room in the list; the face is below everything."""
    room = max(
        (room_name for room_name in ROOMS if f"{module}.".startswith(f"{room_name}.")), key=len, default=""
    )
    return ROOMS.index(room) if room else len(ROOMS)


def test_rooms_import_those_above_them_only_and_files_have_an_order():
    upward = [
        (module, other) for module in IMPORTS for other in IMPORTS[module] if height(other) > height(module)
    ]
    assert upward == []
    TopologicalSorter(IMPORTS).prepare()  # a CycleError where files import each other
    assert len(SOURCES) > 200
    assert [room for room in ROOMS if ROOMS.index(room) not in map(height, SOURCES)] == []


def test_the_core_knows_no_store_no_data_set_and_no_terminal():
    core = [module for module in SOURCES if module and not module.startswith(("connectors", "eval"))]
    others = {name.partition(".")[0] for module in core for name in imported(ast.walk(SOURCES[module]))}
    assert others - CORE_MAY - sys.stdlib_module_names == {"surprise_rerank"}


def test_importing_a_module_needs_no_extra():
    required = {
        re.match(r"[\w.-]+", requirement)[0].lower() for requirement in SETTINGS["project"]["dependencies"]
    }
    allowed = {
        top
        for top, distributions in packages_distributions().items()
        if {name.lower().replace("_", "-") for name in distributions} & required
    }
    # These come with qdrant-client and its extra, and jinja2.
    allowed |= {
        "surprise_rerank",
        "pydantic",
        "grpc",
        "orjson",
        "markupsafe",
        *sys.stdlib_module_names,
    }
    foreign = {
        module: others
        for module, tree in SOURCES.items()
        if not module.endswith(tuple(ADAPTERS))
        and (others := {name.partition(".")[0] for name in imported(iter(tree.body))} - allowed)
    }
    assert foreign == {}


def test_nothing_trusts_code_of_models_or_pickles():
    imports = {name.partition(".")[0] for tree in SOURCES.values() for name in imported(ast.walk(tree))}
    assert not imports & {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    said = [
        f"{module}: {ast.unparse(keyword)}"
        for module, tree in SOURCES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg in ("trust_remote_code", "allow_pickle") and ast.unparse(keyword.value) != "False"
    ]
    assert said == []


def test_rooms_stay_small_and_are_installed():
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in PACKAGE}
    assert [path for path, count in lines.items() if count > MOST_LINES] == [], "split them by subject"
    modules = Counter(path.parent for path in PACKAGE if path.name != "__init__.py")
    assert [folder for folder, n in modules.items() if n > MOST_MODULES] == [], "make rooms by subject"
    folders = {f"surprise_rerank.{import_name(path.parent / '__init__.py')}".rstrip(".") for path in PACKAGE}
    assert set(SETTINGS["tool"]["setuptools"]["packages"]) == folders


def test_what_is_not_public_has_a_leading_underscore():
    listed = runpy.run_path(str(ROOT / "docs" / "public.py"))
    packages: set[str] = {name.removeprefix("surprise_rerank").lstrip(".") for name in listed["PACKAGES"]}
    public = packages | {
        f"{package}.{name}".removeprefix("surprise_rerank.").rpartition(".")[0]
        for package, names in listed["MODULES"].items()
        for name in names.split()
    }
    beside = {import_name(path) for path in PACKAGE if import_name(path).rpartition(".")[0] in packages}
    named = {name for name in beside if not name.rpartition(".")[2].startswith("_")}
    assert named - {"eval"} == public  # nothing in `eval` is public: its commands are
