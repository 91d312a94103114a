"""Many customers in one index: a payload index of tenants."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.words import WordEncoder
from qdrant_client import models

from surprise_rerank import DataError, Document, IndexMismatchError, Passages
from surprise_rerank._candidates import Field
from surprise_rerank.connectors._searchable import SearchableCollection
from surprise_rerank.connectors.qdrant import (
    ALL,
    DenseRetriever,
    DocumentIndex,
    IndexOptions,
    SearchOptions,
    SparseRetriever,
)
from surprise_rerank.connectors.qdrant._hybrid import HybridRetriever
from surprise_rerank.connectors.qdrant._retrievers import narrowable
from surprise_rerank.connectors.similar import SimilaritySettings, similar_documents
from surprise_rerank.encoders import _loading as loading
from surprise_rerank.encoders.base import encode_queries
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


def hybrid(index: SearchableCollection, options: SearchOptions = SearchOptions()) -> set[str]:  # noqa: B008
    words = SparseRetriever(index.corpus, options)
    return set(HybridRetriever(index.corpus, words, options=options).retrieve(query(), 31, EVERYTHING).ids)


def ids(tenant: str) -> set[str]:
    return {d.id for d in DOCUMENTS if d.metadata["customer"] == tenant}


def test_a_search_of_a_tenant_finds_its_documents_only(open_index):
    with open_index(WordEncoder(), options=BY_TENANT) as index:
        index.sync([*DOCUMENTS, Document("nobody's", "cats")])
        assert "/nobody's" in hybrid(index.of_tenant(ALL))
        assert hybrid(index.of_tenant("")) == {"nobody's"}
        for name in TENANTS:
            assert hybrid(index.of_tenant(name)) == ids(name)
            filtered = hybrid(index.of_tenant(ALL), SearchOptions(filter=of(name)))
            assert filtered == {f"{name}/{own}" for own in ids(name)}
        assert not hybrid(index.of_tenant("nobody"))
        steps = DenseRetriever(index.corpus.of_tenant("acme")).steps(query(), 5)
        assert "of tenant 'acme'" in steps[0]
    with open_index(None) as index:
        assert index.manifest.options.tenant == "customer"


def test_an_index_without_tenants_says_how_to_get_them(open_index):
    with open_index(WordEncoder()) as index:
        index.sync(DOCUMENTS[:3])
        with pytest.raises(DataError, match=r"has no tenants; index with --tenant KEY"):
            index.of_tenant("acme")
    with pytest.raises(IndexMismatchError, match="tenant=None, asked for is tenant='customer'"):
        open_index(WordEncoder(), options=BY_TENANT)


LETTER = "The same first words of every letter about the weather in the mountains. "
SAME_IDS = [
    Document(
        "1", LETTER * 30 + "Acme asks for the secret plan.", metadata={"customer": "acme"}, source="a.csv"
    ),
    Document(
        "1", LETTER * 30 + "Bolt pays for its plan of rails.", metadata={"customer": "bolt"}, source="b.csv"
    ),
    Document("2", "Bolt sends screws.", metadata={"customer": "bolt"}, source="b.csv"),
    Document("1", "Nobody owns this plan."),
]
TEXTS = {"acme/1": SAME_IDS[0], "bolt/1": SAME_IDS[1], "bolt/2": SAME_IDS[2], "/1": SAME_IDS[3]}


def held(index: SearchableCollection) -> dict[str, str]:
    """Id -> text of everything that a search finds; ids and documents by id agree with the search."""
    pipeline = index.pipeline("auto")
    ranking = pipeline.search("whose plan is it", top_k=50)
    assert ranking.documents is not None
    texts = {name: own.text for name, own in zip(ranking.ids, ranking.documents, strict=True)}
    assert {name: document.text for name, document in index.corpus.documents(ranking.ids).items()} == texts
    fetched = index.fetch(ranking.ids, frozenset({"documents", "tokens"}))
    assert {name: own.text for name, own in zip(fetched.ids, fetched.documents or (), strict=True)} == texts
    assert len(index) == len(texts)
    return texts


def test_an_id_is_of_its_tenant(open_index):
    options = IndexOptions(tenant="customer", passages=Passages(tokens=64))
    with open_index(WordEncoder(), options=options) as index:
        report = index.sync(SAME_IDS)
        assert (report.added, report.updated, report.split) == (4, 0, 2)
        assert index.sync(SAME_IDS).unchanged == 4
        assert held(index.of_tenant(ALL)) == {key: own.text for key, own in TEXTS.items()}
        for tenant, ids in {"acme": ["1"], "bolt": ["1", "2"], "": ["1"]}.items():
            assert held(index.of_tenant(tenant)) == {name: TEXTS[f"{tenant}/{name}"].text for name in ids}
        (candidate,) = set(index.fetch(["1"], frozenset(), tenant="acme").ids)
        assert candidate == "1"
        with pytest.raises(DataError, match=r"such as '1' \(say tenant=\)"):
            index.fetch(["1"], frozenset())
        with pytest.raises(DataError, match=r"not in .*, such as '2' of tenant 'acme'"):
            index.fetch(["2"], frozenset(), tenant="acme")

        with pytest.raises(DataError, match="has tenants, and none is named"):
            index.delete(["1"])
        assert index.delete(["1", "2"], tenant="acme") == 1
        assert held(index.of_tenant(ALL)) == {key: own.text for key, own in TEXTS.items() if key != "acme/1"}


def test_a_search_for_a_tenant_is_one_of_its_documents_by_both_doors(open_index):
    with open_index(WordEncoder(), options=BY_TENANT) as index:
        index.sync(DOCUMENTS)
        whole, view = index.pipeline("auto"), index.of_tenant("bolt")
        narrowed = replace(whole, retriever=narrowable(whole.retriever).among(None, "bolt"))
        for question in ("cats of number 7", "dogs"):
            first, second = narrowed.search(question, 30), view.pipeline("auto").search(question, 30)
            assert set(first.ids) == ids("bolt")
            assert first.ids == second.ids
            np.testing.assert_allclose(first.scores, second.scores)
        assert {d.metadata["customer"] for d in view.corpus.sample_documents(64)} == {"bolt"}
        with pytest.raises(DataError, match="another tenant, 'acme', is asked for"):
            view.of_tenant("acme")
        given = view.text_reranker("auto").rank("cats", ["text", "other"], ids=["1", "2"])
        assert "stored 1 of 2" in given.notes[0]  # 2 is cord's


def test_backgrounds_of_a_tenant_are_its_own(open_index):
    with open_index(WordEncoder(), options=BY_TENANT) as index:
        index.sync(DOCUMENTS)
        questions = [f"what of word{i} and thing{i}" for i in range(30)]
        assert index.measure_background(questions=questions).documents == 30
        bolt = index.of_tenant("bolt")
        assert bolt.backgrounds()["auto"].documents == 30  # until it has one
        assert bolt.measure_background(questions=questions).documents == 10
        assert bolt.backgrounds()["auto"].documents == 10
        assert index.backgrounds()["auto"].documents == 30
        assert index.of_tenant("acme").backgrounds()["auto"].documents == 30


def test_prune_and_rebuild_stay_inside_the_tenants_that_are_named(open_index):
    left = {key: own.text for key, own in TEXTS.items()}
    with open_index(WordEncoder(), options=BY_TENANT) as index:
        index.sync(SAME_IDS)
        bolts = [replace(SAME_IDS[1], text="Bolt has another plan.")]
        assert index.sync(bolts, prune=True).removed == 1
        left |= {"bolt/1": "Bolt has another plan."}
        del left["bolt/2"]
        assert held(index.of_tenant(ALL)) == left

        with pytest.raises(DataError, match="'1' is of tenant 'bolt', and the documents of tenant='acme'"):
            index.sync(bolts, prune=True, tenant="acme")
        other = replace(SAME_IDS[0], id="4", text="Acme starts again.")
        assert index.sync([other], prune=True, tenant="acme").removed == 1
        del left["acme/1"]
        left["acme/4"] = other.text
        assert held(index.of_tenant(ALL)) == left

        report = index.rebuild([Document("9", "Cord has a plan, too.", metadata={"customer": "cord"})])
        assert report.added == len(index) == 4
        left["cord/9"] = "Cord has a plan, too."
        assert held(index.of_tenant(ALL)) == left
        again = index.sync([replace(SAME_IDS[2], id="3")], prune=True)  # of the source that bolt/1 is from
        assert (again.added, again.removed) == (1, 1)


def test_tenants_whose_names_hold_a_slash_do_not_meet(open_index):
    documents = [
        Document("b/c", "Of the tenant a.", metadata={"customer": "a"}),
        Document("c", "Of the tenant a/b.", metadata={"customer": "a/b"}),
        Document("c", "Of the tenant a~1b.", metadata={"customer": "a~1b"}),
    ]
    with open_index(WordEncoder(), options=BY_TENANT) as index:
        assert index.sync(documents).added == len(index) == 3
        for document in documents:
            tenant = document.metadata["customer"]
            assert held(index.of_tenant(tenant)) == {document.id: document.text}
        assert index.sync(documents[:1], prune=True).removed == 0
        with pytest.raises(
            DataError,
            match=r"the tenant of document '1' \(metadata 'customer'\) must be a string, got \['a', 'b'\]",
        ):
            index.sync([Document("1", "a", metadata={"customer": ["a", "b"]})])


def test_near_duplicates_are_looked_for_in_one_tenant(tmp_path):
    with DocumentIndex.open(tmp_path / "index", WordEncoder(), options=BY_TENANT) as index:
        index.sync(DOCUMENTS)
    pairs: dict[str | None, Any] = {}
    for tenant in (None, "bolt"):
        settings = SimilaritySettings(k=3, similarity="cosine", tenant=tenant)
        job = similar_documents(None, settings, index=str(tmp_path / "index"))
        pairs[tenant] = {
            name for row in job.table().to_pylist() for name in (row["document"], row["neighbour"])
        }
    assert pairs["bolt"] <= ids("bolt")
    assert pairs[None] <= {f"{d.metadata['customer']}/{d.id}" for d in DOCUMENTS}
    assert all(len(found) > 3 for found in pairs.values())


def test_the_command_line_has_tenants(tmp_path, monkeypatch):
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
    refused = CliRunner().invoke(command, ["index", "--delete", "1", *own])
    assert isinstance(refused.exception, DataError)
    assert "(--tenant NAME)" in str(refused.exception)
    refused = CliRunner().invoke(command, ["search", "cats", *own])
    assert "has tenants, and none is named" in str(refused.exception)
    every = json.loads(run("search", "cats", "--tenant", "*", "--json", "--top", "30"))
    assert len(every["hits"]) == 30
    removed = json.loads(run("index", "--delete", "1", "--delete", "2", "--tenant", "bolt", "--json"))
    assert (removed["removed"], removed["documents"]) == (1, 29)  # 2 is cord's
    condition = json.dumps({"must": [{"key": "id", "match": {"value": "2"}}]})
    for where, left in ((condition, 28), ("{}", 19)):
        said = CliRunner().invoke(
            command, ["index", "--delete-where", where, "--tenant", "cord", "--json", *own]
        )
        assert json.loads(said.stdout)["documents"] == left
        assert "not in the index" not in said.stderr  # of which none was named


def test_an_index_with_tenants_is_not_searched_for_nobody(open_index):
    with open_index(WordEncoder(), options=BY_TENANT) as index:
        index.sync(DOCUMENTS, background=False)
        for system in ("auto", "cosine"):
            for pipeline in (index.pipeline(system), index.of_tenant(ALL).pipeline(system)):
                assert set(pipeline.search("cats", 30, tenant="bolt").ids) == ids("bolt")
            with pytest.raises(DataError, match=r"has tenants, and none is named; give tenant="):
                index.pipeline(system).search("cats")
            every = index.pipeline(system, tenant=ALL)
            assert set(every.search("cats", 30).ids) == {
                f"{d.metadata['customer']}/{d.id}" for d in DOCUMENTS
            }
            narrowed = every.search("cats", 30, filter=of("acme"))
            assert set(narrowed.ids) == {f"acme/{name}" for name in ids("acme")}
        with pytest.raises(DataError, match=r"is '\*', which stands for all of them; give"):
            index.sync([Document("1", "cats", metadata={"customer": ALL})], background=False)
        with pytest.raises(DataError, match="has tenants, and none is named"):
            list(index.ids())


def test_documents_are_listed_and_deleted_by_filter_and_by_tenant(open_index):
    even = [
        Document(d.id, d.text * 30, metadata={**d.metadata, "even": int(d.id) % 2 == 0}) for d in DOCUMENTS
    ]
    is_even = models.FieldCondition(key="metadata.even", match=models.MatchValue(value=True))
    condition = models.Filter(must=[is_even])
    options = IndexOptions(tenant="customer", passages=Passages(tokens=64))
    with open_index(WordEncoder(), options=options) as index:
        assert index.sync(even, background=False).split == 30
        bolts = {name for name in ids("bolt") if int(name) % 2 == 0}
        assert set(index.ids(filter=condition, tenant="bolt")) == bolts
        assert len(set(index.ids(filter=condition, tenant=ALL))) == 15
        assert list(index.ids(tenant=ALL)) == list(index.ids(tenant=ALL))
        assert index.delete(filter=condition, tenant="bolt") == 5
        assert set(index.ids(tenant="bolt")) == ids("bolt") - bolts
        some = ["0", "3", "9", "1"]
        assert index.delete(some, filter=condition, tenant="acme") == 1  # 1 is bolt's, 3 and 9 are odd
        assert index.delete(tenant="cord") == 10
        assert len(index) == 14
        assert index.delete(["acme/3", "cord/2"], tenant=ALL) == 1
        for tenant in (None, ALL):
            with pytest.raises(DataError, match="say what is to be deleted"):
                index.delete(tenant=tenant)
        assert index.delete(filter=condition, tenant=ALL) == 4
        assert not any(int(name.partition("/")[2]) % 2 == 0 for name in index.ids(tenant=ALL))
