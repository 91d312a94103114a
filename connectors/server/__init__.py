"""Re-ranking and search as a web service, in the interfaces that tools already speak."""

from surprise_rerank.connectors.server.app import create_app, service_app
from surprise_rerank.connectors.server.options import ServerOptions
from surprise_rerank.connectors.server.service import Service

__all__ = ["ServerOptions", "Service", "create_app", "service_app"]
