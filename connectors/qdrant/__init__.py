"""Qdrant: embedded, server or cluster."""
