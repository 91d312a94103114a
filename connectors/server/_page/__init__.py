"""The page to search in: three files, that need no other host and no build step."""

from __future__ import annotations

import importlib.resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.routing import Route

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


def page_routes() -> list[Route]:
    """The page at `/`, and what it is made of."""
    folder = importlib.resources.files(__name__)
    return [_route(path, folder.joinpath(name).read_bytes(), kind) for path, (name, kind) in _FILES.items()]


def _route(path: str, content: bytes, kind: str) -> Route:
    from starlette.responses import Response
    from starlette.routing import Route

    async def send(request: object) -> Response:
        return Response(content, headers=_HEADERS, media_type=kind)

    return Route(path, send)
