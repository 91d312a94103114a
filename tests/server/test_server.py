"""The server's interfaces, without a network."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

from fastapi.testclient import TestClient
from helpers.serving import Log, client_of, service_of, words_reranker
from helpers.words import WordEncoder
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank import DataError, Document, Hit, TextReranker
from surprise_rerank._text_pool import OUTSIDE
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.connectors.server import ServerOptions, Service, create_app, service_app
from surprise_rerank.connectors.server._ranking import shown_scores
from surprise_rerank.connectors.systems._backgrounds import store_background
from surprise_rerank.thresholds.varied_questions import varied_questions

TEXTS = ["cats sleep all day", "dogs bark at night", "dogs bark", "a wing gives lift"]
QUESTION = "why do dogs bark"
DOCUMENTS = [Document(f"d{i}", text, title="T", metadata={"n": i}) for i, text in enumerate(TEXTS)]


@pytest.fixture
def client() -> TestClient:
    return client_of(create_app(words_reranker(), logger=Log().logger()))


@contextlib.contextmanager
def index_at(place: Path) -> Iterator[DocumentIndex]:
    with DocumentIndex.open(place, WordEncoder()) as index:
        index.sync(DOCUMENTS)
        background = (
            index.pipeline("dynamax").with_background(list(varied_questions(20))).current_background()
        )
        assert background is not None
        store_background(index.corpus, "dynamax", background)
        yield index


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentIndex]:
    """That tests only read."""
    with index_at(tmp_path_factory.mktemp("server") / "index") as index:
        yield index


@pytest.fixture
def searching(index: DocumentIndex) -> TestClient:
    app = create_app(index.text_reranker("dynamax"), index.pipeline("dynamax"), logger=Log().logger())
    return client_of(app)


# Cohere's and Jina's


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
def test_documents_come_back_in_the_re_rankers_order_with_its_scores(client, path):
    answer = client.post(path, json={"query": QUESTION, "documents": TEXTS, "model": "rerank-v3.5"})
    assert answer.status_code == 200
    expected = words_reranker().rank(QUESTION, TEXTS)
    body = answer.json()
    assert [r["index"] for r in body["results"]] == [r.position for r in expected]
    np.testing.assert_allclose(
        [r["relevance_score"] for r in body["results"]], [r.score for r in expected], rtol=1e-12
    )
    assert "document" not in body["results"][0]
    assert body["model"] == "words"
    assert body["id"] == answer.headers["X-Request-Id"]
    assert body["meta"]["api_version"] == {"version": path[2]}
    assert body["usage"] == {"total_tokens": sum(len(t.split()) for t in [QUESTION, *TEXTS])}


def test_rank_fields_name_what_is_ranked_of_documents_that_come_back_as_they_were(client):
    documents = [{"text": "dogs bark", "title": "cats"}, {"title": "dogs", "body": "bark"}, "dogs bark at"]
    body = {"query": "dogs bark", "documents": documents, "rank_fields": ["title", "body"]}
    results = client.post("/v1/rerank", json={**body, "return_documents": True}).json()["results"]
    assert [r["index"] for r in results] == [1, 2, 0]
    assert [r["document"] for r in results] == [documents[1], {"text": documents[2]}, documents[0]]
    assert client.post("/v1/rerank", json={**body, "rank_fields": None}).status_code == 422


# Text Embeddings Inference's


def test_ranks_have_index_and_score_and_the_text_on_request(client):
    ranks = client.post("/rerank", json={"query": QUESTION, "texts": TEXTS, "return_text": True}).json()
    assert [r["index"] for r in ranks] == [r.position for r in words_reranker().rank(QUESTION, TEXTS)]
    assert [rank["text"] for rank in ranks] == [TEXTS[rank["index"]] for rank in ranks]
    (plain,) = client.post("/rerank", json={"query": QUESTION, "texts": TEXTS[:1]}).json()
    assert set(plain) == {"index", "score"}
    assert client.post("/rerank", json={"query": QUESTION, "texts": []}).json() == []


def test_a_text_that_is_too_long_is_split_or_cut_at_either_end_or_refused():
    client = client_of(create_app(TextReranker(WordEncoder(window=2)), logger=Log().logger()))
    texts = ["dogs and cats bark", "bark or sleep now"]

    def first(path: str = "/rerank", **more: Any) -> Any:
        return client.post(path, json={"query": "bark", "raw_scores": True, **more})

    whole = first(texts=texts).json()
    assert whole[0]["score"] == whole[1]["score"]  # each has a passage with the word
    assert first(texts=texts, truncate=True).json()[0]["index"] == 1
    assert first(texts=texts, truncate=True, truncation_direction="Left").json()[0]["index"] == 0
    refused = first(texts=texts, truncate=False)
    assert (refused.status_code, refused.json()["error_type"]) == (413, "validation")
    assert refused.json()["error"] == "texts[0] has 4 tokens, and the model reads 2; send truncate=true"
    cut = first("/v2/rerank", documents=texts, max_tokens_per_doc=1).json()
    assert (cut["usage"], cut["results"][0]["index"]) == ({"total_tokens": 3}, 1)


_scores = st.lists(st.floats(-5, 5) | st.sampled_from([0.0, 1.0, 2.0]), max_size=20)


@given(_scores, st.booleans(), st.booleans())
def test_shown_scores_keep_the_order_within_the_bounds(scores, coarse, bounded):
    ordered = sorted(scores, reverse=True)
    ranked = [
        Hit(str(i), score, {}, percentile=min(1.0, max(0.0, round(score) / 5)) if coarse else None)
        for i, score in enumerate(ordered)
    ]
    shown = shown_scores(ranked, bounded)
    for upper, lower, a, b in zip(ordered, ordered[1:], shown, shown[1:], strict=False):
        assert (a > b) if upper > lower else (a == b)
    for text, value in zip(ranked, shown, strict=True):
        expected = min(1.0, max(0.0, text.relevance)) if bounded else text.relevance
        assert value == pytest.approx(expected, abs=2e-9)
        assert not bounded or 0 <= value <= 1


# Surprise, and documents that are stored


def test_relevance_is_the_percentile_where_there_is_a_background_and_metrics_count_verdicts(searching):
    on = searching.post("/v1/rerank", json={"query": QUESTION, "documents": TEXTS}).json()["results"]
    assert on[0]["relevance_score"] == pytest.approx(20 / 21)
    ranks = searching.post("/rerank", json={"query": QUESTION, "texts": TEXTS}).json()
    assert ranks[0]["score"] == pytest.approx(20 / 21)
    off = {"query": "who painted", "documents": TEXTS, "min_percentile": 0.9}
    refused = searching.post("/v1/rerank", json=off).json()
    assert (refused["results"], refused["verdict"]["status"]) == ([], "off-topic")
    assert "90 % are asked for" in refused["verdict"]["reason"]
    answer = searching.post("/v1/search", json={"query": QUESTION}).json()
    assert (answer["verdict"]["status"], answer["verdict"]["chance"]) == ("unknown", None)
    assert searching.get("/info").json()["background"] == 20
    searching.post("/rerank", json={"query": QUESTION})
    searching.get("/no/such/path")
    answer = searching.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    for line in (
        'verdicts_total{route="/v1/rerank",status="off-topic"} 1.0',
        'verdicts_total{route="/v1/search",status="unknown"} 1.0',
        'requests_total{route="/v1/rerank",status="200"} 2.0',
        'requests_total{route="/rerank",status="422"} 1.0',
        'requests_total{route="other",status="404"} 1.0',
        'documents_total{route="/v1/rerank"} 8.0',
        'request_seconds_count{route="/v1/rerank"} 2.0',
        "in_flight 0.0",
        "queue_rejections_total 0.0",
    ):
        assert f"surprise_rerank_{line}" in answer.text


def test_the_verdict_of_a_bare_list_is_in_a_header(searching, client):
    def verdict(asking: TestClient, texts: list[str]) -> Any:
        answer = asking.post("/rerank", json={"query": QUESTION, "texts": texts})
        return json.loads(answer.headers["X-Surprise-Verdict"])

    reranked = searching.post("/v1/rerank", json={"query": QUESTION, "documents": TEXTS}).json()
    assert verdict(searching, TEXTS) == reranked["verdict"]
    assert (verdict(client, TEXTS)["status"], verdict(client, [])["status"]) == ("unknown", "no match")


def test_a_threshold_is_refused_where_it_cannot_be_measured_and_leaves_bare_lists_whole(
    client, searching, index
):
    body = {"query": "who painted", "documents": TEXTS}
    for caller, said in ((client, "no background"), (searching, "20 background questions measure")):
        refused = caller.post("/v1/rerank", json={**body, "min_percentile": 0.99})
        assert refused.status_code == 422
        assert said in refused.json()["message"]
    reranker = index.text_reranker("dynamax", min_percentile=0.9)
    of_the_server = client_of(create_app(reranker, logger=Log().logger()))
    assert of_the_server.post("/v1/rerank", json=body).json()["results"] == []
    ranks = of_the_server.post("/rerank", json={"query": "who painted", "texts": TEXTS}).json()
    assert len(ranks) == len(TEXTS)


def test_texts_that_the_index_lacks_have_one_scale_from_0_to_1(tmp_path):
    with DocumentIndex.open(tmp_path / "index", WordEncoder()) as index:
        index.sync([Document(f"d{i}", f"{text} {i} times") for i, text in enumerate(TEXTS * 10)])
        client = client_of(service_app(service_of(index, "auto")))
        expected = [hit.score for hit in words_reranker().rank(QUESTION, TEXTS)]
        texts = [{"text": text} for text in TEXTS]
        for path, body in (
            ("/v1/rerank", {"documents": TEXTS}),
            ("/v1/rerank", {"documents": [{"id": "d0", "text": TEXTS[0]}, *texts[1:]]}),
            ("/rerank", {"texts": TEXTS}),
            ("/rerank", {"texts": TEXTS, "raw_scores": True}),
        ):
            answer = client.post(path, json={"query": QUESTION, **body}).json()
            scores = [rank["score"] for rank in answer] if path == "/rerank" else []
            scores = scores or [result["relevance_score"] for result in answer["results"]]
            assert scores == pytest.approx(expected, abs=1e-6), (path, body)
            assert min(scores) >= 0 > max(scores) - 1 - 1e-9
        for system in ("auto", "cosine"):  # cosines are from -1 on, and different texts come in another order
            of_system = client_of(service_app(service_of(index, system)))
            body = {"query": QUESTION, "documents": [*TEXTS, "", "other words"], "diversity": 0.8}
            shown = [r["relevance_score"] for r in of_system.post("/v1/rerank", json=body).json()["results"]]
            assert shown == sorted(shown, reverse=True)
            assert min(shown) >= 0 > max(shown) - 1 - 1e-9
        verdict = client.post("/v1/rerank", json={"query": QUESTION, "documents": TEXTS}).json()["verdict"]
        assert (verdict["status"], verdict["reason"]) == ("unknown", OUTSIDE)


def test_documents_with_the_id_of_a_stored_one_are_not_encoded(index):
    client = client_of(create_app(index.text_reranker("dynamax"), logger=Log().logger()))
    documents = [{"text": "not read", "id": "d2"}, {"text": "cats", "id": "d2"}, {"text": "dogs", "id": "no"}]
    answer = client.post("/v1/rerank", json={"query": "dogs bark", "documents": documents}).json()
    assert answer["usage"]["total_tokens"] == 3
    scores = {r["index"]: r["relevance_score"] for r in answer["results"]}
    assert scores[0] == scores[1]
    assert len(scores) == 3


def test_a_search_gives_documents_with_scores_text_and_metadata(searching, index):
    answer = searching.post("/v1/search", json={"query": "what gives lift", "top_k": 2}).json()
    assert answer["system"] == "DynaMaxScorer"
    first, second = answer["results"]
    assert (first["id"], first["title"], first["text"]) == ("d3", "T", "T a wing gives lift")
    assert first["metadata"] == {"n": 3}
    assert first["relevance_score"] == first["percentile"] >= second["percentile"]
    assert first["score"] > second["score"]
    (hit, _) = index.pipeline("dynamax").search("what gives lift", top_k=2)
    said_by_the_server = {"line_id", "relevance_score", "excerpt", "rank_compared"}
    assert {key: value for key, value in first.items() if key not in said_by_the_server} == hit.to_json()


# State


def test_until_it_is_opened_the_service_lives_and_is_not_ready():
    service = Service(searches=False, logger=Log().logger())
    client = client_of(service_app(service))
    assert client.get("/health").json() == {"status": "alive"}
    body = {"query": "a", "documents": ["b"], "texts": ["b"]}
    for path in ("/ready", "/info", "/v1/rerank", "/rerank"):
        answer = client.post(path, json=body) if "rerank" in path else client.get(path)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert answer.json()["error_type"] == "unhealthy"
    assert (client.head("/health").status_code, client.head("/ready").status_code) == (200, 503)
    service.open(words_reranker())
    assert client.get("/ready").json() == {"status": "ready"}
    assert client.head("/ready").status_code == 200
    assert client.post("/rerank", json=body).status_code == 200
    assert client.post("/v1/search", json={"query": QUESTION}).status_code == 404  # it has no index


# Searches with a filter, another system, and another order beside


@pytest.fixture
def systems(index: DocumentIndex) -> TestClient:
    return client_of(service_app(service_of(index)))


def _found(answer: dict[str, Any]) -> list[str]:
    return [hit["id"] for hit in answer["results"]]


def test_a_search_that_names_no_number_gets_what_the_server_gives(index):
    few = client_of(service_app(service_of(index, max_documents=2)))
    assert len(_found(few.post("/v1/search", json={"query": QUESTION}).json())) == 2
    refused = few.post("/v1/search", json={"query": QUESTION, "top_k": 3})
    assert (refused.status_code, "at most 2" in refused.json()["message"]) == (422, True)


@pytest.mark.parametrize("system", ["dynamax", "cosine", "fusion", "auto", "bm25"])
def test_a_filter_reaches_every_system(systems, system):
    late = {"must": [{"key": "metadata.n", "range": {"gte": 2}}]}
    body = {"query": QUESTION, "system": system, "filter": late, "compare_with": "cosine"}
    answer = systems.post("/v1/search", json=body).json()
    assert answer["system"] == system
    assert set(_found(answer)) <= set(_found(answer["compared"])) == {"d2", "d3"}


def test_another_order_comes_beside_with_each_documents_rank_there_and_excerpts(systems):
    body = {"query": QUESTION, "compare_with": "cosine", "top_k": 2, "excerpts": True}
    answer = systems.post("/v1/search", json=body).json()
    cosine = systems.post("/v1/search", json={"query": QUESTION, "system": "cosine"}).json()
    assert _found(answer["compared"]) == _found(cosine)[:2]
    ranks = {hit["id"]: hit["rank_compared"] for hit in answer["results"]}
    assert ranks == {name: _found(cosine).index(name) + 1 for name in ranks}
    excerpt = answer["results"][0]["excerpt"]
    assert excerpt["text"].startswith("dogs bark")
    assert [excerpt["text"][start:end] for start, end in excerpt["marks"]] == ["dogs", "bark"]


def test_the_servers_threshold_holds_for_every_system_that_a_request_names(tmp_path):
    with index_at(tmp_path / "index") as index:
        index.measure_background("cosine", list(varied_questions(20)))
        asking = client_of(service_app(service_of(index, least=0.9)))

        def answer(**more: Any) -> Any:
            return asking.post("/v1/search", json={"query": "cricket in summer", **more}).json()

        assert answer()["results"] == answer(system="cosine")["results"] == []
        shown = answer(keep_refused=True)
        assert (shown["verdict"]["status"], len(shown["results"])) == ("off-topic", 4)
        assert "give 0" in answer(system="bm25")["message"]
        assert answer(system="bm25", min_percentile=0)["verdict"]
        assert len(answer(system="cosine", min_percentile=0)["results"]) == 4
        assert asking.get("/info").json()["measured"] == ["cosine", "dynamax"]


def test_a_system_that_is_being_made_keeps_no_other_waiting(index):
    service = service_of(index)
    asking = client_of(service_app(service))
    with service.required().index._lock.get():
        busy = asking.post("/v1/search", json={"query": QUESTION, "system": "cosine"})
        assert asking.post("/v1/search", json={"query": QUESTION}).status_code == 200
    assert (busy.status_code, busy.headers["Retry-After"]) == (503, "2")
    assert asking.post("/v1/search", json={"query": QUESTION, "system": "cosine"}).status_code == 200


# Forms of other services


def test_documents_at_the_route_of_tei_are_answered_as_cohere_does(client):
    body = {"query": "dogs bark", "documents": ["cats sleep", "dogs bark at night"], "top_n": 1}
    answer, cohere = (client.post(path, json=body).json() for path in ("/rerank", "/v1/rerank"))
    assert answer["results"] == cohere["results"]
    assert answer["results"][0]["index"] == 1
    for wrong, said in (
        ({"documents": [1]}, "documents[0]"),
        ({"texts": ["a", 1]}, "texts[1]"),
        ({}, "texts"),
    ):
        refused = client.post("/rerank", json={"query": "q", **wrong})
        assert refused.status_code == 422
        assert refused.json()["error"].startswith(f"{said}: ")


def test_scores_of_pairs_are_similarities_from_0_to_1_on_one_scale(client):
    texts = ["dogs bark", "cats sleep", "dogs"]

    def scores(one: object, two: object) -> list[float]:
        answer = client.post("/score", json={"text_1": one, "text_2": two, "model": "any"}).json()
        assert [score["index"] for score in answer["data"]] == list(range(len(answer["data"])))
        return [score["score"] for score in answer["data"]]

    of_one = scores("dogs bark", texts)
    assert of_one[0] == pytest.approx(1, abs=1e-3)
    assert of_one[0] > of_one[2] > of_one[1] >= 0
    assert scores(["dogs bark"] * 3, texts) == pytest.approx(of_one)
    assert scores(["dogs bark", "cats sleep"], ["dogs", "cats sleep"])[0] == pytest.approx(of_one[2])
    assert scores("dogs bark", "dogs") == pytest.approx(of_one[2:])
    refused = client.post("/v1/score", json={"text_1": ["a", "b"], "text_2": ["a", "b", "c"]})
    assert refused.status_code == 422
    assert "2 in text_1 and 3 in text_2" in refused.json()["message"]


def test_the_model_is_listed_as_openai_does(client):
    (model,) = client.get("/v1/models").json()["data"]
    assert model["id"] == client.get("/info").json()["model_id"]


def test_pages_of_other_origins_may_ask_where_a_setting_says_so():
    shop, body = "https://shop.example", {"query": "q", "texts": ["a"]}
    headers = {"Origin": shop, "Access-Control-Request-Method": "POST"}
    headers["Access-Control-Request-Headers"] = "authorization,content-type"
    for token in (None, "a-token-of-this-test"):
        options = ServerOptions(origins=(shop,), token=token)
        client = client_of(create_app(words_reranker(), options=options, logger=Log().logger()))
        before = client.options("/rerank", headers=headers)
        assert before.status_code == 200
        assert before.headers["access-control-allow-origin"] == shop
        answer = client.post(
            "/rerank", json=body, headers={"Origin": shop, "Authorization": f"Bearer {token}"}
        )
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, shop)
        other = client.post("/rerank", json=body, headers={"Origin": "https://evil.example"})
        assert other.status_code == (403 if token is None else 401)
        assert "access-control-allow-origin" not in other.headers
    with pytest.raises(DataError, match="lets every web page in"):
        ServerOptions(origins=("*",))
