"""The systems, built from what a collection has; `register.py` names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeGuard

from surprise_rerank import border
from surprise_rerank.connectors.qdrant.retrievers import (
    HybridRetriever,
    InclusionScored,
    LexicallyScored,
    SurpriseMode,
    SurpriseRetriever,
)
from surprise_rerank.connectors.qdrant.search.queries import NO_OPTIONS, SearchOptions, TokenSample
from surprise_rerank.connectors.qdrant.search.searched import Searched
from surprise_rerank.connectors.systems.fitted_weights import load_weights
from surprise_rerank.connectors.systems.inputs import BuiltSystem, SystemInputs
from surprise_rerank.connectors.systems.register import all_systems, find_system
from surprise_rerank.core.arrays import is_linear
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.errors import DataError
from surprise_rerank.pipeline import Retriever
from surprise_rerank.rerank.auto import AUTO_DEFAULTS, PARTS, AutoReranker, AutoSettings
from surprise_rerank.rerank.cross_encoder import CrossEncoderScorer
from surprise_rerank.rerank.fusion import BM25_WEIGHT
from surprise_rerank.rerank.rerankers import (
    CosineReranker,
    DynaMaxReranker,
    FusionReranker,
    Reranker,
    SurpriseReranker,
)
from surprise_rerank.rerank.scorers import CosineScorer, DynaMaxScorer, RetrievedScorer, Scorer
from surprise_rerank.rerank.weight_fitting import Weighted


def build_system(
    name: str,
    index: Searched,
    options: SearchOptions = NO_OPTIONS,
    mode: SurpriseMode | None = None,
    *,
    fitted: bool = True,
    of_texts: bool = False,
) -> BuiltSystem:
    """A system on a collection; see `SystemInputs` for index, options, mode and of_texts.

    The weights that were fitted for it, if any were, are its own unless `fitted` is False.

    Raises:
        DataError: if there is no such system, what it needs is not there, or fitted weights are damaged.
        IndexMismatchError: if documents carry no moments, or others, or weights are of another model.
    """
    system = find_system(name)
    system.require_mode(mode)
    not_here = sorted(system.needs & {"lucene", "judgements"})
    if not_here:
        raise DataError(
            f"the system {name!r} needs {' and '.join(not_here)}, which only an evaluation has; "
            "compare it with rerank-eval"
        )
    if "dense" in system.needs and not index.has_dense:
        raise DataError(
            f"{index.where} has no dense vectors, which {name} reads; choose one of "
            f"{', '.join(possible_systems(index))}"
        )
    built = system.built(SystemInputs(index=index, options=options, mode=mode, of_texts=of_texts))
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


def with_scorers(
    built: BuiltSystem, scorers: Sequence[object], weights: Mapping[str, float] = MappingProxyType({})
) -> BuiltSystem:
    """The same with further scorers in its sum, and with these weights by part in place of its own.

    A scorer is a `Scorer`, or what `CrossEncoderScorer` takes.

    Raises:
        DataError: if the system has one score, two scorers have one name, or a weight is for none.
    """
    scorers = list(border.instances("scorers", scorers, object))
    weights = border.mapping("weights", weights, border.number)
    if not scorers and not weights:
        return built
    own = built.reranker
    if not isinstance(own, AutoReranker | FusionReranker):
        raise DataError(
            f"scorers= and weights= are for systems that add scores on one scale, such as auto and fusion; "
            f"{built.name!r} has one score"
        )
    more = [scorer if _is_scorer(scorer) else CrossEncoderScorer(scorer) for scorer in scorers]
    factors = {**own.weights, **weights}
    if isinstance(own, AutoReranker):
        reranker: Reranker = replace(own, more=(*own.more, *more), weights=factors)
    else:
        reranker = replace(own, scorers=[*own.scorers, *more], weights=factors)
    names = ", ".join(scorer.name for scorer in more)
    said = f"; with {names} in deviations above the mean" if names else ""
    return replace(built, reranker=reranker, reranking=f"{built.reranking}{said}")


def _is_scorer(given: object) -> TypeGuard[Scorer]:
    has_all = all(hasattr(given, name) for name in ("scores", "moments", "needs"))
    return has_all and not isinstance(given, type)


def possible_systems(index: Searched) -> list[str]:
    """The systems that a collection has enough for, its default first."""
    lacks = {"lucene", "judgements"}
    own = index.storage
    lacks |= {"ensemble"} if own is not None and own.manifest.statistics is None else set()
    lacks |= set() if index.has_dense else {"dense"}
    lacks |= {"sparse"} if index.words is None else set()
    lacks |= set() if index.has_tokens else {"tokens"}
    able = {name for name, system in all_systems().items() if not system.needs & lacks}
    able -= set() if is_linear(index.similarity) else {"auto"}
    return list(dict.fromkeys((index.default_system, *(name for name in all_systems() if name in able))))


def cosine(inputs: SystemInputs) -> BuiltSystem:
    """Cosine's own order, or given ones in the order of their cosines."""
    is_own = inputs.first_stage is None and not inputs.of_texts
    return BuiltSystem("cosine", inputs.dense, None if is_own else CosineReranker(inputs.index.similarity))


def surprise(inputs: SystemInputs) -> BuiltSystem:
    """Cosine's pool by z over the ensemble: inside Qdrant where documents carry their moments, else here."""
    own = inputs.index
    if inputs.ensemble is not None:
        return BuiltSystem("surprise", inputs.dense, SurpriseReranker(inputs.ensemble, weight=1.0))
    if own.storage is not None and not inputs.of_texts:
        retriever = SurpriseRetriever(own, inputs.mode or "formula", options=inputs.options)
        return BuiltSystem("surprise", retriever)
    if inputs.mode is not None:
        raise DataError(
            f"{own.where} is asked for surprise in the mode {inputs.mode!r}, which needs an index of "
            "surprise-rerank; leave mode= out"
        )
    reranker = own.surprise_reranker()
    reranking = f"client: z over an ensemble of {reranker.ensemble.count} members"
    return BuiltSystem("surprise", inputs.dense, reranker, reranking)


def bm25(inputs: SystemInputs) -> BuiltSystem:
    """The words' own order, or a given pool in the order of its BM25 scores."""
    words = inputs.words
    if words is None:
        raise _lacking(inputs, "words", "bm25 reads")
    if inputs.first_stage is None:
        return BuiltSystem("bm25", words)
    scored = LexicallyScored(inputs.first_stage, words)
    return BuiltSystem("bm25", scored, FusionReranker([RetrievedScorer("bm25")], "sum"))


def dynamax(inputs: SystemInputs) -> BuiltSystem:
    """Cosine's pool by DynaMax inclusion of the query's tokens, which is Qdrant's MaxSim."""
    if not (inputs.index.has_tokens or inputs.of_texts):
        raise _lacking(inputs, "token vectors", "dynamax compares")
    if inputs.compares_here:
        return BuiltSystem("dynamax", inputs.dense, DynaMaxReranker())
    nothing = TokenSample(TokenBatch.from_arrays([]))
    scored = InclusionScored(inputs.dense, inputs.index, nothing)
    return BuiltSystem("dynamax", scored, DynaMaxReranker(retrieved=True))


def _lacking(inputs: SystemInputs, what: str, why: str) -> DataError:
    own = inputs.index
    return DataError(f"{own.where} has no {what}, which {why}; choose another system, or {own.remedy(what)}")


def fusion(inputs: SystemInputs) -> BuiltSystem:
    """Cosine, DynaMax and BM25 on one scale, over the pools of cosine and BM25, as far as they are stored."""
    words, tokens = inputs.words, inputs.token_sample()
    # Nothing but scores travels: neither tokens nor dense vectors.
    only_scores, scorers, size = _is_asked_together(inputs), list[Scorer](), 0
    if inputs.index.has_dense:
        sample = inputs.sample()
        scorers.append(CosineScorer(sample.corpus, retrieved=only_scores))
        size = sample.size
    if tokens is not None:
        size = size or len(tokens.tokens)
        scorers.append(DynaMaxScorer(tokens.tokens, retrieved=not inputs.compares_here))
    weights = {}
    if words is not None:
        scorers.insert(0, RetrievedScorer("bm25"))
        weights["bm25"] = BM25_WEIGHT
    terms = " + ".join(f"{weights[s.name]:g} {s.name}" if s.name in weights else s.name for s in scorers)
    measured = _measured(size, all_words=words is not None)
    reranking = f"client: {terms}, each in deviations above its mean over {measured}"
    reranker = FusionReranker(scorers, "surprise", weights)
    retriever = _hybrid(inputs, tokens, cosines=only_scores)
    return BuiltSystem("fusion", retriever, reranker, reranking, inputs.lacks)


def auto(inputs: SystemInputs, settings: AutoSettings = AUTO_DEFAULTS) -> BuiltSystem:
    """The default: see `rerank/auto.py`; other settings than the usual ones are for studies.

    Raises:
        DataError: if the collection compares its vectors by a distance that auto cannot read.
    """
    if not is_linear(inputs.index.similarity):
        raise DataError(
            f"{inputs.index.where} compares its vectors by {inputs.index.similarity.capitalize()}, which "
            "orders them otherwise than the cosine or dot product that auto reads: choose fusion, surprise "
            "or cosine"
        )
    words, tokens = inputs.words, inputs.token_sample()
    sample = inputs.sample(terms=words is not None)
    reranker = AutoReranker(
        sample.corpus,
        None if tokens is None else tokens.tokens,
        sample.words,
        settings,
        retrieved=not inputs.compares_here,
    )
    scorers = [*([f"{settings.bm25:g} bm25"] if words is not None else []), "cosine"]
    scorers += [] if tokens is None else ["dynamax"]
    reranking = (
        f"client: {' + '.join(scorers)}, each in deviations above its mean over "
        f"{_measured(sample.size, all_words=words is not None)}; feedback from the best"
    )
    return BuiltSystem("auto", _hybrid(inputs, tokens, cosines=False), reranker, reranking, inputs.lacks)


def _measured(size: int, *, all_words: bool) -> str:
    return f"{size} sampled documents{' (bm25: all)' if all_words else ''}"


def _is_asked_together(inputs: SystemInputs) -> bool:
    """Whether Qdrant gives all scores of a pool of its own, so that no dense vectors travel."""
    is_own = inputs.words is not None and inputs.first_stage is None
    # What Qdrant compares a foreign collection's vectors by need not be the cosine.
    return is_own and inputs.index.storage is not None and not inputs.of_texts


def _hybrid(inputs: SystemInputs, tokens: TokenSample | None, *, cosines: bool) -> Retriever:
    """Candidates by cosine and, where it can be asked, by BM25; or the given ones with BM25's scores."""
    found, words = inputs.dense, inputs.words
    sample = None if inputs.compares_here else tokens
    if words is not None and inputs.first_stage is None:
        return HybridRetriever(inputs.index, words, options=inputs.options, sample=sample, cosines=cosines)
    if words is not None:
        found = LexicallyScored(found, words)
    return found if sample is None else InclusionScored(found, inputs.index, sample)
