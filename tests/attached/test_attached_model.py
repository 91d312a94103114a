"""The model that is given for a collection is the one that made its vectors, or attaching says so."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from helpers.foreign import foreign
from helpers.words import WordEncoder
from qdrant_client import QdrantClient, models

from surprise_rerank import DataError
from surprise_rerank.connectors.attached import Collection

D = 64
TOPICS = ("cats purr on mats", "dogs bark at night", "stocks fell on monday", "bread needs flour and water")
TEXTS = [f"{TOPICS[i % 4]} {' '.join(f'word{i * k % 29}' for k in range(1, 9))}" for i in range(60)]
STATED = np.random.default_rng(1)


def _vectors(texts: Sequence[str]) -> np.ndarray:
    return WordEncoder(D).encode(texts).dense


def _changed(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Sequence[str]], Any]:
    """The same model, its vectors changed."""
    return lambda texts: change(_vectors(texts)).tolist()


ROTATION = np.linalg.qr(STATED.normal(size=(D, D)))[0]
WRONG = {
    "rotated": _changed(lambda v: v @ ROTATION),
    "other weights": _changed(lambda v: v[:, STATED.permutation(D)]),
    "negated": _changed(lambda v: -v),
    "of other words": lambda texts: _vectors([text[::-1] for text in texts]).tolist(),
    "one for all": lambda texts: _vectors(["the same"] * len(texts)).tolist(),
}
STORED = {
    "as they are": lambda i: _vectors([TEXTS[i]])[0],
    "in half precision": lambda i: _vectors([TEXTS[i]])[0].astype(np.float16),
    "in eight bits": lambda i: np.round(_vectors([TEXTS[i]])[0] * 127) / 127,
    "longer": lambda i: _vectors([TEXTS[i]])[0] * 7,
    "with a title": lambda i: _vectors([f"number{i} {TEXTS[i]}"])[0],
}


def made(vector: Callable[[int], np.ndarray]) -> QdrantClient:
    """A collection of these vectors, with titles and texts."""
    payloads = [{"title": f"number{i}", "text": text} for i, text in enumerate(TEXTS)]
    return foreign([vector(i) for i in range(len(TEXTS))], payloads)


@pytest.mark.parametrize("name", WRONG)
def test_another_model_is_refused(name):
    client = made(STORED["as they are"])
    with pytest.raises(
        DataError, match=r"vectors of another model than .*give the model that they were made"
    ):
        Collection.attach(client, "papers", embed=WRONG[name])


@pytest.mark.parametrize("name", STORED)
def test_the_same_model_is_taken_without_a_word(name):
    attached = Collection.attach(made(STORED[name]), "papers", embed=WordEncoder(D))
    assert not [value for _, value in attached.status().facts() if "cosine of" in value]
    assert attached.pipeline("cosine").search(TEXTS[7], 1)[0].id == "7"


def test_a_model_with_other_prompts_is_taken_and_named():
    prompted = made(lambda i: _vectors([f"this is a passage of a book {TEXTS[i]}"])[0])
    attached = Collection.attach(prompted, "papers", embed=WordEncoder(D))
    assert [value for _, value in attached.status().facts() if "see that its prompts" in value]


def test_points_without_texts_say_nothing_of_the_model():
    client = made(STORED["as they are"])
    client.overwrite_payload("papers", {"text": "", "title": ""}, models.Filter())
    Collection.attach(client, "papers", embed=WRONG["rotated"])
