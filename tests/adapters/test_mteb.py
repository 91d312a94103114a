"""Our systems in mteb's own tasks and evaluators, over a handful of documents in memory."""

from pathlib import Path
from typing import Any

import pytest
from helpers.words import WordEncoder

pytest.importorskip("mteb")

import mteb
from datasets import Dataset
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.models.model_meta import ModelMeta
from mteb.models.models_protocols import CrossEncoderProtocol, EncoderProtocol, SearchProtocol

from surprise_rerank import FunctionEncoder
from surprise_rerank.connectors.mteb import SurpriseSearch
from surprise_rerank.connectors.qdrant import IndexOptions

CORPUS = [
    {"id": "cats", "title": "Cats", "text": "sleep all day"},
    {"id": "dogs", "title": "Dogs", "text": "bark at night"},
    {"id": "wings", "title": "", "text": "a wing gives lift"},
    {"id": "rain", "title": "", "text": "rain falls in autumn"},
]
QUERIES = [{"id": "q1", "text": "dogs bark at"}, {"id": "q2", "text": "wing lift"}]
RELEVANT = {"q1": {"dogs": 1}, "q2": {"wings": 1}}
TOP_RANKED = {"q1": ["cats", "rain", "dogs"], "q2": ["rain", "wings"]}


class HandfulRetrieval(AbsTaskRetrieval):
    metadata = mteb.TaskMetadata(
        name="HandfulRetrieval",
        description="Four documents, two questions.",
        reference="https://example.org",
        dataset={"path": "none", "revision": "0"},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
        date=("2026-01-01", "2026-01-01"),
        domains=["Written"],
        task_subtypes=[],
        license="cc0-1.0",
        annotations_creators="human-annotated",
        dialect=[],
        sample_creation="created",
        bibtex_citation="",
    )

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        self.dataset = {"default": {"test": split(None)}}
        self.data_loaded = True


class HandfulReranking(HandfulRetrieval):
    metadata = HandfulRetrieval.metadata.model_copy(update={"name": "HandfulReranking", "type": "Reranking"})

    def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
        self.dataset = {"default": {"test": split(TOP_RANKED)}}
        self.data_loaded = True


def split(top_ranked: dict[str, list[str]] | None) -> RetrievalSplitData:
    relevant = {name: dict(judged) for name, judged in RELEVANT.items()}
    corpus, queries = Dataset.from_list(CORPUS), Dataset.from_list(QUERIES)
    return RetrievalSplitData(corpus=corpus, queries=queries, relevant_docs=relevant, top_ranked=top_ranked)


def ndcg(model: Any, task: AbsTaskRetrieval, folder: Path | None = None) -> float:
    """What mteb says of a model on a task, from its own predictions to its own measure."""
    cache = None if folder is None else mteb.ResultCache(cache_path=folder)
    done = mteb.evaluate(model, task, cache=cache, show_progress_bar=False, co2_tracker=False)
    return done.task_results[0].scores["test"][0]["ndcg_at_10"]


def arguments(task: type[AbsTaskRetrieval] = HandfulRetrieval) -> dict[str, Any]:
    where = {"task_metadata": task.metadata, "hf_split": "test", "hf_subset": "default"}
    return {**where, "encode_kwargs": {}, "num_proc": None}


@pytest.mark.parametrize("system", ["cosine", "dynamax", "fusion", "surprise"])
def test_every_system_can_be_evaluated(system):
    model = SurpriseSearch(WordEncoder(64), system)
    assert isinstance(model, SearchProtocol)
    assert not isinstance(model, EncoderProtocol | CrossEncoderProtocol)
    assert ndcg(model, HandfulRetrieval()) == 1.0
    assert ndcg(model, HandfulReranking()) == 1.0
    model.close()


def test_an_encoder_without_token_vectors_is_evaluated_without_them():
    encoder = FunctionEncoder(lambda texts: WordEncoder(64).encode(texts).dense, name="words")
    model = SurpriseSearch(encoder)
    assert not model.options.tokens
    assert ndcg(model, HandfulRetrieval()) == 1.0
    model.close()


def test_a_search_answers_with_the_scores_of_its_pool():
    model = SurpriseSearch(WordEncoder(64), "dynamax", depth=3)
    model.index(Dataset.from_list(CORPUS), **arguments())
    queries = Dataset.from_list([*QUERIES, {"id": "q3", "text": ""}])
    results = model.search(queries, top_k=1000, **arguments())
    assert list(results) == ["q1", "q2", "q3"]
    assert {len(scores) for scores in results.values()} == {3}
    assert max(results["q1"], key=results["q1"].__getitem__) == "dogs"
    assert results["q1"]["dogs"] == pytest.approx(1.0, abs=0.01)
    assert {len(s) for s in model.search(queries, top_k=2, **arguments()).values()} == {2}


def test_of_given_documents_only_these_are_ranked_without_encoding_them_again():
    encoder = WordEncoder(64)
    model = SurpriseSearch(encoder, "dynamax")
    model.index(Dataset.from_list(CORPUS), **arguments())
    encoder.encoded_texts.clear()
    top_ranked = {"q1": ["cats", "dogs", "dogs"], "q3": ["rain"]}
    results = model.search(Dataset.from_list(QUERIES), top_k=10, top_ranked=top_ranked, **arguments())
    assert set(results["q1"]) == {"cats", "dogs"}
    assert results["q2"] == {}
    assert encoder.encoded_texts == ["dogs bark at", "wing lift"]


def test_queries_are_written_out_as_mteb_does():
    encoder = WordEncoder(64)
    model = SurpriseSearch(encoder, "dynamax")
    model.index(Dataset.from_list([{"id": "a", "title": None, "text": "b"}]), **arguments())
    encoder.encoded_texts.clear()
    instructed = Dataset.from_list([{"id": "1", "text": "why", "instruction": "Answer."}])
    model.search(instructed, top_k=1, **arguments())
    assert encoder.encoded_texts == ["why Answer."]


def test_what_differs_is_filed_apart(tmp_path):
    encoder = WordEncoder(64, name="org/words", fingerprint="beef")
    models = [
        SurpriseSearch(encoder, "dynamax"),
        SurpriseSearch(encoder, "cosine"),
        SurpriseSearch(encoder, "dynamax", depth=3),
        SurpriseSearch(encoder, "dynamax", options=IndexOptions(passages=None)),
        SurpriseSearch(WordEncoder(64, name="org/words", fingerprint="cafe"), "dynamax"),
    ]
    for model in models:
        meta = model.mteb_model_meta
        assert isinstance(meta, ModelMeta)
        assert ModelMeta.model_validate(meta.model_dump()) == meta
        assert meta.to_dict()["embed_dim"] == 64
        assert ndcg(model, HandfulReranking(), tmp_path) == 1.0
    assert models[0].mteb_model_meta.name == "surprise-rerank/dynamax-words"
    assert models[0].mteb_model_meta.revision == "beef"
    assert len(list(tmp_path.rglob("HandfulReranking.json"))) == len(models)
    same = SurpriseSearch(encoder, "dynamax", options=IndexOptions()).mteb_model_meta
    assert same == models[0].mteb_model_meta
