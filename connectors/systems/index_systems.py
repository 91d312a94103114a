"""The systems of an index, built from what it stores; `register.py` names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from surprise_rerank.candidates import Candidates, Field
from surprise_rerank.connectors.qdrant.index import QdrantIndex
from surprise_rerank.connectors.qdrant.retrievers.dense import (
    DenseRetriever,
    MaxSimRetriever,
    SurpriseMode,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant.retrievers.hybrid import HybridRetriever, LexicallyScored
from surprise_rerank.connectors.qdrant.retrievers.inclusion import InclusionScored, QdrantInclusion
from surprise_rerank.connectors.qdrant.retrievers.sparse import SparseRetriever
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.connectors.systems.built import (
    AUTO_SAMPLE_SIZE,
    SAMPLE_SIZE,
    BuiltSystem,
    Mode,
    SystemInputs,
    TokenMode,
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
from surprise_rerank.rerank.rerankers import (
    CosineReranker,
    DynaMaxReranker,
    FusionReranker,
    StoredInclusionReranker,
    SurpriseReranker,
)
from surprise_rerank.rerank.scorers import (
    CosineScorer,
    DynaMaxScorer,
    RetrievedScorer,
    Scorer,
    StoredInclusionScorer,
)
from surprise_rerank.rerank.weight_fitting import Weighted
from surprise_rerank.surprise.ensemble import Ensemble

_FEWEST = 32  # documents of the sample, where each has many passages


def default_system(index: QdrantIndex) -> str:
    """The best system that an index stores what is needed for; `auto` needs token vectors or words."""
    options = index.manifest.options
    return "auto" if options.stores_tokens or options.bm25 is not None else "cosine"


def token_mode(index: QdrantIndex, asked: Mode | None = None) -> TokenMode | None:
    """Where tokens are compared; None where the index stores none, and nothing is asked for.

    Where both packed tokens and multivectors are stored it is the faster place: Qdrant's MaxSim on a server,
    whose packed tokens would travel, and here where they are at hand (docs/qdrant.md has the figures).

    Args:
        index: that is searched.
        asked: which is wanted; the only one that there is, or the faster one where None.

    Raises:
        DataError: if the index does not store what is asked for.
    """
    options = index.manifest.options
    there: dict[TokenMode, bool] = {
        "client": options.packed_tokens,
        "maxsim": options.token_vectors is not None,
    }
    if asked is None:
        able = [mode for mode, is_there in there.items() if is_there]
        return able[-1 if index.engine == "server" else 0] if able else None
    if asked == "maxsim" and not there["maxsim"]:
        raise _lacking(index, "multivectors, which the mode 'maxsim' compares", "--tokens uint8")
    if asked == "client" and not there["client"]:
        raise _lacking(index, "packed token vectors, which the mode 'client' compares", "--packed-tokens")
    return "maxsim" if asked == "maxsim" else "client"


def build_system(
    name: str,
    index: QdrantIndex,
    options: SearchOptions = NO_OPTIONS,
    mode: Mode | None = None,
    *,
    fitted: bool = True,
) -> BuiltSystem:
    """A system on an index, with the weights that were fitted for it, if any were.

    Args:
        name: which one.
        index: that is searched.
        options: filter and search parameters.
        mode: where scores are computed, of the system's `modes`; the usual place where None.
        fitted: False leaves fitted weights out.

    Raises:
        DataError: if there is no such system, the index lacks what it needs, or fitted weights are damaged.
        IndexMismatchError: if surprise is asked for and documents carry no moments, or others; if weights
            were fitted with another model.
    """
    system = find_system(name)
    system.require_mode(mode)
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
    mode = cast(SurpriseMode, inputs.mode or "formula")
    return BuiltSystem("surprise", SurpriseRetriever(index, mode, options=inputs.options))


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
    """Cosine's pool by DynaMax inclusion: here, or by Qdrant's MaxSim."""
    mode = token_mode(inputs.index, inputs.mode)
    if mode is None:
        raise _lacking(inputs.index, "packed token vectors, which dynamax compares", "--packed-tokens")
    if mode == "client":
        reranking = "client: dynamax of the token vectors of all of these"
        return BuiltSystem("dynamax", _dense(inputs), DynaMaxReranker(), reranking)
    scored = InclusionScored(_dense(inputs), QdrantInclusion.of(inputs.index, 0, weighs=False))
    return BuiltSystem("dynamax", scored, StoredInclusionReranker())


def fusion(inputs: SystemInputs) -> BuiltSystem:
    """Cosine, DynaMax and BM25 on one scale, over the pools of cosine and BM25, as far as they are stored.

    Raises:
        DataError: if the index stores neither token vectors nor words.
    """
    mode = token_mode(inputs.index, inputs.mode)
    if mode is None and not _has_words(inputs.index):
        raise _lacking(inputs.index, "packed token vectors, which a fusion compares", "--packed-tokens")
    sample = _sampled(inputs.index, SAMPLE_SIZE, frozenset({"dense"}), tokens=mode == "client")
    inclusion = QdrantInclusion.of(inputs.index, SAMPLE_SIZE, weighs=False) if mode == "maxsim" else None
    # By Qdrant's MaxSim nothing but scores travels: neither tokens nor dense vectors.
    only_scores = inclusion is not None and inputs.first_stage is None
    scorers: list[Scorer] = [CosineScorer(sample.corpus, retrieved=only_scores)]
    if sample.tokens is not None:
        scorers.append(DynaMaxScorer(sample.tokens))
    elif inclusion is not None:
        scorers.append(StoredInclusionScorer())
    weights = {}
    if _has_words(inputs.index):
        scorers.insert(0, RetrievedScorer("bm25"))
        weights["bm25"] = BM25_WEIGHT
    terms = " + ".join(f"{weights[s.name]:g} {s.name}" if s.name in weights else s.name for s in scorers)
    reranking = f"client: {terms}, each in deviations above its mean over {_measured(inputs, sample)}"
    reranker = FusionReranker(scorers, "surprise", weights)
    retriever = _hybrid(inputs, inclusion, cosines=only_scores)
    return BuiltSystem("fusion", retriever, reranker, reranking, _without(inputs))


def auto(inputs: SystemInputs, settings: AutoSettings = AUTO_DEFAULTS) -> BuiltSystem:
    """The default: see `rerank/auto.py`.

    Args:
        inputs: what it is made of.
        settings: its numbers; others than the usual ones for studies.
    """
    has_words, mode = _has_words(inputs.index), token_mode(inputs.index, inputs.mode)
    fields: frozenset[Field] = frozenset({"dense", "terms"} if has_words else {"dense"})
    sample = _sampled(inputs.index, AUTO_SAMPLE_SIZE, fields, tokens=mode == "client")
    inclusion = None
    if mode == "maxsim":
        inclusion = QdrantInclusion.of(inputs.index, AUTO_SAMPLE_SIZE, weighs=settings.rarity)
    reranker = AutoReranker(
        sample.corpus, sample.tokens, sample.words, settings, stored_inclusion=inclusion is not None
    )
    words = f"{settings.bm25:g} bm25 + " if has_words else ""
    tokens = "" if mode is None else " + dynamax"
    reranking = (
        f"client: {words}cosine{tokens}, each in deviations above its mean over "
        f"{_measured(inputs, sample)}; feedback from the best, "
        f"and from the {settings.nearest} nearest of each candidate"
    )
    return BuiltSystem("auto", _hybrid(inputs, inclusion), reranker, reranking, _without(inputs))


def _dense(inputs: SystemInputs) -> Retriever:
    return inputs.first_stage or DenseRetriever(inputs.index, options=inputs.options)


def _has_words(index: QdrantIndex) -> bool:
    """Whether BM25 can be asked: questions become terms in Edge's code, wherever the index is."""
    return index.manifest.options.bm25 is not None and is_installed("qdrant_edge")


def _without(inputs: SystemInputs) -> str:
    """Which parts are left out, and why."""
    there = {
        "words: the index stores no sparse vectors": _has_words(inputs.index),
        "tokens: the index stores no token vectors": inputs.index.manifest.options.stores_tokens,
    }
    return "; ".join(f"without {part}" for part, is_there in there.items() if not is_there)


def _measured(inputs: SystemInputs, sample: _Sample) -> str:
    own = " (bm25: all)" if _has_words(inputs.index) else ""
    return f"{len(sample.ids)} sampled documents{own}"


def _hybrid(inputs: SystemInputs, inclusion: QdrantInclusion | None, *, cosines: bool = False) -> Retriever:
    """Candidates by cosine and, where it can be asked, by BM25; or the given ones with BM25's scores."""
    found = _dense(inputs)
    if _has_words(inputs.index):
        words = SparseRetriever(inputs.index, inputs.options)
        if inputs.first_stage is None:
            return HybridRetriever(
                inputs.index, words, options=inputs.options, inclusion=inclusion, cosines=cosines
            )
        found = LexicallyScored(inputs.first_stage, words)
    return found if inclusion is None else InclusionScored(found, inclusion)


@dataclass(frozen=True, slots=True)
class _Sample:
    """What stands for the corpus.

    Attributes:
        ids: of documents.
        tokens: their token vectors, of some passages only where documents have many; None where none are
            compared here.
        corpus: the ensemble of the first ones: all would be read for every start.
        words: the terms of the same, where they were asked for.
    """

    ids: tuple[str, ...]
    tokens: TokenBatch | None
    corpus: Ensemble
    words: TermSpace | None


def _sampled(index: QdrantIndex, size: int, fields: frozenset[Field], *, tokens: bool) -> _Sample:
    ids, own = index.sample_ids(size), index.token_sample(size)[1] if tokens else None
    found = sampled(index, ids, size, fields)
    corpus = Ensemble.from_vectors(found.require_dense(), sample_size=0, model=index.manifest.model)
    return _Sample(ids, own, corpus, None if found.terms is None else TermSpace(found.terms))


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
