"""Embedding endpoints over HTTP as OpenAI has them: also vLLM, TEI, Ollama, LM Studio, Jina and others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_args

import httpx

from surprise_rerank import _border as border
from surprise_rerank._errors import ModelError
from surprise_rerank.core._process import PerProcess, require_no_secret
from surprise_rerank.encoders._function import FunctionEncoder
from surprise_rerank.encoders.base import Kind

OPENAI_URL = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"

_SHOWN = 200  # characters of a server's message
# RFC 9110: timed out, too early, too many requests; faults of the server and of proxies may pass as well.
_TRANSIENT = frozenset({408, 425, 429, *range(500, 600)}) - {501}
_LESS = "check the model, and send less at a time (batch=..., window=...)"
_ADVICE = {404: "check that the endpoint has this model", **dict.fromkeys((400, 413, 422), _LESS)}


class OpenAIEncoder(FunctionEncoder):
    """A model behind an endpoint that speaks OpenAI's embeddings API: `POST {url}/embeddings`.

    Requests that time out, cannot connect, or are answered by 429 or 5xx are sent again, after what the
    server's `Retry-After` asks for. The key is in no message, no `repr` and no pickle. Every process has its
    own connections. The options are those of `FunctionEncoder`, such as batch and per_minute.
    """

    def __init__(
        self,
        model: str,
        url: str = OPENAI_URL,  # of the API; `/embeddings` is added
        *,
        api_key: str | None = None,  # that of the environment by default; without one none is sent
        key_variable: str = KEY_VARIABLE,  # which holds it there
        dimensions: int | None = None,  # ask the model for shorter vectors, where it can
        prompts: Mapping[Kind, str] | None = None,  # what is put before texts of `query` and `document`
        timeout: float = 60.0,  # seconds until a request counts as failed
        **options: Any,
    ) -> None:
        model = border.text("model", model, blank=False)
        address = httpx.URL(border.text("url", url))
        border.optional(border.text, "api_key", api_key)
        self._variable = border.text("key_variable", key_variable, blank=False)
        dimensions = border.optional(border.count, "dimensions", dimensions)
        timeout = border.number("timeout", timeout, 0)
        prefixes = border.mapping("prompts", {} if prompts is None else prompts, border.text)
        border.choices("prompts", list(prefixes), get_args(Kind))
        if address.scheme not in ("http", "https") or not address.host:
            raise ModelError(f"{_shown(address)!r} is no url of an endpoint; give one such as {OPENAI_URL}")
        self._key, self._timeout = None if api_key is None else _Secret(api_key), timeout
        self._client = PerProcess(self._connect)
        self._url = address.copy_with(path=f"{address.path.rstrip('/')}/embeddings")
        self._body = {"model": model} | ({} if dimensions is None else {"dimensions": dimensions})
        documents, questions = (partial(self._ask, prefixes.get(kind, "")) for kind in ("document", "query"))
        super().__init__(documents, query_embed=questions, dimension=dimensions, **{"name": model, **options})

    def close(self) -> None:
        """Close the connections; the encoder cannot be used afterwards."""
        self._client.get().close()

    def __getstate__(self) -> dict[str, Any]:
        key = self._url.password or (None if self._key is None else self._key.value)
        require_no_secret(key, self._variable, f"the encoder {self.name!r}")
        return {**vars(self), "_key": None}

    def _connect(self) -> httpx.Client:
        secret = "" if self._key is None else self._key.value
        key = secret or os.environ.get(self._variable) or ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(headers=headers, timeout=self._timeout)

    def _ask(self, prompt: str, texts: list[str]) -> list[Any]:
        """The vectors of one request, in order; an HTTPStatusError if it may be answered later."""
        body = {**self._body, "input": [prompt + text for text in texts]}
        answer = self._client.get().post(self._url, json=body)
        if answer.is_success:
            return self._vectors(answer)
        said = f"{_shown(self._url)} answered {answer.status_code}: {self._message(answer)}"
        if answer.status_code in _TRANSIENT:
            raise httpx.HTTPStatusError(said, request=answer.request, response=answer)
        advice = _ADVICE.get(answer.status_code, "check the url")
        if answer.status_code in (401, 403):
            advice = f"set {self._variable} to a key of this endpoint"
        if answer.status_code == 401 and "Authorization" not in self._client.get().headers:
            advice += "; none was sent"
        raise ModelError(f"{said}; {advice}")

    def _vectors(self, answer: httpx.Response) -> list[Any]:
        try:
            items = answer.json()["data"]
            # Some servers answer in another order, and some without numbers.
            vectors = {int(item.get("index", i)): item["embedding"] for i, item in enumerate(items)}
            return [vectors[i] for i in range(len(items))]
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ModelError(
                f"{_shown(self._url)} answered something else than OpenAI's embeddings "
                f"({type(error).__name__}: {str(error)[:_SHOWN]}); check the url"
            ) from error

    def _message(self, answer: httpx.Response) -> str:
        """What the server says, in one line, without the key."""
        try:
            said = answer.json()
            for name in ("error", "message", "detail"):
                said = said[name] if isinstance(said, dict) and name in said else said
        except ValueError:
            said = answer.text
        shown = " ".join(str(said).split())
        key = self._client.get().headers.get("Authorization", "").removeprefix("Bearer ")
        return (shown.replace(key, "***") if key else shown)[:_SHOWN]


@dataclass(frozen=True, slots=True)
class _Secret:
    """A key, which its representation does not show."""

    value: str = field(repr=False)


def _shown(url: httpx.URL) -> str:
    """A url without the password and the parameters that it may hold."""
    return str(url.copy_with(userinfo=b"", query=None))
