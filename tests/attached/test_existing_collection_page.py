"""The examples of docs/existing-collection.md, as they are written, on the hosts' own stores."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.words import WordEncoder
from qdrant_client import QdrantClient, models
from test_attached_hosts import Haystack, LangChain, LlamaIndex, Mem0Store

from surprise_rerank.core._extras import is_installed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "existing-collection.md"
TEXTS = [
    "oil the chain every 200 km and after every ride in the rain",
    "my road tyres take six to eight bar",
    "my mountain tyres take two bar",
    "brake pads are worn when less than a millimetre is left",
    "a wheel is true when it does not touch the pads",
    "the saddle is as high as a straight leg",
    "lights are needed at night",
    "a lock is as heavy as a frame",
]
ROWS = [{"page": page} for page in range(len(TEXTS))]
WORDS = sorted({word for text in TEXTS for word in text.split()})


def sections() -> dict[str, list[str]]:
    """Heading -> its blocks of Python."""
    parts = re.split(r"^## (.*)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    found = zip(parts[1::2], parts[2::2], strict=True)
    return {name: re.findall(r"```python\n(.*?)```", text, re.DOTALL) for name, text in found}


def embed(texts: list[str]) -> list[list[float]]:
    return [[float(x) for x in row] for row in WordEncoder(256).encode(texts).dense]


Run = Callable[[str, dict[str, Any]], list[list[str]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a section's blocks one after another; gives the lines that each printed."""
    monkeypatch.chdir(tmp_path)

    def running(section: str, names: dict[str, Any]) -> list[list[str]]:
        printed = []
        for code in sections()[section]:
            capsys.readouterr()
            exec(compile(code, str(PAGE), "exec"), names)
            printed.append(capsys.readouterr().out.splitlines())
        return printed

    return running


HOSTS = ["LangChain", "LlamaIndex", "Haystack", "Your own code, and Mem0"]


def test_every_section_with_code_is_run_here():
    assert {name for name, blocks in sections().items() if blocks} == {*HOSTS, *SECTIONS}


def found_by(lines: list[str], text: str) -> None:
    assert len(lines) == 3
    assert lines[0].endswith(text)


@pytest.mark.skipif(not is_installed("langchain_qdrant"), reason="langchain-qdrant is not installed")
@pytest.mark.skipif(not is_installed("langchain_classic"), reason="langchain-classic is not installed")
def test_langchain(run):
    ranked, found = run("LangChain", {"store": LangChain(texts=TEXTS, rows=ROWS).store})
    found_by(ranked, f" 0 {TEXTS[0]}")
    found_by(found, TEXTS[2])  # page 1 is better, and the filter leaves it out


@pytest.mark.skipif(not is_installed("llama_index.vector_stores.qdrant"), reason="it is not installed")
def test_llama_index(run):
    (ranked,) = run("LlamaIndex", {"index": LlamaIndex(texts=TEXTS, rows=ROWS).store})
    found_by(ranked, f" 0 {TEXTS[0]}")


@pytest.mark.skipif(not is_installed("haystack_integrations"), reason="qdrant-haystack is not installed")
def test_haystack(run):
    host = Haystack(texts=TEXTS, rows=ROWS)
    (found,) = run("Haystack", {"store": host.store, "embedder": host.embed})
    found_by(found, f" 2 {TEXTS[2]}")


def sparse(text: str) -> tuple[list[int], list[float]]:
    """A question's words, as `hybrid` has them."""
    known = sorted({WORDS.index(word) for word in text.split() if word in WORDS})
    return known, [1.0] * len(known)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the examples of the user's own code find in the program around them."""
    client, colbert = QdrantClient(":memory:"), WordEncoder(96, name="colbert")
    dense = models.VectorParams(size=256, distance=models.Distance.COSINE)
    late = models.VectorParams(
        size=96,
        distance=models.Distance.COSINE,
        multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
    )
    client.create_collection("papers", dense)
    client.create_collection("mem0", dense)
    words = {"words": models.SparseVectorParams(modifier=models.Modifier.IDF)}
    client.create_collection("hybrid", {"dense": dense}, sparse_vectors_config=words)
    client.create_collection("late", {"dense": dense, "late": late})
    encoded = colbert.encode(TEXTS).tokens
    for i, (text, own) in enumerate(zip(TEXTS, embed(TEXTS), strict=True)):
        body = {"body": text, "page": i, "updated_at": "2026-01-01"}
        indices, values = sparse(text)
        both = {"dense": own, "words": models.SparseVector(indices=indices, values=values)}
        tokens = {"dense": own, "late": encoded[i].tolist()}
        client.upsert("papers", [models.PointStruct(id=i, vector=own, payload=body)])
        client.upsert("hybrid", [models.PointStruct(id=i, vector=both, payload={"text": text})])
        client.upsert("late", [models.PointStruct(id=i, vector=tokens, payload={"text": text})])
        memory = {"data": text, "hash": str(i), "user_id": "u", "created_at": "2026-01-01"}
        client.upsert("mem0", [models.PointStruct(id=i, vector=own, payload=memory)])
    from surprise_rerank.connectors.attached import Collection

    return {
        "Collection": Collection,
        "client": client,
        "embed": embed,
        "store": Mem0Store(client, "mem0"),
        "sparse_model": sparse,
        "colbert": colbert,
        "load_encoder": lambda: WordEncoder(32, name="small"),
        "other_questions": [f"x{i} y{i} z{i % 3}" for i in range(39)],
        "off_topic": "x7 y8 z2",
    }


SECTIONS = {
    "Sparse vectors": [["('0',)"]],
    "ColBERT multivectors": [["('0',)", "('0',)"]],
    "Thresholds": [[r"[1-8] 0"]],
    "Enrich": [
        [r"8 points, about .* nothing was written", "8 added, 0 updated, 0 unchanged, .*", r"\('0',\)"]
    ],
    "Daily changes": [["0 added, 0 updated, 0 unchanged.*"]],
}


def test_the_users_own_code(run, names):
    by_key, nothing = run("Your own code, and Mem0", names)
    assert re.fullmatch(r"\S+ 0 oil the chain .* \{'page': 0, 'updated_at': '2026-01-01'\}", by_key[0])
    assert nothing == []
    assert names["pipeline"].search("how hard should my tyres be?").ids[0] == "1"
    assert len(names["reranker"].rank("tyres", TEXTS[:3], ids=["0", "1", "2"])) == 3


@pytest.mark.parametrize("section", SECTIONS)
def test_what_comes_after(run, names, section):
    for printed, expected in zip(run(section, names), SECTIONS[section], strict=True):
        assert len(printed) == len(expected)
        for line, pattern in zip(printed, expected, strict=True):
            assert line == pattern or re.fullmatch(pattern, line), (line, pattern)
