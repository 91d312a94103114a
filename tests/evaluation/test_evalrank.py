"""EvalRank: ranks by their definition, measures, files, reports, commands, and the published figures."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.files import write_lines, write_vectors
from helpers.words import WordEncoder
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank import DataError
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.core.arrays import Float32Array, unit_rows
from surprise_rerank.encoders.static import StaticEncoder, WordVectors
from surprise_rerank.eval.cli.rerank_eval import studies
from surprise_rerank.eval.reports.report import Report, Table
from surprise_rerank.eval.studies.evalrank import (
    WORD_SIMILARITY_SETS,
    ProcessedWords,
    RankingTask,
    SentenceStudy,
    Vocabulary,
    WordSimilaritySet,
    WordStudy,
    read_sentence_ranking,
    read_word_ranking,
    read_word_similarity,
)
from surprise_rerank.eval.studies.ranks import (
    DENSE_MEASURES,
    Csls,
    Items,
    Measure,
    TokenMeasure,
    dense_measure,
    hits,
    ranks,
)
from surprise_rerank.eval.studies.sentence_models import (
    POST_PROCESSED,
    WHITENED,
    SentenceModel,
    load_sentence_model,
)
from surprise_rerank.eval.studies.settings import RankSettings
from surprise_rerank.similarities._bags import Texts
from surprise_rerank.similarities.table import CorpusStatistics, find_similarity


def rank(measure: Measure, first: int, second: int, counts: np.ndarray) -> float:
    """The rank of one pair, as defined."""
    items = np.arange(len(counts))
    scores = measure.scores(np.full(len(items), first), items)
    limit = measure.limits(np.array([first]), np.array([second]))[0]
    above = int(counts[scores > limit].sum())
    if not measure.counts_equals:
        return max(1, above)
    least = measure.limits(np.array([first]), np.array([second]), -1)[0]
    equal = int(counts[(scores >= least) & (scores <= limit)].sum())
    return max(1, above + max(equal - 1, 0) / 2)


def items_of(vectors: Float32Array) -> tuple[Items, np.ndarray]:
    plain = np.asarray(vectors, np.float32)
    return Items.of(plain, unit_rows(plain), len(plain))


def some_items(n: int, d: int, seed: int) -> tuple[Items, np.ndarray]:
    """Items of which some are equal, some have one direction, and some are the sum of others in any order."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, d)).astype(np.float32)
    vectors[rng.integers(0, n, n // 3)] = vectors[0]
    vectors[rng.integers(0, n, n // 4)] = 2 * vectors[1]
    parts = rng.normal(size=(5, d)).astype(np.float32)
    for i in rng.integers(0, n, n // 4):
        vectors[i] = parts[rng.permutation(5)].sum(axis=0)
    return items_of(vectors)


@given(
    st.sampled_from(DENSE_MEASURES),
    st.booleans(),
    st.integers(6, 40),
    st.integers(2, 12),
    st.integers(0, 10_000),
    st.sampled_from([1, 7, 64, 100_000]),
)
def test_the_fast_form_gives_the_ranks_of_the_definition(name, as_published, n, d, seed, block):
    items, item_of = some_items(n, d, seed)
    measure = dense_measure(name, items, as_published=as_published)
    pairs = item_of[np.random.default_rng(seed).integers(0, n, size=(15, 2))]
    expected = [rank(measure, a, b, items.counts) for a, b in pairs.tolist()]
    assert ranks(measure, pairs, items.counts, block=block).tolist() == expected


def test_a_rank_counts_what_is_more_similar_and_the_first_item_for_nothing():
    #    a, then at 10, 20, 30 and 90 degrees
    angles = np.radians([0, 10, 20, 30, 90])
    items, item_of = items_of(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    measure = dense_measure("cosine", items)
    places = ranks(measure, item_of[np.array([[0, 1], [0, 2], [0, 4], [2, 2]])], items.counts)
    # a itself stands before b: the second nearest has rank 2, and nothing has a rank below 1.
    assert places.tolist() == [1, 2, 4, 1]
    assert [hits(places, k) for k in (1, 2, 3, 4)] == [0.5, 0.75, 0.75, 1.0]


def test_sums_of_the_same_words_in_another_order_share_the_middle_rank():
    rng = np.random.default_rng(2)
    words = rng.normal(size=(9, 30)).astype(np.float32)
    same = [words[rng.permutation(9)].mean(axis=0) for _ in range(30)]
    items, item_of = items_of(np.stack([rng.normal(size=30), *same, -same[0]]))
    assert len(items.counts) > 5  # the last bits differ
    for name in ("cosine", "l2", "csls", "surprise", "surprise-crossover", "surprise-pooled"):
        measure = dense_measure(name, items)
        places = ranks(measure, item_of[np.array([[1, j] for j in range(2, 31)])], items.counts)
        assert set(places.tolist()) == {14.5}, name  # of thirty, the first item among them


def test_a_model_that_knows_nothing_has_the_rank_of_chance():
    # Three known words and a hundred without a vector, which share the mean.
    vectors = np.zeros((103, 2), np.float32)
    vectors[:3] = [[1, 0], [0, 1], [-1, -1]]
    items, item_of = items_of(vectors)
    pairs = item_of[np.arange(3, 103).reshape(-1, 2)]
    for name in ("cosine", "l2", "surprise-crossover"):
        places = ranks(dense_measure(name, items), pairs, items.counts)
        assert 45 <= places.mean() <= 56, name
    published = ranks(dense_measure("cosine", items, as_published=True), pairs, items.counts)
    assert published.max() == 1


def test_items_beside_the_background_do_not_count():
    vectors = np.random.default_rng(3).normal(size=(12, 4)).astype(np.float32)
    items, _ = Items.of(vectors, unit_rows(vectors), 8)
    few, _ = Items.of(vectors[:8], unit_rows(vectors[:8]), 8)
    pairs = np.array([[i, (i + 3) % 8] for i in range(8)])
    for name in DENSE_MEASURES:
        more = ranks(dense_measure(name, items), pairs, items.counts)
        less = ranks(dense_measure(name, few), pairs, few.counts)
        assert more.tolist() == less.tolist(), name
    assert items.background.tolist() == list(range(8))


def test_as_published_the_second_item_of_some_pairs_counts_against_itself():
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(500, 50)).astype(np.float32)
    vectors[1::2] = vectors[::2] + 0.1 * rng.normal(size=(250, 50))  # nearest to the one before
    items, item_of = items_of(vectors)
    pairs = item_of[np.arange(500).reshape(-1, 2)]
    for name, share in (("cosine", 0.25), ("l2", 0.5)):
        assert ranks(dense_measure(name, items), pairs, items.counts).max() == 1
        measure = dense_measure(name, items, as_published=True)
        places = ranks(measure, pairs, items.counts)
        assert np.mean(places == 1) == pytest.approx(1 - share, abs=0.12)
        assert places.max() == 2


def test_csls_takes_the_mean_cosine_of_the_nearest_off_both_sides():
    items, item_of = items_of(np.random.default_rng(5).normal(size=(30, 6)))
    cosines = items.unit.astype(float) @ items.unit.T.astype(float)
    np.fill_diagonal(cosines, -np.inf)
    near = np.sort(cosines, axis=1)[:, -10:].mean(axis=1)
    measure = dense_measure("csls", items)
    assert isinstance(measure, Csls)
    scores = measure.scores(np.array([0, 4]), np.array([7, 9]))
    expected = [2 * cosines[0, 7] - near[0] - near[7], 2 * cosines[4, 9] - near[4] - near[9]]
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    assert Csls(Items.of(items.plain[:1], items.unit[:1], 1)[0]).nearness.tolist() == [0]
    assert item_of[7] == 7


def test_surprise_takes_the_background_as_ensemble_and_the_candidate_as_anchor():
    vectors = np.random.default_rng(6).normal(size=(40, 5)).astype(np.float32)
    vectors[30:] = vectors[0]  # what stands in the background often counts as often
    items, item_of = items_of(vectors)
    cosines = unit_rows(vectors).astype(float) @ unit_rows(vectors).T.astype(float)
    measure = dense_measure("surprise", items)
    scores = measure.scores(item_of[np.array([2, 3])], item_of[np.array([5, 31])])
    expected = [
        (cosines[2, 5] - cosines[:, 5].mean()) / cosines[:, 5].std(),
        (cosines[3, 31] - cosines[:, 31].mean()) / cosines[:, 31].std(),
    ]
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["dynamax", "dynamax-jaccard-raw", "max-jaccard", "idf-cosine"])
def test_similarities_of_tokens_rank_as_defined(name):
    encoder = WordEncoder()
    rng = np.random.default_rng(8)
    sentences = [" ".join(rng.choice(list("abcdefghijkl"), size=int(rng.integers(1, 6)))) for _ in range(25)]
    sentences = list(Counter([*sentences, ""]))
    texts = Texts(encoder.encode(sentences).tokens, tuple(map(tuple, encoder.words(sentences))))
    named = find_similarity(name)
    corpus = CorpusStatistics.encode(encoder, sentences, named.fitted_on | {"texts", "statistics"})
    measure = TokenMeasure(named.build(corpus), texts)
    counts = np.ones(len(sentences), dtype=np.int64)
    pairs = rng.integers(0, len(sentences), size=(12, 2))
    expected = [rank(measure, a, b, counts) for a, b in pairs.tolist()]
    assert ranks(measure, pairs, counts, block=60).tolist() == expected


WORDS = ("cat", "dog", "bird", "fish", "tree", "house", "river", "stone", "cloud", "rain")
QUIET = Terminal(quiet=True)


def data(folder: Path) -> Path:
    """The files of the benchmark, small."""
    words, similarity = folder / "evalrank" / "word_evalrank", folder / "evalrank" / "word_similarity"
    write_lines(words / "pos_pair_5514.txt", "cat\tdog", "Bird\tfish", "dog\tcat")
    write_lines(words / "basic_vocab.txt", "cat", "tree")
    write_lines(words / "wiki_vocab.txt", "the", "tree", "house")
    for i, name in enumerate(WORD_SIMILARITY_SETS):
        tab = "\t" if i % 2 else " "
        rows = (f"Cat{tab}dog{tab}3.5", f"cat{tab}stone{tab}1", f"river{tab}unheard{tab}0")
        write_lines(similarity / f"EN-{name}.txt", *(f"{row}\r" for row in rows) if i % 3 else rows)
    sentences = folder / "evalrank" / "sent_evalrank"
    write_lines(
        sentences / "pos_pair.txt", "the cat sees a dog\ta dog sees the cat", "rain .\tA cloud and rain ."
    )
    write_lines(sentences / "background_sent.txt", "rain .", "a river", "the old house")
    return folder


def static(name: str = "static.txt", words: tuple[str, ...] = WORDS, seed: int = 0) -> SentenceModel:
    vectors = np.random.default_rng(seed).normal(1, 1, size=(len(words), 6)).astype(np.float32)
    encoder = StaticEncoder(WordVectors(words, vectors, name), tokenize=str.split)
    return SentenceModel(name, encoder)


# Files


def test_files_are_read_with_every_item_of_a_background_once(tmp_path):
    folder = data(tmp_path)
    pairs = ("cat", "dog", "Bird", "fish")
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
    ("read", "file", "line", "message"),
    [
        (read_word_ranking, "word_evalrank/pos_pair_5514.txt", "one", r", line 2: .*expected two items"),
        (read_word_ranking, "word_evalrank/pos_pair_5514.txt", "one\t", r", line 2: an item is empty"),
        (read_word_ranking, "word_evalrank/wiki_vocab.txt", "  ", r", line 2: .*expected a word"),
        (read_sentence_ranking, "sent_evalrank/background_sent.txt", "", r", line 2: .*expected a sentence"),
        (read_word_similarity, "word_similarity/EN-YP-130.txt", "a b many", r", line 2: .*their similarity"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(tmp_path, read, file, line, message):
    path = data(tmp_path) / "evalrank" / file
    first, *_ = path.read_text().splitlines()
    write_lines(path, first, line, first)
    with pytest.raises(DataError, match=rf"{path.name}{message}"):
        read(tmp_path)


# Vectors


def processed_words(model: SentenceModel, words: Sequence[str], variant: str = "") -> ProcessedWords:
    return Vocabulary.of(model, words, QUIET).processed(variant)


def test_words_are_centred_over_the_vocabulary_and_unknown_ones_have_the_mean():
    model = static()
    raw = np.asarray(model.word_vectors.vectors, float)
    centred = raw - raw.mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    processed = processed_words(model, ["Dog", "unheard", "cat"])
    np.testing.assert_allclose(processed.plain[[0, 2]], centred[[1, 0]], atol=1e-6)
    np.testing.assert_allclose(processed.unit, [unit[1], unit.mean(axis=0), unit[0]], atol=1e-6)
    assert not processed.plain[1].any()
    assert Vocabulary.of(model, ["Dog", "unheard", "cat"], QUIET).rows.tolist() == [1, -1, 0]
    # Post-processing takes the two largest components off.
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    processed = processed_words(model, WORDS, POST_PROCESSED)
    np.testing.assert_allclose(processed.plain, centred - centred @ axes.T @ axes, atol=1e-5)
    # Whitened, the vocabulary has no correlations left, and a variance of 1 in each direction.
    processed = processed_words(model, WORDS, WHITENED)
    np.testing.assert_allclose(np.cov(processed.plain.T, bias=True), np.eye(6), atol=1e-4)
    np.testing.assert_allclose(processed.plain.mean(axis=0), 0, atol=1e-5)
    products = processed.plain @ processed.plain.T
    np.testing.assert_allclose(
        products, centred @ np.linalg.inv(np.cov(raw.T, bias=True)) @ centred.T, atol=1e-3
    )
    # An encoder knows every word.
    processed = processed_words(SentenceModel("words", WordEncoder()), ["cat", "unheard", "dog"])
    np.testing.assert_allclose(processed.plain.sum(axis=0), 0, atol=1e-6)


# Reports


def task_of(*pairs: tuple[str, str], more: tuple[str, ...] = ()) -> RankingTask:
    return RankingTask(pairs, tuple(dict.fromkeys([*(w for pair in pairs for w in pair), *more])))


def words_report(**more: object) -> Report:
    task = task_of(("cat", "dog"), ("bird", "fish"), ("zzz", "xxx"), more=WORDS)
    tiny = WordSimilaritySet("tiny", (("cat", "dog"), ("cat", "tree"), ("a", "b")), np.array([3.0, 1, 2]))
    models = [static("one.txt"), static("two.txt", seed=1)]
    study = WordStudy(RankSettings(**more), QUIET, replace(task, judged=(tiny,)))
    return study.report(models)


def test_the_report_of_words_has_a_row_for_every_model_and_measure():
    report = words_report(similarities=("cosine", "csls"), post_process=True)
    table = report.table("evalrank-words")
    names = ["one.txt", "one.txt+pp", "two.txt", "two.txt+pp"]
    keys = [f"{name} / {kind}" for name in names for kind in ("cosine", "csls")]
    assert [table.key(i) for i in range(len(table.rows))] == keys
    assert [column.name for column in table.columns[2:]] == ["MR", "MRR", "Hits@1", "Hits@3", "known %"]
    assert table.cell("one.txt / cosine", "known %") == pytest.approx(200 / 3)
    assert "one.txt lacks 2 of 12 words, and both words of 1 of 3 pairs." in report.notes[0]
    similarity = report.table("word-similarity")
    assert [similarity.key(i) for i in range(len(similarity.rows))] == [f"{key} / tiny" for key in keys]
    assert similarity.cell("one.txt / cosine / tiny", "pairs") == 3
    assert [plot.title for plot in report.plots] == [f"Hits@k of {name}" for name in names]
    hits = report.facts["hits"]["one.txt / cosine"]
    assert len(hits) == 15
    assert hits[0] == table.cell("one.txt / cosine", "Hits@1")
    assert report.facts["settings"]["post_process"] is True
    json.dumps(report.facts)


def test_word_similarity_is_the_correlation_of_cosines_of_processed_vectors():
    table = words_report(similarities=("cosine", "l2")).table("word-similarity")
    processed = processed_words(static("one.txt"), ["cat", "dog", "tree", "a", "b"])
    chosen = np.array([[0, 1], [0, 2], [3, 4]])
    cosines = [processed.unit[a] @ processed.unit[b] for a, b in chosen]
    near = [1 / (1 + np.linalg.norm(processed.plain[a] - processed.plain[b])) for a, b in chosen]
    for name, values in (("cosine", cosines), ("l2", near)):
        expected = np.corrcoef(values, [3, 1, 2])[0, 1]
        assert table.cell(f"one.txt / {name} / tiny", "Pearson") == pytest.approx(expected, abs=1e-6)


def test_the_report_of_sentences_has_vectors_and_tokens():
    pairs = (("cat dog", "dog cat tree"), ("river stone", "stone"), ("nothing known", "rain cloud"))
    task = task_of(*pairs, more=("house", "fish bird cat", "tree"))
    measures = ("cosine", "dynamax-jaccard", "surprise", "idf-cosine", "dynamax-raw")
    models = [static(), SentenceModel("words", WordEncoder())]
    settings = RankSettings(similarities=measures, post_process=True, whiten=True)
    report = SentenceStudy(settings, QUIET, task).report(models)
    table = report.table("evalrank-sentences")
    vectors, tokens = ("cosine", "surprise"), ("dynamax-jaccard", "idf-cosine", "dynamax-raw")
    assert [table.key(i) for i in range(len(table.rows))] == [
        f"{name}{pp} / {kind}"
        for name in ("static.txt", "words")
        for pp, kinds in (("", vectors), ("+pp", vectors), ("+white", vectors), ("", tokens))
        for kind in kinds
    ]
    assert table.cell("words / dynamax-jaccard", "Hits@3") == pytest.approx(2 / 3)
    assert report.notes[0] == "static.txt knows no word of 1 of 9 sentences."


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        (
            studies.words,
            "cosine,surprise --set as_published=yes",
            {"among 7 words", "As published", "Word similarity"},
        ),
        (studies.sentences, "l2,dynamax-jaccard-raw", {"among 6 sentences", "dynamax-jaccard-raw"}),
    ],
)
def test_the_commands_show_and_write_tables(tmp_path, command, arguments, said):
    file, model = tmp_path / "report.json", write_vectors(tmp_path / "mine.txt", WORDS, 6)
    place = ("--data", str(data(tmp_path)), "--model", str(model), "--report", str(file))
    result = CliRunner().invoke(command, [*place, "--similarities", *arguments.split()])
    assert result.exit_code == 0, result.output
    assert {part for part in said if part in result.output} == said
    assert f"evalrank-{command.name}" in json.loads(file.read_text())["tables"]


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


def check(table: Table, expected: dict[str, dict[str, float]], within: float = 0.005) -> None:
    for row, values in expected.items():
        for column, value in values.items():
            assert table.cell(f"toy_emb.txt{row}", column) == pytest.approx(value, abs=within), (row, column)


@pytest.mark.shared
def test_words_as_published(shared_data, toy):
    similarities = ("cosine", "l2")
    settings = RankSettings(data=shared_data, similarities=similarities, as_published=True, post_process=True)
    report = WordStudy(settings, QUIET).report([toy])
    table = report.table("evalrank-words")
    expected = {
        " / cosine": {"MRR": 0.03180, "Hits@1": 0.01179, "Hits@3": 0.03536},
        " / l2": {"MRR": 0.3759, "Hits@1": 0.3547, "Hits@3": 0.3778},
        "+pp / cosine": {"MRR": 0.0310},
        "+pp / l2": {"MRR": 0.3773, "Hits@1": 0.3555},
    }
    check(table, expected)
    # By the toss of coins: one decides where all pairs of unknown words stand.
    assert table.cell("toy_emb.txt / cosine", "MR") == pytest.approx(10605, rel=0.05)
    assert table.cell("toy_emb.txt / l2", "MR") == pytest.approx(7957.7, rel=0.05)
    assert report.facts["settings"]["background"] == 22_207
    pearson = {f" / cosine / {name}": {"Pearson": value} for name, value in PEARSON.items()}
    check(report.table("word-similarity"), pearson, 0.001)


@pytest.mark.shared
def test_words_without_the_toss_of_coins(shared_data, toy):
    task = read_word_ranking(shared_data)
    table = WordStudy(RankSettings(), QUIET, task).report([toy]).table("evalrank-words")
    check(table, {" / cosine": {"MRR": 0.03180, "Hits@1": 0.01179}})
    # Three in four pairs have a word without a vector, whose rank is that of chance. As published, the second
    # of two such words has the first rank by l2, and the MRR is .376.
    check(table, {" / cosine": {"MR": 8091.0}, " / l2": {"MR": 11126.7}}, 0.5)
    check(table, {" / l2": {"MRR": 0.0305, "Hits@1": 0.0147}}, 0.0002)
    assert table.cell("toy_emb.txt / cosine", "known %") == pytest.approx(24.85, abs=0.01)


@pytest.mark.shared
def test_sentences_as_published(shared_data, toy):
    task = read_sentence_ranking(shared_data)
    assert (len(task.pairs), len(task.background)) == (6989, 24_957)
    settings = RankSettings(similarities=("cosine", "l2"), as_published=True)
    table = SentenceStudy(settings, QUIET, task).report([toy]).table("evalrank-sentences")
    expected = {
        " / cosine": {"MRR": 0.4115, "Hits@1": 0.2879, "Hits@3": 0.4965},
        " / l2": {"MRR": 0.4446, "Hits@1": 0.3657, "Hits@3": 0.4911},
    }
    check(table, expected)
    check(table, {" / cosine": {"MR": 494.06}}, 0.5)
