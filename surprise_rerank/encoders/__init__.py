"""Texts to dense vectors and token vectors, and long documents to passages."""
