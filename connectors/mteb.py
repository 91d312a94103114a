"""mteb: our systems as search models, which also rank the given candidates of re-ranking tasks."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surprise_rerank import _border as border
from surprise_rerank._candidates import Ranking
from surprise_rerank._documents import Document
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant._manifest import Manifest
from surprise_rerank.connectors.systems._register import find_system
from surprise_rerank.core._extras import importing
from surprise_rerank.encoders._adapting import as_encoder
from surprise_rerank.encoders.base import Encoder, encode_queries

with importing("mteb"):
    # What writes queries out as all of its own models read them.
    from mteb._create_dataloaders import create_dataloader
    from mteb.models.model_meta import MODEL_TYPES, ModelMeta
    from mteb.types import PromptType

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.types import (
        CorpusDatasetType,
        QueryDatasetType,
        RetrievalOutputType,
        TopRankedDocumentsType,
    )


class SurpriseSearch:
    """A system on an index of every task's corpus: mteb's `SearchProtocol`.

    In re-ranking tasks the documents of `top_ranked` are ranked, with the vectors that are stored; else the
    pipeline searches, and answers with the documents of its pool.
    """

    def __init__(
        self,
        encoder: Encoder,
        system: str = "auto",  # what ranks; `surprise` measures against the corpus itself
        *,
        depth: int = 100,  # size of the candidate pool, and the most documents of a result
        options: IndexOptions | None = None,  # by default everything that the encoder has
        folder: Path | None = None,  # where the index of every task is kept, for the next run; else in memory
    ) -> None:
        self.encoder = as_encoder(encoder)
        self.system = border.text("system", system)
        self.depth = border.count("depth", depth)
        border.optional(border.instance, "options", options, IndexOptions)
        self.options = Manifest.of(self.encoder, options).options
        self.folder = folder
        written = json.dumps(asdict(self.options), sort_keys=True).encode()
        settings = {"depth": depth, "index": hashlib.sha256(written).hexdigest()[:8]}
        # What results are filed under.
        self.mteb_model_meta = _meta(system, encoder, find_system(system).kind, settings)
        self._index: DocumentIndex | None = None

    def index(
        self,
        corpus: CorpusDatasetType,
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        **unused: Any,
    ) -> None:
        """Index a corpus, rows of id, text and perhaps title, in place of the one before.

        The folder of the index, where there is one, has the names of the task, subset and split.
        """
        self.close()
        place: str | Path = ":memory:"
        if self.folder is not None:
            place = self.folder / re.sub(r"\W+", "-", f"{task_metadata.name}-{hf_subset}-{hf_split}")
        self._index = DocumentIndex.open(place, self.encoder, options=self.options)
        documents = (Document(row["id"], row["text"], row.get("title") or "") for row in corpus)
        self._index.sync(documents, prune=True, background=False)
        if self.system == "surprise":
            self._index.set_ensemble(self._index.ensemble(), source="the corpus")

    def search(
        self,
        queries: QueryDatasetType,
        *,
        task_metadata: TaskMetadata,
        top_k: int,
        top_ranked: TopRankedDocumentsType | None = None,
        **unused: Any,
    ) -> RetrievalOutputType:
        """Scores of the best documents: query's id -> document's id -> score; no more than `depth` come.

        `top_ranked` are the ids to rank of each query; those that are not there find nothing.
        """
        index = border.present("a corpus to search", self._index, "call index first, as mteb.evaluate does")
        loader = create_dataloader(queries, task_metadata=task_metadata, prompt_type=PromptType.query)
        texts = [text for batch in loader for text in batch["text"]]
        questions = encode_queries(self.encoder, texts, list(queries["id"]))
        if top_ranked is None:
            pipeline, most = index.pipeline(self.system, depth=self.depth), min(top_k, self.depth)
            answers = {query.id: pipeline.answer(query, most, texts=False) for query in questions}
            return {name: _scores(answer.shown) for name, answer in answers.items()}
        reranker = index.text_reranker(self.system)
        assert reranker.stored is not None  # as it is of an index
        results: RetrievalOutputType = {}
        for query in questions:
            ids = list(dict.fromkeys(top_ranked.get(query.id, ())))
            pool = reranker.stored.candidates(query, ids, reranker.reranker.needs)
            results[query.id] = _scores(reranker.reranker.rerank(query, pool).top(top_k))
        return results

    def close(self) -> None:
        """Let go of the index."""
        if self._index is not None:
            self._index.close()
            self._index = None


def _scores(ranking: Ranking) -> dict[str, float]:
    return dict(zip(ranking.ids, ranking.scores.tolist(), strict=True))


def _meta(system: str, encoder: Encoder, kind: MODEL_TYPES, settings: Mapping[str, Any]) -> ModelMeta:
    """What mteb files results under; the fingerprint distinguishes models of one name."""
    names = (
        *("loader", "release_date", "languages", "n_parameters", "memory_usage_mb", "license"),
        *("open_weights", "public_training_code", "public_training_data", "similarity_fn_name"),
        *("use_instructions", "training_datasets"),
    )
    unknown: dict[str, Any] = dict.fromkeys(names)
    return ModelMeta(
        name=f"surprise-rerank/{system}-{Path(encoder.name).name}",
        revision=encoder.fingerprint,
        max_tokens=encoder.window,
        embed_dim=encoder.dimension,
        framework=[],
        adapted_from=encoder.name,
        model_type=[kind],
        experiment_kwargs=settings or None,
        **unknown,
    )
