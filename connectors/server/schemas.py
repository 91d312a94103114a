"""The bodies of requests and answers, as Cohere, Jina and Text Embeddings Inference define them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from surprise_rerank.candidates import Status
from surprise_rerank.connectors.server.options import MOST_DOCUMENTS
from surprise_rerank.documents import encodable

# JSON can spell halves of characters, which no encoder takes.
Text: TypeAlias = Annotated[StrictStr, AfterValidator(encodable)]


def _whole(value: object) -> object:
    """JSON Schema's integers: 2.0 is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_Count: TypeAlias = Annotated[StrictInt, BeforeValidator(_whole), Field(ge=1)]
_Share = Annotated[StrictFloat, Field(ge=0, le=1, allow_inf_nan=False)]
_MIN_SURPRISE = "Leave out what is less surprising. An extension; needs a background of other questions."


class DocumentObject(BaseModel):
    """A document with fields. All of them come back where documents are asked for."""

    model_config = ConfigDict(extra="allow")

    text: Text | None = Field(None, description="What is ranked, unless `rank_fields` names other fields.")
    id: Any = Field(
        None,
        description="An extension: a string names a document of the server's index, whose stored vectors "
        "are then taken instead of the text.",
    )


_Documents: TypeAlias = Annotated[
    list[Text | DocumentObject], Field(fail_fast=True, max_length=MOST_DOCUMENTS)
]
_Texts: TypeAlias = Annotated[list[Text], Field(fail_fast=True, max_length=MOST_DOCUMENTS)]
_Names: TypeAlias = Annotated[list[Text], Field(fail_fast=True, min_length=1, max_length=100)]


class Varied(BaseModel):
    """How different results should be: extensions, which say otherwise than the server was started with."""

    diversity: _Share | None = Field(
        None,
        description="Different results first: 0 orders by relevance alone, 1 by difference.",
    )
    mmr: _Share | None = Field(None, description="The same as 1 - diversity.")
    collapse: _Share | None = Field(None, description="Fold what has this cosine to a better result into it.")


class RerankRequest(Varied):
    """What Cohere's and Jina's clients send; fields that are not listed are ignored."""

    query: Text = Field(description="The question.")
    documents: _Documents = Field(description="What is ranked: strings, or objects with `text`.")
    model: Text | None = Field(None, description="Read by nobody: the server has one model, see `/info`.")
    top_n: _Count | None = Field(None, description="The most results.")
    return_documents: StrictBool | None = Field(None, description="Whether results hold their documents.")
    rank_fields: _Names | None = Field(
        None, description="Fields of objects that are ranked, joined in this order; `text` by default."
    )
    max_tokens_per_doc: _Count | None = Field(None, description="Documents are cut to so many tokens.")
    min_surprise: _Share | None = Field(None, description=_MIN_SURPRISE)


class ShownVerdict(BaseModel):
    """Whether the question got an answer; an extension."""

    status: Status = Field(
        description="`answered`, `weak` or `off-topic` by the chance; `unknown` where nobody can tell; "
        "`no match` without a candidate."
    )
    chance: float | None = Field(
        description="Of an answer among the first ten; null where it cannot be told."
    )
    reason: str = Field(description="The status in a sentence.")


class RerankResult(BaseModel):
    """A document's place."""

    index: int = Field(ge=0, description="Its position in the request.")
    relevance_score: float = Field(
        description="Its surprise, from 0 to 1, with a background; else the re-ranker's score."
    )
    document: dict[str, Any] | None = Field(
        default=None, description="The document, where it was asked for; a string as {text}."
    )
    duplicates: list[int] | None = Field(
        default=None, description="Positions of what was folded into it, where that was asked for."
    )


class BilledUnits(BaseModel):
    """What Cohere counts."""

    search_units: int = 1


class ApiVersion(BaseModel):
    """Of the interface."""

    version: str


class Meta(BaseModel):
    """What Cohere's clients read beside the results."""

    api_version: ApiVersion
    billed_units: BilledUnits


class Usage(BaseModel):
    """What Jina's clients read beside the results."""

    total_tokens: int = Field(
        ge=0, description="That the model read; documents with stored vectors have none."
    )


class RerankResponse(BaseModel):
    """Results, best first."""

    id: str = Field(description="The request's id, also in the header X-Request-Id.")
    model: str
    results: list[RerankResult]
    verdict: ShownVerdict = Field(description="On all documents, also where min_surprise leaves them out.")
    meta: Meta
    usage: Usage


class TeiRequest(BaseModel):
    """What clients of Text Embeddings Inference send; fields that are not listed are ignored."""

    query: Text = Field(description="The question.")
    texts: _Texts = Field(description="What is ranked.")
    raw_scores: StrictBool = Field(False, description="The re-ranker's own scores instead of 0 to 1.")
    return_text: StrictBool = Field(False, description="Whether ranks hold their texts.")
    truncate: StrictBool | None = Field(
        None,
        description="Whether longer texts than the model reads are cut or refused; otherwise "
        "their best passage counts.",
    )
    truncation_direction: Literal["Left", "Right", "left", "right"] = Field(
        "Right", description="Which end is cut off."
    )
    min_surprise: _Share | None = Field(None, description=_MIN_SURPRISE)


class TeiRank(BaseModel):
    """A text's place."""

    index: int = Field(ge=0, description="Its position in the request.")
    score: float
    text: str | None = Field(default=None, description="Where it was asked for.")


class SearchRequest(Varied):
    """A question to the server's index; a field that is not listed is refused."""

    # A filter that were ignored because of a misspelled name would show what it should hide.
    model_config = ConfigDict(extra="forbid")

    query: Text = Field(description="The question.")
    top_k: Annotated[_Count, Field(le=MOST_DOCUMENTS)] = Field(10, description="The most hits.")
    filter: dict[str, Any] | None = Field(
        None,
        description="Only documents that Qdrant's filter lets through, in Qdrant's JSON; their metadata is "
        "at `metadata.KEY`.",
    )
    system: Text | None = Field(None, description="What ranks, of those in `/info`; the first by default.")
    depth: Annotated[_Count, Field(le=MOST_DOCUMENTS)] | None = Field(
        None, description="Size of the candidate pool that is re-ranked."
    )
    min_surprise: _Share | None = Field(None, description=_MIN_SURPRISE)
    keep_refused: StrictBool = Field(
        False, description="Whether what `min_surprise` refuses comes all the same; the verdict stays."
    )
    excerpts: StrictBool = Field(
        False, description="Whether hits hold the sentence with most of the question's words."
    )
    compare_with: Text | None = Field(
        None, description="Another system, whose order of the same question comes beside: `compared`."
    )


class HitPassage(BaseModel):
    """A stretch of a document's title and text, with a space between."""

    number: int = Field(ge=0, description="0 for the first of its document.")
    start: int = Field(ge=0, description="Its first character.")
    end: int = Field(ge=0, description="After its last character.")


class ShownExcerpt(BaseModel):
    """A sentence of a hit."""

    text: str
    marks: list[tuple[int, int]] = Field(
        description="Start and end of every word of it that the question has too, in code points."
    )


class SearchHit(BaseModel):
    """A document that was found."""

    id: str
    relevance_score: float | None = Field(
        description="Its surprise, from 0 to 1, where the server has a background; else its score."
    )
    score: float | None = Field(description="The system's; null where it has none.")
    surprise: float | None
    title: str
    text: str = Field(description="Its best passage, or all of it.")
    passage: HitPassage | None = Field(description="Where that passage is; null where documents are whole.")
    metadata: dict[str, Any]
    parts: dict[str, float | None] = Field(description="What each scorer gave it.")
    duplicates: list[str] = Field(description="Ids of near-duplicates that were folded into it.")
    excerpt: ShownExcerpt | None = Field(
        default=None, description="The best sentence without the title, where it was asked for."
    )
    rank_compared: int | None = Field(
        default=None,
        description="Its rank by `compare_with`, from 1; null where that one's pool does not have it.",
    )


class NewDocument(BaseModel):
    """A document to be stored, in place of one of the same id."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[Text, Field(min_length=1)]
    text: Text
    title: Text = ""
    metadata: dict[str, Any] = Field(default_factory=dict, description="Comes with hits; filters read it.")


class DocumentsRequest(BaseModel):
    """Documents to be stored."""

    model_config = ConfigDict(extra="forbid")

    documents: Annotated[list[NewDocument], Field(fail_fast=True, max_length=MOST_DOCUMENTS)]


class DocumentsResponse(BaseModel):
    """What became of documents."""

    id: str = Field(description="The request's id, also in the header X-Request-Id.")
    added: int
    updated: int
    unchanged: int
    deleted: int
    documents: int = Field(description="How many the index holds now.")


class Order(BaseModel):
    """Hits of a system, best first."""

    system: str
    results: list[SearchHit]
    verdict: ShownVerdict = Field(
        description="On the whole candidate pool, also where min_surprise leaves everything out."
    )


class SearchResponse(Order):
    """What was found."""

    id: str = Field(description="The request's id, also in the header X-Request-Id.")
    model: str
    compared: Order | None = Field(default=None, description="The order of `compare_with`.")


class Limits(BaseModel):
    """What is allowed."""

    max_body: int
    max_documents: int
    max_characters: int
    max_requests: int
    workers: int
    max_batch: int
    timeout: float


class Info(BaseModel):
    """What is served. The names that Text Embeddings Inference has too mean the same."""

    model_id: str
    version: str
    system: str
    search: bool = Field(description="Whether there is an index for `/v1/search`.")
    documents: int | None = Field(
        description="How many the index holds; null without one, or where it cannot be read at the moment."
    )
    systems: dict[str, str] = Field(
        description="What `/v1/search` can rank by, the default first, and what each does."
    )
    measured: list[str] = Field(description="Those of `systems` whose documents have a surprise.")
    examples: list[str] = Field(description="Questions of the documents' own words, to try.")
    min_surprise: float | None = Field(description="The default of searches.")
    depth: int | None = Field(description="The default of searches; null without an index.")
    background: int | None = Field(description="How many questions surprise is measured against.")
    max_input_length: int | None = Field(description="Tokens of a text that the model reads.")
    max_client_batch_size: int
    max_concurrent_requests: int
    limits: Limits


class State(BaseModel):
    """Whether the server is alive, or ready."""

    status: str


class ErrorResponse(BaseModel):
    """What is wrong, under the names that clients of Cohere and of Jina read."""

    message: str
    detail: str


class TeiErrorResponse(BaseModel):
    """What is wrong, as Text Embeddings Inference says it."""

    error: str
    error_type: Literal["validation", "unauthorized", "overloaded", "unhealthy", "backend"]
