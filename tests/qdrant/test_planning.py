"""What an index would take with more documents: computed, and compared with one that is there."""

import json

import pytest
from helpers.words import WordEncoder

from surprise_rerank import DataError, Document
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant._planning import plan


def documents(count: int) -> list[Document]:
    return [
        Document(f"d{i}", " ".join(f"w{(i * 31 + j * j) % 5000}" for j in range(40))) for i in range(count)
    ]


def test_a_plan_is_computed_from_a_sample(tmp_path):
    options = IndexOptions(passages=None, tokens=False)
    with DocumentIndex.open(tmp_path / "index", WordEncoder(128), options=options) as index:
        with pytest.raises(DataError, match="documents in the index"):
            plan(index, 10)
        index.sync(documents(300), background=False)
        small, large, huge = plan(index, 300), plan(index, 2_000_000), plan(index, 100_000_000)
    # 4 bytes a component; 40 terms in two places; the graph, an id, and at least the text.
    text = sum(len(document.text) for document in documents(300)) / 300
    assert small.disk / 300 == pytest.approx(4 * 128 + 150 + 60 + 16 * 40 + text + 160, rel=0.15)
    assert huge.disk == pytest.approx(100_000_000 * small.disk / 300, rel=1e-3)
    assert small.memory_int8 < small.memory < small.disk
    assert not small.settings
    assert "--set quantization=int8" in large.settings
    assert "folder" in small.where
    assert large.where == "a server of one node"
    assert "--set shards=5" in huge.settings
    assert json.loads(json.dumps(huge.to_json()))["points"] == 100_000_000
    assert ("planned", "300 documents, 300 points") in small.facts()
