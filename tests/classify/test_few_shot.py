"""Few-shot training: its targets, its loss, and what a model and a linear map learn from a few texts."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from helpers.tiny_models import tiny_bert
from helpers.words import WordEncoder
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from surprise_rerank import DataError, ModelError, SurpriseRerankError
from surprise_rerank.classify.few_shot import (
    FewShotTraining,
    fine_tune,
    fit_linear_map,
    focal_loss,
    mapped,
    minimize,
    pair_targets,
)
from surprise_rerank.core.arrays import unit_rows
from surprise_rerank.encoders.static import StaticEncoder, WordVectors
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder

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
SHORT = FewShotTraining(max_epochs=2)


def one_line(error: pytest.ExceptionInfo[SurpriseRerankError]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


# The settings


@pytest.mark.parametrize(
    "setting", [{"learning_rate": 0}, {"target_loss": -0.1}, {"soft_negative": 1.5}, {"target_f1": 1.1}]
)
def test_settings_out_of_range_are_one_line_that_names_them(setting):
    ((name, value),) = setting.items()
    with pytest.raises(DataError, match=name) as error:
        FewShotTraining(**setting)
    assert repr(value) in one_line(error)


# The loss


def plain_loss(cosines: np.ndarray, targets: np.ndarray, gamma: float) -> float:
    """The focal loss as the paper writes it."""
    p = np.minimum(np.maximum(cosines, 0.0) + 1e-10, 1 - 1e-7)
    return float(np.mean(-targets * (1 - p) ** gamma * np.log(p) - (1 - targets) * p**gamma * np.log(1 - p)))


@given(st.data(), hnp.arrays(np.float64, st.integers(1, 8), elements=st.floats(-1, 1)), st.floats(0, 5))
def test_the_loss_is_that_of_the_paper_and_gamma_only_lowers_it(data, cosines, gamma):
    targets = data.draw(hnp.arrays(np.float64, len(cosines), elements=st.floats(0, 1)))
    got, entropy = (
        float(focal_loss(torch.from_numpy(cosines), torch.from_numpy(targets), value))
        for value in (gamma, 0.0)
    )
    assert got == pytest.approx(plain_loss(cosines, targets, gamma), rel=1e-6, abs=1e-9)
    assert 0 <= got <= entropy


# The end of training


def cosines_from(parameter: torch.nn.Parameter) -> Callable[[list[int]], torch.Tensor]:
    """Cosines that are free parameters, so that every training can be followed by hand."""
    return lambda rows: torch.tanh(parameter[rows])


def test_training_ends_with_the_first_epoch_whose_loss_is_low_enough():
    targets = pair_targets(MEMBERS)
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


def test_training_goes_on_until_enough_texts_are_right():
    targets = pair_targets(MEMBERS)
    # The loss asks for nothing, and at first the other label is the nearer one.
    start = torch.tensor(np.where(MEMBERS, 0.3, 0.6), dtype=torch.float32)
    for share, epochs in ((0.0, 1), (0.9, 3)):
        parameter = torch.nn.Parameter(start.clone())
        training = FewShotTraining(target_loss=10, target_f1=share, max_epochs=30)
        history = minimize(cosines_from(parameter), [parameter], targets, training, 0.1)
        assert history.reached
        assert len(history.losses) == epochs
    unreached = FewShotTraining(target_loss=10, target_f1=0.9, max_epochs=1)
    parameter = torch.nn.Parameter(start.clone())
    assert not minimize(cosines_from(parameter), [parameter], targets, unreached, 0.1).reached


def test_gamma_and_the_target_of_other_labels_are_arguments():
    assert pair_targets(MEMBERS, 0.2)[0].tolist() == [1.0, 0.2]
    cosines, targets = np.full(MEMBERS.shape, 0.5), pair_targets(MEMBERS, 0.2)
    steps = {}
    for gamma in (0.0, 2.0):
        parameter = torch.nn.Parameter(torch.from_numpy(cosines.copy()))
        training = FewShotTraining(gamma=gamma, soft_negative=0.2, weight_decay=0.0, max_epochs=1)
        minimize(lambda rows, p=parameter: p[rows], [parameter], targets, training, 0.1)
        steps[gamma] = float(parameter.grad.abs().sum())
    assert steps[2.0] < steps[0.0]


def test_training_that_diverges_is_one_line_that_names_the_rate():
    parameter = torch.nn.Parameter(torch.zeros(6, 2))
    with pytest.raises(DataError, match="diverged in epoch 1: the loss is nan") as error:
        minimize(
            lambda rows: parameter[rows] * torch.nan,
            [parameter],
            pair_targets(MEMBERS),
            FewShotTraining(),
            7.0,
        )
    assert "give a learning_rate below 7" in one_line(error)


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
    weights, history = fit_linear_map(vectors, members, labels, FewShotTraining(method="linear"))
    assert history.reached
    assert accuracy(vectors, members, labels) < 0.5
    assert accuracy(mapped(vectors, weights), members, mapped(labels, weights)) > 0.9


def test_the_map_is_the_same_for_the_same_seed_and_leaves_the_random_state():
    vectors, members, labels = clusters()
    before = torch.get_rng_state()
    maps = [
        fit_linear_map(vectors, members, labels, FewShotTraining(seed=seed, max_epochs=3))[0]
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(maps[0], maps[1])
    assert not np.array_equal(maps[0], maps[2])
    assert torch.equal(torch.get_rng_state(), before)


# Fine-tuning


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformerEncoder:
    """A real model of one layer and no training, that reads twelve tokens."""
    folder = tmp_path_factory.mktemp("tiny")
    words = sorted({word for text in [*TEXTS, *LABELS] for word in text.split()})
    return SentenceTransformerEncoder(tiny_bert(folder, words), "tiny")


def cosines(encoder: SentenceTransformerEncoder, texts: list[str], labels: list[str]) -> np.ndarray:
    return encoder.encode(texts).dense @ encoder.encode(labels, "query").dense.T


def test_fine_tuning_moves_texts_to_their_labels(tiny):
    trained, history = fine_tune(tiny, TEXTS, MEMBERS, LABELS, FewShotTraining(learning_rate=3e-3))
    assert history.reached
    assert accuracy(cosines(trained, TEXTS, LABELS), MEMBERS, np.eye(2)) == 1
    assert trained.name == "tiny (fine-tuned)"


def test_the_given_encoder_and_torchs_random_state_stay_as_they_were(tiny):
    before = {name: values.clone() for name, values in tiny.model.state_dict().items()}
    state = torch.get_rng_state()
    trained, _ = fine_tune(tiny, TEXTS, MEMBERS, LABELS, SHORT)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(values, before[name]) for name, values in tiny.model.state_dict().items())
    assert trained.fingerprint != tiny.fingerprint
    assert not trained.model.training
    assert all(weights.grad is None for weights in trained.model.parameters())
    assert all(weights.grad is None for weights in tiny.model.parameters())


def test_what_cannot_be_fine_tuned_names_the_linear_map(tiny):
    static = StaticEncoder(WordVectors(["wing"], np.ones((1, 2), np.float32), "words"))
    for encoder in (WordEncoder(), static):
        with pytest.raises(ModelError, match='method="linear"') as error:
            fine_tune(encoder, TEXTS, MEMBERS, LABELS, SHORT)
        assert encoder.name in one_line(error)
    frozen = SentenceTransformerEncoder(copy.deepcopy(tiny.model), "frozen")
    frozen.model.requires_grad_(requires_grad=False)
    with pytest.raises(ModelError, match=r"all weights of frozen are frozen.*method=\"linear\""):
        fine_tune(frozen, TEXTS, MEMBERS, LABELS, SHORT)
