"""Semantic textual similarity: how well similarities of texts agree with people."""
