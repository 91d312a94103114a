"""The files that documents were read from, which citations of the page open."""

from __future__ import annotations

import mimetypes
from typing import TYPE_CHECKING

from surprise_rerank.connectors.server._answers import RefusedError
from surprise_rerank.connectors.server._door import record_of
from surprise_rerank.connectors.server._service import Service

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

# A browser runs nothing of a file, and shows a PDF or a text alone.
_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_SANDBOX = {"Content-Security-Policy": "sandbox; default-src 'none'"}


def file_route(service: Service) -> Route:
    """Return the route of a file, which must be that of a document of the index, by its id."""
    from starlette.responses import FileResponse
    from starlette.routing import Route

    folder = service.options.files
    assert folder is not None

    def send(request: Request) -> Response:  # in a thread: an index on a server is asked
        name = request.path_params["path"]
        index = service.required().documents_of(record_of(request.scope).owner.tenant)
        path = (folder / name).resolve()
        is_inside = path.is_relative_to(folder.resolve()) and path.is_file()
        if index is None or not is_inside or not len(index.fetch([name], (), skip_missing=True)):
            raise RefusedError(404, "there is no file of a document of this id")
        if path.suffix.lower() == ".pdf":  # a sandbox has no reader of PDFs
            return FileResponse(path, media_type="application/pdf", headers=_HEADERS)
        is_text = (mimetypes.guess_type(name)[0] or "").startswith("text/")
        kind = "text/plain" if is_text else "application/octet-stream"
        return FileResponse(path, media_type=kind, headers={**_HEADERS, **_SANDBOX})

    return Route("/files/{path:path}", send, methods=["GET"])
