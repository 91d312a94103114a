"""Multi-vector models: both sides as the model wants them, and its own MaxSim from our kernels."""

from pathlib import Path

import numpy as np
import pytest
from helpers.tiny_models import DIMENSION, native, pylate, stanford

from surprise_rerank import DynaMax, load_encoder
from surprise_rerank.encoders.multi_vector import MultiVectorEncoder

VOCABULARY = [*"abcdefghij", "red", "fish", "blue", "bird", "sings", "query", "passage", ":", ".", "##s"]
FIXED = {"strategy": "fixed", "attend": False, "length": 12}
KINDS = ["native", "expanding", "attending", "pylate", "stanford"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    expansions = {"native": None, "expanding": FIXED, "attending": {**FIXED, "attend": True}}
    for name, expansion in expansions.items():
        native(root / name, VOCABULARY, expansion)
    made = {name: root / name / "model" for name in expansions}
    return {
        **made,
        "pylate": pylate(root / "pylate", VOCABULARY),
        "stanford": stanford(root / "stanford", VOCABULARY),
    }


@pytest.fixture(scope="module")
def encoders(folders: dict[str, Path]) -> dict[str, MultiVectorEncoder]:
    loaded = {name: load_encoder(str(folder), "cpu") for name, folder in folders.items()}
    assert all(isinstance(encoder, MultiVectorEncoder) for encoder in loaded.values())
    return loaded


@pytest.fixture(params=KINDS)
def encoder(request: pytest.FixtureRequest, encoders: dict[str, MultiVectorEncoder]) -> MultiVectorEncoder:
    return encoders[request.param]


def texts(count: int, longest: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    words = [word for word in VOCABULARY if not word.startswith("##")]
    return [" ".join(rng.choice(words, rng.integers(0, longest))) for _ in range(count)]


def test_tokens_are_what_the_model_compares(encoder):
    questions, documents = texts(5, 8, 0), texts(9, 14, 1)
    for found, own in (
        (encoder.encode(questions, "query"), encoder.model.encode_query(questions, convert_to_numpy=True)),
        (encoder.encode(documents), encoder.model.encode_document(documents, convert_to_numpy=True)),
    ):
        tokens = found.require_tokens()
        assert tokens.dimension == encoder.token_dimension == encoder.dimension == DIMENSION
        for i, vectors in enumerate(own):
            np.testing.assert_allclose(tokens[i], vectors, atol=1e-6)
            mean = vectors.sum(axis=0)
            np.testing.assert_allclose(found.dense[i], mean / np.linalg.norm(mean), atol=1e-5)


def test_inclusion_over_the_questions_universe_is_the_models_own_maxsim(encoder):
    questions, documents = texts(10, 9, 2), texts(10, 14, 3)
    asked, found = (
        encoder.encode(questions, "query").require_tokens(),
        encoder.encode(documents).require_tokens(),
    )
    model = encoder.model
    expected = model.similarity(model.encode_query(questions), model.encode_document(documents)).numpy()
    compared, largest = 0, 0.0
    for i in range(10):
        scores = DynaMax("inclusion", universe="query").pool(asked[i], found) * len(asked[i])
        best = np.array([(asked[i] @ found[j].T).max(axis=1) for j in range(10)])
        positive = (best > 0).all(axis=1)  # DynaMax has 0 for the others
        largest = max(largest, np.abs(scores - expected[i])[positive].max(initial=0.0))
        clipped = np.maximum(best, 0).sum(axis=1)
        np.testing.assert_allclose(scores, clipped, atol=1e-5)
        compared += int(positive.sum())
    assert compared == 100
    assert largest < 1e-5


def test_markers_expansion_and_what_is_skipped_are_seen_in_the_words(encoders):
    for name in ("pylate", "stanford"):
        assert encoders[name].words(["red . fishs"]) == [
            ["[CLS]", "[unused1]", "red", "fish", "##s", "[SEP]"]
        ]
        asked = ["[CLS]", "[unused0]", "red", ".", "[SEP]"]
        assert encoders[name].words(["red ."], "query") == [asked + ["[MASK]"] * 7]
    prompted = ["[CLS]", "query", ":", "red", "[SEP]"]
    assert encoders["native"].words(["red"], "query") == [prompted]
    assert encoders["expanding"].words(["red"], "query") == [prompted + ["[MASK]"] * 7]
