"""The page to search in: three files, that need no other host and no build step."""

from __future__ import annotations

import importlib.resources
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import APIRouter
    from starlette.responses import Response

# What the page may do: its own script and style, and requests to its own server. Texts become no HTML at all.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_FILES = {
    "/": ("page.html", "text/html"),
    "/page/style.css": ("style.css", "text/css"),
    "/page/script.js": ("script.js", "text/javascript"),
    "/page/icon.svg": ("icon.svg", "image/svg+xml"),
}
# They hold nothing of the index, and a browser sends no token when it fetches them.
PAGE_ROUTES = frozenset(_FILES)


def page_routes() -> APIRouter:
    """The page at `/`, and what it is made of."""
    from fastapi import APIRouter

    router = APIRouter(include_in_schema=False)
    for path, (name, kind) in _FILES.items():
        content = importlib.resources.files(__name__).joinpath(name).read_bytes()
        router.add_api_route(path, _sends(content, kind), methods=["GET", "HEAD"], response_model=None)
    return router


def _sends(content: bytes, kind: str) -> Callable[[], Awaitable[Response]]:
    from starlette.responses import Response

    async def send() -> Response:
        return Response(content, headers=_HEADERS, media_type=kind)

    return send
