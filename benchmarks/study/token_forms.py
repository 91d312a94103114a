"""What is lost by storing fewer token vectors in fewer bits: every form over collections and models.

The product's own `TokenForm` makes each form of the int8 tokens of an index that rerank-eval keeps, and the
product's own scorers rank with it. Only the clustering of a document is remembered from one form to the next.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.cluster import hierarchy

from benchmarks.stored import index_of
from benchmarks.study.collection import Case, Collection
from benchmarks.study.formula import Auto, fusion
from benchmarks.study.reading import read_collection
from surprise_rerank.connectors.progress import Terminal
from surprise_rerank.connectors.qdrant import DocumentIndex
from surprise_rerank.core.arrays import Float32Array, Float64Array, unit_rows
from surprise_rerank.core.tokens import TokenBatch, TokenForm, codes, pack_tokens
from surprise_rerank.core.tokens.members import offsets_of
from surprise_rerank.encoders.base import Encoder, encode_queries, require_token_encoder
from surprise_rerank.eval.retrieval.datasets import RetrievalDataset
from surprise_rerank.rerank.token_weights import measured_weights
from surprise_rerank.similarities.dynamax import DynaMax, membership
from surprise_rerank.similarities.kernels import in_form, pool_maxima

DEPTH = 100
READ = 400  # questions, as `left-out` reads them
REFERENCE = "int8"
# A document's tokens are made into a form some documents at a time: all of them in float32 take gigabytes.
_TOGETHER = 512
_TIMED = 12  # questions


@dataclass(frozen=True, slots=True)
class Variant:
    """A form, with what only the study switches off.

    Attributes:
        form: as an index stores it.
        residual: whether codes are of what is left of a vector without the text's mean, as in the product.
    """

    form: TokenForm
    residual: bool = True

    def __str__(self) -> str:
        form = self.form
        least = "" if form.least == 1 else f", least {form.least}"
        return f"{form.storage} / {form.pooling:g}{least}" + ("" if self.residual else ", no residual")


def _variants() -> dict[str, Variant]:
    forms = [
        TokenForm("4bit", 1),
        TokenForm("4bit", 3, 1),
        TokenForm("4bit", 13, 19),
        TokenForm("2bit", 1),
        TokenForm("2bit", 3, 1),
        TokenForm("2bit", 4, 1),
        TokenForm("2bit", 4, 60),
        TokenForm("2bit", 6.5, 1),
        TokenForm("2bit", 6.5, 37),
        TokenForm("1bit", 1),
        TokenForm("1bit", 2, 1),
        TokenForm("1bit", 3.3, 72),
        TokenForm("1bit", 3.5, 1),
        TokenForm("1bit", 3.5, 64),
        TokenForm("2bit", 3.5, 64),
        TokenForm("4bit", 3.5, 64),
        TokenForm("1bit", 4, 64),
        TokenForm("int8", 3, 1),
        TokenForm("int8", 3.5, 64),
    ]
    variants = [Variant(replace(form, least=1) if form.pooling == 1 else form) for form in forms]
    variants += [Variant(TokenForm(), residual=False), Variant(TokenForm("2bit", 6.5, 37), residual=False)]
    return {REFERENCE: Variant(TokenForm("int8", 1, 1)), **{str(variant): variant for variant in variants}}


VARIANTS: Mapping[str, Variant] = _variants()


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of a form on a collection.

    Attributes:
        collection: its name.
        model: of the encoder.
        dimension: d, of the token vectors.
        form: a name of `VARIANTS`.
        inclusion: nDCG@10 of cosine's 100 in the order of inclusion.
        fusion: nDCG@10 of `fusion`.
        auto: nDCG@10 of `auto`.
        vectors: of a document, on average.
        packed: bytes of a document, on average over a sample.
        packed_240: bytes of a document of 240 tokens.
        rho: Spearman's rank correlation of inclusion with int8's over cosine's 100, mean over the questions.
        time: of `DynaMax().pool` over cosine's 100, as a part of int8's; median over the questions.
    """

    collection: str
    model: str
    dimension: int
    form: str
    inclusion: float
    fusion: float
    auto: float
    vectors: float
    packed: float
    packed_240: int
    rho: float
    time: float

    def to_json(self) -> dict[str, str | float]:
        """As JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """A collection with its tokens.

    Attributes:
        collection: its documents and judged questions.
        documents: int8 tokens, aligned with the collection's documents.
        questions: (m, d) tokens of each question.
        documents_words: gives the word of each of the documents' tokens.
    """

    collection: Collection
    documents: TokenBatch
    questions: Sequence[Float32Array]

    documents_words: Callable[[], Sequence[Sequence[str]]]

    def projected(self, name: str, dimension: int = 128) -> Tokens:
        """The same after a fixed random projection, with tokens of length 1: of the shape of ColBERT's."""
        d = self.documents.dimension
        directions = np.random.default_rng(0).normal(size=(d, dimension)) / np.sqrt(dimension)
        matrix = directions.astype(np.float32)
        parts = []
        for part in _some_at_a_time(self.documents):
            texts = np.split(unit_rows(part.estimates() @ matrix), part.offsets[1:-1])
            parts.append(TokenBatch.from_arrays(texts, dimension).stored("int8"))
        questions = [unit_rows(question @ matrix) for question in self.questions]
        collection = replace(self.collection, model=name)
        return replace(
            self, collection=collection, documents=TokenBatch.concatenate(parts), questions=questions
        )

    def without_punctuation(self, name: str) -> Tokens:
        """The same without the documents' tokens that have no letter or digit."""
        return self._kept(
            name, [[any(map(str.isalnum, own)) for own in text] for text in self.documents_words()]
        )

    def without_repeats(self, name: str) -> Tokens:
        """The same with a document's first token of each spelling alone."""
        kept = []
        for text in self.documents_words():
            places = {own: i for i, own in reversed(list(enumerate(text)))}
            kept.append([places[own] == i for i, own in enumerate(text)])
        return self._kept(name, kept)

    def _kept(self, name: str, kept: Sequence[Sequence[bool]]) -> Tokens:
        assert [len(text) for text in kept] == self.documents.lengths.tolist()
        rows = np.concatenate([np.array(text, bool) for text in kept])
        documents = self.documents.with_rows(rows, offsets_of(np.array([sum(text) for text in kept])))
        return replace(self, collection=replace(self.collection, model=name), documents=documents)


def read_tokens(
    dataset: RetrievalDataset, spec: str, encoder: Encoder, *, cache: Path, questions: int, terminal: Terminal
) -> Tokens:
    """A collection and its tokens, from the index that rerank-eval keeps; it must hold int8 tokens.

    Args:
        dataset: with the judged questions.
        spec: as `--dataset` names it.
        encoder: of the index.
        cache: where indexes are kept.
        questions: how many are measured, from the first on.
        terminal: for progress.
    """
    collection = read_collection(dataset, spec, encoder, cache=cache, questions=READ, terminal=terminal)
    collection = replace(collection, name=Path(spec).name, cases=collection.cases[:questions])
    with DocumentIndex.open(index_of(spec, cache, encoder), None) as index:
        names, documents = index.token_sample(len(index))
    assert names == collection.corpus.ids
    assert documents.storage == "int8"
    assert documents.members is None, "made of what has lost nothing before"
    texts = [dataset.queries[case.name] for case in collection.cases]
    found = encode_queries(encoder, texts, [case.name for case in collection.cases])
    contents = {document.id: document.content for document in dataset.documents}

    def words() -> Sequence[Sequence[str]]:
        return require_token_encoder(encoder).words([contents[name] for name in names])

    questions_tokens = [query.require_tokens() for query in found]
    return Tokens(collection, replace(documents, own=None), questions_tokens, words)


def measured(
    tokens: Tokens, variants: Mapping[str, Variant], advance: Callable[[int], None] = lambda _: None
) -> list[Row]:
    """A row for each variant; the first one is the reference of rank correlation and time."""
    corpus, cases = tokens.collection.corpus, tokens.collection.cases
    used = np.unique(np.concatenate([corpus.sample, *(case.rows for case in cases)]))
    places = np.full(len(corpus.ids), -1)
    places[used] = np.arange(len(used))
    whole, stored = tokens.documents.take(used), {}
    with _remembered_clustering():
        for name, variant in variants.items():
            stored[name] = made(whole, variant)
            advance(1)
    samples = {name: batch.take(places[corpus.sample]) for name, batch in stored.items()}
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in variants}
    for case, question in zip(cases, tokens.questions, strict=True):
        top = np.argsort(-case.cosines, kind="stable")[:DEPTH]
        exact = np.zeros(0)
        for name, batch in stored.items():
            scored = _with_tokens(case, question, batch.take(places[case.rows]), samples[name])
            inclusion = np.full(len(case), -np.inf)
            inclusion[top] = scored.plain[top]
            exact = exact if len(exact) else scored.plain[top]
            values = (scored.ndcg(inclusion), scored.ndcg(fusion(scored)), scored.ndcg(Auto()(scored)))
            found[name].append((*values, _rank_correlation(exact, scored.plain[top])))
        _forget(case)
    times = _times(
        [
            (question, places[case.rows[np.argsort(-case.cosines, kind="stable")[:DEPTH]]])
            for case, question in list(zip(cases, tokens.questions, strict=True))[:_TIMED]
        ],
        stored,
    )
    rows = []
    for name, batch in stored.items():
        *quality, rho = np.nanmean(np.array(found[name]), axis=0).tolist()
        sample = in_form(samples[name], variants[name].form)  # with what else is packed
        rows.append(
            Row(
                tokens.collection.name,
                tokens.collection.model,
                batch.dimension,
                name,
                *quality,
                vectors=len(batch.scales) / len(batch),
                packed=float(np.mean([len(text) for text in pack_tokens(sample)])),
                packed_240=bytes_of(variants[name], batch.dimension),
                rho=rho,
                time=times[name],
            )
        )
    return rows


def made(tokens: TokenBatch, variant: Variant) -> TokenBatch:
    """Tokens in a form, some documents at a time."""
    with _residual(variant.residual):
        return TokenBatch.concatenate([variant.form.of(part) for part in _some_at_a_time(tokens)])


def _some_at_a_time(tokens: TokenBatch) -> Iterator[TokenBatch]:
    for start in range(0, len(tokens), _TOGETHER):
        yield tokens.between(start, min(start + _TOGETHER, len(tokens)))


def bytes_of(variant: Variant, dimension: int, tokens: int = 240) -> int:
    """Bytes that a document takes as an index packs it; they do not depend on what it says."""
    text = np.random.default_rng(0).normal(size=(tokens, dimension))
    return len(pack_tokens(in_form(TokenBatch.from_arrays([text]), variant.form))[0])


def _with_tokens(case: Case, question: Float32Array, documents: TokenBatch, sample: TokenBatch) -> Case:
    """The case as these tokens have it; one product gives inclusion with weights and without."""
    weights, usual = measured_weights(question, sample)
    unit = unit_rows(question)
    found = pool_maxima(unit, documents, unit_tokens=True, of_documents=False).of_query
    own = membership(unit, unit)

    def inclusion(maxima: Float32Array, weights: Float64Array) -> Float64Array:
        whole = float(own @ weights)
        return np.minimum(own, maxima) @ weights / whole if whole > 0 else np.zeros(len(maxima))

    same = np.ones(len(question))
    scored = replace(
        case,
        inclusion=inclusion(found, weights),
        usual_inclusion=inclusion(usual, weights),
        plain=inclusion(found, same),
        usual_plain=inclusion(usual, same),
    )
    # What does not depend on tokens is computed once.
    scored.__dict__.update({name: getattr(case, name) for name in _SHARED})
    return scored


_SHARED = ("vectors", "terms", "cosines", "word_similarities", "nearest")


def _forget(case: Case) -> None:
    """Free what `_SHARED` holds: a case has megabytes of it."""
    for name in _SHARED:
        case.__dict__.pop(name, None)


def _rank_correlation(one: Float64Array, other: Float64Array) -> float:
    if min(np.ptp(one), np.ptp(other)) == 0:
        return float("nan")
    return float(stats.spearmanr(one, other).statistic)


def _times(
    pools: Sequence[tuple[Float32Array, npt.NDArray[np.int64]]], stored: Mapping[str, TokenBatch]
) -> dict[str, float]:
    """Seconds of a pool as a part of the first form's: the forms take turns, best of three, median."""
    ratios: dict[str, list[float]] = {name: [] for name in stored}
    for question, rows in pools:
        taken = {name: batch.take(rows) for name, batch in stored.items()}
        best = dict.fromkeys(stored, np.inf)
        for turn in range(4):
            for name in random.Random(turn).sample(list(stored), len(stored)):
                start = time.perf_counter()
                DynaMax().pool(question, taken[name])
                best[name] = min(best[name], time.perf_counter() - start)
        for name in stored:
            ratios[name].append(best[name] / best[next(iter(stored))])
    return {name: float(median(own)) for name, own in ratios.items()}


@contextmanager
def _remembered_clustering() -> Iterator[None]:
    """Every document is clustered once: a form cuts the same tree elsewhere."""
    known: dict[bytes, npt.NDArray[np.int32]] = {}
    linkage = hierarchy.linkage

    def remembered(distances: Float64Array, method: str) -> Float64Array:
        key = hashlib.blake2b(distances.tobytes(), digest_size=16).digest()
        if key not in known:
            known[key] = linkage(distances, method)[:, :2].astype(np.int32)
        return known[key].astype(np.float64)

    hierarchy.linkage = remembered
    try:
        yield
    finally:
        hierarchy.linkage = linkage


@contextmanager
def _residual(kept: bool) -> Iterator[None]:
    """Codes of whole vectors, for the block, unless residuals are kept."""
    to_steps = codes.to_steps

    def nothing(centers: Float32Array) -> tuple[npt.NDArray[np.int8], Float32Array]:
        return np.zeros(centers.shape, np.int8), np.zeros(len(centers), np.float32)

    codes.to_steps = to_steps if kept else nothing
    try:
        yield
    finally:
        codes.to_steps = to_steps
