"""The systems of an index, built from what it stores; `register.py` names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from surprise_rerank.candidates import Candidates, Field
from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.retrievers.dense import (
    DenseRetriever,
    MaxSimRetriever,
    SurpriseMode,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant.retrievers.hybrid import HybridRetriever, LexicallyScored
from surprise_rerank.connectors.qdrant.retrievers.sparse import SparseRetriever
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.connectors.systems.built import (
    AUTO_SAMPLE_SIZE,
    SAMPLE_SIZE,
    BuiltSystem,
    SystemInputs,
)
from surprise_rerank.connectors.systems.fitted_weights import load_weights
from surprise_rerank.connectors.systems.register import find_system
from surprise_rerank.core.extras import is_installed
from surprise_rerank.core.terms import TermSpace
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Retriever
from surprise_rerank.rerank.auto import AUTO_DEFAULTS, PARTS, AutoReranker, AutoSettings
from surprise_rerank.rerank.fusion import BM25_WEIGHT
from surprise_rerank.rerank.rerankers import CosineReranker, DynaMaxReranker, FusionReranker, SurpriseReranker
from surprise_rerank.rerank.scorers import CosineScorer, DynaMaxScorer, RetrievedScorer, Scorer
from surprise_rerank.rerank.weight_fitting import Weighted
from surprise_rerank.surprise.ensemble import Ensemble

_FEWEST = 32  # documents of the sample, where each has many passages


def default_system(index: QdrantIndex) -> str:
    """The best system that an index stores what is needed for; `auto` needs token vectors or words."""
    options = index.manifest.options
    if options.packed_tokens:
        return "auto"
    if options.token_vectors is not None:
        return "maxsim"
    return "auto" if options.bm25 is not None else "cosine"


def build_system(
    name: str,
    index: QdrantIndex,
    options: SearchOptions = NO_OPTIONS,
    mode: SurpriseMode | None = None,
    *,
    fitted: bool = True,
) -> BuiltSystem:
    """A system on an index, with the weights that were fitted for it, if any were.

    Args:
        name: which one.
        index: that is searched.
        options: filter and search parameters.
        mode: where surprise is computed; for the system `surprise` only.
        fitted: False leaves fitted weights out.

    Raises:
        DataError: if there is no such system, the index lacks what it needs, or fitted weights are damaged.
        IndexMismatchError: if surprise is asked for and documents carry no moments, or others; if weights
            were fitted with another model.
    """
    system = find_system(name)
    if mode is not None and name != "surprise":
        raise DataError(
            f"mode {mode!r} is where surprise is computed; it goes with the system 'surprise', not {name!r}"
        )
    not_here = sorted(system.needs & {"lucene", "judgements"})
    if not_here:
        raise DataError(
            f"the system {name!r} needs {' and '.join(not_here)}, which only an evaluation has; "
            "compare it with rerank-eval"
        )
    built = system.built(SystemInputs(index=index, options=options, mode=mode))
    weights = load_weights(index, name) if fitted and system.fits else None
    if weights is None or not isinstance(built.reranker, Weighted):
        return built
    if name == "auto" and not set(weights) <= set(PARTS):
        # They are factors of parts that it had before: with the parts of now nobody has tried them.
        stale = "its fitted weights are of an earlier form and are left out; fit them again"
        return replace(built, reranking=f"{built.reranking}; {stale}")
    # A fusion has no weight for BM25 where it cannot be asked, and weights of such a fusion have none.
    known = {part: own for part, own in weights.items() if name == "auto" or part in built.scorers}
    reranker = built.reranker.weighted({**built.reranker.weights, **known})
    return replace(
        built, reranker=reranker, reranking=f"{built.reranking}; weights fitted on judged questions"
    )


def cosine(inputs: SystemInputs) -> BuiltSystem:
    """Cosine's own order, or a given pool in the order of its cosines."""
    if inputs.first_stage is not None:
        return BuiltSystem("cosine", inputs.first_stage, CosineReranker())
    return BuiltSystem("cosine", _dense(inputs))


def surprise(inputs: SystemInputs) -> BuiltSystem:
    """Cosine's pool by z over the ensemble: inside Qdrant where documents carry their moments, else here."""
    if inputs.ensemble is not None:
        return BuiltSystem("surprise", _dense(inputs), SurpriseReranker(inputs.ensemble, weight=1.0))
    index = inputs.index
    if index.manifest.statistics is None:
        raise DataError(
            f"{index.where} has no ensemble, which surprise is measured against; give it one with "
            "'surprise-rerank ensemble set'"
        )
    if inputs.mode == "vector" and not index.manifest.options.surprise_vector:
        raise _lacking(index, "augmented vectors, which the mode 'vector' searches", "--surprise-vector")
    return BuiltSystem("surprise", SurpriseRetriever(index, inputs.mode or "formula", options=inputs.options))


def maxsim(inputs: SystemInputs) -> BuiltSystem:
    """Cosine's pool by MaxSim of multivectors, inside Qdrant."""
    if inputs.index.manifest.options.token_vectors is None:
        raise _lacking(inputs.index, "multivectors, which maxsim compares", "--tokens float16")
    return BuiltSystem("maxsim", MaxSimRetriever(inputs.index, options=inputs.options))


def bm25(inputs: SystemInputs) -> BuiltSystem:
    """Qdrant's BM25 in its own order, or a given pool in the order of its BM25 scores."""
    if inputs.index.manifest.options.bm25 is None:
        raise _lacking(inputs.index, "sparse vectors, which bm25 reads", "--bm25")
    words = SparseRetriever(inputs.index, inputs.options)
    if inputs.first_stage is None:
        return BuiltSystem("bm25", words)
    scored = LexicallyScored(inputs.first_stage, words)
    return BuiltSystem("bm25", scored, FusionReranker([RetrievedScorer("bm25")], "sum"))


def dynamax(inputs: SystemInputs) -> BuiltSystem:
    """Cosine's pool by DynaMax inclusion."""
    if not inputs.index.manifest.options.packed_tokens:
        raise _lacking(inputs.index, "packed token vectors, which dynamax compares", "--packed-tokens")
    reranking = "client: dynamax of the token vectors of all of these"
    return BuiltSystem("dynamax", _dense(inputs), DynaMaxReranker(), reranking)


def fusion(inputs: SystemInputs) -> BuiltSystem:
    """Cosine, DynaMax and BM25 on one scale, over the pools of cosine and BM25, as far as they are stored.

    Raises:
        DataError: if the index stores neither token vectors nor words.
    """
    if not inputs.index.manifest.options.packed_tokens and not _has_words(inputs.index):
        raise _lacking(inputs.index, "packed token vectors, which a fusion compares", "--packed-tokens")
    sample = _sampled(inputs.index, SAMPLE_SIZE, frozenset({"dense"}))
    scorers: list[Scorer] = [CosineScorer(sample.corpus)]
    if sample.tokens is not None:
        scorers.append(DynaMaxScorer(sample.tokens))
    weights = {}
    if _has_words(inputs.index):
        scorers.insert(0, RetrievedScorer("bm25"))
        weights["bm25"] = BM25_WEIGHT
    terms = " + ".join(f"{weights[s.name]:g} {s.name}" if s.name in weights else s.name for s in scorers)
    reranking = f"client: {terms}, each in deviations above its mean over {_measured(inputs, sample)}"
    reranker = FusionReranker(scorers, "surprise", weights)
    return BuiltSystem("fusion", _hybrid(inputs), reranker, reranking, _without(inputs))


def auto(inputs: SystemInputs, settings: AutoSettings = AUTO_DEFAULTS) -> BuiltSystem:
    """The default: see `rerank/auto.py`.

    Args:
        inputs: what it is made of.
        settings: its numbers; others than the usual ones for studies.
    """
    has_words = _has_words(inputs.index)
    fields: frozenset[Field] = frozenset({"dense", "terms"} if has_words else {"dense"})
    sample = _sampled(inputs.index, AUTO_SAMPLE_SIZE, fields)
    reranker = AutoReranker(sample.corpus, sample.tokens, sample.words, settings)
    words = f"{settings.bm25:g} bm25 + " if has_words else ""
    tokens = "" if sample.tokens is None else " + dynamax"
    reranking = (
        f"client: {words}cosine{tokens}, each in deviations above its mean over "
        f"{_measured(inputs, sample)}; feedback from the best, "
        f"and from the {settings.nearest} nearest of each candidate"
    )
    return BuiltSystem("auto", _hybrid(inputs), reranker, reranking, _without(inputs))


def _dense(inputs: SystemInputs) -> Retriever:
    return inputs.first_stage or DenseRetriever(inputs.index, options=inputs.options)


def _has_words(index: QdrantIndex) -> bool:
    """Whether BM25 can be asked: questions become terms in Edge's code, wherever the index is."""
    return index.manifest.options.bm25 is not None and is_installed("qdrant_edge")


def _without(inputs: SystemInputs) -> str:
    """Which parts are left out, and why."""
    there = {
        "words: the index stores no sparse vectors": _has_words(inputs.index),
        "tokens: the index stores no packed token vectors": inputs.index.manifest.options.packed_tokens,
    }
    return "; ".join(f"without {part}" for part, is_there in there.items() if not is_there)


def _measured(inputs: SystemInputs, sample: _Sample) -> str:
    own = " (bm25: all)" if _has_words(inputs.index) else ""
    return f"{len(sample.ids)} sampled documents{own}"


def _hybrid(inputs: SystemInputs) -> Retriever:
    """Candidates by cosine and, where it can be asked, by BM25; or the given ones with BM25's scores."""
    if not _has_words(inputs.index):
        return _dense(inputs)
    words = SparseRetriever(inputs.index, inputs.options)
    if inputs.first_stage is not None:
        return LexicallyScored(inputs.first_stage, words)
    return HybridRetriever(inputs.index, words, options=inputs.options)


@dataclass(frozen=True, slots=True)
class _Sample:
    """What stands for the corpus.

    Attributes:
        ids: of documents.
        tokens: their token vectors, of some passages only where documents have many; None without any.
        corpus: the ensemble of the first ones: all would be read for every start.
        words: the terms of the same, where they were asked for.
    """

    ids: tuple[str, ...]
    tokens: TokenBatch | None
    corpus: Ensemble
    words: TermSpace | None


def _sampled(index: QdrantIndex, size: int, fields: frozenset[Field]) -> _Sample:
    ids, tokens = index.sample_ids(size), None
    if index.manifest.options.packed_tokens:
        tokens = index.token_sample(size)[1]
    found = sampled(index, ids, size, fields)
    corpus = Ensemble.from_vectors(found.require_dense(), sample_size=0, model=index.manifest.model)
    return _Sample(ids, tokens, corpus, None if found.terms is None else TermSpace(found.terms))


def sampled(index: QdrantIndex, ids: Sequence[str], size: int, fields: frozenset[Field]) -> Candidates:
    """The first of a sample's documents: all of them would be read for every start.

    Documents of many passages count as many times, so fewer of them are read.
    """
    most = max(_FEWEST, round(size / index.pools.density))
    return index.fetch(ids[:most], fields)


def _lacking(index: QdrantIndex, what: str, option: str) -> DataError:
    return DataError(
        f"{index.where} stores no {what}; choose another system, or make the index again with "
        f"'surprise-rerank index --rebuild {option}'"
    )
