"""Files of labelled texts, and the vectors that are kept of them."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.files import write_lines, write_rows, write_vectors
from helpers.words import WordEncoder

from surprise_rerank import DataError, DatasetError, SurpriseRerankError
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.eval.cli.rerank_eval import studies
from surprise_rerank.eval.studies.labelled import LabelledTexts, LabelledVectors, read_labelled

ROWS = [{"text": "a dog", "label": "pets"}, {"text": "a bank", "label": "money"}]


def test_every_format_gives_the_same_texts(tmp_path):
    pandas = pytest.importorskip("pandas")
    write_rows(tmp_path / "a.jsonl", ROWS)
    (tmp_path / "a.csv").write_text("text,label\na dog,pets\na bank,money\n")
    (tmp_path / "a.tsv").write_text("text\tlabel\na dog\tpets\na bank\tmoney\n")
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write((tmp_path / "a.jsonl").read_text())
    pandas.DataFrame(ROWS).to_parquet(tmp_path / "a.parquet")
    for path in sorted(tmp_path.iterdir()):
        texts = read_labelled(path)
        assert (texts.texts, texts.labels) == (("a dog", "a bank"), ("pets", "money")), path
        assert texts.classes == ("money", "pets")


def test_labels_are_words_whole_numbers_and_truth_values_in_any_column(tmp_path):
    rows = [{"what": f"text {i}", "kind": value} for i, value in enumerate((1, 2.0, True, " a "))]
    texts = read_labelled(write_rows(tmp_path / "a.jsonl", rows), text="what", label="kind")
    assert texts.labels == ("1", "2", "true", "a")
    titled = [{"text": f"text {i}", "title": value} for i, value in enumerate("ab")]
    assert read_labelled(write_rows(tmp_path / "b.jsonl", titled), label="title").labels == ("a", "b")


def test_a_data_set_of_the_hub_is_read_by_its_name(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    # A folder of files of its form is loaded as a name is, without a network.
    for split in ("train", "test"):
        write_rows(
            tmp_path / "set" / f"{split}.jsonl", [{"text": f"{split} {i}", "topic": i % 2} for i in range(4)]
        )
    read = read_labelled(Path(f"hf:{tmp_path / 'set'}"), label="topic")
    assert (read.name, read.texts[0], read.labels) == ("set", "test 0", ("0", "1", "0", "1"))
    assert read_labelled(Path(f"hf:{tmp_path / 'set'}:train"), label="topic").texts[0] == "train 0"
    with pytest.raises(SurpriseRerankError, match="'label' is not known; there are: text, topic"):
        read_labelled(Path(f"hf:{tmp_path / 'set'}"))
    with pytest.raises(DatasetError, match="give hf:NAME:SPLIT, or a file"):
        read_labelled(Path(f"hf:{tmp_path / 'set'}:dev"), label="topic")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "a cat"}, "row 3: no label in the column 'label'"),
        ({"text": "a cat", "label": 1.5}, "row 3: no label"),
        ({"text": "a cat", "label": " "}, "row 3: no label"),
        ({"label": "pets"}, "text"),
    ],
)
def test_a_malformed_row_is_told_or_left_out_and_counted(tmp_path, row, message):
    path = write_rows(tmp_path / "a.jsonl", [*ROWS, row])
    with pytest.raises(DataError, match=message):
        read_labelled(path)
    texts = read_labelled(path, on_error="skip")
    assert (len(texts), texts.left_out) == (2, 1)


def test_files_that_hold_no_labelled_texts_are_told(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(DatasetError, match="no such file"):
        read_labelled(tmp_path / "b.jsonl")
    with pytest.raises(DataError, match="columns of text and label must differ, got 'text' twice"):
        read_labelled(path, text="text", label="text")
    with pytest.raises(DataError, match="topic"):
        read_labelled(path, label="topic", on_error="skip")


def test_a_sample_is_always_the_same_and_in_order():
    texts = LabelledTexts("x", tuple(map(str, range(50))), ("a",) * 50)
    sample = texts.sample(10)
    assert sample.texts == texts.sample(10).texts == tuple(sorted(sample.texts, key=int))
    assert len(set(sample.texts)) == 10
    assert texts.sample(50) is texts.sample(None) is texts


def vectors(tmp_path: Path, encoder: WordEncoder) -> LabelledVectors:
    return LabelledVectors(encoder, tmp_path, Terminal(quiet=True))


def test_no_text_is_encoded_twice_and_other_texts_models_and_kinds_are_told_apart(tmp_path):
    texts, encoder = LabelledTexts("x", ("a dog", "a bank"), ("a", "b")), WordEncoder()
    expected = encoder.encode(texts.texts).dense
    encoder.encoded_texts.clear()
    for _ in range(2):
        np.testing.assert_array_equal(vectors(tmp_path, encoder).of(texts), expected)
        assert encoder.encoded_texts == ["a dog", "a bank"]
    (kept,) = (tmp_path / "labelled").iterdir()
    kept.write_bytes(kept.read_bytes()[:50])
    np.testing.assert_array_equal(vectors(tmp_path, encoder).of(texts), expected)  # damaged: made again
    vectors(tmp_path, encoder).of(texts, "query")
    vectors(tmp_path, encoder).of(LabelledTexts("x", ("a bank", "a dog"), ("a", "b")))
    vectors(tmp_path, WordEncoder(fingerprint="1")).of(texts)
    assert len(list((tmp_path / "labelled").iterdir())) == 4


def test_texts_without_labels_get_a_label_or_a_cluster(tmp_path):
    words = ("sport", "match", "goal", "money", "bank", "share")
    vectors = write_vectors(tmp_path / "mine.txt", words, 8)
    texts = write_lines(tmp_path / "texts.csv", "text", "match goal", "bank share", "goal", "share")
    names = write_lines(tmp_path / "names.yaml", "a: match goal sport", "b: bank share money")
    options = [str(texts), "--model", str(vectors), "--quiet", "--set", "answers=yes"]
    with_names = [*options, "--set", f"names={names}", "--set", "weight=0"]
    done = CliRunner().invoke(studies.classify, with_names)
    assert done.exit_code == 0, done.output
    assert [line.split("\t")[1:] for line in done.output.splitlines() if "\t" in line] == [
        ["text", "label"],
        ["match goal", "a"],
        ["bank share", "b"],
        ["goal", "a"],
        ["share", "b"],
    ]
    done = CliRunner().invoke(studies.cluster, [*options, "--set", "clusters=2"])
    assert done.exit_code == 0, done.output
    groups = [line.split("\t")[2] for line in done.output.splitlines()[1:] if "\t" in line]
    assert len(groups) == 4
    assert set(groups) == {"0", "1"}
    for command, message in ((studies.classify, "names=FILE.yaml"), (studies.cluster, "clusters=N")):
        done = CliRunner().invoke(command, options)
        assert done.exit_code != 0
        assert message in str(done.exception)
    with pytest.raises(DataError, match="answers=yes, which needs none"):
        read_labelled(texts)
