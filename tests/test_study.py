"""The study of the defaults: its row `auto` is the product, and every subject has its table."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import NEEDS_EDGE
from words import WordEncoder

from surprise_rerank.candidates import Candidates
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, load_dataset
from surprise_rerank.rerank.auto import AUTO_DEFAULTS, AUTO_ROBUST, AutoReranker, AutoSettings
from surprise_rerank.similarities.dynamax import DynaMax

# Behind what is installed: the scripts of benchmarks/ belong to no package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.study import __main__ as command
from benchmarks.study import collection as collections
from benchmarks.study.collection import Collection
from benchmarks.study.document_tokens import FORMS, reduced
from benchmarks.study.formula import AUTO, Recipe
from benchmarks.study.length import by_length, off_hubs
from benchmarks.study.parts import plain_inclusion
from benchmarks.study.pseudo_questions import first_sentence, other_questions
from benchmarks.study.reading import read_collection
from benchmarks.study.table import AUTO_ROW, Evaluator, Row
from benchmarks.study.tokens import measured
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.dynamax import SetMeasure

WORDS = "ash bay cod dew elm fig gnu hay ivy jam kit log map nut oak pea ray sap tin urn".split()  # noqa: SIM905
DOCUMENTS, QUESTIONS = 60, 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BEIR folder of documents of some of twenty words; the relevant ones share most with the question."""
    folder = tmp_path_factory.mktemp("study") / "words"
    (folder / "qrels").mkdir(parents=True)
    rng = np.random.default_rng(0)
    corpus = []
    for i in range(DOCUMENTS):
        words = rng.choice(WORDS, size=rng.integers(4, 12))
        text = f"{' '.join(words[:3])}. {' '.join(words[3:])}."
        corpus.append({"_id": f"d{i}", "title": str(words[0]), "text": text})
    questions = [{"_id": f"q{i}", "text": " ".join(rng.choice(WORDS, size=3))} for i in range(QUESTIONS)]
    qrels = [f"{q['_id']}\t{d}\t1" for q in questions for d in sharing_most(q["text"], corpus)]
    for name, rows in (("corpus", corpus), ("queries", questions)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "qrels" / "dev.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *qrels, ""]))
    return folder


def sharing_most(question: str, corpus: list[dict[str, str]]) -> list[str]:
    """Ids of the three documents that have most of a question's words."""
    asked = set(question.split())
    shared = sorted(corpus, key=lambda document: -len(asked & set(document["text"].replace(".", "").split())))
    return [document["_id"] for document in shared[:3]]


@pytest.fixture(scope="module")
def encoder() -> WordEncoder:
    return WordEncoder(dimension=24)


@pytest.fixture(scope="module")
def dataset(folder: Path) -> RetrievalDataset:
    return load_dataset(str(folder), "dev")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def collection(dataset: RetrievalDataset, folder: Path, encoder: WordEncoder, cache: Path) -> Collection:
    return read_collection(dataset, str(folder), encoder, cache=cache, deep=True)


def product(collection: Collection, encoder: WordEncoder, texts: dict[str, str]) -> AutoReranker:
    """The re-ranker that an index of these documents is searched with."""
    corpus = collection.corpus
    tokens = encoder.encode([texts[corpus.ids[row]] for row in corpus.sample]).tokens.stored("int8")
    return AutoReranker(corpus.ensemble, tokens, corpus.words, threads=1)


@NEEDS_EDGE
@pytest.mark.parametrize(
    "settings",
    [
        AUTO_DEFAULTS,
        replace(AUTO_DEFAULTS, trust=(0.7, 1.0)),
        replace(AUTO_DEFAULTS, trust=None, neighbours=0),
        replace(AUTO_DEFAULTS, bm25=0),
        replace(AUTO_DEFAULTS, cosine=0, words=0),
        replace(AUTO_DEFAULTS, dynamax=0, feedback=0),
        replace(AUTO_DEFAULTS, rarity=False),
        AUTO_ROBUST,
    ],
)
def test_the_row_auto_is_what_the_product_ranks(
    collection: Collection, encoder: WordEncoder, dataset: RetrievalDataset, settings: AutoSettings
) -> None:
    texts = {document.id: document.content for document in dataset.documents}
    auto = replace(product(collection, encoder, texts), settings=settings)
    recipe = Recipe(settings)
    if not settings.rarity:
        recipe = replace(recipe, scorers=lambda case: {**case.z, "dynamax": plain_inclusion(case)})
    if settings == AUTO_ROBUST:
        robust = {"cosine": off_hubs(AUTO_ROBUST.hubs), "dynamax": by_length(AUTO_ROBUST.lengths)}
        recipe = replace(recipe, scorers=lambda case: {**case.z, **{k: v(case) for k, v in robust.items()}})
    for own in collection.pools(20):
        tokens = encoder.encode([texts[name] for name in own.candidates.ids]).tokens.stored("int8")
        pool: Candidates = replace(own.candidates, tokens=tokens)
        expected = auto.rerank(own.query, pool)
        scores = dict(zip(own.candidates.ids, recipe(own), strict=True))
        np.testing.assert_allclose([scores[name] for name in expected.ids], expected.scores, atol=2e-4)


@NEEDS_EDGE
def test_what_was_read_is_read_from_the_cache(
    collection: Collection, dataset: RetrievalDataset, folder: Path, cache: Path
) -> None:
    again = WordEncoder(dimension=24)
    second = read_collection(dataset, str(folder), again, cache=cache, deep=True)
    assert not again.encoded_texts
    for case, other in zip(collection.pools(20), second.pools(20), strict=True):
        np.testing.assert_array_equal(AUTO(case), AUTO(other))


@NEEDS_EDGE
@pytest.mark.parametrize("subject", list(command.SUBJECTS))
def test_every_subject_has_a_table(collection: Collection, subject: str) -> None:
    rows = command.SUBJECTS[subject](collection)
    table = Evaluator(collection).table(subject, rows, lambda count: None)
    assert len(table.rows) == len(rows) > 10
    assert all(0 <= row[1] <= 1 for row in table.rows)
    assert {row.against for row in rows} <= {row.name for row in rows}


@NEEDS_EDGE
def test_the_command_prints_the_table(
    collection: Collection, folder: Path, cache: Path, encoder: WordEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "load_encoder", lambda name, cache: encoder)
    asked = ["parts", "depth", "--dataset", str(folder), "--split", "dev", "--cache", str(cache), "-q"]
    done = CliRunner().invoke(command.main, asked)
    assert done.exit_code == 0, done.output
    assert "without neighbours" in done.output
    assert "cosine alone, 200" in done.output


@NEEDS_EDGE
def test_rows_that_cannot_be_compared_are_refused(collection: Collection) -> None:
    evaluator = Evaluator(collection)
    for rows in ([AUTO_ROW, AUTO_ROW], [Row("other", AUTO)]):
        with pytest.raises(DataError, match="twice"):
            evaluator.table("parts", rows, lambda count: None)
    with pytest.raises(DataError, match="at most"):
        collection.pools(collections.DEEPEST + 1)


@NEEDS_EDGE
@pytest.mark.parametrize("joint", [False, True])
def test_measures_of_sets_are_those_of_dynamax(
    collection: Collection, encoder: WordEncoder, dataset: RetrievalDataset, joint: bool
) -> None:
    texts = {document.id: document.content for document in dataset.documents}
    case = collection.pools(20)[0]
    tokens = encoder.encode([texts[name] for name in case.candidates.ids]).tokens.stored("int8")
    expected = DynaMax("otsuka", "joint" if joint else "query").pool(case.query.require_tokens(), tokens)
    found = measured(SetMeasure("otsuka"), joint=joint)(case)
    np.testing.assert_allclose(np.corrcoef(found, expected)[0, 1], 1, atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_documents_keep_half_of_their_tokens(form: str) -> None:
    rng = np.random.default_rng(0)
    texts = [rng.normal(size=(n, 8)).astype(np.float32) for n in (0, 1, 2, 7, 30)]
    halved = reduced(TokenBatch.from_arrays(texts, 8), form)
    assert halved.lengths.tolist() == [0, 1, 1, 4, 15]


def test_unknown_forms_are_refused() -> None:
    with pytest.raises(DataError, match="longest half"):
        reduced(TokenBatch.from_arrays([], 8), "shortest")


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Dogs bark. Cats do.", "Dogs bark."),
        ("no end", "no end"),
        ("At 3.5 volts! Now", "At 3.5 volts!"),
        ("", ""),
    ],
)
def test_first_sentences_end_where_one_ends(text: str, first: str) -> None:
    assert first_sentence(text) == first


def test_a_question_is_never_in_its_own_ensemble(dataset: RetrievalDataset, folder: Path) -> None:
    asked = list(dataset.queries.values())
    even, odd = other_questions(dataset, str(folder), dataset.queries)
    assert not set(even) & set(asked[::2])
    assert not set(odd) & set(asked[1::2])
    few = dict(list(dataset.queries.items())[:4])
    left, _ = other_questions(dataset, str(folder), few)
    assert left == asked[4:]
