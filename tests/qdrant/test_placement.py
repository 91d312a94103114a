"""Shards and copies: as they are asked for, as they are shown, and what differs from them is named."""

import json
from typing import Any

import pytest
from click.testing import CliRunner
from helpers.faults import FaultyMemory, Status
from helpers.words import WordEncoder
from qdrant_client import models

from surprise_rerank import Document, IndexMismatchError, SurpriseRerankError
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant._engines.placement import difference
from surprise_rerank.encoders import _loading as loading
from surprise_rerank.eval.cli.surprise_rerank.main import command

DOCUMENTS = [Document(str(i), f"text number {i} of cats and dogs") for i in range(5)]
SPREAD = {"shard_number": 3, "replication_factor": 2, "write_consistency_factor": 1}


def opened(qdrant: Any, **more: object) -> DocumentIndex:
    chosen = IndexOptions(passages=None)
    return DocumentIndex.open(f"{qdrant.url}/{qdrant.prefix}", WordEncoder(), options=chosen, **more)


def spread(qdrant: Any) -> dict[str, tuple[int | None, ...]]:
    """End of a collection's name -> shards, copies, and copies that a write waits for."""
    # Local mode does not know how a collection is spread; what stands for a server does.
    client = qdrant if isinstance(qdrant, FaultyMemory) else qdrant.store
    params = {own: client.get_collection(own).config.params for own in qdrant.collections()}
    return {
        name.removeprefix(qdrant.prefix): (p.shard_number, p.replication_factor, p.write_consistency_factor)
        for name, p in params.items()
    }


def run(qdrant: Any, *arguments: str) -> str:
    where = f"{qdrant.url}/{qdrant.prefix}"
    done = CliRunner().invoke(command, [*arguments, "--index", where, "--quiet"])
    if isinstance(done.exception, SurpriseRerankError):
        return str(done.exception)
    assert done.exit_code == 0, done.output
    return done.output


def test_an_index_is_spread_as_it_is_told_and_a_rebuilt_one_as_before(qdrant):
    for _ in range(2):
        opened(qdrant, collection_settings=SPREAD).close()
    with pytest.raises(IndexMismatchError, match=r"shard_number=3, asked for is 6.*rebuild the index"):
        opened(qdrant, collection_settings={**SPREAD, "shard_number": 6})
    with opened(qdrant) as index:
        index.rebuild(DOCUMENTS)
        assert set(spread(qdrant).values()) == {(3, 2, 1), (1, 2, 1)}
        index.rebuild(DOCUMENTS, collection_settings={"shard_number": 2})
        assert set(spread(qdrant).values()) == {(2, 2, 1), (1, 2, 1)}
        assert len(index) == 5


def test_parts_of_a_setting_are_compared_where_they_are_given():
    config = models.CollectionConfig.model_validate(
        {
            "params": {"shard_number": 2, "sharding_method": "custom"},
            "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000},
            "optimizer_config": {
                "deleted_threshold": 0.2,
                "vacuum_min_vector_number": 1000,
                "default_segment_number": 0,
                "flush_interval_sec": 5,
            },
            "wal_config": None,
        }
    )
    assert difference({"hnsw_config": {"m": 16}, "timeout": 7, "shard_number": None}, config) is None
    assert difference({"hnsw_config": models.HnswConfigDiff(m=8)}, config) == ("hnsw_config.m", 16, 8)
    assert difference({"sharding_method": models.ShardingMethod.CUSTOM}, config) is None
    asked = models.OptimizersConfigDiff(indexing_threshold=7)
    assert difference({"optimizers_config": asked}, config) == (
        "optimizers_config.indexing_threshold",
        None,
        7,
    )


def test_status_shows_shards_and_their_nodes_to_who_may_see_them(qdrant):
    opened(qdrant, collection_settings={"write_consistency_factor": 1}).close()
    shown = run(qdrant, "status")
    assert "1 copy of each, a write waits for 1" in shown
    assert " active, 0 points" in shown
    found = json.loads(run(qdrant, "status", "--json"))["placement"]
    assert found["collection"] == f"{qdrant.prefix}@1"
    assert [shard["number"] for shard in found["shards"]] == list(range(len(found["shards"])))
    assert {copy["state"] for shard in found["shards"] for copy in shard["replicas"]} == {"Active"}
    qdrant.fault("collection_cluster_info", Status(403, "Only points access is allowed"), times=10)
    shown = run(qdrant, "status")
    assert "Only points access is allowed" in shown
    assert "documents" in shown


def test_a_folder_has_no_nodes(tmp_path):
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        assert index.placement() is None
    shown = CliRunner().invoke(command, ["status", "--index", str(tmp_path / "index"), "--json"])
    assert json.loads(shown.output)["placement"] is None


def test_the_command_line_spreads_an_index(qdrant, tmp_path, monkeypatch):
    def index(*settings: str) -> list[str]:
        return ["index", str(file), *(part for own in settings for part in ("--set", own))]

    monkeypatch.setattr(loading, "load_encoder", lambda name, *_, **__: WordEncoder(name=name))
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps({"id": d.id, "text": d.text}) + "\n" for d in DOCUMENTS))
    run(qdrant, *index("shards=3", "replicas=2", "write_consistency=1"))
    assert spread(qdrant)["@1"] == (3, 2, 1)
    assert "shard_number=3, asked for is 6" in run(qdrant, *index("shards=6"))
    run(qdrant, *index("shards=6"), "--rebuild")
    assert {own[:2] for own in spread(qdrant).values()} == {(6, 2), (1, 2)}
    done = CliRunner().invoke(command, [*index("replicas=2"), "--index", str(tmp_path / "own")])
    assert done.exit_code == 2
    assert "a folder has no shards" in done.output
