"""The systems, built from what a collection has; `register.py` names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank.connectors.qdrant._hybrid import HybridRetriever, InclusionScored, LexicallyScored
from surprise_rerank.connectors.qdrant._retrievers import SurpriseMode, SurpriseRetriever
from surprise_rerank.connectors.qdrant._search.corpus import Corpus
from surprise_rerank.connectors.qdrant._search.queries import NO_OPTIONS, SearchOptions
from surprise_rerank.connectors.systems._fitted_weights import load_weights
from surprise_rerank.connectors.systems._inputs import BuiltSystem, SystemInputs
from surprise_rerank.connectors.systems._register import all_systems, find_system
from surprise_rerank.core.arrays import is_linear
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.rerank._auto import AUTO, FUSION, SumSettings
from surprise_rerank.rerank._cross_encoder import CrossEncoderScorer
from surprise_rerank.rerank._fusion import FusionReranker
from surprise_rerank.rerank._scorers import CosineScorer, DynaMaxScorer, RetrievedScorer, Scorer
from surprise_rerank.rerank._surprise import SurpriseReranker


def build_system(
    name: str,
    corpus: Corpus,
    options: SearchOptions = NO_OPTIONS,
    mode: SurpriseMode | None = None,
    *,
    fitted: bool = True,
    of_texts: bool = False,
) -> BuiltSystem:
    """Build a system on a collection; see `SystemInputs` for corpus, options, mode and of_texts.

    The weights that were fitted for it, if any were, are its own unless `fitted` is False.

    Raises:
        DataError: if there is no such system, what it needs is not there, or fitted weights are damaged.
        IndexMismatchError: if documents carry no moments, or others, or weights are of another model.
    """
    system = find_system(border.text("name", name))
    border.able("corpus", corpus, "sample_ids", "what index.corpus or collection.corpus is")
    system.require_mode(mode)
    not_here = sorted(system.needs & {"lucene", "judgements"})
    if not_here:
        raise DataError(
            f"the system {name!r} needs {' and '.join(not_here)}, which only an evaluation has; "
            "compare it with rerank-eval"
        )
    if "dense" in system.needs and not corpus.layout.has_dense:
        raise DataError(
            f"{corpus.where} has no dense vectors, which {name} reads; choose one of "
            f"{', '.join(possible_systems(corpus))}"
        )
    built = system.built(SystemInputs(corpus=corpus, options=options, mode=mode, of_texts=of_texts))
    weights = load_weights(corpus, name) if fitted and system.fits else None
    reranker = built.reranker
    if weights is None or not isinstance(reranker, FusionReranker):
        return built
    if not set(weights) <= set(built.scorers):
        # They are of parts that it had before, or that are not there now: together they were never tried.
        stale = "its fitted weights are of other scorers and are left out; fit them again"
        return replace(built, reranking=f"{built.reranking}; {stale}")
    reranker = reranker.weighted({**reranker.weights, **weights})
    return replace(
        built, reranker=reranker, reranking=f"{built.reranking}; weights fitted on judged questions"
    )


def with_scorers(
    built: BuiltSystem, scorers: Sequence[object], weights: Mapping[str, float] = MappingProxyType({})
) -> BuiltSystem:
    """Return the system with further scorers in its sum, and with these weights by part.

    A scorer is a `Scorer`, or what `CrossEncoderScorer` takes. Feedback is of the ranking without them.

    Raises:
        DataError: if the system has one score, two scorers have one name, or a weight is for none.
    """
    scorers = list(border.instances("scorers", scorers, object))
    weights = border.mapping("weights", weights, border.number)
    if not scorers and not weights:
        return built
    total = built.reranker
    if not isinstance(total, FusionReranker):
        raise DataError(
            f"scorers= and weights= are for systems that add scores on one scale, such as auto and fusion; "
            f"{built.name!r} has one score"
        )
    more = [scorer if isinstance(scorer, Scorer) else CrossEncoderScorer(scorer) for scorer in scorers]
    reranker = replace(total, scorers=[*total.scorers, *more], weights={**total.weights, **weights})
    names = ", ".join(scorer.name for scorer in more)
    said = f"; with {names} in deviations above the mean" if names else ""
    return replace(built, reranker=reranker, reranking=f"{built.reranking}{said}")


def possible_systems(corpus: Corpus) -> list[str]:
    """The systems that a collection has enough for, its default first."""
    lacks = {"lucene", "judgements"}
    storage = corpus.storage
    lacks |= {"ensemble"} if storage is not None and storage.manifest.statistics is None else set()
    lacks |= set() if corpus.layout.has_dense else {"dense"}
    lacks |= {"sparse"} if corpus.words is None else set()
    lacks |= set() if corpus.has_tokens else {"tokens"}
    able = {name for name, system in all_systems().items() if not system.needs & lacks}
    able -= set() if is_linear(corpus.layout.similarity) else {"auto"}
    return list(dict.fromkeys((corpus.default_system, *(name for name in all_systems() if name in able))))


def cosine(inputs: SystemInputs) -> BuiltSystem:
    """Cosine's own order, or given ones in the order of their cosines."""
    is_own = inputs.first_stage is None and not inputs.of_texts
    return BuiltSystem(
        "cosine", inputs.dense, None if is_own else CosineScorer(similarity=inputs.corpus.layout.similarity)
    )


def surprise(inputs: SystemInputs) -> BuiltSystem:
    """Cosine's pool by z over the ensemble: inside Qdrant where documents carry their moments, else here."""
    corpus = inputs.corpus
    if inputs.ensemble is not None:
        return BuiltSystem("surprise", inputs.dense, SurpriseReranker(inputs.ensemble, weight=1.0))
    carries_moments = corpus.storage is not None and corpus.storage.manifest.statistics is not None
    if not inputs.of_texts and (inputs.mode is not None or carries_moments):
        retriever = SurpriseRetriever(corpus, inputs.mode or "formula", options=inputs.options)
        return BuiltSystem("surprise", retriever)
    reranker = corpus.surprise_reranker()
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
    return BuiltSystem("bm25", scored, RetrievedScorer("bm25"))


def dynamax(inputs: SystemInputs) -> BuiltSystem:
    """Cosine's pool by DynaMax inclusion of the query's tokens, which is Qdrant's MaxSim."""
    if not (inputs.corpus.has_tokens or inputs.of_texts):
        raise _lacking(inputs, "token vectors", "dynamax compares")
    if inputs.compares_here:
        return BuiltSystem("dynamax", inputs.dense, DynaMaxScorer())
    scored = InclusionScored(inputs.dense, inputs.corpus, TokenBatch.from_arrays([]))
    return BuiltSystem("dynamax", scored, DynaMaxScorer(retrieved=True))


def _lacking(inputs: SystemInputs, what: str, why: str) -> DataError:
    corpus = inputs.corpus
    remedy = corpus.remedy(what)
    return DataError(f"{corpus.where} has no {what}, which {why}; choose another system, or {remedy}")


def fusion(inputs: SystemInputs) -> BuiltSystem:
    """Cosine, DynaMax and BM25 on one scale, over the pools of cosine and BM25, as far as they are stored."""
    return _sum("fusion", inputs, FUSION)


def auto(inputs: SystemInputs, settings: SumSettings = AUTO) -> BuiltSystem:
    """The default: see `rerank/auto.py`; other settings than the usual ones are for studies.

    Raises:
        DataError: if the collection compares its vectors by a distance that auto cannot read.
    """
    similarity = inputs.corpus.layout.similarity
    if not is_linear(similarity):
        raise DataError(
            f"{inputs.corpus.where} compares its vectors by {similarity.capitalize()}, which "
            "orders them otherwise than the cosine or dot product that auto reads: choose fusion, surprise "
            "or cosine"
        )
    return _sum("auto", inputs, settings)


def _sum(name: str, inputs: SystemInputs, settings: SumSettings) -> BuiltSystem:
    """A sum of scorers over the pools of cosine and, where it can be asked, BM25; or over the given pool."""
    words, tokens = inputs.words, inputs.token_sample()
    sample = inputs.sample() if inputs.corpus.layout.has_dense else None
    # Where Qdrant gives all scores of its own pool, nothing else travels. What it compares the vectors of
    # somebody else's collection by need not be the cosine.
    is_own_pool = words is not None and inputs.first_stage is None
    is_near = sample is not None and inputs.corpus.layout.score == "cosine"
    cosines = is_own_pool and is_near and not inputs.of_texts
    reranker, feedback = settings.reranker(
        None if sample is None else sample.ensemble,
        tokens,
        words=words is not None,
        cosines=cosines,
        inclusion=not inputs.compares_here,
    )
    weights = reranker.weights
    terms = " + ".join(
        f"{weights[s.name]:g} {s.name}" if s.name in weights else s.name for s in reranker.scorers
    )
    size = sample.size if sample is not None else len(tokens) if tokens is not None else 0
    measured = f"{size} sampled documents{' (bm25: all)' if words is not None else ''}"
    reranking = f"client: {terms}, each in deviations above its mean over {measured}"
    compared = None if inputs.compares_here else tokens
    retriever = inputs.dense
    if words is not None and is_own_pool:
        retriever = HybridRetriever(
            inputs.corpus, words, False, inputs.options, compared, cosines=cosines, feedback=feedback
        )
    else:
        if words is not None:
            retriever = LexicallyScored(retriever, words)
        if compared is not None:
            retriever = InclusionScored(retriever, inputs.corpus, compared)
    return BuiltSystem(name, retriever, reranker, reranking, inputs.lacks)
