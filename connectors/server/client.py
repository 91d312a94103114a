"""Asking a running `surprise-rerank serve`: no model and no index are needed on this side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack
from urllib.parse import quote

import httpx

from surprise_rerank.connectors.qdrant.location import shown_url
from surprise_rerank.errors import DataError, StoreError

if TYPE_CHECKING:
    from surprise_rerank.documents import Document
    from surprise_rerank.rerank.diversity import DiversityOptions

# Where the token is, of the server and of those who ask it; an option would be seen by other users.
TOKEN_VARIABLE = "SURPRISE_RERANK_TOKEN"
_SECONDS = 120.0  # longer than a server takes before it gives up
_SHOWN = 300  # characters of a server's message


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server found for a question.

    Attributes:
        system: that ranked.
        hits: best first, with the fields of `SearchHit`.
        verdict: whether the question got an answer, with the fields of `candidates.Verdict`.
    """

    system: str
    hits: list[Mapping[str, Any]]
    verdict: Mapping[str, Any] | None = None


class SearchClient:
    """A connection to a server; a context manager.

    Its methods raise a StoreError if the server cannot be reached, has no index or cannot answer now, and a
    DataError if it refuses the token or what is asked for.

    Args:
        url: of the server, such as http://localhost:8000; what it is mounted at may follow.
        token: that the server asks for, if it does; it is in no message.
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        said = f"{shown_url(url)!r} is no url of a server; give one such as http://localhost:8000"
        try:
            address = httpx.URL(url)
        except (httpx.InvalidURL, TypeError) as error:
            raise DataError(f"{said} ({error})") from error
        if address.scheme not in ("http", "https") or not address.host:
            raise DataError(said)
        if token and not (token.isascii() and token.isprintable()):
            raise DataError(f"the token has characters that no header holds; correct {TOKEN_VARIABLE}")
        self._has_token = bool(token)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(base_url=address, headers=headers, timeout=_SECONDS)
        self.url = shown_url(str(address)).rstrip("/")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def search(
        self,
        question: str,
        top_k: int = 10,
        min_surprise: float | None = None,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - Qdrant's name for it
        system: str | None = None,
        depth: int | None = None,
        excerpts: bool = False,
        **diversity: Unpack[DiversityOptions],
    ) -> Answer:
        """The best documents of the server's index for a question.

        The arguments are those of `/v1/search`; the server's own default holds where one is None.
        """
        asked = {"query": question, "top_k": top_k, "min_surprise": min_surprise, "filter": filter}
        asked |= {"system": system, "depth": depth, "excerpts": excerpts or None, **diversity}
        body = {name: value for name, value in asked.items() if value is not None}
        found = self._sent("POST", "/v1/search", body)
        try:
            hits: list[Mapping[str, Any]] = [{**hit, "id": str(hit["id"])} for hit in found["results"]]
            verdict = found.get("verdict")
            return Answer(str(found["system"]), hits, None if verdict is None else dict(verdict))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._stranger() from error

    def store(self, documents: Sequence[Document]) -> dict[str, int]:
        """Store documents in the server's index, or replace those of the same id.

        Returns:
            How many were `added`, `updated` and `unchanged`, and how many `documents` there are now.
        """
        rows = [
            {"id": own.id, "title": own.title, "text": own.text, "metadata": dict(own.metadata)}
            for own in documents
        ]
        return self._counts(self._sent("PUT", "/v1/documents", {"documents": rows}))

    def delete(self, id: str) -> dict[str, int]:  # noqa: A002 - the field's name
        """Remove a document from the server's index; returns as `store`, with `deleted`."""
        return self._counts(self._sent("DELETE", f"/v1/documents/{quote(id, safe='')}"))

    def _counts(self, found: Any) -> dict[str, int]:
        try:
            return {name: int(value) for name, value in found.items() if name != "id"}
        except (AttributeError, TypeError, ValueError) as error:
            raise self._stranger() from error

    def _sent(self, method: str, route: str, body: Mapping[str, Any] | None = None) -> Any:
        try:
            answer = self._client.request(method, route, json=body)
            content = answer.json()
        except httpx.TimeoutException as error:
            raise StoreError(f"{self.url} did not answer in {_SECONDS:g} s; try again later") from error
        except httpx.HTTPError as error:
            raise StoreError(
                f"{self.url} cannot be reached ({str(error) or type(error).__name__}); check the url, and "
                "that 'surprise-rerank serve' runs there"
            ) from error
        except ValueError as error:
            raise self._stranger() from error
        if not answer.is_success:
            raise self._refusal(answer, content)
        return content

    def _refusal(self, answer: httpx.Response, content: Any) -> DataError | StoreError:
        status = answer.status_code
        said = content.get("message") if isinstance(content, Mapping) else None
        message = f"{self.url} answered {status}: {str(said or 'no message')[:_SHOWN]}"
        if status == 401:
            given = "the one there is not the server's" if self._has_token else "none is set"
            return DataError(f"{self.url} asks for a token; set {TOKEN_VARIABLE} ({given})")
        if status == 404:
            message += "; start it with an index: 'surprise-rerank serve --index FOLDER'"
        if status in (429, 503):
            message += f" (Retry-After: {answer.headers.get('Retry-After', '-')} s)"
        return (StoreError if status in (404, 429) or status >= 500 else DataError)(message)

    def _stranger(self) -> StoreError:
        said = "answered something else than 'surprise-rerank serve' does; check the url"
        return StoreError(f"{self.url} {said}")
