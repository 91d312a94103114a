"""What may be said of one search, and what a question got: the same for every interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypedDict, Unpack, get_args

from surprise_rerank import _border as border
from surprise_rerank._candidates import Candidates, Query, Ranking, Unit, Verdict
from surprise_rerank._errors import refuse_unknown
from surprise_rerank._packing import PackedContext, Stretch, about_tokens, packed
from surprise_rerank.rerank._diversity import Diversity
from surprise_rerank.rerank._grouping import group_path, grouped, parent_of
from surprise_rerank.thresholds._background import QuestionBackground

# What groups are made by where they are of passages of one document.
BY_DOCUMENT = "document"


class SearchSettings(TypedDict, total=False):
    """The fields of `SearchOptions` as keyword arguments; None is as left out."""

    filter: Any
    tenant: str | None
    min_percentile: float | None
    depth: int | None
    diversity: float | None
    collapse: float | None
    offset: int | None
    keep_refused: bool | None
    unit: Unit | None
    max_per_document: int | None
    context: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How a question is answered: what Python, REST, MCP, adapters, TOML and commands may say of it.

    Attributes:
        filter: only documents that it lets through, beside the pipeline's own filter; of Qdrant for ours.
        tenant: only documents of this one, of an index with tenants, which is not searched without; `ALL` of
            `connectors.qdrant` for those of all.
        min_percentile: only documents of at least this percentile among background questions, 0 to 1.
        depth: size of the candidate pool; at least as many as are shown.
        diversity, collapse: see `Diversity`.
        offset: number of first results to leave out.
        keep_refused: show documents below `min_percentile`, too; the verdict counts them as refused.
        unit: what is found: documents, each with its best passage, or every `passage` by itself. Then depth,
            percentile and the numbers here are of passages, and neighbours that overlap are one.
        max_per_document: the most passages of one document; any number where None. Points of others'
            collections are chunks of what `parent` and the like in their metadata name.
        context: so many neighbours on each side belong to the text of a passage that is shown.
    """

    filter: Any = None
    tenant: str | None = None
    min_percentile: float | None = None
    depth: int = 100
    diversity: float = 0.0
    collapse: float | None = None
    offset: int = 0
    keep_refused: bool = False
    unit: Unit = "document"
    max_per_document: int | None = None
    context: int = 0

    def __post_init__(self) -> None:
        border.flags(keep_refused=self.keep_refused)
        border.choice("unit", self.unit, get_args(Unit))
        most = border.optional(border.count, "max_per_document", self.max_per_document)
        object.__setattr__(self, "max_per_document", most)
        object.__setattr__(self, "context", border.count("context", self.context, 0))
        border.optional(border.text, "tenant", self.tenant)
        object.__setattr__(self, "depth", border.count("depth", self.depth))
        object.__setattr__(self, "offset", border.count("offset", self.offset, 0))
        least = border.optional(border.share, "min_percentile", self.min_percentile)
        object.__setattr__(self, "min_percentile", least)
        self.variety  # noqa: B018 - checks its two parts

    def changed(self, **settings: Unpack[SearchSettings]) -> SearchOptions:
        """Return these options with some replaced; those that are None stay.

        Raises:
            DataError: if there is no such option, or a value is out of its range.
        """
        refuse_unknown(settings, SearchSettings.__annotations__, "search")
        replaced: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
        return replace(self, **replaced) if replaced else self

    @property
    def variety(self) -> Diversity:
        """How different the shown documents should be."""
        return Diversity(self.diversity, self.collapse)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answer to a question: candidates, ranking, the lines that are shown, and seconds.

    Attributes:
        query: the question with its vectors, where the model was asked.
        pool: its candidates as they were retrieved.
        ranking: all of them in order, with percentiles and a verdict; without texts if these are read apart.
        shown: the lines that a user sees, with their texts.
        background: what percentiles are measured against, None without one.
        seconds: of the steps `encoding`, `retrieval` and `re-ranking`.
    """

    query: Query
    pool: Candidates
    ranking: Ranking
    shown: Ranking
    background: QuestionBackground | None
    seconds: Mapping[str, float]

    @property
    def verdict(self) -> Verdict | None:
        """Whether the question got an answer, by all of the pool."""
        return self.ranking.verdict

    def groups(self, group_by: str, top_k: int = 10, group_size: int = 3) -> dict[str | int, Ranking]:
        """The best groups of what is shown by a value of the metadata, such as `metadata.author`.

        `document` makes groups of the passages, or chunks, of each document, by its id. A DataError if the
        path names nothing, or a number is below 1.
        """
        limit, size = border.count("top_k", top_k), border.count("group_size", group_size)
        if border.text("group_by", group_by) == BY_DOCUMENT:
            documents = self.shown.documents
            names = self.shown.ids if documents is None else map(parent_of, documents, self.shown.ids)
            rows = grouped(({"id": name} for name in names), "id", limit, size)
        else:
            rows = grouped((hit.metadata for hit in self.shown), group_path(group_by), limit, size)
        return {value: self.shown.take(of_value) for value, of_value in rows.items()}


def packed_context(
    ranking: Ranking, tokens: int = 2000, count: Callable[[str], int] = about_tokens
) -> PackedContext:
    """Pack a ranking's texts for a language model; `str()` of the result goes into the prompt.

    The best passages that have room, each text once, numbered, with the line to cite each by: the best
    document first, the second best last, passages of one in its own order, neighbours joined.

    Args:
        ranking: of documents or passages, as `search` gives it.
        tokens: the most of all, citations included.
        count: tells how many tokens a text has; by default a quarter of its letters.
    """
    border.count("tokens", tokens)
    border.function("count", count)
    stretches = []
    for hit in border.instance("ranking", ranking, Ranking):
        advice = "take a ranking of search(), or of answer(texts=True)"
        document = border.present("the document of each line", hit.document, advice)
        passage, whole = hit.passage, len(document.content)
        start, end = (0, whole) if passage is None else (passage.start, passage.end)
        stretches.append(Stretch(document, start, end, hit.cited))
    return packed(stretches, tokens, count)


OPTION_NAMES = tuple(field.name for field in fields(SearchOptions))
