"""Questions of several requests in one batch: everybody gets their own answer, and waits for nobody's."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

import httpx
from serving import Log, served, wait_until
from test_server_limits import in_flight
from tiny_bert import tiny_bert
from words import WordEncoder

from surprise_rerank.connectors.server import ServerOptions, create_app
from surprise_rerank.connectors.server.questions import Questions
from surprise_rerank.connectors.server.work import Workers
from surprise_rerank.core.threads import using_threads
from surprise_rerank.encoders.adapting import as_encoder
from surprise_rerank.encoders.base import Encoded, Encoder, Kind
from surprise_rerank.text_reranker import TextReranker

WORDS = ["dogs", "bark", "cats", "sleep", "wings", "lift", "rain", "falls"]


class WaitingEncoder(WordEncoder):
    """Encodes questions when it may, and fails where a text says so."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.may_go_on = threading.Event()
        self.batches: list[list[str]] = []

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Callable[[int], None] | None = None
    ) -> Encoded:
        if kind == "query":
            self.batches.append(list(texts))
            self.begun.set()
            assert self.may_go_on.wait(20)
            if "bad" in texts:
                raise ValueError("a bad question")
        return super().encode(texts, kind, on_progress)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return as_encoder(tiny_bert(tmp_path_factory.mktemp("model"), WORDS), name="tiny")


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=st.lists(
        st.tuples(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), st.integers(0, 3)),
        min_size=1,
        max_size=24,
    ),
    callers=st.integers(1, 8),
    most=st.integers(1, 6),
    workers=st.integers(1, 4),
)
def test_everybody_gets_their_own_answer_however_callers_interleave(
    model: Encoder, asked: list[tuple[str, int]], callers: int, most: int, workers: int
) -> None:
    sizes: list[int] = []
    questions = Questions(most, workers, sizes.append)

    def ask(own: tuple[str, int]) -> Encoded:
        text, milliseconds = own
        with questions.waiting(model, text) as question:
            time.sleep(milliseconds / 1000)  # until a worker comes to it
            return questions.encoded(question)

    with ThreadPoolExecutor(callers) as pool:
        answers = list(pool.map(ask, asked))
    assert max(sizes) <= most
    assert sum(sizes) == len(asked)
    for (text, _), answer in zip(asked, answers, strict=True):
        alone = model.encode([text], "query")
        np.testing.assert_allclose(answer.dense, alone.dense, atol=1e-6)
        assert answer.require_tokens().lengths.tolist() == alone.require_tokens().lengths.tolist()
        np.testing.assert_allclose(answer.require_tokens()[0], alone.require_tokens()[0], atol=1e-5)


def test_what_gathers_while_a_worker_is_busy_is_one_batch_and_no_larger_than_allowed() -> None:
    encoder, sizes = WordEncoder(), list[int]()
    questions = Questions(3, 1, sizes.append)
    with contextlib.ExitStack() as stack:
        five = [stack.enter_context(questions.waiting(encoder, f"question {i}")) for i in range(5)]
        for own in five:
            expected = encoder.encode([own.text], "query").dense
            np.testing.assert_allclose(questions.encoded(own).dense, expected)
    assert sizes == [3, 2]


def test_each_worker_takes_its_share_and_leaves_the_next_question_to_the_others() -> None:
    encoder, sizes = WordEncoder(), list[int]()
    questions = Questions(16, 2, sizes.append)
    with contextlib.ExitStack() as stack:
        seven = [stack.enter_context(questions.waiting(encoder, str(i))) for i in range(7)]
        questions.encoded(seven[0])
        assert encoder.encoded_texts == ["0", "2", "3", "4"]
        questions.encoded(seven[1])
        assert encoder.encoded_texts[4:] == ["1", "6"]
        for own in seven:
            questions.encoded(own)
        assert encoder.encoded_texts[6:] == ["5"]


def test_a_question_without_company_is_encoded_alone_and_at_once() -> None:
    encoder, sizes = WordEncoder(), list[int]()
    questions = Questions(16, 1, sizes.append)
    for text in ("dogs bark", "cats sleep"):
        with questions.waiting(encoder, text) as question:
            questions.encoded(question)
    assert encoder.encoded_texts == ["dogs bark", "cats sleep"]
    assert sizes == [1, 1]


def test_questions_of_two_models_are_not_mixed() -> None:
    one, other, sizes = WordEncoder(8), WordEncoder(16), list[int]()
    questions = Questions(16, 1, sizes.append)
    with questions.waiting(one, "dogs") as first, questions.waiting(other, "cats") as second:
        assert questions.encoded(first).dense.shape == (1, 8)
        assert questions.encoded(second).dense.shape == (1, 16)
    assert sizes == [1, 1]


def test_a_question_that_fails_fails_for_nobody_else() -> None:
    encoder = WaitingEncoder()
    encoder.may_go_on.set()
    questions = Questions(16, 1, lambda size: None)
    with (
        questions.waiting(encoder, "dogs") as good,
        questions.waiting(encoder, "bad") as bad,
        questions.waiting(encoder, "cats") as last,
    ):
        assert len(questions.encoded(good)) == 1
        with pytest.raises(ValueError, match="a bad question"):
            questions.encoded(bad)
        assert len(questions.encoded(last)) == 1
    assert encoder.batches == [["dogs", "bad", "cats"], ["dogs"], ["bad"], ["cats"]]


def test_who_is_gone_is_not_encoded_and_who_is_just_leaving_does_not_wait_for_ever() -> None:
    encoder = WordEncoder()
    questions = Questions(16, 1, lambda size: None)
    with questions.waiting(encoder, "stays") as stays:
        with questions.waiting(encoder, "leaves") as leaves:
            pass
        questions.encoded(stays)
        assert encoder.encoded_texts == ["stays"]
        assert len(questions.encoded(leaves)) == 1  # a worker that had come to it when its caller left


def rank(url: str, question: str, **more: object) -> httpx.Response:
    body = {"query": question, "texts": ["dogs bark", "cats sleep"], "raw_scores": True, **more}
    return httpx.post(f"{url}/rerank", json=body, timeout=20)


def test_callers_of_a_busy_server_share_a_batch_and_one_who_hangs_up_or_fails_disturbs_none() -> None:
    encoder = WaitingEncoder()
    app = create_app(TextReranker(encoder), options=ServerOptions(workers=1), logger=Log().logger())
    asked = ["bad", *(f"dogs bark {i}" for i in range(6))]
    with served(app) as url, ThreadPoolExecutor(10) as callers:
        first = callers.submit(rank, url, "cats")
        assert encoder.begun.wait(20)
        waiting = [callers.submit(rank, url, text) for text in asked]
        wait_until(lambda: in_flight(url) == 8)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/rerank", json={"query": "gone", "texts": ["a"]}, timeout=0.3)
        wait_until(lambda: in_flight(url) == 8)
        encoder.may_go_on.set()
        answers = {text: own.result() for text, own in zip(["cats", *asked], [first, *waiting], strict=True)}
        metrics = httpx.get(f"{url}/metrics").text
    alone = TextReranker(WordEncoder())
    assert answers.pop("bad").status_code == 500
    for text, answer in answers.items():
        expected = [(r.position, r.score) for r in alone.rank(text, ["dogs bark", "cats sleep"])]
        assert [(r["index"], r["score"]) for r in answer.json()] == expected
    assert sorted(encoder.batches[1]) == sorted(asked)
    assert all("gone" not in batch for batch in encoder.batches)
    assert "surprise_rerank_questions_together_sum 8.0" in metrics
    assert "surprise_rerank_questions_together_count 2.0" in metrics


def test_a_server_that_stops_answers_those_who_wait_for_a_batch() -> None:
    encoder = WaitingEncoder()
    app = create_app(TextReranker(encoder), options=ServerOptions(workers=1), logger=Log().logger())
    with ThreadPoolExecutor(4) as callers:
        with served(app) as url:
            running = [callers.submit(rank, url, text) for text in ("dogs", "cats", "rain")]
            assert encoder.begun.wait(20)
            wait_until(lambda: in_flight(url) == 3)
            threading.Timer(0.5, encoder.may_go_on.set).start()
            time.sleep(0.1)
        assert [own.result().status_code for own in running] == [200] * 3


def test_works_that_run_at_once_share_the_threads_and_one_alone_has_them_all() -> None:
    torch = pytest.importorskip("torch")
    workers, alone = Workers(2), torch.get_num_threads()
    both, seen = threading.Barrier(2, timeout=20), dict[str, int]()

    async def receive() -> dict[str, str]:
        await asyncio.Event().wait()
        raise AssertionError("nothing comes")

    def count(name: str, together: bool) -> Callable[[threading.Event], None]:
        def work(stop: threading.Event) -> None:
            if together:
                both.wait()
            seen[name] = torch.get_num_threads()
            if together:
                both.wait()

        return work

    async def run() -> None:
        await workers.run(receive, count("alone", together=False))
        first, second = (workers.run(receive, count(name, together=True)) for name in ("first", "second"))
        await asyncio.gather(first, second)
        await workers.run(receive, count("again", together=False))

    with using_threads(4):  # what this thread has says nothing about the workers'
        asyncio.run(run())
    workers.close()
    assert seen["alone"] == seen["again"]
    assert sorted([seen["first"], seen["second"]]) == sorted([seen["alone"], max(1, seen["alone"] // 2)])
    assert alone == torch.get_num_threads()


def test_the_page_says_how_many_are_encoded_together() -> None:
    text = (Path(__file__).parents[1] / "docs" / "server.md").read_text()
    assert f"| `--max-batch` | {ServerOptions().max_batch} questions" in text
