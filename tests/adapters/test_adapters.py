"""What holds for the adapters of every host."""

import asyncio
import copy
import importlib
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.hosts import HOSTS, Host
from helpers.named_index import DOCUMENTS, OFF_TOPIC, ON_TOPIC
from helpers.words import WordEncoder

from surprise_rerank import DataError, Document, MissingExtraError, StoreError, TextReranker
from surprise_rerank.connectors._components import stored_names
from surprise_rerank.connectors.qdrant import DocumentIndex

TEXTS = ["cats sleep all day", "dogs bark at night", "the dogs of the night bark", "a wing gives lift"]
OTHERS = [f"x{i} y{i} z{i % 3}" for i in range(19)]
QUESTION = "dogs bark"
NOWHERE = "x99 y99 z99"

every_host = pytest.mark.parametrize("host", HOSTS)


@pytest.fixture
def index() -> Iterator[DocumentIndex]:
    encoder = WordEncoder(64)
    with DocumentIndex.open(":memory:", encoder) as opened:
        opened.sync(Document(f"d{i}", text, metadata={"i": i}) for i, text in enumerate(TEXTS))
        opened.sync([Document("titled", "howl at the moon", title="Wolves", metadata={"tags": ["a"]})])
        encoder.encoded_texts.clear()
        yield opened


def documents(host: Host, texts: list[str] = TEXTS) -> list[Any]:
    return [host.document(f"d{i}", text, {"i": i, "deep": [i]}) for i, text in enumerate(texts)]


def of_index(host: Host) -> list[Any]:
    return [host.document(document.id, document.content, {}) for document in DOCUMENTS]


def judging(**more: Any) -> TextReranker:
    judged = TextReranker(WordEncoder(64)).with_background(OTHERS, lambda _: TEXTS)
    return judged.with_options(**more)


def all_of_them(host: Host, **more: Any) -> dict[str, Any]:
    return {**({host.most: 9} if host.most else {}), **more}


@every_host
@pytest.mark.parametrize("texts", [TEXTS, [*TEXTS, *TEXTS], ["", *TEXTS], ["alone"], []])
def test_copies_come_back_in_our_order_with_their_score(host, texts):
    inputs = documents(host, texts)
    before = copy.deepcopy(inputs)
    ranker = host.ranker(TextReranker(WordEncoder(64)), **all_of_them(host))
    ranked = host.rank(ranker, inputs, QUESTION)
    expected = TextReranker(WordEncoder(64)).rank(QUESTION, texts)
    assert [(line.id, line.score) for line in ranked] == [
        (f"d{line.position}", line.score) for line in expected
    ]
    for line in ranked:
        assert line.text == texts[line.meta["i"]]
        assert line.meta == {"i": line.meta["i"], "deep": [line.meta["i"]]}
        line.meta["new"] = 1
    # Their documents compare by identity.
    assert [str(document) for document in inputs] == [str(document) for document in before]


@every_host
def test_no_more_come_back_than_are_asked_for(host):
    if not host.most:
        pytest.skip("it has no such option")
    ranked = host.rank(host.ranker(TextReranker(WordEncoder()), **{host.most: 1}), documents(host), QUESTION)
    assert [line.id for line in ranked] == ["d1"]
    with pytest.raises(ValueError, match=host.most):
        host.ranker(TextReranker(WordEncoder()), **{host.most: 0})


@every_host
def test_documents_that_are_stored_are_not_encoded(host, index):
    ranker = host.ranker(index.text_reranker("dynamax"), **all_of_them(host))
    inputs = [*documents(host), host.document("elsewhere", "a stray", {})]
    ranked = host.rank(ranker, inputs, QUESTION)
    assert ranked[0].id == "d1"
    assert index.encoder.encoded_texts == [QUESTION, "a stray"]


@every_host
def test_a_background_makes_the_score_a_percentile_and_refuses_what_is_off_topic(host):
    ranked = host.rank(host.ranker(judging(), **all_of_them(host)), documents(host), QUESTION)
    assert ranked[0].score == ranked[0].meta["percentile"] == 0.95
    assert ranked[0].meta["rerank_verdict"] == "unknown"  # of four documents
    strict = host.ranker(judging(min_percentile=0.9))
    assert host.rank(strict, documents(host), QUESTION)[0].id == "d1"
    assert host.rank(strict, documents(host), NOWHERE) == []
    # Of an earlier stage it does not stay beside the score of a new one.
    again = [host.document(line.id, line.text, line.meta) for line in ranked]
    fresh = host.rank(host.ranker(TextReranker(WordEncoder(64))), again, QUESTION)
    assert all(line.meta.keys() == {"i", "deep"} for line in fresh)


@every_host
def test_async_gives_the_same_and_lets_the_event_loop_go_on(host):
    ticked = threading.Event()

    class Waiting(WordEncoder):
        def encode(self, *args: Any, **more: Any) -> Any:
            assert ticked.wait(20), "the event loop stood still"
            return super().encode(*args, **more)

    async def both() -> Any:
        ranker = host.ranker(TextReranker(Waiting(64)))
        task = asyncio.create_task(host.arank(ranker, documents(host), QUESTION))
        await asyncio.sleep(0.01)
        ticked.set()
        return await task

    answers = asyncio.run(both())
    assert answers == host.rank(host.ranker(TextReranker(WordEncoder(64))), documents(host), QUESTION)


@every_host
def test_names_are_enough_and_wrong_ones_are_told(host, named_index, tmp_path):
    names = {"index": named_index, "system": "dynamax"}
    ranker = host.named_ranker(**names, min_percentile=0.9)
    assert [line.id for line in host.rank(ranker, of_index(host), ON_TOPIC)] == ["dogs"]
    assert host.rank(ranker, of_index(host), OFF_TOPIC) == []
    with pytest.raises(DataError, match=f"{host.ranker_name} has no setting 'sytem'; did you mean 'system'"):
        host.named_ranker(sytem="auto")
    with pytest.raises(DataError, match=f"{host.ranker_name} has no setting 'depth'"):
        host.named_ranker(depth=3)
    with pytest.raises(DataError, match="system='atuo' is not known"):
        host.named_ranker(system="atuo")
    with pytest.raises(StoreError, match="nowhere"):
        host.rank(host.named_ranker(index=str(tmp_path / "nowhere")), of_index(host), ON_TOPIC)


@pytest.mark.parametrize("host", HOSTS[:3])
def test_a_retriever_hands_out_what_is_stored(host, index):
    retriever = host.retriever(index.pipeline("dynamax"), **{host.retriever_most: 5})
    lines = {line.id: line for line in host.retrieve(retriever, "wolves howl")}
    assert lines.keys() == {"d0", "d1", "d2", "d3", "titled"}
    assert lines["titled"].text == "Wolves howl at the moon"
    assert lines["titled"].meta.items() >= {"title": "Wolves", "tags": ["a"]}.items()
    assert lines["titled"].score > lines["d3"].score
    assert lines["d1"].meta["i"] == 1
    assert asyncio.run(host.aretrieve(retriever, "wolves howl")) == host.retrieve(retriever, "wolves howl")
    # A re-ranker knows what it handed out.
    inputs = [host.document(line.id, "?", {}) for line in lines.values()]
    index.encoder.encoded_texts.clear()
    host.rank(host.ranker(index.text_reranker("dynamax")), inputs, QUESTION)
    assert index.encoder.encoded_texts == [QUESTION]
    with pytest.raises(ValueError, match=r"at least 1|greater than or equal to 1"):
        host.retriever(index.pipeline(), **{host.retriever_most: 0})


@pytest.mark.parametrize("host", HOSTS[:3])
def test_a_retriever_made_of_names_refuses_what_is_off_topic(host, named_index):
    names = {"index": named_index, "system": "dynamax"}
    retriever = host.named_retriever(**names, min_percentile=0.9)
    (line,) = host.retrieve(retriever, ON_TOPIC)
    ours = {"percentile": line.score, "rerank_verdict": "unknown", "title": "dogs"}
    assert line.meta.items() >= ours.items()
    assert host.retrieve(retriever, OFF_TOPIC) == []
    with pytest.raises(DataError, match="SurpriseRetriever has no setting 'sytem'; did you mean 'system'"):
        host.named_retriever(**names, sytem="auto")


@every_host
def test_a_missing_package_is_named_with_the_line_that_installs_it(host, monkeypatch):
    assert host.adapter
    for name in [
        module for module in sys.modules if module.partition(".")[0] == host.package.partition(".")[0]
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, host.package.partition(".")[0], None)
    monkeypatch.delitem(sys.modules, f"surprise_rerank.connectors.{host.module}")
    with pytest.raises(MissingExtraError, match=rf"pip install 'surprise-rerank\[{host.extra}\]'"):
        importlib.import_module(f"surprise_rerank.connectors.{host.module}")


def test_ids_of_an_index_are_strings_and_uuids():
    id_ = uuid.uuid4()
    assert stored_names("a", None, 3, id_, "a", "", True) == ("a", str(id_))
    assert stored_names(None, 3) is None
