"""A function from texts to vectors as an encoder: batches, attempts, and answers that are wrong."""

from typing import Any

import numpy as np
import pytest
import torch
from helpers.words import WordEncoder

from surprise_rerank import DataError, FunctionEncoder, ModelError

WORDS = WordEncoder()


class Api:
    """Embeds words, after doing what the test asks for in the first calls."""

    def __init__(self, *first: Any) -> None:
        self.first = list(first)
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str]) -> Any:
        self.calls.append(texts)
        answer = self.first.pop(0) if self.first else None
        if isinstance(answer, BaseException):
            raise answer
        return WORDS.encode(texts).dense if answer is None else answer(texts)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surprise_rerank.encoders._function._FIRST_WAIT", 0.001)


def encoder(embed: Any, **options: Any) -> FunctionEncoder:
    return FunctionEncoder(embed, **{"name": "words", **options})


def test_vectors_are_those_of_the_function_at_length_one():
    found = encoder(lambda texts: [[3.0 * len(text), 4.0 * len(text)] for text in texts]).encode(["a", "bb"])
    np.testing.assert_allclose(found.dense, [[0.6, 0.8], [0.6, 0.8]], rtol=1e-6)
    assert found.tokens is None
    both = encoder(
        lambda texts: [[1.0, 0.0]] * len(texts), query_embed=lambda texts: [[0.0, 1.0]] * len(texts)
    )
    assert [both.encode(["a"], kind).dense.tolist() for kind in ("query", "document")] == [[[0, 1]], [[1, 0]]]
    raw = encoder(lambda texts: [[3.0, 4.0]] * len(texts), unit=False).encode(["a"])
    np.testing.assert_array_equal(raw.dense, np.array([[3, 4]], np.float32))


@pytest.mark.parametrize(
    "form",
    [lambda v: v.tolist(), list, iter, torch.from_numpy, lambda v: [row.astype(np.float16) for row in v]],
)
def test_answers_come_in_any_form(form):
    texts = ["red fish", "blue"]
    found = encoder(lambda batch: form(WORDS.encode(batch).dense)).encode(texts)
    np.testing.assert_allclose(found.dense, WORDS.encode(texts).dense, atol=1e-3)


def test_a_function_that_always_fails_is_an_error_with_its_cause():
    cause = ConnectionError("no route\nand more")
    message = "'words' failed for texts 1 to 2, tried 3 times: ConnectionError: no route$"
    with pytest.raises(ModelError, match=message) as error:
        encoder(Api(*[cause] * 9), attempts=3).encode(["", "b", "c"])
    assert error.value.__cause__ is cause
    api = Api(cause, None)
    np.testing.assert_allclose(encoder(api).encode(["red"]).dense, WORDS.encode(["red"]).dense)
    assert len(api.calls) == 2


@pytest.mark.parametrize("fault", [TypeError("unexpected keyword"), NameError("np"), NotImplementedError()])
def test_faults_of_the_program_are_not_tried_again(fault):
    api = Api(*[fault] * 5)
    with pytest.raises(ModelError, match=f"failed for text 0: {type(fault).__name__}"):
        encoder(api).encode(["a"])
    assert len(api.calls) == 1


RETURNED = "what the embedding function 'words' returned"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda texts: WORDS.encode(texts[1:]).dense, f"the length of {RETURNED} for texts 4 to 6 must be"),
        (lambda texts: WORDS.encode([*texts, "x"]).dense, f"the length of {RETURNED} for texts 4 to 6 must"),
        (
            lambda texts: [[1.0] * 16, [np.nan] * 16, [1.0] * 16],
            f"{RETURNED} for texts 4 to 6 must be finite",
        ),
        (lambda texts: [[1.0] * 3] * 3, rf"{RETURNED} for texts 4 to 6 must be of shape \(n,"),
        (lambda texts: [[1.0] * 16, [1.0] * 3, [1.0] * 16], "must be numbers of shape"),
        (lambda texts: [[1.0] * 16, None, ["a"] * 16], "must be numbers of shape"),
        (lambda texts: [[1.0] * 16, [0.0] * 16, [1.0] * 16], r"zeros for text 5 \('two'\), which no"),
        (lambda texts: [[1e-60] * 16] * 3, "is zeros for text 4"),  # as a float32
        (lambda texts: np.ones((3, 4, 16)), rf"{RETURNED} for texts 4 to 6 must be of shape \(n,"),
        (lambda texts: [1.0, 2.0, 3.0], rf"{RETURNED} for texts 4 to 6 must be of shape \(n,"),
        (lambda texts: None, rf"{RETURNED} must be an array of shape \(n, d\), got"),
    ],
)
def test_a_wrong_answer_is_an_error_at_once_that_names_texts_and_function(answer, message):
    api = Api(None, answer)
    with pytest.raises((DataError, ModelError), match=message) as error:
        encoder(api, batch=4).encode(["a", "b", "c", "d", "one", "two", "three"])
    assert "'words'" in str(error.value)
    assert len(api.calls) == 2


def test_vectors_of_one_number_tell_no_texts_apart_at_length_1():
    with pytest.raises(DataError, match=r"must be of shape \(1, d\), got \(1, 1\)"):
        encoder(lambda texts: [[2.0]] * len(texts)).encode(["a"])
    assert encoder(lambda texts: [[2.0]] * len(texts), unit=False).encode(["a"]).dense.tolist() == [[2.0]]


def test_the_fingerprint_tells_names_dimensions_and_lengths_apart():
    prints = {
        encoder(Api()).fingerprint,
        encoder(Api(), name="other").fingerprint,
        encoder(Api(), unit=False).fingerprint,
        encoder(lambda texts: [[1.0] * 3] * len(texts)).fingerprint,
    }
    assert len(prints) == 4
    assert encoder(Api()).fingerprint == encoder(lambda texts: WORDS.encode(texts).dense).fingerprint


def test_a_question_that_is_kept_is_not_sent_again():
    api = Api()
    keeping = encoder(api, cache=2)
    first = keeping.encode(["red", "blue"], "query").dense
    again = keeping.encode(["blue", "green"], "query").dense
    np.testing.assert_array_equal(again[0], first[1])
    assert api.calls == [["red", "blue"], ["green"]]
    keeping.encode(["red"], "query")  # the oldest was forgotten
    keeping.encode(["green"])  # documents are always sent
    assert api.calls[2:] == [["red"], ["green"]]
