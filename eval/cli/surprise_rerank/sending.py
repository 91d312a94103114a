"""Documents for an index that a running `surprise-rerank serve` has open, and nobody else can write to."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx

from surprise_rerank._documents import Document
from surprise_rerank._errors import DataError, StoreError
from surprise_rerank.connectors._progress import Terminal
from surprise_rerank.connectors.server._process import TOKEN_VARIABLE
from surprise_rerank.core._batches import in_batches
from surprise_rerank.eval.cli.console import Output, counted
from surprise_rerank.eval.cli.options import Sources, skipped_lines

# Documents and characters of a request; a server encodes them before it answers.
_SENT, _CHARACTERS = 64, 500_000
_PLACE = 60  # characters of a place
_SECONDS = 120.0
_COUNTS = ("documents", "added", "updated", "unchanged")  # of an answer


def send(url: str, sources: Sources, out: Output, *, is_here: bool = False) -> None:
    """Store documents by requests; a server on this machine alone is told where they were read."""
    token = os.environ.get(TOKEN_VARIABLE, "").partition(" ")[0]  # while one is replaced there are two
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    done, stored = Counter[str](), 0

    def size(document: Document) -> int:
        return len(document.content) + _PLACE * len(document.places)

    with httpx.Client(base_url=url, headers=headers, timeout=_SECONDS) as client:
        terminal = Terminal(quiet=out.quiet)
        with terminal.bar("sending", sources.expected(), "documents") as advance:
            for batch in in_batches(sources, size, _CHARACTERS, _SENT):
                documents = [
                    {
                        "id": document.id,
                        "text": document.text,
                        "title": document.title,
                        "metadata": dict(document.metadata),
                        "source": document.source if is_here else "",
                        "places": [[offset, place.to_json()] for offset, place in document.places],
                    }
                    for document in batch
                ]
                answer = _put(client, url, documents)
                stored = answer.pop("documents")
                done.update(answer)
                advance(len(batch))
    skipped = sources.skipped()
    counts = ", ".join(f"{done[name]} {name}" for name in ("added", "updated", "unchanged"))
    values = {"server": url, **done, "documents": stored, "skipped": skipped}
    out.result(values, [f"{url}: {counts}; {counted(stored, 'document')}"], skipped_lines(skipped))


def _put(client: httpx.Client, url: str, documents: Sequence[dict[str, Any]]) -> dict[str, int]:
    try:
        answer = client.put("/v1/documents", json={"documents": documents})
        values = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise StoreError(
            f"no answer of `surprise-rerank serve` at {url}: {error or type(error).__name__}"
        ) from error
    if answer.is_success:
        try:
            return {name: int(values[name]) for name in _COUNTS}
        except (TypeError, ValueError, LookupError) as error:
            raise StoreError(
                f"{url} is another server than `surprise-rerank serve`; give the url of one"
            ) from error
    message = values.get("message") if isinstance(values, dict) else None
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        message = "the token is missing or wrong; set SURPRISE_RERANK_TOKEN to one that may write"
    said = f"the server at {url} says: {message or answer.reason_phrase}"
    raise StoreError(said) if answer.is_server_error else DataError(said)
