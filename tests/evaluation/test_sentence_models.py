"""Models as the sentence benchmarks use them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from surprise_rerank.encoders.static import WordVectors
from surprise_rerank.eval.studies.sentence_models import load_sentence_model, lower_cased


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.txt"
    path.write_text("Cat 1 0 2\ncat 9 9 9\ndog 0 4 0\n")
    return path


def test_a_sentence_is_the_mean_of_its_known_words(model_file: Path) -> None:
    model = load_sentence_model(str(model_file))
    assert model.name == "tiny.txt"
    vectors = model.vectors(["CAT dog", "the dog , dog", "nothing known", ""])
    np.testing.assert_allclose(vectors[0], [0.5, 2, 1])
    np.testing.assert_allclose(vectors[1], [0, 4, 0])
    # EvalRank's mark for sentences of which nothing is known.
    np.testing.assert_allclose(vectors[2:], 1e-9)


def test_words_in_lower_case_keep_the_first_ones_vector() -> None:
    vectors = WordVectors(["The", "the", "THE", "a"], np.arange(8.0).reshape(4, 2), "x")
    lowered = lower_cased(vectors)
    assert list(lowered.words) == ["the", "a"]
    np.testing.assert_array_equal(lowered.vectors, [[0, 1], [6, 7]])
    assert lower_cased(lowered) is lowered
