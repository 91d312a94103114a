"""Many customers in one index: a payload index of tenants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import Opener
from qdrant_client import models
from words import WordEncoder

from surprise_rerank.candidates import Field
from surprise_rerank.connectors.qdrant import DenseRetriever, IndexOptions, SearchOptions
from surprise_rerank.connectors.qdrant.retrievers import HybridRetriever, SparseRetriever
from surprise_rerank.connectors.ranked import Ranked
from surprise_rerank.documents import Document
from surprise_rerank.encoders import loading
from surprise_rerank.encoders.base import encode_queries
from surprise_rerank.errors import DataError, IndexMismatchError
from surprise_rerank.eval.cli.surprise_rerank.main import command

TENANTS = ("acme", "bolt", "cord")
DOCUMENTS = [
    Document(
        str(i), f"text number {i} of cats and dogs. " * (1 + i % 4), metadata={"customer": TENANTS[i % 3]}
    )
    for i in range(30)
]
EVERYTHING: frozenset[Field] = frozenset({"dense", "tokens", "terms", "documents"})
BY_TENANT = IndexOptions(tenant="customer")


def of(tenant: str) -> models.Filter:
    own = models.FieldCondition(key="metadata.customer", match=models.MatchValue(value=tenant))
    return models.Filter(must=[own])


def query() -> Any:
    (made,) = encode_queries(WordEncoder(), ["cats of number 7"])
    return made


def hybrid(index: Ranked, options: SearchOptions = SearchOptions()) -> set[str]:  # noqa: B008
    words = SparseRetriever(index, options)
    return set(HybridRetriever(index, words, options=options).retrieve(query(), 31, EVERYTHING).ids)


def ids(tenant: str) -> set[str]:
    return {d.id for d in DOCUMENTS if d.metadata["customer"] == tenant}


def test_a_search_of_a_tenant_finds_its_documents_only(open_index: Opener) -> None:
    with open_index(WordEncoder(), options=BY_TENANT) as index:
        index.sync([*DOCUMENTS, Document("nobody's", "cats")])
        assert "/nobody's" in hybrid(index)
        assert hybrid(index.of_tenant("")) == {"nobody's"}
        for name in TENANTS:
            assert hybrid(index.of_tenant(name)) == ids(name)
            filtered = hybrid(index, SearchOptions(filter=of(name)))
            assert filtered == {f"{name}/{own}" for own in ids(name)}
        assert not hybrid(index.of_tenant("nobody"))
        steps = DenseRetriever(index.of_tenant("acme")).steps(query(), 5)
        assert "of tenant 'acme'" in steps[0]
    with open_index(None) as index:
        assert index.manifest.options.tenant == "customer"


def test_an_index_without_tenants_says_how_to_get_them(open_index: Opener) -> None:
    with open_index(WordEncoder()) as index:
        index.sync(DOCUMENTS[:3])
        with pytest.raises(DataError, match=r"has no tenants; index with --tenant KEY"):
            index.of_tenant("acme")
    with pytest.raises(IndexMismatchError, match="tenant=None, asked for is tenant='customer'"):
        open_index(WordEncoder(), options=BY_TENANT)


def test_the_command_line_has_tenants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "load_encoder", lambda name, *_, **__: WordEncoder(name=name))
    monkeypatch.setattr(loading, "load_question_encoder", lambda name, *_, **__: WordEncoder(name=name))
    file, own = tmp_path / "a.jsonl", ["--index", str(tmp_path / "index"), "--quiet"]
    rows = [{"id": d.id, "text": d.text, "metadata": dict(d.metadata)} for d in DOCUMENTS]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(command, [*arguments, *own], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    run("index", str(file), "--tenant", "customer")
    assert "tenant" in run("status")
    found = json.loads(run("search", "cats", "--tenant", "bolt", "--json", "--top", "30"))
    assert {hit["id"] for hit in found["hits"]} == ids("bolt")
