"""Retrievers: from a query to a candidate pool."""
