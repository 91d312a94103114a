"""What re-rankers read and return: a `Query`, its `Candidates`, and their `Ranking`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from surprise_rerank import _border as border
from surprise_rerank._documents import Document, Passage
from surprise_rerank._places import Place
from surprise_rerank.core.arrays import Float32Array, Float64Array, FloatArray, IntArray
from surprise_rerank.core.moments import Moments
from surprise_rerank.core.tokens import TokenBatch

T = TypeVar("T")
# What a re-ranker may need of a pool beside ids and scores.
Field: TypeAlias = Literal["dense", "tokens", "documents"]
# What a line of a ranking is: a document with its best passage, or a passage.
Unit: TypeAlias = Literal["document", "passage"]

_NUMBERED = re.compile(r"#\d+\Z")  # of an id
# Fields of a pool that may be empty, aligned with its ids.
_FETCH = "have the retriever fetch the field"
_OPTIONAL = ("dense", "tokens", "documents", "passages", "inclusion")


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A query in words, with its (d,) dense and (m, d) token vectors, and its name in a data set."""

    text: str
    dense: Float32Array | None = None
    tokens: Float32Array | None = None
    id: str = ""

    def require_dense(self) -> Float32Array:
        """(d,) its dense vector; a DataError if no encoder made one."""
        return border.present("the query's dense vector", self.dense, "encode it with an Encoder first")

    def require_tokens(self) -> Float32Array:
        """(m, d) its token vectors; a DataError if no encoder made them."""
        advice = (
            "encode it with an encoder that makes them (token_encoder=load_encoder() beside one that does "
            "not), or choose a re-ranker of dense vectors, such as cosine or auto"
        )
        return border.present("the query's token vectors", self.tokens, advice)


@dataclass(frozen=True, slots=True, eq=False)
class Inclusion:
    """Inclusion of a query's tokens in n candidates and in a sample of the corpus, computed by their store.

    Attributes:
        scores: (n,) the mean over the query's tokens, weighted or not, of the largest cosine with a token of
            the candidate; NaN where the store gave none.
        lengths: (n,) the candidates' numbers of tokens.
        usual: (s,) the same as `scores`, of a uniform sample of the corpus.
        usual_lengths: (s,) numbers of tokens of the sample; all 0 where they are not known.
    """

    scores: Float64Array
    lengths: IntArray
    usual: Float64Array
    usual_lengths: IntArray

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, rows: npt.ArrayLike) -> Inclusion:
        """Of the candidates at these positions."""
        index = np.asarray(rows, dtype=np.int64)
        return replace(self, scores=self.scores[index], lengths=self.lengths[index])

    @classmethod
    def concatenate(cls, parts: Sequence[Inclusion]) -> Inclusion:
        """Of several pools of one query in a row."""
        scores, lengths = ([getattr(part, name) for part in parts] for name in ("scores", "lengths"))
        return replace(parts[0], scores=np.concatenate(scores), lengths=np.concatenate(lengths))


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The documents, or passages, that a first search found: arrays that are aligned with `ids`.

    Where documents are indexed in passages, a candidate is a passage: its document's id may repeat, scores
    and vectors are the passage's, and `Ranking.order` makes one line of each document, or of each passage.

    Attributes:
        ids: n document ids, in the order of the first retrieval stage.
        scores: scorer's name -> (n,) its scores; NaN where that scorer did not score the document.
        dense: (n, d) dense vectors, where fetched.
        tokens: n lists of token vectors, where fetched.
        documents: n documents, where fetched.
        corpus_moments: scorer's name -> the moments of this query's scores over the corpus, where known.
        passages: n passages of these documents, where they are indexed in passages.
        best: a document's score is the mean of its `best` best passages'.
        notes: for the reader of a ranking of them, for example that some vectors are out of date.
        inclusion: of the query's tokens in them, where their store computed it.
        words: how many words of the query, of their mean weight, the best BM25 score is worth; None where
            that is not known, or the model is known not to read the documents' language.
        outside: why no background says anything of them; empty where one may.
        unit: what a ranking of them has a line of.
    """

    ids: tuple[str, ...]
    scores: Mapping[str, FloatArray] = field(default_factory=dict)
    dense: Float32Array | None = None
    tokens: TokenBatch | None = None
    documents: tuple[Document, ...] | None = None
    corpus_moments: Mapping[str, Moments] = field(default_factory=dict)
    passages: tuple[Passage, ...] | None = None
    best: int = 1
    notes: tuple[str, ...] = ()
    inclusion: Inclusion | None = None
    words: float | None = None
    outside: str = ""
    unit: Unit = "document"

    def __post_init__(self) -> None:
        n = len(self.ids)
        sizes = {f"scores[{name!r}]": len(values) for name, values in self.scores.items()}
        sizes |= {name: len(part) for name in _OPTIONAL if (part := getattr(self, name)) is not None}
        for name, size in sizes.items():
            border.equal(f"the length of Candidates.{name}", size, n, "give one for each id")
        border.count("Candidates.best", self.best)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def line_keys(self) -> list[tuple[str, int]]:
        """Of each candidate, what tells the line of a ranking that it is in."""
        return _keys(self.ids, self.passages if self.unit == "passage" else None)

    def require_dense(self) -> Float32Array:
        """(n, d) dense vectors; a DataError if they were not fetched."""
        return border.present("the candidates' dense vectors", self.dense, f"{_FETCH} 'dense'")

    def require_tokens(self) -> TokenBatch:
        """Each candidate's token vectors; a DataError if they were not fetched."""
        return border.present("the candidates' token vectors", self.tokens, f"{_FETCH} 'tokens'")

    def require_documents(self) -> tuple[Document, ...]:
        """The documents; a DataError if they were not fetched."""
        return border.present("the candidates' documents", self.documents, f"{_FETCH} 'documents'")

    def require_inclusion(self) -> Inclusion:
        """Inclusion of the query's tokens; a DataError if no store computed it."""
        advice = f"take a retriever from an index of multivectors, or {_FETCH} 'tokens' to compare them here"
        return border.present("inclusion as a store computes it", self.inclusion, advice)

    def take(self, rows: npt.ArrayLike) -> Candidates:
        """The candidates at these positions, in this order."""
        index = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            ids=_at(self.ids, index),
            scores={name: values[index] for name, values in self.scores.items()},
            **{name: _at(getattr(self, name), index) for name in _OPTIONAL},
        )

    def join(self, other: Candidates) -> Candidates:
        """Return the candidates of two pools; a score that one of them lacks is NaN.

        No document is in both, and they have the same fields.
        """
        missing = [np.full(len(pool), np.nan) for pool in (self, other)]
        return Candidates(
            ids=self.ids + other.ids,
            scores={
                name: np.concatenate([self.scores.get(name, missing[0]), other.scores.get(name, missing[1])])
                for name in dict.fromkeys((*self.scores, *other.scores))
            },
            corpus_moments={**other.corpus_moments, **self.corpus_moments},
            best=self.best,
            words=self.words,
            unit=self.unit,
            notes=tuple(dict.fromkeys((*self.notes, *other.notes))),
            **{name: _in_a_row(getattr(self, name), getattr(other, name)) for name in _OPTIONAL},
        )

    def without(self, document_id: str) -> Candidates:
        """The pool without one document (a question that is itself in the corpus must not find itself)."""
        if document_id not in self.ids:
            return self
        return self.take([i for i, name in enumerate(self.ids) if name != document_id])


@dataclass(frozen=True, slots=True)
class Hit:
    """A document, or a passage, in a ranking.

    Attributes:
        id: the document's.
        score: its score.
        parts: what each scorer added to the score of it, or of its best passage.
        document: where the candidates had it.
        passage: the best of the document, or the one that was found; None where the candidates were none.
        percentile: the share of background questions whose best candidate scores less; None without any.
        duplicates: ids of near-duplicates that were folded into it, best first; see `rerank/diversity.py`.
        position: where its text stood in the list that was re-ranked; -1 of what a search found.
        folded: positions of its `duplicates`, of such a list.
        collection: the name of the collection that it is from, where several were asked.
    """

    id: str
    score: float
    parts: Mapping[str, float]
    document: Document | None = None
    passage: Passage | None = None
    percentile: float | None = None
    duplicates: tuple[str, ...] = ()
    position: int = -1
    folded: tuple[int, ...] = ()
    collection: str = ""

    @property
    def relevance(self) -> float:
        """What a host shows as the score: the percentile where there is one, else the score."""
        return self.score if self.percentile is None else self.percentile

    @property
    def text(self) -> str:
        """The passage, or the whole content where there are none; empty without a document."""
        content = "" if self.document is None else self.document.content
        return content if self.passage is None else content[self.passage.start : self.passage.end]

    @property
    def place(self) -> Place | None:
        """Where the passage, or the document, stands in its file; None where that is not known."""
        if self.document is None:
            return None
        if self.passage is None:
            return self.document.place(0, len(self.document.content))
        return self.document.place(self.passage.start, self.passage.end)

    @property
    def citation(self) -> str:
        """A line to cite it by: `handbook.pdf, p. 12, Setup > Windows`."""
        return self.cited(self.place)

    def cited(self, place: Place | None) -> str:
        """Return the line by which another place of its document is cited."""
        path = self.metadata.get("path")
        name = path.rpartition("/")[2] if isinstance(path, str) else ""
        return ", ".join(filter(None, (name or self.title.strip() or self.id, str(place or ""))))

    @property
    def title(self) -> str:
        """The document's title; empty without a document."""
        return "" if self.document is None else self.document.title

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The document's metadata; empty without a document."""
        return {} if self.document is None else self.document.metadata

    def to_json(self) -> dict[str, Any]:
        """Return the hit as JSON values: what `search --json` and the server say of it."""
        return {
            "id": self.id,
            "score": self.score,
            "percentile": self.percentile,
            "title": self.title,
            "text": self.text,
            "passage": None if self.passage is None else asdict(self.passage),
            "place": None if self.place is None else self.place.to_json(),
            "citation": self.citation,
            "metadata": dict(self.metadata),
            "parts": dict(self.parts),
            "duplicates": list(self.duplicates),
            **({"collection": self.collection} if self.collection else {}),
        }


Status: TypeAlias = Literal["answered", "weak", "off-topic", "unknown", "no match"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a search says of itself: whether the question got an answer, and why.

    Attributes:
        status: `answered`, `weak` or `off-topic` by the chance; `off-topic` without one where
            `min_percentile` leaves everything out; `unknown` where nobody can tell; `no match` without a
            candidate.
        chance: of an answer among the first ten; None where it cannot be told.
        reason: the status in a sentence, for people.
    """

    status: Status
    chance: float | None
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Documents, or passages of documents, in order, best first.

    Attributes:
        ids: n document ids.
        scores: (n,) descending, unless `Diversity` has put different documents first; their meaning is the
            re-ranker's.
        parts: name -> (n,) what each scorer contributed, aligned with `ids`.
        documents: n documents, where the candidates had them.
        notes: for the reader of the scores, for example that a score was not defined.
        passages: each document's best passage, or the one that a line is of, where the candidates were
            passages; `parts` are its own.
        raw: name -> (n,) each scorer's own scores, before they were put on one scale for this question. They
            compare across questions, and are aligned with `ids`. Where it is empty, `scores` do so.
        percentile: (n,) what `QuestionBackground.judged` adds; None without one.
        duplicates: n tuples of ids, the near-duplicates of each line; None where none were looked for.
        verdict: on the whole pool, also where nothing of it is shown; None where nobody asked for one.
        positions, folded, collections: n each, what `Hit` has of them; None where there is no such thing.
        unit: what a line is of.
    """

    ids: tuple[str, ...]
    scores: Float64Array
    parts: Mapping[str, Float64Array] = field(default_factory=dict)
    documents: tuple[Document, ...] | None = None
    notes: tuple[str, ...] = ()
    passages: tuple[Passage, ...] | None = None
    raw: Mapping[str, Float64Array] = field(default_factory=dict)
    percentile: Float64Array | None = None
    duplicates: tuple[tuple[str, ...], ...] | None = None
    verdict: Verdict | None = None
    positions: tuple[int, ...] | None = None
    folded: tuple[tuple[int, ...], ...] | None = None
    collections: tuple[str, ...] | None = None
    unit: Unit = "document"

    @classmethod
    def order(
        cls,
        candidates: Candidates,
        scores: FloatArray,
        parts: Mapping[str, FloatArray] | None = None,
        notes: Sequence[str] = (),
        raw: Mapping[str, FloatArray] | None = None,
    ) -> Ranking:
        """Sort a pool by (n,) scores, descending; ties go by id, so that every store gives the same order.

        Of passages, the score of a document is the mean of its `candidates.best` best ones', or of all where
        it has fewer. The line has the best passage; of equals, the one with the lowest number. Where the unit
        is the passage, each is a line. `parts`, `notes` and `raw` are as of a ranking, for the candidates as
        they come.
        """
        values = np.asarray(scores, dtype=np.float64)
        border.equal("the shape of the scores", values.shape, (len(candidates),))
        bad = np.flatnonzero(~(values < np.inf))
        if len(bad):
            name, value = candidates.ids[bad[0]], values[bad[0]]
            border.number(f"the score of document {name!r}", float(value))
        rows = np.arange(len(values))
        if candidates.passages is not None and candidates.unit == "document":
            rows, values = _best_passages(candidates.ids, candidates.passages, values, candidates.best)
        keys = candidates.line_keys
        names = [keys[row] for row in rows.tolist()]
        order = sorted(range(len(names)), key=list(zip((-values).tolist(), names, strict=True)).__getitem__)
        index = rows[order]
        return cls(
            ids=tuple(names[i][0] for i in order),
            scores=values[order],
            parts=_picked(parts or {}, index),
            documents=_at(candidates.documents, index),
            notes=(*candidates.notes, *notes),
            passages=_at(candidates.passages, index),
            raw=_picked(raw or {}, index),
            unit=candidates.unit,
        )

    def with_scores_of(self, pool: Candidates) -> Ranking:
        """Return the ranking with the retriever's scores added to `parts`, under names that it lacks."""
        order = self.rows_in(pool)
        scores = {name: np.asarray(values, np.float64)[order] for name, values in pool.scores.items()}
        return replace(self, parts={**scores, **self.parts})

    @property
    def scores_by_scorer(self) -> Mapping[str, Float64Array]:
        """The scores of each scorer, or the score alone where there is nothing else."""
        return self.raw or {"score": self.scores}

    def rows_in(self, candidates: Candidates) -> IntArray:
        """(n,) which candidate each line is, among those that were ranked."""
        rows = {key: row for row, key in enumerate(_keys(candidates.ids, candidates.passages))}
        return np.array([rows[key] for key in _keys(self.ids, self.passages)], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Hit]:
        return map(self._hit, range(len(self)))

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> Ranking: ...
    def __getitem__(self, place: int | slice) -> Hit | Ranking:
        """One line, from 0 on, or the ranking of some."""
        chosen = range(len(self))[place]
        return self._hit(chosen) if isinstance(chosen, int) else self.take(chosen)

    def __repr__(self) -> str:
        best = f", best {self.ids[0]!r} with {self.scores[0]:.4g}" if len(self) else ""
        verdict = "" if self.verdict is None else f", {self.verdict.status}"
        return f"<Ranking of {len(self)} {self.unit}s{best}{verdict}>"

    @property
    def line_ids(self) -> list[str]:
        """A name of each line that no other one has: the id, of a later passage as `handbook.pdf#12`.

        An id that looks like that has `#0` behind it.
        """
        if self.passages is None or self.unit == "document":
            return list(self.ids)
        return [
            f"{name}#{p.number}" if p.number or _NUMBERED.search(name) else name
            for name, p in zip(self.ids, self.passages, strict=True)
        ]

    def _hit(self, i: int) -> Hit:
        return Hit(
            id=self.ids[i],
            score=float(self.scores[i]),
            parts={part: float(values[i]) for part, values in self.parts.items()},
            document=None if self.documents is None else self.documents[i],
            passage=None if self.passages is None else self.passages[i],
            percentile=None if self.percentile is None else float(self.percentile[i]),
            duplicates=() if self.duplicates is None else self.duplicates[i],
            position=-1 if self.positions is None else self.positions[i],
            folded=() if self.folded is None else self.folded[i],
            collection="" if self.collections is None else self.collections[i],
        )

    def top(self, k: int) -> Ranking:
        """The ranking of the first k lines."""
        return self.take(range(len(self))[:k])

    def take(self, rows: Sequence[int]) -> Ranking:
        """The ranking of the lines at these positions."""
        index = np.asarray(rows, dtype=np.int64)
        aligned = (
            *("ids", "scores", "documents", "passages", "percentile", "duplicates"),
            *("positions", "folded", "collections"),
        )
        return replace(
            self,
            parts=_picked(self.parts, index),
            raw=_picked(self.raw, index),
            **{name: _at(getattr(self, name), index) for name in aligned},
        )


def verdict_json(verdict: Verdict | None) -> dict[str, Any] | None:
    """A verdict as all interfaces write it; None where nobody asked for one."""
    return None if verdict is None else asdict(verdict)


def _keys(ids: Sequence[str], passages: Sequence[Passage] | None) -> list[tuple[str, int]]:
    if passages is None:
        return [(name, 0) for name in ids]
    return [(name, passage.number) for name, passage in zip(ids, passages, strict=True)]


def _at(part: Any, rows: IntArray) -> Any:
    """What is aligned with ids, at these rows; None where there is none."""
    if part is None or isinstance(part, np.ndarray):
        return None if part is None else part[rows]
    return tuple(part[i] for i in rows.tolist()) if isinstance(part, tuple) else part.take(rows)


def _in_a_row(first: Any, second: Any) -> Any:
    """What is aligned with the ids of one pool, and then of another; None where there is none."""
    if isinstance(first, np.ndarray):
        return np.concatenate([first, second])
    if first is None or isinstance(first, tuple):
        return None if first is None else first + second
    return first.concatenate((first, second))


def _picked(values: Mapping[str, FloatArray], rows: IntArray) -> dict[str, Float64Array]:
    return {name: np.asarray(column, dtype=np.float64)[rows] for name, column in values.items()}


def _best_passages(
    ids: Sequence[str], passages: Sequence[Passage], scores: Float64Array, best: int
) -> tuple[IntArray, Float64Array]:
    """Each document's best passage, as a row of the pool, and the mean of its `best` best scores."""
    codes: dict[str, int] = {}
    documents = np.array([codes.setdefault(name, len(codes)) for name in ids], dtype=np.int64)
    numbers = np.array([passage.number for passage in passages], dtype=np.int64)
    order = np.lexsort((numbers, -scores, documents))
    counts = np.bincount(documents, minlength=len(codes))
    firsts = np.cumsum(counts) - counts
    counted = np.arange(len(order)) - np.repeat(firsts, counts) < best
    rows = order[counted]
    sums = np.bincount(documents[rows], weights=scores[rows], minlength=len(codes))
    return order[firsts], sums / np.minimum(counts, best)
