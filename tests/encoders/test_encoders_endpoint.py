"""Endpoints that speak OpenAI's embeddings API, on a real HTTP server of these tests' own."""

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from helpers.endpoint import KEY, WORDS, Endpoint, good

from surprise_rerank import DataError, ModelError, OpenAIEncoder


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("surprise_rerank.encoders._function._FIRST_WAIT", 0.001)
    started = Endpoint()
    yield started
    started.server.shutdown()
    started.server.server_close()


def test_vectors_come_in_the_order_of_the_texts_whatever_the_answers(endpoint):
    texts = ["red fish", "blue bird", "green"]
    own = endpoint.encoder(batch=2)
    np.testing.assert_allclose(own.encode(texts).dense, WORDS.encode(texts).dense, atol=1e-6)
    (path, headers, body), (_, _, second) = endpoint.requests
    assert (path, headers["Authorization"]) == ("/v1/embeddings", f"Bearer {KEY}")
    assert (body, second["input"]) == ({"model": "toy", "input": texts[:2]}, texts[2:])
    own.close()


def test_prompts_and_dimensions_are_sent(endpoint):
    own = endpoint.encoder(prompts={"query": "query: ", "document": "passage: "}, dimensions=16)
    own.encode(["a"], "query")
    own.encode(["a"])
    bodies = [body for _, _, body in endpoint.requests]
    assert [body["input"] for body in bodies] == [["query: a"], ["passage: a"]]
    assert {body["dimensions"] for body in bodies} == {16}


def test_what_may_pass_is_tried_again_after_the_pause_that_the_server_asks_for(endpoint):
    endpoint.answers = [(408, b"busy", {}), (502, b"busy", {}), (429, b"busy", {"Retry-After": "1"})]
    start = time.monotonic()
    assert endpoint.encoder().encode(["a"]).dense.shape == (1, 16)
    assert time.monotonic() - start >= 1
    assert len(endpoint.requests) == 4


def test_what_keeps_failing_is_an_error_with_the_servers_message(endpoint):
    endpoint.answers = [(500, {"error": {"message": f"overloaded for {KEY}"}}, {})] * 9
    with pytest.raises(ModelError, match=r"tried 3 times: .*answered 500: overloaded for \*\*\*"):
        endpoint.encoder(attempts=3).encode(["a"])
    assert len(endpoint.requests) == 3


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "answered 401: Incorrect .*; set OPENAI_API_KEY to a key of this endpoint$"),
        (404, "check that the endpoint has this model"),
        (400, "send less at a time"),
        (418, "check the url"),
    ],
)
def test_a_refusal_is_an_error_at_once_without_keys_and_passwords(endpoint, status, message):
    endpoint.answers = [(status, {"error": {"message": f"Incorrect API key: {KEY}"}}, {})] * 9
    endpoint.url = endpoint.url.replace("http://", "http://user:hidden@") + "?token=hidden"
    own = endpoint.encoder()
    with pytest.raises(ModelError, match=message) as error:
        own.encode(["a"])
    assert len(endpoint.requests) == 1
    for secret in (KEY, "hidden"):
        assert secret not in str(error.value)
    assert KEY not in repr(own) + str(vars(own))


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (lambda texts: {"data": good(texts)["data"][:1]}, ModelError, "KeyError"),
        (lambda texts: {"data": []}, DataError, "returned for texts 0 to 1 must be 2, got 0; it may"),
        (lambda texts: {"data": [{"index": 0}, {"index": 0}]}, ModelError, "embedding"),
        (lambda texts: b"<html>", ModelError, "something else than OpenAI's embeddings"),
        (lambda texts: [], ModelError, "something else"),
        (
            lambda texts: {"data": [{"embedding": [0.1, 0.2]}, {"embedding": [0, 0]}]},
            ModelError,
            "zeros for text 1",
        ),
    ],
)
def test_wrong_answers_are_errors_at_once(endpoint, answer, kind, message):
    endpoint.answers = [answer]
    with pytest.raises(kind, match=message):
        endpoint.encoder().encode(["a", "b"])
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://x/v1", "", "http://"])
def test_a_url_that_is_none_is_refused(url):
    with pytest.raises(ModelError, match="no url of an endpoint"):
        OpenAIEncoder("toy", url)


def test_several_requests_are_on_their_way_at_once_and_give_what_one_after_the_other_gives(endpoint):
    texts = [f"fish {i}" for i in range(12)] + ["", "fish 0"]
    meeting = threading.Barrier(3, timeout=20)  # broken unless three requests wait for each other

    def together(batch):
        meeting.wait()
        return good(batch)

    endpoint.answers = [together] * 6
    counts: list[int] = []
    encoded = endpoint.encoder(batch=2, parallel=3).encode(texts[:13], on_progress=counts.append)
    np.testing.assert_allclose(encoded.dense, WORDS.encode(texts[:13]).dense, atol=1e-6)
    assert sum(counts) == 13


def test_requests_of_all_threads_begin_as_far_apart_as_the_provider_allows(endpoint):
    start = time.monotonic()
    endpoint.encoder(batch=1, parallel=4, per_minute=600).encode(["a", "b", "c", "d", "e"])
    assert time.monotonic() - start >= 0.4


def test_no_thread_sends_while_the_server_asks_for_a_pause(endpoint):
    times: list[float] = []

    def noting(batch):
        times.append(time.monotonic())
        time.sleep(0.5 if len(times) == 1 else 0)  # until the other thread has read its answer
        return good(batch)

    endpoint.answers = [(429, b"busy", {"Retry-After": "1"}), *[noting] * 6]
    start = time.monotonic()
    endpoint.encoder(batch=1, parallel=2, per_minute=1200).encode(["a", "b", "c", "d", "e"])
    assert len(times) == 5
    assert sum(moment - start >= 1 for moment in times) >= 4  # one was on its way


def test_a_request_has_as_many_characters_as_the_model_takes(endpoint):
    endpoint.encoder(characters=10).encode(["red fish", "blue", "green", "x"])
    assert [body["input"] for _, _, body in endpoint.requests] == [["red fish"], ["blue", "green", "x"]]
