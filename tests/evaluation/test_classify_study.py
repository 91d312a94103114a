"""Classification: `rerank-eval classify` and its studies, from files to tables."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.files import write_rows, write_vectors
from helpers.tiny_models import tiny_bert
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank import DataError, ModelError, SurpriseClassifier, SurpriseRerankError, load_encoder
from surprise_rerank.classify._labels import DEFAULT_TEMPLATE
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.core._extras import is_installed, pip_line
from surprise_rerank.encoders._loading import DEFAULT_MODEL
from surprise_rerank.eval.cli.rerank_eval.studies import classify
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.retrieval.settings import DEFAULTS
from surprise_rerank.eval.studies import classification as classification_studies
from surprise_rerank.eval.studies.classification import ENSEMBLE_SYSTEMS as SYSTEMS
from surprise_rerank.eval.studies.classification import ZERO_SHOT, classification, draw_examples
from surprise_rerank.eval.studies.labelled import label_names, read_label_names, read_labelled
from surprise_rerank.eval.studies.settings import MODEL, TEMPLATE, ClassifySettings

WORDS = ("dog", "cat", "puppy", "stock", "bank", "share", "train", "road", "car", "this", "matter", "is")
CLASSES = {
    "house_pets": ("dog", "cat", "puppy"),
    "money": ("stock", "bank", "share"),
    "travel": ("train", "road", "car"),
}


def rows(each: int, seed: int = 0) -> list[dict[str, str]]:
    """Texts of three words, two of which are their class's."""
    rng = np.random.default_rng(seed)
    return [
        {"text": f"{rng.choice(words)} {rng.choice(words)} {rng.choice(WORDS)} number{i}", "label": name}
        for i in range(each)
        for name, words in CLASSES.items()
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """test.jsonl, train.jsonl, names.yaml, words.txt: word vectors in which a class's words are near."""
    folder = tmp_path_factory.mktemp("files")
    write_rows(folder / "test.jsonl", rows(20))
    write_rows(folder / "train.jsonl", rows(30, seed=1))
    (folder / "names.yaml").write_text("house_pets: [dog, cat]\nmoney: bank\ntravel: train\n")
    rng = np.random.default_rng(0)
    centres = {word: rng.normal(size=8) for words in CLASSES.values() for word in [words[0]]}
    vectors = {}
    for words in CLASSES.values():
        vectors.update({word: centres[words[0]] + 0.5 * rng.normal(size=8) for word in words})
    vectors.update({word: rng.normal(size=8) for word in WORDS[9:]})
    # What the classes are called is near to their first word.
    names = zip(("pets", "money", "travel"), centres.values(), strict=True)
    vectors.update({word: centre + 0.5 * rng.normal(size=8) for word, centre in names})
    write_vectors(folder / "words.txt", vectors)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real model of one layer, untrained, in a folder."""
    folder = tmp_path_factory.mktemp("model")
    tiny_bert(folder, WORDS).save(str(folder / "tiny"), create_model_card=False)
    return folder / "tiny"


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(classify, [*map(str, arguments)])


def measured(files: Path, cache: Path, file: str = "test.jsonl", **more: Any) -> Report:
    """The report over the words' vectors, or other models."""
    values = {"file": files / file, "models": (str(files / "words.txt"),), "cache": cache, **more}
    return classification(ClassifySettings(**values), Terminal(quiet=True)).report()


def cells(report: Report, table: str, column: str, keys: int) -> dict[tuple[str, ...], Any]:
    """Key cells, as they are shown -> the cell of a column."""
    shown = report.table(table)
    place = [c.name for c in shown.columns].index(column)
    return {tuple(map(str, row[:keys])): row[place] for row in shown.rows}


# Draws


@given(st.integers(1, 4), st.integers(5, 8), st.integers(0, 99))
def test_fewer_examples_are_among_more(few, many, seed):
    truth = np.repeat(np.arange(4), [8, 40, 0, 9])  # a class without texts is passed over
    drawn = [draw_examples(truth, shots, "abcd", np.random.default_rng(seed)) for shots in (few, many)]
    assert drawn[1][: len(drawn[0])].tolist() == drawn[0].tolist()
    for shots, examples in zip((few, many), drawn, strict=True):
        counts = np.bincount(truth[examples], minlength=4)[[0, 1, 3]]
        assert len(set(examples.tolist())) == counts.sum() == 3 * shots
        assert counts.tolist() == [shots] * 3


# Names


def test_names_are_a_classs_words_or_read_as_texts(tmp_path):
    assert label_names(["b_c", "a", "a"], None) == {"a": ("a",), "b_c": ("b c",)}
    path = tmp_path / "names.yaml"
    path.write_text("1: one\nno: [never, 'not at all']\n")
    assert read_label_names(path) == {"1": ("one",), "no": ("never", "not at all")}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- a\n- b", "class -> names, must be a dictionary"),
        ("", "class -> names, must be a dictionary"),
        ("a: [", "is not YAML"),
        ("sport: one\nsport: two\n", "duplicate key 'sport'"),
        ("a: {b: c}", "names.yaml, a must be a list of strings"),
        ("a: []", "names.yaml, a must be a list of at least 1"),
        ("a: ' '", "names.yaml, a must be a string that is not empty"),
        ("house_pets: xx\nmoney: yy\ntravel: dog", "the labels 'xx' and 'yy' have the same vector"),
        ("house_pets: x\nmoney: y", "lack 'travel', which texts are labelled with"),
        ("house_pets: x\nmoney: y\ntravel: x", "'house_pets' and 'travel' have the same description"),
    ],
)
def test_wrong_names_are_one_line(files, tmp_path, content, message):
    path = tmp_path / "names.yaml"
    path.write_text(content)
    with pytest.raises(SurpriseRerankError, match=message) as error:
        measured(files, tmp_path, names=path)
    assert "\n" not in str(error.value)


# By the names of the labels


def test_every_system_is_measured_and_right_labels_are_found(files, tmp_path):
    more = {"train": files / "train.jsonl", "names": files / "names.yaml"}
    report = measured(files, tmp_path, templates=("{}", "this is {}"), **more)
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
    assert [key[2] for key, value in p.items() if value is None] == ["cosine", "cosine"]
    assert (plot := report.plots[0]).kind == "bars"
    assert [series.name for series in plot.series] == ["{}", "this is {}", "-"]


def test_surprise_is_that_of_the_classifier(files, tmp_path):
    train, test = (read_labelled(files / name) for name in ("train.jsonl", "test.jsonl"))
    report = measured(files, tmp_path, train=files / "train.jsonl", inductive=True, weight=1.0)
    classifier = SurpriseClassifier(
        {name: name.replace("_", " ") for name in CLASSES},
        encoder=load_encoder(str(files / "words.txt")),
        model="gaussian",
        weight=1.0,
    ).fit(list(train.texts))
    expected = np.mean(classifier.predict(list(test.texts)) == np.array(test.labels))
    accuracy = cells(report, "zero-shot", "accuracy", 3)["words.txt", DEFAULT_TEMPLATE, "surprise"]
    assert accuracy == pytest.approx(expected)
    assert any("ensemble: the texts of train.jsonl (90; inductive)" in note for note in report.notes)


def test_the_command_writes_the_report_and_tells_malformed_rows(files, tmp_path):
    broken, file = tmp_path / "broken.jsonl", tmp_path / "report.json"
    broken.write_text('{"text": "no label"}\n' + (files / "test.jsonl").read_text())
    arguments = [broken, "--model", files / "words.txt", "--set", f"cache={tmp_path}", "--limit", 30]
    assert "no label in the column 'label'" in str(invoke(*arguments).exception)
    result = invoke(*arguments, "--train", files / "train.jsonl", "--set", "on_error=skip", "--report", file)
    assert result.exit_code == 0, result.output
    assert "1 malformed rows left out" in result.output
    content = json.loads(file.read_text())
    assert (list(content["tables"]), content["texts"]) == (["zero-shot"], 30)


# What cannot be


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"templates": ("a matter",)},
            r"template must be a string that holds \{\} exactly once, got 'a matter'",
        ),
        ({"inductive": True}, "inductive compares with the texts of train"),
        ({"few_shot": (3,), "ensemble_size": (3,)}, "two studies; give one"),
        ({"few_shot": (3,), "templates": ("{}", "a {}")}, "takes one of templates"),
        ({"test_size": 3}, "test_size is for few_shot"),
        ({"balanced": False}, "balanced is for few_shot"),
        ({"draws": 3}, "draws is for few_shot and ensemble_size"),
        ({"draws": 0, "few_shot": (3,)}, "draws must be a whole number of at least 1, got 0"),
        (
            {"few_shot": (3,), "systems": ("bm25",)},
            "='bm25' is not known; there are: cosine",
        ),
        ({"few_shot": (20,)}, "tested texts must be at least one, got none; all 60 texts are examples"),
        ({"few_shot": (21,)}, "texts of the class 'house_pets' must be at least 21, got 20"),
        ({"few_shot": (3,), "test_size": 60}, "the test takes all texts of the class 'house_pets'"),
        ({"ensemble_size": (60,)}, "that leave a text to test must be at least one, got none; it has 60"),
        ({"models": ()}, "models must be at least one, got none"),
    ],
)
def test_settings_that_do_not_fit_are_told_before_a_model_is_loaded(files, tmp_path, values, message):
    with pytest.raises(DataError, match=message):
        measured(files, tmp_path, **{"models": ("nowhere.txt",), **values})


def test_one_class_is_nothing_to_tell_apart(files, tmp_path):
    alone = write_rows(tmp_path / "alone.jsonl", [row for row in rows(3) if row["label"] == "money"])
    with pytest.raises(DataError, match="classes must be at least 2, got 1"):
        measured(files, tmp_path, file=str(alone))
    with pytest.raises(DataError, match=r"labels of alone\.jsonl must be at least 2"):
        measured(files, tmp_path, train=alone, few_shot=(1,))


@pytest.fixture
def turned(tmp_path: Path) -> Path:
    """Texts whose classes are called by the same words, which word vectors have no order of."""
    names = {"money": "bank share", "travel": "share bank", "house_pets": "dog"}
    content = [{**row, "label": names[row["label"]]} for row in rows(8)]
    return write_rows(tmp_path / "turned.jsonl", content)


@pytest.mark.parametrize(
    ("table", "more"),
    [
        ("zero-shot", {}),
        ("ensemble-size", {"ensemble_size": (3,), "draws": 1}),
        ("few-shot", {"few_shot": (2,), "draws": 1, "systems": ("cosine-linear", "logistic")}),
    ],
)
def test_a_model_that_does_not_tell_the_labels_apart_stops_no_other(
    turned, files, model, tmp_path, table, more
):
    models = (str(files / "words.txt"), str(model))
    report = measured(files, tmp_path, file=str(turned), models=models, **more)
    keys = {row[:3] for row in report.table(table).rows}
    assert {row[0] for row in keys} == {"tiny"} | ({"words.txt"} if table == "few-shot" else set())
    if table == "few-shot":  # what learns from the classes alone needs no names
        assert {row[2] for row in keys if row[0] == "words.txt"} == {"logistic"}
    alike = "'bank share' and 'share bank' have the same vector"
    assert any("words.txt" in note and alike in note for note in report.notes)
    if table != "few-shot":
        with pytest.raises(DataError, match="have the same vector"):
            measured(files, tmp_path, file=str(turned), **more)


# Sizes of ensembles


def test_ensembles_of_every_size_are_drawn(files, tmp_path):
    more = {"ensemble_size": (1, 3, 30, 60), "draws": 4}
    report = measured(files, tmp_path, **more)
    keys = [key[2:] for key in cells(report, "ensemble-size", "weight", 4)]
    assert keys == [(str(size), system) for size in (1, 3, 30) for system in SYSTEMS]
    assert any("ensembles of 60 leave no text to test" in note for note in report.notes)
    f1 = cells(report, "ensemble-size", "weighted F1", 4)
    ratio = cells(report, "ensemble-size", "ratio to cosine", 4)
    key = ("words.txt", DEFAULT_TEMPLATE)
    # One member says nothing: what is left is the cosine.
    assert f1[(*key, "1", "surprise, weight 1")] == f1[(*key, "1", "cosine")]
    assert ratio[(*key, "1", "surprise, crossover")] == 1
    (plot,) = report.plots
    assert plot.log_x
    assert [series.name for series in plot.series] == [*SYSTEMS][1:]
    assert plot.series[0].x == (1.0, 3.0, 30.0)
    assert report.table("ensemble-size") == measured(files, tmp_path, **more).table("ensemble-size")


# Few examples


def test_word_vectors_learn_by_a_linear_map_and_a_regression(files, tmp_path):
    report = measured(files, tmp_path, train=files / "train.jsonl", few_shot=(1, 8), draws=2)
    f1 = cells(report, "few-shot", "weighted F1", 3)
    systems = ("cosine-linear", "surprise-linear", "logistic")
    assert list(f1) == [("words.txt", k, system) for k in ("1", "8") for system in systems]
    assert min(value for key, value in f1.items() if key[1] == "8") > 0.7
    assert any("cannot be fine-tuned: no cosine, surprise, setfit" in note for note in report.notes)
    assert [series.x for series in report.plots[0].series] == [(1.0, 8.0)] * 3


def test_a_fine_tuned_encoder_is_shared(files, model, tmp_path, monkeypatch):
    trained: list[int] = []
    whole = classification_studies.fine_tune

    def counted(encoder: Any, texts: Sequence[str], *more: Any) -> Any:
        trained.append(len(texts))
        return whole(encoder, texts, *more)

    monkeypatch.setattr(classification_studies, "fine_tune", counted)
    settings = {"models": (str(model),), "train": files / "train.jsonl", "names": files / "names.yaml"}
    more = {"few_shot": (1, 2), "draws": 1, "systems": ("cosine", "surprise"), "test_size": 30}
    report = measured(files, tmp_path, **settings, **more)
    assert trained == [3, 6]
    assert [row[1:3] for row in report.table("few-shot").rows] == [
        (k, system) for k in (1, 2) for system in ("cosine", "surprise")
    ]


@pytest.mark.skipif(not is_installed("setfit"), reason=f"setfit is not installed: {pip_line('setfit')}")
def test_setfit_learns_without_a_word(files, model, tmp_path, capfd):
    settings = {"models": (str(model),), "train": files / "train.jsonl", "few_shot": (2,), "draws": 1}
    report = measured(files, tmp_path, **settings, systems=("setfit",))
    (accuracy,) = cells(report, "few-shot", "accuracy", 3).values()
    assert accuracy > 0.5  # chance is a third
    assert any("setfit: its defaults, one epoch of all pairs" in note for note in report.notes)
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not is_installed("setfit"), reason=f"setfit is not installed: {pip_line('setfit')}")
def test_without_examples_setfit_learns_from_the_labels_names(files, model, tmp_path):
    more = {"models": (str(model),), "names": files / "names.yaml", "few_shot": (0, 2), "draws": 1}
    report = measured(files, tmp_path, **more, systems=("cosine", "surprise", "setfit", "logistic"))
    accuracy = cells(report, "few-shot", "accuracy", 3)
    untrained = [system for _, k, system in accuracy if k == "0"]
    assert untrained == ["cosine", "surprise", "setfit"]
    assert any("8 sentences of each class" in note for note in report.notes)
    zero_shot = cells(
        measured(files, tmp_path, **{**more, "few_shot": None, "draws": None}), "zero-shot", "accuracy", 3
    )
    # All texts but the examples of k = 2 are tested, which are the same for both.
    whole = measured(files, tmp_path, **{**more, "few_shot": (0,)}, systems=("cosine",))
    assert cells(whole, "few-shot", "accuracy", 3)["tiny", "0", "cosine"] == pytest.approx(
        zero_shot["tiny", DEFAULT_TEMPLATE, "cosine"]
    )


def test_unbalanced_examples_are_drawn_without_a_look_at_their_classes(files, tmp_path):
    uneven = write_rows(
        tmp_path / "uneven.jsonl", [*rows(30), *(row for row in rows(60) if row["label"] == "money")]
    )
    more = {"file": str(uneven), "few_shot": (4,), "draws": 2, "systems": ("logistic",)}
    report = measured(files, tmp_path, **more, balanced=False)
    assert any("k: examples for each class in the mean" in note for note in report.notes)
    # 12 of 150 texts are examples in either case; the class of three fifths has other numbers of them.
    assert any("texts tested: 138" in note for note in report.notes)
    assert report.table("few-shot").rows != measured(files, tmp_path, **more).table("few-shot").rows


@pytest.mark.parametrize("test_size", [None, 12])
def test_texts_that_are_no_examples_are_tested(files, tmp_path, test_size):
    report = measured(files, tmp_path, few_shot=(1, 2), systems=("logistic",), test_size=test_size)
    assert any(f"texts tested: {12 if test_size else 60 - 3 * 2}, of" in note for note in report.notes)


@pytest.mark.parametrize("system", ["surprise", "setfit"])
def test_systems_that_a_model_cannot_learn_are_refused(files, tmp_path, system):
    with pytest.raises(ModelError, match=rf"words\.txt cannot be fine-tuned, as {system} needs it"):
        measured(files, tmp_path, few_shot=(2,), systems=(system, "logistic"))


def test_help_knows_the_defaults_of_the_modules():
    assert (MODEL, DEFAULTS.model, TEMPLATE) == (DEFAULT_MODEL, DEFAULT_MODEL, DEFAULT_TEMPLATE)
