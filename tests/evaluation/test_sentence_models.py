"""Models as the sentence benchmarks use them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.tiny_models import HIDDEN, backbone
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from surprise_rerank import ModelError
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.encoders.static import WordVectors
from surprise_rerank.eval.studies.sentence_models import load_sentence_model, lower_cased


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.txt"
    path.write_text("Cat 1 0 2\ncat 9 9 9\ndog 0 4 0\n")
    return path


def test_a_sentence_is_the_mean_of_its_known_words(model_file):
    model = load_sentence_model(str(model_file))
    assert model.name == "tiny.txt"
    vectors = model.vectors(["CAT dog", "the dog , dog", "nothing known", ""])
    np.testing.assert_allclose(vectors[0], [0.5, 2, 1])
    np.testing.assert_allclose(vectors[1], [0, 4, 0])
    # EvalRank's mark for sentences of which nothing is known.
    np.testing.assert_allclose(vectors[2:], 1e-9)


def test_words_in_lower_case_keep_the_first_ones_vector():
    vectors = WordVectors(["The", "the", "THE", "a"], np.arange(8.0).reshape(4, 2), "x")
    lowered = lower_cased(vectors)
    assert list(lowered.words) == ["the", "a"]
    np.testing.assert_array_equal(lowered.vectors, [[0, 1], [6, 7]])
    assert lower_cased(lowered) is lowered


def test_poolings_are_those_of_the_transformer(tmp_path, model_file):
    bert = backbone(tmp_path / "parts", ["dog", "cat"], num_hidden_layers=2)
    modules = [Transformer(str(tmp_path / "parts")), Pooling(HIDDEN)]
    plain = SentenceTransformer(modules=modules, device="cpu")
    plain.save(str(tmp_path / "tiny"), create_model_card=False)
    by_cls = SentenceTransformer(modules=[modules[0], Pooling(HIDDEN, "cls")], device="cpu")
    texts = ["dog", "cat dog dog cat"]
    cls = load_sentence_model(str(tmp_path / "tiny"), "cls")
    assert cls.name == "tiny+cls"
    np.testing.assert_allclose(cls.vectors(texts), unit_rows(by_cls.encode(texts)), atol=1e-6)
    mean = load_sentence_model(str(tmp_path / "tiny"), "first-last").vectors(texts)
    for text, vector in zip(texts, mean, strict=True):  # one by one, without padding
        ids = torch.tensor([plain.tokenizer.encode(text)])
        with torch.inference_mode():
            layers = bert.eval()(ids, output_hidden_states=True).hidden_states
        expected = ((layers[1] + layers[2]) / 2)[0].mean(dim=0, keepdim=True).numpy()
        np.testing.assert_allclose(vector[None], unit_rows(expected), atol=1e-6)
    with pytest.raises(ModelError, match=r"tiny\.txt is no transformer"):
        load_sentence_model(str(model_file), "cls")
