"""Semantic textual similarity: files, every similarity by every model, and the command."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.files import write_lines, write_vectors
from helpers.words import WordEncoder

from surprise_rerank import DataError, TextSimilarity
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.core._extras import is_installed
from surprise_rerank.encoders.static import StaticEncoder, WordVectors
from surprise_rerank.eval.cli.rerank_eval.studies import sts as command
from surprise_rerank.eval.reports.report import Report
from surprise_rerank.eval.stats import correlations
from surprise_rerank.eval.studies.sentence_models import SentenceModel
from surprise_rerank.eval.studies.settings import StsSettings
from surprise_rerank.eval.studies.sts import (
    YEARS,
    DataSet,
    EncodedPairs,
    StsStudy,
    SubTask,
    read_data_sets,
    similarities_for,
)
from surprise_rerank.similarities.table import SIMILARITIES, find_similarity, with_raw

SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"


def year(folder: Path, name: str = "STS13") -> Path:
    """A year whose sub-tasks have four pairs; the third has no judgement."""
    for task in YEARS[name]:
        pairs = ("a cat\tthe cat", "a dog\tdogs", "x\ty", "up\tthe \x85 sky")
        write_lines(folder / name / f"STS.input.{task}.txt", *pairs)
        write_lines(folder / name / f"STS.gs.{task}.txt", "4.5", "5.000", "", "0")
    return folder / name


def test_pairs_without_a_judgement_are_left_out(tmp_path):
    folder = year(tmp_path)
    # Of sub-tasks whose sentences are not published there is only this.
    write_lines(folder / "STS.gs.SMT.txt", "1", "2")
    (data_set,) = read_data_sets(tmp_path, ["STS13"])
    assert [task.name for task in data_set.subtasks] == ["STS13 FNWN", "STS13 headlines", "STS13 OnWN"]
    task = data_set.subtasks[0]
    assert task.first == ("a cat", "a dog", "up")
    assert task.second == ("the cat", "dogs", "the \x85 sky")
    assert task.judgements.tolist() == [4.5, 5.0, 0.0]
    assert (len(task), len(data_set), len(data_set.sentences)) == (3, 9, 18)


def test_parts_of_sts_b_are_read_on_request_and_may_have_fields_about_licences(tmp_path):
    for part in ("test", "train", "dev"):
        rows = (f"main\tMSRvid\t2012\t{i}\t{i}.5\t{part} {i} a\t{part} {i} b\turl\tmore" for i in range(4))
        write_lines(tmp_path / "STSBenchmark" / f"sts-{part}.csv", *rows)
    (dev,) = read_data_sets(tmp_path, ["STS-B-dev"])
    assert (dev.name, dev.other_sentences, dev.subtasks[0].first[1]) == ("STS-B-dev", (), "dev 1 a")
    (dev,) = read_data_sets(tmp_path, ["STS-B-dev"], other_parts=True)
    assert len(dev.other_sentences) == 16
    assert not set(dev.other_sentences) & set(dev.sentences)


def test_sick_is_read_with_the_line_ends_of_either_system(tmp_path):
    rows = [f"{i}\tfirst {i}\tsecond {i}\t{i}.1\tNEUTRAL" for i in range(1, 5)]
    for name, end in (("SICK_test_annotated.txt", "\r\n"), ("SICK_trial.txt", "\n")):
        write_lines(tmp_path / "SICK" / name, SICK_HEADER, *rows, end=end)
    test, trial = read_data_sets(tmp_path, ["SICK-R", "SICK-R-trial"])
    assert test.subtasks[0].second == trial.subtasks[0].second
    assert test.subtasks[0].judgements.tolist() == [1.1, 2.1, 3.1, 4.1]


def test_str_quotes_two_sentences_as_two_lines(tmp_path):
    records = ['0,P_0,"It is, now.\nHe said ""now"".",1.0', '1,P_1,"a\nb",0.5', '2,P_2,"c d\ne",0']
    path = tmp_path / "STR" / "sem_text_rel_ranked.csv"
    write_lines(path, "Index,PairID,Text,Score", *records)
    data_sets = read_data_sets(tmp_path, ["STR", "STR-characters"])
    words, characters = (data_set.subtasks[0] for data_set in data_sets)
    assert words.first == ("It is, now.", "a", "c d")
    assert words.second[0] == 'He said "now".'
    assert words.judgements.tolist() == [1.0, 0.5, 0.0]
    assert characters.first == ("I t   i s ,   n o w .", "a", "c   d")


@pytest.mark.parametrize(
    ("name", "file", "lines", "message"),
    [
        ("STS13", "STS13/STS.input.FNWN.txt", ["a\tb", "a", "a\tb", "a\tb"], r"FNWN\.txt, line 2: "),
        ("STS13", "STS13/STS.gs.FNWN.txt", ["1", "2", "5.5", "4"], r"FNWN\.txt, line 3: .* from 0 to 5"),
        ("STS13", "STS13/STS.gs.FNWN.txt", ["1", "2", "3"], r"lines of .*FNWN\.txt must be 4, got 3"),
        ("STS13", "STS13/STS.gs.FNWN.txt", ["1", "", "", "2"], r"judged pairs of .* at least 3, got 2"),
        ("STS-B", "STSBenchmark/sts-test.csv", ["a\tb\tc\td\tx\ty"], r"line 1: .*two sentences"),
        ("SICK-R", "SICK/SICK_test_annotated.txt", ["1\ta\tb\t3\tNEUTRAL"], r"first line must be the header"),
        ("SICK-R", "SICK/SICK_test_annotated.txt", [], r"first line must be the header"),
        ("SICK-R", "SICK/SICK_test_annotated.txt", [SICK_HEADER, "1\ta\tb\t0.5\tN"], r"2: .* from 1 to 5"),
        ("STR", "STR/sem_text_rel_ranked.csv", ["Index,Text", '0,"a\nb"'], r"line 4: 'Score', expected"),
        ("STR", "STR/sem_text_rel_ranked.csv", ["Text,Score", '"a\nb\nc",1'], r"line 5: too many values"),
        ("STR", "STR/sem_text_rel_ranked.csv", ["Text,Score", '"a\nb",2'], r"line 4: .* from 0 to 1"),
        ("STR", "STR/sem_text_rel_ranked.csv", ["Text,Score", '"a\nb"'], r"line 4: .*expected the columns"),
        ("STR", "STR/sem_text_rel_ranked.csv", ["Text,Score", '"a\nb,1'], r"expected the columns"),
        ("STR", "STR/sem_text_rel_ranked.csv", [], r"judged pairs of .* got none"),
        ("STS17", "STS17/none.txt", [], r"sets\[0\]='STS17' is not known"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path, name, file, lines, message):
    year(tmp_path)
    write_lines(tmp_path / file, *lines)
    with pytest.raises(DataError, match=message):
        read_data_sets(tmp_path, [name])


@pytest.mark.shared
def test_the_published_files_have_as_many_pairs_as_they_are_said_to(shared_data):
    sizes = {data_set.name: len(data_set) for data_set in read_data_sets(shared_data)}
    assert sizes == {
        "STS12": 3108,
        "STS13": 1500,
        "STS14": 3750,
        "STS15": 3000,
        "STS16": 1186,
        "STS-B": 1379,
        "SICK-R": 4927,
        "STR": 5500,
    }


WORDS = (
    *("the", "a", "of", "cat", "dog", "bird", "fish", "tree"),
    *("house", "river", "runs", "sleeps", "sees", "old", "small", "green"),
)

QUIET = Terminal(quiet=True)


def subtask(name: str, size: int, seed: int) -> SubTask:
    """Pairs that share some of their words, judged by how many."""
    rng = np.random.default_rng(seed)
    first, second, judgements = [], [], []
    for _ in range(size):
        words = rng.permutation(WORDS)
        shared = int(rng.integers(0, 6))
        first.append(" ".join(words[:6]))
        second.append(" ".join([*words[:shared], *words[6 : 12 - shared]]))
        judgements.append(shared + rng.normal(0, 0.5))
    return SubTask(name, tuple(first), tuple(second), np.array(judgements))


def word_model(name: str = "toy.txt", d: int = 16, seed: int = 0) -> SentenceModel:
    vectors = np.random.default_rng(seed).normal(size=(len(WORDS), d)).astype(np.float32)
    return SentenceModel(name, StaticEncoder(WordVectors(WORDS, vectors, name), tokenize=str.split))


def encoder_model() -> SentenceModel:
    return SentenceModel("words", WordEncoder())


@pytest.fixture(scope="module")
def data_sets() -> list[DataSet]:
    sts12 = [subtask(f"STS12 {name}", 12 + 10 * i, i) for i, name in enumerate(("one", "two"))]
    sts13 = [subtask("STS13 three", 15, 7)]
    return [
        DataSet("STS12", tuple(sts12)),
        DataSet("STS13", tuple(sts13)),
        DataSet(
            "STS-B", (subtask("STS-B", 20, 9),), other_sentences=("a green cat sees a bird", "the old house")
        ),
    ]


def measured(models: list[SentenceModel], data_sets: list[DataSet], *names: str, **more: object) -> Report:
    settings = StsSettings(similarities=names or None, **{"resamples": 200, **more})
    return StsStudy(settings, QUIET, data_sets).report(models)


# Correlations


def test_correlations_are_those_of_the_definitions():
    coefficients = correlations(np.array([1.0, 2.0, 4.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert (coefficients.pearson, coefficients.spearman, coefficients.kendall) == pytest.approx(
        (0.8, 0.8, 4 / 6)
    )
    # A constant side has none.
    assert not correlations(np.full(3, 0.1), np.arange(3.0)).defined


# Scores of pairs


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, named in SIMILARITIES.items()
        if (not named.module or is_installed(named.module)) and "embedding" not in named.fitted_on
    ],
)
def test_every_similarity_scores_pairs_as_it_does_by_itself(name, data_sets):
    model, data_set = word_model(), data_sets[0]
    pairs = EncodedPairs(model, data_set)
    alone = TextSimilarity(name, model.encoder).fit(data_set.sentences)
    first = [text for task in data_set.subtasks for text in task.first]
    second = [text for task in data_set.subtasks for text in task.second]
    expected = SIMILARITIES[name].linear(alone.pairs(first, second))
    np.testing.assert_allclose(pairs.similarities(name), expected, rtol=1e-6, atol=1e-7)


def test_pearson_of_word_movers_is_that_of_the_negative_distance():
    pytest.importorskip("ot")
    # One word each: the distance is that of the two vectors, 1, 3 and 8; people say 3, 2 and -.5.
    vectors = np.array([[0.0], [1.0], [3.0], [8.0]], np.float32) + 1
    words = StaticEncoder(WordVectors(("a", "b", "c", "d"), vectors, "line"), tokenize=str.split)
    task = SubTask("STS-B", ("a", "a", "a"), ("b", "c", "d"), np.array([3.0, 2.0, -0.5]))
    pairs = EncodedPairs(SentenceModel("line", words), DataSet("STS-B", (task,)))
    np.testing.assert_allclose(pairs.similarities("wmd-raw"), [-1, -3, -8], atol=1e-6)
    assert correlations(pairs.similarities("wmd-raw"), task.judgements).pearson == pytest.approx(1)
    # A text without known words has no distance, and is as far as the farthest.
    odd = SubTask("STS-B", ("a", "a", "a"), ("b", "c", "zz"), task.judgements)
    pairs = EncodedPairs(SentenceModel("line", words), DataSet("STS-B", (odd,)))
    np.testing.assert_allclose(pairs.similarities("wmd-raw"), [-1, -3, -3], atol=1e-6)


def test_what_is_fitted_does_not_depend_on_the_other_data_sets(data_sets):
    alone = measured([word_model()], data_sets[1:2], "dynamax-jaccard-sif", "idf-cosine", resamples=0)
    beside = measured([word_model()], data_sets, "dynamax-jaccard-sif", "idf-cosine", resamples=0)
    for name in ("dynamax-jaccard-sif", "idf-cosine"):
        row = f"toy.txt / {name} / STS13 three"
        assert alone.table("sts-subtasks").cell(row, "Pearson") == pytest.approx(
            beside.table("sts-subtasks").cell(row, "Pearson"), abs=1e-12
        )


def test_sif_takes_the_counts_of_a_file(data_sets, tmp_path):
    counts = tmp_path / "counts.txt"
    counts.write_text("the 900\nTHE 90\ncat 10\n")
    report = measured([word_model()], data_sets[1:2], "sif-cosine", resamples=0, word_counts=counts)
    model, task = word_model(), data_sets[1].subtasks[0]
    weights = {"the": 0.001 / (0.001 + 0.99), "cat": 0.001 / (0.001 + 0.01)}

    def vector(text: str) -> np.ndarray:
        words = model.word_vectors
        rows = words.vectors[words.lookup(text.split())]
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return np.array([weights.get(word, 1.0) for word in text.split()]) @ unit

    expected = []
    for first, second in zip(task.first, task.second, strict=True):
        a, b = vector(first), vector(second)
        expected.append(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    pearson = report.table("sts-subtasks").cell("toy.txt / sif-cosine / STS13 three", "Pearson")
    assert pearson == pytest.approx(correlations(np.array(expected), task.judgements).pearson, abs=1e-6)
    counts.write_text("the many\n")
    with pytest.raises(DataError, match=r"counts.txt, line 1: .* expected a word and its count"):
        measured([word_model()], data_sets[1:2], "sif-cosine", resamples=0, word_counts=counts)


def test_the_words_of_an_embedding_are_a_universe(data_sets):
    model = word_model()
    universe = model.word_vectors.vectors.astype(np.float64)
    (task,) = data_sets[1].subtasks
    values = EncodedPairs(model, data_sets[1]).similarities("fbow-words-raw")
    for value, *texts in zip(values, task.first, task.second, strict=True):
        rows = [model.word_vectors.vectors[model.word_vectors.lookup(t.split())] for t in texts]
        a, b = (np.maximum((tokens @ universe.T).max(axis=0), 0) for tokens in rows)
        assert value == pytest.approx(np.minimum(a, b).sum() / np.maximum(a, b).sum(), abs=1e-6)
    assert find_similarity("fbow-words").fitted_on == {"embedding"}
    with pytest.raises(DataError, match="words is no word vectors; give glove-6b-50d or a file"):
        EncodedPairs(encoder_model(), data_sets[1]).similarities("fbow-words")


def test_cosine_is_that_of_the_models_own_vectors(data_sets):
    for model in (word_model(), encoder_model()):
        task = data_sets[1].subtasks[0]
        a, b = model.vectors(task.first), model.vectors(task.second)
        expected = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
        cosines = EncodedPairs(model, data_sets[1]).similarities("cosine")
        np.testing.assert_allclose(cosines, expected, rtol=1e-5)


def test_sentences_without_known_words_are_counted():
    task = SubTask("STS-B", ("cat", "xx yy", "dog"), ("dog", "zz", "bird"), np.array([1.0, 2.0, 3.0]))
    assert EncodedPairs(word_model(), DataSet("STS-B", (task,))).unknown == 2
    report = measured([word_model()], [DataSet("STS-B", (task,))], "cosine", resamples=0)
    assert report.facts["sentences_without_known_words"] == {"toy.txt": {"STS-B": 2}}
    assert any("toy.txt: no known word in 2 of the sentences" in note for note in report.notes)


def test_post_processing_takes_the_components_of_all_sentences_off(data_sets):
    data_set = data_sets[2]
    model = word_model()
    sentences = list(dict.fromkeys((*data_set.sentences, *data_set.other_sentences)))
    vectors = model.vectors(sentences).astype(np.float64)
    axes = np.linalg.svd(vectors)[2][:2]
    processed = dict(zip(sentences, vectors - vectors @ axes.T @ axes, strict=True))
    cosines = (pairs := EncodedPairs(model, data_set, post_process=True)).cosines(pairs.processed)
    (task,) = data_set.subtasks
    for value, first, second in zip(cosines, task.first, task.second, strict=True):
        a, b = processed[first], processed[second]
        assert value == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-5)


# The report


def test_the_tables_agree_with_one_another(data_sets):
    report = measured([word_model(), encoder_model()], data_sets, "cosine", "dynamax-jaccard")
    tasks = report.table("sts-subtasks")
    one, two = (tasks.cell(f"toy.txt / dynamax-jaccard / STS12 {n}", "Pearson") for n in ("one", "two"))
    three = tasks.cell("toy.txt / dynamax-jaccard / STS13 three", "Pearson")
    years = report.table("sts")
    assert [c.name for c in years.columns] == ["model", "similarity", "STS12", "STS13", "mean"]
    row = "toy.txt / dynamax-jaccard"
    assert years.cell(row, "STS12") == pytest.approx(50 * (one + two))
    assert years.cell(row, "mean") == pytest.approx(25 * (one + two) + 50 * three)
    weighted = report.table("sts-weighted")
    assert weighted.cell(f"{row} / STS12", "Pearson") == pytest.approx((12 * one + 22 * two) / 34)
    assert weighted.cell(f"{row} / STS-B", "Kendall") == tasks.cell(f"{row} / STS-B", "Kendall")
    difference = report.table("sts-differences").cell(f"{row} / STS12 one", "difference")
    baseline = tasks.cell("toy.txt / cosine / STS12 one", "Pearson")
    assert difference == pytest.approx(100 * (one - baseline), abs=2e-3)
    assert len(years.rows) == 4
    assert len(tasks.rows) == 4 * 4
    assert len(report.table("sts-differences").rows) == 2 * 4


def test_wins_are_those_of_the_years_sub_tasks(data_sets):
    report = measured([word_model()], data_sets, "cosine", "dynamax-jaccard", "fbow-random")
    wins = report.table("sts-wins")
    verdicts = [row for row in report.table("sts-differences").rows if row[1] == "fbow-random"]
    counted = [sum(row[-1] == v and row[2] != "STS-B" for row in verdicts) for v in ("win", "loss", "tie")]
    names = ("wins", "losses", "ties")
    assert [wins.cell("toy.txt / fbow-random", name) for name in names] == counted
    assert sum(counted) == 3
    assert wins.cell("toy.txt / fbow-random", "losses %") == pytest.approx(100 * counted[1] / 3)
    assert any("77.8 %" in note for note in wins.notes)


def test_the_default_follows_the_kind_of_model_and_the_baseline_comes_first():
    words = similarities_for(word_model(), None, "cosine")
    assert words[:3] == ("cosine", "max-jaccard-raw", "dynamax-jaccard-raw")
    assert similarities_for(encoder_model(), None, "cosine")[2] == "dynamax-jaccard"
    everything = similarities_for(word_model(), ["all"], "wmd-raw")
    assert everything[0] == "wmd-raw"
    assert sorted(everything) == sorted({"cosine", *with_raw()} - {"fbow-words", "fbow-words-raw"})


def test_a_constant_similarity_is_told_and_leaves_the_others_alone(data_sets):
    task = subtask("STS12 three", 12, 3)
    # Pairs without a common word are all the same to the sets of their words.
    apart = SubTask("STS12 apart", task.first, tuple("zebra" for _ in task.first), task.judgements)
    sets = [DataSet("STS12", (apart, task)), data_sets[1]]
    report = measured([word_model()], sets, "cosine", "set-jaccard")
    assert "toy.txt set-jaccard: no correlation on STS12 apart, where it is the same for every pair" in (
        report.notes
    )
    years = report.table("sts")
    assert np.isnan(years.cell("toy.txt / set-jaccard", "STS12"))
    assert np.isfinite(years.cell("toy.txt / set-jaccard", "STS13"))
    assert np.isfinite(years.cell("toy.txt / cosine", "STS12"))
    assert report.table("sts-differences").cell("toy.txt / set-jaccard / STS12 apart", "verdict") is None
    wins = report.table("sts-wins")
    assert sum(wins.cell("toy.txt / set-jaccard", name) for name in ("wins", "losses", "ties")) == 2


def test_post_processed_cosine_has_a_name_and_without_resamples_there_are_no_intervals(data_sets):
    report = measured([word_model()], data_sets, "dynamax-raw", post_process=True, resamples=0)
    keys = [row[:2] for row in report.table("sts").rows]
    assert keys == [("toy.txt", "cosine"), ("toy.txt", "dynamax-raw"), ("toy.txt+pp", "cosine")]
    assert [table.name for table in report.tables] == ["sts", "sts-weighted", "sts-subtasks"]
    assert not report.plots


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"similarities": ("dynamx",)}, "similarity='dynamx' is not known"),
        ({"similarities": ()}, "similarities must be at least one, got none"),
        ({"baseline": "cosin"}, "similarity='cosin' is not known"),
        ({"baseline": "all"}, "the baseline cannot be measured: it is one similarity"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_measured(settings, message):
    with pytest.raises(DataError, match=message):
        StsStudy(StsSettings(**settings), QUIET, [])


def test_similarities_that_lack_a_module_are_left_out_with_a_note(data_sets, monkeypatch):
    monkeypatch.setattr("surprise_rerank.eval.studies.sts.is_installed", lambda module: module != "ot")
    report = measured([word_model()], data_sets[2:], "cosine", "wmd")
    assert {row[1] for row in report.table("sts-weighted").rows} == {"cosine"}
    assert any("wmd: not measured" in note and "pip install" in note for note in report.notes)
    with pytest.raises(DataError, match="the baseline cannot be measured: wmd"):
        measured([word_model()], data_sets[2:], "cosine", baseline="wmd")


# The command


def test_the_command_prints_the_years_and_writes_everything(tmp_path):
    year(tmp_path)
    vectors = write_vectors(tmp_path / "vectors.txt", ("a", "the", "cat", "dog", "dogs", "up", "sky"), 5)
    report = tmp_path / "report.json"
    options = f"--data {tmp_path} --model {vectors} --set sets=STS13 --set resamples=50 --report {report}"
    done = CliRunner().invoke(command, options.split())
    assert done.exit_code == 0, done.output
    assert "STS13" in done.output
    tables = json.loads(report.read_text())["tables"]
    assert set(tables) == {"sts", "sts-wins", "sts-weighted", "sts-differences", "sts-subtasks"}
    assert [row["similarity"] for row in tables["sts"]][:2] == ["cosine", "max-jaccard-raw"]
