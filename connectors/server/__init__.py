"""Re-ranking and search as a web service, in the interfaces that tools already speak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core._lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.connectors.server._app import create_app as create_app
    from surprise_rerank.connectors.server._app import service_app as service_app
    from surprise_rerank.connectors.server._options import ServerOptions as ServerOptions
    from surprise_rerank.connectors.server._service import Service as Service

__getattr__, __all__ = lazy_names(
    __name__, {"_app": "create_app service_app", "_options": "ServerOptions", "_service": "Service"}
)
