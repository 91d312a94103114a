"""Requests to Qdrant, and the candidates that come back."""
