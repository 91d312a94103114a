"""The bodies of requests and answers, as Cohere, Jina and Text Embeddings Inference define them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
)

from surprise_rerank._answers import OPTION_NAMES, SearchSettings
from surprise_rerank._candidates import Status, Unit
from surprise_rerank._documents import encodable, stripped_question
from surprise_rerank._places import Place
from surprise_rerank.connectors.server._options import MOST_DOCUMENTS

# Levels of fields that come back: writing them goes as deep as they are.
_DEEPEST = 100


def _shallow(value: Any) -> Any:
    level: Sequence[Any] = [value]
    for _ in range(_DEEPEST + 2):
        inner = [part for part in level if isinstance(part, Mapping | list)]
        if not inner:
            return value
        parts = (part.values() if isinstance(part, Mapping) else part for part in inner)
        level = list(chain.from_iterable(parts))
    raise ValueError(f"has fields of more than {_DEEPEST} levels; send flatter ones")


def _whole(value: object) -> object:
    """JSON Schema's integers: 2.0 is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _object(value: Any) -> Any:
    return {"text": value} if isinstance(value, str) else _shallow(value)


# JSON can spell halves of characters, which no encoder takes.
Text: TypeAlias = Annotated[StrictStr, AfterValidator(encodable)]
Question: TypeAlias = Annotated[
    Text, AfterValidator(stripped_question), Field(description="In words, as a person would ask.")
]
_Whole: TypeAlias = Annotated[StrictInt, BeforeValidator(_whole), Field(ge=0)]
_Count: TypeAlias = Annotated[_Whole, Field(ge=1)]
_Depth: TypeAlias = Annotated[_Count, Field(le=MOST_DOCUMENTS)]
_Share: TypeAlias = Annotated[StrictFloat, Field(ge=0, le=1, allow_inf_nan=False)]


class DocumentObject(BaseModel):
    """A document with fields; a string is one with `text`. All come back where documents are asked for.

    A string as `id` names a document of the server's index, whose stored vectors are taken (an extension).
    """

    model_config = ConfigDict(extra="allow")

    text: Text | None = None
    id: Any = None


_Document: TypeAlias = Annotated[
    DocumentObject, BeforeValidator(_object, json_schema_input_type=str | DocumentObject)
]


class Extensions(BaseModel):
    """What other services do not have: how far above others, and how different, results are."""

    min_percentile: _Share | None = None
    diversity: _Share | None = None
    collapse: _Share | None = None

    def search_settings(self) -> SearchSettings:
        """What is among the fields of `SearchOptions`, but the filter, which is checked apart."""
        names = [name for name in OPTION_NAMES if name != "filter" and hasattr(self, name)]
        return cast(SearchSettings, {name: getattr(self, name) for name in names})


class RerankRequest(Extensions):
    """What Cohere's and Jina's clients send; fields that are not listed are ignored."""

    query: Question
    documents: Annotated[list[_Document], Field(fail_fast=True, max_length=MOST_DOCUMENTS)]
    model: Text | None = Field(None, description="Read by nobody: the server has one model, see `/info`.")
    top_n: _Count | None = None
    return_documents: StrictBool | None = None
    tenant: Text | None = Field(None, description="Whose stored documents `id` names (an extension).")
    rank_fields: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = None
    max_tokens_per_doc: _Count | None = None


class TeiRequest(BaseModel):
    """What clients of Text Embeddings Inference send; fields that are not listed are ignored."""

    query: Question
    texts: Annotated[list[Text], Field(fail_fast=True, max_length=MOST_DOCUMENTS)]
    raw_scores: StrictBool = False
    return_text: StrictBool = False
    truncate: StrictBool | None = None
    truncation_direction: Literal["Left", "Right", "left", "right"] = "Right"
    min_percentile: _Share | None = None


def _form(body: Any) -> str:
    return (
        "documents" if isinstance(body, Mapping) and "texts" not in body and "documents" in body else "texts"
    )


# At one route: clients of llama.cpp and Infinity send `documents`, and read what Cohere's and Jina's do.
AnyRerankRequest: TypeAlias = Annotated[
    Annotated[TeiRequest, Tag("texts")] | Annotated[RerankRequest, Tag("documents")], Discriminator(_form)
]


class ScoreRequest(BaseModel):
    """What clients of vLLM send: a text or several, each with its own text, or all with one."""

    text_1: Question | Annotated[list[Question], Field(min_length=1, max_length=MOST_DOCUMENTS)]
    text_2: Text | Annotated[list[Text], Field(min_length=1, max_length=MOST_DOCUMENTS)]
    model: Text | None = None

    @property
    def pairs(self) -> dict[str, list[tuple[int, str]]]:
        """Question -> its texts with their places; a ValueError if the numbers do not fit together."""
        texts = [self.text_2] if isinstance(self.text_2, str) else self.text_2
        questions = [self.text_1] * len(texts) if isinstance(self.text_1, str) else self.text_1
        if len(questions) > 1 and len(texts) == 1:
            texts = texts * len(questions)
        if len(questions) != len(texts):
            raise ValueError(f"{len(questions)} in text_1 and {len(texts)} in text_2; give one, or as many")
        pairs: dict[str, list[tuple[int, str]]] = {}
        for place, (question, text) in enumerate(zip(questions, texts, strict=True)):
            pairs.setdefault(question, []).append((place, text))
        return pairs


class SearchRequest(Extensions):
    """A question to the server's index; a field that is not listed is refused.

    The filter is Qdrant's, in its JSON; metadata are at `metadata.KEY`.
    """

    # A filter that were ignored because of a misspelled name would show what it should hide.
    model_config = ConfigDict(extra="forbid")

    query: Question
    top_k: _Depth = 10
    filter: dict[str, Any] | None = None
    system: Text | None = None
    tenant: Text | None = None
    depth: _Depth | None = None
    offset: Annotated[_Whole, Field(le=MOST_DOCUMENTS)] = 0
    keep_refused: StrictBool = False
    unit: Unit | None = None
    max_per_document: _Count | None = None
    context: Annotated[_Whole, Field(le=100)] | None = None
    tokens: _Count | None = Field(
        None, description="Pack the results for a language model, in so many tokens."
    )
    excerpts: StrictBool = False
    compare_with: Text | None = None


class NewDocument(BaseModel):
    """A document to be stored, in place of one of the same id."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[Text, Field(min_length=1)]
    text: Text
    title: Text = ""
    metadata: Annotated[dict[str, Any], AfterValidator(_shallow)] = Field(default_factory=dict)
    source: Text = Field("", description="What it was read from: `index --prune` of that removes it.")
    places: tuple[tuple[_Whole, Place], ...] = Field(
        (), description="Where its text stands in that: offsets, ascending, and the place from each on."
    )


class DocumentsRequest(BaseModel):
    """Documents to be stored."""

    model_config = ConfigDict(extra="forbid")

    documents: Annotated[list[NewDocument], Field(fail_fast=True, max_length=MOST_DOCUMENTS)]
    wait: StrictBool = Field(
        True, description="False is answered at once by 202 and a job, which /v1/jobs/ID tells of."
    )


# Answers, as /openapi.json describes them.


class ShownVerdict(BaseModel):
    """Whether the question got an answer; an extension."""

    status: Status = Field(
        description="`answered`, `weak` or `off-topic` by the chance; `unknown` where nobody can tell; "
        "`no match` without a candidate."
    )
    chance: float | None = Field(
        description="Of an answer among the first ten; null where it cannot be told."
    )
    reason: str


class RerankResult(BaseModel):
    """A document's place: its position in the request, and its percentile or else the re-ranker's score."""

    index: int
    relevance_score: float
    document: dict[str, Any] | None = None
    duplicates: list[int] | None = None


class RerankResponse(BaseModel):
    """Results, best first; the verdict is on all documents, also where min_percentile leaves them out."""

    id: str
    model: str
    results: list[RerankResult]
    verdict: ShownVerdict
    meta: dict[str, Any]
    usage: dict[str, int]


class Score(BaseModel):
    """How similar the two texts of a pair are, from 0 to 1, whatever the index is."""

    index: int
    score: float
    object: Literal["score"] = "score"


class ScoreResponse(BaseModel):
    """Scores in the order of the pairs, as vLLM gives them."""

    id: str
    object: Literal["list"]
    model: str
    data: list[Score]
    usage: dict[str, int]


class ModelsResponse(BaseModel):
    """The one model of the server, as OpenAI's clients read it."""

    object: Literal["list"]
    data: list[dict[str, Any]]


class TeiRank(BaseModel):
    """A text's place."""

    index: int
    score: float
    text: str | None = None


class SearchHit(BaseModel):
    """A document that was found, or a passage: the text of that, and what each scorer gave it."""

    id: str
    line_id: str
    relevance_score: float | None
    score: float | None
    percentile: float | None
    title: str
    text: str
    passage: dict[str, int] | None
    place: dict[str, Any] | None
    citation: str
    metadata: dict[str, Any]
    parts: dict[str, float | None]
    duplicates: list[str]
    excerpt: dict[str, Any] | None = None
    rank_compared: int | None = None


class Order(BaseModel):
    """Hits of a system, best first; the verdict is on the whole candidate pool."""

    system: str
    results: list[SearchHit]
    verdict: ShownVerdict


class SearchResponse(Order):
    """What was found; `compared` is the order of `compare_with`."""

    id: str
    model: str
    compared: Order | None = None
    packed: str | None = None


class ChosenDocuments(BaseModel):
    """Stored documents: of these ids, of those that a filter of Qdrant lets through, of a tenant."""

    model_config = ConfigDict(extra="forbid")

    ids: Annotated[list[Text] | None, Field(max_length=MOST_DOCUMENTS)] = None
    filter: dict[str, Any] | None = None
    tenant: Text | None = None


class ListRequest(BaseModel):
    """Which documents' ids are listed, and how many, after so many others."""

    model_config = ConfigDict(extra="forbid")

    filter: dict[str, Any] | None = None
    tenant: Text | None = None
    limit: _Depth = 1000
    offset: _Whole = 0


class IdsResponse(BaseModel):
    """Ids of documents, always in the same order."""

    ids: list[str]


class DocumentsResponse(BaseModel):
    """What became of documents, and how many the index holds now."""

    id: str
    added: int
    updated: int
    unchanged: int
    deleted: int
    documents: int


class JobResponse(BaseModel):
    """What has become of the documents of a job so far."""

    id: str
    state: Literal["waiting", "running", "done", "failed"]
    total: int
    added: int
    updated: int
    unchanged: int
    error: str = Field(description="Why it failed; what was stored before stays.")


class ErrorResponse(BaseModel):
    """What is wrong, under the names that clients of Cohere and of Jina read."""

    message: str
    detail: str


class TeiErrorResponse(BaseModel):
    """What is wrong, as Text Embeddings Inference says it."""

    error: str
    error_type: str
