"""Retrieval: systems over data sets of judged questions."""
