"""EvalRank of words and sentences: files, reports, commands, and the published figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from words import WordEncoder

from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.encoders.static import StaticEncoder
from surprise_rerank.encoders.word_vectors import WordVectors
from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.rerank_eval import studies
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.studies.evalrank.data import (
    WORD_SIMILARITY_SETS,
    RankingTask,
    WordSimilaritySet,
    read_sentence_ranking,
    read_word_ranking,
    read_word_similarity,
)
from surprise_rerank.eval.studies.evalrank.sentences import rank_sentences
from surprise_rerank.eval.studies.evalrank.vocabulary import ProcessedWords, Vocabulary
from surprise_rerank.eval.studies.evalrank.words import rank_words
from surprise_rerank.eval.studies.sentence_models import SentenceModel, load_sentence_model, lower_words
from surprise_rerank.eval.studies.settings import RankSettings

WORDS = ("cat", "dog", "bird", "fish", "tree", "house", "river", "stone", "cloud", "rain")
QUIET = Terminal(quiet=True)


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def data(folder: Path) -> Path:
    """The files of the benchmark, small."""
    words, similarity = folder / "evalrank" / "word_evalrank", folder / "evalrank" / "word_similarity"
    write(words / "pos_pair_5514.txt", "cat\tdog", "Bird\tfish", "dog\tcat")
    write(words / "basic_vocab.txt", "cat", "tree")
    write(words / "wiki_vocab.txt", "the", "tree", "house")
    for i, name in enumerate(WORD_SIMILARITY_SETS):
        tab = "\t" if i % 2 else " "
        rows = (f"Cat{tab}dog{tab}3.5", f"cat{tab}stone{tab}1", f"river{tab}unheard{tab}0")
        write(similarity / f"EN-{name}.txt", *(f"{row}\r" for row in rows) if i % 3 else rows)
    sentences = folder / "evalrank" / "sent_evalrank"
    write(sentences / "pos_pair.txt", "the cat sees a dog\ta dog sees the cat", "rain .\tA cloud and rain .")
    write(sentences / "background_sent.txt", "rain .", "a river", "the old house", "")
    (sentences / "background_sent.txt").write_text("rain .\na river\nthe old house\n")
    return folder


def static(name: str = "static.txt", words: tuple[str, ...] = WORDS, seed: int = 0) -> SentenceModel:
    vectors = np.random.default_rng(seed).normal(1, 1, size=(len(words), 6)).astype(np.float32)
    encoder = StaticEncoder(WordVectors(words, vectors, name), tokenize=lower_words)
    return SentenceModel(name, encoder)


# Files


def test_files_are_read_with_every_item_of_a_background_once(tmp_path: Path) -> None:
    folder = data(tmp_path)
    pairs = ("cat", "dog", "Bird", "fish")
    assert read_word_ranking(folder, "pairs").background == pairs
    assert read_word_ranking(folder, "basic").background == (*pairs, "tree")
    task = read_word_ranking(folder / "evalrank")
    assert task.background == (*pairs, "tree", "the", "house")
    assert task.pairs == (("cat", "dog"), ("Bird", "fish"), ("dog", "cat"))
    task = read_sentence_ranking(folder)
    assert task.pairs[1] == ("rain .", "A cloud and rain .")
    assert task.background[:4] == tuple(text for pair in task.pairs for text in pair)
    assert task.background[4:] == ("a river", "the old house")
    sets = read_word_similarity(folder)
    assert tuple(s.name for s in sets) == WORD_SIMILARITY_SETS
    for s in sets:
        assert s.pairs == (("cat", "dog"), ("cat", "stone"), ("river", "unheard"))
        assert s.scores.tolist() == [3.5, 1.0, 0.0]


@pytest.mark.parametrize(
    ("read", "file", "line", "told"),
    [
        (read_word_ranking, "word_evalrank/pos_pair_5514.txt", "one", r", line 2: .*expected two items"),
        (read_word_ranking, "word_evalrank/pos_pair_5514.txt", "one\t", r", line 2: an item is empty"),
        (read_word_ranking, "word_evalrank/wiki_vocab.txt", "  ", r", line 2: .*expected a word"),
        (read_sentence_ranking, "sent_evalrank/background_sent.txt", "", r", line 2: .*expected a sentence"),
        (read_word_similarity, "word_similarity/EN-YP-130.txt", "a b many", r", line 2: .*their similarity"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(
    tmp_path: Path, read: Callable[[Path], object], file: str, line: str, told: str
) -> None:
    path = data(tmp_path) / "evalrank" / file
    first, *_ = path.read_text().splitlines()
    write(path, first, line, first)
    with pytest.raises(DataError, match=rf"{path.name}{told}"):
        read(tmp_path)


# Vectors


def processed_words(
    model: SentenceModel, words: Sequence[str], *, post_process: bool = False
) -> ProcessedWords:
    return Vocabulary.of(model, words, QUIET).processed(post_process=post_process)


def test_words_are_centred_over_the_vocabulary_and_unknown_ones_have_the_mean() -> None:
    model = static()
    assert model.word_vectors is not None
    raw = np.asarray(model.word_vectors.vectors, float)
    centred = raw - raw.mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    found = processed_words(model, ["Dog", "unheard", "cat"])
    np.testing.assert_allclose(found.plain[[0, 2]], centred[[1, 0]], atol=1e-6)
    np.testing.assert_allclose(found.unit[[0, 2]], unit[[1, 0]], atol=1e-6)
    np.testing.assert_allclose(found.unit[1], unit.mean(axis=0), atol=1e-6)
    assert not found.plain[1].any()
    assert found.known.tolist() == [True, False, True]


def test_post_processing_takes_the_two_largest_components_off_the_vocabulary() -> None:
    model = static()
    assert model.word_vectors is not None
    raw = np.asarray(model.word_vectors.vectors, float)
    centred = raw - raw.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    found = processed_words(model, WORDS, post_process=True)
    np.testing.assert_allclose(found.plain, centred - centred @ axes.T @ axes, atol=1e-5)
    assert np.linalg.matrix_rank(found.plain, tol=1e-4) == 4


def test_an_encoder_knows_every_word() -> None:
    found = processed_words(SentenceModel("words", WordEncoder()), ["cat", "unheard", "dog"])
    assert found.known.all()
    np.testing.assert_allclose(found.plain.sum(axis=0), 0, atol=1e-6)


# Reports


def task_of(*pairs: tuple[str, str], more: tuple[str, ...] = ()) -> RankingTask:
    return RankingTask(pairs, tuple(dict.fromkeys([*(w for pair in pairs for w in pair), *more])))


def words_report(**more: object) -> Report:
    task = task_of(("cat", "dog"), ("bird", "fish"), ("zzz", "xxx"), more=WORDS)
    sets = [WordSimilaritySet("tiny", (("cat", "dog"), ("cat", "tree"), ("a", "b")), np.array([3.0, 1, 2]))]
    models = [static("one.txt"), static("two.txt", seed=1)]
    return rank_words(models, task, sets, RankSettings(**more), QUIET)  # type: ignore[arg-type]


def test_the_report_of_words_has_a_row_for_every_model_and_measure() -> None:
    report = words_report(similarities=("cosine", "csls"), post_process=True)
    table = report.table("evalrank-words")
    names = ["one.txt", "one.txt+pp", "two.txt", "two.txt+pp"]
    keys = [f"{name} / {kind}" for name in names for kind in ("cosine", "csls")]
    assert [table.key(i) for i in range(len(table.rows))] == keys
    assert [column.name for column in table.columns[2:]] == ["MR", "MRR", "Hits@1", "Hits@3"]
    assert "one.txt lacks 2 of 12 words, and both words of 1 of 3 pairs." in table.notes[0]
    similarity = report.table("word-similarity")
    assert [similarity.key(i) for i in range(len(similarity.rows))] == [f"{key} / tiny" for key in keys]
    assert similarity.cell("one.txt / cosine / tiny", "pairs") == 3
    assert [plot.title for plot in report.plots] == [f"Hits@k of {name}" for name in names]
    hits = report.facts["hits"]["one.txt / cosine"]
    assert len(hits) == 15
    assert hits[0] == table.cell("one.txt / cosine", "Hits@1")
    assert report.facts["settings"]["post_process"] is True
    json.dumps(report.facts)


def test_word_similarity_is_the_correlation_of_cosines_of_processed_vectors() -> None:
    report = words_report(similarities=("cosine", "l2"))
    found = processed_words(static("one.txt"), ["cat", "dog", "tree", "a", "b"])
    cat, dog, tree, a, b = found.unit
    cosines = [cat @ dog, cat @ tree, a @ b]
    table = report.table("word-similarity")
    expected = np.corrcoef(cosines, [3, 1, 2])[0, 1]
    assert table.cell("one.txt / cosine / tiny", "Pearson") == pytest.approx(expected, abs=1e-6)
    cat, dog, tree, a, b = found.plain
    near = [1 / (1 + np.linalg.norm(x - y)) for x, y in ((cat, dog), (cat, tree), (a, b))]
    expected = np.corrcoef(near, [3, 1, 2])[0, 1]
    assert table.cell("one.txt / l2 / tiny", "Pearson") == pytest.approx(expected, abs=1e-6)


def test_the_report_of_sentences_has_vectors_and_tokens() -> None:
    pairs = (("cat dog", "dog cat tree"), ("river stone", "stone"), ("nothing known", "rain cloud"))
    task = task_of(*pairs, more=("house", "fish bird cat", "tree"))
    measures = ("cosine", "dynamax-jaccard", "surprise", "idf-cosine", "dynamax-raw")
    models = [static(), SentenceModel("words", WordEncoder())]
    report = rank_sentences(models, task, RankSettings(similarities=measures, post_process=True), QUIET)
    table = report.table("evalrank-sentences")
    vectors, tokens = ("cosine", "surprise"), ("dynamax-jaccard", "idf-cosine", "dynamax-raw")
    assert [table.key(i) for i in range(len(table.rows))] == [
        f"{name}{pp} / {kind}"
        for name in ("static.txt", "words")
        for pp, kinds in (("", (*vectors, *tokens)), ("+pp", vectors))
        for kind in kinds
    ]
    assert table.cell("words / dynamax-jaccard", "Hits@3") == pytest.approx(2 / 3)
    assert table.notes[0] == "static.txt knows no word of 1 of 9 sentences."


# Commands


def run(command: object, *arguments: str) -> str:
    result = CliRunner().invoke(command, arguments)  # type: ignore[arg-type]
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).normal(size=(len(WORDS), 6)).round(3)
    lines = (f"{word} {' '.join(map(str, row))}" for word, row in zip(WORDS, rows, strict=True))
    return write(tmp_path / "mine.txt", *lines)


def test_the_commands_show_and_write_tables(tmp_path: Path, vectors: Path) -> None:
    folder, file = data(tmp_path), tmp_path / "words.json"
    output = run(
        studies.words,
        *("--data", str(folder), "--model", str(vectors)),
        *("--similarities", "cosine,surprise", "--report", str(file)),
        *("--set", "vocabulary=basic", "--set", "as_published=yes"),
    )
    assert "mine.txt" in output
    assert "among 5 words" in output
    assert "As published" in output
    written = json.loads(file.read_text())
    assert list(written["tables"]) == ["evalrank-words", "word-similarity"]
    output = run(
        studies.sentences,
        *("--data", str(folder), "--model", str(vectors)),
        *("--similarities", "l2,dynamax-jaccard-raw"),
    )
    assert "dynamax-jaccard-raw" in output
    assert "MRR" in output


# The published figures (EvalRank's logs and tables for toy_emb.txt)


@pytest.fixture(scope="module")
def toy(shared_data: Path) -> SentenceModel:
    return load_sentence_model(str(shared_data / "evalrank" / "toy_emb.txt"))


PEARSON = {
    "WS-353-ALL": 0.31857,
    "WS-353-SIM": 0.33688,
    "WS-353-REL": 0.34952,
    "MEN-TR-3k": 0.26554,
    "MTurk-287": 0.51728,
    "MTurk-771": 0.34364,
    "SIMLEX-999": 0.04451,
    "SimVerb-3500": -0.03758,
    "VERB-143": 0.33249,
    "YP-130": 0.08709,
}


@pytest.mark.shared
def test_words_as_published(shared_data: Path, toy: SentenceModel) -> None:
    settings = RankSettings(similarities=("cosine", "l2"), as_published=True, post_process=True)
    sets = read_word_similarity(shared_data)
    report = rank_words([toy], read_word_ranking(shared_data), sets, settings, QUIET)
    table = report.table("evalrank-words")
    for row, column, published in (
        ("toy_emb.txt / cosine", "MRR", 0.03180),
        ("toy_emb.txt / cosine", "Hits@1", 0.01179),
        ("toy_emb.txt / cosine", "Hits@3", 0.03536),
        ("toy_emb.txt / l2", "MRR", 0.3759),
        ("toy_emb.txt / l2", "Hits@1", 0.3547),
        ("toy_emb.txt / l2", "Hits@3", 0.3778),
        ("toy_emb.txt+pp / cosine", "MRR", 0.0310),
        ("toy_emb.txt+pp / l2", "MRR", 0.3773),
        ("toy_emb.txt+pp / l2", "Hits@1", 0.3555),
    ):
        assert table.cell(row, column) == pytest.approx(published, abs=0.005), (row, column)
    # By the toss of coins: one decides where all pairs of unknown words stand.
    assert table.cell("toy_emb.txt / cosine", "MR") == pytest.approx(10605, rel=0.05)
    assert table.cell("toy_emb.txt / l2", "MR") == pytest.approx(7957.7, rel=0.05)
    assert report.facts["settings"]["background"] == 22_207
    for name, published in PEARSON.items():
        found = report.table("word-similarity").cell(f"toy_emb.txt / cosine / {name}", "Pearson")
        assert found == pytest.approx(published, abs=0.001), name


@pytest.mark.shared
def test_words_without_the_toss_of_coins(shared_data: Path, toy: SentenceModel) -> None:
    task = read_word_ranking(shared_data)
    table = rank_words([toy], task, (), RankSettings(), QUIET).table("evalrank-words")
    assert table.cell("toy_emb.txt / cosine", "MRR") == pytest.approx(0.03180, abs=0.005)
    assert table.cell("toy_emb.txt / cosine", "Hits@1") == pytest.approx(0.01179, abs=0.005)
    assert table.cell("toy_emb.txt / cosine", "MR") == pytest.approx(3266.4, abs=0.5)
    # What the published program loses: the second items that count against themselves.
    assert table.cell("toy_emb.txt / l2", "MRR") == pytest.approx(0.3844, abs=0.0002)
    assert table.cell("toy_emb.txt / l2", "Hits@1") == pytest.approx(0.3629, abs=0.0002)


@pytest.mark.shared
def test_sentences_as_published(shared_data: Path, toy: SentenceModel) -> None:
    task = read_sentence_ranking(shared_data)
    assert (len(task.pairs), len(task.background)) == (6989, 24_957)
    settings = RankSettings(similarities=("cosine", "l2"), as_published=True)
    table = rank_sentences([toy], task, settings, QUIET).table("evalrank-sentences")
    for row, column, figure in (
        ("toy_emb.txt / cosine", "MRR", 0.4115),
        ("toy_emb.txt / cosine", "Hits@1", 0.2879),
        ("toy_emb.txt / cosine", "Hits@3", 0.4965),
        ("toy_emb.txt / l2", "MRR", 0.4446),
        ("toy_emb.txt / l2", "Hits@1", 0.3657),
        ("toy_emb.txt / l2", "Hits@3", 0.4911),
    ):
        assert table.cell(row, column) == pytest.approx(figure, abs=0.005), (row, column)
    assert table.cell("toy_emb.txt / cosine", "MR") == pytest.approx(494.06, abs=0.5)
