"""Re-ranking and search as a web service, in the interfaces that tools already speak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core.lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.connectors.server.app import create_app as create_app
    from surprise_rerank.connectors.server.app import service_app as service_app
    from surprise_rerank.connectors.server.options import ServerOptions as ServerOptions
    from surprise_rerank.connectors.server.service import Service as Service

__getattr__, __all__ = lazy_names(
    __name__, {"app": "create_app service_app", "options": "ServerOptions", "service": "Service"}
)
