from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from words import WordEncoder

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.errors import DataError, DatasetError
from surprise_rerank.eval.cli.rerank_eval.studies import downstream as command
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.studies import sentence_models
from surprise_rerank.eval.studies.downstream.classifier import Examples, accuracy, fit, fit_each, take_step
from surprise_rerank.eval.studies.downstream.evaluation import classify, evaluate_downstream
from surprise_rerank.eval.studies.downstream.tasks import DownstreamTask, Part, read_task
from surprise_rerank.eval.studies.sentence_models import SentenceModel
from surprise_rerank.eval.studies.settings import TASKS, DownstreamSettings

MRPC_HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
SICK_FILES = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")


def write(path: Path, lines: Sequence[str], encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
    return path


def texts(word: str, n: int = 12) -> list[str]:
    """Different texts that one word gives away."""
    return [f"{word} thing number{i}" for i in range(n)]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of all tasks, small: every class is known by a word of its own."""
    folder = tmp_path_factory.mktemp("data")
    tasks = folder / "downstream"
    for name, negative, positive in (
        ("MR", "rt-polarity.neg", "rt-polarity.pos"),
        ("CR", "custrev.neg", "custrev.pos"),
        ("MPQA", "mpqa.neg", "mpqa.pos"),
        ("SUBJ", "subj.subjective", "subj.objective"),
    ):
        write(tasks / name / negative, texts("bad"))
        write(tasks / name / positive, texts("good"))
    for part in ("train", "dev", "test"):
        citations = [
            json.dumps({"text": text, "label": label})
            for label in ("background", "method", "result")
            for text in texts(label)
        ]
        write(tasks / "SCICITE" / f"{part}.txt", citations)
        sentiments = [f"{text}\t{label}" for label in "01" for text in texts(f"mood{label}")]
        write(tasks / "SST" / "binary" / f"sentiment-{part}", sentiments)
        sentiments = [f"{label} {text}" for label in "01234" for text in texts(f"mood{label}")]
        write(tasks / "SST" / "fine" / f"sentiment-{part}", sentiments)
    classes = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
    questions = [f"{label}:some {text}" for label in classes for text in texts(label.lower())]
    paraphrases = [f"{label}\t1\t2\t{text}\t{text}{'' if label == '1' else ' not'}"
                   for label in "01" for text in texts("say")]  # fmt: skip
    for file in ("train_5500.label", "TREC_10.label"):
        write(tasks / "TREC" / file, questions)
    for part in ("train", "test"):
        write(tasks / "MRPC" / f"msr_paraphrase_{part}.txt", [MRPC_HEADER, *paraphrases])
    entailments = [
        f"{i}\t{text}\t{text} {label.lower()}\t3.5\t{label}"
        for label in ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
        for i, text in enumerate(texts("see"))
    ]
    for file in SICK_FILES:
        write(folder / "sts" / "SICK" / file, [SICK_HEADER, *entailments])
    return folder


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of word vectors that has the words of the classes."""
    known = ["good", "bad", "thing", "say", "see", "not", *(f"mood{i}" for i in range(5))]
    rng = np.random.default_rng(0)
    lines = [f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=8))}" for word in known]
    return write(tmp_path_factory.mktemp("vectors") / "small.txt", lines)


# Reading


def test_every_task_is_read(data: Path) -> None:
    for name in TASKS:
        task = read_task(name, data)
        assert task.name == name
        for part in task.parts.values():
            assert np.bincount(part.labels).tolist() == [12] * len(task.classes)
            assert len(part.others) == (len(part) if name in ("MRPC", "SICK-E") else 0)


def test_texts_keep_their_words_and_an_empty_one_is_a_point(tmp_path: Path) -> None:
    write(tmp_path / "MR" / "rt-polarity.neg", ["  naïve \t film . ", "", "A\u0085b"], "latin-1")
    write(tmp_path / "MR" / "rt-polarity.pos", ["a film"], "latin-1")
    task = read_task("MR", tmp_path)
    assert task.parts["all"].texts == ("naïve film .", ".", "A b", "a film")
    assert task.parts["all"].labels.tolist() == [0, 0, 0, 1]


def test_scicite_keeps_letters_and_spaces(tmp_path: Path) -> None:
    citation = json.dumps({"text": "See [12],\nÉcole  3.5 nm!", "label": "method"})
    for part in ("train", "dev", "test"):
        write(tmp_path / "SCICITE" / f"{part}.txt", [citation])
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
def test_a_malformed_line_is_told_with_file_and_number(
    data: Path, tmp_path: Path, name: str, file: str, line: str, message: str
) -> None:
    source = data / ("sts" if name == "SICK-E" else "downstream") / Path(file).parts[0]
    for path in source.rglob("*"):
        if path.is_file():
            lines = path.read_text().splitlines()
            wanted = path.relative_to(source.parent) == Path(file)
            write(tmp_path / path.relative_to(source.parent), [*lines[:2], line] if wanted else lines)
    with pytest.raises(DataError) as error:
        read_task(name, tmp_path)
    assert re.search(rf"{re.escape(file)}, {message}", str(error.value))


def test_what_is_not_there_is_told(data: Path, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="there is no task 'IMDB'; choose from SCICITE, MR"):
        read_task("IMDB", data)
    with pytest.raises(DatasetError, match="no folder downstream/SST/fine"):
        read_task("SST5", tmp_path)
    with pytest.raises(DatasetError, match="no folder sts/SICK"):
        read_task("SICK-E", tmp_path)
    with pytest.raises(DatasetError, match="give --data"):
        read_task("SICK-E", None)
    write(tmp_path / "MPQA" / "mpqa.neg", [])
    with pytest.raises(DatasetError, match=r"mpqa\.neg holds no text"):
        read_task("MPQA", tmp_path)


@pytest.mark.shared
def test_the_published_files_are_read_whole(shared_data: Path) -> None:
    sizes = {name: [len(part) for part in read_task(name, shared_data).parts.values()] for name in TASKS}
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


# Classifiers


def separable(n: int, classes: int, seed: int = 0, noise: float = 0.3) -> Examples:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(classes, 6))
    labels = np.arange(n) % classes
    features = centres[labels] + noise * rng.normal(size=(n, 6))
    return Examples(features.astype(np.float32), labels.astype(np.int64))


@pytest.mark.parametrize("classes", [2, 5])
def test_classes_that_lie_apart_are_found(classes: int) -> None:
    train, test = separable(300, classes), separable(100, classes, seed=2)
    grid = (1e-4, 1e-2)
    candidates = fit_each(train, test, grid, classes, seed=0)
    assert len(candidates) == len(grid)
    assert max(accuracy(weights, test) for weights in candidates) > 0.95
    assert accuracy(fit(train, 1e-3, classes, seed=0), test) > 0.95


@given(st.integers(0, 1000), st.integers(1, 20), st.integers(2, 5), st.lists(st.floats(0, 0.1), min_size=1))
def test_steps_are_those_of_torch_with_every_l2_by_itself(
    seed: int, n: int, classes: int, decays: list[float]
) -> None:
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


# Protocols


def a_task(parts: Sequence[str], classes: int = 2, n: int = 200, *, pairs: bool = False) -> DownstreamTask:
    labels = np.arange(n, dtype=np.int64) % classes

    def part(name: str) -> Part:
        own = tuple(f"{name} c{label} n{i}" for i, label in enumerate(labels))
        return Part(own, tuple(reversed(own)) if pairs else (), labels)

    return DownstreamTask("T", tuple(f"c{i}" for i in range(classes)), {name: part(name) for name in parts})  # type: ignore[misc]


def word_vectors(asked: Sequence[str]) -> np.ndarray:
    return WordEncoder().encode(list(asked)).dense


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("parts", [("all",), ("train", "test"), ("train", "dev", "test")])
def test_every_protocol_finds_what_a_word_gives_away(parts: Sequence[str], pairs: bool) -> None:
    runs = list(classify(a_task(parts, pairs=pairs), word_vectors))
    assert pairs or np.mean([run["accuracy"] for run in runs]) > 90
    assert len(runs) == 5
    assert all((run["F1"] is None) != pairs for run in runs)


def test_a_class_of_few_examples_is_refused() -> None:
    with pytest.raises(DataError, match="6 examples of the class 'c0' to learn from, expected at least 10"):
        list(classify(a_task(("all",), classes=10, n=60), word_vectors))


# The evaluation


def downstream(models: list[str], data: Path, **more: object) -> Report:
    settings = DownstreamSettings(models=tuple(models), data=data, **more)  # type: ignore[arg-type]
    return evaluate_downstream(settings, Terminal(quiet=True))


def test_a_report_has_a_row_for_each_model_and_task(data: Path, vectors: Path, tmp_path: Path) -> None:
    report = downstream([str(vectors)], data, tasks=["MR", "SST5", "MRPC"])
    table = report.table("downstream")
    assert [column.name for column in table.columns] == ["model", "MR", "SST5", "MRPC", "mean"]
    assert table.keys == 1
    (row,) = table.rows
    assert row[0] == "small.txt"
    assert row[1] > 90
    assert row[-1] == pytest.approx(np.mean(row[1:-1]))
    details = report.table("downstream-details")
    assert details.keys == 2
    assert [r[:2] for r in details.rows] == [("small.txt", name) for name in ("MR", "SST5", "MRPC")]
    assert details.cell("small.txt / MR", "accuracy") == row[1]
    assert details.cell("small.txt / MR", "F1") is None
    assert details.cell("small.txt / MRPC", "F1") == pytest.approx(100)


def test_post_processed_vectors_are_measured_once_more(data: Path, vectors: Path, tmp_path: Path) -> None:
    plain = downstream([str(vectors)], data, tasks=["SST5"])
    both = downstream([str(vectors)], data, tasks=["SST5"], post_process=True)
    first, second = both.table("downstream").rows
    assert first == plain.table("downstream").rows[0]
    assert second[0] == "small.txt+pp"
    keys = [row[:2] for row in both.table("downstream-details").rows]
    assert keys == [("small.txt", "SST5"), ("small.txt+pp", "SST5")]


def test_every_text_is_encoded_once(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = WordEncoder()
    monkeypatch.setattr(sentence_models, "load_sentence_model", lambda name: SentenceModel(name, encoder))
    downstream(["words"], data, tasks=["MR", "CR", "SST2"], post_process=True)
    assert len(encoder.encoded_texts) == len(set(encoder.encoded_texts)) == 48


# The command


def test_the_command_prints_the_table_and_writes_the_report(
    data: Path, vectors: Path, tmp_path: Path
) -> None:
    file = tmp_path / "downstream.json"
    arguments = ["--data", str(data), "--model", str(vectors), "--quiet"]
    result = CliRunner().invoke(command, [*arguments, "--tasks", "MR, CR", "--report", str(file)])
    assert result.exit_code == 0, result.output
    assert "small.txt" in result.output
    content = json.loads(file.read_text())
    assert list(content["tables"]) == ["downstream", "downstream-details"]
    assert CliRunner().invoke(command, [*arguments, "--tasks", ","]).exit_code == 2


@pytest.mark.shared
def test_a_published_accuracy_is_reached(shared_data: Path, tmp_path: Path) -> None:
    toy = shared_data / "evalrank" / "toy_emb.txt"
    report = downstream([str(toy)], shared_data, tasks=["SICK-E"])
    found = report.table("downstream").cell("toy_emb.txt", "SICK-E")
    assert found == pytest.approx(70.0, abs=3)
