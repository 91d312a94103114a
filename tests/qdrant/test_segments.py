"""Words fill segments that are finished on the way, so that memory does not grow with the documents."""

import json

import numpy as np
from helpers.words import WordEncoder

from surprise_rerank import Document
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.qdrant._engines import edge

WORDS = np.random.default_rng(0).zipf(1.3, (400, 12)) % 500
DOCUMENTS = [Document(f"d{i}", " ".join(f"w{word}" for word in words)) for i, words in enumerate(WORDS)]
QUESTIONS = [f"w{word} w{word + 1} w{word + 7}" for word in range(60)]


def scores(index: DocumentIndex) -> list[list[float]]:
    """The best scores of BM25; which of equals come in is Qdrant's choice."""
    pipeline = index.pipeline("bm25")
    return [[round(hit.score, 4) for hit in pipeline.search(q, 10)] for q in QUESTIONS]


def test_an_index_whose_segments_are_finished_on_the_way_ranks_alike(tmp_path, monkeypatch):
    answers = []
    for name, words in (("one", 10**9), ("many", 900)):
        monkeypatch.setattr(edge, "_SEGMENT_WORDS", words)
        with DocumentIndex.open(tmp_path / name, WordEncoder()) as index:
            index.sync(DOCUMENTS, background=False)
            assert len(index) == len(DOCUMENTS)
            answers.append(scores(index))
    assert answers[0] == answers[1]
    # Their largest size stays when deleted texts are taken out of the files, for which Edge is made eager.
    with DocumentIndex.open(tmp_path / "many", WordEncoder()) as index:
        index.delete(["d0", "d1"])
    for name in ("one", "many"):
        (config,) = (tmp_path / name).rglob("edge_config.json")
        optimizers = json.loads(config.read_bytes()).get("optimizers") or {}
        assert bool(optimizers.get("max_segment_size")) == (name == "many")
        assert not optimizers.get("deleted_threshold")
