"""Embedding endpoints over HTTP as OpenAI has them: also vLLM, TEI, Ollama, LM Studio, Jina and others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import httpx

from surprise_rerank.encoders.base import Kind
from surprise_rerank.encoders.function import FunctionEncoder
from surprise_rerank.errors import ModelError

OPENAI_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"

_SHOWN = 200  # characters of a server's message
# RFC 9110: timed out, too early, too many requests; faults of the server and of proxies may pass as well.
_TRANSIENT = frozenset({408, 425, 429, *range(500, 600)}) - {501}


class OpenAIEncoder(FunctionEncoder):
    """A model behind an endpoint that speaks OpenAI's embeddings API: `POST {url}/embeddings`.

    Requests that time out, cannot connect, or are answered by 429 or 5xx are sent again, after what the
    server's `Retry-After` asks for. The key is in no message and in no `repr`.

    Example::

        OpenAIEncoder("text-embedding-3-small", dimensions=512)
        OpenAIEncoder("nomic-embed-text", "http://localhost:11434/v1")            # Ollama
        OpenAIEncoder("intfloat/e5-base-v2", "http://localhost:8000/v1",          # vLLM
                      prompts={"query": "query: ", "document": "passage: "})

    Args:
        model: its name at the endpoint.
        url: of the API; `/embeddings` is added.
        api_key: by default that of the environment variable OPENAI_API_KEY; without one none is sent.
        dimensions: ask the model for shorter vectors, where it can.
        prompts: what is put before questions (`query`) and documents (`document`).
        timeout: seconds until a request counts as failed.
        options: of `FunctionEncoder`: name, batch, batch_characters, window, unit, attempts, per_minute,
            cache.

    Raises:
        ModelError: if the url is none of HTTP.
        DataError: if an option is wrong.
    """

    def __init__(
        self,
        model: str,
        url: str = OPENAI_URL,
        *,
        api_key: str | None = None,
        dimensions: int | None = None,
        prompts: Mapping[Kind, str] | None = None,
        timeout: float = 60.0,
        **options: Any,
    ) -> None:
        try:
            address = httpx.URL(url)
        except (httpx.InvalidURL, TypeError) as error:
            raise ModelError(f"{url!r} is no url of an endpoint: {error}") from error
        if address.scheme not in ("http", "https") or not address.host:
            raise ModelError(f"{_shown(address)!r} is no url of an endpoint; give one such as {OPENAI_URL}")
        key = api_key or os.environ.get(KEY_VARIABLE) or ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        body: dict[str, Any] = {"model": model}
        if dimensions is not None:
            body["dimensions"] = dimensions
        endpoint = _Endpoint(
            address.copy_with(path=f"{address.path.rstrip('/')}/embeddings"),
            httpx.Client(headers=headers, timeout=timeout),
            body,
            key,
        )
        before = dict(prompts or {})

        def asking(kind: Kind) -> Any:
            prompt = before.get(kind, "")
            return lambda texts: endpoint.vectors([prompt + text for text in texts])

        options = {"name": model, **options}
        super().__init__(asking("document"), query_embed=asking("query"), dimension=dimensions, **options)
        self._endpoint = endpoint

    def close(self) -> None:
        """Close the connections; the encoder cannot be used afterwards."""
        self._endpoint.client.close()


class _Busy(Exception):  # noqa: N818 - it may pass, so that FunctionEncoder tries again
    """An answer that may be another one later. `response` has the headers that ask for a pause."""

    def __init__(self, message: str, response: httpx.Response) -> None:
        super().__init__(message)
        self.response = response


class _Endpoint:
    """Sends texts, and takes the answers apart.

    Args:
        url: where to.
        client: with the key in its headers.
        body: what every request says beside its texts.
        key: so that it can be left out of the server's messages.
    """

    def __init__(self, url: httpx.URL, client: httpx.Client, body: Mapping[str, Any], key: str) -> None:
        self._url, self.client, self._body, self._key = url, client, body, key

    def vectors(self, texts: list[str]) -> list[Any]:
        """The vectors of one request, in the order of the texts.

        Raises:
            _Busy: if the server may answer otherwise later.
            ModelError: if it refuses, or answers something else.
        """
        answer = self.client.post(self._url, json={**self._body, "input": texts})
        if answer.is_success:
            return self._taken_apart(answer)
        shown = f"{_shown(self._url)} answered {answer.status_code}: {self._message(answer)}"
        if answer.status_code in _TRANSIENT:
            raise _Busy(shown, answer)
        match answer.status_code:
            case 401 | 403:
                advice = f"set {KEY_VARIABLE} to a key of this endpoint" + (
                    "" if self._key else "; none was sent"
                )
            case 404:
                advice = f"check the url, and that the endpoint has the model {self._body['model']!r}"
            case 400 | 413 | 422:
                advice = "check the model, and send less at a time (batch=..., window=...)"
            case _:
                advice = "check the url"
        raise ModelError(f"{shown}; {advice}")

    def _taken_apart(self, answer: httpx.Response) -> list[Any]:
        try:
            items = answer.json()["data"]
            # Some servers answer in another order, and some without numbers.
            places = [int(item.get("index", i)) for i, item in enumerate(items)]
            vectors = {place: item["embedding"] for place, item in zip(places, items, strict=True)}
            if sorted(vectors) != list(range(len(items))):
                raise ValueError(f"the indexes {sorted(places)[:5]}")
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ModelError(
                f"{_shown(self._url)} answered something else than OpenAI's embeddings "
                f"({type(error).__name__}: {str(error)[:_SHOWN]}); check the url"
            ) from error
        return [vectors[i] for i in range(len(items))]

    def _message(self, answer: httpx.Response) -> str:
        """What the server says, in one line, without the key."""
        try:
            said = answer.json()
            for name in ("error", "message", "detail"):
                said = said[name] if isinstance(said, dict) and name in said else said
        except ValueError:
            said = answer.text
        shown = " ".join(str(said).split())
        return (shown.replace(self._key, "***") if self._key else shown)[:_SHOWN]


def _shown(url: httpx.URL) -> str:
    """A url without the password and the parameters that it may hold."""
    return str(url.copy_with(userinfo=b"", query=None))
