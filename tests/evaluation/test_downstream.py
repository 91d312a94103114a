"""SentEval's downstream tasks: files, the classifier, the protocols, and the command."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from helpers.files import write_lines, write_vectors
from helpers.words import WordEncoder
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank import DataError, SurpriseRerankError
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.eval.cli.rerank_eval.studies import downstream as command
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.studies import sentence_models
from surprise_rerank.eval.studies.downstream import DownstreamStudy, DownstreamTask, Part, classify, read_task
from surprise_rerank.eval.studies.sentence_models import SentenceModel
from surprise_rerank.eval.studies.senteval import Adam, shares_of_grades, slope, take_step
from surprise_rerank.eval.studies.settings import TASKS, DownstreamSettings

MRPC_HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
# Of tasks with a file of each class: their names.
OF_CLASSES = {
    "MR": ("rt-polarity.neg", "rt-polarity.pos"),
    "CR": ("custrev.neg", "custrev.pos"),
    "MPQA": ("mpqa.neg", "mpqa.pos"),
    "SUBJ": ("subj.subjective", "subj.objective"),
}
# Of the others: files, their heading, the labels, and a line of a label and a text.
OF_PARTS = {
    "downstream/SCICITE/{}.txt train dev test": (
        None,
        ("background", "method", "result"),
        lambda label, text: json.dumps({"text": text, "label": label}),
    ),
    "downstream/SST/binary/sentiment-{} train dev test": (None, "01", "{1}\t{0}".format),
    "downstream/SST/fine/sentiment-{} train dev test": (None, "01234", "{0} {1}".format),
    "downstream/TREC/{}.label train_5500 TREC_10": (
        None,
        ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"),
        "{0}:some {1}".format,
    ),
    "downstream/MRPC/msr_paraphrase_{}.txt train test": (
        MRPC_HEADER,
        "01",
        lambda label, text: f"{label}\t1\t2\t{text}\t{text}{' not' * (label == '0')}",
    ),
    "sts/SICK/SICK_{}.txt train trial test_annotated": (
        SICK_HEADER,
        ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"),
        lambda label, text: f"1\t{text}\t{text} {label.lower()}\t3.5\t{label}",
    ),
}


def texts(word: str) -> list[str]:
    """Different texts that one word gives away."""
    return [f"{word} thing number{i}" for i in range(12)]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of all tasks, small: every class is known by a word of its own."""
    folder = tmp_path_factory.mktemp("data")
    for name, files in OF_CLASSES.items():
        for file, word in zip(files, ("bad", "good"), strict=True):
            write_lines(folder / "downstream" / name / file, *texts(word))
    for named, (heading, labels, line) in OF_PARTS.items():
        path, *parts = named.split()
        lines = [line(label, text) for label in labels for text in texts(f"mood{label.lower()}")]
        for part in parts:
            write_lines(folder / path.format(part), *([heading] if heading else []), *lines)
    return folder


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of word vectors that has the words of some classes."""
    words = ["good", "bad", "thing", "not", *(f"mood{i}" for i in range(5))]
    return write_vectors(tmp_path_factory.mktemp("vectors") / "small.txt", words)


# Reading


def test_every_task_is_read(data):
    for name in TASKS:
        task = read_task(name, data)
        assert task.name == name
        for part in task.parts.values():
            assert np.bincount(part.labels).tolist() == [12] * len(task.classes)
            assert len(part.others) == (len(part.texts) if name in ("MRPC", "SICK-E") else 0)


def test_texts_keep_their_words_and_an_empty_one_is_a_point(tmp_path):
    lines = ("  naïve \t film . ", "", "A\u0085b")
    write_lines(tmp_path / "MR" / "rt-polarity.neg", *lines, encoding="latin-1")
    write_lines(tmp_path / "MR" / "rt-polarity.pos", "a film")
    task = read_task("MR", tmp_path)
    assert task.parts["all"].texts == ("naïve film .", ".", "A b", "a film")
    assert task.parts["all"].labels.tolist() == [0, 0, 0, 1]
    # Of SCICITE letters and spaces stay.
    citation = json.dumps({"text": "See [12],\nÉcole  3.5 nm!", "label": "method"})
    for part in ("train", "dev", "test"):
        write_lines(tmp_path / "SCICITE" / f"{part}.txt", citation)
    assert read_task("SCICITE", tmp_path).parts["dev"].texts == ("see cole nm",)


@pytest.mark.parametrize(
    ("name", "file", "line", "message"),
    [
        ("SCICITE", "SCICITE/train.txt", "{", "line 3: .*expected JSON with text and label"),
        ("SCICITE", "SCICITE/train.txt", '{"text": "a"}', "line 3: 'label', expected JSON"),
        ("SCICITE", "SCICITE/test.txt", '{"text": "a", "label": "aim"}', "line 3: unknown label 'aim'"),
        ("SST2", "SST/binary/sentiment-train", "a film 1", "line 3: .*expected text, tab, label"),
        ("SST5", "SST/fine/sentiment-test", "5 a film", "line 3: unknown label '5', not one of 0, 1"),
        ("TREC", "TREC/train_5500.label", "HUM:ind", "line 3: .*expected COARSE:fine"),
        ("MRPC", "MRPC/msr_paraphrase_test.txt", "1\t1\t2\ta", "line 3: .*expected 'Quality"),
        ("SICK-E", "SICK/SICK_trial.txt", "1\ta\tb\t3\tMAYBE", "line 3: unknown label 'MAYBE'"),
    ],
)
def test_a_malformed_line_is_told_with_file_and_number(data, tmp_path, name, file, line, message):
    source = data / ("sts" if name == "SICK-E" else "downstream") / Path(file).parts[0]
    for path in filter(Path.is_file, source.rglob("*")):
        lines, place = path.read_text().splitlines(), path.relative_to(source.parent)
        write_lines(tmp_path / place, *([*lines[:2], line] if place == Path(file) else lines))
    with pytest.raises(DataError) as error:
        read_task(name, tmp_path)
    assert re.search(rf"{re.escape(file)}, {message}", str(error.value))


def test_what_is_not_there_is_told(data, tmp_path):
    write_lines(tmp_path / "MPQA" / "mpqa.neg")
    for name, place, message in (
        ("IMDB", data, "task='IMDB' is not known; there are: SCICITE, MR"),
        ("SST5", tmp_path, "no folder downstream/SST/fine"),
        ("SICK-E", None, "give --data"),
        ("MPQA", tmp_path, r"texts of .*mpqa\.neg must be at least one"),
    ):
        with pytest.raises(SurpriseRerankError, match=message):
            read_task(name, place)


@pytest.mark.shared
def test_the_published_files_are_read_whole(shared_data):
    parts = {name: read_task(name, shared_data).parts.values() for name in TASKS}
    sizes = {name: [len(part.labels) for part in of_task] for name, of_task in parts.items()}
    assert sizes == {
        "SCICITE": [7320, 916, 1861],
        "MR": [10662],
        "CR": [3775],
        "MPQA": [10606],
        "SUBJ": [10000],
        "SST2": [67349, 872, 1821],
        "SST5": [8544, 1101, 2210],
        "TREC": [5452, 500],
        "MRPC": [4076, 1725],
        "SICK-E": [4500, 500, 4927],
    }


# The classifier and the protocols


@given(st.integers(0, 1000), st.integers(1, 20), st.integers(2, 5), st.lists(st.floats(0, 0.1), min_size=1))
def test_steps_are_those_of_torch_with_every_l2_by_itself(seed, n, classes, decays):
    rng = np.random.default_rng(seed)
    # Small, because the steps divide by gradients: where a class is certain, these are nothing but rounding.
    start = rng.normal(size=(6, classes, 1), scale=0.3).astype(np.float32)
    weights = np.repeat(start, len(decays), axis=2)
    squares, decay = np.zeros_like(weights), np.array(decays, dtype=np.float32)
    models = [torch.tensor(start[:, :, 0]).requires_grad_() for _ in decays]
    optimizers = [
        torch.optim.RMSprop([model], lr=0.01, weight_decay=decay)
        for model, decay in zip(models, decays, strict=True)
    ]
    for _ in range(5):
        features = rng.normal(size=(n, 6), scale=0.5).astype(np.float32)
        labels = rng.integers(classes, size=n)
        take_step(weights, squares, features, np.eye(classes, dtype=np.float32)[labels, :, None], decay)
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            logits = torch.from_numpy(features) @ model
            torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels)).backward()
            optimizer.step()
    expected = np.stack([model.detach().numpy() for model in models], axis=2)
    np.testing.assert_allclose(weights, expected, atol=1e-3)


def a_task(parts: Sequence[str], classes: int = 2, n: int = 200, *, pairs: bool = False) -> DownstreamTask:
    labels = np.arange(n, dtype=np.int64) % classes

    def part(name: str) -> Part:
        words = tuple(f"{name} c{label} n{i}" for i, label in enumerate(labels))
        return Part(words, tuple(reversed(words)) if pairs else (), labels)

    return DownstreamTask("T", tuple(f"c{i}" for i in range(classes)), {name: part(name) for name in parts})


def word_vectors(wanted: Sequence[str]) -> np.ndarray:
    return WordEncoder().encode(list(wanted)).dense


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("parts", [("all",), ("train", "test"), ("train", "dev", "test")])
def test_every_protocol_finds_what_a_word_gives_away(parts, pairs):
    runs = list(classify(a_task(parts, pairs=pairs), word_vectors))
    assert pairs or np.mean([run["accuracy"] for run in runs]) > 90
    assert len(runs) == 5
    assert all((run["F1"] is None) != pairs for run in runs)


def test_a_class_of_few_examples_is_refused():
    with pytest.raises(DataError, match="examples of T's class 'c0' must be at least 10, got 6"):
        list(classify(a_task(("all",), classes=10, n=60), word_vectors))


# The evaluation


def downstream(models: list[str], data: Path, *tasks: str, **more: object) -> Report:
    settings = DownstreamSettings(models=tuple(models), data=data, tasks=tasks, **more)
    return DownstreamStudy(settings, Terminal(quiet=True)).report()


def test_a_report_has_a_row_for_each_model_and_task(data, vectors, tmp_path):
    file = tmp_path / "downstream.json"
    arguments = ["--data", str(data), "--model", str(vectors), "--set", "post_process=yes"]
    result = CliRunner().invoke(command, [*arguments, "--tasks", "MR, SST5, MRPC", "--report", str(file)])
    assert result.exit_code == 0, result.output
    assert "small.txt" in result.output
    tables = json.loads(file.read_text())["tables"]
    row, processed = tables["downstream"]
    assert list(row) == ["model", "MR", "SST5", "MRPC", "mean"]
    assert row["MR"] > 90
    assert row["mean"] == pytest.approx((row["MR"] + row["SST5"] + row["MRPC"]) / 3)
    assert (row["model"], processed["model"]) == ("small.txt", "small.txt+pp")
    details = {(cells["model"], cells["task"]): cells for cells in tables["downstream-details"]}
    assert details.keys() == {(m, t) for m in ("small.txt", "small.txt+pp") for t in ("MR", "SST5", "MRPC")}
    assert details["small.txt", "MR"]["accuracy"] == row["MR"]
    assert details["small.txt", "MR"]["F1"] is None
    assert details["small.txt", "MRPC"]["F1"] > 60


def test_every_text_is_encoded_once(data, monkeypatch):
    encoder = WordEncoder()
    monkeypatch.setattr(
        sentence_models, "load_sentence_model", lambda name, pooling: SentenceModel(name, encoder)
    )
    downstream(["words"], data, "MR", "CR", "SST2", post_process=True)
    assert len(encoder.encoded_texts) == len(set(encoder.encoded_texts)) == 48


@pytest.mark.shared
def test_a_published_accuracy_is_reached(shared_data):
    toy = shared_data / "evalrank" / "toy_emb.txt"
    accuracy = downstream([str(toy)], shared_data, "SICK-E").table("downstream").cell("toy_emb.txt", "SICK-E")
    assert accuracy == pytest.approx(70.0, abs=3)


def test_a_step_of_relatedness_is_that_of_torch():
    rng = np.random.default_rng(0)
    weights, features = rng.normal(size=(7, 5)).astype(np.float32), rng.normal(size=(9, 7)).astype(np.float32)
    targets = shares_of_grades(rng.uniform(0, 5, 9)).astype(np.float32)
    theirs = torch.nn.Parameter(torch.from_numpy(weights.copy()))
    optimizer, adam = torch.optim.Adam([theirs]), Adam(weights)
    for _ in range(5):
        optimizer.zero_grad()
        shares = torch.softmax(torch.from_numpy(features) @ theirs, dim=1)
        (shares - torch.from_numpy(targets)).square().sum().backward()
        optimizer.step()
        adam.step(slope(weights, features, targets))
        np.testing.assert_allclose(weights, theirs.detach().numpy(), atol=1e-6)


def test_relatedness_is_learnt_from_judged_pairs(tmp_path):
    """A judgement that is a sum of squares in the vectors is found again by the regression of |u - v|."""
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(40)]
    file = write_vectors(tmp_path / "words.txt", {word: rng.normal(size=6) for word in words})
    matrix = np.loadtxt(file, usecols=range(1, 7))
    heading = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    for part, n in (("train", 400), ("trial", 60), ("test_annotated", 60)):
        pairs = rng.integers(0, len(words), (n, 2))
        distances = np.abs(matrix[pairs[:, 0]] - matrix[pairs[:, 1]]).sum(axis=1)
        scores = np.clip(5 - distances / 2.5, 1, 5)
        lines = [
            f"{i}\tw{a}\tw{b}\t{score:.3f}\tNEUTRAL"
            for i, ((a, b), score) in enumerate(zip(pairs, scores, strict=True))
        ]
        write_lines(tmp_path / "sts" / "SICK" / f"SICK_{part}.txt", heading, *lines)
    report = downstream([str(file)], tmp_path, "SICK-R")
    assert [table.name for table in report.tables] == ["relatedness", "downstream-details"]
    r = report.table("relatedness").cell("words.txt", "SICK-R")
    assert float(str(r)) > 85, r
